"""What the API does, as calls: the requests that a call makes, what it returns, and waiting in simulated time.

The calls do not depend on what sends them. :class:`fakedev.client.Fleet` and :class:`fakedev.client.aio.Fleet` have a
method for each public function that makes a request. Names of fields are from doc/protocol-workload.txt, with ``_``
in place of ``-``. To wait, the clock advances until a condition is true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

from fakedev.base.units import format_duration, parse_duration
from fakedev.client.http import Call, Description, NeverTrue, Request
from fakedev.client.page_samples import Samples, read_samples
from fakedev.web import paths
from fakedev.web.paths import WebPath

T = TypeVar("T")
#: Simulated time: seconds, or a text as ``90s`` or ``1h30m``.
Duration = str | float


def seconds_of(duration: Duration) -> float:
    """The seconds of a duration.

    :raises ValueError: for a text that is none.
    """
    return parse_duration(duration) if isinstance(duration, str) else float(duration)


class Wait:
    """A wait until a condition is true: how far the clock advances between its checks.

    :param predicate: the condition; its name is for the error.
    :param step: the simulated time of a step.
    :param at_most: the simulated time after which the wait fails.
    :raises ValueError: for durations that are none, or a step that is not positive.
    """

    def __init__(self, predicate: Callable[[], object], step: Duration, at_most: Duration) -> None:
        self._step_seconds, self._remaining_seconds = seconds_of(step), seconds_of(at_most)
        if not self._step_seconds > 0:
            raise ValueError(f"advance: must be more than 0, not {step!r}")
        self._predicate = predicate
        self._at_most = at_most

    def next_seconds(self, value: object) -> float:
        """The simulated seconds of the next step; the last one is shorter.

        :param value: what the condition gave.
        :raises NeverTrue: when the time is over.
        """
        if self._remaining_seconds <= 0:
            name = getattr(self._predicate, "__name__", repr(self._predicate))
            limit = self._at_most if isinstance(self._at_most, str) else format_duration(self._at_most)
            what = "the condition" if name == "<lambda>" else name
            raise NeverTrue(f"{what} is still not true after {limit} of simulated time: it gave {value!r}")
        seconds = min(self._step_seconds, self._remaining_seconds)
        self._remaining_seconds = round(self._remaining_seconds - seconds, 9)
        return seconds


def wait_until(
    predicate: Callable[[], T], advance: Callable[[float], object], step: Duration, at_most: Duration
) -> T:
    """Advance a clock until a condition is true, which is checked before the first step, too.

    :param predicate: returns something true when the wait is over.
    :param advance: advances the clock by this number of seconds.
    :returns: what the predicate returned.
    :raises NeverTrue: when it was not true within ``at_most``.
    :raises ValueError: for durations that are none, or a step that is not positive.
    """
    wait = Wait(predicate, step, at_most)
    while not (value := predicate()):
        advance(wait.next_seconds(value))
    return value


#: Items of a collection per request: the API's maximum.
_PAGE_SIZE: Final = 500


@dataclass(frozen=True)
class Clock:
    """The simulated clock.

    :param seconds: simulated seconds since the start, at ``tick``.
    :param speed: simulated seconds in a second of the wall clock; 0: only an advance moves the clock.
    :param due_seconds: the time of the tick, in seconds since 1970.
    :param stopped_before_tick: after an advance that was stopped, the tick that it should have reached; else None.
    """

    tick: int
    seconds: float
    tick_seconds: float
    speed: float
    due_seconds: float
    stopped_before_tick: int | None = None


# -- work and faults -------------------------------------------------------------------------------


def run(name: str, devices: str | Sequence[str], **fields: object) -> Call[Description]:
    """Start a workload; it runs from the next tick on.

    :param fields: further ones, as ``profile="80:5:10"`` or ``run_time_limit="5m"``.
    :returns: its description; ``["id"]`` is its id.
    """
    return _one("POST", paths.WORKLOADS.at(), by_protocol(fields) | {"name": name, "devices": devices})


def stop(workload: str | Description) -> Call[list[str]]:
    """Stop a workload, or all of a name; they end in the next tick.

    :param workload: an id, a name, or what :meth:`run` returned.
    :returns: their ids.
    """
    answer = yield Request("DELETE", paths.WORKLOAD.at(ID=_quoted(id_of(workload))))
    stopped: list[str] = answer["stopped"]
    return stopped


def workloads(search: str = "", sort: str = "") -> Call[list[Description]]:
    """The workloads, oldest first."""
    return _all(paths.WORKLOADS, "workloads", search=search, sort=sort)


def ended_workloads(search: str = "", sort: str = "") -> Call[list[Description]]:
    """The workloads that ended last, newest first: each with ``code``, ``text`` and ``cause``."""
    return _all(paths.ENDED_WORKLOADS, "ended-workloads", search=search, sort=sort)


def past_faults(search: str = "", sort: str = "") -> Call[list[Description]]:
    """The last faults that are over, newest first."""
    return _all(paths.PAST_FAULTS, "past-faults", search=search, sort=sort)


def workload(workload: str | Description) -> Call[Description]:
    """One workload, by its id or name."""
    return _one("GET", paths.WORKLOAD.at(ID=_quoted(id_of(workload))))


def fault(kind: str, devices: str | Sequence[str] = (), **fields: object) -> Call[Description]:
    """Inject a fault; it begins in the next tick.

    :param devices: none for a kind that concerns pages, or with ``node=``.
    :param fields: further ones, as ``duration="5m"``, and the parameters of the kind.
    :returns: its description; ``["id"]`` is its id.
    """
    chosen = {"devices": devices} if devices else {}
    return _one("POST", paths.FAULTS.at(), by_protocol(fields) | {"kind": kind} | chosen)


def clear(fault: str | Description | None = None) -> Call[list[str]]:
    """Clear a fault, or all.

    :param fault: an id, or what :meth:`fault` returned; None: all.
    :returns: their ids.
    """
    path = paths.FAULTS.at() if fault is None else paths.FAULT.at(ID=_quoted(id_of(fault)))
    answer = yield Request("DELETE", path)
    cleared: list[str] = answer["cleared"]
    return cleared


def faults(search: str = "", sort: str = "") -> Call[list[Description]]:
    """The waiting and active faults, oldest first."""
    return _all(paths.FAULTS, "faults", search=search, sort=sort)


# -- the clock -------------------------------------------------------------------------------------


def clock() -> Call[Clock]:
    """The simulated clock."""
    return _clock(Request("GET", paths.CLOCK.at()))


def advance(duration: Duration) -> Call[Clock]:
    """Advance the clock, and wait until it is there, however long that takes.

    :param duration: simulated time, as ``"10m"`` or a number of seconds; a part of a tick counts as a whole one.
    """
    return _clock(Request("POST", paths.CLOCK.at(), {"advance": duration}, is_long=True))


def stop_advance() -> Call[bool]:
    """Stop the advance that is in progress; whether there was one."""
    answer = yield Request("GET", paths.CLOCK.at())
    yield Request("PATCH", paths.CLOCK.at(), {"advance": None})
    return answer["advance"] is not None


def speed(speed: float) -> Call[Clock]:
    """Change the speed of the clock.

    :param speed: simulated seconds in a second of the wall clock; 0 stops it.
    """
    return _clock(Request("PATCH", paths.CLOCK.at(), {"speed": speed}))


def reset() -> Call[int]:
    """Let the fleet begin again with its configuration: no workloads, no faults, cold devices. The clock goes on.

    :returns: the tick from which on it is so; with a clock that stands, advance it by a tick.
    """
    answer = yield Request("POST", paths.RESET.at())
    tick: int = answer["tick"]
    return tick


# -- pages -----------------------------------------------------------------------------------------


def page(node: str = "", path: str = paths.METRICS.template) -> Call[str]:
    """A page of metrics, as an exporter prints it.

    :param node: one node's; empty: the whole fleet's.
    :param path: another page, as ``/queues/metrics`` or one of the configuration.
    """
    text: str = yield Request("GET", paths.NODE_METRICS.at(NODE=_quoted(node)) if node else path, is_page=True)
    return text


def scrape(node: str = "", path: str = paths.METRICS.template) -> Call[Samples]:
    """The samples of :meth:`page`.

    :raises ValueError: when the page has a line that is no sample, as some faults make it.
    """
    return read_samples((yield from page(node, path)))


# -- what there is ---------------------------------------------------------------------------------


def devices(node: str = "", search: str = "", sort: str = "") -> Call[list[Description]]:
    """The devices with all their quantities."""
    return _all(paths.DEVICES, "devices", node=node, search=search, sort=sort)


def device(name: str) -> Call[Description]:
    """One device or part, as ``dgx-0/3``: also its health, workloads and links, and why it shows what it shows."""
    return _one("GET", f"{paths.DEVICES.at()}/{quote(name)}")


def explain(name: str, metric: str = "") -> Call[list[Description]]:
    """Why the most important values of a device, a part or a link are what they are, or the value of one metric.

    :returns: for each ``metric``, ``value``, ``text``, and the ids of ``faults``.
    """
    path = f"{paths.DEVICES.at()}/{quote(name)}?{urlencode({'metric': metric})}"
    explained: list[Description] = (yield from _one("GET", path))["explained"]
    return explained


def why(of: str, metric: str = "") -> Call[Description]:
    """Why something is as it is: a device, pod, workload, fault, node, queue, page, metric or PromQL expression.

    :param metric: of a device: only this one.
    :returns: its ``kind``, ``name`` and ``lines``, and what these are made of.
    """
    return _one("GET", f"{paths.WHY.at()}?{urlencode({'of': of, 'metric': metric})}")


def nodes(pool: str = "", search: str = "", sort: str = "") -> Call[list[Description]]:
    """The nodes."""
    return _all(paths.NODES, "nodes", pool=pool, search=search, sort=sort)


def journal(
    kind: str = "", devices: str = "", node: str = "", search: str = "", limit: int | None = None, since: str = ""
) -> Call[list[Description]]:
    """What happened, and why; the newest first.

    :param kind: only these kinds, separated by commas.
    :param devices: only what concerns these devices.
    :param limit: maximum; None: all that the service still has.
    :param since: only what happened since then: a simulated time before now, as ``10m``, or a wall time.
    """
    return _all(paths.JOURNAL, "journal", limit, kind=kind, devices=devices, node=node, search=search, since=since)


def queues(search: str = "", sort: str = "") -> Call[list[Description]]:
    """The work queues."""
    return _all(paths.QUEUES, "queues", search=search, sort=sort)


def queue(name: str) -> Call[Description]:
    """One work queue."""
    return _one("GET", paths.QUEUE.at(NAME=_quoted(name)))


def scenario() -> Call[Description]:
    """The scenario that the service plays, with its occurrences around now."""
    return _one("GET", paths.SCENARIO.at())


def occurrences(search: str = "", sort: str = "") -> Call[list[Description]]:
    """All occurrences of the scenario."""
    return _all(paths.OCCURRENCES, "occurrences", search=search, sort=sort)


def reload() -> Call[Description]:
    """Let the service read its configuration again; the old one stays when that is refused."""
    return _one("POST", paths.RELOAD.at())


# --------------------------------------------------------------------------------------------------


def by_protocol(given: Mapping[str, object]) -> dict[str, object]:
    """Keyword arguments as fields of the protocol: ``run_time_limit`` is ``run-time-limit``."""
    return {name.replace("_", "-"): value for name, value in given.items()}


def id_of(given: str | Description) -> str:
    """The id of a workload or fault, given as that, as a name, or as its description."""
    return given if isinstance(given, str) else str(given["id"])


def _one(method: str, path: str, body: object = None) -> Call[Description]:
    answer: Description = yield Request(method, path, body)
    return answer


def _all(path: WebPath, key: str, limit: int | None = None, **query: str) -> Call[list[Description]]:
    """All items of a collection, page by page."""
    asked = {name: value for name, value in query.items() if value}
    items: list[Description] = []
    while limit is None or len(items) < limit:
        count = _PAGE_SIZE if limit is None else min(_PAGE_SIZE, limit - len(items))
        text = urlencode({**asked, "limit": count, "offset": len(items)})
        answer = yield Request("GET", f"{path.at()}?{text}")
        items += answer[key]
        if not answer[key] or len(items) >= answer["total"]:
            break
    return items


def _clock(request: Request) -> Call[Clock]:
    answer = yield request
    return Clock(
        answer["tick"], answer["seconds"], answer["tick-seconds"], answer["speed"], answer["due-seconds"],
        answer.get("stopped-before-tick"),
    )  # fmt: skip


def _quoted(name: str) -> str:
    return quote(name, safe="")
