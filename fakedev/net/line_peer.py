"""One peer of a line port, in whichever way it speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.address import UNIXAddress
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from fakedev.net.line_input import LineInput
from fakedev.net.message_timer import MessageTimer
from fakedev.net.outbox import Outbox
from fakedev.sim.errors import Refused
from fakedev.wire.braces import MOST_BYTES
from fakedev.wire.errors import ProtocolError
from fakedev.wire.json_lines import parse_json_line
from fakedev.wire.opening import Way
from fakedev.wire.replies import News, Reply, encode_error, encode_news, encode_reply, printable
from fakedev.wire.verbs import Request
from fakedev.wire.words import parse_words

if TYPE_CHECKING:
    from fakedev.net.line_factory import LinePeerFactory

_MOST_OWED = 256


@implementer(IHalfCloseableProtocol)
class LinePeer(LineInput):
    """Answers a peer in its way, and keeps it from harming others.

    A port subclasses it and says what its requests do:

    * :meth:`requestReceived`: a request in words or JSON lines. Return its Reply, raise ProtocolError or
      Refused, or return None and call :meth:`reply` later. ``help`` and ``quit`` are answered here.
    * :meth:`bareReceived`: a bare JSON object. Call :meth:`answer_bare`, now or later, or raise.
    * :meth:`peerLeft`: called once, when the peer is not served any more, for whatever reason.
    * :meth:`is_working`: whether something runs or waits for the peer, so that its end of input means that it left.
    * :meth:`bare_failed`: what a bare peer is answered for an error.

    It may call :meth:`reply`, :meth:`tell`, :meth:`answer_bare` and :meth:`close` at any time, also when the peer
    is gone.
    """

    log = Logger()
    factory: LinePeerFactory

    def __init__(self) -> None:
        super().__init__()
        self._said: list[bytes] = []  # answers of this slice
        self._owed: dict[int, Request] = {}  # requests that reply() must answer
        self._blocked_by: Request | None = None  # the one among them that holds up those after it
        self._slicing = False
        self._reading = True
        self._ended = False  # the peer sends nothing more
        self._closing = False  # nothing more is heard
        self._linger = False
        self._left = False

    # What a port says

    def requestReceived(self, request: Request) -> Reply | None:
        """Do what the request asks; its answer, or None when reply() will give it."""
        raise ProtocolError("unknown-verb", f"this port does not serve {request.verb}")

    def bareReceived(self, message: bytes) -> None:
        """Do what the bare object asks; answer_bare() gives the answer."""
        raise ProtocolError("bad-argument", "this port does not serve bare JSON")

    def peerLeft(self) -> None:
        """Free what was the peer's."""

    def is_working(self) -> bool:
        """Whether something runs or waits for the peer, so that its end of input means that it left."""
        return False

    def bare_failed(self, error: ProtocolError) -> bytes:
        """What a bare peer is answered for an error; the connection is closed then."""
        return b"1"

    # What a port may ask for

    def reply(self, request: Request, answer: Reply | ProtocolError) -> None:
        """Answer a request for which requestReceived() returned None."""
        if self._owed.pop(id(request), None) is None:
            return
        self._answer(request, answer)
        if self._blocked_by is request:
            self._blocked_by = None
        if not self._slicing:
            self._wake()

    def tell(self, news: News) -> None:
        """Tell the peer something it did not ask just now; a bare peer is not told."""
        if self.way in (Way.WORDS, Way.JSON_LINES):
            self._say(encode_news(news, self.way))

    def answer_bare(self, answer: bytes, last: bool = True) -> None:
        """Answer a bare object in one write.

        :param last: close the connection after it.
        """
        self._say(answer)
        if last:
            self.close()

    def close(self) -> None:
        """Send what is said, and close; what the peer sends from now on is dropped."""
        self._end(linger=False)

    def describe(self) -> str:
        """Who the peer is, for the log."""
        peer = self.transport.getPeer()
        if isinstance(peer, UNIXAddress):
            return "a peer on a UNIX socket"
        return f"{peer.host}:{peer.port}" if hasattr(peer, "host") else str(peer)

    # What Twisted calls

    def connectionMade(self) -> None:
        """Begin to serve the peer."""
        factory = self.factory
        self._outbox = Outbox(self.transport, factory.clock, self._wake, self._cut)
        self._timer = MessageTimer(
            factory.clock, factory.message_seconds, factory.idle_answer_seconds, self._too_slow, self._too_quiet
        )
        factory.peers.add(self)

    def dataReceived(self, data: bytes) -> None:
        """Take bytes; they are looked at when it is the peer's turn, at once as a rule."""
        if not self._closing:
            self.hold(data)
            self._wake()

    def readConnectionLost(self) -> None:
        """The peer has closed its sending side, or both."""
        self._ended = True
        if self._closing:
            self.transport.loseConnection()
        else:
            self._wake()

    def writeConnectionLost(self) -> None:
        """Our sending side is closed; nothing to do."""

    def connectionLost(self, reason: Failure) -> None:
        """The connection is gone. What came before the end of input is still done."""
        self.factory.peers.discard(self)
        self._outbox.lost()
        self._timer.stop()
        if self._ended and not self._closing:
            self._wake()
        else:
            self._closing = True
            self._leave()

    # Turns

    def take_turn(self) -> bool:
        """Do a slice of what has come; whether there is more to do now."""
        more = self._slice() if self._may_go_on() else False
        if self._ended and not more and ((self.used_up and not self._owed) or self.is_working()):
            self._end(linger=False)
        if self._closing:
            self._conclude()
            return False
        self._settle(more)
        return more

    def _wake(self) -> None:
        self.factory.turns.ask(self)

    def _may_go_on(self) -> bool:
        return not (self._closing or self._blocked_by or self._outbox.full)

    def _slice(self) -> bool:
        self._slicing = True
        try:
            self.run_slice(self.factory.clock.seconds, self._ended)
        except Exception:
            self._internal()
        self._slicing = False
        said, self._said = b"".join(self._said), []
        self._outbox.write(said)
        return self.paused and self._may_go_on()

    def _settle(self, more: bool) -> None:
        """After a slice: read on or not, and mind the time."""
        if self.begun and not self._ended and not more and self._may_go_on():
            self._timer.incomplete(self.messages)
        else:
            self._timer.stop()
        # While a request is waited for the end of input should still be noticed, so some more is read.
        room = self.held_bytes <= MOST_BYTES if self._blocked_by else not more
        self._read(room and not self._outbox.full)

    def _read(self, wanted: bool) -> None:
        if wanted != self._reading and not self._ended:
            self._reading = wanted
            if wanted:
                self.transport.resumeProducing()
            else:
                self.transport.pauseProducing()

    # Messages and answers

    def message_received(self, message: bytes) -> None:
        """Answer one message of any way; a blank line is none."""
        request = None
        try:
            if self.way is Way.BARE:
                self.bareReceived(message)
            elif stripped := message.strip():
                parse = parse_words if self.way is Way.WORDS else parse_json_line
                request = parse(stripped, self.factory.grammar)
                self._serve(request)
        except (ProtocolError, Refused) as error:
            self._refuse(request, error)
        except Exception:
            self._internal(request)

    def framing_failed(self, error: ProtocolError) -> None:
        """Answer in the peer's way, and close."""
        self._fail(error)

    def _serve(self, request: Request) -> None:
        if request.verb == "quit":
            self._answer(request, Reply())
            self.close()
            return
        if request.verb == "help":
            self._answer(request, Reply(lines=self.factory.grammar.help_lines(str(request.arguments.get("verb", "")))))
            return
        if len(self._owed) >= _MOST_OWED:
            raise ProtocolError("full", f"{_MOST_OWED} requests of this connection wait for their answers")
        self._owed[id(request)] = request
        answer = self.requestReceived(request)
        if answer is not None:
            self._owed.pop(id(request), None)
            self._answer(request, answer)
        elif id(request) in self._owed and request.id is None:
            self._blocked_by = request
            self.paused = True

    def _refuse(self, request: Request | None, error: ProtocolError | Refused) -> None:
        if isinstance(error, Refused):
            error = ProtocolError(error.code, error.text)
        if request is not None:
            self._owed.pop(id(request), None)
            error.request_id = request.id
        self._fail(error)

    def _internal(self, request: Request | None = None) -> None:
        self.log.failure("serving {peer}", peer=self.describe())
        self._refuse(request, ProtocolError("internal", "a fault of fakedev; its log says more", fatal=True))

    def _answer(self, request: Request, answer: Reply | ProtocolError) -> None:
        if isinstance(answer, ProtocolError):
            answer.request_id = request.id
            self._fail(answer)
        else:
            self._say(encode_reply(answer, self.likely_way(), request.id))

    def _fail(self, error: ProtocolError) -> None:
        """Answer an error in the peer's way, and close where the way says so."""
        way = self.likely_way()
        if way is Way.BARE:
            self._fail_bare(error)
            return
        self.log.debug("{peer}: {code} {text}", peer=self.describe(), code=error.code, text=printable(error.text))
        self._say(encode_error(error, way, error.request_id))
        if error.fatal:
            self._end(linger=True)

    def _fail_bare(self, error: ProtocolError) -> None:
        if not self._closing:
            self.log.warn("{peer}: refused: {text}", peer=self.describe(), text=printable(error.text))
        self._say(self.bare_failed(error))
        self._end(linger=True)

    def _too_slow(self) -> None:
        text = f"a message must be complete within {self.factory.message_seconds:g} s"
        self._fail(ProtocolError("too-long", text, fatal=True))

    def _too_quiet(self) -> None:
        self._fail_bare(ProtocolError("too-long", "the message is not complete, and nothing more comes", fatal=True))

    def _say(self, data: bytes) -> None:
        """Send bytes: those of one slice together."""
        if self._closing:
            return
        if self._slicing:
            self._said.append(data)
            self.slice_answer_bytes += len(data)
        else:
            self._outbox.write(data)

    # The end

    def _end(self, linger: bool) -> None:
        """Hear nothing more; when the answers are sent, close.

        :param linger: let the peer see its answer although it may still be sending.
        """
        if self._closing:
            return
        self._closing = True
        self._linger = linger and not self._ended
        self.drop_input()
        self._timer.stop()
        if not self._slicing:
            self._conclude()

    def _conclude(self) -> None:
        if self._left:
            return
        self._leave()
        self._outbox.finish(self._linger)
        if self._linger:
            self._read(True)

    def _leave(self) -> None:
        if self._left:
            return
        self._left = True
        self._owed.clear()
        try:
            self.peerLeft()
        except Exception:
            self.log.failure("freeing what was {peer}'s", peer=self.describe())

    def _cut(self, reason: str) -> None:
        self.log.warn("{peer} is cut: {reason}", peer=self.describe(), reason=reason)
        self.transport.abortConnection()
