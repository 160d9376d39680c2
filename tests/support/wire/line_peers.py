"""Transports and ports for the tests of line peers."""

from __future__ import annotations

from twisted.internet import abstract, main
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from fakedev.fleet.verbs import WORKLOAD_GRAMMAR, parse_bare_workload
from fakedev.lines.grammar import SHARED_VERBS, ProtocolError, Request
from fakedev.lines.json_lines import Reply
from fakedev.lines.protocol import PortProtocol
from fakedev.lines.server import LineServerFactory
from fakedev.lines.tokens import TokenGate

SHARED = {verb.name for verb in SHARED_VERBS}

#: A bare object, as the original's client sends it.
BARE = b'{\n\t"Name": "a",\n\t"Profile": [{"Load": 10}],\n\t"Devices": ["card0"]\n}'


class RecordingProtocol(PortProtocol):
    """A port that notes its requests.

    ``stop`` is refused, ``advance`` waits until the test answers, ``show crash`` fails, ``show big`` is answered
    with 100 KB, ``list`` with two lines, everything else with its verb.
    """

    grammar = WORKLOAD_GRAMMAR

    def __init__(self, factory: LineServerFactory, gate: TokenGate):
        super().__init__(factory, gate)
        self.asked = []
        self.waiting = []
        self.bare = []
        self.left = 0
        self.working = False
        factory.last_peer = self

    def request_received(self, request: Request) -> Reply | None:
        if request.verb in SHARED:
            return super().request_received(request)
        self.asked.append((request.verb, dict(request.arguments), request.id))
        match request.verb:
            case "stop":
                raise ProtocolError("unknown-name", f"workload: no {request.arguments['workload'][:20]!r}")
            case "advance":
                self.waiting.append(request)
                return None
            case "show" if request.arguments["workload"] == "crash":
                raise RuntimeError("an internal error")
            case "show" if request.arguments["workload"] == "big":
                return Reply(lines=["x" * 999] * 100)
            case "list":
                return Reply(lines=["one", "two"])
        return Reply(request.verb)

    def object_received(self, message: bytes) -> None:
        self.bare.append(parse_bare_workload(message))
        if len(self.bare) > 1:
            raise ProtocolError("bad-argument", "a connection carries one workload", fatal=True)

    def encode_bare_error(self, error: ProtocolError) -> bytes:
        return b"1"

    def is_working(self) -> bool:
        return self.working

    def peer_left(self) -> None:
        self.left += 1


class TurnClock(Clock):
    """A clock that can run the calls of one reactor turn: those they make are for the next."""

    def turn(self) -> None:
        due = [call for call in self.calls if call.getTime() <= self.seconds()]
        for call in due:
            self.calls.remove(call)
            call.called = 1
            call.func(*call.args, **call.kw)


class WritesTransport(StringTransport):
    """Notes each write."""

    def __init__(self):
        super().__init__()
        self.writes = []

    def write(self, data):
        self.writes.append(data)
        super().write(data)


class Descriptor(abstract.FileDescriptor):
    """Twisted's own buffering over a peer that takes ``room`` bytes before it stops to read."""

    connected = 1

    def __init__(self, clock: Clock, protocol, room: float = float("inf")):
        super().__init__(reactor=self)
        self.clock = clock
        self.protocol = protocol
        self.room = room
        self.taken = b""
        self.reading = True
        self.writing = False
        self.aborted = False
        self.half_closed = False

    def addReader(self, _):
        self.reading = True

    def removeReader(self, _):
        self.reading = False

    def addWriter(self, _):
        self.writing = True

    def removeWriter(self, _):
        self.writing = False

    def callLater(self, seconds, function, *arguments):
        return self.clock.callLater(seconds, function, *arguments)

    def getPeer(self):
        return "the peer"

    def writeSomeData(self, data):
        count = int(min(len(data), self.room))
        self.room -= count
        self.taken += bytes(data[:count])
        return count

    def _closeWriteConnection(self):
        self.half_closed = True

    def abortConnection(self):
        self.aborted = True
        self.connectionLost(Failure(ConnectionAborted()))

    def connectionLost(self, reason):
        super().connectionLost(reason)
        self.protocol.connectionLost(reason)

    def turn(self, times: int = 1):
        """Some reactor turns: timed calls, then writing."""
        for _ in range(times):
            self.clock.advance(0)
            if self.writing and not self.disconnected and self.doWrite() is main.CONNECTION_DONE:
                self.connectionLost(Failure(main.CONNECTION_DONE))


class RecordingFactory(LineServerFactory):
    """A port of recording protocols.

    :ivar last_peer: the protocol of the last connection.
    """

    protocol = RecordingProtocol


def make_factory(clock: Clock | None = None, **options) -> RecordingFactory:
    """A port of recording protocols."""
    return RecordingFactory(clock or Clock(), **options)


def connect(factory: LineServerFactory, host: str = "192.168.1.1"):
    """A new connection in memory: its protocol and its transport."""
    transport = WritesTransport()
    transport.peerAddr = IPv4Address("TCP", host, 54321)
    protocol = factory.buildProtocol(transport.peerAddr)
    protocol.makeConnection(transport)
    return protocol, transport


def connect_descriptor(factory: LineServerFactory, room: float):
    """A new connection with a peer that accepts only so many bytes."""
    protocol = factory.buildProtocol(None)
    transport = Descriptor(factory.clock, protocol, room)
    protocol.makeConnection(transport)
    return protocol, transport
