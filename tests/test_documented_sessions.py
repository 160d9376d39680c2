"""The sessions of doc/simulation.md, typed in again: a machine answers as it did when they were pasted."""

from __future__ import annotations

import textwrap

import pytest

from tests.application import application
from tests.source_tree import ROOT

PAGE = (ROOT / "doc" / "simulation.md").read_text(encoding="utf-8")
_PROMPT = "    $ nc localhost 4499\n"


def blocks() -> list[str]:
    """The indented blocks of the page that are sessions or a whole configuration, without their indent."""
    paragraphs = PAGE.split("\n\n")
    return [textwrap.dedent(each) for each in paragraphs if each.startswith((_PROMPT, "    version: 1"))]


SESSIONS, CONFIGURATIONS = ([each for each in blocks() if each.startswith("$") is kind] for kind in (True, False))


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.split()[5])
def test_a_session(session: str) -> None:
    """Each line that a person typed is answered with the lines that follow it."""
    (configuration,) = CONFIGURATIONS
    board = str(ROOT / "doc" / "plots" / "blocked-h100.yaml")
    lines = session.splitlines()[1:]
    with application(configuration.replace("blocked-h100.yaml", board)) as app:
        peer = app.connect()
        while lines:
            typed, *lines = lines
            answer = peer.say(typed)
            if typed.startswith("advance"):
                while not answer or not answer[-1].startswith("ok "):
                    answer += peer.lines()
            assert answer == lines[: len(answer)], typed
            lines = lines[len(answer) :]


def test_all_are_there() -> None:
    """A limit of its own, one of its device, and work on a throttled board."""
    assert len(SESSIONS) == 3
