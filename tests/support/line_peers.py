"""Transports and ports for the tests of line peers."""

from __future__ import annotations

from twisted.internet import abstract, main
from twisted.internet.error import ConnectionAborted
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from fakedev.net.lines.server import LinePeer, LinePeerFactory
from fakedev.wire.bare_workload import parse_bare_workload
from fakedev.wire.errors import ProtocolError
from fakedev.wire.fleet_verbs import WORKLOAD_GRAMMAR
from fakedev.wire.grammar import Request
from fakedev.wire.replies import Reply

#: A bare object, as the original's client sends it.
BARE = b'{\n\t"Name": "a",\n\t"Profile": [{"Load": 10}],\n\t"Devices": ["card0"]\n}'


class RecordingPeer(LinePeer):
    """A port that notes what it is asked.

    ``stop`` is refused, ``advance`` waits until the test answers, ``show crash`` fails, ``show big`` is answered
    with 100 KB, ``list`` with two lines, everything else with its verb.
    """

    def __init__(self):
        super().__init__()
        self.asked = []
        self.waiting = []
        self.bare = []
        self.left = 0
        self.working = False

    def requestReceived(self, request: Request) -> Reply | None:
        self.asked.append((request.verb, dict(request.arguments), request.id))
        match request.verb:
            case "stop":
                raise ProtocolError("unknown-name", f"workload: no {request.arguments['workload'][:20]!r}")
            case "advance":
                self.waiting.append(request)
                return None
            case "show" if request.arguments["workload"] == "crash":
                raise RuntimeError("a fault of ours")
            case "show" if request.arguments["workload"] == "big":
                return Reply(lines=["x" * 999] * 100)
            case "list":
                return Reply(lines=["one", "two"])
        return Reply(request.verb)

    def bareReceived(self, message: bytes) -> None:
        self.bare.append(parse_bare_workload(message))
        if len(self.bare) > 1:
            raise ProtocolError("bad-argument", "a connection carries one workload", fatal=True)

    def peerLeft(self) -> None:
        self.left += 1

    def is_working(self) -> bool:
        return self.working


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


def make_factory(clock: Clock | None = None, **options) -> LinePeerFactory:
    """A port of recording peers."""
    factory = LinePeerFactory(WORKLOAD_GRAMMAR, clock or Clock(), **options)
    factory.protocol = RecordingPeer
    return factory


def connect(factory: LinePeerFactory) -> tuple[RecordingPeer, WritesTransport]:
    """A new connection in memory."""
    peer, transport = factory.buildProtocol(None), WritesTransport()
    peer.makeConnection(transport)
    return peer, transport


def connect_descriptor(factory: LinePeerFactory, room: float) -> tuple[RecordingPeer, Descriptor]:
    """A new connection whose peer takes only so many bytes."""
    peer = factory.buildProtocol(None)
    transport = Descriptor(factory.clock, peer, room)
    peer.makeConnection(transport)
    return peer, transport
