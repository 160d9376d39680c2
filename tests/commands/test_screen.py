"""The terminal view: what fits on the screen, what is chosen, and what is not known."""

from __future__ import annotations

import io
import os
import pty
import re
import tty
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from fakedev.commands.status import summary_lines
from fakedev.commands.top import Terminal, View, _show, keys_in, screen

OUTLINE = {
    "version": "1.2.3",
    "health": ["well", "power", "heat", "hardware", "error", "hung", "lost"],
    "pools": [["p", "h100", 4, 700.0, 8e10]],
    "nodes": [["a", 0], ["b", 0]],
}

COURSE = {
    "name": "week", "span-seconds": 600.0, "is-over": False, "played": 3, "total": 14, "changes": 4,
    "next": [125.0, "fault fan on a/1"],
}  # fmt: skip


def frame(**changes: Any) -> dict[str, Any]:
    """A frame of eight devices, all idle and well."""
    values = {"usage": [0] * 8, "power": [70] * 8, "temperature": [40] * 8, "health": [0] * 8, "faults": []}
    fleet = {"fleet": [0.25, 560.0, 41.5], "workloads": 3, "tick": 7, "seconds": 7.0, "speed": 1.0, "trouble": None}
    return {**values, **fleet, "advance": None, "fault-count": 0, "faults-waiting": 0, **changes}


def plain(lines: list[str]) -> list[str]:
    return [re.sub(r"\x1b\[[\d;]+m", "", line) for line in lines]


#: A frame of a small fleet, which also has memory, clock, work and faults of each device.
BUSY = frame(
    usage=[50] + [0] * 7, memory=[4096] * 8, clock=[1980] * 8, work=[[2, "x"], *[[0]] * 7],
    **{"device-faults": [["fan"], *[[]] * 7]},
)  # fmt: skip


def test_a_line_for_each_device() -> None:
    """Name, usage as a bar, numbers with limits, the last usages, faults and work; the last line tells the keys."""
    view = View()
    for tick in (7, 8, 8):  # a key shows a tick again
        shown = plain(screen(["head"], OUTLINE, {**BUSY, "tick": tick}, (120, 40), view))
    assert shown[0] == "head"
    row = ["a/0", "█" * 10 + "░" * 10, "50", "%", "4/75", "GiB", "1980", "MHz", "70/700", "W", "40", "C", "▄▄"]
    assert shown[2].split() == [*row, "well", "fan", "x", "and", "1", "more"]
    assert [line[:3] for line in shown[2:10]] == ["a/0", "a/1", "a/2", "a/3", "b/0", "b/1", "b/2", "b/3"]
    assert shown[-1].startswith("1-8 of 8   q quit")


def test_nodes() -> None:
    """A row for each node with the sums, means and the worst of its devices; Enter opens and closes one."""
    view = View()

    def shown(*keys: bytes) -> list[str]:
        for key in keys:
            assert view.pressed(key)
        found = {**BUSY, "temperature": [40, 90, *[40] * 6], "health": [0, 2, *[0] * 6]}
        return plain(screen([], OUTLINE, found, (140, 40), view))[1:-1]

    first, second = shown(b"n")
    row = ["+", "a", "█" * 2 + "░" * 18, "12", "%", "16/298", "GiB", "1980", "MHz", "280/2800", "W", "90", "C"]
    assert first.split() == [*row, "heat", "fan", "x"]
    assert second.split()[:2] == ["+", "b"]
    assert [line.split()[:2] for line in shown(b"j", b"\r")][:3] == [["+", "a"], ["-", "b"], ["b/0", "░" * 20]]
    assert len(shown(b"j", b"j")) == 6
    assert view.cursor == 3
    assert len(shown(b"\r")) == 2  # on a device: its node closes, and is where the cursor is
    assert view.cursor == 1
    assert len(shown(b"t")) == 1  # only nodes with devices in trouble
    assert shown(b"t", b"n")[0].startswith("a/0")


def test_parts_and_limits() -> None:
    """p shows instances below their devices, with their own memory; the limit in use, and what holds the clock."""
    outline = {**OUTLINE, "nodes": [["a", 0]], "parts": [["a/1/0", "3g.20gb", 2e10], ["a/1/1", "", 4e10]]}
    values = {name: each[:4] if isinstance(each, list) else each for name, each in BUSY.items()}
    values |= {
        "fleet": BUSY["fleet"], "limit": [700, 300, 700, 700], "held": [[], ["power limit", "heat"], [], []],
        "part-usage": [70, -1], "part-memory": [1024, 0], "part-clock": [900, -1], "part-temperature": [50, -1],
        "part-health": [4, 0], "part-work": [[1, "y"], [0]],
    }  # fmt: skip
    view = View()

    def shown(*keys: bytes) -> list[list[str]]:
        for key in keys:
            assert view.pressed(key)
        return [line.split() for line in plain(screen([], outline, values, (160, 40), view))[1:-1]]

    rows = shown()
    assert [row[0] for row in rows] == ["a/0", "a/1", "a/2", "a/3"]
    assert rows[1][8:] == ["70/300", "W", "40", "C", "well", "power", "limit,", "heat"]
    rows = shown(b"p")
    assert [row[0] for row in rows] == ["a/0", "a/1", "a/1/0", "a/1/1", "a/2", "a/3"]
    row = ["70", "%", "1/19", "GiB", "900", "MHz", "-", "50", "C", "error", "y"]
    assert rows[2][1] == "3g.20gb" and rows[2][3:] == row
    assert rows[3][2:] == ["-", "0/37", "GiB", "-", "-", "-", "well"]
    rows = shown(b"n", b"\r")
    assert rows[0][:2] == ["-", "a"] and "280/2400" in rows[0] and len(rows) == 7


def test_a_key_is_shown_before_the_next_frame() -> None:
    """The stream is read in a thread: while it is silent, keys change the screen."""
    keyboard, other = pty.openpty()
    tty.setraw(keyboard)
    output = io.StringIO()
    silent = Event()

    def stream() -> Iterator[dict[str, Any]]:
        yield OUTLINE
        yield BUSY
        os.write(keyboard, b"n")
        silent.wait()

    class Pressing(Terminal):
        def wait(self, events: int) -> bool:
            if "+ a" in output.getvalue():
                os.write(keyboard, b"q")
            return super().wait(events)

    with Pressing(other, output) as terminal:
        assert _show(stream(), terminal) == 0
    silent.set()


def test_esc_alone() -> None:
    """It is the beginning of other keys, too: nothing follows it for a moment."""
    ours, theirs = pty.openpty()
    nothing, _ = os.pipe()
    views: list[View] = []

    def made(_: tuple[int, int], view: View) -> list[str]:
        views.append(view)
        return [""]

    tty.setraw(theirs)
    terminal = Terminal(theirs, io.StringIO())
    os.write(ours, b"/x\x1b")
    assert terminal.show(made) and views[-1].is_typing
    assert not terminal.wait(nothing)
    assert terminal.show(made) and not views[-1].is_typing


def test_a_small_terminal() -> None:
    """No line is longer or lower than the terminal; the view scrolls, and stops at both ends."""
    view = View()
    for first, names in ((0, ["a/0", "a/1", "a/2"]), (2, ["a/2", "a/3", "b/0"]), (99, ["b/1", "b/2", "b/3"])):
        view.first = first
        shown = plain(screen(["head"], OUTLINE, frame(), (30, 6), view))
        assert len(shown) == 6
        assert max(map(len, shown)) <= 30
        assert [line[:3] for line in shown[2:5]] == names
    view.first = -5
    assert plain(screen(["head"], OUTLINE, frame(), (30, 6), view))[2].startswith("a/0")


def test_order_and_filter() -> None:
    """Sorted by a number from the highest one, or reversed; a text finds names, conditions, faults and work."""

    def shown(keys: bytes) -> list[str]:
        view = View()
        for key in keys:
            assert view.pressed(bytes([key]))
        found = {**BUSY, "usage": [10, 40, 20, 30, 0, 0, 0, 0], "health": [0, 0, 0, 0, 6, 0, 0, 0]}
        return [line.split()[0] for line in plain(screen([], OUTLINE, found, (120, 40), view))[1:-1]]

    assert shown(b"s")[:4] == ["a/1", "a/3", "a/2", "a/0"]
    assert shown(b"sr")[-4:] == ["a/0", "a/2", "a/3", "a/1"]
    assert shown(b"r")[0] == "b/3" and shown(b"ssssss")[0] == "b/0"
    assert shown(b"/fan\r") == ["a/0"] and shown(b"/B/1x\x7f") == ["b/1"] and len(shown(b"/fan\x1b")) == 8
    assert not View().pressed(b"q") and View(is_typing=True).pressed(b"q")


def test_only_devices_in_trouble() -> None:
    """A board at its power limit is not in trouble."""
    found = frame(health=[0, 1, 2, 0, 6, 0, 0, 0])
    shown = plain(screen([], OUTLINE, found, (100, 40), View(is_troubled=True)))
    assert [line[:3] for line in shown[1:-1]] == ["a/2", "b/0"]


def test_what_is_not_known() -> None:
    """A lost device shows no value, and an empty fleet none at all."""
    shown = plain(screen([], OUTLINE, frame(usage=[-1] + [0] * 7, power=[-1] + [0] * 7), (100, 40), View()))
    assert shown[1].split()[:3] == ["a/0", "░" * 20, "-"]
    lines = summary_lines(OUTLINE, frame(fleet=[None, None, None]))
    assert "fleet      usage unknown, power unknown, hottest unknown" in lines


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "health     good"),
        ({"trouble": "no tick for 9 s"}, "health     no tick for 9 s"),
        ({}, "devices    8: all well"),
        ({"health": [0, 0, 2, 2, 6, 0, 0, 0]}, "devices    8: 2 heat (a/2, a/3), 1 lost (b/0)"),
        ({"speed": 0}, "clock      7 s, tick 7, paused"),
        ({"speed": 0, "advance": [4, 11]}, "clock      7 s, tick 7, advancing to tick 11, 42 % done"),
        (
            {"scenario": COURSE, "seconds": 90.0},
            "scenario   week: 90 of 600 s (15 %), 3 of 14 played, next at 125 s: fault fan on a/1",
        ),
        (
            {"scenario": {**COURSE, "next": None}},
            "scenario   week: 7 of 600 s (1 %), 3 of 14 played, nothing more to come",
        ),
        (
            {"scenario": {**COURSE, "is-over": True, "played": 14}, "seconds": 700.0},
            "scenario   week: over since 600 s, 14 of 14 played",
        ),
        (
            {"queues": [["q", 4, 2, 1, 2, 0.5, 0.25, "open"]]},
            "queue      q: 4 waiting, 2 running, workers 1 idle, 2 busy",
        ),
        (
            {"queues": [["q", 0, 0, 0, 0, 0, 0, "paused"]]},
            "queue      q: paused, 0 waiting, 0 running, workers 0 idle, 0 busy",
        ),
        ({}, "faults     none active"),
        ({"faults": [["f1", "slow-page", "page", "a", 4.0]], "fault-count": 2},
         "fault      f1 slow-page on the page of a, for 4 s more"),
        ({"faults": [["f1", "fan", "board", "a/1", None]], "fault-count": 2},
         "           and 1 more: fakedev faults --active"),
        ({"load": [["l", 8, 3, 1.5, 10, 1]]}, "load       l: 1.5/s, 3 outstanding, 10 good, 1 failed"),
    ],
)
def test_summary(changes: dict[str, Any], line: str) -> None:
    """A line for each subject, with what is the matter."""
    assert line in summary_lines(OUTLINE, frame(**changes))


class TestKeys:
    """What a terminal sends."""

    @pytest.mark.parametrize(
        ("data", "keys"),
        [
            (b"jjq", [b"j", b"j", b"q"]),
            (b"\x1b[B\x1b[B\x1b[A", [b"\x1b[B", b"\x1b[B", b"\x1b[A"]),
            (b"\x1b[6~t\x1bOB", [b"\x1b[6~", b"t", b"\x1bOB"]),
            (b"\x1b[1;5B\xc3\xa9j", [b"\x1b[1;5B", b"\xc3", b"\xa9", b"j"]),
            (b"\x1bx", [b"\x1b", b"x"]),
        ],
    )
    def test_several_at_once(self, data: bytes, keys: list[bytes]) -> None:
        """Each is a key, wherever a slow line cuts them."""
        assert keys_in(data) == (keys, b"")
        for cut in range(len(data)):
            first, rest = keys_in(data[:cut])
            second, end = keys_in(rest + data[cut:])
            assert (first + second, end) == (keys, b"")

    def test_garbage(self) -> None:
        """No beginning of a key grows for ever."""
        assert keys_in(b"\x1b[" + b"1" * 100) == ([], b"")

    @pytest.mark.parametrize("sizes", [[1] * 12, [12], [3, 9], [5, 2, 5]])
    def test_scrolling(self, sizes: list[int]) -> None:
        """Four arrows scroll by four rows, however they arrive."""
        view = View()
        ours, theirs = pty.openpty()
        data = b"\x1b[B" * 4

        def made(size: tuple[int, int], seen: View) -> list[str]:
            nonlocal view
            view = seen
            return [""]

        try:
            tty.setraw(theirs)
            terminal = Terminal(theirs, io.StringIO())
            for size in sizes:
                os.write(ours, data[:size])
                data = data[size:]
                assert terminal.show(made)
            assert view.first == 4
            os.write(ours, b"ttt")
            assert terminal.show(made) and view.is_troubled
            os.write(ours, b"jq")
            assert not terminal.show(made)
        finally:
            os.close(ours)
            os.close(theirs)
