"""Errors quote what a peer or a user has given: at most about a kilobyte of it, and on one line."""

from __future__ import annotations

import pytest

from fakedev.base.errors import FieldError, Refused, shortened, unknown_name
from fakedev.lines.grammar import ProtocolError
from fakedev.schema.go_flags import FlagError
from fakedev.schema.places import Place, Report

_LONG = "'" + "x" * 70_000 + "' is no size: give bytes"
_MOST = 1005


def test_the_middle_is_left_out() -> None:
    """Beginning and remedy stay; a text that is not long stays as it is."""
    text = shortened(_LONG)
    assert len(text) == _MOST
    assert text.startswith("'xxx")
    assert "x ... x" in text
    assert text.endswith("' is no size: give bytes")
    assert shortened("y" * _MOST) == "y" * _MOST


@pytest.mark.parametrize(
    "error",
    [
        Refused("bad-argument", _LONG),
        ProtocolError("bad-argument", _LONG),
        FieldError("a" * 9000, _LONG),
        FlagError(_LONG),
    ],
)
def test_errors_are_short(error: Exception) -> None:
    """Their texts, and those that ports and API answer with."""
    assert len(str(error)) == _MOST
    assert len(getattr(error, "text", "")) in (0, _MOST)
    assert len(getattr(error, "reason", "")) in (0, _MOST)


def test_problems_are_lines() -> None:
    """Each problem and each note of a configuration is one short line, and so is an error of the flags."""
    report = Report()
    report.problem(Place("f.yaml", 1), "a\nb\x1b[2J")
    report.problem(Place("f.yaml", 2), _LONG)
    report.note(Place("f.yaml", 3), "a\rb" + _LONG)
    first, second = report.sorted_problems()
    assert (str(first), len(second.text)) == ("f.yaml:1: a\\nb\\x1b[2J", _MOST)
    assert len(report.notes[0]) == len("f.yaml:3: ") + _MOST
    assert "\r" not in report.notes[0]
    assert str(FlagError("no option -a\nb")) == "no option -a\\nb"


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("trian", ["train", "serve"], "no workload 'trian'; did you mean train?"),
        ("x", ["train", "serve"], "no workload 'x'; there are train, serve"),
        ("x", list("abcdefg"), "no workload 'x'; there are a, b, c, d, e and 2 more"),
        ("x", [], "no workload 'x'"),
        ("x", ["a\nb", "y" * 100], f"no workload 'x'; there are a\\nb, {'y' * 60}"),
    ],
)
def test_unknown_names(name: str, known: list[str], text: str) -> None:
    """The nearest name, or some that exist: on one line, and not very long."""
    assert unknown_name("workload", name, known) == text
