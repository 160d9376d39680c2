"""How to tell once of what fails again and again."""

from __future__ import annotations

import logging


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
