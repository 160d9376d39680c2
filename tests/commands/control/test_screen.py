"""The terminal view: what fits on the screen, what is chosen, and what is not known."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fakedev.commands.control.screen import View, screen
from fakedev.commands.control.status import summary_lines

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
    values = {"usage": [0] * 8, "power": [70] * 8, "temperature": [40] * 8, "health": [0] * 8}
    fleet = {"fleet": [0.25, 560.0, 41.5], "workloads": 3, "tick": 7, "seconds": 7.0, "speed": 1.0, "trouble": None}
    return {**values, **fleet, "advance": None, **changes}


def plain(lines: list[str]) -> list[str]:
    """Lines without colours."""
    return [re.sub(r"\x1b\[\d+m", "", line) for line in lines]


def test_a_line_for_each_device() -> None:
    """Name, usage as a bar, power, temperature, condition and work; the last line tells the keys."""
    busy = frame(usage=[50] + [0] * 7, work=[[2, "x"], *[[0]] * 7])
    shown = plain(screen(["head"], OUTLINE, busy, (100, 40), View()))
    assert shown[0] == "head"
    assert shown[2] == f"a/0     {'█' * 10}{'░' * 10} 50 %     70 W   40 C  well       x and 1 more"
    assert [line[:3] for line in shown[2:10]] == ["a/0", "a/1", "a/2", "a/3", "b/0", "b/1", "b/2", "b/3"]
    assert shown[-1].startswith("1-8 of 8   q quit")


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
        ({"health": [0, 0, 2, 2, 6, 0, 0, 0]}, "devices    8: 2 heat, 1 lost"),
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
        ({"queues": [["q", 4, 2, 1, 2, 0.5, 0.25]]}, "queue      q: 4 waiting, 2 running, workers 1 idle, 2 busy"),
        ({"load": [["l", 8, 3, 1.5, 10, 1]]}, "load       l: 1.5/s, 3 outstanding, 10 good, 1 failed"),
    ],
)
def test_summary(changes: dict[str, Any], line: str) -> None:
    """A line for each subject, with what is the matter."""
    assert line in summary_lines(OUTLINE, frame(**changes))
