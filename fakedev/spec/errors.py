"""The errors of the rules, which ports, API and configuration report."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

#: The least similarity of a suggestion, from 0 to 1: three letters with a wrong one have 0.67, chance gives 0.62.
_NEAR: Final = 0.65
_SHORTEST_PART: Final = 3


def nearest_name(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant: one with other letters, or one with more or fewer words.

    :returns: an empty text when none is near.
    """
    folded = {each.casefold(): each for each in known}
    word = word.casefold()[:100]
    near = difflib.get_close_matches(word, folded, 1, _NEAR)
    parts = (each for each in folded if min(len(word), len(each)) >= _SHORTEST_PART and (word in each or each in word))
    found = near[0] if near else min(parts, key=len, default="")
    return folded[found] if found else ""


def did_you_mean(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """``; did you mean power?`` for the nearest known word; ``otherwise`` when none is near."""
    nearest = nearest_name(word, known)
    return f"; did you mean {nearest}?" if nearest else otherwise


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
