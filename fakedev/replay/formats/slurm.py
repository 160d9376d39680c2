"""Job logs of clusters under Slurm: SenseTime's Helios and Shanghai AI Lab's Acme. No usage, and no places.

Columns: https://github.com/S-Lab-System-Group/HeliosData and https://github.com/InternLM/AcmeTrace. Times are dates;
the time of a trace begins with its first submission. A job on several nodes becomes a job for each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from fakedev.replay.table_reader import Column, TableRows, count_of, whole_number, word
from fakedev.replay.trace import DEVICES_PER_NODE, Ids, IFolder, Trace, TraceJob, TraceNode, moved, nodes_of_jobs

HELIOS: Final = "cluster_log.csv"
#: How many GPUs the cluster has had on each day.
HELIOS_GPUS: Final = "cluster_gpu_number.csv"
SEREN: Final = "trace_seren.csv"
KALOS: Final = "trace_kalos.csv"
#: All boards of Acme are A100 of 80 GB (Hu et al., NSDI 2024, table 1).
ACME_MODEL: Final = "A100"
#: More than any job has.
_MOST_NODES: Final = 4096
_MOST_GPUS: Final = 8 * _MOST_NODES


def moment(text: str) -> float:
    """Seconds since 1970 of a date and time; without a zone it is UTC.

    :raises ValueError: for another text.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no time, as 2023-03-01 00:18:22+08:00") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def _gpu_count(text: str) -> int:
    count = whole_number(text)
    if count > _MOST_GPUS:
        raise ValueError(f"{count} is more than any job has: at most {_MOST_GPUS}")
    return count


_COLUMNS: Final = (
    Column("job_id", word, is_required=True),
    Column("node_num", count_of("nodes", _MOST_NODES), default=1),
    Column("gpu_num", _gpu_count, is_required=True),
    Column("submit_time", moment, is_required=True),
    Column("start_time", moment),
    Column("end_time", moment),
    Column("state", word, default=""),
)
#: States of jobs that ended badly; jobs that people cancelled did not.
_FAILED: Final = ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")


def read_helios(folder: IFolder) -> Trace:
    """A cluster of Helios; it has as many nodes of eight as its table of GPUs says, else as the peak needs.

    :raises TraceProblems: when it cannot be used.
    """
    jobs, left_out = _jobs(folder.table(HELIOS, _COLUMNS), "")
    if not folder.has(HELIOS_GPUS):
        return Trace(nodes_of_jobs(jobs), jobs, left_out=left_out)
    rows = folder.table(HELIOS_GPUS, (Column("total", whole_number, is_required=True),))
    count = max((row["total"] for row in rows), default=0) // DEVICES_PER_NODE
    nodes = [TraceNode(f"node-{number}", "", DEVICES_PER_NODE) for number in range(min(count, _MOST_NODES))]
    return Trace(nodes, jobs, left_out=left_out)


def read_acme(folder: IFolder) -> Trace:
    """A cluster of Acme: Seren, or Kalos in a folder without it; it has as many nodes of eight as the peak needs.

    :raises TraceProblems: when it cannot be used.
    """
    name = SEREN if folder.has(SEREN) or not folder.has(KALOS) else KALOS
    jobs, left_out = _jobs(folder.table(name, _COLUMNS), ACME_MODEL)
    return Trace(nodes_of_jobs(jobs), jobs, left_out=left_out)


def _jobs(rows: TableRows, model: str) -> tuple[list[TraceJob], dict[str, int]]:
    """The jobs with GPUs, and what was left out."""
    left_out: Counter[str] = Counter()
    jobs: list[TraceJob] = []
    ids = Ids(rows)
    first = float("inf")
    for row in rows:
        submit, start, end = row["submit_time"], row["start_time"], row["end_time"]
        if not ids.is_new("job_id", row["job_id"]):
            continue
        if not row["gpu_num"] or start is None or end is None:
            left_out["jobs without GPUs" if not row["gpu_num"] else "jobs that never ran"] += 1
            continue
        if not ids.are_ordered(submit_time=submit, start_time=start, end_time=end):
            continue
        first = min(first, submit)
        whole = TraceJob(
            row["job_id"], submit, start, end, row["gpu_num"], models=(model,) if model else (),
            has_failed=row["state"] in _FAILED,
        )  # fmt: skip
        jobs += _on_nodes(whole, row["node_num"])
    return [moved(job, -first) for job in jobs], dict(left_out)


def _on_nodes(job: TraceJob, count: int) -> Iterator[TraceJob]:
    """The parts of a job on some nodes: each has as many of its devices as the others, or one more."""
    each, more = divmod(job.devices, count)
    for number in range(count):
        devices = each + (number < more)
        if devices:
            yield replace(job, name=f"{job.name}-{number}" if count > 1 else job.name, devices=devices)
