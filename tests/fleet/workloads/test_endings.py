"""What ends a workload: its profile, limits, times; each end is reported once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from fakedev.fleet.events import Reset
from fakedev.fleet.explanation import explain
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import DeviceType, Range
from fakedev.fleet.spec.fleet_spec import MetricName
from fakedev.fleet.workloads.workload import Verdict
from tests.support.fleet.faulty_fleets import boards_of, cleared, inject
from tests.support.fleet.fleets import MIB, advance, ended, loads, make_fleet, pool_of, start, stop, workload


class TestEnds:
    @pytest.mark.parametrize(
        ("fields", "tick", "code", "text"),
        [
            ({"run_time_limit": "2500ms"}, 3, 1, "Limit run-time reached, terminated"),
            ({"ttl": "2s"}, 2, 0, "time to live is over"),
            ({"ttl": "3s", "run_time_limit": "1500ms"}, 2, 1, "Limit run-time reached, terminated"),
            ({"profile": "50:0:2", "run_time_limit": "2s"}, 2, 0, "OK"),
            ({"profile": "50:0:3,60:0:0", "limits": {"power": 150}}, 4, 1, "Limit power reached, terminated"),
            ({"limits": {"frequency": 1e9, "memory": MIB, "power": 1}}, 1, 1, "Limit memory reached, terminated"),
            ({"profile": "50:0:1", "limits": {"power": 1}}, 1, 0, "OK"),
        ],
    )
    def test_one_verdict(self, fields: dict[str, Any], tick: int, code: int, text: str) -> None:
        """That of the earliest end; a profile that is over wins, and of several limits the first that is crossed."""
        fleet = make_fleet()
        start(fleet, **fields, name="train")
        advance(fleet, tick - 1)
        assert fleet.advance() == [Verdict("w1", "train", code, text)]
        assert ended(fleet, 3) == []
        assert loads(fleet)[0] == 0

    def test_the_load_stops_with_the_workload(self) -> None:
        fleet = make_fleet()
        start(fleet, profile="50:0:9", run_time_limit="1500ms")
        advance(fleet, 2)
        assert loads(fleet)[0] == 25

    def test_a_limit_looks_only_at_its_own_device(self) -> None:
        fleet = make_fleet()
        shared = start(fleet, "card0", "40:0:0", limits={"power_watts": 200})
        start(fleet, "card1", "100:0:0")
        assert ended(fleet) == []
        start(fleet, "card0", "50:0:0")
        assert ended(fleet) == [(2, shared, 1, "Limit power_watts reached, terminated")]

    def test_a_limit_of_what_the_device_has_not(self) -> None:
        warm = DeviceType("warm", {"usage_ratio": Range(0, 1), "temperature_celsius": Range(40, 80)})
        fleet = make_fleet(pool_of(), pool_of("hot", device_type=warm))
        cold = start(fleet, "dgx-0/0", limits={"temperature": -100})
        hot = start(fleet, "hot-0/0", limits={"temperature": 45})
        assert ended(fleet, 3) == [(1, hot, 1, "Limit temperature reached, terminated")]
        assert cold in fleet.workloads.by_id


def test_limits_by_the_names_that_users_see() -> None:
    """An identity's metric is compared in the unit in which it is shown: 500 MiB, not 500 bytes."""
    fleet = make_fleet(metric_names={"FB_USED": MetricName("memory_used_bytes", 1 / MIB)})
    workload_id = start(fleet, profile="10:0:2,90:0:0", limits={"FB_USED": 500})
    assert ended(fleet, 5) == [(3, workload_id, 1, "Limit FB_USED reached, terminated")]


class TestRestart:
    @staticmethod
    def fleet(restart: str, profile: str = "50:0:0", repeat: int = 0) -> Fleet:
        base = replace(workload("all", profile, name="base"), repeat=repeat, restart=restart)
        return make_fleet(boards_of("h100", devices=4), base=(base,))

    @staticmethod
    def busy_ticks(fleet: Fleet, count: int) -> list[int]:
        found = []
        for _ in range(count):
            fleet.advance()
            if fleet.usage_ratio.any():
                found.append(fleet.state.tick)
        return found

    @pytest.mark.parametrize(("restart", "returns"), [("always", True), ("on-failure", True), ("never", False)])
    def test_after_a_fault(self, restart: str, returns: bool) -> None:
        """After ten seconds, on all of its boards, under the same id; the journal has its start."""
        fleet = self.fleet(restart)
        advance(fleet, 2)
        inject(fleet, kind="xid", code=31, devices="dgx-0/2")
        advance(fleet, 1)
        busy = self.busy_ticks(fleet, 20)
        assert busy == (list(range(14, 24)) if returns else [])
        assert list(fleet.workloads.by_id) == (["base-base"] if returns else [])
        starts = [(each.scope, each.cause) for each in fleet.journal.last(9, ("start",))]
        assert starts == ([("base-base", "restart")] if returns else [])

    @pytest.mark.slow
    @pytest.mark.parametrize(("restart", "returns"), [("always", True), ("on-failure", False), ("never", False)])
    def test_after_its_end(self, restart: str, returns: bool) -> None:
        """Work that has done what it should is no failure; stopped work does not start again."""
        fleet = self.fleet(restart, "50:0:5", repeat=1)
        busy = self.busy_ticks(fleet, 18)
        assert busy == ([1, 2, 3, 4, 5, 16, 17, 18] if returns else [1, 2, 3, 4, 5])
        if returns:
            stop(fleet, "base-base")
        assert self.busy_ticks(fleet, 700) == []

    def test_a_reset_forgets_the_waits(self) -> None:
        fleet = self.fleet("always")
        advance(fleet, 1)
        inject(fleet, kind="lost", devices="dgx-0/1")
        advance(fleet, 5)
        fleet.apply(Reset("again"))
        advance(fleet, 3)
        assert fleet.usage_ratio.all()
        assert fleet.restarts_at("base-base") is None

    @pytest.mark.slow
    def test_the_waits_double(self) -> None:
        """Up to five minutes, while it ends at once; ten minutes of work later they begin anew."""
        fleet = self.fleet("always")
        advance(fleet, 1)
        lost = inject(fleet, kind="lost", devices="dgx-0/1")
        advance(fleet, 1000)
        starts = [each.tick for each in fleet.journal.last(99, ("start",))]
        assert [after - before - 1 for before, after in pairwise(starts)] == [20, 40, 80, 160, 300, 300]
        cleared(fleet, lost)
        advance(fleet, 300 + 600)
        inject(fleet, kind="xid", code=31, devices="dgx-0/2")
        advance(fleet, 12)
        assert fleet.usage_ratio.all()

    def test_an_idle_board_says_why(self) -> None:
        fleet = self.fleet("on-failure")
        advance(fleet, 1)
        fault = inject(fleet, kind="xid", code=31, devices="dgx-0/2")
        advance(fleet, 3)
        text = explain(fleet, 0, "usage_ratio")[0].text
        assert text == (
            f"no work; base-base ended in tick 2, base: 1 XID 31 on dgx-0/2, terminated "
            f"(fault {fault} xid code=31, over in tick 2), and starts again at 12 s"
        )
