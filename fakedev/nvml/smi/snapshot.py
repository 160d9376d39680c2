"""One tick of a node, read from the file of the service as the NVML library reads it."""

from __future__ import annotations

import os
import sys
import time
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final, NamedTuple

from fakedev.nvml.environment import default_file
from fakedev.nvml.smi.failures import no_driver
from fakedev.spec import environment
from fakedev.spec import nvml_layout as layout
from fakedev.spec.binary_records import NUMBER_BYTES, Record
from fakedev.spec.nvml_layout import ABSENT, HEAD, SLOT, Counts, head_of

#: So often the slot is read again when the service has written it in between, or has made a new file.
_TRIES: Final = 100
_SECOND_NS: Final = 1_000_000_000
#: Nodes that a message names.
_LISTED: Final = 5
#: The numbers of the head that give the sizes of all.
_COUNTS: Final = ("node_count", "board_count", "part_count", "link_count", "process_capacity")

#: Of how many records of a kind there are, the number in the head.
_ROOMS: Final = {
    "node": "node_count", "board": "board_count", "part": "part_count", "link": "link_count",
    "process": "process_capacity",
}  # fmt: skip


class View:
    """A record in some bytes; its fields are read when they are asked for.

    :param start: its place in the bytes.
    """

    def __init__(self, record: Record, content: bytes, start: int = 0) -> None:
        self._record, self._content, self._start = record, content, start

    def number(self, name: str) -> int | None:
        """A number; None if there is none."""
        place = self._start + self._record.offsets[name]
        found = int.from_bytes(self._content[place : place + NUMBER_BYTES], sys.byteorder, signed=True)
        return None if found == ABSENT else found

    def count(self, name: str) -> int:
        """A number that is always there, as a count or a position."""
        return self.number(name) or 0

    def text(self, name: str) -> str:
        """A text; empty if there is none."""
        place = self._start + self._record.offsets[name]
        end = self._content.find(b"\0", place)
        return self._content[place:end].decode("utf-8", "replace")


class Board(NamedTuple):
    """A board with what belongs to it.

    :ivar place: its position among all boards of the file; links and processes name boards by it.
    :ivar node: of which it is a part.
    :ivar slot: the tick.
    """

    view: View
    place: int
    node: View
    slot: View
    parts: list[View]
    links: list[View]
    processes: list[View]

    @property
    def number(self) -> int:
        """Its number in its node."""
        return self.view.count("index")

    @property
    def is_lost(self) -> bool:
        """Whether it has fallen off the bus."""
        return self.view.number("lost") == 1

    @property
    def is_divided(self) -> bool:
        """Whether it is in MIG mode."""
        return self.view.number("mig_mode") == 1

    def part_number(self, process: View) -> int | None:
        """Which of its instances a process runs on; None for an undivided board."""
        place = process.number("part")
        number = -1 if place is None else place - self.view.count("first_part")
        return number if 0 <= number < len(self.parts) else None


class Snapshot(NamedTuple):
    """A tick of a node: its boards in order.

    :ivar control: the UNIX socket for changes; empty: nothing can be changed.
    """

    slot: View
    node: View
    boards: list[Board]
    control: str


def read_snapshot(environ: Mapping[str, str]) -> Snapshot:
    """The present tick of the node that the environment names.

    :raises Failure: without a service, or when the node is not clear.
    """
    path = default_file(environ)
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(0.001)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            reason = f"there is no file {path}: a service writes it with nvml: {{}} in its configuration"
            raise no_driver(reason) from None
        try:
            found = _read(descriptor, path)
        except OSError:
            found = None
        finally:
            os.close(descriptor)
        if found is not None:
            return _snapshot(*found, environ)
    raise no_driver(f"{path} cannot be read: it changes all the time")


def _read(descriptor: int, path: str) -> tuple[dict[str, int], bytes, str] | None:
    """The numbers of the head, a whole slot, and the socket for changes; None when it is overwritten meanwhile."""
    content = os.pread(descriptor, HEAD.size, 0)
    head = _checked(content, os.fstat(descriptor).st_size, path)
    if head["state"] == layout.REPLACED:
        return None
    silent_ns = time.monotonic_ns() - head["heartbeat"]
    if head["state"] != layout.OPEN or not -_SECOND_NS < silent_ns < layout.DEAD_SECONDS * _SECOND_NS:
        raise no_driver(f"the service that wrote {path} has ended")
    published = head["published"]
    size, place = head["slot_bytes"], head["first_slot"] + published % 2 * head["slot_bytes"]
    slot = b""
    while len(slot) < size:
        more = os.pread(descriptor, size - len(slot), place + len(slot))
        if not more:
            return None
        slot += more
    begun = int.from_bytes(os.pread(descriptor, NUMBER_BYTES, HEAD.offsets["begun"]), sys.byteorder, signed=True)
    is_whole = published > 0 and begun <= published + 1
    return (head, slot, View(HEAD, content).text("control_socket")) if is_whole else None


def _checked(content: bytes, file_bytes: int, path: str) -> dict[str, int]:
    """The numbers of a head that fits the layout.

    :raises Failure: for another file.
    """
    if len(content) < HEAD.size or not content.startswith(layout.MAGIC):
        raise no_driver(f"{path} is no file for NVML")
    view = View(HEAD, content)
    head = {field.name: view.count(field.name) for field in HEAD.fields if not field.text_bytes}
    counts = Counts(*(head[name] for name in _COUNTS))
    expected = {name: value for name, value in head_of(counts).items() if isinstance(value, int)}
    if min(counts) < 0 or head["file_bytes"] > file_bytes or any(head[name] != each for name, each in expected.items()):
        raise no_driver(f"{path} was written by another version of fakedev")
    return head


def _snapshot(head: Mapping[str, int], content: bytes, control: str, environ: Mapping[str, str]) -> Snapshot:
    def views(record: Record, place: str, first: int, count: int) -> list[View]:
        room = head[_ROOMS[record.name]]
        if not (0 <= first <= room and 0 <= count <= room - first):
            raise no_driver("the file is damaged: it names records that it does not have")
        return [View(record, content, head[place] + number * record.size) for number in range(first, first + count)]

    slot = View(SLOT, content)
    node = _chosen(views(layout.NODE, "nodes_in_slot", 0, head["node_count"]), environ.get(environment.NODE, ""))
    first = node.count("first_board")
    # Records of processes are in the order of their boards, and there may be many of other nodes.
    count = max(0, min(slot.count("process_count"), head["process_capacity"]))

    def board_of(number: int) -> int:
        return views(layout.PROCESS, "processes_in_slot", number, 1)[0].count("board")

    begin, end = (
        bisect_left(range(count), each, key=board_of) for each in (first, first + node.count("board_count"))
    )
    processes = views(layout.PROCESS, "processes_in_slot", begin, end - begin)
    boards = []
    views_of_boards = views(layout.BOARD, "boards_in_slot", first, node.count("board_count"))
    for place, view in enumerate(views_of_boards, first):
        parts = views(layout.PART, "parts_in_slot", view.count("first_part"), view.count("part_count"))
        links = views(layout.LINK, "links_in_slot", view.count("first_link"), view.count("link_count"))
        own = [each for each in processes if each.count("board") == place]
        boards.append(Board(view, place, node, slot, parts, links, own))
    return Snapshot(slot, node, boards, control)


def _chosen(nodes: list[View], wanted: str) -> View:
    names = [node.text("name") for node in nodes]
    some = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    if wanted:
        if wanted in names:
            return nodes[names.index(wanted)]
        raise no_driver(f"there is no node {wanted}: set {environment.NODE} to one of {some}")
    if len(nodes) == 1:
        return nodes[0]
    raise no_driver(f"the file has {len(nodes)} nodes: set {environment.NODE} to one of {some}")


