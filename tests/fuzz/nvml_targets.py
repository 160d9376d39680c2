"""Targets of NVML: a damaged file, as nvidia-smi and the C library read it, and slots on the wire."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from fakedev.base.errors import FieldError
from fakedev.kubernetes.nodes.node_view import slot_fields, slot_from
from fakedev.nvml.image import SlotImage
from fakedev.nvml.library import library_folder
from fakedev.nvml.nvml_mock import overrides_text
from fakedev.nvml.records import BOARD, HEAD, NODE, PART, SLOT, head_of
from fakedev.nvml.shell_environment import Unreadable, nodes_of
from fakedev.nvml.smi.boards import Failure, read_snapshot
from fakedev.nvml.smi.fields import COLUMNS
from fakedev.nvml.smi.report import text_report, xml_report
from fakedev.nvml.smi.tables import compute_instances, gpu_instances, link_states, matrix, table
from tests.fuzz.engine import Target
from tests.support.application import application
from tests.support.driver.nvml import boards, driver
from tests.support.paths import ROOT

#: A change of the file: at which byte which number is written; the last one may cut the file there.
_CHANGE: Final = struct.Struct("<Iq")
_CHANGE_NUMBER: Final = struct.Struct("=q")
_HOSTILE: Final = (0, -1, 1, 2, -(2**63), 2**63 - 1, 2**31, 2**62 + 8, 4096, 0xFFFFFFFF)
#: Marks the change that cuts.
_CUT: Final = 0x6375742163757421
#: So many inputs go to the C library in one process.
_BATCH: Final = 40


@cache
def _good() -> tuple[bytes, SlotImage]:
    """A file with instances, processes, links and an event; and the slot in it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "nvml.map")
        with application(boards(file, more="devices-per-node: 2, mig: [3g.40gb, 1g.10gb]")) as app:
            app.connect().say("fault xid code=31 devices=dgx-0/0")
            app.tick(3)
            return file.read_bytes(), SlotImage(app.fleet, [app.fleet.roster.nodes[0]])


@cache
def _driver() -> Path | None:
    """The program that calls the C library under the sanitizers; None without a compiler."""
    if shutil.which("cc") is None:
        return None
    folder = ROOT / ".pytest_cache" / "nvml" / f"fuzz-{library_folder()}"
    program = folder / "driver"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as unfinished:
            driver(Path(unfinished)).replace(program)
    return program


def _damaged(data: bytes) -> bytes:
    """The good file with the changes of an input, and a heartbeat of now."""
    content = bytearray(_good()[0])
    whole = len(data) - len(data) % _CHANGE.size
    for place, number in _CHANGE.iter_unpack(data[:whole]):
        if number == _CUT:
            del content[place % (len(content) + 1) :]
            break
        _CHANGE_NUMBER.pack_into(content, place % (len(content) - 8), number)
        if len(content) < HEAD.size:
            break
    beat = HEAD.offsets["heartbeat"]
    if len(content) >= beat + 8:
        _CHANGE_NUMBER.pack_into(content, beat, time.monotonic_ns())
    return bytes(content)


class MapFiles:
    """What nvidia-smi makes of a damaged file, and at the end of a round what the C library does."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fakedev-fuzz-"))
        self._files: list[Path] = []

    def run(self, data: bytes) -> str:
        """Read the file in all forms."""
        path = self._folder / f"map-{len(self._files)}"
        path.write_bytes(_damaged(data))
        self._files.append(path)
        try:
            nodes_of(str(path))
            snapshot = read_snapshot({"FAKEDEV_NVML_FILE": str(path)})
            found = snapshot.boards
            lines = [*table(found), *text_report(found, None), *xml_report(found)] if found else []
            lines += [*matrix(found), *link_states(found), overrides_text(snapshot)]
            lines += [column.read(board) or "" for column in COLUMNS for board in found]
            lines += [*gpu_instances(found), *compute_instances(found)]
        except Unreadable as reason:
            return str(reason)
        except Failure as failure:
            return failure.reason or failure.text
        assert all(isinstance(line, str) for line in lines)
        return f"{len(found)} boards"

    def stop(self) -> None:
        """Give all files of the round to the C library."""
        program = _driver()
        try:
            if program is not None and self._files:
                beat = HEAD.offsets["heartbeat"]
                for path in self._files:
                    content = bytearray(path.read_bytes())
                    if len(content) >= beat + 8:
                        _CHANGE_NUMBER.pack_into(content, beat, time.monotonic_ns())
                        path.write_bytes(content)
                command = [str(program), *map(str, self._files)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
                assert done.returncode == 0, done.stderr[-3000:]
                assert set(done.stdout.split()) <= {"0", "9"}, done.stdout
        finally:
            shutil.rmtree(self._folder)


class Slots:
    """What fakedev-node makes of an answer to ``boards``."""

    def run(self, data: bytes) -> str:
        """Read it."""
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError):
            return "no JSON"
        if not isinstance(fields, dict):
            return "no object"
        try:
            counts, content = slot_from(fields)
        except FieldError as error:
            return error.text
        assert len(content) == head_of(counts)["slot_bytes"]
        return f"{counts}"

    def stop(self) -> None:
        """Nothing is left."""


def _changes() -> Iterator[bytes]:
    head = head_of(_good()[1].counts)
    slots = [int(head["first_slot"]) + number * int(head["slot_bytes"]) for number in (0, 1)]
    places = [(0, HEAD)]
    for slot in slots:
        places += [(slot, SLOT), *((slot + int(head[name]), record) for name, record in (
            ("nodes_in_slot", NODE), ("boards_in_slot", BOARD), ("parts_in_slot", PART),
        ))]  # fmt: skip
    for begin, record in places:
        for number, place in enumerate(record.offsets.values()):
            yield _CHANGE.pack(begin + place, _HOSTILE[number % len(_HOSTILE)])
    for place in (0, 1, HEAD.size, slots[0] + 5, slots[1], int(head["file_bytes"]) - 1):
        yield _CHANGE.pack(place, _CUT)


def _map_seeds() -> list[bytes]:
    return [b"", *_changes()]


def _slot_seeds() -> list[bytes]:
    image = _good()[1]
    return [json.dumps(slot_fields(image.counts, bytes(image.content))).encode()]


def _numbers() -> list[bytes]:
    return [number.to_bytes(8, "little", signed=True) for number in (*_HOSTILE, _CUT)]


TARGETS: Final = (
    Target("NVML files", MapFiles, _map_seeds, _numbers, _BATCH, 4096),
    Target("slots of NVML", Slots, _slot_seeds, lambda: [b'"slot"', b'"counts"', b'"layout"', b"1", b"[]"], 200),
)
