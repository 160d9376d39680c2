"""What holds a queue up, in one line: for the API, the page, and for commands that read a frontend's ``stats``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fakedev.queues.job import Job

#: A running job is overdue after this multiple of the longest recent run, and at least this number of seconds.
_TIMES_USUAL: Final = 3.0
_MIN_OVERDUE_SECONDS: Final = 5.0
#: How many running jobs are looked at.
_MOST_OVERDUE: Final = 1000


def queue_line(stats: Mapping[str, Any]) -> str:
    """The state of a queue in a line.

    :param stats: by the names of ``stats`` in doc/protocol-queue.txt.
    """
    return (
        f"{stats['queue']} is {stats['state']}: {stats['waiting']} waiting, {stats['running']} running, "
        f"workers {stats['workers-idle']} idle, {stats['workers-busy']} busy"
    )


def overdue(running: Iterable[Job], now: float, usual_seconds: float) -> dict[str, Any]:
    """The running jobs that take much longer than those that have ended: how many, and where the first of them runs.

    :param running: those that were taken first first.
    :param usual_seconds: the longest run that ended lately; 0: none did.
    """
    limit = max(_MIN_OVERDUE_SECONDS, _TIMES_USUAL * usual_seconds)
    late = takewhile(lambda job: now - job.taken_seconds > limit, islice(running, _MOST_OVERDUE))
    jobs = list(late) if usual_seconds else []
    worker = jobs[0].worker if jobs else None
    places = [f"node {worker.node}" * bool(worker.node), f"pod {worker.pod}" * bool(worker.pod)] if worker else []
    return {
        "overdue": len(jobs),
        "overdue-seconds": round(now - jobs[0].taken_seconds, 6) if jobs else 0.0,
        "overdue-on": ", ".join(filter(None, places)),
    }


def queue_diagnosis(stats: Mapping[str, Any]) -> str:
    """What holds the queue up.

    :param stats: as of :func:`queue_line`; the API's also have rates per second and ``silent-backends``.
    """
    waiting, running, idle = stats["waiting"], stats["running"], stats["workers-idle"]
    arrivals, services = stats.get("arrivals-per-second"), stats.get("services-per-second")
    silent = stats.get("silent-backends", 0)
    silence = f"; {silent} connected backends are silent: they neither wait for a job nor have one" if silent else ""
    if "paused" in stats["state"]:
        return "it is paused: no job is handed out until it is resumed, or the time of the pause is over"
    if "draining" in stats["state"]:
        return f"it is draining: new requests are refused{silence}"
    if not waiting and not stats.get("overdue", 0):
        return "nothing waits" + ("" if running or idle else f", and no worker waits for its jobs{silence}")
    if not idle and not stats["workers-busy"]:
        return f"no worker takes its jobs: start a backend, or see why a started one takes none{silence}"
    if idle and waiting:
        return f"workers are idle while jobs wait: their take names another queue, or is on its way{silence}"
    if late := stats.get("overdue", 0):
        where = f" (the first of them on {stats['overdue-on']})" if stats["overdue-on"] else ""
        return (
            f"{late} of {running} running jobs take much longer than those that ended lately, "
            f"{stats['overdue-seconds']:.0f} s: they, or their workers, hang{where}{silence}"
        )
    if services == 0:
        return f"no job has ended lately: the {running} running jobs, or their workers, hang{silence}"
    if arrivals is None or services is None:
        return f"all workers are busy, and the oldest request has waited {stats['oldest-seconds']:.0f} s{silence}"
    if arrivals > services:
        return f"more arrive than end ({arrivals:.3g} and {services:.3g} per second): it needs more workers{silence}"
    return f"all workers are busy, and more end than arrive: it gets shorter{silence}"
