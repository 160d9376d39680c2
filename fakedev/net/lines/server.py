"""One peer of a line port, in whichever way it speaks.

All peers of a line port.
"""

from __future__ import annotations

from typing import Final

from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger

from fakedev.net.lines.connection import LineConnection
from fakedev.net.lines.fair_share import FairShare
from fakedev.spec.errors import FieldError, Refused
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect
from fakedev.wire.grammar import Grammar, Request
from fakedev.wire.json_lines import parse_json_line
from fakedev.wire.replies import News, Reply, encode_error, encode_news, encode_reply, excerpt, printable
from fakedev.wire.words import parse_words

_PARSERS: Final = {Dialect.WORDS: parse_words, Dialect.JSON_LINES: parse_json_line}


class LinePeer(LineConnection):
    """Answers a peer in its way, and keeps it from harming others.

    A port subclasses it and says what its requests do:

    * :meth:`requestReceived`: a request in words or JSON lines. Return its Reply, raise ProtocolError or
      Refused, or return None and call :meth:`reply` later. ``help`` and ``quit`` are answered here.
    * :meth:`bareReceived`: a bare JSON object. Call :meth:`answer_bare`, now or later, or raise.
    * :meth:`peerQuits`: called when the peer says `quit`, before its answer.
    * :meth:`peerLeft`: called once, when the peer is not served any more, for whatever reason.
    * :meth:`is_working`: whether something runs or waits for the peer, so that its end of input means that it left.
    * :meth:`bare_failed`: what a bare peer is answered for an error.

    It may call :meth:`reply`, :meth:`tell`, :meth:`answer_bare` and :meth:`close` at any time, also when the peer
    is gone.
    """

    log = Logger()

    # What a port says

    def requestReceived(self, request: Request) -> Reply | None:
        """Do what the request asks; its answer, or None when reply() will give it."""
        raise ProtocolError("unknown-verb", f"this port does not serve {request.verb}")

    def bareReceived(self, message: bytes) -> None:
        """Do what the bare object asks; answer_bare() gives the answer."""
        raise ProtocolError("bad-argument", "this port does not serve bare JSON")

    def peerQuits(self) -> None:
        """Take back what the peer holds and would lose by leaving without a word."""

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
        blocking = self.pending_requests.blocking
        if self.pending_requests.settle(request):
            self._answer(request, answer)
            if blocking or self.ended:
                self.go_on()

    def tell(self, news: News) -> None:
        """Tell the peer something it did not ask just now; a bare peer is not told."""
        if self.way in (Dialect.WORDS, Dialect.JSON_LINES):
            self.say(encode_news(news, self.way))

    def answer_bare(self, answer: bytes, last: bool = True) -> None:
        """Answer a bare object in one write.

        :param last: close the connection after it.
        """
        self.say(answer)
        if last:
            self.close()

    def close(self) -> None:
        """Send what is said, and close; what the peer sends from now on is dropped."""
        self.end(linger=False)

    # Messages and answers

    def message_received(self, message: bytes) -> None:
        """Answer one message of any way; a blank line is none."""
        request = None
        try:
            if self.factory.verbose:
                self.log.info(
                    "from {peer}: {message}", peer=self.describe(), message=excerpt(message), log_unlimited=True
                )
            parse = _PARSERS.get(self.way)
            if parse is None:
                self.bareReceived(message)
            elif stripped := message.strip():
                request = parse(stripped, self.factory.grammar)
                self._serve(request)
        except (ProtocolError, Refused) as error:
            self._refuse(request, error)
        except Exception:
            self._internal(request)

    def framing_failed(self, error: ProtocolError) -> None:
        """Answer in the peer's way, and close."""
        self._fail(error)

    def slice_failed(self) -> None:
        """Tell the peer, and close."""
        self._internal()

    def message_late(self) -> None:
        """Answer in the peer's way, and close."""
        text = f"a message must be complete within {self.factory.message_seconds:g} s"
        self._fail(ProtocolError("too-long", text, fatal=True))

    def peer_quiet(self) -> None:
        """Answer as a bare peer is, and close."""
        self._fail_bare(ProtocolError("too-long", "the message is not complete, and nothing more comes", fatal=True))

    def _serve(self, request: Request) -> None:
        if request.verb == "quit":
            self.peerQuits()
            self._answer(request, Reply())
            self.close()
            return
        if request.verb == "help":
            self._answer(request, Reply(lines=self.factory.grammar.help_lines(str(request.arguments.get("verb", "")))))
            return
        self.pending_requests.add(request)
        answer = self.requestReceived(request)
        if answer is not None:
            self.pending_requests.settle(request)
            self._answer(request, answer)
        elif self.pending_requests.postpone(request):
            self.paused = True

    def _refuse(self, request: Request | None, error: ProtocolError | Refused) -> None:
        if isinstance(error, Refused):
            text = error.text
            if isinstance(error, FieldError) and request is not None and self.way is Dialect.WORDS:
                text = f"{self.factory.grammar.find(request.verb).name_in_words(error.field)}: {error.reason}"
            error = ProtocolError(error.code, text)
        if request is not None:
            self.pending_requests.settle(request)
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
            self.say(encode_reply(answer, self.way or self.likely_way(), request.id))

    def _fail(self, error: ProtocolError) -> None:
        """Answer an error in the peer's way, and close where the way says so."""
        way = self.likely_way()
        if way is Dialect.BARE:
            self._fail_bare(error)
            return
        self.log.debug("{peer}: {code} {text}", peer=self.describe(), code=error.code, text=printable(error.text))
        self.say(encode_error(error, way, error.request_id))
        if error.fatal:
            self.end(linger=True)

    def _fail_bare(self, error: ProtocolError) -> None:
        if not self.closing:
            self.log.warn("{peer}: refused: {text}", peer=self.describe(), text=printable(error.text))
        self.say(self.bare_failed(error))
        self.end(linger=True)

MAX_CONNECTIONS = 10_000
MESSAGE_SECONDS = 10.0


class LinePeerFactory(Factory):
    """Serves a port: makes its peers, and knows those that are connected.

    A port sets ``protocol`` to its own LinePeer, and gives itself what its peers need.

    :param max_connections: a connection more is told ``error busy`` and closed.
    :param message_seconds: for a message that was begun to become complete.
    :param idle_answer_seconds: a peer whose first message was begun and that sends nothing for so long is answered
        as a bare one and closed; None for no such rule.
    :param verbose: log every message, of both sides.
    :param fair_share: shares the reactor; several ports may have one.
    """

    noisy = False
    protocol: type[LinePeer] = LinePeer

    def __init__(
        self,
        grammar: Grammar,
        clock: IReactorTime,
        *,
        max_connections: int = MAX_CONNECTIONS,
        message_seconds: float = MESSAGE_SECONDS,
        idle_answer_seconds: float | None = None,
        verbose: bool = False,
        fair_share: FairShare | None = None,
    ) -> None:
        self.grammar = grammar
        self.clock = clock
        self.max_connections = max_connections
        self.message_seconds = message_seconds
        self.idle_answer_seconds = idle_answer_seconds
        self.verbose = verbose
        self.fair_share = fair_share or FairShare(clock)
        self.peers: set[LinePeer] = set()
        #: Connections that were taken, and those that were told ``error busy``.
        self.accepted = 0
        self.refused = 0

    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        """Twisted asks for the protocol of a new connection."""
        if len(self.peers) >= self.max_connections:
            self.refused += 1
            return _Refusal(self.max_connections)
        self.accepted += 1
        peer = self.protocol()
        peer.factory = self
        return peer


class _Refusal(Protocol):
    """Tells a peer that there are too many, before it says anything, and closes."""

    def __init__(self, most: int) -> None:
        self._most = most

    def connectionMade(self) -> None:
        error = ProtocolError("busy", f"{self._most} connections are open, and no more are taken", fatal=True)
        self.transport.write(encode_error(error, Dialect.WORDS))
        self.transport.loseConnection()
