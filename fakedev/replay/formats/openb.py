"""Alibaba's gpu-v2023 trace ("openb"): nodes with models, pods with requests and times, no placement and no usage.

Columns: https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2023. Times are seconds since its
beginning; ``gpu_milli`` is the part of a device in thousandths; ``gpu_spec`` lists models as ``V100M16|V100M32``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from fakedev.replay.table_reader import Column, device_count, number, whole_number, word
from fakedev.replay.trace import WHOLE, Ids, IFolder, Trace, TraceJob, nodes_of_table

NODES: Final = "openb_node_list_gpu_node.csv"
ALL_NODES: Final = "openb_node_list_all_node.csv"
#: Other variants have demands for models, as ``gpuspec33`` for a third of the pods.
DEFAULT_VARIANT: Final = "default"
PODS: Final = f"openb_pod_list_{DEFAULT_VARIANT}.csv"
_NODE_COLUMNS: Final = (
    Column("sn", word, is_required=True),
    Column("gpu", device_count, is_required=True),
    Column("model", word, default=""),
)
_POD_COLUMNS: Final = (
    Column("name", word, is_required=True),
    Column("num_gpu", device_count, is_required=True),
    Column("gpu_milli", whole_number, default=WHOLE),
    Column("gpu_spec", word, default=""),
    Column("pod_phase", word, default=""),
    Column("creation_time", number, is_required=True),
    Column("deletion_time", number),
    Column("scheduled_time", number),
)


def read_openb(folder: IFolder, variant: str = DEFAULT_VARIANT) -> Trace:
    """The trace of a folder.

    Pods without a ``scheduled_time`` have never run. One without a ``deletion_time`` runs to the last time in the file.

    :param variant: of the list of pods.
    :raises TraceProblems: when it cannot be used.
    """
    left_out: Counter[str] = Counter()
    table = ALL_NODES if folder.has(ALL_NODES) and not folder.has(NODES) else NODES
    nodes = nodes_of_table(folder.table(table, _NODE_COLUMNS), "sn", "model", "gpu", left_out)
    jobs: list[TraceJob] = []
    unended: list[int] = []
    rows = folder.table(PODS.replace(DEFAULT_VARIANT, variant), _POD_COLUMNS)
    ids = Ids(rows)
    last = 0.0
    for row in rows:
        submit, start, end = row["creation_time"], row["scheduled_time"], row["deletion_time"]
        last = max(last, submit, start or 0.0, end or 0.0)
        if not ids.is_new("name", row["name"]):
            continue
        if not row["num_gpu"] or start is None:
            left_out["pods without GPUs" if not row["num_gpu"] else "pods that never ran"] += 1
            continue
        if not ids.are_ordered(creation_time=submit, scheduled_time=start, deletion_time=end):
            continue
        share = row["gpu_milli"]
        if not 0 < share <= WHOLE:
            rows.refuse("gpu_milli", f"{share} is no part of a device: 1 to {WHOLE}")
            continue
        if end is None:
            unended.append(len(jobs))
        share = share if row["num_gpu"] == 1 else WHOLE
        models = tuple(filter(None, row["gpu_spec"].split("|")))
        has_failed = row["pod_phase"] == "Failed"
        ended = start if end is None else end
        jobs.append(
            TraceJob(row["name"], submit, start, ended, row["num_gpu"], share, models=models, has_failed=has_failed)
        )
    for place in unended:
        jobs[place] = replace(jobs[place], end_seconds=last)
    return Trace(nodes, jobs, left_out=dict(left_out))
