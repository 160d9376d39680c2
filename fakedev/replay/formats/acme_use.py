"""Usage and memory of the GPUs of Shanghai AI Lab's Acme: wide tables, a column for each GPU, a line every 15 s.

Tables: https://github.com/InternLM/AcmeTrace, in the folders ``kalos`` and ``seren`` of ``utilization`` of its full
data set. ``GPU_UTIL`` is in percent, ``FB_USED`` in MiB; a column is named by the address of a server and the place
of a GPU on it, as ``172.31.15.112-6``. The log of the jobs names no servers, so that each GPU is a job of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from fakedev.replay.formats.slurm import ACME_MODEL, moment
from fakedev.replay.table_reader import Column, TableForm, TraceProblems, number, percent
from fakedev.replay.trace import IFolder, Trace, TraceJob, UseSeries, nodes_of_jobs
from fakedev.replay.usage import Times, Values

USAGE: Final = "GPU_UTIL.csv"
MEMORY: Final = "FB_USED.csv"
_TIME: Final = "Time"
_MIB: Final = 2**20
#: Of a server.
_LONGEST_NAME: Final = 100


def read_acme_use(folder: IFolder) -> Trace:
    """The trace of a folder: each GPU with the values that it has; its time begins with the first line.

    :raises TraceProblems: when it cannot be used.
    """
    times = Times(moment, folder.window)
    usage, lacking = _wide(folder, USAGE, percent, times)
    if folder.has(MEMORY):
        memory, _ = _wide(folder, MEMORY, number, times)
        usage = {name: _with_memory(each, memory[name]) if name in memory else each for name, each in usage.items()}
    jobs = [_job(name, series) for name, series in usage.items()]
    left_out = {"values of a GPU that are not there: the value before holds": lacking} if lacking else {}
    return Trace(nodes_of_jobs(jobs), jobs, usage, left_out)


def _wide(
    folder: IFolder, name: str, read: Callable[[str], float], times: Times
) -> tuple[dict[str, UseSeries], int]:  # fmt: skip
    """The series of a table by its columns, and how many values are not there of columns that have any."""
    gpus = [column for column in folder.head(name) if column != _TIME]
    wrong = [gpu for gpu in gpus if not _is_gpu(gpu)]
    if wrong:
        raise TraceProblems([f"{name}:1: the column {wrong[0][:40]!r} is no GPU, as 172.31.15.112-6"])
    columns = [Column(_TIME, times.seconds, is_required=True), *(Column(gpu, read) for gpu in gpus)]
    values = Values()
    lacking = dict.fromkeys(gpus, 0)
    for row in folder.table(name, columns, TableForm(only=(_TIME, times.is_inside))):
        for gpu in gpus:
            value = row[gpu]
            if value is None:
                lacking[gpu] += 1
            else:
                values.add(gpu, row[_TIME], value)
    series = values.series()
    return series, sum(lacking[gpu] for gpu in series)


def _is_gpu(column: str) -> bool:
    server, _, index = column.rpartition("-")
    return 0 < len(server) <= _LONGEST_NAME and index.isascii() and index.isdigit() and len(index) <= 2


def _with_memory(usage: UseSeries, memory: UseSeries) -> UseSeries:
    """The usage with the memory at each of its times: the value that holds then, in bytes."""
    place = np.maximum(np.searchsorted(memory.seconds, usage.seconds, "right") - 1, 0)
    return replace(usage, memory_bytes=memory.usage[place].astype(np.float64) * _MIB)


def _job(name: str, series: UseSeries) -> TraceJob:
    server, _, index = name.rpartition("-")
    start = float(series.seconds[0])
    return TraceJob(
        name, start, start, series.end_seconds, node=server, models=(ACME_MODEL,), series=name, indices=(int(index),)
    )
