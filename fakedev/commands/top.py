"""``fakedev top``: what a running service does, live on a terminal: lines of text, which the terminal shows."""

from __future__ import annotations

import os
import re
import select
import shutil
import sys
import termios
import tty
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Thread
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TextIO

from fakedev.base.console import restored_after_interrupt
from fakedev.base.errors import printable
from fakedev.base.groups import grouped
from fakedev.commands.reach import CannotAsk, reach, service_options, write_json
from fakedev.commands.status import (
    device_names,
    device_values,
    events_of,
    look_once,
    summary,
    summary_lines,
    understood,
)
from fakedev.schema.options import Option, command

_BAR_CHARACTERS: Final = 20
#: By what devices are sorted, one after the other with the key s: as they are, or by a number of the frame.
SORTS: Final = ("name", "usage", "memory", "clock", "power", "temperature", "condition")
_TITLES: Final = (
    "device", "used", "memory", "clock", "power/limit", "temp", "condition", "held by", "faults", "work",
)  # fmt: skip
#: The first of the titles, which have numbers.
_NUMBERS: Final = 6
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
#: Usages that are kept of a device, and the devices of a fleet of which they are.
_MAX_PAST: Final = 60
_MAX_PAST_DEVICES: Final = 1000
#: ANSI colours of conditions; red for the others but ``well``.
_COLOURS: Final = {"well": "", "power": "33", "heat": "33", "error": "35", "hung": "35"}
_RED: Final = "31"
_REVERSE: Final = "7"
#: How the numbers of a node are made of the numbers of its devices.
_SUMS: Final = ("memory", "power")
_MEANS: Final = ("usage", "clock")
_WORST: Final = ("temperature",)
#: The keys that switch something in the view on and off; then those that move, and how far.
_SWITCHES: Final = {b"t": "is_troubled", b"r": "is_reversed", b"p": "has_parts"}
_KEYS: Final = {
    b"\x1b[A": -1, b"\x1b[B": 1, b"\x1bOA": -1, b"\x1bOB": 1, b"\x1b[5~": -20, b"\x1b[6~": 20, b"k": -1, b"j": 1,
}  # fmt: skip
#: A key in what a terminal sends: an escape sequence (ECMA-48, or SS3 of a keypad), or one byte.
_KEY: Final = re.compile(rb"\x1b\[[0-?]{0,16}[ -/]{0,4}[@-~]|\x1bO[@-~]|[^\x1b]|\x1b(?=[^\[O])")
#: How long the rest of an escape sequence is waited for.
_WHOLE_KEY_SECONDS: Final = 0.1
#: Bytes of an escape sequence that may still become whole.
_LONGEST_KEY: Final = 24
#: From here on a condition is trouble: a board at its power limit works as designed.
_FIRST_TROUBLE: Final = "heat"


@dataclass
class View:
    """What the user chose.

    :ivar first: the first device that is shown.
    :ivar is_troubled: only devices in trouble are shown.
    :ivar sort: by which of SORTS; numbers from the highest one, unless it is reversed.
    :ivar text: only devices with this text in a name, condition, fault or workload; ``is_typing``: it is being typed.
    :ivar past: the last usages of devices, by their names; ``noted``: the tick of the newest.
    :ivar has_parts: the parts of devices are shown below them.
    :ivar is_tree: devices are shown below their nodes, if these are ``opened``; ``cursor``: the row that Enter opens or
        closes, and ``is_turning``: Enter was pressed.
    """

    first: int = 0
    is_troubled: bool = False
    sort: str = SORTS[0]
    is_reversed: bool = False
    text: str = ""
    is_typing: bool = False
    past: dict[str, deque[int]] = field(default_factory=dict)
    noted: int = -1
    has_parts: bool = False
    is_tree: bool = False
    opened: set[str] = field(default_factory=set)
    cursor: int = 0
    is_turning: bool = False

    def pressed(self, key: bytes) -> bool:
        """A key was pressed; False when it quits."""
        if self.is_typing:
            self._typed(key)
        elif key in (b"q", b"Q"):
            return False
        elif key in _SWITCHES:
            setattr(self, _SWITCHES[key], not getattr(self, _SWITCHES[key]))
        elif key == b"s":
            self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        elif key == b"/":
            self.is_typing, self.text = True, ""
        elif key == b"\x1b":
            self.text = ""
        elif key == b"n":
            self.is_tree, self.cursor = not self.is_tree, 0
        elif key in (b"\r", b"\n", b" "):
            self.is_turning = self.is_tree
        elif self.is_tree:
            self.cursor += _KEYS.get(key, 0)
        else:
            self.first += _KEYS.get(key, 0)
        return True

    def _typed(self, key: bytes) -> None:
        if key in (b"\r", b"\n"):
            self.is_typing = False
        elif key == b"\x1b":
            self.is_typing, self.text = False, ""
        elif key in (b"\x7f", b"\b"):
            self.text = self.text[:-1]
        elif len(key) == 1 and key.isascii() and key.decode().isprintable():
            self.text += key.decode()

    def turn(self, rows: Sequence[Row]) -> None:
        """Open or close the node of the cursor's row."""
        if self.is_turning and rows:
            node = rows[max(0, min(self.cursor, len(rows) - 1))].node
            self.opened ^= {node}
            self.cursor = next(place for place, row in enumerate(rows) if row.node == node)
        self.is_turning = False

    def scroll(self, count: int, room: int) -> None:
        """Bring the rows that are shown, and the cursor, into the range of all rows."""
        if self.is_tree:
            self.cursor = max(0, min(self.cursor, count - 1))
            self.first = max(self.cursor - room + 1, min(self.first, self.cursor))
        self.first = max(0, min(self.first, count - room))

    def note(self, names: Sequence[str], usages: Sequence[int], tick: int) -> None:
        """Keep the usages of a tick, of small fleets."""
        if len(names) <= _MAX_PAST_DEVICES and tick != self.noted:
            self.noted = tick
            for name, usage in zip(names, usages, strict=True):
                self.past.setdefault(name, deque(maxlen=_MAX_PAST)).append(usage)


def screen(
    head: list[str], outline: Mapping[str, Any], frame: Mapping[str, Any], size: tuple[int, int], view: View
) -> list[str]:
    """The lines of the screen: the head, and a line for each device that fits.

    :param outline, frame: as in the events ``fleet`` and ``tick`` of the live stream.
    :param size: columns and lines of the terminal.
    :param view: its ``first`` is brought into the range of the rows.
    """
    columns, lines = size
    names = device_names(outline)
    view.note(names, frame["usage"], frame["tick"])
    if view.has_parts and outline.get("parts"):
        frame = _with_parts(frame)
    rows_of = _tree if view.is_tree else _rows
    every = rows_of(_chosen(names, outline, frame, view), names, outline, view)
    if view.is_turning:
        view.turn(every)
        every = rows_of(_chosen(names, outline, frame, view), names, outline, view)
    room = max(1, lines - len(head) - 2)
    view.scroll(len(every), room)
    seen = every[view.first : view.first + room]
    frames = [_joint(row.places, frame) for row in seen]
    cells = [_cells(row, outline, frame) for row, frame in zip(seen, frames, strict=True)]
    # Texts that no device has take no room.
    used = [place for place in range(len(_TITLES)) if place < _NUMBERS or any(row[place] for row in cells)]
    titles, cells = [_TITLES[place] for place in used], [[row[place] for place in used] for row in cells]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    # What the columns leave is for the bar, and for the last usages.
    left = columns - sum(widths) - 2 * len(widths)
    bar = min(_BAR_CHARACTERS, left - 2) if left > _BAR_CHARACTERS // 2 else 0
    spark = min(_MAX_PAST, max(0, left - bar - 4)) if view.past else 0
    title = _line(titles, widths, f"{'usage':{bar}}"[:bar], f"{'last minute':{spark}}"[:spark])
    shown = []
    for number, (row, each, texts) in enumerate(zip(seen, frames, cells, strict=True), view.first):
        condition = outline["health"][each["health"]]
        full = int(max(0, each["usage"]) * bar) // 100
        past = _spark(view.past.get(row.name, ()), spark)
        colours = [_COLOURS.get(condition, _RED), _REVERSE if view.is_tree and number == view.cursor else ""]
        line = _line(texts, widths, "█" * full + "░" * (bar - full), past)
        shown.append((line, ";".join(filter(None, colours))))
    rows = [*((line, "") for line in head), (title, "1"), *shown]
    rows = [*rows[: lines - 1], (_footer(view, len(seen), len(every)), "2")]
    # Names come from the peer: its escapes are shown, not obeyed.
    cut = ((printable(line)[:columns], colour) for line, colour in rows)
    return [f"\x1b[{colour}m{line}\x1b[0m" if colour else line for line, colour in cut]


def _chosen(names: Sequence[str], outline: Mapping[str, Any], frame: Mapping[str, Any], view: View) -> list[int]:
    """The devices that the user wants to see, in that order."""
    least = outline["health"].index(_FIRST_TROUBLE)
    chosen = [place for place in range(len(names)) if not view.is_troubled or frame["health"][place] >= least]
    if view.text:
        text = view.text.lower()
        chosen = [place for place in chosen if text in _texts_of(place, names[place], outline, frame).lower()]
    numbers = frame.get({"condition": "health"}.get(view.sort, view.sort))
    if view.sort == SORTS[0] or numbers is None:
        return chosen[::-1] if view.is_reversed else chosen
    return sorted(chosen, key=lambda place: numbers[place], reverse=not view.is_reversed)


class Row(NamedTuple):
    """A row of the screen: a device, or a node with its chosen devices.

    :ivar name: as it is shown.
    :ivar pool: the pool's name in the outline.
    :ivar places: the numbers of the devices.
    """

    name: str
    node: str
    pool: Sequence[Any]
    places: Sequence[int]


def _with_parts(frame: Mapping[str, Any]) -> dict[str, Any]:
    """A frame whose arrays have the values of parts after the values of devices."""
    count = len(frame["part-usage"])
    kept = (*_SUMS, *_MEANS, *_WORST, "health", "limit", "work")
    found = {name: [*frame[name], *frame.get(f"part-{name}", [-1] * count)] for name in kept}
    empty = {name: [*frame[name], *([[]] * count)] for name in ("held", "device-faults")}
    return {**frame, **found, **empty}


def _rows(chosen: Iterable[int], names: Sequence[str], outline: Mapping[str, Any], view: View) -> list[Row]:
    """A row for each device, and for its parts."""
    nodes = [node for node in outline["nodes"] for _ in range(outline["pools"][node[1]][2])]
    parts = grouped(
        (name.rpartition("/")[0], number)
        for number, (name, *_) in enumerate(outline.get("parts", ()) if view.has_parts else ())
    )
    rows = []
    for place in chosen:
        row = Row(names[place], nodes[place][0], outline["pools"][nodes[place][1]], (place,))
        rows.append(row)
        for number in parts.get(row.name, ()):
            name, profile, memory = outline["parts"][number]
            pool = (*row.pool[:3], None, memory or None)
            rows.append(Row(f"  {name} {profile}".rstrip(), row.node, pool, (len(names) + number,)))
    return rows


def _tree(chosen: Iterable[int], names: Sequence[str], outline: Mapping[str, Any], view: View) -> list[Row]:
    """A row for each node, and the rows of its devices below it if it is open."""
    nodes = grouped((row.node, row) for row in _rows(chosen, names, outline, view))
    rows: list[Row] = []
    for node, devices in nodes.items():
        places = [row.places[0] for row in devices if row.places[0] < len(names)]
        rows.append(Row(f"{'-' if node in view.opened else '+'} {node}", node, devices[0].pool, places))
        rows += [row._replace(name=f"  {row.name}") for row in devices] if node in view.opened else []
    return rows


def _joint(places: Sequence[int], frame: Mapping[str, Any]) -> dict[str, Any]:
    """What a frame has of some devices together: the sum, the mean, or the worst."""
    found: dict[str, Any] = {"health": max(frame["health"][place] for place in places)}
    for key in (*_SUMS, *_MEANS, *_WORST):
        values = [frame[key][place] for place in places if key in frame and frame[key][place] >= 0]
        total = max(values, default=-1) if key in _WORST else sum(values)
        found[key] = -1 if not values else total / len(values) if key in _MEANS else total
    work = [frame["work"][place] for place in places] if "work" in frame else []
    workloads = list(dict.fromkeys(name for _, *some in work for name in some))
    # One workload is on several devices: how many there are besides those with names, only one device says.
    found["work"] = [work[0][0] if len(places) == 1 and work else len(workloads), *workloads]
    faults = [frame["device-faults"][place] for place in places] if "device-faults" in frame else []
    limits = [frame["limit"][place] for place in places] if "limit" in frame else []
    found["limit"] = sum(limits) if limits and min(limits) >= 0 else None
    held = [frame["held"][place] for place in places] if "held" in frame else []
    found["held"] = list(dict.fromkeys(words for some in held for words in some))
    found["faults"] = list(dict.fromkeys(fault for some in faults for fault in some))
    return found


def _texts_of(place: int, name: str, outline: Mapping[str, Any], frame: Mapping[str, Any]) -> str:
    work = map(str, frame["work"][place][1:]) if "work" in frame else ()
    faults = frame["device-faults"][place] if "device-faults" in frame else ()
    return "\n".join([name, outline["health"][frame["health"][place]], *work, *faults])


def _cells(row: Row, outline: Mapping[str, Any], joint: Mapping[str, Any]) -> list[str]:
    """The texts of a row, one for each of _TITLES."""

    def value(key: str, unit: str, most: float | None = None, divisor: float = 1.0) -> str:
        if joint[key] < 0:
            return "-"
        of = "" if most is None else f"/{most / divisor:.0f}"
        return f"{joint[key] / divisor:.0f}{of} {unit}"

    count_of_devices = len(row.places)
    memory = None if row.pool[4] is None else row.pool[4] / 2**20 * count_of_devices
    usual = None if row.pool[3] is None else row.pool[3] * count_of_devices
    limit = usual if joint["limit"] is None else joint["limit"]
    count, *names = joint["work"]
    work = ", ".join(names) + (f" and {count - len(names)} more" if count > len(names) else "")
    return [
        row.name, value("usage", "%"), value("memory", "GiB", memory, 1024.0), value("clock", "MHz"),
        value("power", "W", limit), value("temperature", "C"), outline["health"][joint["health"]],
        ", ".join(joint["held"]), ", ".join(joint["faults"]), work,
    ]  # fmt: skip


def _line(cells: Sequence[str], widths: Sequence[int], bar: str, past: str) -> str:
    """A line: name, bar, numbers to the right, the last usages, texts."""
    numbers = [f"{cell:>{width}}" for cell, width in zip(cells[1:_NUMBERS], widths[1:_NUMBERS], strict=True)]
    texts = [f"{cell:{width}}" for cell, width in zip(cells[_NUMBERS:], widths[_NUMBERS:], strict=True)]
    parts = [f"{cells[0]:{widths[0]}}", *([bar] if bar else []), *numbers, *([past] if past else []), *texts]
    return "  ".join(parts).rstrip()


def _spark(usages: Iterable[int], width: int) -> str:
    """The last usages as blocks, the newest at the right."""
    blocks = "".join(_BLOCKS[max(0, min(100, usage)) * (len(_BLOCKS) - 1) // 100] for usage in usages)
    return blocks[-width:].rjust(width) if width else ""


def _footer(view: View, shown: int, count: int) -> str:
    if view.is_typing:
        return f"filter: {view.text}_   Enter keeps it, Esc drops it"
    state = [f"sort {view.sort}{', reversed' if view.is_reversed else ''}"]
    state += [f"filter {view.text!r}"] if view.text else []
    trouble = " (on)" if view.is_troubled else ""
    tree = "n devices  Enter opens" if view.is_tree else "n nodes"
    last = view.first + shown
    return (
        f"{view.first + 1 if count else 0}-{last} of {count}   q quit  arrows scroll  s sort  r reverse  / filter  "
        f"t in trouble{trouble}  p parts  {tree}   {', '.join(state)}"
    )


def keys_in(data: bytes) -> tuple[list[bytes], bytes]:
    """The keys in bytes of a terminal: one read gives several of a held key, and a slow line only a part of one.

    :returns: the keys, and the beginning of one whose end is still to come.
    """
    keys, end = [], 0
    while match := _KEY.match(data, end):
        keys.append(match[0])
        end = match.end()
    return keys, data[end:] if len(data) - end <= _LONGEST_KEY else b""


class Terminal:
    """A context in which the terminal shows whole screens and gives single keys."""

    def __init__(self, keyboard: int, output: TextIO) -> None:
        self._keyboard = keyboard
        self._output = output
        self._view = View()
        #: The beginning of a key.
        self._begun = b""

    def __enter__(self) -> Self:
        self._settings = termios.tcgetattr(self._keyboard)
        tty.setcbreak(self._keyboard)
        self._output.write("\x1b[?1049h\x1b[?25l")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._output.write("\x1b[?25h\x1b[?1049l")
        self._output.flush()
        termios.tcsetattr(self._keyboard, termios.TCSADRAIN, self._settings)

    def wait(self, events: int) -> bool:
        """Wait for a key or an event; whether there is an event.

        :param events: a descriptor that can be read then.
        """
        ready = select.select([self._keyboard, events], [], [], _WHOLE_KEY_SECONDS if self._begun else None)[0]
        # A terminal sends the bytes of a key together: Esc with nothing after it for this time is the Esc key.
        if not ready and self._begun == b"\x1b":
            self._begun = b""
            self._view.pressed(b"\x1b")
        return events in ready

    def show(self, made: Callable[[tuple[int, int], View], list[str]]) -> bool:
        """Show a screen, after the keys that were pressed; False once that is ``q``.

        :param made: the lines of a screen of some columns and lines, for a view.
        """
        while select.select([self._keyboard], [], [], 0)[0]:
            data = os.read(self._keyboard, 1024)
            if not data:
                return False
            keys, self._begun = keys_in(self._begun + data)
            for key in keys:
                if not self._view.pressed(key):
                    return False
        lines = made(shutil.get_terminal_size(), self._view)  # 80 by 24 where the terminal does not tell
        self._output.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines[:-1]) + f"{lines[-1]}\x1b[K\x1b[J")
        self._output.flush()
        return True


@command(
    "fakedev top",
    "Shows a running service live. Keys: q quits, arrows scroll, s sorts by another column, r reverses, / filters, "
    "t shows only devices in trouble, p shows instances and tiles below their devices, n shows nodes, which Enter "
    "opens and closes.",
    *service_options(),
    Option("json", "", "print the current state as JSON; this needs no terminal"),
)
def top(options: Namespace) -> int:
    """Show a running service live, until ``q`` (0) or Ctrl-C (130)."""
    if options.json:
        outline, frame = look_once(options)
        write_json(understood(lambda: {**summary(outline, frame), "devices": device_values(outline, frame)}))
        return 0
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CannotAsk("this is no terminal; fakedev status prints the same once, and --json all devices", 2)
    service = reach(options, os.environ)
    with restored_after_interrupt(), Terminal(sys.stdin.fileno(), sys.stdout) as terminal:
        return _show(events_of(service), terminal)


class _Reader(Thread):
    """Reads the live stream in a thread: a key is shown at once, not with the next frame.

    :ivar ready: a descriptor with a byte for each event of ``events``, and at its end after the last one.
    """

    def __init__(self, stream: Iterable[dict[str, Any]]) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self.events: deque[dict[str, Any]] = deque()
        self.error = CannotAsk("the service has ended the connection")
        self.ready, self._told = os.pipe()

    def run(self) -> None:
        """Read until the stream ends, or cannot be used."""
        try:
            for event in self._stream:
                self.events.append(event)
                os.write(self._told, b".")
        except CannotAsk as error:
            self.error = error
        finally:
            os.close(self._told)


def _show(stream: Iterable[dict[str, Any]], terminal: Terminal) -> int:
    reader = _Reader(stream)
    reader.start()
    outline: Mapping[str, Any] = {}
    frame: Mapping[str, Any] = {}

    def look() -> bool:
        lines = [*summary_lines(outline, frame), ""]
        return terminal.show(lambda size, view: screen(lines, outline, frame, size, view))

    while True:
        if terminal.wait(reader.ready) and not os.read(reader.ready, 4096):
            raise reader.error
        while reader.events:
            event = reader.events.popleft()
            outline, frame = (event, {}) if "nodes" in event else (outline, event)
        if frame and not understood(look):
            return 0
