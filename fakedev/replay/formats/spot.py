"""Alibaba's v2026-spot-gpu trace: nodes with models, and jobs of workers with when they were submitted and how long.

Columns: https://github.com/alibaba/clusterdata/tree/master/cluster-trace-v2026-spot-gpu. Times are seconds since the
first submission. It does not say when a job started: it starts when it is submitted, or as soon as there is room.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from fakedev.replay.table_reader import Column, count_of, device_count, number, word
from fakedev.replay.trace import Ids, IFolder, Trace, TraceJob, nodes_of_table

NODES: Final = "node_info_df.csv"
JOBS: Final = "job_info_df.csv"
#: More than any job has.
_MOST_WORKERS: Final = 4096
_NODE_COLUMNS: Final = (
    Column("node_name", word, is_required=True),
    Column("gpu_model", word, default=""),
    Column("gpu_capacity_num", device_count, is_required=True),
)


_JOB_COLUMNS: Final = (
    Column("job_name", word, is_required=True),
    Column("gpu_model", word, default=""),
    Column("gpu_request", device_count, is_required=True),
    Column("worker_num", count_of("workers", _MOST_WORKERS), default=1),
    Column("submit_time", number, is_required=True),
    Column("duration", number, is_required=True),
)


def read_spot(folder: IFolder) -> Trace:
    """The trace of a folder; each worker becomes a job, with ``gpu_request`` devices of one node.

    :raises TraceProblems: when it cannot be used.
    """
    left_out: Counter[str] = Counter()
    named = nodes_of_table(folder.table(NODES, _NODE_COLUMNS), "node_name", "gpu_model", "gpu_capacity_num")
    # Its nodes are called by numbers.
    nodes = [replace(node, name=f"node-{node.name}") for node in named]
    jobs: list[TraceJob] = []
    rows = folder.table(JOBS, _JOB_COLUMNS)
    ids = Ids(rows)
    for row in rows:
        name, submit, count = row["job_name"], row["submit_time"], row["worker_num"]
        if not ids.is_new("job_name", name):
            continue
        if not row["gpu_request"]:
            left_out["jobs without GPUs"] += 1
            continue
        models = (row["gpu_model"],) if row["gpu_model"] else ()
        jobs += [
            TraceJob(
                f"{name}-{worker}" if count > 1 else name, submit, submit, submit + row["duration"],
                row["gpu_request"], models=models,
            )
            for worker in range(count)
        ]  # fmt: skip
    return Trace(nodes, jobs, left_out=dict(left_out))
