"""Our own series of each workload: /workloads/metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from fakedev.exposition.workload_series import WorkloadPage
from tests.fleets import advance, make_fleet, start, stop, workload

Parser = Callable[[str], Iterable[Metric]]


def rows(page: bytes, parse: Parser = parse_text, end: str = "") -> dict[tuple[str, str], float]:
    """The values of a page, by series and workload."""
    return {
        (sample.name, sample.labels["workload"]): sample.value
        for family in parse(page.decode() + end)
        for sample in family.samples
    }


def test_the_page() -> None:
    """Every running workload, in order of its start, with the labels that it was given."""
    fleet = make_fleet(tick_seconds=0.5, base=(workload("all", "10:5:0", name="background"),))
    page = WorkloadPage(fleet)
    start(fleet, "card0,card1", "40:2:0.25,80:2:0", name="train", pod="p", namespace="n", container="c", node="dgx-0")
    fleet.advance()
    assert page.render().decode().splitlines() == [
        "# HELP fakedev_workload_devices Simulated devices that the workload is on.",
        "# TYPE fakedev_workload_devices gauge",
        'fakedev_workload_devices{workload="base-background",name="background"} 4',
        'fakedev_workload_devices{workload="w1",name="train",node="dgx-0",namespace="n",pod="p",container="c"} 2',
        "# HELP fakedev_workload_load_ratio Load the workload put on each of its devices in this tick.",
        "# TYPE fakedev_workload_load_ratio gauge",
        'fakedev_workload_load_ratio{workload="base-background",name="background"} 0.1',
        'fakedev_workload_load_ratio{workload="w1",name="train",node="dgx-0",namespace="n",pod="p",container="c"} 0.6',
        "# HELP fakedev_workload_run_seconds Simulated seconds since the workload began.",
        "# TYPE fakedev_workload_run_seconds gauge",
        'fakedev_workload_run_seconds{workload="base-background",name="background"} 0.5',
        'fakedev_workload_run_seconds{workload="w1",name="train",node="dgx-0",namespace="n",pod="p",container="c"} 0.5',
    ]


def test_it_is_openmetrics_too() -> None:
    """With its end mark the same text is good OpenMetrics, and says the same."""
    fleet = make_fleet()
    for name in ('"quoted"\\', "two\nlines", "100 %"):
        start(fleet, name=name, pod=name)
    advance(fleet, 2)
    page = WorkloadPage(fleet).render()
    assert rows(page) == rows(page, parse_openmetrics, "# EOF\n")
    assert len(rows(page)) == 9
    names = [s.labels["pod"] for family in parse_openmetrics(page.decode() + "# EOF\n") for s in family.samples]
    assert names[:3] == ['"quoted"\\', "two\nlines", "100 %"]


def test_no_workloads() -> None:
    """An empty page, and that is good in both formats."""
    page = WorkloadPage(make_fleet()).render()
    assert page == b""
    assert rows(page, parse_openmetrics, "# EOF\n") == {}


def test_workloads_come_and_go() -> None:
    """With the tick in which they begin, and until the one in which they ended; run time counts from the beginning."""
    fleet = make_fleet()
    page = WorkloadPage(fleet)
    first = start(fleet, profile="50:0:5")
    assert rows(page.render()) == {}
    fleet.advance()
    second = start(fleet, "card1", "30:0:0")
    fleet.advance()
    seconds = {key[1]: value for key, value in rows(page.render()).items() if key[0].endswith("run_seconds")}
    assert seconds == {first: 2, second: 1}
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
    found = rows(WorkloadPage(fleet).render())
    assert [found["fakedev_workload_load_ratio", f"w{number + 1}"] for number in range(300)] == [
        number % 100 / 100 for number in range(300)
    ]
