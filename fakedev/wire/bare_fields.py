"""The fields of bare JSON, as the original programs read and write it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from fakedev.wire.errors import ProtocolError
from fakedev.wire.strict_json import kind_of


def known_fields(
    fields: Mapping[str, object], names: tuple[str, ...], where: str, notes: list[str]
) -> dict[str, object]:
    """The fields by their proper names, found in any letter case; None for those that are missing.

    :param notes: gets a line for each field that is ignored.
    """
    proper = _by_folded_name(names)
    found: dict[str, object] = dict.fromkeys(names)
    for key, value in fields.items():
        name = proper.get(key.casefold())
        if name is None:
            notes.append(f"{where}{key[:100]}: unknown, ignored")
        else:
            found[name] = value
    return found


@cache
def _by_folded_name(names: tuple[str, ...]) -> Mapping[str, str]:
    return {name.casefold(): name for name in names}


def list_field(where: str, value: object) -> list[object]:
    """A list; empty when it is missing.

    :raises ProtocolError: ``bad-argument``, naming the field.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise ProtocolError("bad-argument", f"{where}: must be a list, not {kind_of(value)}")
    return value


def text_field(where: str, value: object) -> str:
    """A text; empty when it is missing.

    :raises ProtocolError: ``bad-argument``, naming the field.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ProtocolError("bad-argument", f"{where}: must be a text, not {kind_of(value)}")
    return value


def whole_field(where: str, value: object) -> int:
    """A whole number; 0 when it is missing.

    :raises ProtocolError: ``bad-argument``, naming the field.
    """
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProtocolError("bad-argument", f"{where}: must be a whole number")
    return value


def bool_field(where: str, value: object) -> bool:
    """True or false; false when it is missing.

    :raises ProtocolError: ``bad-argument``, naming the field.
    """
    if not isinstance(value, bool | None):
        raise ProtocolError("bad-argument", f"{where}: must be true or false, not {kind_of(value)}")
    return bool(value)


def number_field(where: str, value: object) -> float:
    """A finite number; 0 when it is missing.

    :raises ProtocolError: ``bad-argument``, naming the field.
    """
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ProtocolError("bad-argument", f"{where}: must be a number, not {kind_of(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ProtocolError("bad-argument", f"{where}: is too large")
    return number
