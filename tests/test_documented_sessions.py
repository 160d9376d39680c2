"""The sessions of doc/simulation.md and doc/topology.md, typed in again: a machine answers as it did when they were pasted."""

from __future__ import annotations

import textwrap

import pytest

from tests.application import application
from tests.source_tree import ROOT

PAGES = {name: (ROOT / "doc" / f"{name}.md").read_text(encoding="utf-8") for name in ("simulation", "topology")}
_PROMPT = "    $ nc localhost 4499\n"


def blocks(page: str, *, are_sessions: bool) -> list[str]:
    """The indented blocks of a page that are sessions, or whole configurations, without their indent."""
    begins = _PROMPT if are_sessions else "    version: 1"
    return [textwrap.dedent(each) for each in PAGES[page].split("\n\n") if each.startswith(begins)]


SESSIONS = [(page, session) for page in PAGES for session in blocks(page, are_sessions=True)]


@pytest.mark.parametrize(("page", "session"), SESSIONS)
def test_a_session(page: str, session: str) -> None:
    """Each line that a person typed is answered with the lines that follow it."""
    (configuration,) = blocks(page, are_sessions=False)
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
    """A limit of its own, one of its device, and work on a throttled board; links that go down."""
    assert len(SESSIONS) == 4
