"""The jobs of a trace, with their places, as workloads that a timeline starts."""

from __future__ import annotations

from array import array
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.scenario.entries import Entry, Occurrence, Run, Span, When
from fakedev.spec.fleet import Activities, MetricUse, WorkloadSpec
from fakedev.traces.placement import Placed, Placement, place
from fakedev.traces.trace import WHOLE, Trace, TraceNode, UseSeries, moved
from fakedev.traces.usage import Like, Usage, UsageRule, rule_of

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
    """The trace with each job so many times, evenly over some time from its own start on.

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
    own = trace.nodes
    nodes = [
        own[number] if number < len(own) else _again(own[number % len(own)], number // len(own))
        for number in range(count if own else 0)
    ]
    return Trace(nodes, trace.jobs, trace.series, trace.left_out)


def _again(node: TraceNode, number: int) -> TraceNode:
    return TraceNode(f"{node.name}-{number}", node.model, node.devices)


def plan_of(trace: Trace, policy: str, usage: Usage | Like | None) -> Plan:
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
    placement = place(trace.nodes, jobs, policy)
    rule = rule_of(usage or Usage(0.0))
    workloads = tuple(_occurrence(each, trace, rule) for each in placement.placed)
    return Plan(trace, placement, workloads, f"{rule.words}, of {silent:,} jobs" if silent else "")


def _occurrence(placed: Placed, trace: Trace, rule: UsageRule) -> Occurrence:
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
