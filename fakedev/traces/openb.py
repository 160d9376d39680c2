"""The trace "openb" of Alibaba (cluster-trace-gpu-v2023): nodes with GPUs, and pods with what they asked for.

Columns: https://github.com/alibaba/clusterdata/tree/master/cluster-trace-gpu-v2023. It tells no usage, and not where a
pod ran. Times are seconds since its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fakedev.traces.model import WHOLE_THOUSANDTHS, Trace, TraceNode
from fakedev.traces.rows import JobRows, node_rows
from fakedev.traces.table import Column, Problems, count_of_devices, name, number

#: The tables: for each the names that it may have, the first one that is there is read.
TABLES: Final = (
    ("openb_node_list_gpu_node.csv", "openb_node_list_all_node.csv"),
    ("openb_pod_list_default.csv",),
)


def _milli(text: str) -> int:
    found = number(text)
    if found > WHOLE_THOUSANDTHS or not found.is_integer():
        raise ValueError(f"{text[:40]!r} is no whole number of 0 to {WHOLE_THOUSANDTHS}")
    return int(found)


NODE_COLUMNS: Final = (Column("sn", name), Column("gpu", count_of_devices), Column("model", name, may_be_missing=True))
POD_COLUMNS: Final = (
    Column("name", name),
    Column("num_gpu", count_of_devices),
    Column("gpu_milli", _milli),
    Column("gpu_spec", name, may_be_missing=True),
    Column("creation_time", number),
    Column("scheduled_time", number, may_be_missing=True),
    Column("deletion_time", number, may_be_missing=True),
)
#: The device types of the models whose names are real; G2 and G3 are not disclosed.
MODELS: Final[Mapping[str, str]] = {
    "T4": "t4-16gb", "P100": "p100-sxm2-16gb", "V100M16": "v100-sxm2-16gb", "V100M32": "v100-sxm2-32gb",
    "A10": "a10-24gb",
}  # fmt: skip


def read_openb(tables: tuple[tuple[str, bytes], ...], problems: Problems) -> Trace:
    """The trace in its two tables.

    :param tables: names and contents of the nodes and the pods.
    :raises BadTrace: for what cannot be used.
    """
    (node_file, nodes), (pod_file, pods) = tables
    found = node_rows(nodes, node_file, NODE_COLUMNS, problems)
    listed = [TraceNode(row["sn"], row["model"] or "", row["gpu"]) for row in found if row["gpu"]]
    jobs = JobRows(pods, pod_file, POD_COLUMNS, problems)
    for line, row in jobs:
        if not row["num_gpu"]:
            jobs.leave_out("without a GPU")
        elif row.get("scheduled_time") is None:
            jobs.leave_out("never started")
        else:
            is_part = row["num_gpu"] == 1 and row["gpu_milli"] < WHOLE_THOUSANDTHS
            jobs.add(
                line, row["name"], start=row["scheduled_time"], end=row.get("deletion_time"),
                submit=row["creation_time"], devices=row["num_gpu"],
                thousandths=row["gpu_milli"] if is_part else WHOLE_THOUSANDTHS,
                models=tuple(filter(None, (row.get("gpu_spec") or "").split("|"))),
            )  # fmt: skip
    problems.raise_if_too_many()
    return Trace(tuple(listed), jobs.in_order(), jobs.left_out, MODELS)
