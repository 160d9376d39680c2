"""The whole application in memory: a configuration as text in, connections to its ports out."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from fakedev.base.steps import Steps
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.config.start import record_head
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.port import WorkloadPortFactory
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.workloads.workload import Verdict
from fakedev.lines.server import LineServerFactory
from fakedev.queues.backend_port import QueueBackendFactory
from fakedev.queues.client_port import QueueClientFactory
from fakedev.runtime.application import Application
from fakedev.scenario.settings import load_scenario
from fakedev.schema.files import Files
from fakedev.service.exporter_program import make_exporter
from fakedev.service.options import Options
from fakedev.service.program_run import Run
from fakedev.service.service import make_application
from fakedev.web.site import Site
from tests.support.wire.http_wire import Answer, Peer, SocketLike

#: When the reactors of these tests begin, in seconds since 1970.
BEGIN = 1_800_000_000.0

#: Two pools, each as another exporter shows it; a place for what listens.
GREEN_AND_BLUE = """
version: 1
fleet:
  seed: 7
  pools:
    - {name: green, nodes: [a, b], device: h100, devices-per-node: 2, identity: dcgm}
    - {name: blue, nodes: [c], device: flex-170, devices-per-node: 2, identity: xpumanager}
"""
#: Two nodes of two devices, an address for everything, a workload port for everything.
SMALL = """
version: 1
fleet:
  seed: 7
  pools: [{name: p, nodes: [a, b], device: h100, devices-per-node: 2, identity: dcgm}]
web: ["127.0.0.1:9400"]
workloads: {listen: [{listen: "127.0.0.1:9500", allow: [workloads, clock]}]}
"""
#: The same with a stopped clock.
STANDING = SMALL.replace("seed: 7", "seed: 7\n  speed: 0")


class Wire(SocketLike):
    """A connection as a listening port makes it: it tells its protocol when it is closed."""

    def __init__(self, reactor: MemoryReactorClock, protocol: Any) -> None:
        super().__init__()
        self._reactor = reactor
        self.protocol = protocol

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Nothing waits in memory."""

    def loseConnection(self) -> None:
        """Close, in the next reactor turn."""
        if not self.disconnecting:
            super().loseConnection()
            self._reactor.callLater(0, self._lost)

    def abortConnection(self) -> None:
        """Close at once, without sending what waits."""
        self.disconnecting = True
        self._lost()

    def _lost(self) -> None:
        if self.connected:
            self.flush()
            self.connected = False
            self.protocol.connectionLost(Failure(ConnectionDone()))


class MemoryPort:
    """A port that listens in memory; Twisted's hook ``transport`` makes its connections."""

    def __init__(self, reactor: AppReactor, address: Any, factory: Any) -> None:
        self._reactor = reactor
        self._address = address
        self.factory = factory
        self.transport: Callable[..., Any] = lambda protocol: Wire(reactor, protocol)

    def getHost(self) -> Any:
        """Where it listens."""
        return self._address

    def stopListening(self) -> None:
        """Stop; connections stay."""
        self._reactor.told.append(f"closed {getattr(self._address, 'port', None) or self._address.name!r}")
        self._reactor.ports.remove(self)

    def connect(self) -> Wire:
        """A new connection."""
        protocol = self.factory.buildProtocol(None)
        wire: Wire = self.transport(protocol)
        protocol.makeConnection(wire)
        return wire


class NoThreads:
    """A pool of threads that does everything at once."""

    def callInThreadWithCallback(self, told: Callable[[bool, Any], None], work: Callable[[], Any]) -> None:
        """Do the work, and tell the result."""
        try:
            result = work()
        except Exception:
            told(False, Failure())
        else:
            told(True, result)


class AppReactor(MemoryReactorClock):  # type: ignore[misc]
    """A reactor in memory with ports that tests can connect to.

    :ivar told: ports that were closed, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rightNow = BEGIN
        self.ports: list[MemoryPort] = []
        self.told: list[str] = []

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> MemoryPort:
        """Listen on a TCP address."""
        self.ports.append(MemoryPort(self, IPv4Address("TCP", interface or "0.0.0.0", port), factory))
        return self.ports[-1]

    def listenUNIX(self, address: str, factory: Any, backlog: int = 50, **options: Any) -> MemoryPort:
        """Listen on a UNIX socket."""
        self.ports.append(MemoryPort(self, UNIXAddress(address.encode()), factory))
        return self.ports[-1]

    def callFromThread(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Call at once."""
        call(*arguments)

    def getThreadPool(self) -> NoThreads:
        """Its threads."""
        return NoThreads()

    def turn(self) -> None:
        """One reactor turn: what is due now; the calls that this makes are for the next one."""
        due = [call for call in self.calls if call.getTime() <= self.seconds()]
        for call in due:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


class LineTransport(StringTransport):  # type: ignore[misc]
    """A connection of a line port; ``loseConnection`` closes it in the next reactor turn."""

    def __init__(self, reactor: Any, protocol: Any) -> None:
        super().__init__(lenient=True)
        self._reactor = reactor
        self._protocol = protocol
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Note each write."""
        self.writes.append(data)
        super().write(data)

    def loseConnection(self) -> None:
        """Close."""
        if not self.disconnecting:
            super().loseConnection()
            self._reactor.callLater(0, self.lost)

    def lost(self) -> None:
        """The connection is gone."""
        if self.connected:
            self.connected = False
            self._protocol.connectionLost(Failure(ConnectionDone()))


class LineClient:
    """A peer of a line port."""

    def __init__(self, factory: LineServerFactory, reactor: Any) -> None:
        self._reactor = reactor
        self.protocol: Any = factory.buildProtocol(None)
        self.transport = LineTransport(reactor, self.protocol)
        self.protocol.makeConnection(self.transport)
        self._seen = 0

    def send(self, *segments: bytes) -> None:
        """Send bytes in these segments."""
        for segment in segments:
            if self.transport.connected:
                self.protocol.dataReceived(segment)

    def heard(self) -> bytes:
        """What came since this was asked last."""
        self._reactor.advance(0)
        said = self.transport.value()
        new, self._seen = said[self._seen :], len(said)
        return new

    def say(self, *lines: str) -> list[str]:
        """Send lines of words; the lines that come back."""
        self.send("".join(f"{line}\n" for line in lines).encode())
        return self.lines()

    def lines(self) -> list[str]:
        """The lines that came since."""
        return self.heard().decode().splitlines()

    def ask(self, **fields: Any) -> Any:
        """Send a JSON line; the only answer."""
        self.send(json.dumps(fields).encode() + b"\n")
        (answer,) = self.told()
        return answer

    def told(self) -> list[Any]:
        """The objects that came since."""
        return [json.loads(line) for line in self.heard().splitlines()]

    def end_input(self) -> None:
        """Say that nothing more will be sent, as ``nc -N``."""
        self.protocol.readConnectionLost()
        self._reactor.advance(0)

    def leave(self) -> None:
        """Go away."""
        self.transport.lost()
        self._reactor.advance(0)

    @property
    def closed(self) -> bool:
        """Whether the port has closed the connection."""
        return not self.transport.connected


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="fakedev-runtime-")


def _environment() -> dict[str, str]:
    """With a folder for default sockets that no service of this user has."""
    return {"RUNTIME_DIRECTORY": _folder().name}


class MemoryApplication:
    """An application that runs in memory."""

    def __init__(
        self, text: str = SMALL, record: str = "", drop_in: bool = False, ready_file: str = "", files: Any = None,
        reactor: AppReactor | None = None, scenario: str = "",
    ) -> None:  # fmt: skip
        """
        :param scenario: the file of a scenario, whose configuration is used in place of the text.
        """
        files = files or Files(environ=_environment())
        loaded = load_scenario(scenario, _environment()) if scenario else None
        if loaded is not None:
            self.configuration, files, _, _ = loaded.configurations[0]
        else:
            self.configuration = load(None, files, text=text)
        path = scenario or None
        head = record_head(self.configuration, files, config=path, text=None if scenario else text)
        if self.configuration.epoch_is_start:
            head = replace(head, epoch_seconds=BEGIN)
        self.reactor = reactor or AppReactor()
        #: What a reload reads.
        self.text = text
        self.service: Application = (
            make_exporter(self.configuration, head, self.reactor, record)
            if drop_in
            else make_application(
                self.configuration, Run(head, record, ready_file, self._read_again, scenario=loaded), self.reactor
            )
        )
        self.service.privilegedStartService()
        self.service.startService()

    def _read_again(self) -> tuple[Configuration, RecordHead]:
        files = Files(environ=_environment())
        configuration = load(None, files, text=self.text)
        return configuration, record_head(configuration, files, text=self.text)

    def factories(self, kind: type) -> list[Any]:
        """The factories of its ports, in order."""
        served = [(port.factory, getattr(port.factory, "port", port.factory)) for port in self.reactor.ports]
        return [factory for factory, port in served if isinstance(port, kind)]

    def http(self, place: int = 0) -> Peer:
        """A new connection to its HTTP address of that place."""
        return Peer(self.factories(Site)[place])

    def ask(
        self, method: str, path: str, body: object = None, place: int = 0, headers: str = "Host: localhost\r\n"
    ) -> Answer:
        """The answer to one request on a new connection."""
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if body is not None:
            headers += f"Content-Length: {len(content)}\r\n"
        peer = self.http(place)
        answer = peer.ask(f"{method} {path} HTTP/1.1\r\n{headers}\r\n".encode() + content, head=method == "HEAD")
        peer.leave()
        return answer

    def get(self, path: str, place: int = 0) -> Answer:
        """GET."""
        return self.ask("GET", path, place=place)

    def json(self, path: str) -> Any:
        """What GET gives, which must be good JSON."""
        answer = self.get(path)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json"), answer
        return json.loads(answer.body)

    def connect(self, place: int = 0) -> LineClient:
        """A new connection to its workload port of that place."""
        return LineClient(self.factories(WorkloadPortFactory)[place], self.reactor)

    def client(self) -> LineClient:
        """A new connection to its first client port of the queues."""
        return LineClient(self.factories(QueueClientFactory)[0], self.reactor)

    def backend(self) -> LineClient:
        """A new connection to its first backend port of the queues."""
        return LineClient(self.factories(QueueBackendFactory)[0], self.reactor)

    def tick(self, count: int = 1) -> None:
        """Let so many seconds pass, each in a separate step."""
        for _ in range(count):
            self.reactor.advance(1)

    @property
    def fleet(self) -> Fleet:
        """The fleet that it simulates."""
        found: Fleet = self.factories(WorkloadPortFactory)[0].hub.fleet
        return found

    def slow_down(self, seconds: float = 0.004) -> None:
        """Let each tick take so long."""
        tick = self.fleet.tick

        def slow() -> Steps[list[Verdict]]:
            self.reactor.rightNow += seconds
            return tick()

        self.fleet.tick = slow  # type: ignore[method-assign]

    def stop(self) -> None:
        """Stop the service; it must end within the time that connections may take."""
        done: Deferred[None] = self.service.stopService()
        ended: list[object] = []
        done.addBoth(ended.append)
        self.reactor.pump([0.0] * 3 + [0.1] * 30)
        assert ended == [None]


@contextmanager
def application(text: str = SMALL, **options: Any) -> Iterator[MemoryApplication]:
    """An application that is stopped at the end, with the dispositions of signals as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    running = MemoryApplication(text, **options)
    try:
        yield running
        if running.service.running:
            running.stop()
    finally:
        for number, disposition in before.items():
            signal.signal(number, disposition)


def parsed(*arguments: str) -> Options:
    """The options of a command line."""
    options = Options()
    options.parseOptions(list(arguments))
    return options
