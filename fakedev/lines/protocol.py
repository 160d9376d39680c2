"""The base class of the protocols of line ports: input in slices, requests, answers in order, and the end.

Slices of input are bounded, and the answers of a slice are sent together, so that no peer delays another one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from fakedev.base.errors import FieldError, Refused, printable
from fakedev.base.steps import Steps
from fakedev.lines.dialects import DialectMixin
from fakedev.lines.framing import BARE, MAX_BYTES, WORDS, refuse_http
from fakedev.lines.grammar import SHARED_VERBS, Grammar, ProtocolError, Request
from fakedev.lines.json_lines import Notification, Reply, encode_error, encode_notification, encode_reply, excerpt
from fakedev.lines.outbox import CLOSING, ENDED, FLUSHING, LINGERING, MAX_HELD_BYTES, OPEN, OVER, BoundedSender
from fakedev.lines.peers import host_of, origin_of, pid_of
from fakedev.lines.port_limits import PortLimits
from fakedev.lines.tokens import MAX_BYTES_BEFORE_TOKEN, TokenGate, token_missing
from fakedev.runtime.turns import ITurnObserver, ITurnTaker
from fakedev.runtime.unix_sockets import has_hung_up

#: LineReceiver copies its whole buffer for each line, so it gets small pieces.
PIECE_BYTES: Final = 4096
#: Requests of one peer that may wait for their answers.
MAX_PENDING_REQUESTS: Final = 256
#: Limits of one slice of input: messages, seconds, bytes of answers.
_SLICE_MESSAGES: Final = 256
_SLICE_SECONDS: Final = 0.005
_SLICE_ANSWER_BYTES: Final = 65536
#: Larger messages are sent at once in the turn of another peer: a turn may have hundreds of messages.
_LARGE_BYTES: Final = 4096
_BRACE: Final = ord("{")  # no request line of HTTP begins with it
_SHARED_VERBS: Final = frozenset(verb.name for verb in SHARED_VERBS)
#: The steps to an answer; None: :meth:`PortProtocol.reply` gives it, or :meth:`PortProtocol.answer_bare`.
Answering = Steps[Reply | None]


@implementer(IHalfCloseableProtocol, ITurnTaker, ITurnObserver)
class PortProtocol(DialectMixin, BoundedSender):
    """One connection to a line port.

    A subclass has a method ``do_VERB`` for each verb of its port. It gets the request and returns its answer, or None
    when :meth:`reply` will give it, during this call or later; it may raise ProtocolError or Refused. A generator
    divides long work: each step takes some milliseconds at most, others have their turns between two of them, and the
    last one changes what is to change; when the peer leaves before it, nothing is changed. :meth:`reply`,
    :meth:`notify`, :meth:`answer_bare` and :meth:`close` may be called at any time, also when the connection is gone.

    A request with an id may be overtaken; one without must be answered before the next is served, unless the next
    one cannot wait for it.

    LineReceiver's ``paused`` stops a slice at any time: the rest of the input waits for the next one.

    :cvar grammar: the verbs of the port.
    :ivar is_admitted: whether the peer has given its token, or needs none.
    :ivar pending: the requests that have no answer yet, by ``id()``.
    :ivar blocking: the request whose answer the following ones wait for.
    :ivar cannot_wait: whether a request is served although another one blocks; None: none is.
    """

    grammar: ClassVar[Grammar]
    _verbs: ClassVar[Mapping[str, Callable[[Any, Request], Reply | Answering | None]]]
    blocking: Request | None = None
    cannot_wait: Callable[[Request], bool] | None = None
    # Input that was received and not served, and how much of it is the beginning of one incomplete line.
    _input = b""
    _line_bytes = 0
    _is_first = True  # no message is complete yet
    _is_timed = False  # the time of an incomplete message is counted
    _is_reading = True
    # The message that is being served in several slices: its request, None of a bare object, and its other steps.
    _divided: tuple[Request | None, Answering] | None = None
    # The current slice.
    _in_slice = False
    _messages_left = 0
    _until = 0.0
    _unsent_bytes = 0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        names = [name for name in dir(cls) if name.startswith("do_")]
        cls._verbs = {name.removeprefix("do_").replace("_", "-"): getattr(cls, name) for name in names}

    def __init__(self, factory: PortLimits, gate: TokenGate) -> None:
        super().__init__(factory)
        self._gate = gate
        self.is_admitted = gate.is_open
        if not self.is_admitted:
            self.MAX_LENGTH = MAX_BYTES_BEFORE_TOKEN
        self.pending: dict[int, Request] = {}
        self._unsent: list[bytes] = []  # answers of this turn

    # What a port does

    def request_received(self, request: Request) -> Reply | Answering | None:
        """Serve a request in words or JSON lines, by the method ``do_VERB``."""
        return self._verbs[request.verb](self, request)

    @abstractmethod
    def object_received(self, message: bytes) -> Answering | None:
        """Serve a bare JSON object, perhaps in steps; :meth:`answer_bare` sends the answer, during this call or later.

        :raises ProtocolError: or Refused: the peer gets :meth:`encode_bare_error`.
        """

    @abstractmethod
    def encode_bare_error(self, error: ProtocolError) -> bytes:
        """The answer to a bare peer for an error; the connection is closed after it."""

    @abstractmethod
    def is_working(self) -> bool:
        """Whether something runs or waits for the peer, so that the end of its input means that it left."""

    @abstractmethod
    def peer_left(self) -> None:
        """The session is over, for whatever reason: free what belongs to the peer. Called once."""

    def do_help(self, request: Request) -> Reply:
        return Reply(lines=self.grammar.help_lines(str(request.arguments.get("verb", ""))))

    def do_auth(self, request: Request) -> Reply:
        """Admit the peer, if its token is right."""
        text = self.check_token(str(request.arguments["token"]))
        if not self.is_admitted:
            self.is_admitted = True
            self.MAX_LENGTH = MAX_BYTES
            self.factory.without_token.stop(self)
        return Reply(text)

    def check_token(self, token: str) -> str:
        """See :meth:`TokenGate.check`."""
        return self._gate.check(token, self.origin)

    def do_quit(self, request: Request) -> None:
        self.reply(request, Reply())
        self.close()

    # Answers

    def reply(self, request: Request, answer: Reply | ProtocolError) -> None:
        """Answer a request, once."""
        was_blocked = self.blocking
        if self.pending.pop(id(request), None) is None:
            return
        if was_blocked is request:
            self.blocking = None
        if isinstance(answer, ProtocolError):
            answer.request_id = request.id
            self.send_error(answer)
        else:
            self.send(encode_reply(answer, self.dialect or WORDS, request.id))
        if was_blocked or self.state is ENDED:
            self.resume()

    def notify(self, news: Notification) -> None:
        """Send an event that answers no request; a bare peer does not get it."""
        if self.dialect is not None and self.dialect is not BARE:
            self.send(encode_notification(news, self.dialect))

    def answer_bare(self, answer: bytes, last: bool = True) -> None:
        """Answer a bare object in one write.

        :param last: close the connection after it.
        """
        self.send(answer)
        if last:
            self.close()

    def send_error(
        self, error: ProtocolError, *, linger: bool = True, reason: str = "", is_bare: bool = False
    ) -> None:  # fmt: skip
        """Send an error in the peer's dialect, and close where the dialect or the error requires it.

        :param linger: let the peer read the error although it may still be sending.
        :param reason: why the connection closes, for the statistics; empty: the error's code.
        :param is_bare: answer like a bare peer, whatever the dialect.
        """
        if self.state >= CLOSING:
            return
        peer, text, dialect = self.describe(), printable(error.text), self.answer_dialect
        if is_bare or dialect is BARE:
            is_bare = True
            self.log.warn("{peer}: refused: {text}", peer=peer, text=text)
            self.send(self.encode_bare_error(error))
        else:
            log = self.log.warn if error.code == "denied" else self.log.debug
            log("{peer}: {code} {text}", peer=peer, code=error.code, text=text)
            self.send(encode_error(error, dialect, error.request_id))
        if is_bare or error.fatal:
            self.close(linger=linger, reason=reason or error.code)

    def dismiss(self, error: ProtocolError, reason: str = "") -> None:
        self.send_error(error, linger=False, reason=reason)

    def send(self, data: bytes) -> None:
        """Send bytes: all of one slice together, and so small ones in the turn of another peer."""
        if self.state >= CLOSING or not data:
            return
        if self.factory.verbose:
            self.log.info("to {peer}: {message}", peer=self.describe(), message=excerpt(data), log_unlimited=True)
        self._unsent.append(data)
        if self._in_slice:
            self._unsent_bytes += len(data)
            if self._unsent_bytes >= _SLICE_ANSWER_BYTES:
                self._messages_left = 0
        elif len(data) > _LARGE_BYTES:
            self.turn_ended()
        elif len(self._unsent) == 1:
            self.factory.fair_share.call_after_turn(self)

    def turn_ended(self) -> None:
        """Send what was written in the turn of another peer."""
        if self._unsent:
            self._send_unsent()
            self._note_activity()

    def _send_unsent(self) -> None:
        unsent, self._unsent = self._unsent, []
        self._transmit(unsent[0] if len(unsent) == 1 else b"".join(unsent))

    def close(self, *, linger: bool = False, reason: str = "") -> None:
        """Drop all input from now on, and close when everything written is sent.

        :param linger: let the peer read its answer although it may still be sending.
        :param reason: for the statistics; empty when it is the peer's wish.
        """
        if self.state >= CLOSING:
            return
        self._lingers = linger and self.state is OPEN
        self.state = CLOSING
        if reason:
            self.factory.closed[reason] += 1
        self.factory.forget(self)
        self.paused = True
        self._input = b""
        self.clearLineBuffer()
        if not self._in_slice:
            self._conclude()

    # Who the peer is

    def host(self) -> str:
        """The name of the peer's host; all peers on UNIX sockets are one."""
        return host_of(self._transport) or "UNIX sockets"

    def pid(self) -> int | None:
        """The process of a peer on a UNIX socket; None if there is none, or it cannot be determined."""
        return pid_of(self._transport)

    def log_notes(self, notes: Iterable[str]) -> None:
        for note in notes:
            self.log.info("{peer}: {note}", peer=self.describe(), note=printable(note))

    def has_input(self) -> bool:
        """Whether bytes that have arrived wait to be served."""
        return len(self._input) > self._line_bytes

    def _note_activity(self) -> None:
        """Something was received from the peer, or sent to it: it is the last silent one if it has no work."""
        if self.state < CLOSING and self.connected and self.is_admitted:
            self.factory.no_silence(self)
            # Neither work nor a request, input or answer.
            if not (self.pending or self.paused or self._is_full or self.has_input() or self.is_working()):
                self.factory.silent[self] = None

    # For the reactor

    def connectionMade(self) -> None:
        super().connectionMade()
        self.origin = origin_of(self._transport)
        self.factory.joined(self)
        if not self.is_admitted:
            self.factory.without_token.start(self)
        self._note_activity()
        if self.factory.first_byte is not None:
            self._limit_time(is_new=True)

    def dataReceived(self, data: bytes) -> None:
        """Keep bytes until the connection has its turn, which is usually at once."""
        if self._in_slice:  # LineReceiver passes back what it has not used
            super().dataReceived(data)
        elif self.state is OPEN:
            self._input += data
            if len(self._input) > MAX_BYTES:  # it has waited long for its turn
                self._read(False)
            self._request_turn()

    def readConnectionLost(self) -> None:
        """The peer has closed its sending side, or both."""
        if self.state is OPEN:
            self.state = ENDED
            self._request_turn()
        elif self.state is LINGERING:
            self._transport.loseConnection()

    def writeConnectionLost(self) -> None:
        """Our sending side is closed; nothing to do."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The connection is gone. Input that arrived before its regular end is still served."""
        self._output_lost()
        self.factory.left(self)
        if self.state is ENDED:
            self._request_turn()
            return
        if self.state < FLUSHING:
            self._leave()
        self.state = OVER

    # Turns

    def resume(self) -> None:
        """Serve on: what blocked the next messages, or the close after the end of input, is done."""
        if not self._in_slice:
            self._request_turn()

    @property
    def waits_for_ticks(self) -> bool:
        """See ITurnTaker."""
        return bool(self.factory.waits_for_ticks)

    def take_turn(self) -> bool:
        """Serve a slice of the input; return whether there is more to do now."""
        factory = self.factory
        self._messages_left = _SLICE_MESSAGES
        more = self._can_serve() and self._serve_slice()
        if self.state is ENDED and not more and self._is_finished():
            self.close()
        if self.state < CLOSING:
            self._settle(more, is_new=self._messages_left < _SLICE_MESSAGES)
        else:
            self._conclude()
            more = False
        if factory.turn_observer is not None:
            factory.fair_share.call_after_turn(factory.turn_observer)
        return more

    def _request_turn(self) -> None:
        is_long = len(self._input) > PIECE_BYTES or self._divided is not None
        self.factory.fair_share.request_turn(self, is_long=is_long)

    def _can_serve(self) -> bool:
        if self.state >= CLOSING or self._is_full or self._backlog_bytes > MAX_HELD_BYTES:
            return False
        if self.blocking is None or self._divided is not None:
            return True
        return self.cannot_wait is not None and self._is_next_urgent(self.cannot_wait)

    def _is_next_urgent(self, cannot_wait: Callable[[Request], bool]) -> bool:
        """Whether the next line is served although a request blocks."""
        line, newline, _ = self._input[:PIECE_BYTES].lstrip().partition(b"\n")
        try:
            return bool(newline) and self.dialect is not BARE and cannot_wait(self._parse(line, self.grammar))
        except ProtocolError:
            return False

    def _is_finished(self) -> bool:
        """Whether, after the end of input, all is answered, or the peer has left what works for it."""
        if self.blocking and has_hung_up(self.transport):
            return True
        return not (self.paused or self.has_input() or self.pending) or self.is_working()

    def _serve_slice(self) -> bool:
        """Serve messages until the input is used up, or ``paused``; return whether there is more to do now."""
        seconds = self.factory.clock.seconds
        self._in_slice, self.paused = True, False
        self._until = seconds() + _SLICE_SECONDS
        data, self._input = self._input, b""
        start, end = 0, self._line_bytes + PIECE_BYTES
        try:
            if self._divided is not None:
                self._do_steps()
            while start < len(data) and not self.paused:
                super().dataReceived(data[start:end])
                start, end = end, end + PIECE_BYTES
                if seconds() >= self._until:
                    break
            if self.state < CLOSING:
                begun = self.clearLineBuffer()  # searched for the end of a line, unless a message has ended the slice
                self._line_bytes = 0 if self.paused else len(begun)
                self._input = begun + data[start:]
                self.paused = self.paused or start < len(data)
                if self.state is ENDED and not self.paused:
                    self._serve_last_line()
        except Exception:
            self._report_failure()
        self._in_slice = False
        self._unsent_bytes = 0
        if self._unsent:
            self._send_unsent()  # the caller notes the activity
        return self.paused and self._can_serve()

    def _serve_last_line(self) -> None:
        """Serve what the end of input completes: a last line without LF."""
        line, self._input, self._line_bytes = self._input, b"", 0
        if line:
            self.lineReceived(line)
        elif self._is_inside_message():
            self.send_error(ProtocolError("bad-argument", "the input ended inside an object", fatal=True))

    def _settle(self, more: bool, is_new: bool) -> None:
        """After a slice: read or stop reading, and limit the time of an incomplete message.

        :param is_new: whether messages were complete in the slice.
        """
        self._is_first = self._is_first and not is_new
        if not more and self.state is OPEN and self._is_inside_message() and self._can_serve():
            self._limit_time(is_new)
        elif self._is_timed:
            self._is_timed = False
            self.factory.no_message(self)
        # While a request blocks, some more is read, so that the end of input is still noticed.
        has_room = len(self._input) <= MAX_BYTES if self.blocking else not more
        self._read(has_room and not self._is_full and self._backlog_bytes <= MAX_HELD_BYTES)
        self._note_activity()

    def _is_inside_message(self) -> bool:
        """Whether the input ends inside a message, when all of it has been served."""
        reader = self._reader
        return bool(self._input) and not self._input.isspace() if reader is None else reader.begun

    def _read(self, wanted: bool) -> None:
        if wanted is not self._is_reading and self.state is not ENDED:
            self._is_reading = wanted
            if wanted:
                self._transport.resumeProducing()
            else:
                self._transport.pauseProducing()

    # Messages

    def lineReceived(self, line: bytes) -> None:
        """Serve a line of words or JSON, or a whole object of bare JSON; a blank line is no message."""
        self._messages_left -= 1
        factory, request = self.factory, None
        if factory.verbose:
            self._log_message(line)
        try:
            if self.dialect is BARE:
                if not self.is_admitted:
                    raise token_missing(is_bare=True)
                if (steps := self.object_received(line)) is not None:
                    self._divided = None, steps
            elif stripped := line.strip():
                if stripped[0] != _BRACE:
                    refuse_http(stripped, self.grammar)
                parse = self._parse if self.is_admitted else self._parse_before_token
                request = parse(stripped, self.grammar)
                self._serve(request)
        except (ProtocolError, Refused) as error:
            self._refuse(request, error)
        except Exception:
            self._report_failure(request)
        if self._divided is not None:
            self._do_steps()
        if self._messages_left <= 0 or factory.clock.seconds() >= self._until:
            self.paused = True

    def lineLengthExceeded(self, line: bytes) -> None:
        """Refuse a line that is too long; where the next begins is not known."""
        self.send_error(ProtocolError("too-long", f"a line is at most {self.MAX_LENGTH} bytes", fatal=True))

    def _serve(self, request: Request) -> None:
        pending = self.pending
        if len(pending) >= MAX_PENDING_REQUESTS and request.verb not in _SHARED_VERBS:
            text = f"{MAX_PENDING_REQUESTS} requests of this connection wait for their answers"
            raise ProtocolError("full", text)
        pending[id(request)] = request
        answer = self.request_received(request)
        if answer is None or isinstance(answer, Reply):
            self._served(request, answer)
        else:
            self._divided = request, answer

    def _served(self, request: Request, answer: Reply | None) -> None:
        if answer is not None:
            self.pending.pop(id(request), None)
            self.send(encode_reply(answer, self.dialect or WORDS, request.id))
        elif request.id is None and id(request) in self.pending:
            self.blocking = request
            self._messages_left = 0

    def _do_steps(self) -> None:
        """Go on with the message that is divided, until it is served, or the slice is over: then what follows waits."""
        assert self._divided is not None
        (request, steps), self._divided = self._divided, None
        seconds = self.factory.clock.seconds
        try:
            while True:
                next(steps)
                if seconds() >= self._until:
                    self._divided, self.paused = (request, steps), True
                    return
        except StopIteration as done:
            if request is not None:
                self._served(request, done.value)
        except (ProtocolError, Refused) as error:
            self._refuse(request, error)
        except Exception:
            self._report_failure(request)

    def _parse_before_token(self, line: bytes, grammar: Grammar) -> Request:
        """The request of a line, which must be `auth`; errors say only that."""
        missing = token_missing(is_bare=False)
        try:
            request = self._parse(line, grammar)
        except ProtocolError as error:
            missing.request_id = error.request_id
            raise missing from None
        if request.verb != "auth":
            missing.request_id = request.id
            raise missing
        return request

    def _refuse(self, request: Request | None, error: ProtocolError | Refused) -> None:
        if isinstance(error, Refused):
            text = error.text
            if isinstance(error, FieldError) and request is not None and self.dialect is WORDS:
                text = f"{self.grammar.find(request.verb).name_in_words(error.field)}: {error.reason}"
            error = ProtocolError(error.code, text)
        if request is not None:
            self.pending.pop(id(request), None)
            error.request_id = request.id
        self.send_error(error)

    def _report_failure(self, request: Request | None = None) -> None:
        """Log the current exception, a bug of fakedev; send ``internal`` and close."""
        self.log.failure("serving {peer}", peer=self.describe())
        self._refuse(request, ProtocolError("internal", "a fault of fakedev; its log says more", fatal=True))

    def _log_message(self, message: bytes) -> None:
        """Log a message of the peer, without its token."""
        is_hidden = not self.is_admitted or b"auth" in message.lower()
        shown = "(not shown: it may have a token)" if is_hidden else excerpt(message)
        self.log.info("from {peer}: {message}", peer=self.describe(), message=shown, log_unlimited=True)

    # The time of a message

    def _limit_time(self, is_new: bool) -> None:
        """Count the time of an incomplete message from its first byte, and of the first one also from its last byte.

        :param is_new: whether messages were complete since the time was counted.
        """
        factory = self.factory
        if is_new or not self._is_timed:
            self._is_timed = True
            factory.message.start(self)
        if factory.first_byte is not None:
            if self._is_first:
                factory.first_byte.start(self)
            else:
                factory.first_byte.stop(self)

    def message_is_late(self) -> None:
        if self.has_input():  # it may complete the message
            self.factory.message.start(self)
        else:
            text = f"a message must be complete within {self.factory.message.seconds:g} s"
            self.send_error(ProtocolError("too-long", text, fatal=True))

    def first_byte_is_late(self) -> None:
        """No further byte of the first message came in time; the originals answered every peer like a bare one."""
        if self.factory.first_byte is not None and self.has_input():
            self.factory.first_byte.start(self)
        else:
            text = "the message is not complete, and nothing more comes"
            self.send_error(ProtocolError("too-long", text, fatal=True), is_bare=True)

    def token_is_late(self) -> None:
        self.dismiss(token_missing(is_bare=False))

    # The end

    def _conclude(self) -> None:
        """The last message is served: end the session, and close when its answers are sent."""
        if self.state is not CLOSING:
            return
        self._leave()
        self.turn_ended()
        if self._lingers:
            self._read(True)
        self.state = FLUSHING
        self._close_when_sent()

    def _leave(self) -> None:
        self.pending.clear()
        self.blocking = self.cannot_wait = self._divided = None
        try:
            self.peer_left()
        except Exception:
            self.log.failure("freeing what belongs to {peer}", peer=self.describe())
        if self.factory.turn_observer is not None:
            self.factory.fair_share.call_after_turn(self.factory.turn_observer)
