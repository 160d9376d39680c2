"""Listening as a service: in memory what is asked of the reactor, on the real one what only it can show."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from dataclasses import dataclass
from typing import Any

from twisted.application.service import MultiService
from twisted.internet import defer, reactor
from twisted.internet.endpoints import TCP4ClientEndpoint, UNIXClientEndpoint, connectProtocol
from twisted.internet.error import CannotListenError, ConnectionAborted, ConnectionDone
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock, RaisingMemoryReactor
from twisted.logger import globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase

from fakedev.config.listen import ListenAddress, parse_listen
from fakedev.net.system.listening import CannotListen, Listeners, ListeningService


@dataclass
class Where:
    """An address without the configuration."""

    kind: str = "tcp"
    host: str = "127.0.0.1"
    port: int = 0
    path: str = ""
    mode: int | None = None
    group: str | None = None
    description: str = ""
    display: str = "127.0.0.1:0"


def factory() -> Factory:
    """A factory of protocols that do nothing."""
    return Factory.forProtocol(Protocol)


class MemoryTests(SynchronousTestCase):
    """What is asked of the reactor."""

    def setUp(self) -> None:
        """A reactor in memory."""
        self.reactor = MemoryReactorClock()

    def test_tcp(self) -> None:
        """Port, interface and a queue for a thousand."""
        made = factory()
        service = ListeningService(parse_listen("[::1]:9400"), made, self.reactor)
        self.assertIsNone(service.where)
        service.privilegedStartService()
        service.startService()
        self.assertEqual(self.reactor.tcpServers, [(9400, made, 1024, "::1")])
        self.assertEqual(service.display, "[::1]:9400")
        self.assertEqual(service.where.port, 9400)
        self.successResultOf(service.stopService())

    def test_everywhere(self) -> None:
        """All of IPv4 is shown as a star."""
        service = ListeningService(parse_listen("*:9400"), factory(), self.reactor)
        service.startService()
        self.assertEqual(self.reactor.tcpServers[0][3], "")
        self.assertEqual(service.display, "*:9400")

    def test_unix_default_rights(self) -> None:
        """660 unless the configuration says something else; no lock file."""
        with tempfile.TemporaryDirectory() as folder:
            for mode, expected in ((None, 0o660), (0o600, 0o600)):
                address = Where(kind="unix", path=f"{folder}/s", mode=mode)
                service = ListeningService(address, factory(), self.reactor)
                service.startService()
                path, _, backlog, asked, wants_lock = self.reactor.unixServers[-1]
                self.assertEqual((path, backlog, asked, wants_lock), (f"{folder}/s", 1024, expected, 0))
                self.assertEqual(service.display, f"{folder}/s")

    def test_endpoint(self) -> None:
        """A Twisted endpoint string."""
        made = factory()
        service = ListeningService(parse_listen("tcp:9400:interface=127.0.0.1"), made, self.reactor)
        service.startService()
        self.assertEqual(self.reactor.tcpServers[0][:2], (9400, made))

    def test_a_service_can_be_stopped_before_its_start(self) -> None:
        """Stopping what never listened is nothing special."""
        service = ListeningService(Where(), factory(), self.reactor)
        self.successResultOf(service.stopService())

    def test_clear_errors(self) -> None:
        """Each reason is said in words, with the address."""
        refused = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        for reason, text in (
            (refused, "cannot listen on 127.0.0.1:9400: the address is in use by another program"),
            (unknown, "cannot listen on 127.0.0.1:9400: there is no such host"),
            (OSError(errno.EACCES, ""), "cannot listen on 127.0.0.1:9400: this user may not listen there"),
            (OSError(errno.ENOBUFS, ""), "cannot listen on 127.0.0.1:9400: no buffer space available"),
        ):
            fails = RaisingMemoryReactor(CannotListenError("127.0.0.1", 9400, reason))
            service = ListeningService(parse_listen("9400"), factory(), fails)
            self.assertEqual(str(self.assertRaises(CannotListen, service.privilegedStartService)), text)
            self.assertEqual(str(service.failure), text)

    def test_an_unknown_endpoint_is_an_error(self) -> None:
        """A string that Twisted does not understand."""
        address = ListenAddress("endpoint", description="nonsense:1", display="nonsense:1")
        service = ListeningService(address, factory(), self.reactor)
        self.assertIn("cannot listen on nonsense:1", str(self.assertRaises(CannotListen, service.startService)))

    def test_a_failure_ends_the_program_with_code_1_and_one_line(self) -> None:
        """One address that cannot be had is the end, said once and without a traceback."""
        entries = self._entries()
        fails = RaisingMemoryReactor(CannotListenError("", 9400, OSError(errno.EADDRINUSE, "")))
        root = MultiService()
        listeners = Listeners([ListeningService(parse_listen("9400"), factory(), fails)])
        listeners.setServiceParent(root)
        ended = self.assertRaises(SystemExit, root.privilegedStartService)
        self.assertEqual(ended.code, 1)
        self.assertIsNotNone(listeners.failure)
        self.assertEqual(
            [(entry["log_level"].name, entry["text"], entry.get("log_failure")) for entry in entries],
            [("critical", "cannot listen on 127.0.0.1:9400: the address is in use by another program", None)],
        )

    def test_a_failure_that_comes_late_stops_the_reactor(self) -> None:
        """An endpoint may fail after the start; the program must not run on deaf."""
        entries = self._entries()
        waiting: defer.Deferred[Any] = defer.Deferred()
        service = ListeningService(Where(kind="endpoint", display="slow:1"), factory(), self.reactor)
        service.endpoint_of = lambda *_: _SlowEndpoint(waiting)
        listeners = Listeners([service])
        listeners.startService()
        self.assertIsNone(listeners.failure)
        waiting.errback(Failure(CannotListenError("", 1, OSError(errno.EADDRINUSE, ""))))
        self.assertTrue(self.reactor.hasStopped)
        self.assertIn("slow:1", str(listeners.failure))
        self.assertEqual([entry["log_level"].name for entry in entries], ["critical"])

    def test_stopping_while_an_endpoint_is_not_ready(self) -> None:
        """The endpoint is cancelled; nothing is logged and the reactor is left alone."""
        entries = self._entries()
        waiting: defer.Deferred[Any] = defer.Deferred()
        service = ListeningService(Where(kind="endpoint"), factory(), self.reactor)
        service.endpoint_of = lambda *_: _SlowEndpoint(waiting)
        service.startService()
        self.successResultOf(service.stopService())
        self.assertFalse(self.reactor.hasStopped)
        self.assertEqual(entries, [])

    def _entries(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []

        def observe(event: dict[str, Any]) -> None:
            if str(event.get("log_namespace", "")).startswith("fakedev."):
                entries.append(event)

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        return entries


class _SlowEndpoint:
    """An endpoint that is ready when the test says so."""

    def __init__(self, waiting: defer.Deferred[Any]) -> None:
        self._waiting = waiting

    def listen(self, _: object) -> defer.Deferred[Any]:
        """Begin to listen."""
        return self._waiting


class Remembering(Protocol):
    """Remembers what came and how it ended."""

    def __init__(self) -> None:
        self.received = b""
        self.ended: defer.Deferred[BaseException] = defer.Deferred()
        self.began: defer.Deferred[None] = defer.Deferred()

    def connectionMade(self) -> None:
        """Say that the connection is there."""
        self.began.callback(None)

    def dataReceived(self, data: bytes) -> None:
        """Keep it."""
        self.received += data

    def connectionLost(self, reason: Failure) -> None:
        """Keep why."""
        self.ended.callback(reason.value)


class One(Factory):
    """Serves one connection, which the test can look at."""

    noisy = False

    def __init__(self) -> None:
        self.server = Remembering()

    def buildProtocol(self, _: object) -> Protocol:
        """The one."""
        return self.server


class RealTests(TestCase):
    """What only real sockets show: the port that port 0 became, no delay, the end of connections."""

    timeout = 20

    async def test_port_0_and_no_delay(self) -> None:
        """The real port is known; small answers leave at once."""
        one = One()
        service = ListeningService(parse_listen("0"), one)
        service.privilegedStartService()
        service.startService()
        port = service.where.port
        self.assertNotEqual(port, 0)
        self.assertEqual(service.display, f"127.0.0.1:{port}")
        client = await connectProtocol(TCP4ClientEndpoint(reactor, "127.0.0.1", port), Remembering())
        await one.server.began
        self.assertTrue(one.server.transport.getTcpNoDelay())
        await service.stopService()
        await client.ended

    async def test_a_busy_port_is_an_error(self) -> None:
        """A second service on the same port says so."""
        first = ListeningService(parse_listen("0"), factory())
        first.startService()
        second = ListeningService(parse_listen(f"127.0.0.1:{first.where.port}"), factory())
        self.assertIn("in use", str(self.assertRaises(CannotListen, second.privilegedStartService)))
        await first.stopService()

    async def test_what_is_written_arrives_before_the_end(self) -> None:
        """Stopping drops connections only after their answers are out."""
        with tempfile.TemporaryDirectory() as folder:
            one = One()
            service = ListeningService(parse_listen(f"{folder}/s"), one)
            service.startService()
            client = await connectProtocol(UNIXClientEndpoint(reactor, f"{folder}/s"), Remembering())
            await one.server.began
            one.server.transport.write(b"x" * 3_000_000)
            await service.stopService()
            reason = await client.ended
            self.assertIsInstance(reason, ConnectionDone)
            self.assertEqual(len(client.received), 3_000_000)
            self.assertFalse(os.path.lexists(f"{folder}/s"))

    async def test_a_peer_that_does_not_read_holds_up_nobody(self) -> None:
        """After its time it is cut off."""
        one = One()
        service = ListeningService(parse_listen("0"), one)
        service.closing_seconds = 0.1
        service.startService()
        client = await connectProtocol(TCP4ClientEndpoint(reactor, "127.0.0.1", service.where.port), Remembering())
        await one.server.began
        client.transport.pauseProducing()
        one.server.transport.write(b"x" * 50_000_000)
        await service.stopService()
        self.assertIsInstance(await one.server.ended, ConnectionAborted)
        client.transport.abortConnection()
        await client.ended

    async def test_a_second_program_on_the_same_socket_is_an_error(self) -> None:
        """The first one keeps it."""
        with tempfile.TemporaryDirectory() as folder:
            first = ListeningService(parse_listen(f"{folder}/s"), factory())
            first.startService()
            second = ListeningService(parse_listen(f"{folder}/s"), factory())
            self.assertIn("another program answers", str(self.assertRaises(CannotListen, second.startService)))
            await first.stopService()

    async def test_nothing_is_left_behind_when_a_later_address_fails(self) -> None:
        """The sockets made before the failure are removed, for the reactor never runs to do it."""
        with tempfile.TemporaryDirectory() as folder:
            opened = ListeningService(parse_listen(f"{folder}/s"), factory())
            broken = ListeningService(parse_listen(f"{folder}/none/s"), factory())
            listeners = Listeners([opened, broken])
            self.assertRaises(SystemExit, listeners.privilegedStartService)
            self.flushLoggedErrors()
            self.assertEqual(os.listdir(folder), [])
            await opened.stopService()
