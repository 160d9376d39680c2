"""Fields of bare JSON, with the rules of the original programs: any letter case; null and missing are the same.

The functions raise ProtocolError ``bad-argument``, with the name of the field, for other types.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Final, TypeVar

from fakedev.lines.grammar import ProtocolError
from fakedev.lines.json_lines import kind_of

T = TypeVar("T")

#: Ignored fields that are named in the log: a message may have thousands.
MAX_NOTES: Final = 10
_NUMBERS: Final = (int, float)  # int | float makes a new union each time


def known_fields(
    fields: Mapping[str, object], names: tuple[str, ...], where: str, notes: list[str]
) -> dict[str, object]:
    """The fields by their canonical names, matched in any letter case. Missing fields are None.

    :param notes: receives a line for each ignored field, up to MAX_NOTES, and one for the others.
    """
    found: dict[str, object] = dict.fromkeys(names)
    if fields.keys() <= found.keys():  # as the original programs write them
        found.update(fields)
        return found
    canonical = _by_folded_name(names)
    for key, value in fields.items():
        name = canonical.get(key.casefold())
        if name is None:
            if len(notes) < MAX_NOTES:
                notes.append(f"{where}{key[:100]}: unknown, ignored")
            elif len(notes) == MAX_NOTES:
                notes.append("further fields: unknown, ignored")
        else:
            found[name] = value
    return found


@cache
def _by_folded_name(names: tuple[str, ...]) -> Mapping[str, str]:
    return {name.casefold(): name for name in names}


def list_field(where: str, value: object) -> list[object]:
    return _typed(where, value, list, [], "a list")


def text_field(where: str, value: object) -> str:
    return _typed(where, value, str, "", "a text")


def texts_field(where: str, value: object) -> tuple[str, ...]:
    return tuple([text_field(f"{where}[{place}]", entry) for place, entry in enumerate(list_field(where, value))])


def bool_field(where: str, value: object) -> bool:
    return _typed(where, value, bool, False, "true or false")


def whole_field(where: str, value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProtocolError("bad-argument", f"{where}: must be a whole number")
    return value


def number_field(where: str, value: object) -> float:
    if value is None:
        return 0.0
    if not isinstance(value, _NUMBERS) or isinstance(value, bool):
        raise ProtocolError("bad-argument", f"{where}: must be a number, not {kind_of(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ProtocolError("bad-argument", f"{where}: is too large")
    return number


def _typed(where: str, value: object, expected: type[T], default: T, name: str) -> T:
    if value is None:
        return default
    if not isinstance(value, expected):
        raise ProtocolError("bad-argument", f"{where}: must be {name}, not {kind_of(value)}")
    return value
