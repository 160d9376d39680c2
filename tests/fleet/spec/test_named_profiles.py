"""Profiles by name, on ports and dealt to the devices of pools; mixes of them that look real for a day."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise

import numpy as np
import pytest

from fakedev.base.errors import FieldError
from fakedev.config.load import load
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.named_profiles import MIXES, PROFILES
from fakedev.fleet.spec.workload_fields import fields_of_workload, workload_from_fields
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError
from tests.support.documents.days import BEGIN, DOCUMENT, END, day_of, table
from tests.support.paths import DOCUMENTS

PAGE = (DOCUMENTS / "simulation.md").read_text(encoding="utf-8")


def fleet_of(pools: str, more: str = "", seed: int = 5, tick: str = "1s") -> FleetSpec:
    fleet = f"{{seed: {seed}, epoch: 0, tick: {tick}, pools: [{pools}]}}"
    text = f"version: 1\nfleet: {fleet}\nweb: []\nworkloads: {{listen: []}}\n{more}"
    return load(None, Files(environ={}), text=text).fleet


class TestWorkloads:
    @pytest.mark.parametrize("name", PROFILES)
    def test_each(self, name: str) -> None:
        """It is a workload like any other, which the record writes in full; the documentation has it."""
        fields = {"name": "x", "devices": "all", "profile": name}
        workload = workload_from_fields(fields)
        assert workload.repeat == 0
        assert workload_from_fields(fields_of_workload(workload)) == workload
        assert workload_from_fields({**fields, "repeat": 2}).repeat == 2
        rows = re.findall(rf"^\| `{name}` \| .*$", PAGE, re.MULTILINE)
        (row,) = (row for row in rows if PROFILES[name].summary in row)
        profile = PROFILES[name].fields["profile"]
        assert f"`{profile}`" in row or len(profile) > 100

    def test_schedules_of_utilization(self) -> None:
        entries = [{"time": "1h", "utilization": 80}, {"time": 90, "utilization": 10.5}]
        whole = workload_from_fields(
            {"name": "x", "devices": "all", "profile": {"schedule": entries, "repeat": 5}}
        )
        assert [(activity.value, activity.seconds) for activity in whole.activities] == [(80, 3600), (10.5, 90)]
        assert whole.repeat == 5
        assert workload_from_fields({"name": "x", "devices": "all", "profile": entries}).activities == whole.activities

    @pytest.mark.parametrize(
        ("profile", "text"),
        [
            ("trainin", "did you mean training"),
            ("nothing-like-it", "give one of static"),
            ({"schedule": [], "repet": 5}, "unknown 'repet'"),
            ({"repeat": 5}, "list of activities"),
            ([{"time": "1x", "utilization": 80}], "activity 1: time: '1x'"),
            ([{"time": "1h", "utilization": 80, "load": 3}], "unknown 'load'"),
            ([{"time": "1h", "utilization": 101}], "activity 1"),
        ],
    )
    def test_what_is_refused(self, profile: object, text: str) -> None:
        with pytest.raises(FieldError, match=re.escape(text)):
            workload_from_fields({"name": "x", "devices": "all", "profile": profile})


class TestPools:
    def test_dealt_round(self) -> None:
        spec = fleet_of(
            "{name: a, nodes: 2, devices-per-node: 3, profile: [static, idle], devices: [{index: 1, profile: wave}]}"
        )
        dealt = {word: workload.name for workload in spec.base for word in workload.devices}
        assert dealt == {
            "a-0/0": "static-a-0", "a-0/1": "wave-a-0", "a-1/0": "static-a-1", "a-1/1": "wave-a-1",
        }  # fmt: skip

    def test_what_the_boards_have_not(self) -> None:
        spec = fleet_of("{name: a, device: flex-170, identity: collectd, profile: [training, faulty]}")
        assert "xid" not in {fault.kind for fault in spec.faults}
        assert "nan" in {fault.kind for fault in spec.faults}
        fleet = Fleet(spec)
        fleet.advance()
        running = fleet.workloads.running()
        used = {use.metric for workload in running for use in workload.spec.uses}
        assert used == {"memory_used_bytes", "pcie_rx_bytes_per_second", "pcie_tx_bytes_per_second"}

    @pytest.mark.parametrize(
        ("fault", "text"),
        [
            ("{kind: xid, node: a-0}", "code: missing"),
            ("{kind: fun, node: a-0}", "did you mean fan"),
            ("{kind: fan, node: b-0}", "node: no node 'b-0'"),
            ("{kind: fan}", "devices: say which"),
            ("{kind: fan, node: a-0, every: 10ms}", "every: must not be less than a tick"),
            ("{kind: nan, node: a-0, metric: colour}", "metric: no metric 'colour'"),
            ("{kind: fan, node: a-0, watts: 3}", "watts: is nothing that the fault fan takes"),
        ],
    )
    def test_wrong_faults_of_the_configuration(self, fault: str, text: str) -> None:
        with pytest.raises(ConfigurationError, match=re.escape(text)):
            fleet_of("{name: a}", f"faults: [{fault}]\n")

    def test_faults_of_the_file_come_first(self) -> None:
        spec = fleet_of("{name: a, profile: degrading}", "faults: [{kind: fan, devices: a-0/1, start: 5s}]\n")
        assert next(iter(Fleet(spec).faults.by_id.values())).spec.kind == "fan"
        with pytest.raises(ConfigurationError, match="did you mean training"):
            fleet_of("{name: a, profile: trainin}")

    @pytest.mark.slow
    def test_half_an_hour(self) -> None:
        names = ", ".join(PROFILES)
        pool = f"{{name: a, nodes: 1, devices-per-node: {len(PROFILES)}, profile: [{names}]}}"
        fleet = Fleet(fleet_of(pool, tick="3s"))
        usage, heat, missing = [], [], 0
        for _ in range(500):
            fleet.advance()
            usage.append(fleet.usage_ratio)
            heat.append(fleet.temperature_celsius)
            missing += int(np.isnan(fleet.shown.levels["device"].arrays["power_watts"][list(PROFILES).index("faulty")]))
        of_usage = dict(zip(PROFILES, np.array(usage).T, strict=True))
        of_heat = dict(zip(PROFILES, np.array(heat).T, strict=True))
        assert np.ptp(of_usage["static"]) == 0
        assert 0 < np.ptp(of_usage["stable"]) <= 0.1
        assert np.mean(of_usage["spike"] > 0.9) == pytest.approx(0.1, abs=0.02)
        assert of_usage["wave"].min() < 0.15
        assert of_usage["wave"].max() > 0.85
        assert of_heat["degrading"][-1] > of_heat["degrading"][100] + 4
        assert 0.1 < missing / 500 < 0.3
        assert np.std(of_usage["chaos"]) > 0.2
        assert not of_usage["idle"].any()
        assert np.median(of_usage["training"]) > 0.9
        errors = fleet.state.levels["device"].arrays["memory_errors_correctable"]
        assert [name for name, count in zip(PROFILES, errors, strict=True) if count] == ["degrading", "faulty"]


MIXES_PAGE = DOCUMENT.read_text(encoding="utf-8")


def kinds_of(seed: int, pools: str) -> dict[str, str]:
    """As :func:`profiles_of`, for pools of a configuration."""
    return profiles_of(fleet_of(pools, seed=seed))


def profiles_of(spec: FleetSpec) -> dict[str, str]:
    return {device: each.name.split("-")[0] for each in spec.base for device in each.devices}


class TestMixes:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", MIXES)
    def test_its_shares(self, name: str) -> None:
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
        assert f"| `{name}` | {mix.summary} |" in MIXES_PAGE

    def test_a_node_trains_as_a_whole(self) -> None:
        spec = fleet_of("{name: a, nodes: 30, devices-per-node: 8, device: h100, profile: research}")
        jobs = [len(each.devices) for each in spec.base if each.name.startswith("training")]
        assert set(jobs) == {8}

    def test_devices_have_work_of_their_own(self) -> None:
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
    @pytest.mark.slow
    def test_ranks_are_alike_but_not_equal(self) -> None:
        usage, activity, received = job_of(2400)
        ranks = [(one, other) for one, other in combinations(range(8), 2)]
        jobs = [(one, other + 8) for one in range(8) for other in range(8)]
        for values in (usage[300:], activity[300:]):
            assert 0.6 < float(np.median(correlations(values, 1, ranks))) < 0.9
            assert 0.5 < float(np.median(correlations(values, 30, ranks))) < 0.95
            assert abs(float(np.median(correlations(values, 30, jobs)))) < 0.3
        assert abs(float(np.median(correlations(received[300:], 1, ranks)))) < 0.2
        assert 0.17 < 0.46 * activity[300:].mean() < 0.45

    @pytest.mark.slow
    def test_the_exchange_keeps_usage_high_while_activity_falls(self) -> None:
        usage, activity, _ = job_of(400)
        low = activity[300:].mean(axis=1) < 0.25
        assert low.any()
        assert np.quantile(usage[300:].mean(axis=1)[low], 0.5) > 0.9

    @pytest.mark.slow
    def test_the_beginning_reads_data(self) -> None:
        spec = fleet_of("{name: a, nodes: 1, devices-per-node: 8, device: h100, profile: training}")
        fleet = Fleet(replace(spec, exact_sensors=True))
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
        _, activity, _ = job_of(2400)

        def steps(ranks: slice) -> list[int]:
            is_exchange = activity[300:, ranks].mean(axis=1) < 0.25
            return np.diff(np.flatnonzero(is_exchange[1:] & ~is_exchange[:-1])).tolist()

        one, other = steps(slice(0, 8)), steps(slice(8, 16))
        assert len(set(one)) > 3
        assert one[:10] != other[:10]


@pytest.mark.slow
def test_a_failing_job_dies_and_starts_again() -> None:
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
    fleet = Fleet(fleet_of("{name: a, nodes: 8, devices-per-node: 8, device: h100, profile: notebook}", tick="60s"))
    usage = []
    for _ in range(300):
        fleet.advance()
        usage.append(fleet.usage_ratio)
        assert (fleet.memory_used_ratio > 0.19).all()
    assert 0.5 < np.mean(np.array(usage) < 0.005) < 0.8


@pytest.mark.long
def test_the_documented_distributions() -> None:
    written = MIXES_PAGE.split(BEGIN)[1].split(END)[0]
    assert written == table(), "is out of date: run PYTHONPATH=. python -m tests.support.documents.days"
    day = day_of("cluster")
    assert day.devices.mean() == pytest.approx(10.5, abs=1)
    assert np.median(day.devices) == pytest.approx(1.5, abs=0.5)
