"""The errors of the rules, which ports, API and configuration report."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """``; did you mean power?`` for the nearest known word; ``otherwise`` when none is near."""
    near = difflib.get_close_matches(word[:100], list(known), 1)
    return f"; did you mean {near[0]}?" if near else otherwise


class Refused(Exception):
    """An event or request that the rules do not allow.

    :param code: one of the error codes of the protocols (``bad-argument``, ``unknown-name``, ...).
    :param text: the fault and its remedy.
    :param where: the wrong field or name, if there is one.
    """

    def __init__(self, code: str, text: str, where: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.where = where


class FieldError(Refused):
    """A wrong field of a request or of a configuration entry."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__("bad-argument", f"{field}: {reason}", field)
        self.field = field
        self.reason = reason
