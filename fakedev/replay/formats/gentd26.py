"""Alibaba's v2026-GenAI trace ("GenTD26"): duty cycle and memory of each pod's GPU, a value a minute.

Columns: https://github.com/alibaba/clusterdata/tree/master/cluster-trace-v2026-GenAI. A pod is told by its hashed
address; each has one GPU. A pod runs from its first value to its last one.
"""

from __future__ import annotations

from typing import Final

from fakedev.replay.table_reader import Column, number, percent, word
from fakedev.replay.trace import IFolder, Trace, TraceJob, nodes_of_jobs
from fakedev.replay.usage import Values

USAGE: Final = "pod_gpu_duty_cycle_anon.csv"
MEMORY: Final = "pod_gpu_memory_used_bytes_anon.csv"
_TIME: Final = Column("timestamp_anon", number, is_required=True)
_POD: Final = Column("container_ip", word, is_required=True)
_USAGE_COLUMNS: Final = (Column("value", percent, is_required=True), _TIME, _POD)
_MEMORY_COLUMNS: Final = (Column("value", number, is_required=True), _TIME, _POD)


def read_gentd26(folder: IFolder) -> Trace:
    """The trace of a folder; its time begins with its first value.

    Memory of a pod at a time without a duty cycle is not used: the two tables are joined by pod and time.

    :raises TraceProblems: when it cannot be used.
    """
    memory: dict[tuple[str, float], float] = {}
    if folder.has(MEMORY):
        memory = {
            (row["container_ip"], row["timestamp_anon"]): row["value"] for row in folder.table(MEMORY, _MEMORY_COLUMNS)
        }
    values = Values()
    first = float("inf")
    for row in folder.table(USAGE, _USAGE_COLUMNS):
        pod, seconds = row["container_ip"], row["timestamp_anon"]
        values.add(pod, seconds, row["value"], memory.pop((pod, seconds), float("nan")))
        first = min(first, seconds)
    series = {pod: uses.later(-first) for pod, uses in values.series().items()}
    jobs = [
        TraceJob(pod, float(uses.seconds[0]), float(uses.seconds[0]), uses.end_seconds, series=pod)
        for pod, uses in series.items()
    ]
    return Trace(nodes_of_jobs(jobs), jobs, series, {"values of memory alone": len(memory)} if memory else {})
