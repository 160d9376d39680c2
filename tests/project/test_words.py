"""Habits that make English hard to read, which the source does not have: each with what is said instead."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT

#: Expressions, and the plain words in their place. A sentence that passes may still be odd: read it aloud.
HABITS = {
    r"\bso (many|long|often)\b": "the number or the time: 'up to `limit` nodes', 'after this time'",
    r"\b(is|are) to be \w+": "'must be', 'should be', or the verb in the active voice",
    r"\bthere no more\b": "'was deleted', 'is gone'",
    r"\bits_\w+ =": "the noun: `workload_id`",
}


@pytest.mark.slow
def test_no_such_habits() -> None:
    """In code, comments, docstrings and messages of the product."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()} ({instead})"
        for path in sorted((ROOT / "fakedev").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for habit, instead in HABITS.items()
        if re.search(habit, line)
    ]
    assert not found, "\n".join(found)
