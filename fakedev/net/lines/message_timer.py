"""Limits the time that a peer may take for one message."""

from __future__ import annotations

from typing import Final, Protocol

from twisted.internet.interfaces import IReactorTime

from fakedev.net.system.timeouts import Timeouts
from fakedev.wire.errors import ProtocolError

#: The time is judged again after so long when input waits to be served.
_AGAIN_SECONDS: Final = 0.1


class SendingPeer(Protocol):
    """What is needed of a connection; see :class:`~fakedev.net.lines.connection.LineConnection`."""

    def has_input(self) -> bool:
        """Whether bytes that have arrived wait to be served: they may complete the message."""

    def message_is_late(self, error: ProtocolError, *, is_silent: bool) -> None:
        """The message was not complete in time.

        :param is_silent: no byte of the first message has arrived for too long.
        """


class MessageTimer:
    """Counts the seconds since the first byte of each incomplete message, and since its last byte.

    :param message_seconds: for a message to become complete, however its bytes are spread.
    :param idle_seconds: without any byte of the first message; None for no such limit.
    """

    def __init__(self, clock: IReactorTime, message_seconds: float, idle_seconds: float | None) -> None:
        self._message: Timeouts[SendingPeer] = Timeouts(clock, message_seconds, self._message_is_late)
        self._message_again: Timeouts[SendingPeer] = Timeouts(clock, _AGAIN_SECONDS, self._message_is_late)
        self._idle: Timeouts[SendingPeer] = Timeouts(clock, idle_seconds or 0.0, self._is_idle)
        self._idle_again: Timeouts[SendingPeer] = Timeouts(clock, _AGAIN_SECONDS, self._is_idle)
        self._has_idle_limit = idle_seconds is not None
        self._numbers: dict[SendingPeer, int] = {}  # of the messages whose time is counted

    def change(self, message_seconds: float) -> None:
        """Another time for the messages that begin from now on."""
        self._message.seconds = message_seconds

    def bytes_received(self, peer: SendingPeer, message: int) -> None:
        """Bytes have arrived, and the message of this number is incomplete; or the first one is waited for."""
        if self._numbers.get(peer) != message:
            self.stop(peer)
            self._numbers[peer] = message
            self._message.start(peer)
            if message == 0 and self._has_idle_limit:
                self._idle.start(peer)
        elif self._idle.stop(peer) or self._idle_again.stop(peer):
            self._idle.start(peer)

    def stop(self, peer: SendingPeer) -> None:
        """The message is complete, or is not waited for."""
        if self._numbers.pop(peer, None) is None:
            return
        if not self._message.stop(peer):
            self._message_again.stop(peer)
        if self._has_idle_limit and not self._idle.stop(peer):
            self._idle_again.stop(peer)

    def _message_is_late(self, peer: SendingPeer) -> None:
        if peer.has_input():
            self._message_again.start(peer)
            return
        text = f"a message must be complete within {self._message.seconds:g} s"
        peer.message_is_late(ProtocolError("too-long", text, fatal=True), is_silent=False)

    def _is_idle(self, peer: SendingPeer) -> None:
        if peer.has_input():
            self._idle_again.start(peer)
            return
        text = "the message is not complete, and nothing more comes"
        peer.message_is_late(ProtocolError("too-long", text, fatal=True), is_silent=True)
