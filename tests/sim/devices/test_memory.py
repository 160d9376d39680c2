"""A board's memory is held as long as a workload runs, however busy the workload is."""

from __future__ import annotations

from dataclasses import replace

from fakedev.spec.device_types import Dynamics, Range
from tests.support.fleets import BOARD, MIB, advance, make_fleet, pool_of, start, stop

DYNAMIC = replace(
    BOARD,
    ranges={**BOARD.ranges, "temperature_celsius": Range(30, 70)},
    dynamics=Dynamics(power_limit_watts=300),
)


def used(device_type=DYNAMIC, **workload: object) -> list[float]:
    """MiB that the first device shows in six ticks of a workload that is stopped after four."""
    fleet = make_fleet(pool_of(device_type=device_type))
    workload_id = start(fleet, **workload)
    shown = []
    for tick in range(6):
        if tick == 4:
            stop(fleet, workload_id)
        advance(fleet, 1)
        shown.append(float(fleet.memory_used_bytes[0]) / MIB)
    return shown


def test_it_does_not_come_and_go_with_the_load() -> None:
    """A job that pauses keeps what its busiest activity needs; when it ends all is freed."""
    assert used(profile="80:0:1,0:0:1", repeat=0) == [640, 640, 640, 640, 0, 0]


def test_noise_does_not_move_it() -> None:
    """Fluctuation is of the load."""
    assert used(profile="50:40:0") == [400, 400, 400, 400, 0, 0]


def test_several_add_up_to_what_there_is() -> None:
    """Two jobs hold both of theirs, and no more than the highest of the board's range."""
    fleet = make_fleet(pool_of(device_type=DYNAMIC))
    start(fleet, profile="30:0:0")
    start(fleet, profile="40:0:0")
    advance(fleet, 1)
    assert fleet.memory_used_bytes[0] == 560 * MIB
    start(fleet, profile="90:0:0")
    advance(fleet, 1)
    assert fleet.memory_used_bytes[0] == 800 * MIB


def test_without_dynamics_it_follows_the_load() -> None:
    """The original's rule: 80 % and nothing, in turn."""
    assert used(BOARD, profile="80:0:1,0:0:1", repeat=0) == [640, 0, 640, 0, 0, 0]
