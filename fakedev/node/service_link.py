"""The connection of fakedev-node with the service, in a thread of its own, and the conversation in JSON lines.

The link connects again and again, and passes on what it receives. The conversation is bytes in, messages out, without
sockets.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswerInTime
from typing import Final, NamedTuple

from fakedev.base.backoff import Backoff
from fakedev.base.errors import FieldError, plain_reason
from fakedev.kubernetes.nodes.node_view import (
    MAX_VIEW_BYTES,
    Answer,
    NodeMessage,
    NodeView,
    Notice,
    Refusal,
    parse_node_message,
    view_from,
)
from fakedev.lines.auth import encode_auth
from fakedev.lines.grammar import ProtocolError
from fakedev.queues.messages import encode_request
from fakedev.schema.peer_addresses import Address

_ATTACH: Final = 1


#: Seconds of silence until a ping is sent, and until its answer must be there.
SILENT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 10.0


class ConversationOver(Exception):
    """The connection is of no use any more: the text says why."""


class Silence:
    """Decides when to send a ping, and when the service is gone although the connection is open.

    :param now: seconds of any clock, as in all methods.
    """

    def __init__(self, now: float) -> None:
        self._heard_seconds = now
        self._pinged_seconds: float | None = None

    def heard(self, now: float) -> None:
        self._heard_seconds, self._pinged_seconds = now, None

    def must_ping(self, now: float) -> bool:
        """Whether a ping must be sent now; it is asked for once."""
        if self._pinged_seconds is not None or now - self._heard_seconds < SILENT_SECONDS:
            return False
        self._pinged_seconds = now
        return True

    def seconds_left(self, now: float) -> float:
        """How long to wait for the service at most.

        :raises ConversationOver: when it does not answer.
        """
        if self._pinged_seconds is None:
            return max(0.0, self._heard_seconds + SILENT_SECONDS - now)
        if now - self._pinged_seconds >= ANSWER_SECONDS:
            raise ConversationOver("it does not answer")
        return self._pinged_seconds + ANSWER_SECONDS - now


class ViewChanged(NamedTuple):
    """The service has sent the view of the node."""

    view: NodeView


class Conversation:
    """One connection.

    :param token: empty for none.
    :ivar is_attached: whether the service has taken the node.
    """

    def __init__(self, node: str, token: str = "") -> None:
        self._node = node
        self._token = token
        self._number = _ATTACH
        self._buffer = bytearray()
        self._scanned = 0
        self.is_attached = False

    def opening(self) -> bytes:
        auth = encode_auth(self._token) if self._token else b""
        return auth + encode_request("attach", _ATTACH, {"node": self._node})

    def request(self, verb: str, arguments: Mapping[str, object]) -> tuple[int, bytes]:
        """A request: its number, and the line."""
        self._number += 1
        return self._number, encode_request(verb, self._number, arguments)

    def feed(self, data: bytes) -> list[ViewChanged | Answer | Refusal]:
        """Take bytes from the service; return what they complete.

        :raises ConversationOver: when it refuses the node or the token, or does not speak this protocol.
        """
        self._buffer += data
        found: list[ViewChanged | Answer | Refusal] = []
        while (end := self._buffer.find(b"\n", self._scanned)) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._scanned = 0
            try:
                heard = self._heard(parse_node_message(line))
            except (ProtocolError, FieldError) as error:
                raise ConversationOver(f"it does not speak the protocol of the node port: {error.text}") from None
            if heard is not None:
                found.append(heard)
        self._scanned = len(self._buffer)
        if self._scanned > MAX_VIEW_BYTES:
            raise ConversationOver(f"a line of it is longer than {MAX_VIEW_BYTES} bytes")
        return found

    def _heard(self, message: NodeMessage) -> ViewChanged | Answer | Refusal | None:
        match message:
            case Answer(request, fields) if request == _ATTACH:
                self.is_attached = True
                return ViewChanged(view_from(fields.get("view")))
            case Notice("changed", fields):
                return ViewChanged(view_from(fields.get("view")))
            case Refusal(request, code, text) if request in (None, _ATTACH):
                raise ConversationOver(f"it refuses: {code}: {text}")
            case Answer(None, _) | Notice():
                return None  # the answer to auth; an event of a later version
            case _:
                return message


#: Seconds for one attempt to connect.
_CONNECT_SECONDS: Final = 5.0
#: Bytes that may wait to be sent: a report of 64 full lines.
_MAX_UNSENT_BYTES: Final = 64 * 65536
_RECEIVE_BYTES: Final = 65536
#: A connection that lasted this long has worked.
_LONG_SECONDS: Final = 5.0
_FIRST_WAIT_SECONDS: Final = 0.1
_LAST_WAIT_SECONDS: Final = 30.0


class LinkHeard(NamedTuple):
    """The service, which has taken the node, has sent something."""


class LinkDown(NamedTuple):
    """The service cannot be reached, or the connection is closed."""

    reason: str


LinkNews = ViewChanged | LinkHeard | LinkDown


class Unanswered(Exception):
    """A request has no good answer: the text says why."""


class RefusedByService(Unanswered):
    """The service answers with an error.

    :ivar code: as the protocol has it.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"the service refuses: {code}: {text}")
        self.code = code


#: Errors that pass: the service has not seen a claim yet, or has to divide a board for it.
_PASSING: Final = ("busy", "unknown-name")
#: How long, and how often: a kubelet that is refused tries again only after a minute or more.
PATIENCE_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.25


def patiently(
    ask: Callable[[], Mapping[str, object]], clock: Callable[[], float], sleep: Callable[[float], None]
) -> Mapping[str, object]:
    """The answer to a request; if it is refused for a reason that will pass, it is sent again for a few seconds.

    :raises Unanswered: of the last request.
    """
    end = clock() + PATIENCE_SECONDS
    while True:
        try:
            return ask()
        except RefusedByService as refusal:
            if refusal.code not in _PASSING or clock() >= end:
                raise
            sleep(PAUSE_SECONDS)


class ServiceLink:
    """Holds a connection to the service.

    :param service: a host and a port; the files of its TLS are read anew for each connection.
    :param read_token: gives the token, empty for none; raises ValueError.
    :param post: called in this link's thread with all news; it must not wait.
    """

    def __init__(
        self,
        service: Address,
        node: str,
        read_token: Callable[[], str],
        post: Callable[[LinkNews], None],
    ) -> None:
        self._service = service
        self._node = node
        self._read_token = read_token
        self._post = post
        self._backoff = Backoff(_FIRST_WAIT_SECONDS, _LAST_WAIT_SECONDS, random.random)
        self._lock = threading.Lock()
        self._conversation: Conversation | None = None
        self._unsent = bytearray()
        self._waiting: dict[int, Future[Mapping[str, object]]] = {}
        self._is_stopping = threading.Event()
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="service", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Close the connection; requests that wait are unanswered."""
        self._is_stopping.set()
        self._wake()

    def ask(self, verb: str, arguments: Mapping[str, object], seconds: float) -> Mapping[str, object]:
        """The fields of the answer to a request; waits for it.

        :raises Unanswered: without the service, when it refuses, and when the time is over.
        """
        try:
            return self.send(verb, arguments).result(seconds)
        except NoAnswerInTime:
            raise Unanswered(f"the service did not answer within {seconds:g} s") from None

    def send(self, verb: str, arguments: Mapping[str, object]) -> Future[Mapping[str, object]]:
        """Send a request; the result has the fields of its answer, or fails with :class:`Unanswered`."""
        answer: Future[Mapping[str, object]] = Future()
        with self._lock:
            conversation = self._conversation
            if conversation is None or not conversation.is_attached:
                answer.set_exception(Unanswered("the service is not connected"))
                return answer
            number, line = conversation.request(verb, arguments)
            if len(self._unsent) + len(line) > _MAX_UNSENT_BYTES:
                answer.set_exception(Unanswered("the service does not read"))
                return answer
            self._unsent += line
            self._waiting[number] = answer
        self._wake()
        return answer

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # it is full: the thread wakes anyway
            self._waker.send(b"\0")

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            began_seconds = time.monotonic()
            try:
                self._connect()
            except (OSError, ValueError, ConversationOver) as error:
                reason = self._reason(error)
            conversation = self._forget()
            if self._is_stopping.is_set():
                return
            # A service that takes the node and fails at once gets no rest otherwise.
            is_long = time.monotonic() - began_seconds >= _LONG_SECONDS
            if conversation is not None and conversation.is_attached and is_long:
                self._backoff.reset()
            self._post(LinkDown(reason))
            self._is_stopping.wait(self._backoff.next_seconds())

    def _forget(self) -> Conversation | None:
        """The connection is closed: fail what waits for it."""
        with self._lock:
            conversation, self._conversation = self._conversation, None
            waiting, self._waiting = self._waiting, {}
            self._unsent.clear()
        for answer in waiting.values():
            answer.set_exception(Unanswered("the connection with the service was lost"))
        return conversation

    def _connect(self) -> None:
        """Serve one connection.

        :raises OSError: or ConversationOver, ValueError: at its end.
        """
        token = self._read_token()
        with self._opened() as connection:
            conversation = Conversation(self._node, token)
            with self._lock:
                self._conversation = conversation
                self._unsent[:] = conversation.opening()
            self._converse(connection, conversation)

    def _opened(self) -> socket.socket:
        """A connection that does not block, with TLS if the address has it.

        :raises OSError: or ConversationOver: when there is none in time.
        """
        deadline_seconds = time.monotonic() + _CONNECT_SECONDS
        connection = socket.create_connection((self._service.host, self._service.port), _CONNECT_SECONDS)
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._service.tls is None:
            return connection
        from fakedev.runtime.client_tls import secured  # noqa: PLC0415 - most addresses have no TLS

        def wait(descriptor: int, events: int) -> None:
            poll = select.poll()
            poll.register(descriptor, events)
            poll.register(self._woken, select.POLLIN)
            ready = dict(poll.poll(max(0.0, deadline_seconds - time.monotonic()) * 1000))
            if self._woken.fileno() in ready:
                self._woken.recv(_RECEIVE_BYTES)
            if self._is_stopping.is_set():
                raise ConversationOver("it is no longer needed")
            if not ready:
                raise ConversationOver("TLS was not agreed on in time")

        return secured(connection, self._service.host, self._service.tls, wait)

    def _reason(self, error: Exception) -> str:
        """Why a connection has failed or ended."""
        if self._service.tls is None:
            return plain_reason(error)
        from fakedev.runtime.client_tls import connection_reason  # noqa: PLC0415 - most addresses have no TLS

        return connection_reason(error)

    def _converse(self, connection: socket.socket, conversation: Conversation) -> None:
        silence = Silence(time.monotonic())
        while not self._is_stopping.is_set():
            now = time.monotonic()
            if silence.must_ping(now):
                with self._lock:
                    if conversation.is_attached:
                        self._unsent += conversation.request("ping", {})[1]
            writers = [connection] if self._unsent else []
            seconds = silence.seconds_left(now)
            readable, writable, _ = select.select([connection, self._woken], writers, [], seconds)
            if self._woken in readable:
                self._woken.recv(_RECEIVE_BYTES)
            # First what the service has sent: if it has closed the connection, that may be the reason.
            if connection in readable:
                self._read(connection, conversation)
                silence.heard(time.monotonic())
            if writable:
                self._write(connection)

    def _write(self, connection: socket.socket) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):  # TLS may have to read first
            sent = connection.send(self._unsent)
            del self._unsent[:sent]

    def _read(self, connection: socket.socket, conversation: Conversation) -> None:
        try:
            data = connection.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return  # a part of a record of TLS, or one without content
        if not data:
            raise ConversationOver("it has closed the connection")
        heard_now = conversation.feed(data)
        if conversation.is_attached:
            self._post(LinkHeard())
        for heard in heard_now:
            match heard:
                case ViewChanged():
                    self._post(heard)
                case Answer(request, fields):
                    if (answer := self._answered(request)) is not None:
                        answer.set_result(fields)
                case Refusal(request, code, text):
                    if (answer := self._answered(request)) is not None:
                        answer.set_exception(RefusedByService(code, text))

    def _answered(self, request: int | None) -> Future[Mapping[str, object]] | None:
        with self._lock:
            return None if request is None else self._waiting.pop(request, None)
