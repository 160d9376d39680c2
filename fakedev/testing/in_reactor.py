"""A service in the test's own reactor, for tests of Twisted programs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, redirect_stderr
from functools import partial
from http.client import HTTPException
from io import StringIO
from pathlib import Path
from typing import Any, Final, cast

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint, connectProtocol
from twisted.internet.error import ConnectError
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from fakedev.client import aio
from fakedev.client.http import Exchange, Reply, no_answer
from fakedev.config.configuration import Configuration
from fakedev.fleet.spec.limits import RecordHead
from fakedev.runtime.reactor import IReactor
from fakedev.schema.peer_addresses import parse_address
from fakedev.service.program_run import Run
from fakedev.service.service import make_application
from fakedev.testing.order import Order, ShowsBoards, journal_lines, read_order, run_again
from fakedev.testing.served_fleet import CannotStart, on_free_ports, scenario_on_free_ports

_JOURNAL_ENTRIES: Final = 50


class ReactorFleet(aio.Fleet, ShowsBoards):
    """A client of a service in the same reactor, with the methods of fakedev.client.aio.Fleet.

    Await them in a coroutine that Twisted runs (``Deferred.fromCoroutine``).

    :param order: see Order; it has no text.
    :param folder: for its record and its ready file; it exists.
    :param timeout_seconds: how long an answer may take, except an advance's.
    :param wait: waits for a Deferred while the reactor runs, as ``pytest_twisted.blockon``.
    :ivar addresses: as of fakedev.testing.served_fleet.ServedFleet.
    :ivar folder: of its files.
    :ivar record: the path of its record.
    :raises ConfigurationError: when the configuration or the scenario cannot be used.
    :raises CannotStart: when it cannot serve it.
    """

    def __init__(
        self, order: Order, folder: Path, timeout_seconds: float, wait: Callable[[Deferred[Any]], Any]
    ) -> None:
        self.order = order
        self.folder = folder
        self.record = str(folder / "record.jsonl")
        self._wait = wait
        reading, ready = read_order(order), folder / "ready.json"
        run = Run(
            reading.head,
            self.record,
            str(ready),
            partial(_read_again, order, folder),
            scenario=reading.scenario and scenario_on_free_ports(reading.scenario, folder),
            owns_process=False,
        )
        with _refused_start():
            configuration = on_free_ports(reading.configuration, folder)
            self._application = make_application(configuration, run, cast(IReactor, reactor))
        try:
            with _refused_start():
                self._application.privilegedStartService()
                self._application.startService()
        except CannotStart:
            self.close()
            raise
        self.addresses: dict[str, Any] = json.loads(ready.read_text(encoding="utf-8"))
        address = self.addresses["web"][-1]
        super().__init__(f"http://{address}", requester=_ReactorRequester(address, timeout_seconds))

    def close(self) -> None:
        """Stop the service, and wait until all its sockets are closed."""
        self._wait(self._application.stopService())

    def report(self) -> list[tuple[str, str]]:
        """What helps after a test has failed, with titles."""
        entries = self._wait(Deferred.fromCoroutine(self.journal(limit=_JOURNAL_ENTRIES)))
        clock = self._wait(Deferred.fromCoroutine(self.clock()))
        return [
            ("configuration", str(self.order)),
            ("journal", journal_lines(entries)),
            ("record", f"{self.record}\nRun it again: {run_again(self.record, clock.seconds)}"),
        ]


class _ReactorRequester:
    """Sends requests by the reactor, each on a connection of its own.

    :param address: HOST:PORT.
    """

    def __init__(self, address: str, timeout_seconds: float) -> None:
        self._address = parse_address(address)
        self._timeout_seconds = timeout_seconds

    async def ask(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str],
        still: Callable[[], Awaitable[object]] | None,
    ) -> Reply:
        """The answer to a request.

        :param still: None: the answer must come within the timeout. Else it may take any time: this process lives.
        :raises NoAnswer: when there is none.
        """  # fmt: skip
        exchange = Exchange(self._address, method, path, body, headers)
        endpoint = TCP4ClientEndpoint(reactor, self._address.host, self._address.port, timeout=self._timeout_seconds)
        try:
            peer = await connectProtocol(endpoint, _Peer(exchange.sent))
            try:
                received = peer.received if still else peer.received.addTimeout(self._timeout_seconds, reactor)
                return exchange.reply(await received)
            finally:
                peer.transport.abortConnection()
        except (ConnectError, OSError, HTTPException) as error:
            reason = error if isinstance(error, OSError | HTTPException) else ConnectionError(str(error))
            raise no_answer(method, path, self._address, reason) from None


class _Peer(Protocol):
    """Sends a request, and collects what comes until the connection is closed.

    :ivar received: fires with it.
    """

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._parts: list[bytes] = []
        self.received: Deferred[bytes] = Deferred()

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(self._request)

    def dataReceived(self, data: bytes) -> None:
        self._parts.append(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if not self.received.called:
            self.received.callback(b"".join(self._parts))


def _read_again(order: Order, folder: Path) -> tuple[Configuration, RecordHead]:
    reading = read_order(order)
    return on_free_ports(reading.configuration, folder), reading.head


@contextmanager
def _refused_start() -> Generator[None]:
    """An error of the test in place of the end of a program, with what that writes before it ends."""
    said = StringIO()
    try:
        with redirect_stderr(said):
            yield
    except SystemExit as ended:
        raise CannotStart(f"it did not start: {said.getvalue().strip() or ended}") from None
