"""The sessions of some pages of doc, typed in again: they answer as when they were pasted."""

from __future__ import annotations

import textwrap

import pytest

from tests.support.application import application
from tests.support.paths import ROOT

_PROMPT = "    $ nc localhost 4499\n"


def sessions(page: str) -> list[tuple[str, str]]:
    """The sessions of a page with its configuration: its indented blocks that are such, without their indent."""
    paragraphs = (ROOT / "doc" / page).read_text(encoding="utf-8").split("\n\n")
    blocks = [textwrap.dedent(each) for each in paragraphs if each.startswith((_PROMPT, "    version: 1"))]
    (configuration,) = [block for block in blocks if not block.startswith("$")]
    return [(configuration, block) for block in blocks if block.startswith("$")]


PAGES = ("simulation.md", "topology.md", "faults.md", "protocol-workload.txt")
SESSIONS = [session for page in PAGES for session in sessions(page)]


@pytest.mark.slow
@pytest.mark.parametrize(("configuration", "session"), SESSIONS, ids=[each.split()[5] for _, each in SESSIONS])
def test_a_session(configuration: str, session: str) -> None:
    """Each line that a person typed is answered with the lines that follow it."""
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
    """A limit of a workload; links; faults; a protocol."""
    assert len(SESSIONS) == 5
