"""Microsoft's Philly trace: jobs with the machine and the GPUs of each attempt, and usage of each GPU, each minute.

Files and keys: https://github.com/msr-fiddle/philly-traces. Times are those of a wall clock; only the usage names its
zone, which is not needed: both are of one place. The time of the trace begins with its first submission.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from fakedev.traces.philly_log import GPU, Attempt, attempts_of, clock_seconds
from fakedev.traces.rules import Folder, Ids, nodes_of_jobs
from fakedev.traces.series import Times, Values
from fakedev.traces.table import Column, TableForm, device_count, percent, word
from fakedev.traces.trace import Job, Trace, TraceNode, UseSeries, moved

JOBS: Final = "cluster_job_log"
MACHINES: Final = "cluster_machine_list"
USAGE: Final = "cluster_gpu_util"
#: As many as a row of the usage has.
_GPUS: Final = 8
_MACHINE_COLUMNS: Final = (
    Column("machineId", word, is_required=True),
    Column("number of GPUs", device_count, is_required=True),
    Column("single GPU mem", word, default=""),
)


def read_philly(folder: Folder) -> Trace:
    """The trace of a folder; each GPU of each attempt is a job, and those of one attempt and machine are a pod.

    An attempt that has no end, and is the last of its job, runs to the last time in the file of the jobs.

    :raises TraceProblems: when it cannot be used.
    """
    left_out: Counter[str] = Counter()
    attempts = list(attempts_of(folder.records(JOBS), left_out))
    first = min((each.submit for each in attempts), default=0.0)
    last = max((each.start if each.end is None else each.end for each in attempts), default=0.0)
    jobs = [moved(job, -first) for each in attempts for job in _jobs(each, last)]
    series = _series(folder, first, left_out) if folder.has(USAGE) else {}
    jobs = [replace(job, series=gpu) if (gpu := f"{job.node}/{job.indices[0]}") in series else job for job in jobs]
    nodes = _machines(folder) if folder.has(MACHINES) else nodes_of_jobs(jobs)
    return Trace(nodes, jobs, series, dict(left_out))


def _jobs(attempt: Attempt, last: float) -> Iterator[Job]:
    """A job for each of its GPUs."""
    end = last if attempt.end is None else attempt.end
    for machine, indices in attempt.devices.items():
        pod = f"{attempt.name}-{machine}"
        for index in indices:
            yield Job(
                f"{pod}-{GPU}{index}", attempt.submit, attempt.start, end, node=machine, indices=(index,), pod=pod,
                has_failed=attempt.has_failed,
            )  # fmt: skip


def _machines(folder: Folder) -> list[TraceNode]:
    rows = folder.table(MACHINES, _MACHINE_COLUMNS, TableForm(is_padded=True))
    ids = Ids(rows)
    return [
        TraceNode(row["machineId"], row["single GPU mem"], row["number of GPUs"])
        for row in rows
        if ids.is_new("machineId", row["machineId"]) and row["number of GPUs"]
    ]


def _series(folder: Folder, first: float, left_out: Counter[str]) -> dict[str, UseSeries]:
    """The usage of each GPU in the window, and in the minute before it; where there is no value the last one holds."""
    times = Times(clock_seconds, folder.window, first)
    columns = (
        Column("time", times.seconds, is_required=True),
        Column("machineId", word, is_required=True),
        *(Column(f"{GPU}{index}_util", percent) for index in range(_GPUS)),
    )
    values = Values()
    lacking: Counter[str] = Counter()
    names: dict[str, list[str]] = {}
    keys = [column.name for column in columns[2:]]
    for row in folder.table(USAGE, columns, TableForm(is_padded=True, only=("time", times.is_inside))):
        machine, seconds = row["machineId"], row["time"]
        gpus = names.get(machine) or names.setdefault(machine, [f"{machine}/{index}" for index in range(_GPUS)])
        for gpu, key in zip(gpus, keys, strict=True):
            if row[key] is None:
                lacking[gpu] += 1
            else:
                values.add(gpu, seconds, row[key])
    series = values.series()
    unknown = sum(count for gpu, count in lacking.items() if gpu in series)
    if unknown:
        left_out["minutes of a GPU without a value: the value before it holds"] = unknown
    return series
