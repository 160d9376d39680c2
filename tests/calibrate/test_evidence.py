"""What a run cannot tell keeps the catalog's value, with the reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fakedev.calibrate.fit import calibrate
from fakedev.calibrate.model import (
    CLOCKED_SHARE,
    EXPONENT,
    FULL_POWER,
    HIGH_CLOCK,
    IDLE_CLOCK,
    IDLE_HEAT,
    IDLE_POWER,
    MATRIX_CLOCK,
    MEMORY_WATTS,
    POWER_LIMIT,
    THERMAL_SECONDS,
    Coefficient,
)  # fmt: skip
from fakedev.calibrate.report import PHASES, Phase
from fakedev.calibrate.runs import read_csv
from tests.support.recorded_runs import catalog_type, recorded

pytest.importorskip("scipy")


def without(leaves: Callable[[Phase], bool]) -> list[Phase]:
    """The plan without some of its phases."""
    return [phase for phase in PHASES if not leaves(phase)]


LACKS: dict[str, tuple[list[Phase], set[Coefficient]]] = {
    "nothing is missing": (list(PHASES), set()),
    "nothing ran at the cap": (without(lambda phase: phase.kind == "tensor"), {MATRIX_CLOCK}),
    "no memory-bound work": (without(lambda phase: phase.kind == "memory"), {MEMORY_WATTS}),
    "no locked clock": (without(lambda phase: phase.clock_share < 1), {EXPONENT}),
    "never idle": (without(lambda phase: phase.load_percent is None), {IDLE_CLOCK, IDLE_POWER}),
    "no context without work": (without(lambda phase: phase.load_percent == 0), {CLOCKED_SHARE}),
    "no full load": (
        without(lambda phase: phase.load_percent == 100 and phase.kind == "compute"), {FULL_POWER, EXPONENT},
    ),
    "only idle": (
        [phase for phase in PHASES if phase.load_percent is None],
        {HIGH_CLOCK, FULL_POWER, EXPONENT, CLOCKED_SHARE, MATRIX_CLOCK, MEMORY_WATTS, IDLE_HEAT, THERMAL_SECONDS},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", LACKS)
def test_a_run_that_lacks_something(what: str) -> None:
    """Its coefficients stay the catalog's; those that it tells are fitted."""
    phases, expected = LACKS[what]
    board = catalog_type("h100")
    run, _ = read_csv(recorded(board, phases), "run.csv")
    found = {finding.coefficient: finding for finding in calibrate(board, run).findings}
    kept = {coefficient for coefficient, each in found.items() if each.value is None}
    assert expected <= kept
    assert all(found[each].why and each.needs for each in kept)
    assert POWER_LIMIT not in kept, "it has a column"
    if what != "only idle":
        assert {HIGH_CLOCK, IDLE_HEAT, THERMAL_SECONDS}.isdisjoint(kept)
    if not expected:
        assert not kept


@pytest.mark.slow
def test_without_a_column_and_work_at_it_the_limit_is_the_catalogs() -> None:
    board = catalog_type("h100")
    phases = without(lambda phase: phase.kind == "tensor")
    run, _ = read_csv(recorded(board, phases, with_limit=False), "run.csv")
    (finding,) = (finding for finding in calibrate(board, run).findings if finding.coefficient == POWER_LIMIT)
    assert finding.value is None
    assert "nothing ran at the power limit" in finding.why


@pytest.mark.slow
def test_a_clock_that_is_always_limited_is_not_the_highest() -> None:
    """A matrix product alone does not show how high the clock can go."""
    board = catalog_type("h100")
    phases = [phase for phase in PHASES if phase.kind == "tensor" or phase.load_percent is None]
    run, _ = read_csv(recorded(board, phases), "run.csv")
    (finding,) = (finding for finding in calibrate(board, run).findings if finding.coefficient == HIGH_CLOCK)
    assert finding.value is None


@pytest.mark.slow
def test_samples_that_are_far_apart_do_not_tell_a_time_constant() -> None:
    """Every tenth second, of a board with 17 s."""
    board = catalog_type("h100")
    head, *lines = recorded(board).splitlines(keepends=True)
    run, _ = read_csv(head + "".join(lines[::10]), "run.csv")
    (finding,) = (finding for finding in calibrate(board, run).findings if finding.coefficient == THERMAL_SECONDS)
    assert "10 s apart" in finding.why
