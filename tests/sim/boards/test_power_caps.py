"""Power caps: a board finds the clock at which its power meets the cap, and shows a clock that it supports."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.sim.boards.clocks import PEAK_SHARE
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused
from tests.support.board_checks import overshoot
from tests.support.calibration import catalog_type
from tests.support.faulty_fleets import boards_of, inject
from tests.support.fleets import advance, make_fleet, start


def capped(name: str, watts: float, kind: str = "compute") -> Fleet:
    """One board of the catalog under full load and a cap, after half a minute."""
    fleet = make_fleet(boards_of(name, nodes=1, devices=1))
    start(fleet, "all", "100:0:0", kind=kind)
    advance(fleet, 5)
    inject(fleet, kind="power-cap", devices="all", watts=watts)
    advance(fleet, 30)
    return fleet


@pytest.mark.parametrize(
    ("name", "watts", "megahertz"),
    [("l40s", 100, 1680), ("l40s", 110, 1830), ("h100", 200, 1050), ("t4", 60, 1500), ("v100", 150, 1080)],
)
def test_it_is_met(name: str, watts: float, megahertz: float) -> None:
    """Within 0.1 W, also at the least that the driver accepts. Of real boards 1 W is known (an RTX 3090)."""
    fleet = capped(name, watts)
    assert fleet.power_watts[0] == pytest.approx(watts, abs=0.1)
    assert fleet.throttled_power[0] == 1
    assert fleet.core_frequency_mhz[0] == pytest.approx(megahertz, rel=0.05)


@pytest.mark.parametrize("name", ["h100", "a100", "l40s", "t4", "v100", "mi300x", "max-1550", "flex-170", "dg1"])
def test_clocks_are_supported_ones(name: str) -> None:
    """Whole steps, or an end of the range: throttled, locked between two steps, and on the way down to idle."""
    dynamics = catalog_type(name).dynamics
    assert dynamics is not None
    fleet = capped(name, 0.9 * dynamics.power_limit_watts, "tensor")
    inject(fleet, kind="clock-lock", devices="all", megahertz=777.7, start=5)
    seen = []
    for tick in range(20):
        if tick == 10:
            inject(fleet, kind="reset", devices="all")
        fleet.advance()
        seen.append(float(fleet.core_frequency_mhz[0]))
    assert len(set(seen)) >= 3
    assert np.mod(np.array(seen) / dynamics.clock_step_mhz, 1).tolist() == [0] * len(seen)


def test_the_transient() -> None:
    """Whatever the work asks for at once, a second shows at most 6 % over the cap; afterwards the cap."""
    fleet = make_fleet(boards_of("h100", nodes=1, devices=8))
    advance(fleet, 5)
    start(fleet, "all", "100:0:0", kind="tensor", metrics={"memory-bandwidth": "100%", "fabric-tx": "100%"})
    fleet.advance()
    dynamics = catalog_type("h100").dynamics
    assert dynamics is not None
    most = 700 * (1 + PEAK_SHARE * overshoot(dynamics, 1.0))
    assert 1.05 < most / 700 < 1.06
    assert 720 < fleet.power_watts.max() <= most
    advance(fleet, 3)
    assert fleet.power_watts == pytest.approx(np.full(8, 700), abs=0.1)


class TestRefused:
    """Drivers refuse caps outside of their ranges."""

    @pytest.mark.parametrize("watts", [50, 351])
    def test_with_the_range(self, watts: float) -> None:
        """It says which range."""
        fleet = make_fleet(boards_of("l40s", nodes=1, devices=2))
        with pytest.raises(Refused, match=f"accepts a power limit of {watts} W: l40s-48gb takes 100 to 350 W"):
            inject(fleet, kind="power-cap", devices="all", watts=watts)

    def test_others_are_not_affected(self) -> None:
        """150 W are too little for an H100, and the L40S beside it gets them."""
        fleet = make_fleet(boards_of("h100", devices=1), boards_of("l40s", devices=1))
        inject(fleet, kind="power-cap", devices="all", watts=150)
        advance(fleet, 1)
        assert fleet.power_limit_watts.tolist() == [700, 150]

    def test_types_without_a_range(self) -> None:
        """No least limit is known of them; the most is the limit that the board comes with."""
        fleet = make_fleet(boards_of("mi300x", nodes=1, devices=1))
        inject(fleet, kind="power-cap", devices="all", watts=1)
        with pytest.raises(Refused, match="amd-mi300x takes 0 to 750 W"):
            inject(fleet, kind="power-cap", devices="all", watts=751)
