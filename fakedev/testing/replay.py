"""Traces in tests: ``fakedev replay`` makes a scenario of one, which the fleet plays."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

from fakedev.commands.replay.command import replay
from fakedev.testing.order import Order


def with_scenario(order: Order, folder: Path) -> Order:
    """An order with a scenario in place of its replay.

    :param folder: for the scenario.
    :raises ValueError: with the words of ``fakedev replay``, when it cannot be replayed.
    :raises ConfigurationError: when its nodes cannot be those of a fleet.
    """
    path, said = folder / "replay.yaml", StringIO()
    with redirect_stdout(StringIO()), redirect_stderr(said):
        try:
            code = replay([*order.replay, "--output", str(path)])
        except SystemExit as ended:
            code = 2 if ended.code else 0
    if code:
        raise ValueError(f"replay: {said.getvalue().strip().removeprefix('fakedev replay: ')}")
    if not path.exists():
        raise ValueError("replay: leave out options that show something else than a fleet, as --check and --help")
    return replace(order, scenario=str(path))
