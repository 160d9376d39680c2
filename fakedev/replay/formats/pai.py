"""Alibaba's v2020 trace of its Platform for AI ("PAI"): instances of tasks, with machine, GPU and mean usage.

Tables: https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2020. They have no line with the names of
their columns: these are in a file ``.header`` beside each table. Times are seconds of the trace's own. ``plan_gpu`` and
``gpu_wrk_util`` are percent of a GPU, memory is in GiB. A sensor gives one mean for the whole life of an instance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from fakedev.replay.table_reader import Column, TableForm, TableRows, device_count, number, word
from fakedev.replay.trace import WHOLE, Ids, IFolder, Trace, TraceJob, UseSeries, nodes_of_table

#: The columns of the tables, where there is no file that names them.
_HEADS: Final[Mapping[str, str]] = {
    "pai_machine_spec": "machine,gpu_type,cap_cpu,cap_mem,cap_gpu",
    "pai_job_table": "job_name,inst_id,user,status,start_time,end_time",
    "pai_task_table": "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
    "pai_instance_table": (
        "job_name,task_name,inst_name,worker_name,inst_id,status,start_time,end_time,machine"
    ),
    "pai_sensor_table": (
        "job_name,task_name,worker_name,inst_id,machine,gpu_name,cpu_usage,gpu_wrk_util,avg_mem,max_mem,"
        "avg_gpu_wrk_mem,max_gpu_wrk_mem,read,write,read_count,write_count"
    ),
}  # fmt: skip
MACHINES, JOBS, TASKS, INSTANCES, SENSORS = (f"{name}.csv" for name in _HEADS)
_DEVICE: Final = "/dev/nvidia"
_GIB: Final = 2**30
_WHOLE_PERCENT: Final = 100.0
#: More GPUs than any task has, in percent.
_MOST_PERCENT: Final = 100_000.0


def _planned(text: str) -> float:
    """The GPUs of an instance, in percent of one."""
    value = number(text)
    if value > _MOST_PERCENT:
        raise ValueError(f"{text[:40]!r} is more than any task has: at most {_MOST_PERCENT:g}")
    return value


def _gpu(text: str) -> int:
    """The place of a GPU on its machine."""
    place = text.removeprefix(_DEVICE)
    if place == text or not (place.isascii() and place.isdigit() and len(place) <= 3):
        raise ValueError(f"{text[:40]!r} is no GPU, as {_DEVICE}0")
    return int(place)


_MACHINE_COLUMNS: Final = (
    Column("machine", word, is_required=True),
    Column("gpu_type", word, default=""),
    Column("cap_gpu", device_count, default=0),
)
_JOB_COLUMNS: Final = (Column("job_name", word, is_required=True), Column("start_time", number))
_TASK_COLUMNS: Final = (
    Column("job_name", word, is_required=True),
    Column("task_name", word, is_required=True),
    Column("start_time", number, default=0.0),
    Column("end_time", number, default=math.inf),
    Column("plan_gpu", _planned, default=0.0),
)
_INSTANCE_COLUMNS: Final = (
    Column("job_name", word, is_required=True),
    Column("task_name", word, is_required=True),
    Column("worker_name", word, is_required=True),
    Column("status", word, default=""),
    Column("start_time", number),
    Column("end_time", number),
    Column("machine", word, default=""),
)
_SENSOR_COLUMNS: Final = (
    Column("worker_name", word, is_required=True),
    Column("gpu_name", _gpu),
    Column("gpu_wrk_util", number),
    Column("avg_gpu_wrk_mem", number),
)


class _Instance(NamedTuple):
    """An instance with GPUs.

    :ivar end: infinite: it had none.
    :ivar percent: the GPUs that it was given, in percent of one.
    """

    name: str
    job: str
    start: float
    end: float
    machine: str
    percent: float
    has_failed: bool


def read_pai(folder: IFolder) -> Trace:
    """The trace of a folder: of each table, only what touches the window is kept.

    An instance without an end runs to the last time of the others. One with less than 100 percent of a GPU has a share.

    :raises TraceProblems: when it cannot be used.
    """
    left_out: Counter[str] = Counter()
    machines = _table(folder, MACHINES, _MACHINE_COLUMNS)
    nodes = nodes_of_table(machines, "machine", "gpu_type", "cap_gpu", left_out, "machines")
    tasks = _tasks(folder)
    instances = _instances(folder, tasks, left_out)
    last = max((instance.start if math.isinf(instance.end) else instance.end for instance in instances), default=0.0)
    submitted = _submitted(folder, {instance.job for instance in instances})
    jobs = {instance.name: _job(instance, submitted.get(instance.job), last) for instance in instances}
    series = _sensed(folder, jobs, left_out)
    return Trace(nodes, list(jobs.values()), series, {what: count for what, count in left_out.items() if count})


def _table(
    folder: IFolder, name: str, columns: Sequence[Column], only: tuple[str, Mapping[str, object]] | None = None
) -> TableRows:
    """A table.

    :param only: a column, and the texts that a line is read for; None: all lines are.
    """
    stem = name.removesuffix(".csv")
    head = folder.head(f"{stem}.header") or _HEADS[stem].split(",")
    kept = None if only is None else (only[0], only[1].__contains__)
    return folder.table(name, columns, TableForm(tuple(head), only=kept))


def _tasks(folder: IFolder) -> dict[str, dict[str, float]]:
    """The percent of GPUs that each instance of a task has, by job and task."""
    begin, end = folder.window
    tasks: dict[str, dict[str, float]] = {}
    for row in _table(folder, TASKS, _TASK_COLUMNS):
        if row["plan_gpu"] and row["start_time"] < end and row["end_time"] > begin:
            tasks.setdefault(row["job_name"], {})[row["task_name"]] = row["plan_gpu"]
    return tasks


def _instances(folder: IFolder, tasks: Mapping[str, Mapping[str, float]], left_out: Counter[str]) -> list[_Instance]:
    """The instances with GPUs that run in the window; a name that is there again gets a number."""
    found = []
    names: Counter[str] = Counter()
    rows = _table(folder, INSTANCES, _INSTANCE_COLUMNS, ("job_name", tasks))
    ids = Ids(rows)
    for row in rows:
        percent = tasks[row["job_name"]].get(row["task_name"])
        if percent is None:
            continue
        start, end = row["start_time"], math.inf if row["end_time"] is None else row["end_time"]
        if start is None or not row["machine"]:
            left_out["instances that never ran"] += 1
            continue
        if not ids.are_ordered(start_time=start, end_time=end):
            continue
        if start < folder.window.end_seconds and end > folder.window.begin_seconds:
            name = row["worker_name"]
            again = f"{name}-{names[name]}" if names[name] else name
            names[name] += 1
            has_failed = row["status"] == "Failed"
            found.append(_Instance(again, row["job_name"], start, end, row["machine"], percent, has_failed))
    return found


def _submitted(folder: IFolder, names: set[str]) -> dict[str, float]:
    """When jobs were submitted; the table of the jobs need not be there."""
    if not folder.has(JOBS):
        return {}
    rows = _table(folder, JOBS, _JOB_COLUMNS, ("job_name", dict.fromkeys(names)))
    return {row["job_name"]: row["start_time"] for row in rows if row["start_time"] is not None}


def _job(instance: _Instance, submit: float | None, last: float) -> TraceJob:
    devices = max(1, math.ceil(instance.percent / _WHOLE_PERCENT))
    share = max(1, round(instance.percent / _WHOLE_PERCENT * WHOLE)) if devices == 1 else WHOLE
    # Its job was submitted before it; clocks of different machines may say otherwise.
    start = instance.start
    end = max(last, start) if math.isinf(instance.end) else instance.end
    return TraceJob(
        instance.name, start if submit is None else min(submit, start), start, end, devices, share, instance.machine,
        has_failed=instance.has_failed,
    )  # fmt: skip


def _sensed(folder: IFolder, jobs: dict[str, TraceJob], left_out: Counter[str]) -> dict[str, UseSeries]:
    """The usage of the jobs, one value for each; jobs get the GPU that their sensor names, if they have one."""
    series: dict[str, UseSeries] = {}
    if not folder.has(SENSORS):
        return series
    for row in _table(folder, SENSORS, _SENSOR_COLUMNS, ("worker_name", jobs)):
        job = jobs[row["worker_name"]]
        if row["gpu_name"] is not None and job.devices == 1:
            job = replace(job, indices=(row["gpu_name"],))
        if row["gpu_wrk_util"] is not None:
            usage = row["gpu_wrk_util"] / job.devices
            left_out["instances above 100 percent of their GPUs: they show 100"] += usage > _WHOLE_PERCENT
            memory = row["avg_gpu_wrk_mem"]
            series[job.name] = UseSeries(
                np.array([job.start_seconds]), job.end_seconds,
                np.array([min(usage, _WHOLE_PERCENT)], dtype=np.float32),
                None if memory is None else np.array([memory * _GIB / job.devices]),
            )  # fmt: skip
            job = replace(job, series=job.name)
        jobs[job.name] = job
    return series
