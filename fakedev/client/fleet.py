"""A running fakedev as an object: what its API does, as methods."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from fakedev.client.connection import Requester, ServiceAddress, authorization
from fakedev.client.errors import NoAnswer, RequestRefused
from fakedev.client.samples import Samples, read_samples
from fakedev.client.waiting import Duration, wait_until
from fakedev.spec import web_paths
from fakedev.spec.client_tls import ClientTls
from fakedev.spec.web_paths import WebPath

T = TypeVar("T")
#: What the API says of a workload, a fault, a device, ...: its keys are those of doc/http.md.
Description = dict[str, Any]
#: Items of a collection that are asked for at once; the API gives no more.
_PAGE_SIZE: Final = 500


@dataclass(frozen=True)
class Clock:
    """The simulated clock.

    :param seconds: simulated seconds since the start, those of ``tick``.
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


class Fleet:
    """A running fakedev; all methods wait for its answer.

    Names of fields are those of doc/protocol-workload.txt, with ``_`` in place of ``-``.

    :param url: an HTTP address with ``serve: all``: ``http://HOST:PORT``, ``HOST:PORT``, ``https://HOST:PORT``, or the
        path of a UNIX socket.
    :param token: of the address, if it asks for one.
    :param timeout_seconds: how long the service may be silent.
    :param requester: sends the requests; by default over a socket.
    :param ca_file, cert_file, key_file: for ``https:``: what signs the server's certificate (by default what the system
        trusts), and our own certificate with its key, if the server asks for one; all in PEM.
    :param user, password: if the address has passwords, and you no token.
    :ivar url: as given, without a slash at its end.
    :raises ValueError: for a URL that is no address.

    All methods raise RequestRefused when the service refuses the request, and NoAnswer when it does not answer.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        timeout_seconds: float = 30.0,
        requester: Requester | None = None,
        *,
        ca_file: str = "",
        cert_file: str = "",
        key_file: str = "",
        user: str = "",
        password: str = "",
    ) -> None:
        self.url = url.rstrip("/")
        self._requester = requester or ServiceAddress(url, timeout_seconds, ClientTls(ca_file, cert_file, key_file))
        self._headers = authorization(token, user, password)

    # -- work and faults ---------------------------------------------------------------------------

    def run(self, name: str, devices: str | Sequence[str], **fields: object) -> Description:
        """Start a workload; it runs from the next tick on.

        :param fields: further ones, as ``profile="80:5:10"`` or ``run_time_limit="5m"``.
        :returns: its description; ``["id"]`` is its id.
        """
        return self._json("POST", web_paths.WORKLOADS.at(), by_protocol(fields) | {"name": name, "devices": devices})

    def stop(self, workload: str | Description) -> list[str]:
        """Stop a workload, or all of a name; they end in the next tick.

        :param workload: an id, a name, or what :meth:`run` returned.
        :returns: their ids.
        """
        stopped: list[str] = self._json("DELETE", web_paths.WORKLOAD.at(ID=_quoted(id_of(workload))))["stopped"]
        return stopped

    def workloads(self, search: str = "", sort: str = "") -> list[Description]:
        """The workloads, oldest first."""
        return self._all(web_paths.WORKLOADS, "workloads", search=search, sort=sort)

    def workload(self, workload: str | Description) -> Description:
        """One workload, by its id or name."""
        return self._json("GET", web_paths.WORKLOAD.at(ID=_quoted(id_of(workload))))

    def fault(self, kind: str, devices: str | Sequence[str], **fields: object) -> Description:
        """Inject a fault; it begins in the next tick.

        :param fields: further ones, as ``duration="5m"``, and the parameters of the kind.
        :returns: its description; ``["id"]`` is its id.
        """
        return self._json("POST", web_paths.FAULTS.at(), by_protocol(fields) | {"kind": kind, "devices": devices})

    def clear(self, fault: str | Description | None = None) -> list[str]:
        """Clear a fault, or all.

        :param fault: an id, or what :meth:`fault` returned; None: all.
        :returns: their ids.
        """
        path = web_paths.FAULTS.at() if fault is None else web_paths.FAULT.at(ID=_quoted(id_of(fault)))
        cleared: list[str] = self._json("DELETE", path)["cleared"]
        return cleared

    def faults(self, search: str = "", sort: str = "") -> list[Description]:
        """The waiting and active faults, oldest first."""
        return self._all(web_paths.FAULTS, "faults", search=search, sort=sort)

    # -- the clock ---------------------------------------------------------------------------------

    def clock(self) -> Clock:
        """The simulated clock."""
        return _clock(self._json("GET", web_paths.CLOCK.at()))

    def advance(self, duration: Duration) -> Clock:
        """Advance the clock, and wait until it is there, however long that takes.

        :param duration: simulated time, as ``"10m"`` or a number of seconds; a part of a tick counts as a whole one.
        """
        return _clock(self._json("POST", web_paths.CLOCK.at(), {"advance": duration}, self.clock))

    def speed(self, speed: float) -> Clock:
        """Change the speed of the clock.

        :param speed: simulated seconds in a second of the wall clock; 0 stops it.
        """
        return _clock(self._json("PATCH", web_paths.CLOCK.at(), {"speed": speed}))

    def wait_until(self, predicate: Callable[[], T], advance: Duration = "1s", at_most: Duration = "5m") -> T:
        """Advance the clock until a condition is true; it is checked before the first step, too.

        :param predicate: returns something true when the wait is over.
        :param advance: the simulated time of a step.
        :param at_most: the simulated time after which the wait fails.
        :returns: what the predicate returned.
        :raises NeverTrue: when it was not true within ``at_most``.
        """
        return wait_until(predicate, self.advance, advance, at_most)

    def reset(self) -> int:
        """Let the fleet begin again with its configuration: no workloads, no faults, cold devices. The clock goes on.

        :returns: the tick from which on it is so; with a clock that stands, advance it by a tick.
        """
        tick: int = self._json("POST", web_paths.RESET.at())["tick"]
        return tick

    # -- pages -------------------------------------------------------------------------------------

    def page(self, node: str = "", path: str = web_paths.METRICS.template) -> str:
        """A page of metrics, as an exporter prints it.

        :param node: one node's; empty: the whole fleet's.
        :param path: another page, as ``/queues/metrics`` or one of the configuration.
        """
        path = web_paths.NODE_METRICS.at(NODE=_quoted(node)) if node else path
        return self._ask("GET", path).decode("utf-8", "replace")

    def scrape(self, node: str = "", path: str = web_paths.METRICS.template) -> Samples:
        """The samples of :meth:`page`.

        :raises ValueError: when the page has a line that is no sample, as some faults make it.
        """
        return read_samples(self.page(node, path))

    # -- what there is -----------------------------------------------------------------------------

    def devices(self, node: str = "", search: str = "", sort: str = "") -> list[Description]:
        """The devices with all their quantities."""
        return self._all(web_paths.DEVICES, "devices", node=node, search=search, sort=sort)

    def device(self, name: str) -> Description:
        """One device or part, as ``dgx-0/3``: also its health, workloads and links, and why it shows what it shows."""
        return self._json("GET", f"{web_paths.DEVICES.at()}/{quote(name)}")

    def explain(self, name: str) -> list[Description]:
        """Why the most important values of a device or part are what they are.

        :returns: for each ``metric``, ``value``, ``text``, and the ids of ``faults``.
        """
        explained: list[Description] = self.device(name)["explained"]
        return explained

    def nodes(self, pool: str = "", search: str = "", sort: str = "") -> list[Description]:
        """The nodes."""
        return self._all(web_paths.NODES, "nodes", pool=pool, search=search, sort=sort)

    def journal(
        self, kind: str = "", devices: str = "", node: str = "", search: str = "", limit: int | None = None
    ) -> list[Description]:
        """What happened, and why; the newest first.

        :param kind: only these kinds, separated by commas.
        :param devices: only what concerns these devices.
        :param limit: at most so many; None: all that the service still has.
        """
        path = web_paths.JOURNAL
        return self._all(path, "journal", limit, kind=kind, devices=devices, node=node, search=search)

    def queues(self, search: str = "", sort: str = "") -> list[Description]:
        """The work queues."""
        return self._all(web_paths.QUEUES, "queues", search=search, sort=sort)

    def queue(self, name: str) -> Description:
        """One work queue."""
        return self._json("GET", web_paths.QUEUE.at(NAME=_quoted(name)))

    def scenario(self) -> Description:
        """The scenario that the service plays, with its occurrences around now."""
        return self._json("GET", web_paths.SCENARIO.at())

    def occurrences(self, search: str = "", sort: str = "") -> list[Description]:
        """All occurrences of the scenario."""
        return self._all(web_paths.OCCURRENCES, "occurrences", search=search, sort=sort)

    def reload(self) -> Description:
        """Let the service read its configuration again; the old one stays when that is refused."""
        return self._json("POST", web_paths.RELOAD.at())

    # -- requests ----------------------------------------------------------------------------------

    def _all(self, path: WebPath, key: str, limit: int | None = None, **query: str) -> list[Description]:
        """All items of a collection, page by page."""
        asked = {name: value for name, value in query.items() if value}
        items: list[Description] = []
        while limit is None or len(items) < limit:
            count = _PAGE_SIZE if limit is None else min(_PAGE_SIZE, limit - len(items))
            text = urlencode({**asked, "limit": count, "offset": len(items)})
            answer = self._json("GET", f"{path.at()}?{text}")
            items += answer[key]
            if not answer[key] or len(items) >= answer["total"]:
                break
        return items

    def _json(
        self, method: str, path: str, body: object = None, still: Callable[[], object] | None = None
    ) -> Description:
        content = self._ask(method, path, body, still)
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            text = f"{self.url}{path}: the answer is no JSON object: is this the API of fakedev? {content[:100]!r}"
            raise NoAnswer(text)
        return answer

    def _ask(
        self, method: str, path: str, body: object = None, still: Callable[[], object] | None = None
    ) -> bytes:
        """The body of an answer.

        :param still: see Requester.
        """
        content = None if body is None else json.dumps(body).encode()
        reply = self._requester.ask(method, path, content, self._headers, still)
        if reply.status >= 300:
            raise _refused(reply.status, reply.body)
        return reply.body


def _refused(status: int, body: bytes) -> RequestRefused:
    try:
        error = json.loads(body)["error"]
        return RequestRefused(str(error["message"]), status, str(error["code"]), str(error["where"]))
    except (ValueError, KeyError, TypeError):
        text = body.decode("utf-8", "replace").strip()
        return RequestRefused(text or f"status {status}", status)


def _clock(answer: Mapping[str, Any]) -> Clock:
    return Clock(
        answer["tick"], answer["seconds"], answer["tick-seconds"], answer["speed"], answer["due-seconds"],
        answer.get("stopped-before-tick"),
    )  # fmt: skip


def by_protocol(given: Mapping[str, object]) -> dict[str, object]:
    """Keyword arguments as fields of the protocol: ``run_time_limit`` is ``run-time-limit``."""
    return {name.replace("_", "-"): value for name, value in given.items()}


def id_of(given: str | Description) -> str:
    """The id of a workload or fault, given as that, as a name, or as its description."""
    return given if isinstance(given, str) else str(given["id"])


def _quoted(name: str) -> str:
    return quote(name, safe="")
