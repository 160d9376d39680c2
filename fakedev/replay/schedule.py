"""The jobs of a trace, with their places, as workloads of a timeline; and the fleet of a trace.

The fleet has a pool for each kind of the trace's nodes, and limits with room for the series of its jobs.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.base.groups import grouped
from fakedev.fleet.budget import profile_bytes
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.limits import Limits
from fakedev.fleet.spec.workload_spec import Activities, MetricUse, WorkloadSpec
from fakedev.replay.placement import ORDERS, Placed, Placement, place
from fakedev.replay.trace import WHOLE, Trace, UseSeries, moved
from fakedev.replay.usage import DrawnUsage, Like, Usage
from fakedev.scenario.entries import Entry, Occurrence, Run, Span, When

#: The namespace of the pods.
NAMESPACE: Final = "trace"


class Plan(NamedTuple):
    """A trace that can be replayed.

    :ivar placement: its jobs that run for some time, with their places.
    :ivar made_up: what jobs do that the trace has no usage of, and how many these are; empty: there are none.
    """

    trace: Trace
    placement: Placement
    occurrences: tuple[Occurrence, ...]
    made_up: str = ""


def scaled(trace: Trace, copies: int, over_seconds: float) -> Trace:
    """The trace with each job repeated, evenly over some time from its own start on.

    :param copies: 1 or more.
    """
    if copies == 1:
        return trace
    jobs = [
        moved(job, number * over_seconds / copies, f"{job.name}-{number}")
        for job in trace.jobs
        for number in range(copies)
    ]
    return Trace(trace.nodes, jobs, trace.series, trace.left_out)


def with_nodes(trace: Trace, count: int) -> Trace:
    """The trace with as many nodes: the first ones, or more than there are, which repeat them with other names."""
    rounds = range(-(-count // max(len(trace.nodes), 1)))
    nodes = [replace(node, name=f"{node.name}-{again}") if again else node for again in rounds for node in trace.nodes]
    return Trace(nodes[:count], trace.jobs, trace.series, trace.left_out)


def plan_of(trace: Trace, policy: str, usage: Usage | Like | None, order: str = ORDERS[0]) -> Plan:
    """Place the jobs of a trace, and make their workloads.

    :raises ValueError: when there are jobs without a series, and no usage is given.
    """
    jobs = [job for job in trace.jobs if job.seconds > 0]
    short = len(trace.jobs) - len(jobs)
    left_out = trace.left_out | ({"jobs that end as they start": short} if short else {})
    trace = Trace(trace.nodes, jobs, trace.series, left_out)
    silent = sum(not job.series for job in jobs)
    if silent and usage is None:
        text = "say what they do, as --usage 60:20 (percent of what they have of their devices, plus or minus)"
        raise ValueError(f"the trace has no usage of {silent:,} of {len(jobs):,} jobs: {text}")
    placement = place(trace.nodes, jobs, policy, order)
    rule = DrawnUsage(usage) if isinstance(usage, Like) else usage or Usage(0.0)
    workloads = tuple(_occurrence(placed, trace, rule) for placed in placement.placed)
    return Plan(trace, placement, workloads, f"{rule.words}, of {silent:,} jobs" if silent else "")


class Oversized(NamedTuple):
    """A job that asks for more memory than its devices have: the replay ends it when it does.

    :ivar device: the type of its devices.
    """

    job: str
    asked_bytes: float
    usable_bytes: float
    device: str


def oversized(plan: Plan, spec: FleetSpec) -> list[Oversized]:
    """The jobs with more memory than the devices of a fleet have, in the order of their starts."""
    pools = {node.name: node.pool.device_type for node in Roster(spec.pools).nodes}
    found = []
    for placed in plan.placement.placed:
        series = plan.trace.series[placed.job.series] if placed.job.series else None
        if series is None or series.memory_bytes is None:
            continue
        device = pools[plan.trace.nodes[placed.node].name]
        values, _ = steps(series, placed.job.start_seconds, placed.job.end_seconds)
        usable = device.memory_total_bytes - device.memory_reserved_bytes
        asked = float(np.nanmax(series.memory_bytes[values], initial=0.0))
        if 0.0 < usable < asked:
            found.append(Oversized(placed.job.name, asked, usable, device.name))
    return found


def _occurrence(placed: Placed, trace: Trace, rule: Usage | DrawnUsage) -> Occurrence:
    job = placed.job
    node = trace.nodes[placed.node].name
    uses: tuple[MetricUse, ...] = ()
    if job.series:
        series = trace.series[job.series]
        values, seconds = steps(series, job.start_seconds, job.end_seconds)
        activities, is_repeated = _activities(series.usage[values], seconds), False
        if series.memory_bytes is not None:
            uses = (MetricUse("memory_used_bytes", _activities(series.memory_bytes[values], seconds)),)
    else:
        activities, is_repeated = rule.of(job.name, job.share / WHOLE, job.seconds)
    workload = WorkloadSpec(
        job.name, tuple(f"{node}/{index}" for index in placed.indices), activities, pod=job.pod or job.name,
        namespace=NAMESPACE, uses=uses,
        repeat=0 if is_repeated else 1, ttl_seconds=job.seconds if is_repeated else 0.0,
    )  # fmt: skip
    action = Run(workload)
    start = placed.start_seconds
    return Occurrence(start, Entry(job.name, When(Span(start, start)), action), 0, action)


def _activities(values: NDArray[np.floating[Any]], seconds: NDArray[np.float64]) -> Activities:
    """An activity for each value, without fluctuation."""
    numbers = array("d")
    numbers.frombytes(np.column_stack((values, np.zeros(len(values)), seconds)).tobytes())
    return Activities.of_numbers(numbers)


def steps(series: UseSeries, begin: float, end: float) -> tuple[slice, NDArray[np.float64]]:
    """The values of a series between two times: their places, and how long each holds, in seconds.

    The first value holds before it, too, and the last one to the end. Equal values that follow each other stay apart.
    """
    first = max(0, int(np.searchsorted(series.seconds, begin, "right")) - 1)
    last = max(first + 1, int(np.searchsorted(series.seconds, end, "left")))
    return slice(first, last), np.diff(series.seconds[first + 1 : last], prepend=begin, append=end)


#: How long a job that has ended keeps its room: longer than a tick.
_AFTER_SECONDS: Final = 600.0
_MIB: Final = 2**20


def configuration_of(plan: Plan, devices: Mapping[str, str], fleet: Mapping[str, object]) -> dict[str, Any]:
    """The configuration of the fleet.

    :param devices: the device type of each model.
    :param fleet: further keys of ``fleet``.
    """
    groups = grouped(((devices[node.model], node.devices), node.name) for node in plan.trace.nodes)
    pools = [
        {"name": f"{device}-{count}", "nodes": names, "device": device, "devices-per-node": count}
        for (device, count), names in groups.items()
    ]
    found: dict[str, Any] = {"fleet": {**fleet, "pools": pools}}
    room = _most_series_bytes(plan)
    if room > Limits.memory_bytes // 2:
        found["limits"] = {"memory": f"{(Limits.memory_bytes + room) // _MIB}MiB"}
    return found


def _most_series_bytes(plan: Plan) -> int:
    """What the series of the jobs that run at once take of the limit of memory, at the peak."""
    times, changes = [], []
    for occurrence in plan.occurrences:
        if isinstance(occurrence.action, Run) and len(occurrence.action.workload.activities) > 1:
            workload = occurrence.action.workload
            taken = sum(map(profile_bytes, (workload.activities, *(use.activities for use in workload.uses))))
            times += [occurrence.seconds, occurrence.seconds + workload.activities.seconds + _AFTER_SECONDS]
            changes += [taken, -taken]
    order = np.argsort(times, kind="stable")
    return int(np.cumsum(np.array(changes, dtype=np.int64)[order]).max(initial=0))
