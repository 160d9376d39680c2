"""Announces all addresses when they answer: in the log, and in a file for programs that wait for it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from twisted.application.service import Service
from twisted.logger import Logger

from fakedev.base.errors import CannotWrite
from fakedev.runtime.disk import replace_file
from fakedev.runtime.listening import Announced, CannotStart, ListeningService
from fakedev.runtime.running_services import Registration, ServedAddress
from fakedev.runtime.socket_files import FileMark, mark_of, remove_own
from fakedev.schema.peer_addresses import TLS_SCHEME

#: The lists of the ready file that are there without addresses, too, in the order of the announcement.
_KEYS: Final = ("web", "workloads", "queue-clients", "queue-backends")
#: Programs of other users may wait for the ready file.
_READY_FILE_MODE: Final = 0o644


class Announcement(Service):
    """The last service to start: all addresses are known and answer then.

    :param summary: returns what is simulated, in a line, and remarks on the configuration.
    :param listening: returns the services of all addresses.
    :param ready_file: written when all is ready: JSON with the real addresses; empty for none.
    :param further_keys: of lists in it that only some programs have.
    :param registration: by which commands find this program; None: they do not.
    """

    log = Logger()

    def __init__(
        self,
        summary: Callable[[], Sequence[str]],
        listening: Callable[[], Iterable[ListeningService]],
        ready_file: str = "",
        further_keys: Iterable[str] = (),
        registration: Registration | None = None,
    ) -> None:
        self.setName("announcement")
        self._summary = summary
        self._listening = listening
        self._keys = (*_KEYS, *further_keys)
        self._ready_file = ready_file
        self._mark: FileMark | None = None
        self._registration = registration

    def startService(self) -> None:
        """Announce the addresses."""
        super().startService()
        self.announce()
        if self._ready_file and self._mark is None:
            raise CannotStart(f"the ready file {self._ready_file} cannot be written")

    def announce(self) -> None:
        """Announce the current addresses; a ready file that cannot be written is logged."""
        by_key: dict[str, list[ListeningService]] = {key: [] for key in self._keys}
        for service in self._listening():
            if service.announced is not None:
                by_key[service.announced.key].append(service)
        # First: who sees the lines or the ready file may ask for the service by name at once.
        if self._registration is not None:
            try:
                self._registration.write(_served(service) for services in by_key.values() for service in services)
            except CannotWrite as reason:
                self.log.debug("fakedev ps will not list this service: {reason}", reason=str(reason))
        lines = [*self._summary(), *(_line(service) for services in by_key.values() for service in services)]
        for line in lines:
            self.log.info(line.replace("{", "{{").replace("}", "}}"))
        if self._ready_file:
            self._write_ready_file(by_key)

    def stopService(self) -> None:
        """Remove the ready file, if it is still ours, and the registration."""
        super().stopService()
        remove_own(self._ready_file, self._mark)
        if self._registration is not None:
            self._registration.remove()

    def _write_ready_file(self, by_key: Mapping[str, Sequence[ListeningService]]) -> None:
        displayed = {key: [service.display for service in services] for key, services in by_key.items()}
        try:
            replace_file(self._ready_file, json.dumps({"pid": os.getpid(), **displayed}), _READY_FILE_MODE)
        except CannotWrite as reason:
            self.log.error("the ready file cannot be written: {reason}", reason=str(reason))
        else:
            self._mark = mark_of(self._ready_file)


def _line(service: ListeningService) -> str:
    assert service.announced is not None
    place = _url(service, service.announced) if service.announced.path else service.display
    return f"{service.announced.words}: {place} {reach(service)}"


def _url(service: ListeningService, announced: Announced) -> str:
    if service.display.startswith("/"):
        # Browsers do not open UNIX sockets, and curl shows metrics better than the web page.
        path = announced.curl_path or announced.path
        return f"{service.display} (curl --unix-socket {service.display} {_scheme(service)}://localhost{path})"
    return _address(service, announced) + announced.path


def _address(service: ListeningService, announced: Announced) -> str:
    """The address as clients write it."""
    if service.display.startswith("/"):
        return service.display
    host = service.display.replace("*", "localhost")
    if announced.path:
        return f"{_scheme(service)}://{host}"
    return f"{TLS_SCHEME}{host}" if getattr(service.factory, "is_tls", False) else host


def _served(service: ListeningService) -> ServedAddress:
    assert service.announced is not None
    key, *_, has_control, token_file = service.announced
    return ServedAddress(key, _address(service, service.announced), has_control, token_file)


def _scheme(service: ListeningService) -> str:
    return "https" if getattr(service.factory, "is_tls", False) else "http"  # an HTTP site has it


def reach(service: ListeningService) -> str:
    """Which users or machines can connect, and with what, in a few words."""
    gate = getattr(service.factory, "gate", None)  # a line port has one
    needs = [] if gate is None or gate.is_open else ["a token"]
    if gate is not None and getattr(service.factory, "is_tls", False):
        needs.append("TLS")
    words = [text for text in (_reach(service), f"with {' and '.join(needs)}" if needs else "") if text]
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
