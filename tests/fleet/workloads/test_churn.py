"""Churn: workloads that come to nodes by themselves, as often and as long as the configuration says."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fleet_spec import ChurnKind, ChurnSpec
from fakedev.fleet.workloads.churn import Arrival, Churn
from fakedev.fleet.workloads.workload import origin_of
from tests.support.configurations import loaded, problems
from tests.support.fleet.faulty_fleets import cleared, inject
from tests.support.fleet.fleets import advance, labels_of, make_fleet, pool_of, reload, start, workload


def kind(name: str = "serve", seconds: tuple[float, float] = (10.0, 10.0), **more: Any) -> ChurnKind:
    return ChurnKind(workload(profile="60:20", name=name, repeat=0, namespace="ml", container="c"), *seconds, **more)


def churning(per_second: float = 0.2, *kinds: ChurnKind, nodes: int = 2, **more: Any) -> Fleet:
    return make_fleet(pool_of(nodes=nodes, churn=ChurnSpec(per_second, kinds or (kind(),))), **more)


def pods(fleet: Fleet, node: str = "dgx-0") -> list[str]:
    return [pod for (pod,) in labels_of(fleet, node, ["pod"])]


#: A quarter jobs of any length, and three quarters of services that last ten minutes.
KINDS = (kind("job", (60.0, 6000.0), counts=(1, 2, 4), is_job=True), kind("serve", (600.0, 600.0), weight=3.0))


def drawn(
    per_second: float, seed: int = 1, ticks: int = 3600, kinds: tuple[ChurnKind, ...] = KINDS
) -> list[Arrival]:
    """All that comes to 50 nodes."""
    roster = Roster([pool_of(nodes=50, devices_per_node=32, churn=ChurnSpec(per_second, kinds))])
    churn = Churn(seed, 1.0, roster)
    return [arrival for tick in range(1, ticks + 1) for arrival in churn.arrivals(tick, lambda device: True)]


@pytest.fixture(scope="module")
def arrivals() -> list[Arrival]:
    """An hour of arrivals, the same for all tests."""
    return drawn(0.05)


class TestArrival:
    def assert_about(self, found: float, expected: float, deviation: float) -> None:
        """Within four standard deviations: a fair draw fails once in 16,000 times, and this one is always the same."""
        assert abs(found - expected) < 4 * deviation, f"{found} is not about {expected} +/- {deviation}"

    @pytest.mark.slow
    def test_rate(self, arrivals: list[Arrival]) -> None:
        expected = 0.05 * 3600 * 50
        self.assert_about(len(arrivals), expected, math.sqrt(expected))
        by_node = Counter(arrival.workload.devices[0].partition("/")[0] for arrival in arrivals)
        spread = sum((count - expected / 50) ** 2 for count in by_node.values()) / 50
        self.assert_about(spread, expected / 50, expected / 50 * math.sqrt(2 / 50))
        expected = 0.9 * 600 * 50
        self.assert_about(len(drawn(0.9, ticks=600)), expected, math.sqrt(expected))

    @pytest.mark.slow
    def test_kinds(self, arrivals: list[Arrival]) -> None:
        jobs = [arrival.workload for arrival in arrivals if arrival.workload.name == "job"]
        count = len(arrivals)
        self.assert_about(len(jobs), count / 4, math.sqrt(count * 3 / 16))
        for devices, times in Counter(len(job.devices) for job in jobs).items():
            assert devices in (1, 2, 4)
            self.assert_about(times, len(jobs) / 3, math.sqrt(len(jobs) * 2 / 9))
        lasts = [job.ttl_seconds for job in jobs]
        assert 60 <= min(lasts) < 66 and 5450 < max(lasts) <= 6000, (min(lasts), max(lasts))
        self.assert_about(sum(last < 600 for last in lasts), len(jobs) / 2, math.sqrt(len(jobs)) / 2)
        assert {arrival.workload.ttl_seconds for arrival in arrivals} - set(lasts) == {600.0}

    @pytest.mark.slow
    def test_another_list(self, arrivals: list[Arrival]) -> None:
        before = {arrival.workload_id: arrival.workload for arrival in arrivals}
        job, serve = KINDS
        again = drawn(0.05, ticks=600, kinds=(serve, replace(job, counts=(4, 1, 2))))
        assert again and all(before[each.workload_id] == each.workload for each in again)
        kinds = (kind("never", weight=0.0), kind("new"), job, serve)
        after = {each.workload_id: each.workload for each in drawn(0.05, kinds=kinds)}
        others = {each: workload for each, workload in after.items() if workload.name != "new"}
        for each, found in others.items():
            # Of two that come to a node together the second has the devices that the first leaves.
            assert replace(found, devices=()) == replace(before[each], devices=())
            assert len(found.devices) == len(before[each].devices)
        self.assert_about(len(after) - len(others), len(after) / 5, math.sqrt(len(after) * 4 / 25))

    @pytest.mark.slow
    def test_names(self, arrivals: list[Arrival]) -> None:
        """Pods are named as Kubernetes names them: those of a deployment share a hash, those of jobs have their own."""
        names: dict[str, set[str]] = {"job": set(), "serve": set()}
        for arrival in arrivals:
            names[arrival.workload.name].add(arrival.workload.pod)
        for each in names["serve"]:
            assert re.search("^serve-[b-z2-9]{10}-[b-z2-9]{5}$", each)
        for each in names["job"]:
            assert re.search("^job-[0-9]{5}-[b-z2-9]{5}$", each)
        assert len({each.rpartition("-")[0] for each in names["serve"]}) == 1
        assert len(names["serve"] | names["job"]) > len(arrivals) * 0.999

    @pytest.mark.slow
    def test_a_function_of_seed_names_and_tick(self, arrivals: list[Arrival]) -> None:
        early = [arrival for arrival in arrivals if int(arrival.workload_id.split("-")[3]) <= 600]
        assert drawn(0.05, ticks=600) == early
        assert drawn(0.05, seed=2, ticks=600) != early
        more = pool_of("other", nodes=3, churn=ChurnSpec(0.05, KINDS))
        roster = Roster([more, pool_of(nodes=60, devices_per_node=32, churn=ChurnSpec(0.05, KINDS))])
        churn = Churn(1, 1.0, roster)
        found = [arrival for tick in range(1, 601) for arrival in churn.arrivals(tick, lambda device: True)]
        names = {each.workload_id for each in early}
        assert [each for each in found if each.workload_id in names] == early


class TestFleet:
    @pytest.mark.slow
    def test_devices_are_not_shared(self) -> None:
        fleet = churning(0.9, kind(counts=(1, 3), seconds=(3.0, 20.0)))
        started = ended = 0
        for _ in range(100):
            for verdict in fleet.advance():
                assert (verdict.code, verdict.text) == (0, "time to live is over")
                ended += 1
            on = Counter(device for each in fleet.workloads.by_id.values() for device in each.devices.tolist())
            assert max(on.values(), default=0) <= 1
            shown = sum(pod != "" for node in ("dgx-0", "dgx-1") for pod in pods(fleet, node))
            assert shown == len(on)
        kinds = Counter((each.kind, each.cause) for each in fleet.journal.last(10_000))
        started = kinds["start", "churn"]
        assert started - ended == len(fleet.workloads.by_id)
        assert ended > 20
        assert kinds["ended", ""] == ended

    def test_pods_of_others(self) -> None:
        fleet = churning(0.9, kind(seconds=(1e6, 1e6)), nodes=1)
        start(fleet, "dgx-0/0", pod="mine")
        start(fleet, "dgx-0/1")
        advance(fleet, 60)
        assert pods(fleet)[0] == "mine"
        assert "" not in pods(fleet)
        assert len(fleet.workloads.by_id) == 5

    def test_lost_devices(self) -> None:
        fleet = churning(0.9, kind(seconds=(1e6, 1e6)), nodes=1)
        advance(fleet, 30)
        fault = inject(fleet, kind="lost", devices=["dgx-0/2"])
        told = [verdict for _ in range(30) for verdict in fleet.advance()]
        assert [(each.code, each.text) for each in told] == [(1, "Device dgx-0/2 lost, terminated")]
        assert [pod == "" for pod in pods(fleet)] == [False, False, True, False]
        cleared(fleet, fault, 30)
        assert "" not in pods(fleet)

    def test_reload(self) -> None:
        fleet = churning(0.9, kind(seconds=(50.0, 50.0)), nodes=1)
        advance(fleet, 30)
        before = pods(fleet)
        assert "" not in before
        reload(fleet, pool_of(nodes=1))
        advance(fleet, 5)
        assert pods(fleet) == before
        advance(fleet, 60)
        assert pods(fleet) == [""] * 4

    def test_room(self) -> None:
        """Where the fleet takes no more workloads, none comes; ids say where workloads come from."""
        fleet = churning(0.9, base=(workload(),), nodes=1)
        start(fleet, "card1")
        advance(fleet, 10)
        assert {origin_of(each) for each in fleet.workloads.by_id} == {"churn", "configuration", "request"}
        full = churning(0.9)
        full.intake.reserve(100_000)
        advance(full, 20)
        assert full.workloads.by_id == {}


WORK = "{rate: 6/h, workloads: [{name: a, profile: '5', "


def _fleet(churn: str, nodes: int = 2) -> str:
    return f"fleet: {{pools: [{{name: a, nodes: {nodes}, device: h100, identity: dcgm, churn: {churn}}}]}}\n"


def test_configuration() -> None:
    (pool,) = loaded(
        _fleet("{rate: 6/h, workloads: [{name: t, profile: '90:5', devices: [4, 8], lasts: [30m, 6h], pods: job, "
               "weight: 2, metrics: {memory: 40GiB}, namespace: n}, {name: s, profile: inference, lasts: 10m}]}")
    ).fleet.pools  # fmt: skip
    assert pool.churn is not None
    assert pool.churn.per_second == 6 / 3600
    first, second = pool.churn.kinds
    assert (first.counts, first.min_seconds, first.max_seconds, first.weight) == ((4, 8), 1800, 21600, 2)
    assert (first.is_job, first.workload.namespace, first.workload.container) == (True, "n", "t")
    assert (second.counts, second.min_seconds, second.max_seconds) == ((1,), 600, 600)
    assert (second.workload.repeat, second.workload.namespace, len(first.workload.uses)) == (0, "default", 1)
    (plain,) = loaded(_fleet("{rate: 1/d}")).fleet.pools
    assert plain.churn is not None
    assert [each.workload.name for each in plain.churn.kinds] == ["train", "serve", "notebook"]


@pytest.mark.parametrize(
    ("churn", "expected"),
    [
        ("{}", "fleet.pools.0.churn: 'rate' is missing: How many start on each node, on average, as 6/h."),
        ("{rate: 6}", "fleet.pools.0.churn.rate: '6' is no rate: give a number above 0 with /s, /m, /h or /d, as 6/h"),
        ("{rate: 2/s}", "rate: 2 start on a node in a tick: at most 1 can"),
        (f"{WORK}lasts: [2h, 1h]}}]}}", "lasts: give a duration, or the shortest and the longest, as [10m, 4h]"),
        ("{rate: 6/h, workloads: [{name: a, lasts: 1h}]}",
         "fleet.pools.0.churn.workloads.0: 'profile' is missing: Activities, as load:fluctuation:seconds with commas "
         "between them, or as a list; a recorded series; a schedule of utilization; or a profile by name "
         "(doc/simulation.md)."),
        (f"{WORK}lasts: 1h, devices: 9}}]}}", "devices: the nodes have 8, so that it never starts"),
        (f"{WORK}lasts: 1h, kind: tensr}}]}}", "kind: no kind of work 'tensr'; did you mean tensor?"),
        (f"{WORK}lasts: 1h, weight: 0}}]}}", "workloads: all have the weight 0, so that none starts"),
    ],
)  # fmt: skip
def test_problems(churn: str, expected: str) -> None:
    assert problems(_fleet(churn)) == [f"f.yaml:1: {expected}"]


def test_too_many_for_the_fleet() -> None:
    text = "f.yaml:1: rate: 200 start in the fleet in a tick: at most 100 can"
    assert problems(_fleet("{rate: 1/s}", nodes=200)) == [text]
