"""The file for NVML of this node: what the service says of its boards, written once a second."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final

from fakedev.node.trouble import Trouble
from fakedev.nvml.map_file import MapFile
from fakedev.spec.binary_records import NUMBER_BYTES
from fakedev.spec.errors import FieldError
from fakedev.spec.nvml_layout import ABSENT, BOARD, SLOT, Counts, head_of
from fakedev.spec.os_errors import CannotWrite
from fakedev.wire.node_messages import slot_from

#: Seconds from one question to the next; the service gives no newer ticks than those of its own clock.
_ASK_SECONDS: Final = 1.0
#: All users may read the file.
_MODE: Final = 0o644

_log = logging.getLogger("fakedev.node")

#: Sends a request to the service.
Send = Callable[[str, Mapping[str, object]], Future[Mapping[str, object]]]


class NvmlMirror:
    """Writes the file. Its heartbeat is that of the service: without answers readers find no driver after 10 s.

    All methods are called in the program's thread.

    :param post: runs a call in the program's thread.
    :param monotonic_ns: CLOCK_MONOTONIC.
    """

    def __init__(
        self, path: str, send: Send, post: Callable[[Callable[[], None]], None], monotonic_ns: Callable[[], int]
    ) -> None:
        self._path, self._send, self._post, self._monotonic_ns = path, send, post, monotonic_ns
        self._file: MapFile | None = None
        self._counts: Counts | None = None
        self._xids: list[int] = []
        self._due_seconds = 0.0
        self._is_asked = False
        self._trouble = Trouble(_log, "the file for NVML")

    def turn(self, now: float, is_attached: bool) -> None:
        """Ask the service, if it is time; one question at a time."""
        if is_attached and not self._is_asked and now >= self._due_seconds:
            self._is_asked, self._due_seconds = True, now + _ASK_SECONDS
            self._send("boards", {}).add_done_callback(lambda done: self._post(partial(self._answered, done)))

    def stop(self) -> None:
        """Tell readers that nothing follows."""
        if self._file is not None:
            self._file.end()
            self._file = None

    def _answered(self, answer: Future[Mapping[str, object]]) -> None:
        self._is_asked = False
        error = answer.exception()
        if error is None:
            try:
                self._write(*slot_from(answer.result()))
            except (OSError, CannotWrite, FieldError) as reason:
                error = reason
        if error is None:
            self._trouble.over()
        else:
            self._trouble.met(str(error))

    def _write(self, counts: Counts, content: bytes) -> None:
        now_ns = self._monotonic_ns()
        if self._file is None or counts != self._counts:
            old = self._file
            file = MapFile(self._path, _MODE, counts, now_ns, is_ours=old is not None)
            file.write_slot(content)
            file.show()
            self._file, self._counts, self._xids = file, counts, _xids(counts, content)
            if old is not None:
                old.end(is_replaced=True)
            return
        self._file.write_slot(content)
        before, self._xids = self._xids, _xids(counts, content)
        for board, (code, last) in enumerate(zip(self._xids, before, strict=True)):
            if code not in (last, 0, ABSENT):
                tick, wall_time = (_number(content, SLOT.offsets[name]) for name in ("tick", "wall_time"))
                self._file.add_event(
                    {"board": board, "gpu_instance": ABSENT, "xid": code, "tick": tick, "wall_time": wall_time}
                )
        self._file.beat(now_ns)


def _xids(counts: Counts, content: bytes) -> list[int]:
    """The last error code of each board: of a code that comes twice in a row only the first is seen."""
    first = int(head_of(counts)["boards_in_slot"]) + BOARD.offsets["xid"]
    return [_number(content, first + board * BOARD.size) for board in range(counts.boards)]


def _number(content: bytes, place: int) -> int:
    return int.from_bytes(content[place : place + NUMBER_BYTES], sys.byteorder, signed=True)
