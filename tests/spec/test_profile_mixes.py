"""Profiles that look real for a day: jobs and their ranks, replicas of services, and mixes of profiles in a pool."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations, pairwise

import numpy as np
import pytest

from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.fleet import Fleet
from fakedev.spec.fleet import FleetSpec
from fakedev.spec.named_profiles import MIXES, PROFILES
from tests.support.documents.days import BEGIN, DOCUMENT, END, day_of, table

PAGE = DOCUMENT.read_text(encoding="utf-8")


def fleet_of(pools: str, seed: int = 5, tick: str = "1s") -> FleetSpec:
    """The fleet of a configuration with these pools."""
    fleet = f"{{seed: {seed}, epoch: 0, tick: {tick}, pools: [{pools}]}}"
    text = f"version: 1\nfleet: {fleet}\nweb: []\nworkloads: {{listen: []}}\n"
    return load(None, Files(environ={}), text=text).fleet


def profiles_of(spec: FleetSpec) -> dict[str, str]:
    """The profile of each device with one, by device."""
    return {device: each.name.split("-")[0] for each in spec.base for device in each.devices}


def kinds_of(seed: int, pools: str) -> dict[str, str]:
    """As :func:`profiles_of`, for pools of a configuration."""
    return profiles_of(fleet_of(pools, seed))


class TestMixes:
    """A mix gives each device of a pool a profile."""

    @pytest.mark.parametrize("name", MIXES)
    def test_its_shares(self, name: str) -> None:
        """Those of the declaration, which are complete, and in the documentation."""
        mix = MIXES[name]
        assert sum(mix.devices.values()) == pytest.approx(1)
        assert {*mix.nodes, *mix.devices} <= set(PROFILES)
        kinds = kinds_of(7, f"{{name: a, nodes: 600, devices-per-node: 8, device: h100, profile: {name}}}")
        counts, whole = Counter(kinds.values()), sum(mix.nodes.values())
        expected = dict(mix.nodes)
        for each, share in mix.devices.items():
            expected[each] = expected.get(each, 0) + share * (1 - whole)
        del expected["idle"]  # these have no workload
        assert {each: count / 4800 for each, count in counts.items()} == pytest.approx(expected, abs=0.05)
        assert f"| `{name}` | {mix.summary} |" in PAGE

    def test_a_node_trains_as_a_whole(self) -> None:
        """One job, with a rank on each device."""
        spec = fleet_of("{name: a, nodes: 30, devices-per-node: 8, device: h100, profile: research}")
        jobs = [len(each.devices) for each in spec.base if each.name.startswith("training")]
        assert set(jobs) == {8}

    def test_devices_have_work_of_their_own(self) -> None:
        """Neighbours with a notebook do not start and stop together."""
        spec = fleet_of("{name: a, nodes: 2, devices-per-node: 8, device: h100, profile: notebook}")
        assert {each.name: each.devices for each in spec.base}["notebook-a-1-3"] == ("a-1/3",)
        assert len(spec.base) == 16

    def test_names_decide(self) -> None:
        """A pool before, more nodes and more devices change nothing of the others; another seed does."""
        pool = "{{name: a, nodes: {}, devices-per-node: {}, device: h100, profile: cluster}}"
        few = kinds_of(5, pool.format(9, 4))
        more = kinds_of(5, "{name: x, nodes: 3, profile: cluster}, " + pool.format(20, 8))
        assert {device: more[device] for device in few} == few
        in_both = {f"a-{node}/{index}" for node in range(9) for index in range(4)}
        assert in_both & set(more) == set(few)
        assert kinds_of(6, pool.format(9, 4)) != few

    def test_on_a_single_device_and_in_turn(self) -> None:
        """Wherever a pool takes a profile."""
        kinds = kinds_of(
            5, "{name: a, nodes: 2, devices-per-node: 4, profile: [static, cluster], "
               "devices: [{index: 0, profile: research}]}",
        )
        assert 4 <= len(kinds) <= 8
        assert [kinds.get(f"a-{node}/{index}") for node in (0, 1) for index in (1, 3)].count("static") == 2


@cache
def job_of(seconds: int) -> tuple[Floats, Floats, Floats]:
    """Usage, activity and PCIe input of two training jobs of 8 ranks, second by second: shape (seconds, 16)."""
    fleet = Fleet(fleet_of("{name: a, nodes: 2, devices-per-node: 8, device: h100, profile: training}", seed=7))
    seen = []
    for _ in range(seconds):
        fleet.advance()
        intense = fleet.workloads.table.intense
        seen.append((fleet.usage_ratio, intense.amount, fleet.pcie_rx_bytes_per_second))
    usage, activity, received = (np.array(each) for each in zip(*seen, strict=True))
    return usage, activity, received


def correlations(values: Floats, seconds: int, pairs: list[tuple[int, int]]) -> list[float]:
    """The correlations of some devices at samples that are means over so many seconds."""
    sampled = values[: len(values) // seconds * seconds].reshape(-1, seconds, values.shape[1]).mean(axis=1)
    every = np.corrcoef(sampled.T)
    return [float(every[pair]) for pair in pairs]


class TestTraining:
    """Ranks of a job do the same, but not to the last watt."""

    @pytest.mark.slow
    def test_ranks_are_alike_but_not_equal(self) -> None:
        """Correlated at samples of a second and of half a minute; jobs are not."""
        usage, activity, received = job_of(2400)
        ranks = [(one, other) for one, other in combinations(range(8), 2)]
        jobs = [(one, other + 8) for one in range(8) for other in range(8)]
        for values in (usage[300:], activity[300:]):
            assert 0.6 < float(np.median(correlations(values, 1, ranks))) < 0.9
            assert 0.5 < float(np.median(correlations(values, 30, ranks))) < 0.95
            assert abs(float(np.median(correlations(values, 30, jobs)))) < 0.3
        assert abs(float(np.median(correlations(received[300:], 1, ranks)))) < 0.2
        assert 0.17 < 0.93 * activity[300:].mean() < 0.45

    def test_the_exchange_keeps_usage_high_while_activity_falls(self) -> None:
        """As kernels that wait do."""
        usage, activity, _ = job_of(400)
        low = activity[300:].mean(axis=1) < 0.25
        assert low.any()
        assert np.quantile(usage[300:].mean(axis=1)[low], 0.5) > 0.9

    @pytest.mark.slow
    def test_the_beginning_reads_data(self) -> None:
        """The memory fills, much arrives over PCIe, and little is computed."""
        fleet = Fleet(fleet_of("{name: a, nodes: 1, devices-per-node: 8, device: h100, profile: training}"))
        memory, received, usage = [], [], []
        for _ in range(600):
            fleet.advance()
            memory.append(fleet.memory_used_ratio[0])
            received.append(fleet.pcie_rx_bytes_per_second.mean())
            usage.append(fleet.usage_ratio.mean())
        assert memory[3] < 0.1
        assert memory[599] == pytest.approx(0.82, abs=0.02)
        assert all(later >= earlier for earlier, later in pairwise(memory))
        assert np.mean(received[:60]) > 4 * np.mean(received[540:])
        assert np.mean(usage[:60]) < 0.3

    @pytest.mark.slow
    def test_each_job_has_its_own_steps(self) -> None:
        """Their lengths differ within a job, and between jobs."""
        _, activity, _ = job_of(2400)

        def steps(ranks: slice) -> list[int]:
            is_exchange = activity[300:, ranks].mean(axis=1) < 0.25
            return np.diff(np.flatnonzero(is_exchange[1:] & ~is_exchange[:-1])).tolist()

        one, other = steps(slice(0, 8)), steps(slice(8, 16))
        assert len(set(one)) > 3
        assert one[:10] != other[:10]


@pytest.mark.slow
def test_a_failing_job_dies_and_starts_again() -> None:
    """Its memory is free in between."""
    fleet = Fleet(fleet_of("{name: a, nodes: 1, devices-per-node: 1, device: h100, profile: failing}", tick="5s"))
    deaths = 0
    before = 0.0
    for _ in range(1000):
        fleet.advance()
        used = float(fleet.memory_used_ratio[0])
        deaths += before > 0.5 and used < 0.3
        before = used
    assert 5 < deaths < 40


@pytest.mark.slow
def test_a_notebook_holds_its_memory_while_it_idles() -> None:
    """Mostly it does nothing."""
    fleet = Fleet(fleet_of("{name: a, nodes: 8, devices-per-node: 8, device: h100, profile: notebook}", tick="60s"))
    usage = []
    for _ in range(300):
        fleet.advance()
        usage.append(fleet.usage_ratio)
        assert (fleet.memory_used_ratio > 0.19).all()
    assert 0.5 < np.mean(np.array(usage) < 0.005) < 0.8


@pytest.mark.long
def test_the_documented_distributions() -> None:
    """The table of the documentation is what a day gives; and it is like what was published."""
    written = PAGE.split(BEGIN)[1].split(END)[0]
    assert written == table(), "is out of date: run PYTHONPATH=. python -m tests.support.documents.days"
    day = day_of("cluster")
    assert day.devices.mean() == pytest.approx(10.5, abs=1)
    assert np.median(day.devices) == pytest.approx(1.5, abs=0.5)
