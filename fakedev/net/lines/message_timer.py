"""Limits the time that a peer may take for one message."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime


class MessageTimer:
    """Counts the seconds since the first byte of an incomplete message, and since its last byte.

    :param message_seconds: for the message to become complete, however its bytes are spread.
    :param idle_seconds: without any byte of the first message; None for no such limit.
    :param too_slow: called when the message is not complete in time.
    :param idle: called when no byte arrived for ``idle_seconds``.
    """

    __slots__ = (
        "_clock", "_idle", "_idle_call", "_idle_seconds", "_message", "_message_call", "_message_seconds", "_too_slow",
    )  # fmt: skip

    def __init__(
        self,
        clock: IReactorTime,
        message_seconds: float,
        idle_seconds: float | None,
        too_slow: Callable[[], None],
        idle: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._message_seconds = message_seconds
        self._idle_seconds = idle_seconds
        self._too_slow = too_slow
        self._idle = idle
        self._message = -1
        self._message_call: IDelayedCall | None = None
        self._idle_call: IDelayedCall | None = None

    def bytes_received(self, message: int) -> None:
        """Bytes have arrived, and the message of this number is incomplete."""
        if self._message_call is None or message != self._message:
            self.stop()
            self._message = message
            self._message_call = self._clock.callLater(self._message_seconds, self._expire, self._too_slow)
        if self._idle_seconds is None:
            return
        if self._idle_call is not None:
            self._idle_call.reset(self._idle_seconds)
        elif message == 0:
            self._idle_call = self._clock.callLater(self._idle_seconds, self._expire, self._idle)

    def stop(self) -> None:
        """The message is complete, or is not waited for."""
        for call in (self._message_call, self._idle_call):
            if call is not None and call.active():
                call.cancel()
        self._message_call = self._idle_call = None

    def _expire(self, callback: Callable[[], None]) -> None:
        self.stop()
        callback()
