"""A reactor in memory whose clients reach its servers: connections without sockets, on a clock that tests move."""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost, ConnectionRefusedError
from twisted.internet.interfaces import IProtocol
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

_HOST = "127.0.0.1"
#: More turns than any exchange takes: a test with an endless one fails instead of hanging.
_MOST_TURNS = 20_000


class LinkedReactor(MemoryReactorClock):
    """connectTCP reaches what listenTCP has opened at that port, or is refused; ``settle`` passes on what was written.

    Everything arrives at the same time of the clock, in a later turn, as with sockets.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rightNow = 1_000_000.0
        self._listening: dict[int, _Port] = {}
        self._next_port = 30_000

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:
        """Open a port; 0: a free one."""
        del backlog, interface
        if not port:
            self._next_port += 1
            port = self._next_port
        factory.doStart()
        self._listening[port] = _Port(self, port, factory)
        return self._listening[port]

    def connectTCP(self, host: str, port: int, factory: Any, timeout: float = 30, bindAddress: Any = None) -> Any:
        """Connect in the next turn."""
        del timeout, bindAddress
        connector = _Connector(host, port)
        factory.doStart()
        factory.startedConnecting(connector)
        self.callLater(0, self._connect, port, factory, connector)
        return connector

    def settle(self) -> None:
        """Run turns until nothing is due at this time of the clock."""
        for _ in range(_MOST_TURNS):
            if not any(call.getTime() <= self.rightNow for call in self.getDelayedCalls()):
                return
            self.advance(0)
        raise AssertionError("the exchange does not come to an end")

    def pass_seconds(self, seconds: float, step_seconds: float = 0.05) -> None:
        """Move the clock in small steps, and settle after each."""
        self.settle()
        end = self.rightNow + seconds
        while self.rightNow < end - 1e-9:
            self.advance(min(step_seconds, end - self.rightNow))
            self.settle()

    def forget(self, port: int) -> None:
        """The port is closed: connections are refused."""
        del self._listening[port]

    def _connect(self, port: int, factory: Any, connector: _Connector) -> None:
        if connector.is_given_up:
            return
        listening = self._listening.get(port)
        protocol = listening and listening.factory.buildProtocol(IPv4Address("TCP", _HOST, 40_000))
        if listening is None or protocol is None:
            factory.clientConnectionFailed(connector, Failure(ConnectionRefusedError()))
            factory.doStop()
            return
        ours = factory.buildProtocol(IPv4Address("TCP", _HOST, port))
        client, server = _End(self, ours), _End(self, protocol)
        client.other, server.other = server, client
        protocol.makeConnection(server)
        ours.makeConnection(client)


class _Connector:
    def __init__(self, host: str, port: int) -> None:
        self.host, self.port, self.is_given_up = host, port, False

    def stopConnecting(self) -> None:
        self.is_given_up = True

    disconnect = stopConnecting

    def getDestination(self) -> IPv4Address:
        return IPv4Address("TCP", self.host, self.port)


class _Port:
    def __init__(self, reactor: LinkedReactor, port: int, factory: Any) -> None:
        self.reactor, self.port, self.factory = reactor, port, factory

    def getHost(self) -> IPv4Address:
        return IPv4Address("TCP", _HOST, self.port)

    def stopListening(self) -> None:
        self.reactor.forget(self.port)
        self.factory.doStop()


class _End(StringTransport):
    """One end of a connection: what is written arrives at the other end in a later turn."""

    other: _End

    def __init__(self, reactor: LinkedReactor, protocol: IProtocol) -> None:
        super().__init__()
        self.reactor = reactor
        self.protocol = protocol
        self.is_open = True
        self._arrived: list[bytes] = []

    def write(self, data: bytes) -> None:
        if self.is_open and data:
            self.reactor.callLater(0, self.other.arrive, data)

    def writeSequence(self, data: Any) -> None:
        self.write(b"".join(data))

    def arrive(self, data: bytes) -> None:
        self._arrived.append(data)
        self._pass_on()

    def _pass_on(self) -> None:
        while self._arrived and self.is_open and self.producerState == "producing":
            self.protocol.dataReceived(self._arrived.pop(0))

    def setTcpNoDelay(self, enabled: bool) -> None:
        pass

    def setTcpKeepAlive(self, enabled: bool) -> None:
        pass

    def pauseProducing(self) -> None:
        self.producerState = "paused"

    def resumeProducing(self) -> None:
        self.producerState = "producing"
        self.reactor.callLater(0, self._pass_on)

    def stopProducing(self) -> None:
        self.loseConnection()

    def loseConnection(self) -> None:
        self._end(ConnectionDone(), ConnectionDone())

    def abortConnection(self) -> None:
        self._end(ConnectionAborted(), ConnectionLost())

    def _end(self, ours: Exception, theirs: Exception) -> None:
        if self.is_open:
            self.reactor.callLater(0, self.lost, ours)
            self.reactor.callLater(0, self.other.lost, theirs)

    def lost(self, reason: Exception) -> None:
        self.producerState = "producing"
        self._pass_on()
        if self.is_open:
            self.is_open = False
            self.protocol.connectionLost(Failure(reason))
