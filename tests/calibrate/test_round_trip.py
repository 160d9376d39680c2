"""A simulated board is recorded as nvidia-smi would print it, and calibrated: it gets its own coefficients back."""

from __future__ import annotations

import pytest

from fakedev.calibrate.fit import Calibration, calibrate
from fakedev.calibrate.model import EVERY, MATRIX_CLOCK, POWER_LIMIT, Coefficient
from fakedev.calibrate.runs import read_csv
from fakedev.fleet.spec.device_types import DeviceType
from tests.support.examples import only_long
from tests.support.recorded_runs import catalog_type, changed, recorded

pytest.importorskip("scipy")

#: How near each coefficient has to be, as a share.
NEAR = 0.05


def calibrated(board: DeviceType, start: DeviceType, **how: int | bool) -> Calibration:
    """What a run of a board makes of a type to begin with."""
    run, _ = read_csv(recorded(board, **how), "run.csv")  # type: ignore[arg-type]
    return calibrate(start, run)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["h100", "amd-mi300x", *only_long("a100", "l4")])
def test_a_board_gets_its_own_coefficients_back(name: str) -> None:
    """Though the fit begins with a type that is off by 15 to 20 % in each of them."""
    board = catalog_type(name)
    found = calibrated(board, changed(board))
    for finding in found.findings:
        own = finding.coefficient.of(board)
        assert finding.value is not None, f"{finding.coefficient.title}: {finding.why}"
        if own is not None:
            assert finding.value == pytest.approx(own, rel=NEAR), finding.coefficient.title


@pytest.mark.slow
def test_what_is_simulated_is_near_what_was_measured() -> None:
    """The fitted type, in the same run: within the noise of the power and the steps of the thermometer."""
    found = calibrated(catalog_type("h100"), catalog_type("h100"))
    differences = {difference.quantity: difference.rms for difference in found.differences()}
    assert differences["power_watts"] < 0.01 * 700
    assert differences["temperature_celsius"] < 0.6
    assert differences["core_frequency_mhz"] < 15


@pytest.mark.slow
def test_without_a_column_the_limit_is_where_work_is_held() -> None:
    """The matrix product is at the power limit: its power is the limit."""
    board = catalog_type("a100")
    found = calibrated(board, changed(board, POWER_LIMIT), with_limit=False)
    assert POWER_LIMIT.of(found.board) == pytest.approx(400, rel=0.02)
    assert MATRIX_CLOCK.of(found.board) == pytest.approx(1290, rel=NEAR)


@pytest.mark.slow
def test_another_seed_of_the_noise_gives_the_same_within_the_errors() -> None:
    """The standard errors are honest: two runs differ by a few of them."""
    board = catalog_type("h100")
    one, other = (calibrated(board, board, seed=seed) for seed in (2, 3))

    def values(found: Calibration) -> dict[Coefficient, tuple[float, float]]:
        return {finding.coefficient: (finding.value or 0.0, finding.uncertainty or 0.0) for finding in found.findings}

    for coefficient, (value, error) in values(one).items():
        if error:
            assert values(other)[coefficient][0] == pytest.approx(value, rel=8 * error + 1e-4), coefficient.title


def test_every_coefficient_has_its_place() -> None:
    """Each can be read from a type and put into it again."""
    board = catalog_type("h100")
    for each in EVERY:
        assert each.of(each.put(board, 12.5)) == 12.5
