"""fakedev's own format of traces: ``jobs.csv``, with ``nodes.csv`` and ``series.csv`` beside it where there are any."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fakedev.base.units import parse_size
from fakedev.replay.table_reader import Column, device_count, number, percent, word
from fakedev.replay.trace import WHOLE, Ids, IFolder, Trace, TraceJob, nodes_of_jobs, nodes_of_table
from fakedev.replay.usage import Values

JOBS: Final = "jobs.csv"
SERIES: Final = "series.csv"
NODES: Final = "nodes.csv"


def share_of(text: str) -> int:
    """A part of a device, above 0 and up to 1, in thousandths."""
    share = round(number(text) * WHOLE)
    if not 0 < share <= WHOLE:
        raise ValueError(f"{text[:40]!r} is no part of a device: above 0, up to 1")
    return share


def _size(text: str) -> float:
    """Bytes, or a size with its unit."""
    return number(repr(float(parse_size(text))))


NODE_COLUMNS: Final = (
    Column("name", word, is_required=True),
    Column("model", word, default=""),
    Column("devices", device_count, is_required=True),
)
JOB_COLUMNS: Final = (
    Column("name", word, is_required=True),
    Column("submit", number),
    Column("start", number),
    Column("end", number),
    Column("devices", device_count, default=1),
    Column("share", share_of, default=WHOLE),
    Column("node", word, default=""),
    Column("model", word, default=""),
)
SERIES_COLUMNS: Final = (
    Column("time", number, is_required=True),
    Column("job", word, is_required=True),
    Column("usage", percent, is_required=True),
    Column("memory", _size),
)


def read_own(folder: IFolder) -> Trace:
    """The trace of a folder.

    :raises TraceProblems: when it cannot be used.
    """
    values = _values(folder) if folder.has(SERIES) else Values()
    last = values.latest_seconds
    series = values.series()
    jobs = []
    rows = folder.table(JOBS, JOB_COLUMNS)
    ids = Ids(rows)
    last = max(last, *(uses.end_seconds for uses in series.values()), 0.0)
    never = 0
    for row in rows:
        start, end = row["start"], np.inf if row["end"] is None else row["end"]
        if start is None:
            never += 1
            continue
        last = max(last, start, 0.0 if row["end"] is None else end)
        submit = start if row["submit"] is None else row["submit"]
        if not ids.are_ordered(submit=submit, start=start, end=end) or not ids.is_new("name", row["name"]):
            continue
        if not row["devices"] or (row["devices"] > 1 and row["share"] != WHOLE):
            reason = "a job has at least one device" if not row["devices"] else "a job with a share has one device"
            rows.refuse("devices", reason)
            continue
        name = row["name"]
        models = tuple(filter(None, row["model"].split("|")))
        jobs.append(
            TraceJob(name, submit, start, end, row["devices"], row["share"], row["node"], models,
                name if name in series else "")
        )  # fmt: skip
    jobs = [replace(job, end_seconds=min(job.end_seconds, last)) for job in jobs]
    unused = len(series.keys() - {job.name for job in jobs})
    if folder.has(NODES):
        nodes = nodes_of_table(folder.table(NODES, NODE_COLUMNS), "name", "model", "devices")
    else:
        nodes = nodes_of_jobs(jobs)
    counts = {"series without a job": unused, "jobs that never started": never}
    return Trace(nodes, jobs, series, {what: count for what, count in counts.items() if count})


def _values(folder: IFolder) -> Values:
    """The series of all jobs; a time that is there twice for a job counts once, with its last value."""
    values = Values(folder.window)
    for row in folder.table(SERIES, SERIES_COLUMNS):
        values.add(row["job"], row["time"], row["usage"], np.nan if row["memory"] is None else row["memory"])
    return values
