"""A replay in virtual time: devices show what the trace says, and the comparison finds what they do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fakedev.base.units import format_duration
from fakedev.replay.compare import Comparison, Measured, compare, measure
from fakedev.replay.formats.own import JOBS, NODES, SERIES, read_own
from fakedev.replay.schedule import Plan, oversized, plan_of, scaled, steps, with_nodes
from fakedev.replay.start import devices_of, scenario_of
from fakedev.replay.trace import Trace, UseSeries
from fakedev.replay.usage import DISTRIBUTIONS, Like, Usage, profiles_of, usage_of
from tests.support.trace_files import MadeFolder

_FILES = {
    NODES: "name,model,devices\nn0,H100,2\nn1,A100,2\n",
    JOBS: "name,submit,start,end,devices,share\na,0,0,600,1,\nb,60,65.5,305,2,\nc,100,100,100,1,\nd,90,100,500,1,0.4\n"
    "e,90,120,500,1,0.4\n",
    SERIES: "time,job,usage,memory\n0,a,10,2GiB\n60,a,90,4GiB\n120,a,0,4GiB\n200,a,55.5,8GiB\n540,a,20,1GiB\n",
}
_SPAN = 700.0


def trace() -> Trace:
    """A trace of five jobs; one ends as it starts."""
    return read_own(MadeFolder(_FILES))


def replayed(plan: Plan, tick_seconds: float) -> Measured:
    devices = devices_of(plan.trace, {}, None)
    fleet = {"tick": format_duration(tick_seconds)}
    made = scenario_of(plan, "jobs", devices, fleet, [], _SPAN)
    return measure(made.scenario.configurations[0].configuration.fleet, plan.occurrences, _SPAN, ["a"])


def missed(comparisons: list[Comparison]) -> list[str]:
    """What is not within its bound."""
    return [comparison.what for comparison in comparisons if comparison.is_met is False]


@pytest.mark.slow
@pytest.mark.parametrize("tick_seconds", [1.0, 7.0, 60.0])
def test_devices_show_the_jobs_and_the_usage_of_the_trace(tick_seconds: float) -> None:
    """All comparisons hold, for ticks that divide the intervals of the trace and for others."""
    plan = plan_of(trace(), "best-fit", Usage(60, 20))
    found = compare(plan, replayed(plan, tick_seconds), _SPAN)
    assert not missed(found)
    assert {each.what for each in found} >= {"jobs", "GPU hours", "end of each job", "mean usage of each job"}


@pytest.mark.slow
def test_the_same_replay_twice_shows_the_same() -> None:
    plan = plan_of(trace(), "spread", Usage(60, 20))
    first, second = replayed(plan, 1.0), replayed(plan, 1.0)
    assert first.jobs == second.jobs
    assert first.usage["a"].tobytes() == second.usage["a"].tobytes()


@pytest.mark.slow
def test_a_replay_that_does_not_show_the_trace_misses_its_bounds() -> None:
    """A job less, a late end, and other values are found by the comparisons that are for them."""
    plan = plan_of(trace(), "best-fit", Usage(60))
    good = replayed(plan, 1.0)
    lacks = replace(good, jobs={name: job for name, job in good.jobs.items() if name != "b"})
    assert missed(compare(plan, lacks, _SPAN)) == ["jobs", "GPU hours", "GPU hours on A100"]
    late = replace(good, jobs=good.jobs | {"b": replace(good.jobs["b"], end_seconds=310.0)})
    assert "end of each job" in missed(compare(plan, late, _SPAN))
    fewer = replace(good, running=good.running // 2)
    assert missed(compare(plan, fewer, _SPAN)) == ["jobs that run, over time"]
    noisy = replace(good, usage={"a": np.random.default_rng(1).permutation(good.usage["a"])})
    assert missed(compare(plan, noisy, _SPAN)) == ["correlation from value to value"]
    higher = replace(good, usage={"a": good.usage["a"] + 2})
    assert missed(compare(plan, higher, _SPAN)) == ["mean usage of each job", "usage (5, 25, 50, 75, 95 %)"]


@pytest.mark.slow
def test_a_trace_without_room_tells_late_starts() -> None:
    """With one node in place of two a job waits: its start is not the trace's, and the report says so."""
    plan = plan_of(with_nodes(trace(), 1), "best-fit", Usage(60))
    assert [each.job.name for each in plan.placement.delayed]
    assert "start of each job" in missed(compare(plan, replayed(plan, 1.0), _SPAN))


def test_no_usage_is_invented() -> None:
    """Without --usage a trace with jobs that have no series is refused."""
    with pytest.raises(ValueError, match="no usage of 3 of 4 jobs: say what they do, as --usage 60:20"):
        plan_of(trace(), "first", None)


@pytest.mark.slow
def test_usage_like_another_trace_is_that_of_the_seed() -> None:
    """The same seed gives each job the same, another one does not; a job with a share has that part of it."""
    like = Like("gentd26", 1)
    first, again, other = (plan_of(trace(), "first", each) for each in (like, like, Like("gentd26", 2)))
    activities = [[each.action.workload.activities for each in plan.occurrences] for plan in (first, again, other)]
    assert activities[0] == activities[1] != activities[2]
    assert first.made_up.endswith("of 3 jobs") and "seed 1" in first.made_up
    measured = replayed(first, 7.0)
    assert not missed(compare(first, measured, _SPAN))
    with pytest.raises(ValueError, match="'gentd' is no trace whose usage is known: gentd26"):
        usage_of("like=gentd")


@pytest.mark.parametrize("seed", range(3))
def test_profiles_have_the_distribution_and_the_correlation_of_their_trace(seed: int) -> None:
    """Of the duty cycle of GenTD26: quantiles within a percent point, mean and correlation within some hundredths."""
    values = profiles_of(DISTRIBUTIONS["gentd26"], seed)
    assert np.mean(values == 0.0) == pytest.approx(0.67, abs=0.01)
    assert np.quantile(values, [0.75, 0.9, 0.95, 0.99]) == pytest.approx([9.5, 24.7, 31.7, 78.6], abs=1.0)
    assert values.mean() == pytest.approx(7.0, abs=0.2)
    assert np.corrcoef(values[:, :-1].ravel(), values[:, 1:].ravel())[0, 1] == pytest.approx(0.33, abs=0.05)


def test_usage_is_percent_of_what_a_job_has() -> None:
    """A job with 0.4 of a device at 60 percent loads the device by 24."""
    assert usage_of("60:20") == Usage(60, 20)
    plan = plan_of(trace(), "first", Usage(60, 20))
    loads = {each.entry.name: each.action.workload.activities for each in plan.occurrences}  # type: ignore[union-attr]
    assert [(each.value, each.fluctuation, each.seconds) for each in loads["d"]] == [(24, 8, 400)]
    for text in ("", "60:20:1", "101", "-1", "nan", "x:1"):
        with pytest.raises(ValueError, match="is no usage"):
            usage_of(text)


def test_copies_of_jobs_are_spread_evenly_and_nodes_repeat() -> None:
    """--scale and --nodes."""
    jobs = scaled(trace(), 4, 3600).jobs
    assert [job.start_seconds for job in jobs[:4]] == [0, 900, 1800, 2700]
    assert len({job.name for job in jobs}) == 20
    assert [node.name for node in with_nodes(trace(), 5).nodes] == ["n0", "n1", "n0-1", "n1-1", "n0-2"]


def test_the_values_of_a_series_hold_until_the_next_one() -> None:
    """The first one holds before it, too; together they last as long as the job."""
    series = UseSeries(np.array([10.0, 20.0, 40.0]), 60.0, np.array([1, 2, 3], dtype=np.float32))
    found = [steps(series, begin, end) for begin, end in ((0, 50), (15, 20), (45, 90))]
    assert [values for values, _ in found] == [slice(0, 3), slice(0, 1), slice(2, 3)]
    assert [seconds.tolist() for _, seconds in found] == [[20, 20, 10], [5], [45]]


def test_models_without_a_device_type_are_all_told_with_what_to_write() -> None:
    """The catalog knows H100 and T4 by name; a device type that there is not is told with the nearest."""
    nodes = "name,model,devices\na,G2,8\nb,H100,1\nc,G3,1\n"
    found = read_own(MadeFolder({JOBS: _FILES[JOBS], NODES: nodes}))
    assert devices_of(found, {"G2": "l40s"}, "t4") == {"G2": "l40s", "G3": "t4", "H100": "t4"}
    with pytest.raises(ValueError, match="for G2, G3: give --map G2=DEVICE,G3=DEVICE, or --device DEVICE"):
        devices_of(found, {}, None)
    with pytest.raises(ValueError, match="no device type 'h10'"):
        devices_of(found, {"G2": "h10"}, None)
    with pytest.raises(ValueError, match="no nodes of the model 'X'"):
        devices_of(found, {"X": "h100"}, None)


@pytest.mark.slow
def test_a_job_with_more_memory_than_its_devices_have_is_named_and_ends() -> None:
    """With what it asks for, before the replay; the replay says when and why it ended. The others go on."""
    files = {**_FILES, SERIES: _FILES[SERIES].replace("120,a,0,4GiB", "120,a,0,100GiB")}
    for changed, names in ((_FILES, []), (files, ["a"])):
        plan = plan_of(read_own(MadeFolder(changed)), "best-fit", Usage(60.0))
        made = scenario_of(plan, "jobs", devices_of(plan.trace, {}, None), {"tick": "1s"}, [], _SPAN)
        fleet = made.scenario.configurations[0].configuration.fleet
        large = oversized(plan, fleet)
        assert [each.job for each in large] == names
        assert all(each.asked_bytes == 100 * 2**30 and each.usable_bytes < 80 * 2**30 for each in large)
        shown = measure(fleet, plan.occurrences, _SPAN, ["a"]).jobs
        assert [name for name, job in shown.items() if job.code] == names
        assert all("Limit " in shown[name].text and shown[name].end_seconds == 121 for name in names)
