"""What a program that ends still waits for: an answer that is on its way, for a moment."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IReactorTime

from fakedev.net.backend.sources import FrontendLost, FrontendRefused

#: How long a program that ends waits for an answer.
LAST_WORDS_SECONDS: Final = 0.5

T = TypeVar("T")


class LastWords:
    """Waits for one thing at a time; when the program is to end, each wait ends too, by CancelledError.

    :ivar leaving: whether the program is to end.
    """

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._waited: Deferred[Any] | None = None
        self.leaving = False

    async def ask(self, asking: Coroutine[Any, Any, T]) -> T | None:
        """What a frontend is asked for; None when the wait ended because the program is to end."""
        try:
            return await self.wait(Deferred.fromCoroutine(asking))
        except (FrontendLost, FrontendRefused, CancelledError, ConnectingCancelledError):
            if self.leaving:
                return None
            raise

    def wait(self, waited: Deferred[T]) -> Deferred[T]:
        """Wait for this, as the one that is cancelled when there is no more time for it."""
        self._waited = waited
        if self.leaving:
            self._hurry(waited)
        return waited

    def leave(self) -> None:
        """Let the wait, and those to come, take no longer than a moment."""
        self.leaving = True
        if self._waited is not None:
            self._hurry(self._waited)

    def cut(self) -> None:
        """End the wait now."""
        self.leaving = True
        if self._waited is not None:
            self._waited.cancel()

    def _hurry(self, waited: Deferred[Any]) -> None:
        self._clock.callLater(LAST_WORDS_SECONDS, waited.cancel)
