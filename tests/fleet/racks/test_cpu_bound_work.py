"""Work that waits for its Grace CPU: loading of data that asks for more cores than there are, or for slow ones."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.fleet.explanation import explain
from fakedev.fleet.fleet import Fleet
from tests.fleet.racks.test_racks import of, racks_of
from tests.support.configurations import problems
from tests.support.fleet.faulty_fleets import cleared, inject, shown
from tests.support.fleet.fleets import advance, make_fleet, start


def loading(cores: str, devices: str = "nvl-0/*") -> Fleet:
    """Work on four boards of two modules, each board with cores that load its data; after its beginning."""
    fleet = make_fleet(racks_of(), seed=5)
    start(fleet, devices, "90:0:400", kind="training", seconds_of="work", metrics={"cpu-cores": cores})
    advance(fleet, 40)
    return fleet


def progress(fleet: Fleet, ticks: int = 40) -> float:
    """The seconds of work that are done in a second, mean of some ticks."""
    before = float(fleet.workloads.table.done[0])
    advance(fleet, ticks)
    return (float(fleet.workloads.table.done[0]) - before) / ticks


@pytest.mark.slow
def test_enough_cores_slow_nothing() -> None:
    fleet = loading("20")
    assert shown(fleet, "cpu_cores") == 20
    # 40 cores that load data, 12 that launch kernels, and the system's.
    assert of(fleet, "cpu", "cpu_usage_ratio")[0] * 72 == pytest.approx(40 + 0.9 * 12 + 0.4, abs=1)
    # Their power is that of the module, of which boards have a little less.
    assert progress(fleet) == pytest.approx(progress(loading("0")), rel=0.04)


@pytest.mark.slow
def test_boards_wait_for_data_that_their_cpu_cannot_load() -> None:
    """Twice 60 cores on a CPU of 72: the work is slower, and the boards are less busy and draw less."""
    free, short = loading("20"), loading("60")
    assert of(short, "cpu", "cpu_usage_ratio")[0] == pytest.approx(1.0)
    assert of(short, "cpu", "cpu_power_watts")[0] == pytest.approx(300, abs=5)
    [explanation] = explain(short, 0, "usage_ratio")
    assert explanation.text.startswith("it waits for its Grace CPU, which has 5")
    left = progress(short) / progress(free)
    assert 0.45 < left < 0.6
    assert shown(short, "usage_ratio") / shown(free, "usage_ratio") == pytest.approx(left, abs=0.05)
    assert shown(short, "power_watts") < shown(free, "power_watts")


@pytest.mark.slow
def test_a_hot_cpu_slows_the_work_that_needs_it_and_no_other() -> None:
    fleet = loading("28")
    start(fleet, "nvl-1/*", "90:0:400", kind="training", seconds_of="work")
    before = progress(fleet)
    fault = inject(fleet, kind="grace-thermal", node="nvl-0", celsius=120)
    inject(fleet, kind="grace-thermal", node="nvl-1", celsius=120)
    advance(fleet, 60)
    assert of(fleet, "cpu", "cpu_frequency_mhz")[0] < 3200
    assert progress(fleet) < 0.95 * before
    usage = fleet.state.levels["device"].arrays["usage_ratio"]
    assert usage[:4].max() < usage[4:8].min()
    cleared(fleet, fault, 120)
    assert progress(fleet) == pytest.approx(before, rel=0.02)


@pytest.mark.slow
def test_boards_of_a_job_wait_for_the_tray_whose_cpu_is_slow() -> None:
    """One tray lacks cores, as other work has them: the whole job is slower."""
    fleet = make_fleet(racks_of(), seed=5)
    start(fleet, "nvl-[0-1]/*", "90:0:900", kind="training", seconds_of="work", metrics={"cpu-cores": "20"})
    advance(fleet, 30)
    before = progress(fleet)
    start(fleet, "nvl-0/*", "5:0:0", metrics={"cpu-cores": "70"})
    advance(fleet, 30)
    assert progress(fleet) < 0.7 * before
    usage = fleet.state.levels["device"].arrays["usage_ratio"]
    assert np.all(usage[:4] < usage[4:8].min())


def test_only_boards_with_a_grace_cpu_have_its_cores() -> None:
    work = "{name: w, devices: all, profile: '50:0:0', metrics: {cpu-cores: '10'}}"
    text = f"fleet: {{pools: [{{name: a, device: h100}}]}}\nweb: []\nworkloads: {{listen: [], base: [{work}]}}\n"
    assert any("cpu" in problem for problem in problems(text)), problems(text)
