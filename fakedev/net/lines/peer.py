"""The peer of a line port: its messages become requests of a session, and answers go back in its dialect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from fakedev.net.lines.fair_share import FairShare, TurnObserver
from fakedev.net.lines.held_output import Hold
from fakedev.net.lines.message_timer import MessageTimer
from fakedev.net.lines.outbox import OutboxTimer, pid_of
from fakedev.net.lines.silence import SilentPeers
from fakedev.net.lines.tokens import TokenGate, token_missing
from fakedev.spec.errors import FieldError, Refused, printable
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect, refuse_http
from fakedev.wire.grammar import SHARED_VERBS, Grammar, Request
from fakedev.wire.json_lines import parse_json_line
from fakedev.wire.replies import Notification, Reply, encode_error, encode_notification, encode_reply, excerpt
from fakedev.wire.words import parse_words

#: Requests of one peer that may wait for their answers.
MAX_PENDING_REQUESTS: Final = 256

_BRACE: Final = ord("{")  # no request line of HTTP begins with it
_SHARED_VERBS: Final = frozenset(verb.name for verb in SHARED_VERBS)
_PARSERS: Final[dict[Dialect | None, Callable[[bytes, Grammar], Request]]] = {
    Dialect.WORDS: parse_words,
    Dialect.JSON_LINES: parse_json_line,
}


class Session(Protocol):
    """What a port does for one connection. It gets the :class:`Peer` when it is made, and may keep it."""

    def request_received(self, request: Request) -> Reply | None:
        """Serve a request in words or JSON lines; ``help`` and ``quit`` never arrive here.

        :returns: the answer; None when :meth:`Peer.reply` will give it, during this call or later.
        :raises ProtocolError: or Refused: the peer gets the error.
        """

    def object_received(self, message: bytes) -> None:
        """Serve a bare JSON object; :meth:`Peer.answer_bare` gives the answer, during this call or later.

        :raises ProtocolError: or Refused: the peer gets :meth:`encode_bare_error`.
        """

    def encode_bare_error(self, error: ProtocolError) -> bytes:
        """The answer to a bare peer for an error; the connection is closed after it."""

    def is_working(self) -> bool:
        """Whether something runs or waits for the peer, so that the end of its input means that it left."""

    def quit_received(self) -> None:
        """The peer sends ``quit``, which is not answered yet: return what it would lose by just leaving."""

    def peer_left(self) -> None:
        """The session is over, for whatever reason: free what belongs to the peer. Called once."""


class Connection(Protocol):
    """What a peer needs of its connection; see :class:`~fakedev.net.lines.connection.LineConnection`."""

    closing: bool
    ended: bool
    is_admitted: bool

    def write(self, data: bytes) -> None: ...
    def close(self, linger: bool, reason: str = "") -> None: ...
    def resume(self) -> None: ...
    def hold(self) -> Hold: ...
    def admitted(self) -> None: ...
    def likely_dialect(self) -> Dialect: ...
    def describe(self) -> str: ...
    def host(self) -> str: ...

    @property
    def transport(self) -> Any: ...


class LinePort(Protocol):
    """What a connection needs of its port; see :class:`~fakedev.net.lines.server.LineServerFactory`."""

    grammar: Grammar
    clock: IReactorTime
    idle_answer_seconds: float | None
    message_timer: MessageTimer
    outbox_timer: OutboxTimer
    max_connections: int
    verbose: bool
    fair_share: FairShare
    turn_observer: TurnObserver | None
    peers: set[Any]
    silent_peers: SilentPeers
    closed: Counter[str]


class Peer:
    """Parses messages, passes requests to the session and encodes answers.

    The session may call :meth:`reply`, :meth:`notify`, :meth:`answer_bare` and :meth:`close` at any time, also when
    the connection is gone.

    A request with an id may be overtaken; one without must be answered before the next is served, unless the session
    says that the next one cannot wait for it.

    :ivar dialect: how the peer talks; None until that is clear. The connection sets it.
    :ivar pending: the requests that have no answer yet, by ``id()``.
    :ivar blocking: the request whose answer those after it wait for.
    :ivar cannot_wait: whether a request is served although another one blocks; None: none is. The session sets it.
    :param gate: the tokens of its address.
    """

    __slots__ = ("_connection", "_gate", "_grammar", "blocking", "cannot_wait", "dialect", "pending", "session")
    log = Logger()

    def __init__(
        self, connection: Connection, grammar: Grammar, make_session: Callable[[Peer], Session], gate: TokenGate
    ) -> None:
        self._connection = connection
        self._grammar = grammar
        self._gate = gate
        self.pending: dict[int, Request] = {}
        self.dialect: Dialect | None = None
        self.blocking: Request | None = None
        self.cannot_wait: Callable[[Request], bool] | None = None
        self.session = make_session(self)

    # For the session

    def reply(self, request: Request, answer: Reply | ProtocolError) -> None:
        """Answer a request for which request_received() returned None."""
        was_blocked = self.blocking
        if self._settle(request):
            if isinstance(answer, ProtocolError):
                answer.request_id = request.id
                self.send_error(answer)
            else:
                self._answer(request, answer)
            if was_blocked or self._connection.ended:
                self._connection.resume()

    def notify(self, news: Notification) -> None:
        """Send an event that answers no request; a bare peer does not get it."""
        if self.dialect is Dialect.WORDS or self.dialect is Dialect.JSON_LINES:
            self._connection.write(encode_notification(news, self.dialect))

    def answer_bare(self, answer: bytes, last: bool = True) -> None:
        """Answer a bare object in one write.

        :param last: close the connection after it.
        """
        self._connection.write(answer)
        if last:
            self.close()

    def close(self) -> None:
        """Send all answers, then close; later input is dropped."""
        self._connection.close(linger=False)

    def hold(self) -> Hold:
        """Hold the answers of this turn until the hold is released."""
        return self._connection.hold()

    def describe(self) -> str:
        """The peer's address, for the log."""
        return self._connection.describe()

    def host(self) -> str:
        """The name of the peer's host; all peers on UNIX sockets are one."""
        return self._connection.host() or "UNIX sockets"

    def pid(self) -> int | None:
        """The process of a peer on a UNIX socket; None if there is none, or it cannot be known."""
        return pid_of(self._connection.transport)

    def log_notes(self, notes: Iterable[str]) -> None:
        """Log what was ignored of a bare object."""
        for note in notes:
            self.log.info("{peer}: {note}", peer=self.describe(), note=printable(note))

    # For the connection

    def message_received(self, message: bytes) -> None:
        """Serve a line without its LF, or a whole object; a blank line is no message."""
        request = None
        try:
            parse = _PARSERS.get(self.dialect)
            if parse is None:
                if not self._connection.is_admitted:
                    raise token_missing(is_bare=True)
                self.session.object_received(message)
            elif stripped := message.strip():
                if stripped[0] != _BRACE:
                    refuse_http(stripped, self._grammar)
                if self._connection.is_admitted:
                    request = parse(stripped, self._grammar)
                else:
                    request = self._parsed_before_token(parse, stripped)
                self._serve(request)
        except (ProtocolError, Refused) as error:
            self._refuse(request, error)
        except Exception:
            self.report_failure(request)

    def is_urgent(self, line: bytes | None) -> bool:
        """Whether a line without its LF is a request that is served although another one blocks; None for no line."""
        parse = _PARSERS.get(self.dialect)
        if line is None or self.cannot_wait is None or parse is None:
            return False
        try:
            return self.cannot_wait(parse(line.strip(), self._grammar))
        except ProtocolError:
            return False

    def log_message(self, message: bytes) -> None:
        """Log a message of the peer, without its token."""
        is_hidden = not self._connection.is_admitted or b"auth" in message.lower()
        shown = "(not shown: it may have a token)" if is_hidden else excerpt(message)
        self.log.info("from {peer}: {message}", peer=self.describe(), message=shown, log_unlimited=True)

    def send_error(self, error: ProtocolError, *, linger: bool = True, reason: str = "") -> None:
        """Send an error in the peer's dialect, and close where the dialect or the error requires it.

        :param linger: let the peer read the error although it may still be sending.
        :param reason: why the connection closes, for the statistics; empty: the error's code.
        """
        dialect = self.dialect or self._connection.likely_dialect()
        if dialect is Dialect.BARE:
            self.send_bare_error(error, linger=linger, reason=reason)
            return
        log = self.log.warn if error.code == "denied" else self.log.debug
        log("{peer}: {code} {text}", peer=self.describe(), code=error.code, text=printable(error.text))
        self._connection.write(encode_error(error, dialect, error.request_id))
        if error.fatal:
            self._connection.close(linger, reason or error.code)

    def send_bare_error(self, error: ProtocolError, *, linger: bool = True, reason: str = "") -> None:
        """Send an error as a bare peer gets it, and close."""
        if self._connection.closing:
            return
        self.log.warn("{peer}: refused: {text}", peer=self.describe(), text=printable(error.text))
        self._connection.write(self.session.encode_bare_error(error))
        self._connection.close(linger, reason or error.code)

    def report_failure(self, request: Request | None = None) -> None:
        """Log the current exception, a bug of fakedev; send ``internal`` and close."""
        self.log.failure("serving {peer}", peer=self.describe())
        self._refuse(request, ProtocolError("internal", "a fault of fakedev; its log says more", fatal=True))

    def leave(self) -> None:
        """End the session; nothing refers to it any more."""
        self.pending.clear()
        self.blocking = self.cannot_wait = None
        session = self.session
        del self.session
        try:
            session.peer_left()
        except Exception:
            self.log.failure("freeing what belongs to {peer}", peer=self.describe())

    def _parsed_before_token(self, parse: Callable[[bytes, Grammar], Request], line: bytes) -> Request:
        """The request of a line, which must be `auth`; errors say only that."""
        try:
            request = parse(line, self._grammar)
        except ProtocolError as error:
            missing = token_missing(is_bare=False)
            missing.request_id = error.request_id
            raise missing from None
        if request.verb != "auth":
            missing = token_missing(is_bare=False)
            missing.request_id = request.id
            raise missing
        return request

    def _authenticate(self, request: Request) -> None:
        text = self._gate.check(str(request.arguments["token"]), self._connection.host())
        if not self._connection.is_admitted:
            self._connection.admitted()
        self._answer(request, Reply(text))

    def _serve(self, request: Request) -> None:
        if request.verb in _SHARED_VERBS:
            self._serve_shared(request)
            return
        pending, key = self.pending, id(request)
        if len(pending) >= MAX_PENDING_REQUESTS:
            text = f"{MAX_PENDING_REQUESTS} requests of this connection wait for their answers"
            raise ProtocolError("full", text)
        pending[key] = request
        answer = self.session.request_received(request)
        if answer is not None:
            pending.pop(key, None)
            self._answer(request, answer)
        elif request.id is None and key in pending:
            self.blocking = request

    def _serve_shared(self, request: Request) -> None:
        """Serve a verb that all ports have."""
        if request.verb == "auth":
            self._authenticate(request)
        elif request.verb == "quit":
            self.session.quit_received()
            self._answer(request, Reply())
            self.close()
        else:
            self._answer(request, Reply(lines=self._grammar.help_lines(str(request.arguments.get("verb", "")))))

    def _settle(self, request: Request) -> bool:
        """Note that a request gets its answer now; False when it had one already."""
        if self.blocking is request:
            self.blocking = None
        return self.pending.pop(id(request), None) is not None

    def _refuse(self, request: Request | None, error: ProtocolError | Refused) -> None:
        if isinstance(error, Refused):
            text = error.text
            if isinstance(error, FieldError) and request is not None and self.dialect is Dialect.WORDS:
                text = f"{self._grammar.find(request.verb).name_in_words(error.field)}: {error.reason}"
            error = ProtocolError(error.code, text)
        if request is not None:
            self._settle(request)
            error.request_id = request.id
        self.send_error(error)

    def _answer(self, request: Request, answer: Reply) -> None:
        dialect = self.dialect or self._connection.likely_dialect()
        self._connection.write(encode_reply(answer, dialect, request.id))
