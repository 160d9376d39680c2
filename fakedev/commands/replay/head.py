"""What a replay says before it begins: what was read, what was left out, and what the peak will be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from fakedev.spec.units import format_duration
from fakedev.traces.problems import Lenience
from fakedev.traces.replay import Plan
from fakedev.traces.trace import most_devices

#: Jobs and lines that are named; the rest is counted.
_SHOWN: Final = 10


def head_lines(plan: Plan, devices: Mapping[str, str], lenience: Lenience, span_seconds: float) -> Iterator[str]:
    """The lines of the head."""
    trace, placement = plan.trace, plan.placement
    counts: Counter[str] = Counter()
    for node in trace.nodes:
        counts[node.model] += node.devices
    total = sum(counts.values())
    kinds = ", ".join(f"{model or 'any'} {counts[model]:,} as {devices[model]}" for model in trace.models)
    yield f"nodes: {len(trace.nodes):,} with {total:,} devices: {kinds}"
    peak = most_devices(trace.jobs)
    yield (
        f"jobs: {len(trace.jobs):,} in {format_duration(span_seconds)}, at the peak on {peak:,.1f} devices "
        f"({100.0 * peak / total if total else 0.0:.0f} %)"
    )
    yield f"series: {len(trace.series):,}, of {sum(bool(job.series) for job in trace.jobs):,} jobs"
    if plan.made_up:
        yield f"usage made up: {plan.made_up}"
    failed = sum(job.has_failed for job in trace.jobs)
    if failed:
        yield f"failed in the trace, end well here: {failed:,} jobs"
    yield from (f"left out: {count:,} {what}" for what, count in sorted(trace.left_out.items()))
    yield from _named("left out: line that cannot be used", lenience.left_out)
    delayed = [f"{each.job.name} by {format_duration(round(each.delay_seconds))}" for each in placement.delayed]
    yield from _named("had to wait for a place", delayed)
    yield from _named("no place: no such node or model, or too many devices", [job.name for job in placement.never])


def _named(what: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        rest = f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        yield f"{what}: {len(names):,}: {', '.join(names[:_SHOWN])}{rest}"
