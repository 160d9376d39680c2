"""The connection of a peer: it takes turns, waits for a peer that reads slowly, and ends well.

Requests of a peer whose answers come later.

How long a peer may take over one message.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from twisted.internet.address import UNIXAddress
from twisted.internet.interfaces import IDelayedCall, IHalfCloseableProtocol, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from fakedev.net.lines.framing import LineInput
from fakedev.net.lines.outbox import Outbox
from fakedev.net.system.timing import no_op
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import MAX_BYTES
from fakedev.wire.grammar import Request
from fakedev.wire.replies import excerpt

if TYPE_CHECKING:
    from fakedev.net.lines.server import LinePeerFactory

#: Requests of one peer that may wait for their answers.
MAX_PENDING_REQUESTS: Final = 256


class PendingRequests:
    """Knows which requests were not answered yet, and whether one of them holds up those after it.

    A request with an id may be overtaken; one without must be answered before the next is looked at.
    """

    def __init__(self) -> None:
        self._requests: dict[int, Request] = {}
        #: The request that holds up those after it.
        self.blocking: Request | None = None

    def __bool__(self) -> bool:
        return bool(self._requests)

    def add(self, request: Request) -> None:
        """A request is to be answered.

        :raises ProtocolError: ``full``, when too many wait.
        """
        if len(self._requests) >= MAX_PENDING_REQUESTS:
            raise ProtocolError("full", f"{MAX_PENDING_REQUESTS} requests of this connection wait for their answers")
        self._requests[id(request)] = request

    def postpone(self, request: Request) -> bool:
        """The answer of a request comes later, unless it was settled already; whether those after it must wait."""
        if request.id is None and id(request) in self._requests:
            self.blocking = request
            return True
        return False

    def settle(self, request: Request) -> bool:
        """A request is answered now; False when it was before, or was never owed."""
        if self.blocking is request:
            self.blocking = None
        return self._requests.pop(id(request), None) is not None

    def clear(self) -> None:
        """Nobody waits for an answer any more."""
        self._requests.clear()
        self.blocking = None


class MessageTimer:
    """Counts the seconds of a message that was begun, from its first byte, and those since its last one.

    :param whole_seconds: for the message to become complete, however its bytes are spread.
    :param quiet_seconds: without any byte; None for no such limit.
    """

    def __init__(
        self,
        clock: IReactorTime,
        whole_seconds: float,
        quiet_seconds: float | None,
        too_slow: Callable[[], None],
        too_quiet: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._whole_seconds = whole_seconds
        self._quiet_seconds = quiet_seconds
        self._too_slow = too_slow
        self._too_quiet = too_quiet
        self._message = -1
        self._whole: IDelayedCall | None = None
        self._quiet: IDelayedCall | None = None

    def incomplete(self, message: int) -> None:
        """Bytes have come, and this message of the connection is begun and not complete."""
        if self._whole is None or message != self._message:
            self.stop()
            self._message = message
            self._whole = self._clock.callLater(self._whole_seconds, self._fire, self._too_slow)
        if self._quiet is not None:
            self._quiet.reset(self._quiet_seconds)
        elif self._quiet_seconds is not None and message == 0:
            self._quiet = self._clock.callLater(self._quiet_seconds, self._fire, self._too_quiet)

    def stop(self) -> None:
        """No message is begun."""
        for call in (self._whole, self._quiet):
            if call is not None and call.active():
                call.cancel()
        self._whole = self._quiet = None

    def lost(self) -> None:
        """The connection is gone: nobody is told any more, so that nothing here points back at it."""
        self.stop()
        self._too_slow = self._too_quiet = no_op

    def _fire(self, told: Callable[[], None]) -> None:
        self.stop()
        told()

# What the turn of another peer brings is not gathered beyond this: a turn may have hundreds of messages.
_LARGE_BYTES = 4096


@implementer(IHalfCloseableProtocol)
class LineConnection(LineInput):
    """Works on what comes in slices, sends what is said in each together, and closes when all of it is sent."""

    log = Logger()
    factory: LinePeerFactory

    def __init__(self) -> None:
        super().__init__()
        self.pending_requests = PendingRequests()
        #: Whether nothing more is heard.
        self.closing = False
        #: Whether the peer sends nothing more.
        self.ended = False
        self._said: list[bytes] = []  # in this slice
        self._slicing = False
        self._reading = True
        self._linger = False
        self._left = False

    @abstractmethod
    def peerLeft(self) -> None:
        """Called once, when the peer is not served any more, for whatever reason: free what was its."""

    @abstractmethod
    def is_working(self) -> bool:
        """Whether something runs or waits for the peer, so that its end of input means that it left."""

    @abstractmethod
    def slice_failed(self) -> None:
        """A fault of ours; the traceback is at hand."""

    @abstractmethod
    def message_late(self) -> None:
        """A message that was begun is not complete in time."""

    @abstractmethod
    def peer_quiet(self) -> None:
        """The first message was begun, and nothing came for some time."""

    def say(self, data: bytes) -> None:
        """Send bytes: those of one slice together, and small ones that the turn of another peer brings."""
        if self.closing:
            return
        if self.factory.verbose:
            self.log.info("to {peer}: {message}", peer=self.describe(), message=excerpt(data), log_unlimited=True)
        self._said.append(data)
        if self._slicing:
            self.slice_answer_bytes += len(data)
        elif len(data) > _LARGE_BYTES:
            self.turn_over()
        elif len(self._said) == 1:
            self.factory.fair_share.afterwards(self)

    def turn_over(self) -> None:
        """Send what was said in the turn of another peer."""
        if self._said:
            said, self._said = self._said, []
            self._outbox.write(said[0] if len(said) == 1 else b"".join(said))

    def go_on(self) -> None:
        """What held up the peer, or what it waited for before its end, is over."""
        if not self._slicing:
            self._wake()

    def end(self, linger: bool) -> None:
        """Hear nothing more; when what was said is sent, close.

        :param linger: let the peer see its answer although it may still be sending.
        """
        if self.closing:
            return
        self.closing = True
        self._linger = linger and not self.ended
        self.drop_input()
        self._timer.stop()
        if not self._slicing:
            self._conclude()

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
            factory.clock, factory.message_seconds, factory.idle_answer_seconds, self.message_late, self.peer_quiet
        )
        factory.peers.add(self)

    def dataReceived(self, data: bytes) -> None:
        """Take bytes; they are looked at when it is the peer's turn, at once as a rule."""
        if not self.closing:
            self.hold(data)
            self._wake()

    def readConnectionLost(self) -> None:
        """The peer has closed its sending side, or both."""
        self.ended = True
        if self.closing:
            self.transport.loseConnection()
        else:
            self._wake()

    def writeConnectionLost(self) -> None:
        """Our sending side is closed; nothing to do."""

    def connectionLost(self, reason: Failure) -> None:
        """The connection is gone. What came before the end of input is still done."""
        self.factory.peers.discard(self)
        self._outbox.lost()
        self._timer.lost()
        if self.ended and not self.closing:
            self._wake()
        else:
            self.closing = True
            self._leave()

    # Turns

    def take_turn(self) -> bool:
        """Do a slice of what has come; whether there is more to do now."""
        more = self._slice() if self._may_go_on() else False
        if self.ended and not more and ((self.used_up and not self.pending_requests) or self.is_working()):
            self.end(linger=False)
        if self.closing:
            self._conclude()
            return False
        self._settle(more)
        return more

    def _wake(self) -> None:
        self.factory.fair_share.ask(self)

    def _may_go_on(self) -> bool:
        return not (self.closing or self.pending_requests.blocking or self._outbox.full)

    def _slice(self) -> bool:
        self._slicing = True
        try:
            self.run_slice(self.factory.clock.seconds, self.ended)
        except Exception:
            self.slice_failed()
        self._slicing = False
        self.turn_over()
        return self.paused and self._may_go_on()

    def _settle(self, more: bool) -> None:
        """After a slice: read on or not, and mind the time."""
        if self.begun and not self.ended and not more and self._may_go_on():
            self._timer.incomplete(self.messages)
        else:
            self._timer.stop()
        # While a request is waited for the end of input should still be noticed, so some more is read.
        room = self.held_bytes <= MAX_BYTES if self.pending_requests.blocking else not more
        self._read(room and not self._outbox.full)

    def _read(self, wanted: bool) -> None:
        if wanted != self._reading and not self.ended:
            self._reading = wanted
            if wanted:
                self.transport.resumeProducing()
            else:
                self.transport.pauseProducing()

    # The end

    def _conclude(self) -> None:
        if self._left:
            return
        self._leave()
        self.turn_over()
        self._outbox.finish(self._linger)
        if self._linger:
            self._read(True)

    def _leave(self) -> None:
        if self._left:
            return
        self._left = True
        self.pending_requests.clear()
        try:
            self.peerLeft()
        except Exception:
            self.log.failure("freeing what was {peer}'s", peer=self.describe())

    def _cut(self, reason: str) -> None:
        self.log.warn("{peer} is cut: {reason}", peer=self.describe(), reason=reason)
        self.transport.abortConnection()
