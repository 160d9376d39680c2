"""HTTP in memory: a transport that behaves like a socket, and a reader of answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from fakedev.web.resource import Folder, Resource
from fakedev.web.response import Response
from fakedev.web.site import Site


class SocketLike(StringTransport):
    """A StringTransport that asks its producer for more when it is empty, as sockets do.

    :ivar reading: whether the peer reads. When it does not, what is written stays in ``unsent``.
    """

    def __init__(self, unix: bool = False) -> None:
        address = UNIXAddress(b"/run/x.sock") if unix else IPv4Address("TCP", "127.0.0.1", 9400)
        super().__init__(hostAddress=address, peerAddress=address)
        self.reading = True
        self.unsent: list[bytes] = []
        self.written: list[bytes] = []
        self.half_closed = False
        self.largest_unsent = 0

    def write(self, data: bytes) -> None:
        """Take ``data`` into the buffer."""
        self.unsent.append(data)
        self.largest_unsent = max(self.largest_unsent, sum(map(len, self.unsent)))

    def writeSequence(self, data: Any) -> None:
        """Take all of ``data`` into the buffer."""
        for part in data:
            self.write(part)

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Register, and ask at once, as twisted.internet.abstract does."""
        super().registerProducer(producer, streaming)
        if not streaming:
            producer.resumeProducing()

    def setTcpNoDelay(self, enabled: bool) -> None:
        """As sockets of TCP have it."""

    def loseWriteConnection(self) -> None:
        """Close our side for writing."""
        self.half_closed = True

    def flush(self) -> bool:
        """The peer reads what there is; whether there was anything."""
        if not self.unsent or not self.reading:
            return False
        self.written += self.unsent
        self.unsent = []
        if self.producer is not None and not self.streaming:
            self.producer.resumeProducing()
        return True

    def value(self) -> bytes:
        """All that the peer has read."""
        return b"".join(self.written)


@dataclass
class Answer:
    """A parsed response."""

    status: int
    headers: dict[str, str]
    body: bytes


class Peer:
    """A client of a site, in memory."""

    def __init__(self, site: Site, unix: bool = False, host: str = "") -> None:
        self.transport = SocketLike(unix)
        if host:
            self.transport.peerAddr = IPv4Address("TCP", host, 50_000)
        channel = site.buildProtocol(self.transport.peerAddr)
        assert channel is not None
        self.channel: Any = channel
        channel.makeConnection(self.transport)

    def send(self, *segments: bytes) -> bytes:
        """Send ``segments`` one after the other, read what is answered; gives all that was read so far."""
        for segment in segments:
            self.channel.dataReceived(segment)
            self.read()
        return self.transport.value()

    def read(self) -> None:
        """Read until nothing more comes."""
        while self.transport.flush():
            pass

    def ask(self, text: bytes, *, head: bool = False) -> Answer:
        """Send a request and give the last answer."""
        return answers(self.send(text), head)[-1]

    def end_input(self) -> None:
        """Say that nothing more will be sent."""
        self.channel.readConnectionLost()
        self.read()

    def leave(self, aborted: bool = False) -> None:
        """Go away."""
        self.transport.connected = False
        self.channel.connectionLost(Failure(ConnectionAborted() if aborted else ConnectionDone()))

    @property
    def closed(self) -> bool:
        """Whether the site has closed the connection, or its side of it."""
        return bool(self.transport.disconnecting or self.transport.half_closed)


def answers(data: bytes, heads: bool = False) -> list[Answer]:
    """The responses in ``data``.

    :param heads: they answer HEAD: none has a body.
    """
    found = []
    while data:
        head, end, data = data.partition(b"\r\n\r\n")
        assert end, head
        status, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = 0 if heads else int(headers.get("content-length", "0"))
        assert len(data) >= length
        found.append(Answer(int(status.split()[1]), headers, data[:length]))
        data = data[length:]
    return found


class Page(Resource):
    """A resource that answers with what it is given."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        super().__init__()
        self.make = make
        self.asked = 0

    def get(self, request: Any) -> Any:
        """The answer."""
        self.asked += 1
        return self.make(request)


class Echo(Resource):
    """A resource that takes POST and DELETE, and remembers them."""

    errors_as_json = True

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[tuple[str, bytes]] = []

    def get(self, request: Any) -> Response:
        """How many changes there were."""
        return Response(200, b"%d" % len(self.changes))

    def post(self, request: Any, body: bytes) -> Response:
        """Remember ``body``."""
        self.changes.append(("post", body))
        return Response(201, body)

    def delete(self, request: Any) -> Response:
        """Remember that."""
        self.changes.append(("delete", b""))
        return Response(204)


def make_site(clock: Clock | None = None, **children: Resource) -> Site:
    """A site of ``children``, with threads that must not be needed."""
    return Site(Folder(**children), clock or Clock(), defer_to_thread=no_threads)


def no_threads(work: Callable[[], list[bytes]]) -> Any:
    """In place of a thread pool where none is expected."""
    raise AssertionError("a thread was asked for")


class Threads:
    """A thread pool that works when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], list[bytes]], Deferred[list[bytes]]]] = []

    def __call__(self, work: Callable[[], list[bytes]]) -> Deferred[list[bytes]]:
        """Accept ``work``."""
        done: Deferred[list[bytes]] = Deferred()
        self.waiting.append((work, done))
        return done

    def run(self) -> None:
        """Do all work."""
        for work, done in self.waiting:
            done.callback(work())
        self.waiting = []


class Turns(Clock):
    """A clock that does one reactor turn at a time; work takes time only where a test says so."""

    def work(self, seconds: float) -> None:
        """Let time pass within a turn."""
        self.rightNow += seconds

    def turn(self) -> float:
        """Call what is due now, but not what that adds; return the seconds that it took."""
        began = self.rightNow
        for call in [call for call in self.calls if call.getTime() <= began]:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)
        return float(self.rightNow - began)


def failed(answer: Answer, status: int, code: str, where: str = "") -> str:
    """The message of an error that must be just this one."""
    assert answer.headers["content-type"] == "application/json"
    content = json.loads(answer.body)
    assert list(content) == ["error"]
    error = content["error"]
    assert list(error) == ["code", "message", "where"]
    assert (answer.status, error["code"], error["where"]) == (status, code, where), error
    message: str = error["message"]
    return message
