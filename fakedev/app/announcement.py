"""Announces all addresses when they answer: in the log, and in a file for programs that wait for it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from twisted.application.service import Service
from twisted.logger import Logger

from fakedev.net.system.files import replace_file
from fakedev.net.system.listening import CannotStart, ListeningService
from fakedev.net.system.unix_sockets import FileMark, remove_own
from fakedev.spec.os_errors import CannotWrite
from fakedev.spec.web_paths import METRICS

#: What an HTTP address serves, and a path that shows it.
_SERVED: Final = {
    "all": ("web page, metrics, API and control", "/"),
    "metrics": ("metrics only", METRICS.template),
    "exporter": ("metrics, as the exporter has them", METRICS.template),
    "tester": ("statistics and control of the load", "/stats"),
}

#: Programs of other users may wait for the ready file.
_READY_FILE_MODE: Final = 0o644


class AnnouncedAddresses(NamedTuple):
    """The content of an announcement.

    :ivar summary: what is simulated, in a line.
    :ivar notes: remarks on the configuration.
    :ivar web: services of HTTP addresses, each with what it serves: a key of _SERVED.
    :ivar workloads: services of workload ports.
    :ivar queues: services of the queues' ports, each with the kind of its peers (``clients``, ``backends``).
    :ivar nodes: services of the ports for fakedev-node; None: there is no cluster.
    """

    summary: str
    notes: Sequence[str]
    web: Sequence[tuple[ListeningService, str]] = ()
    workloads: Sequence[ListeningService] = ()
    queues: Sequence[tuple[ListeningService, str]] = ()
    nodes: Sequence[ListeningService] | None = None


class Announcement(Service):
    """The last service to start: all addresses are known and answer then.

    :param what: returns the current content.
    :param ready_file: written when all is ready: JSON with the real addresses; empty for none.
    """

    log = Logger()

    def __init__(self, what: Callable[[], AnnouncedAddresses], ready_file: str = "") -> None:
        self.setName("announcement")
        self._what = what
        self._ready_file = ready_file
        self._mark: FileMark | None = None

    def startService(self) -> None:
        """Announce the addresses."""
        super().startService()
        self.tell()
        if self._ready_file and self._mark is None:
            raise CannotStart(f"the ready file {self._ready_file} cannot be written")

    def tell(self) -> None:
        """Announce the current addresses; a ready file that cannot be written is logged."""
        what = self._what()
        lines = [what.summary, *(f"note: {note}" for note in what.notes)]
        for service, serve in what.web:
            words, path = _SERVED[serve]
            lines.append(f"{words}: {_url(service, path)} {reach(service)}")
        lines += [f"workloads: {service.display} {reach(service)}" for service in what.workloads]
        lines += [f"{who} of the queues: {service.display} {reach(service)}" for service, who in what.queues]
        lines += [f"fakedev-node: {service.display} {reach(service)}" for service in what.nodes or ()]
        for line in lines:
            # Each line is its own format, so the log does not count them as repeats.
            self.log.info(line.replace("{", "{{").replace("}", "}}"))
        if self._ready_file:
            self._write_ready_file(what)

    def stopService(self) -> None:
        """Remove the ready file, if it is still ours."""
        super().stopService()
        remove_own(self._ready_file, self._mark)

    def _write_ready_file(self, what: AnnouncedAddresses) -> None:
        content = {
            "pid": os.getpid(),
            "web": [service.display for service, _ in what.web],
            "workloads": [service.display for service in what.workloads],
            "queue-clients": [service.display for service, who in what.queues if who == "clients"],
            "queue-backends": [service.display for service, who in what.queues if who == "backends"],
        }
        if what.nodes is not None:
            content["nodes"] = [service.display for service in what.nodes]
        try:
            replace_file(self._ready_file, json.dumps(content), _READY_FILE_MODE)
        except CannotWrite as reason:
            self.log.error("the ready file cannot be written: {reason}", reason=str(reason))
        else:
            self._mark = FileMark.of(self._ready_file)


def _url(service: ListeningService, path: str) -> str:
    if service.display.startswith("/"):
        # Browsers do not open UNIX sockets, and curl shows metrics better than the web page.
        path = METRICS.template if path == "/" else path
        return f"{service.display} (curl --unix-socket {service.display} {_scheme(service)}://localhost{path})"
    return f"{_scheme(service)}://{service.display.replace('*', 'localhost')}{path}"


def _scheme(service: ListeningService) -> str:
    return "https" if getattr(service.factory, "is_tls", False) else "http"  # an HTTP site has it


def reach(service: ListeningService) -> str:
    """Which users or machines can connect, and with what, in a few words."""
    gate = getattr(service.factory, "gate", None)  # a line port has one
    needs = [] if gate is None or gate.is_open else ["a token"]
    if gate is not None and getattr(service.factory, "is_tls", False):
        needs.append("TLS")
    words = [each for each in (_reach(service), f"with {' and '.join(needs)}" if needs else "") if each]
    return f"[{', '.join(words)}]" if words else ""


def _reach(service: ListeningService) -> str:
    address = service.address
    if address.kind == "unix":
        mode = address.mode if address.mode is not None else 0o660
        others = "everyone on this machine" if mode & 0o006 else "its owner and group" if mode & 0o060 else "its owner"
        return f"open to {others}"
    if address.kind == "endpoint":
        return ""
    local = address.host in ("localhost", "::1") or address.host.startswith("127.")
    return "open to this machine" if local else "open to the network"
