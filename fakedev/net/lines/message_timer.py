"""How long a peer may take over one message."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from fakedev.net.system.nobody import tell_nobody


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
        self._too_slow = self._too_quiet = tell_nobody

    def _fire(self, told: Callable[[], None]) -> None:
        self.stop()
        told()
