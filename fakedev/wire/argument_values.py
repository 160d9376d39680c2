"""How a text or a JSON value becomes the value of an argument.

A text of words becomes what JSON would hold; the meaning of texts is for the rules.
"""

from __future__ import annotations

import math
import re
from typing import Final

from fakedev.wire.errors import ProtocolError
from fakedev.wire.grammar import Argument, Kind
from fakedev.wire.strict_json import kind_of

_WHOLE: Final = re.compile(r"-?[0-9]{1,30}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_ONLY_TEXTS: Final = {str}


def from_text(argument: Argument, text: str, earlier: object = None) -> object:
    """The value of an argument given in words.

    :param earlier: the value from an earlier occurrence in the same message.
    :raises ProtocolError: ``bad-argument``, naming the argument.
    """
    name = argument.name_in_words
    if argument.kind is Kind.MAPPING:
        return _with_number(name, text, earlier)
    if argument.kind is Kind.SERIES_MAPPING:
        return _with_text(name, text, earlier)
    if earlier is not None:
        raise ProtocolError("bad-argument", f"{name}: given twice")
    match argument.kind:
        case Kind.LIST:
            return text.split(",")
        case Kind.WHOLE:
            if not _WHOLE.fullmatch(text):
                raise _wrong(argument, name, repr(text[:100]))
            return int(text)
        case Kind.NUMBER:
            return _number(name, text)
        case Kind.DURATION if _NUMBER.fullmatch(text):
            return _number(name, text)
    return text


def from_words(argument: Argument, words: list[str]) -> object:
    """The value of the argument that takes all remaining words.

    :raises ProtocolError: ``bad-argument``, naming the argument.
    """
    if argument.kind is not Kind.WORDS:
        return from_text(argument, " ".join(words))
    for place, word in enumerate(words):
        if "\0" in word:
            raise ProtocolError(
                "bad-argument", f"{argument.name_in_words}[{place}]: contains a NUL, which a command cannot receive"
            )
    return words


def from_json(argument: Argument, value: object) -> object:
    """The value of an argument given as JSON.

    :raises ProtocolError: ``bad-argument``, naming the argument.
    """
    match argument.kind:
        case Kind.WORDS:
            fits = isinstance(value, list) and {*map(type, value)} <= _ONLY_TEXTS and "\0" not in "".join(value)
        case Kind.TEXT:
            fits = isinstance(value, str)
        case Kind.LIST:
            if isinstance(value, str):
                return value.split(",")
            fits = isinstance(value, list) and {*map(type, value)} <= _ONLY_TEXTS
        case Kind.SERIES:
            fits = isinstance(value, str | list | dict)
        case Kind.DURATION:
            fits = isinstance(value, str) or _is_number(value)
        case Kind.WHOLE:
            fits = isinstance(value, int) and not isinstance(value, bool)
        case Kind.NUMBER:
            fits = _is_number(value)
        case Kind.MAPPING | Kind.SERIES_MAPPING:
            return _checked_mapping(argument, value)
    if not fits:
        raise _wrong(argument, argument.name, kind_of(value))
    return value


def _checked_mapping(argument: Argument, value: object) -> object:
    if not isinstance(value, dict):
        raise _wrong(argument, argument.name, kind_of(value))
    types = str if argument.kind is Kind.MAPPING else str | list
    for key, entry in value.items():
        if not isinstance(entry, types) and not _is_number(entry):
            expected = argument.kind.value.removeprefix("names, each with ")
            text = f"{argument.name}: {key[:100]!r} must have {expected}, not {kind_of(entry)}"
            raise ProtocolError("bad-argument", text)
    return value


def _wrong(argument: Argument, name: str, found: str) -> ProtocolError:
    return ProtocolError("bad-argument", f"{name}: must be {argument.kind.value}, not {found}")


def _with_number(name: str, text: str, earlier: object) -> dict[str, object]:
    key, colon, number = text.rpartition(":")
    if not colon or not key:
        raise ProtocolError("bad-argument", f"{name}: {text[:100]!r} is not NAME:NUMBER")
    # A text that is not a number is a size, or wrong: the rules decide.
    return _with_entry(name, key, _number(name, number) if _NUMBER.fullmatch(number) else number, earlier)


def _with_text(name: str, text: str, earlier: object) -> dict[str, object]:
    key, _, rest = text.partition(":")
    if not key or not rest:
        raise ProtocolError("bad-argument", f"{name}: {text[:100]!r} is not NAME:PROFILE")
    return _with_entry(name, key, rest, earlier)


def _with_entry(name: str, key: str, value: object, earlier: object) -> dict[str, object]:
    entries = dict(earlier) if isinstance(earlier, dict) else {}
    if key in entries:
        raise ProtocolError("bad-argument", f"{name}: {key[:100]!r} is given twice")
    entries[key] = value
    return entries


def _number(name: str, text: str) -> float:
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise ProtocolError("bad-argument", f"{name}: {text[:100]!r} is not a finite number")
    return number


def _is_number(value: object) -> bool:
    """Whether a value is a number within the range of a float. True and false are not."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False
