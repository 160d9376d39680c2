"""What holds a queue up, in one line: for the API, the page, and for commands that read a frontend's ``stats``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def queue_line(stats: Mapping[str, Any]) -> str:
    """The state of a queue in a line.

    :param stats: by the names of ``stats`` in doc/protocol-queue.txt.
    """
    return (
        f"{stats['queue']} is {stats['state']}: {stats['waiting']} waiting, {stats['running']} running, "
        f"workers {stats['workers-idle']} idle, {stats['workers-busy']} busy"
    )


def queue_diagnosis(stats: Mapping[str, Any]) -> str:
    """What holds the queue up.

    :param stats: as of :func:`queue_line`; the API's also have rates per second and ``silent-backends``.
    """
    waiting, running, idle = stats["waiting"], stats["running"], stats["workers-idle"]
    arrivals, services = stats.get("arrivals-per-second"), stats.get("services-per-second")
    silent = stats.get("silent-backends", 0)
    silence = f"; {silent} connected backends are silent: they neither wait for a job nor have one" if silent else ""
    if "paused" in stats["state"]:
        return "it is paused: nothing is handed out until it is resumed, or the time of the pause is over"
    if "draining" in stats["state"]:
        return f"it is draining: new requests are refused{silence}"
    if not waiting:
        return "nothing waits" + ("" if running or idle else f", and no worker waits for jobs of it{silence}")
    if not idle and not stats["workers-busy"]:
        return f"no worker takes jobs of it: start a backend, or see why it does not take{silence}"
    if idle:
        return f"workers are idle while jobs wait: their take has another queue, or is on its way{silence}"
    if services == 0:
        return f"no job has ended lately: the {running} running jobs, or their workers, hang{silence}"
    if arrivals is None or services is None:
        return f"all workers are busy, and the oldest request has waited {stats['oldest-seconds']:.0f} s{silence}"
    if arrivals > services:
        return f"more arrive than end ({arrivals:.3g} and {services:.3g} per second): it needs more workers{silence}"
    return f"all workers are busy, and more end than arrive: it gets shorter{silence}"
