"""Our own format of a trace: ``nodes.csv`` and ``jobs.csv``, for clusters whose scheduler can print a table."""

from __future__ import annotations

from typing import Final

from fakedev.traces.model import WHOLE_THOUSANDTHS, Trace, TraceNode
from fakedev.traces.rows import JobRows, node_rows
from fakedev.traces.table import Column, Problems, count_of_devices, name, number

TABLES: Final = (("nodes.csv",), ("jobs.csv",))
NODE_COLUMNS: Final = (Column("name", name), Column("model", name), Column("devices", count_of_devices))


def _thousandths(text: str) -> int:
    share = number(text)
    found = round(min(share, 2.0) * WHOLE_THOUSANDTHS)
    if share > 1 or not found:
        raise ValueError(f"{text[:40]!r} is no share of a device: more than 0, at most 1")
    return found


JOB_COLUMNS: Final = (
    Column("name", name),
    Column("submit", number, may_be_missing=True),
    Column("start", number, may_be_missing=True),
    Column("end", number, may_be_missing=True),
    Column("devices", count_of_devices),
    Column("share", _thousandths, may_be_missing=True),
    Column("node", name, may_be_missing=True),
    Column("model", name, may_be_missing=True),
)


def read_job_files(tables: tuple[tuple[str, bytes], ...], problems: Problems) -> Trace:
    """The trace in its two tables.

    :param tables: names and contents of the nodes and the jobs.
    :raises BadTrace: for what cannot be used.
    """
    (node_file, nodes), (job_file, contents) = tables
    found = node_rows(nodes, node_file, NODE_COLUMNS, problems)
    listed = [TraceNode(row["name"], row["model"], row["devices"]) for row in found if row["devices"]]
    known = {node.name for node in listed}
    jobs = JobRows(contents, job_file, JOB_COLUMNS, problems)
    for line, row in jobs:
        node = row.get("node") or ""
        if node and node not in known:
            problems.add(job_file, line, "node", f"{node!r} is not in {node_file}")
        elif not row["devices"]:
            jobs.leave_out("without a device")
        elif row.get("start") is None:
            jobs.leave_out("never started")
        else:
            jobs.add(
                line, row["name"], start=row["start"], end=row.get("end"), submit=row.get("submit"),
                devices=row["devices"], thousandths=row.get("share") or WHOLE_THOUSANDTHS, node=node,
                models=tuple(filter(None, (row.get("model") or "").split("|"))),
            )  # fmt: skip
    problems.raise_if_too_many()
    return Trace(tuple(listed), jobs.in_order(), jobs.left_out)
