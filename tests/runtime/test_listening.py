"""Listening as a service: in memory what is asked of the reactor, on the real one what only it can show."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.application.service import MultiService
from twisted.internet import defer, reactor
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint, UNIXClientEndpoint, connectProtocol
from twisted.internet.error import CannotListenError, ConnectionAborted, ConnectionDone
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import MemoryReactorClock, RaisingMemoryReactor
from twisted.logger import LogEvent
from twisted.python.failure import Failure

from fakedev.runtime.listening import CannotListen, Listeners, ListeningService
from fakedev.schema.addresses import ListenAddress, parse_listen
from tests.support.deferreds import success_result_of, within
from tests.support.logged_errors import LoggedErrors


def factory() -> Factory:
    """A factory of protocols that do nothing."""
    return Factory.forProtocol(Protocol)


class TestMemory:
    """What is asked of the reactor."""

    def setup_method(self) -> None:
        """A reactor in memory."""
        self.reactor = MemoryReactorClock()

    def test_tcp(self) -> None:
        """Port, interface and a queue for a thousand."""
        made = factory()
        service = ListeningService(parse_listen("[::1]:9400"), made, self.reactor)
        assert service.where is None
        service.privilegedStartService()
        service.startService()
        assert self.reactor.tcpServers == [(9400, made, 1024, "::1")]
        assert service.display == "[::1]:9400"
        assert service.where.port == 9400
        success_result_of(service.stopService())

    def test_everywhere(self) -> None:
        """All of IPv4 is shown as a star."""
        service = ListeningService(parse_listen("*:9400"), factory(), self.reactor)
        service.startService()
        assert self.reactor.tcpServers[0][3] == ""
        assert service.display == "*:9400"

    def test_unix_rights(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for text, mode, expected in ((f"{folder}/s", 0o660, 0o660), (f"unix:{folder}/s", None, 0o600)):
                service = ListeningService(parse_listen(text, mode=mode), factory(), self.reactor)
                service.startService()
                path, _, backlog, asked, wants_lock = self.reactor.unixServers[-1]
                assert (path, backlog, asked, wants_lock) == (f"{folder}/s", 1024, expected, 0)
                assert service.display == f"{folder}/s"

    def test_endpoint(self) -> None:
        made = factory()
        service = ListeningService(parse_listen("tcp:9400:interface=127.0.0.1"), made, self.reactor)
        service.startService()
        assert self.reactor.tcpServers[0][:2] == (9400, made)

    def test_a_service_can_be_stopped_before_its_start(self) -> None:
        service = ListeningService(parse_listen("0"), factory(), self.reactor)
        success_result_of(service.stopService())

    @pytest.mark.slow
    def test_clear_errors(self) -> None:
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
            with pytest.raises(CannotListen) as raised:
                service.privilegedStartService()
            assert str(raised.value) == text
            assert str(service.failure) == text

    @pytest.mark.parametrize(
        ("description", "reason"),
        [
            ("nonsense:1", "Unknown endpoint type: 'nonsense'"),
            ("tcp:9400:port=9401", "Twisted refuses the arguments of this endpoint string: _parseTCP() got multiple"),
            ("systemd:domain=INET:name=web", "systemd has passed no such socket: start this program by a .socket unit"),
        ],
    )
    def test_an_endpoint_that_twisted_refuses(self, description: str, reason: str) -> None:
        address = ListenAddress("endpoint", description=description, display=description)
        service = ListeningService(address, factory(), self.reactor)
        with pytest.raises(CannotListen) as raised:
            service.startService()
        assert str(raised.value).startswith(f"cannot listen on {description}: {reason}")

    @pytest.mark.slow
    def test_a_failure_ends_the_program_with_code_1_and_one_line(
        self, log_events: list[LogEvent], logged_errors: LoggedErrors
    ) -> None:
        """One address that cannot be had is the end, said once and without a traceback."""
        fails = RaisingMemoryReactor(CannotListenError("", 9400, OSError(errno.EADDRINUSE, "")))
        root = MultiService()
        listeners = Listeners([ListeningService(parse_listen("9400"), factory(), fails)])
        listeners.setServiceParent(root)
        with pytest.raises(SystemExit) as ended:
            root.privilegedStartService()
        assert ended.value.code == 1
        assert listeners.failure is not None
        assert [(event["log_level"].name, event["text"], event.get("log_failure")) for event in ours(log_events)] == [
            ("critical", "cannot listen on 127.0.0.1:9400: the address is in use by another program", None)
        ]
        logged_errors.take_critical()


def ours(events: list[LogEvent]) -> list[LogEvent]:
    """The events that fakedev logged."""
    return [event for event in events if str(event.get("log_namespace", "")).startswith("fakedev.")]


#: Starts a service on an address; see the fixture of this name.
Listen = Callable[..., ListeningService]


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


class Answering(One):
    """Is in the middle of an answer when its connections are to be closed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_to_close: defer.Deferred[None] = defer.Deferred()

    def shut_down(self) -> None:
        """Let the test answer first."""
        self.is_to_close.callback(None)


@pytest_twisted.async_yield_fixture
async def listen() -> AsyncIterator[Listen]:
    """Starts services that listen on the real reactor; those that still listen are stopped with the test."""
    started: list[ListeningService] = []

    def start(address: str, made: Factory, closing_seconds: float | None = None) -> ListeningService:
        service = ListeningService(parse_listen(address), made, reactor)
        if closing_seconds is not None:
            service.closing_seconds = closing_seconds
        service.startService()
        started.append(service)
        return service

    yield start
    for service in started:
        await within(service.stopService())


async def served(listen: Listen, one: One, address: str = "0") -> tuple[ListeningService, Remembering]:
    """A service with a client, when its side of the connection is there."""
    service = listen(address, one)
    client = await connected_to(service)
    await within(one.server.began)
    return service, client


async def connected_to(service: ListeningService) -> Remembering:
    """A client of a service, connected by TCP or over its socket."""
    where = service.where
    port = getattr(where, "port", None)
    endpoint = (
        UNIXClientEndpoint(reactor, where.name) if port is None else TCP4ClientEndpoint(reactor, where.host, port)
    )
    client: Remembering = await within(connectProtocol(endpoint, Remembering()))
    return client


@pytest.mark.slow
@pytest_twisted.ensureDeferred
async def test_port_0_becomes_a_real_port_without_delay(listen: Listen) -> None:
    """The real port is known; small answers leave at once."""
    one = One()
    service = listen("0", one)
    port = service.where.port
    assert port != 0
    assert service.display == f"127.0.0.1:{port}"
    client = await connected_to(service)
    await within(one.server.began)
    assert one.server.transport.getTcpNoDelay()
    await within(service.stopService())
    await within(client.ended)


@pytest.mark.slow
@pytest_twisted.ensureDeferred
@pytest.mark.parametrize("form", ["*:0", ":0"])
async def test_every_address_is_ipv4_and_ipv6(listen: Listen, form: str) -> None:
    """A peer of either kind is served; one of IPv4 has its IPv4 address."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    served = []
    for host in ("127.0.0.1", "::1"):
        one = One()
        service = listen(form, one)
        kind = TCP6ClientEndpoint if ":" in host else TCP4ClientEndpoint
        client = await within(connectProtocol(kind(reactor, host, service.where.port), Remembering()))
        await within(one.server.began)
        served.append(one.server.transport.getPeer().host)
        client.transport.loseConnection()
        await within(service.stopService())
    assert served == ["127.0.0.1", "::1"]


@pytest.mark.slow
@pytest_twisted.ensureDeferred
async def test_every_address_without_ipv6(listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    real_bind = socket.socket.bind

    def bind(self: socket.socket, place: Any) -> None:
        if self.family == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "no such address")
        real_bind(self, place)

    monkeypatch.setattr("fakedev.runtime.early.socket.socket.bind", bind)
    assert listen("*:0", factory()).where.host == "0.0.0.0"


@pytest.mark.slow
@pytest_twisted.ensureDeferred
async def test_a_busy_port_is_an_error(listen: Listen) -> None:
    first = listen("0", factory())
    second = ListeningService(parse_listen(f"127.0.0.1:{first.where.port}"), factory(), reactor)
    with pytest.raises(CannotListen, match="in use"):
        second.privilegedStartService()


@pytest.mark.slow
@pytest_twisted.ensureDeferred
async def test_what_is_written_arrives_before_the_end(listen: Listen, short_folder: Path) -> None:
    """Stopping drops connections only after their answers are sent."""
    one = One()
    service, client = await served(listen, one, f"{short_folder}/s")
    one.server.transport.write(b"x" * 3_000_000)
    await within(service.stopService())
    assert isinstance(await within(client.ended), ConnectionDone)
    assert len(client.received) == 3_000_000
    assert not os.path.lexists(f"{short_folder}/s")


@pytest.mark.slow
@pytest_twisted.ensureDeferred
async def test_what_has_arrived_is_read_before_the_end(listen: Listen) -> None:
    """A peer that was accepted in the last moment may have asked already, and is answered."""
    one = One()
    service, client = await served(listen, one)
    client.transport.getHandle().send(b"a question")
    await within(service.stopService())
    await within(client.ended)
    assert one.server.received == b"a question"


@pytest.mark.slow
@pytest_twisted.ensureDeferred
async def test_what_is_being_answered_is_answered_before_the_end(listen: Listen) -> None:
    one = Answering()
    service, client = await served(listen, one)
    stopped = service.stopService()
    await within(one.is_to_close)
    one.server.transport.write(b"an answer")
    one.server.transport.loseConnection()
    await within(stopped)
    assert isinstance(await within(client.ended), ConnectionDone)
    assert client.received == b"an answer"


@pytest.mark.slow
@pytest_twisted.ensureDeferred
async def test_a_peer_that_does_not_read_is_cut_off(listen: Listen) -> None:
    """It holds up the stop of the service for the closing time, no longer."""
    one = One()
    service = listen("0", one, closing_seconds=0.1)
    client = await connected_to(service)
    await within(one.server.began)
    client.transport.pauseProducing()
    one.server.transport.write(b"x" * 50_000_000)
    await within(service.stopService())
    assert isinstance(await within(one.server.ended), ConnectionAborted)
    client.transport.abortConnection()
    await within(client.ended)


@pytest.mark.slow
@pytest_twisted.ensureDeferred
async def test_a_second_program_on_the_same_socket_is_an_error(listen: Listen, short_folder: Path) -> None:
    listen(f"{short_folder}/s", factory())
    second = ListeningService(parse_listen(f"{short_folder}/s"), factory(), reactor)
    with pytest.raises(CannotListen, match="another program answers"):
        second.startService()


@pytest.mark.slow
@pytest_twisted.ensureDeferred
async def test_nothing_is_left_behind_when_a_later_address_fails(
    short_folder: Path, logged_errors: LoggedErrors
) -> None:
    """The sockets made before the failure are removed, for the reactor never runs to do it."""
    opened = ListeningService(parse_listen(f"{short_folder}/s"), factory(), reactor)
    broken = ListeningService(parse_listen(f"{short_folder}/none/s"), factory(), reactor)
    listeners = Listeners([opened, broken])
    with pytest.raises(SystemExit):
        listeners.privilegedStartService()
    (text,) = logged_errors.take_critical()
    assert f"{short_folder}/none/s" in text
    assert os.listdir(short_folder) == []
    await within(opened.stopService())
