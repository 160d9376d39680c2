"""Our own series of each workload: /workloads/metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from fakedev.exporters.workload_page import WORKLOAD_SERIES
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import DeviceType, Range
from tests.support.configurations import loaded
from tests.support.examples import examples
from tests.support.fleet.fleets import MIB, WorkloadSeries, advance, make_fleet, pool_of, start, stop, workload

Parser = Callable[[str], Iterable[Metric]]

#: Usage and nothing else.
PLAIN = DeviceType(name="plain", ranges={"usage_ratio": Range(0, 1)})


def rows(page: bytes, parse: Parser = parse_text, end: str = "") -> dict[tuple[str, ...], float]:
    """The values of a page, by what comes after ``fakedev_workload_``, the workload, and what else tells rows apart."""
    found = {}
    for family in parse(page.decode() + end):
        for sample in family.samples:
            own = [sample.labels[name] for name in ("direction", "engine", "node", "device") if name in sample.labels]
            key = (sample.name.removeprefix("fakedev_workload_"), sample.labels["workload"], *own)
            assert key not in found
            found[key] = sample.value
    return found


def series(page: bytes, name: str) -> dict[str, float]:
    """The values of one family with a row for each workload, by workload."""
    return {key[1]: value for key, value in rows(page).items() if key[0] == name}


def test_the_page() -> None:
    """Every running workload, in order of its start, with the labels that it was given."""
    fleet = make_fleet(pool_of(device_type=PLAIN), tick_seconds=0.5, base=(workload("all", "10:5:0", name="back"),))
    page = WorkloadSeries(fleet)
    fields = {"pod": "p", "namespace": "n", "container": "c", "node": "dgx-0"}
    start(fleet, "card0,card2", "40:0:0.25,80:0:5", name="train", **fields)
    fleet.advance()
    back = 'workload="base-back",name="back"'
    train = 'workload="w1",name="train",namespace="n",pod="p",container="c"'
    lines = page.render().decode().splitlines()
    assert lines[:18] == [
        "# HELP fakedev_workload_info 1; what kind of work the workload does, and the node that it named.",
        "# TYPE fakedev_workload_info gauge",
        f'fakedev_workload_info{{{back},kind="compute"}} 1',
        f'fakedev_workload_info{{{train},kind="compute",node="dgx-0"}} 1',
        "# HELP fakedev_workload_devices Simulated devices that the workload is on.",
        "# TYPE fakedev_workload_devices gauge",
        f"fakedev_workload_devices{{{back}}} 4",
        f"fakedev_workload_devices{{{train}}} 2",
        "# HELP fakedev_workload_run_seconds Simulated seconds since the workload began.",
        "# TYPE fakedev_workload_run_seconds gauge",
        f"fakedev_workload_run_seconds{{{back}}} 0.5",
        f"fakedev_workload_run_seconds{{{train}}} 0.5",
        "# HELP fakedev_workload_remaining_seconds Simulated seconds until it will be over, "
        "at the highest clock if it is an amount of work.",
        "# TYPE fakedev_workload_remaining_seconds gauge",
        f"fakedev_workload_remaining_seconds{{{train}}} 4.75",
        "# HELP fakedev_workload_progress_ratio Part of its profile that is done, where that has an end.",
        "# TYPE fakedev_workload_progress_ratio gauge",
        f"fakedev_workload_progress_ratio{{{train}}} {0.5 / 5.25!r}",
    ]
    assert [line.partition(" ")[0] for line in lines if "device_load_ratio{" in line] == [
        *[f'fakedev_workload_device_load_ratio{{{back},node="dgx-0",device="{index}"}}' for index in range(4)],
        *[f'fakedev_workload_device_load_ratio{{{train},node="dgx-0",device="{index}"}}' for index in (0, 2)],
    ]


def test_shares_of_a_device() -> None:
    """Each workload has what the device gave it; those who want too much together get their parts of the whole."""
    fleet = make_fleet()
    start(fleet, "card0,card1", "90:0:0")
    start(fleet, "card1", "60:0:0")
    fleet.advance()
    found = rows(WorkloadSeries(fleet).render())
    assert found["device_load_ratio", "w1", "dgx-0", "0"] == pytest.approx(0.9)
    assert found["device_load_ratio", "w1", "dgx-0", "1"] == pytest.approx(0.6)
    assert found["device_load_ratio", "w2", "dgx-0", "1"] == pytest.approx(0.4)
    assert found["usage_ratio", "w1"] == pytest.approx(0.75)
    assert found["load_ratio", "w1"] == pytest.approx(0.9)
    shown = sum(value for key, value in found.items() if key[0] == "device_load_ratio")
    assert shown == pytest.approx(sum(fleet.usage_ratio.tolist()))


def test_memory_and_traffic() -> None:
    """What the workloads hold and move adds up to what their devices show beyond idle; absent where there is none."""
    fleet = make_fleet()
    start(fleet, "card0,card1", "50:0:0")
    start(fleet, "card1", "25:0:0")
    fleet.advance()
    found = rows(WorkloadSeries(fleet).render())
    assert found["memory_used_bytes", "w1"] + found["memory_used_bytes", "w2"] == pytest.approx(
        sum(fleet.memory_used_bytes.tolist()), abs=2 * MIB
    )
    assert found["pcie_bytes_per_second", "w1", "tx"] == pytest.approx(1000)
    assert found["pcie_bytes_per_second", "w2", "tx"] == pytest.approx(250)
    assert not [key for key in found if key[0] in ("engine_active_ratio", "fabric_bytes_per_second")]
    assert ("pcie_bytes_per_second", "w1", "rx") not in found


def test_engines_are_means_of_the_devices() -> None:
    """Not sums: one workload on eight boards has their tensor pipes as busy as each of them shows."""
    text = "fleet: {pools: [{name: p, nodes: [a], device: h100, devices-per-node: 8, identity: dcgm}]}\nweb: []"
    fleet = Fleet(loaded(text + "\nworkloads: {listen: []}").fleet)
    start(fleet, "a/*", "40:0:0", kind="tensor")
    advance(fleet, 2)
    found = rows(WorkloadSeries(fleet).render())
    assert found["engine_active_ratio", "w1", "tensor"] == pytest.approx(float(fleet.tensor_active_ratio[0]), abs=0.02)
    assert found["memory_bandwidth_ratio", "w1"] == pytest.approx(float(fleet.memory_bandwidth_ratio[0]), abs=0.02)


def test_ends() -> None:
    """Progress where the profile has an end; the remaining time also where only a deadline is known."""
    fleet = make_fleet()
    start(fleet, profile="50:0:20", name="once")
    start(fleet, profile="50:0:5", name="often", repeat=4)
    start(fleet, profile="50:0:0", name="endless")
    start(fleet, profile="50:0:0", name="limited", run_time_limit=30)
    advance(fleet, 6)
    page = WorkloadSeries(fleet).render()
    assert series(page, "progress_ratio") == {"w1": 0.3, "w2": 0.3}
    assert series(page, "remaining_seconds") == {"w1": 14, "w2": 14, "w4": 24}
    assert set(series(page, "run_seconds").values()) == {6}


def test_work() -> None:
    """The progress of an amount of work is the work done, not the time passed."""
    fleet = make_fleet()
    start(fleet, profile="50:0:20", seconds_of="work")
    advance(fleet, 5)
    page = WorkloadSeries(fleet).render()
    assert series(page, "progress_ratio") == {"w1": 0.25}
    assert series(page, "remaining_seconds") == {"w1": 15}


def test_it_is_openmetrics_too() -> None:
    """With its end mark the same text is good OpenMetrics, and says the same."""
    fleet = make_fleet()
    for name in ('"quoted"\\', "two\nlines", "100 %"):
        start(fleet, name=name, pod=name)
    advance(fleet, 2)
    page = WorkloadSeries(fleet).render()
    assert page == WorkloadSeries(fleet, openmetrics=True).render()
    assert rows(page) == rows(page, parse_openmetrics, "# EOF\n")
    assert len(series(page, "devices")) == 3
    names = [s.labels["pod"] for family in parse_openmetrics(page.decode() + "# EOF\n") for s in family.samples]
    assert names[:3] == ['"quoted"\\', "two\nlines", "100 %"]


def test_no_workloads() -> None:
    """An empty page, and that is good in both formats."""
    page = WorkloadSeries(make_fleet()).render()
    assert page == b""
    assert rows(page, parse_openmetrics, "# EOF\n") == {}


def test_workloads_come_and_go() -> None:
    """With the tick in which they begin, and until the one in which they ended; run time counts from the beginning."""
    fleet = make_fleet()
    page = WorkloadSeries(fleet)
    first = start(fleet, profile="50:0:5")
    assert rows(page.render()) == {}
    fleet.advance()
    second = start(fleet, "card1", "30:0:0")
    fleet.advance()
    assert series(page.render(), "run_seconds") == {first: 2, second: 1}
    advance(fleet, 3)
    assert {key[1] for key in rows(page.render())} == {second}
    stop(fleet, second)
    fleet.advance()
    assert page.render() == b""


def test_many() -> None:
    """Each workload has its own value, however many there are."""
    fleet = make_fleet()
    for number in range(300):
        start(fleet, f"card{number % 4}", f"{number % 100}:0:0", name=f"job {number}")
    fleet.advance()
    found = series(WorkloadSeries(fleet).render(), "load_ratio")
    assert [found[f"w{number + 1}"] for number in range(300)] == [number % 100 / 100 for number in range(300)]


def test_rows_of_devices_are_bounded() -> None:
    """The oldest workloads have them, as long as there is room; all workloads have the others."""
    fleet = make_fleet()
    for devices in ("card0", "all", "card0,card1", "card0"):
        start(fleet, devices)
    fleet.advance()
    page = WorkloadSeries(fleet, max_pairs=5).render()
    assert [key[1] for key in rows(page) if key[0] == "device_load_ratio"] == ["w1", *["w2"] * 4]
    assert series(page, "devices") == {"w1": 1, "w2": 4, "w3": 2, "w4": 1}


def test_every_family_is_declared_as_a_gauge() -> None:
    """So both formats are the same but for the last line."""
    assert {family.kind for family in WORKLOAD_SERIES.families} == {"gauge"}


@settings(max_examples=examples(30))
@given(st.lists(st.lists(st.sampled_from(["all", "card0", "card1,card3", ""]), max_size=40), min_size=1, max_size=6))
def test_a_page_kept_is_as_good_as_a_new_one(ticks: list[list[str]]) -> None:
    """For any workloads that came and went between two reads, and for any ticks that were read."""
    fleet = make_fleet()
    kept, seldom = WorkloadSeries(fleet), WorkloadSeries(fleet)
    for number, acts in enumerate(ticks):
        for devices in acts:
            running = fleet.workloads.running()
            if devices:
                start(fleet, devices, "20:5:3", pod=f"pod-{number}")
            elif running and not fleet.intake.is_ending(running[0].workload_id):
                stop(fleet, running[0].workload_id)
        fleet.advance()
        if number % 2:
            assert seldom.render() == kept.render()
        assert kept.render() == WorkloadSeries(fleet).render()
