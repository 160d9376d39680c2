"""When to try again what has failed, and how to tell of it once."""

from __future__ import annotations

import logging
from collections.abc import Callable


class Backoff:
    """Waits twice as long after each failure.

    :param first_seconds: after the first failure.
    :param last_seconds: at most.
    :param draw: a number from 0 to 1 for each wait, of which up to half is left out.
    """

    def __init__(
        self, first_seconds: float, last_seconds: float, draw: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._first_seconds = first_seconds
        self._last_seconds = last_seconds
        self._draw = draw
        self._next_seconds = first_seconds

    def failed(self) -> float:
        """The seconds to wait now."""
        seconds = self._next_seconds
        self._next_seconds = min(2 * seconds, self._last_seconds)
        return seconds * (1 - self._draw() / 2)

    def worked(self) -> None:
        """Begin anew."""
        self._next_seconds = self._first_seconds


class Trouble:
    """Tells once of each problem, however often it is met, and once that it is over.

    :param what: the subject of the messages.
    """

    def __init__(self, log: logging.Logger, what: str) -> None:
        self._log = log
        self._what = what
        self._text = ""

    def met(self, text: str) -> None:
        """There is a problem."""
        if text != self._text:
            self._text = text
            self._log.warning("%s: %s", self._what, text)

    def over(self, text: str = "") -> None:
        """It works now.

        :param text: what is told if there was a problem; empty: nothing.
        """
        if self._text and text:
            self._log.info("%s: %s", self._what, text)
        self._text = ""
