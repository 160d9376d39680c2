"""Limits the time that a peer may take for one message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from twisted.internet.interfaces import IReactorTime

from fakedev.net.system.timing import PatientCall
from fakedev.wire.errors import ProtocolError

#: The time is judged again after so long when input waits to be served.
_AGAIN_SECONDS: Final = 0.1


@dataclass(eq=False, slots=True)
class MessageTimer:
    """Counts the seconds since the first byte of an incomplete message, and since its last byte.

    :param message_seconds: for the message to become complete, however its bytes are spread.
    :param idle_seconds: without any byte of the first message; None for no such limit.
    :param has_input: whether bytes that have arrived wait to be served: they may complete the message.
    :param too_slow: called when the message is not complete in time.
    :param idle: called when no byte arrived for ``idle_seconds``.
    """

    _clock: IReactorTime
    _message_seconds: float
    _idle_seconds: float | None
    _has_input: Callable[[], bool]
    _too_slow: Callable[[], None]
    _idle: Callable[[], None]
    _message: int = -1
    _message_call: PatientCall | None = None
    _idle_call: PatientCall | None = None

    def bytes_received(self, message: int) -> None:
        """Bytes have arrived, and the message of this number is incomplete."""
        if self._message_call is None or message != self._message:
            self.stop()
            self._message = message
            self._message_call = PatientCall(
                self._clock, self._message_seconds, partial(self._expire, self._too_slow)
            )
        if self._idle_seconds is None:
            return
        if self._idle_call is not None:
            self._idle_call.reset(self._idle_seconds)
        elif message == 0:
            self._idle_call = PatientCall(self._clock, self._idle_seconds, partial(self._expire, self._idle))

    def stop(self) -> None:
        """The message is complete, or is not waited for."""
        for call in (self._message_call, self._idle_call):
            if call is not None and call.active():
                call.cancel()
        self._message_call = self._idle_call = None

    def _expire(self, callback: Callable[[], None]) -> None:
        if self._has_input():
            again = PatientCall(self._clock, _AGAIN_SECONDS, partial(self._expire, callback))
            if callback is self._idle:
                self._idle_call = again
            else:
                self._message_call = again
            return
        self.stop()
        callback()


def too_slow(message_seconds: float) -> ProtocolError:
    """The error for a message that is not complete after its time."""
    text = f"a message must be complete within {message_seconds:g} s"
    return ProtocolError("too-long", text, fatal=True)


def silent_inside_message() -> ProtocolError:
    """The error for a bare peer that sends nothing more of its message."""
    return ProtocolError("too-long", "the message is not complete, and nothing more comes", fatal=True)
