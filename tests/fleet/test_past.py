"""What is over and stays listed, and the wall times of past ticks."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.fleet.door import WallClock
from fakedev.fleet.events import ChangeClock
from fakedev.fleet.past import MAX_KEPT, Past, When
from fakedev.fleet.workloads.workload import Verdict

WHEN = When(7, 7.0, 1_800_000_000.0)


def test_failures_are_kept_apart() -> None:
    """Thousands of good ends push out no failure; the newest are kept, with names of the first devices."""
    past = Past(lambda devices: ", ".join(map(str, devices)))
    failed = Verdict("w0", "bad", 1, "no", np.arange(5))
    good = [Verdict(f"w{number}", "good", 0, "OK") for number in range(1, MAX_KEPT + 11)]
    past.note_ends(WHEN, [failed, *good], {"w0": "f1"})
    assert past.settle(10) and not past.settle() and past.is_settled
    assert len(past.ends()) == MAX_KEPT + 1
    end = past.end("bad")
    assert end is not None and (end.cause, end.devices) == ("f1", "0, 1, 2 and 2 more")
    assert (past.end("w1"), past.end(f"w{MAX_KEPT + 10}") is None) == (None, False)
    assert end.fields()["ended-at"] == "2027-01-15T08:00:00Z"


def test_what_is_pushed_out_is_not_named() -> None:
    """Ends of tick after tick, before there was time to name those of the tick before: only what stays is named."""
    named: list[int] = []
    past = Past(lambda devices: str(named.append(int(devices[0]))))
    for tick in range(3):
        ends = [Verdict(f"w{tick}-{number}", "w", 1, "no", np.array([tick])) for number in range(MAX_KEPT // 2)]
        past.note_ends(When(tick, 0.0, 0.0), ends, {})
    assert (len(past.ends()), past.ends()[0].when.tick, past.ends()[-1].when.tick) == (MAX_KEPT, 2, 1)
    assert sorted(set(named)) == [1, 2]


@pytest.mark.parametrize(
    ("tick", "seconds"), [(0, 100.0), (5, 105.0), (10, 500.0), (12, 504.0), (20, 900.0), (30, 900.0)]
)
def test_the_wall_time_of_a_past_tick(tick: int, seconds: float) -> None:
    """By the clock of that time: it ran, ran at half the speed, and stands now."""
    clock = WallClock(100.0, 1.0)
    clock.change(ChangeClock(500.0, 2.0), 10)
    clock.change(ChangeClock(900.0, 0.0), 20)
    assert clock.past_seconds(tick) == seconds
