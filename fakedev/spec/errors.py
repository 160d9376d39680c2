"""The errors of the rules, which ports, API and configuration report."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

#: How many characters of a long error are shown: of its beginning, and of its end, which has the remedy.
_SHOWN: Final = (300, 700)


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """``; did you mean power?`` for the nearest known word; ``otherwise`` when none is near."""
    near = difflib.get_close_matches(word[:100], list(known), 1)
    return f"; did you mean {near[0]}?" if near else otherwise


def printable(text: str) -> str:
    """A text on one line, with unprintable characters as escapes."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def shortened(text: str) -> str:
    """An error's text without its middle, if that is long: it quotes what a user or a peer has given."""
    begin, end = _SHOWN
    return text if len(text) <= begin + end + 5 else f"{text[:begin]} ... {text[-end:]}"


class Refused(Exception):
    """An event or request that the rules do not allow.

    :param code: one of the error codes of the protocols (``bad-argument``, ``unknown-name``, ...).
    :param text: the fault and its remedy.
    :param where: the wrong field or name, if there is one.
    """

    def __init__(self, code: str, text: str, where: str = "") -> None:
        self.code = code
        self.text = shortened(text)
        super().__init__(self.text)
        self.where = where


class FieldError(Refused):
    """A wrong field of a request or of a configuration entry."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__("bad-argument", f"{field}: {reason}", field)
        self.field = field
        self.reason = shortened(reason)
