"""``fakedev scenario``: the table of its subcommands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fakedev.commands.parser import run_subcommand

#: Module and function of each subcommand, which is only imported when it runs, and its line of help.
SUBCOMMANDS: Final = {
    "run": ("fakedev.commands.scenario.run:run", "run a scenario in virtual time, and write its history and truth"),
    "score": ("fakedev.commands.scenario.score:score", "mark alert rules: what each found, how late, and what not"),
    "tests": ("fakedev.commands.scenario.tests:tests", "write a run as a file for promtool test rules"),
    "blocks": ("fakedev.commands.scenario.blocks:blocks", "make blocks for Prometheus of a written history"),
    "from": ("fakedev.commands.scenario.from_record:from_record", "print a record of a service as a scenario"),
}


def scenario(arguments: Sequence[str]) -> int:
    """Run a subcommand of ``fakedev scenario``; its exit code."""
    return run_subcommand("fakedev scenario", SUBCOMMANDS, arguments)
