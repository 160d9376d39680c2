"""The boards of nvidia-smi: one tick of a node, read from the file of the service; and the failures of the command.

The file is read as the NVML library reads it. A failure has an exit code of the command's manual, and the words that
scripts look for.
"""

from __future__ import annotations

import os
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fakedev.base import environment
from fakedev.base.binary_records import NUMBER_BYTES, Record
from fakedev.nvml import records as layout
from fakedev.nvml.records import ABSENT, EVENT, HEAD, SLOT, Counts, head_of
from fakedev.nvml.shell_environment import default_file

BAD_ARGUMENT: Final = 2
NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
NOT_FOUND: Final = 6
NO_DRIVER: Final = 9
LOST: Final = 15
#: Of a command that is interrupted.
INTERRUPTED: Final = 130

_NO_DRIVER_TEXT: Final = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running."
)


class Failure(Exception):
    """The command ends.

    :param code: its exit code.
    :param text: printed on standard output, where the real command writes it.
    :param reason: printed on standard error: what the simulation knows beyond that; empty for nothing.
    """

    def __init__(self, code: int, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.code, self.text, self.reason = code, text, reason


def no_driver(reason: str) -> Failure:
    """No service writes the file, or the node is not known."""
    return Failure(NO_DRIVER, f"{_NO_DRIVER_TEXT}\n", reason)


def not_supported(what: str) -> Failure:
    """The real command can do it, and the simulated one cannot."""
    return Failure(NOT_SUPPORTED, f"{what}: not supported by the simulation")


def bad_argument(text: str) -> Failure:
    return Failure(BAD_ARGUMENT, text)


#: So often the slot is read again when the service has written it in between, or has made a new file.
_TRIES: Final = 100
_SECOND_NS: Final = 1_000_000_000
#: Nodes that a message names.
_LISTED: Final = 5
#: The numbers of the head that give the room for records, and their place in a slot, in the order of ``Counts``.
_ROOMS: Final = {
    "node": ("node_count", "nodes_in_slot"), "board": ("board_count", "boards_in_slot"),
    "part": ("part_count", "parts_in_slot"), "link": ("link_count", "links_in_slot"),
    "profile": ("profile_count", "profiles_in_slot"), "process": ("process_capacity", "processes_in_slot"),
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
    :ivar number: its index for this process, which may see a part of the boards of its node.
    :ivar count_seen: how many boards that part has.
    :ivar hidden: the places of its instances that this process does not see.
    :ivar control: the UNIX socket for changes; empty: nothing can be changed.
    :ivar part: the instance that a line is about; None: the line is about the board.
    :ivar process: the process that a line is about, if any; ``part`` is its instance.
    :ivar clock: the clock that a line is about, in MHz.
    """

    view: View
    place: int
    node: View
    slot: View
    parts: list[View]
    links: list[View]
    processes: list[View]
    profiles: list[View]
    number: int = 0
    count_seen: int = 0
    hidden: frozenset[int] = frozenset()
    control: str = ""
    part: View | None = None
    process: View | None = None
    clock: int = 0

    @property
    def is_lost(self) -> bool:
        """Whether it has fallen off the bus."""
        return self.view.number("lost") == 1

    @property
    def is_divided(self) -> bool:
        """Whether it is in MIG mode."""
        return self.view.number("mig_mode") == 1

    def of_parts(self) -> list[Board]:
        """The board for each of its MIG devices: GPU instances that have their compute instance."""
        return [
            self._replace(part=part)
            for place, part in enumerate(self.parts)
            if part.number("computes") != 0 and place not in self.hidden
        ]

    def of_processes(self) -> list[Board]:
        """The board for each of its processes."""
        return [self._replace(part=self._part_of(process), process=process) for process in self.processes]

    def _part_of(self, process: View) -> View | None:
        place = process.number("part")
        number = -1 if place is None else place - self.view.count("first_part")
        return self.parts[number] if 0 <= number < len(self.parts) else None


#: What prints some boards of a node in a tick; and before that, the first time, the lines of titles.
Rows = Callable[[Sequence[Board]], Iterable[str]]
Lines = tuple[Sequence[str], Rows]


class Snapshot(NamedTuple):
    """A tick of a node: its boards in order."""

    slot: View
    node: View
    boards: list[Board]


class Maker(NamedTuple):
    """Whose boards a program shows.

    :ivar first_field: of a node: its first board, as ``count_field``.
    :ivar visible: names the boards that a process sees: what the maker's runtime of containers reads.
    """

    first_field: str
    count_field: str
    visible: str


VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
NVIDIA: Final = Maker("first_board", "board_count", VISIBLE)
AMD: Final = Maker("first_amd", "amd_count", "AMD_VISIBLE_DEVICES")


def read_events(environ: Mapping[str, str]) -> list[View]:
    """The events of the file, the newest last.

    :raises Failure: without a service.
    """
    path = default_file(environ)
    try:
        with open(path, "rb") as file:
            head = _checked(file.read(HEAD.size), os.fstat(file.fileno()).st_size, path)
            capacity, last = head["event_capacity"], head["event_sequence"]
            content = os.pread(file.fileno(), capacity * EVENT.size, head["events"])
    except OSError:
        raise no_driver(f"there is no file {path}") from None
    # One place may be written just now.
    numbers = range(max(1, last - capacity + 2), last + 1)
    events = [View(EVENT, content, number % capacity * EVENT.size) for number in numbers]
    return [event for number, event in zip(numbers, events, strict=True) if event.number("sequence") == number]


def read_snapshot(environ: Mapping[str, str], maker: Maker = NVIDIA) -> Snapshot:
    """The present tick of the node that the environment names, with its boards of a maker.

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
            return _snapshot(*found, environ, maker)
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
    slot = os.pread(descriptor, size, place)
    begun = int.from_bytes(os.pread(descriptor, NUMBER_BYTES, HEAD.offsets["begun"]), sys.byteorder, signed=True)
    is_whole = len(slot) == size and published > 0 and begun <= published + 1
    return (head, slot, View(HEAD, content).text("control_socket")) if is_whole else None


def _checked(content: bytes, file_bytes: int, path: str) -> dict[str, int]:
    """The numbers of a head that fits the layout.

    :raises Failure: for another file.
    """
    if len(content) < HEAD.size or not content.startswith(layout.MAGIC):
        raise no_driver(f"{path} is no file for NVML")
    view = View(HEAD, content)
    head = {field.name: view.count(field.name) for field in HEAD.fields if not field.text_bytes}
    counts = Counts(*(head[name] for name, _ in _ROOMS.values()))
    expected = {name: value for name, value in head_of(counts).items() if isinstance(value, int)}
    if min(counts) < 0 or head["file_bytes"] > file_bytes or any(head[name] != each for name, each in expected.items()):
        raise no_driver(f"{path} was written by another version of fakedev")
    return head


def _snapshot(
    head: Mapping[str, int], content: bytes, control: str, environ: Mapping[str, str], maker: Maker
) -> Snapshot:  # fmt: skip
    def views(record: Record, first: int, count: int) -> list[View]:
        room, begin = (head[name] for name in _ROOMS[record.name])
        if not (0 <= first <= room and 0 <= count <= room - first):
            raise no_driver("the file is damaged: it names records that it does not have")
        return [View(record, content, begin + number * record.size) for number in range(first, first + count)]

    slot = View(SLOT, content)
    node = _chosen(views(layout.NODE, 0, head["node_count"]), environ.get(environment.NODE, ""))
    first, board_count = node.count(maker.first_field), node.count(maker.count_field)
    # Records of processes are in the order of their boards, and there may be many of other nodes.
    count = max(0, min(slot.count("process_count"), head["process_capacity"]))

    def board_of(number: int) -> int:
        return views(layout.PROCESS, number, 1)[0].count("board")

    begin, end = (
        bisect_left(range(count), board, key=board_of) for board in (first, first + board_count)
    )
    processes = views(layout.PROCESS, begin, end - begin)
    boards: list[Board] = []
    wanted = environ.get(maker.visible, "")
    for place, view in enumerate(views(layout.BOARD, first, board_count), first):
        parts = views(layout.PART, view.count("first_part"), view.count("part_count"))
        hidden = hidden_parts(wanted, place - first, view, parts)
        if hidden is None:
            continue
        links = views(layout.LINK, view.count("first_link"), view.count("link_count"))
        profiles = views(layout.PROFILE, view.count("first_profile"), view.count("profile_count"))
        own = [process for process in processes if process.count("board") == place]
        boards.append(Board(view, place, node, slot, parts, links, own, profiles, len(boards), 0, hidden, control))
    return Snapshot(slot, node, [board._replace(count_seen=len(boards)) for board in boards])


def hidden_parts(wanted: str, number: int, board: View, parts: Sequence[View]) -> frozenset[int] | None:
    """The places of a board's instances that a process does not see; None: it does not see the board.

    The library in C reads the same (``native/visible.c``); the rules are those of the toolkits for containers.

    :param wanted: the value of the maker's variable: numbers, UUIDs, ``all``, or nothing for all boards.
    :param number: of the board in its node.
    """
    words = {word.strip() for word in wanted.split(",")}
    if not wanted or not words.isdisjoint({"all", str(number), board.text("uuid")}):
        return frozenset()
    uuids = (part.text("uuid") for part in parts)
    # Partitions of AMD are named without the prefix, which is NVIDIA's.
    names = ({f"{number}:{place}", each, each.removeprefix("MIG-")} for place, each in enumerate(uuids))
    hidden = [place for place, named in enumerate(names) if words.isdisjoint(named)]
    return frozenset(hidden) if len(hidden) < len(parts) else None


def _chosen(nodes: list[View], wanted: str) -> View:
    matches = [node for node in nodes if wanted in ("", node.text("name"))]
    if matches and (wanted or len(nodes) == 1):
        return matches[0]
    some = ", ".join([*(node.text("name") for node in nodes[:_LISTED]), *(["..."] if len(nodes) > _LISTED else [])])
    problem = f"there is no node {wanted}" if wanted else f"the file has {len(nodes)} nodes"
    raise no_driver(f"{problem}: set {environment.NODE} to one of {some}")
