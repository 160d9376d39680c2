"""What every trace becomes: nodes with devices, and jobs with times. Frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

#: A whole device, in the unit of shares.
WHOLE_THOUSANDTHS: Final = 1000
HOUR_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class TraceNode:
    """A node of a trace.

    :ivar model: of its devices, as the trace calls it.
    """

    name: str
    model: str
    devices: int


@dataclass(frozen=True)
class TraceJob:
    """A job that ran on devices of one node. All times are seconds of the trace's own clock.

    :ivar submit_seconds: None where the trace does not tell.
    :ivar end_seconds: None: it runs on when the trace ends.
    :ivar thousandths: of each device; below 1000 it shares the device with other jobs.
    :ivar models: those that it may run on; empty: any.
    :ivar node: where it ran; empty: the trace does not tell.
    """

    name: str
    start_seconds: float
    end_seconds: float | None = None
    submit_seconds: float | None = None
    devices: int = 1
    thousandths: int = WHOLE_THOUSANDTHS
    models: tuple[str, ...] = ()
    node: str = ""

    @property
    def device_hours(self) -> float:
        """Devices times hours; a share counts as such. 0 without an end."""
        if self.end_seconds is None:
            return 0.0
        seconds = self.end_seconds - self.start_seconds
        return self.devices * self.thousandths / WHOLE_THOUSANDTHS * seconds / HOUR_SECONDS


@dataclass(frozen=True)
class Trace:
    """A trace, or a part of one.

    :ivar jobs: by start, then in the order of the file.
    :ivar left_out: how many rows are no jobs to be replayed, by the reason.
    :ivar models: the device type of each model that is known without a question.
    """

    nodes: tuple[TraceNode, ...]
    jobs: tuple[TraceJob, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)

    @property
    def end_seconds(self) -> float:
        """The last time in the trace."""
        return max((job.end_seconds or job.start_seconds for job in self.jobs), default=0.0)


def part_of(trace: Trace, begin_seconds: float, for_seconds: float | None) -> tuple[Trace, float]:
    """The jobs of a part of a trace, with times since its beginning, and how long the part is, in seconds.

    A job that runs at the beginning starts there. One that runs at the end has no end. Its submission stays as far
    before its start as it was.

    :param for_seconds: None: to the last time of the trace.
    :raises ValueError: when no job runs in that part.
    """
    last = trace.end_seconds
    end = last if for_seconds is None else begin_seconds + for_seconds
    jobs = []
    for job in trace.jobs:
        stop = last if job.end_seconds is None else job.end_seconds
        if job.start_seconds >= end or stop <= begin_seconds:
            continue
        start = max(0.0, job.start_seconds - begin_seconds)
        waited = None if job.submit_seconds is None else job.start_seconds - job.submit_seconds
        stop_seconds = None if job.end_seconds is None or stop >= end else stop - begin_seconds
        submit = None if waited is None else start - waited
        jobs.append(replace(job, start_seconds=start, end_seconds=stop_seconds, submit_seconds=submit))
    if not jobs:
        raise ValueError(
            f"no job runs between {begin_seconds:g} s and {end:g} s of the trace, which ends at {last:g} s: "
            "give another --from or --for"
        )
    jobs.sort(key=lambda job: job.start_seconds)
    return replace(trace, jobs=tuple(jobs)), end - begin_seconds
