"""A living cluster: jobs that arrive, wait, run, fail and come back, whatever the length of a tick."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fakedev.fleet.cluster.jobs import Arrivals
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.snapshot import fleet_from_bytes, fleet_to_bytes
from fakedev.fleet.spec.cluster_spec import ClusterSpec, JobKind
from tests.support.configurations import loaded, problems
from tests.support.fleet.faulty_fleets import boards_of, inject
from tests.support.fleet.fleets import advance, make_fleet, pool_of, reload, start, stop, workload


def kind(name: str = "train", sizes: tuple[tuple[int, float], ...] = ((4, 1.0),), **more: Any) -> JobKind:
    """Jobs of 100 s on a whole node."""
    given: dict[str, Any] = {"lasts_seconds": 100.0, "spread": 1.0, "memory": (0.2, 0.6), "ending_seconds": 5.0}
    return JobKind(workload(profile="80:5", name=name, repeat=0, namespace="ml"), sizes, **given | more)


def cluster(*kinds: JobKind, load: float = 0.7, **more: Any) -> ClusterSpec:
    return ClusterSpec(load=load, day=0.0, weekend=1.0, jobs=kinds or (kind(),), **more)


def living(spec: ClusterSpec, nodes: int = 4, **more: Any) -> Fleet:
    return make_fleet(pool_of(nodes=nodes), cluster=spec, **more)


def running(fleet: Fleet) -> dict[str, tuple[str, list[int]]]:
    """Pod and boards of each workload, by its id."""
    return {name: (each.spec.pod, each.devices.tolist()) for name, each in fleet.workloads.by_id.items()}


class TestJobs:
    @pytest.mark.slow
    def test_arrivals(self) -> None:
        """As many boards times hours as the load says; hours of the day and days of the week have their shares."""
        arrivals = Arrivals(1, ClusterSpec(load=0.5, day=0.5, busiest=14, weekend=0.4, jobs=(kind(),)), 1000, 1000)
        by_hour = Counter[int]()
        by_day = Counter[int]()
        for slot in range(0, 7 * 1440, 12):
            found = arrivals.in_slot(slot, 4 * 86400.0)  # a Monday
            by_hour[slot // 60 % 24] += len(found)
            by_day[slot // 1440] += len(found)
        assert sum(by_day.values()) == pytest.approx(7 * 7200 * 0.5 * 1000 / (4 * 100), rel=0.01)
        assert by_day[5] / by_day[1] == pytest.approx(0.4, rel=0.06)
        assert by_hour[14] / by_hour[2] == pytest.approx(3.0, rel=0.1)

    @pytest.mark.slow
    def test_lengths(self) -> None:
        """Half of the jobs are shorter than the median, a sixth longer than the spread; the mean decides the rate."""
        many = kind(sizes=((1, 3.0), (2, 1.0)), spread=3.0, longest_seconds=2000.0)
        arrivals = Arrivals(1, cluster(many), 5_000, 4)
        jobs = [job for slot in range(100) for job in arrivals.in_slot(slot, 0.0)]
        lengths = sorted(job.left_seconds for job in jobs)
        assert lengths[len(lengths) // 2] == pytest.approx(100, rel=0.03)
        assert lengths[int(len(lengths) * 0.8413)] == pytest.approx(300, rel=0.03)
        assert lengths[-1] == 2000.0
        assert sum(lengths) / len(lengths) == pytest.approx(many.mean_seconds, rel=0.02)
        assert sum(job.size == 2 for job in jobs) / len(jobs) == pytest.approx(0.25, rel=0.03)


    def test_jobs_at_work_are_longer(self) -> None:
        """Each is met as often as it is long, also where most are cut at the longest; half of it is over on average."""
        arrivals = Arrivals(1, cluster(kind(sizes=((1, 1.0),), spread=5.0, longest_seconds=300.0)), 20_000, 4)
        lengths = np.array([job.left_seconds for slot in range(60) for job in arrivals.in_slot(slot, 0.0)])
        left = np.array([job.left_seconds for job in arrivals.at_work(0.0)])
        assert left.mean() == pytest.approx((lengths**2).mean() / lengths.mean() / 2.0, rel=0.02)


class TestFleet:
    @pytest.mark.slow
    def test_it_is_busy_from_the_beginning(self) -> None:
        fleet = living(cluster(kind(sizes=((1, 1.0),), lasts_seconds=3600.0, spread=3.0)), nodes=20)
        first = len(fleet.workloads.by_id)
        assert 40 < first < 72
        assert fleet.usage_ratio.max() > 0.7
        advance(fleet, 600)
        assert 30 < len(fleet.workloads.by_id) < 80

    @pytest.mark.slow
    def test_a_job_has_whole_nodes(self) -> None:
        """One pod on each node, all of them at once, and no board twice."""
        fleet = living(cluster(kind(sizes=((8, 1.0),)), load=2.0))
        for _ in range(300):
            fleet.advance()
            found = running(fleet)
            boards = [board for _, devices in found.values() for board in devices]
            assert len(boards) == len(set(boards))
            jobs = Counter(pod.rpartition("-worker-")[0] for pod, _ in found.values())
            assert set(jobs.values()) <= {2} and all(len(devices) == 4 for _, devices in found.values())
        assert fleet.cluster is not None
        assert fleet.cluster.waiting()[1] == 8 * fleet.cluster.waiting()[0] > 0
        assert fleet.cluster.ends["finished"] > 3

    @pytest.mark.slow
    def test_small_jobs_overtake_but_do_not_delay(self) -> None:
        """A job that needs half of the nodes starts although small ones come all the time."""
        kinds = (kind("small", ((1, 1.0),), share=1.0), kind("large", ((8, 1.0),), share=1.0))
        fleet = living(cluster(*kinds, load=1.5))
        seen = Counter[str]()
        for _ in range(1500):
            fleet.advance()
            seen.update({each.spec.name.partition("-")[0] for each in fleet.workloads.by_id.values()})
        assert seen["large"] > 200
        assert seen["small"] > 200

    @pytest.mark.slow
    def test_phases(self) -> None:
        """Work, then results are written while the boards are held, by the same pod."""
        fleet = living(cluster(kind(ending_seconds=20.0), load=0.3))
        loads: dict[str, list[float]] = {}
        for _ in range(600):
            fleet.advance()
            for pod, devices in running(fleet).values():
                loads.setdefault(pod, []).append(float(fleet.usage_ratio[devices[0]]))
        whole = [load for load in loads.values() if len(load) == 120]
        assert whole
        for each in whole:
            assert min(each[:100]) > 0.7
            assert max(each[101:]) < 0.1

    @pytest.mark.slow
    def test_errors_of_their_own(self) -> None:
        fleet = living(cluster(kind(failing=1.0, failing_after_seconds=10.0)))
        verdicts = [each for _ in range(900) for each in fleet.advance()]
        texts = Counter((verdict.code, verdict.text) for verdict in verdicts)
        assert texts[1, "exited with code 1"] > texts[1, "CUDA out of memory"] > 0

    @pytest.mark.slow
    def test_hardware_fails_and_jobs_come_back(self) -> None:
        """What broke is away for a time; the job goes on from its checkpoint, elsewhere if need be."""
        spec = cluster(kind(lasts_seconds=2000.0, checkpoint_seconds=50.0), failure_hours=1.0, repair_seconds=300.0)
        fleet = living(spec, nodes=8, tick_seconds=10.0)
        texts, attempts, faults = Counter[str](), Counter[str](), Counter[str]()
        for _ in range(500):
            texts.update(each.text for each in fleet.advance() if each.code)
            attempts.update(each.split("-")[-2] for each in fleet.workloads.by_id if each.startswith("cluster-"))
            faults.update(each.spec.kind for each in fleet.faults.by_id.values())
        assert {"lost", "xid", "node-down"} <= faults.keys()
        assert "a board has fallen off the bus (XID 79)" in texts and "NCCL watchdog timeout" in texts
        assert attempts["1r"] > 10

    def test_nothing_starts_on_what_has_just_failed(self) -> None:
        """A job that waits does not take the board that the end of another has broken."""
        spec = cluster(kind(sizes=((1, 1.0),), lasts_seconds=2000.0), load=3.0, failure_hours=0.5)
        fleet = living(spec, nodes=2, tick_seconds=10.0)
        failed = 0
        for _ in range(200):
            before = set(fleet.workloads.by_id)
            ended = {each.workload_id for each in fleet.advance() if each.code}
            assert ended <= before
            failed += len(ended)
        assert failed > 5

    @pytest.mark.slow
    def test_lost_boards_and_users(self) -> None:
        """A job whose board is lost comes back; one that a user stops does not. Boards in use are left alone."""
        fleet = living(cluster(kind(lasts_seconds=1e6), load=0.3), nodes=10)
        name = next(iter(fleet.workloads.by_id))
        node = fleet.workloads.by_id[name].spec.devices[0].partition("/")[0]
        inject(fleet, kind="lost", devices=[f"{node}/1"])
        advance(fleet, 200)
        again = name.replace("-0r-", "-1r-")
        assert name not in fleet.workloads.by_id
        assert again in fleet.workloads.by_id
        stop(fleet, again)
        advance(fleet, 300)
        assert fleet.cluster is not None and fleet.cluster.ends["stopped"] == 1

    def test_boards_of_others(self) -> None:
        fleet = living(cluster(kind(sizes=((1, 1.0),)), load=5.0), nodes=1)
        ids = [*fleet.workloads.by_id]
        for each in ids:
            stop(fleet, each)
        mine = start(fleet, "dgx-0/2", profile="50")
        for _ in range(100):
            fleet.advance()
            on = [each for each, (_, devices) in running(fleet).items() if 2 in devices]
            assert mine in on and len(on) <= 2
        assert on == [mine]

    @pytest.mark.slow
    @pytest.mark.parametrize("tick", [2.0, 20.0])
    def test_a_slow_rank_slows_its_job(self, tick: float) -> None:
        """The other boards of its job draw less while they wait, and are in use; it takes as much longer."""
        braked, usual = (self.length_and_watts(tick, is_braked=each) for each in (True, False))
        assert usual[0] == pytest.approx(400.0, abs=tick)
        assert braked[0] == pytest.approx(100.0 + 300.0 / 0.5, rel=0.03)
        others = slice(1, None)
        assert (braked[1][others] < 0.8 * usual[1][others]).all()
        assert braked[2][others] == pytest.approx(usual[2][others], rel=0.05)

    @staticmethod
    def length_and_watts(tick: float, *, is_braked: bool) -> tuple[float, Floats, Floats]:
        """How long a job of 400 s on two nodes lasts, one of whose boards has half its clock after 100 s; its means."""
        work = workload(profile="80", name="train", repeat=0, seconds_of="work")
        job = JobKind(work, ((4, 1.0),), 400.0, spread=1.0, ending_seconds=0.0)
        full = cluster(job, load=2.0, failure_hours=1e9)
        fleet = make_fleet(boards_of("h100", nodes=4), cluster=full, tick_seconds=tick)
        first, ran = None, 0.0
        watts = usage = np.zeros(0)
        while first is None or first in fleet.workloads.by_id:
            # Those that the cluster begins with, or that wait then, have done a part of their work.
            fresh = [name for name, each in fleet.workloads.by_id.items() if (each.start_seconds or 0.0) > 900.0]
            first = first or next(iter(fresh), None)
            fleet.advance()
            if first and first in fleet.workloads.by_id:
                own = fleet.workloads.by_id[first]
                ran = fleet.state.seconds - (own.start_seconds or 0.0)
                ranks = [each for each in fleet.workloads.by_id.values() if each.key == own.key]
                devices = np.concatenate([rank.devices for rank in ranks])
                if is_braked and ran == 100.0:
                    inject(fleet, kind="power-brake", devices=f"dgx-{devices[0] // 2}/{devices[0] % 2}")
                if ran == 300.0:
                    watts, usage = fleet.power_watts[devices], fleet.usage_ratio[devices]
        return ran, watts, usage


class TestHistory:
    @staticmethod
    def story(fleet: Fleet, ticks: int) -> list[object]:
        found: list[object] = []
        for _ in range(ticks):
            found.append([(each.workload_id, each.code, each.text) for each in fleet.advance()])
            found.append((sorted(running(fleet)), fleet.power_watts.tolist()))
        return found

    SPEC = cluster(
        kind(sizes=((1, 2.0), (4, 1.0), (8, 1.0)), spread=3.0, failing=0.3, failing_after_seconds=20.0),
        load=1.2, failure_hours=5.0, repair_seconds=60.0,
    )  # fmt: skip

    @pytest.mark.slow
    def test_the_same_seed_is_the_same_history(self) -> None:
        one, same, other = (self.story(living(self.SPEC, seed=seed), 200) for seed in (1, 1, 2))
        assert one == same != other

    @pytest.mark.slow
    def test_it_goes_on_from_its_bytes(self) -> None:
        fleet = living(self.SPEC)
        advance(fleet, 150)
        again = fleet_from_bytes(fleet_to_bytes(fleet))
        assert self.story(again, 200) == self.story(fleet, 200)

    @pytest.mark.slow
    def test_the_length_of_a_tick_changes_no_job(self) -> None:
        """The same jobs come, with the same ends, but for what waiting moves."""
        counts = []
        for tick in (5.0, 20.0):
            fleet = living(replace(self.SPEC, load=0.2), tick_seconds=tick)
            advance(fleet, int(4000 / tick))
            assert fleet.cluster is not None
            counts.append(fleet.cluster.ends["finished"] + fleet.cluster.ends["failed"])
        assert counts[0] == pytest.approx(counts[1], abs=6)

    @pytest.mark.slow
    def test_reload(self) -> None:
        """Jobs go on under another configuration; without a cluster they end; one that comes begins empty."""
        fleet = living(cluster(kind(lasts_seconds=1e5)), nodes=4)
        before = running(fleet)
        reload(fleet, cluster=cluster(kind(lasts_seconds=1e5), load=0.8))
        advance(fleet, 5)
        assert before and before.items() <= running(fleet).items()
        reload(fleet, pool_of(nodes=5))
        advance(fleet, 5)
        assert before.keys() <= running(fleet).keys()
        reload(fleet, cluster=None)
        fleet.advance()
        advance(fleet, 1)
        assert not running(fleet) and fleet.cluster is None
        reload(fleet, cluster=cluster())
        advance(fleet, 600)
        assert running(fleet)


class TestSettings:
    HEAD = "version: 1\nfleet:\n  pools: [{name: dgx, device: h100}]\n"

    @pytest.mark.parametrize("preset", ["research", "training", "inference", "mixed"])
    def test_presets(self, preset: str) -> None:
        spec = loaded(f"{self.HEAD}  cluster: {preset}\n").fleet.cluster
        assert spec is not None and (spec.jobs or spec.services)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("cluster: reserch", "no cluster 'reserch'; did you mean 'research'?" ),
            ("cluster: ./none.yaml", "the cluster none.yaml"),
            ("cluster: {jobs: [{name: a, lasts: 1h, profile: '50', sizes: {x: 1}}]}", "'x' is no number of boards"),
            ("cluster: {jobs: [{name: a, profile: '50', sizes: {1: 1}}]}", "lasts"),
            ("cluster: {load: x}", "load"),
            ("cluster: research\n  shard: 0/2", "its scheduler needs all nodes"),
        ],
    )  # fmt: skip
    def test_mistakes(self, text: str, problem: str) -> None:
        assert any(problem in each for each in problems(f"{self.HEAD}  {text}\n"))
