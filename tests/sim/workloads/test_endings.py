"""What ends a workload: its profile, limits, times; each end is reported once."""

from __future__ import annotations

from fakedev.sim.workloads.workload import Verdict
from fakedev.spec.device_types import DeviceType, Range
from fakedev.spec.fleet import MetricName
from tests.support.fleets import MIB, advance, ended, loads, make_fleet, pool_of, start


class TestEnds:
    """What ends a workload besides its profile."""

    def test_run_time_limit(self) -> None:
        """With 1, at the end of the tick in which it is reached, however much of the profile is left."""
        fleet = make_fleet()
        workload_id = start(fleet, profile="50:0:0", run_time_limit="2500ms")
        assert ended(fleet, 5) == [(3, workload_id, 1, "Limit run-time reached, terminated")]

    def test_time_to_live(self) -> None:
        """With 0: that it would end then was known."""
        fleet = make_fleet()
        workload_id = start(fleet, profile="50:0:0", ttl="2s")
        assert ended(fleet, 5) == [(2, workload_id, 0, "time to live is over")]

    def test_the_earliest_end_counts(self) -> None:
        """The load stops when it ends, not with the profile."""
        fleet = make_fleet()
        workload_id = start(fleet, profile="50:0:9", ttl="3s", run_time_limit="1500ms")
        assert ended(fleet, 5) == [(2, workload_id, 1, "Limit run-time reached, terminated")]
        fleet = make_fleet()
        start(fleet, profile="50:0:9", run_time_limit="1500ms")
        advance(fleet, 2)
        assert loads(fleet)[0] == 25

    def test_done_in_time_is_no_limit_reached(self) -> None:
        """A profile as long as the limit is over with 0."""
        fleet = make_fleet()
        workload_id = start(fleet, profile="50:0:2", run_time_limit="2s")
        assert ended(fleet, 3) == [(2, workload_id, 0, "OK")]

    def test_a_limit_of_a_metric(self) -> None:
        """It is crossed when a device of the workload shows more; the answer has the name as it was given."""
        fleet = make_fleet()
        workload_id = start(fleet, "card0,card1", "50:0:3,60:0:0", limits={"power": 150})
        assert ended(fleet, 3) == []
        assert fleet.power_watts[0] == 150
        assert ended(fleet, 2) == [(4, workload_id, 1, "Limit power reached, terminated")]
        assert loads(fleet)[0] == 0

    def test_a_limit_looks_only_at_its_own_device(self) -> None:
        """Others on the same device count, other devices do not."""
        fleet = make_fleet()
        shared = start(fleet, "card0", "40:0:0", limits={"power_watts": 200})
        start(fleet, "card1", "100:0:0")
        assert ended(fleet) == []
        start(fleet, "card0", "50:0:0")
        assert ended(fleet) == [(2, shared, 1, "Limit power_watts reached, terminated")]

    def test_the_first_limit_that_is_crossed_is_told(self) -> None:
        """One verdict, also when several are."""
        fleet = make_fleet()
        workload_id = start(fleet, limits={"frequency": 1e9, "memory": MIB, "power": 1})
        assert ended(fleet, 2) == [(1, workload_id, 1, "Limit memory reached, terminated")]

    def test_an_end_wins_over_a_limit_in_the_same_tick(self) -> None:
        """One verdict: the work was done."""
        fleet = make_fleet()
        workload_id = start(fleet, profile="50:0:1", limits={"power": 1})
        assert ended(fleet, 2) == [(1, workload_id, 0, "OK")]

    def test_a_limit_of_what_the_device_has_not(self) -> None:
        """Another pool has the metric, so it is a name; here it can never be crossed."""
        warm = DeviceType("warm", {"usage_ratio": Range(0, 1), "temperature_celsius": Range(40, 80)})
        fleet = make_fleet(pool_of(), pool_of("hot", device_type=warm))
        cold = start(fleet, "dgx-0/0", limits={"temperature": -100})
        hot = start(fleet, "hot-0/0", limits={"temperature": 45})
        assert ended(fleet, 3) == [(1, hot, 1, "Limit temperature reached, terminated")]
        assert cold in fleet.workloads.by_id

    def test_verdicts_carry_the_name(self) -> None:
        """For the notification of the peer, and for the log."""
        fleet = make_fleet()
        start(fleet, profile="50:0:1", name="train")
        assert fleet.advance() == [Verdict("w1", "train", 0, "OK")]


def test_limits_by_the_names_that_users_see() -> None:
    """An identity's metric is compared in the unit in which it is shown: 500 MiB, not 500 bytes."""
    fleet = make_fleet(metric_names={"FB_USED": MetricName("memory_used_bytes", 1 / MIB)})
    workload_id = start(fleet, profile="10:0:2,90:0:0", limits={"FB_USED": 500})
    assert ended(fleet, 5) == [(3, workload_id, 1, "Limit FB_USED reached, terminated")]
