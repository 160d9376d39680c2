"""Strict JSON: values that would cause errors later are refused."""

from __future__ import annotations

import json
import math
from typing import Final, NoReturn

import orjson

from fakedev.wire.errors import ProtocolError
from fakedev.wire.json_scan import is_deeper_than

#: Maximum nesting of objects and arrays.
MAX_LEVELS: Final = 64

_KINDS: Final[dict[type, str]] = {
    bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object",
}  # fmt: skip


def load_object(data: bytes, *, last_one_counts: bool = False) -> dict[str, object]:
    """Parse an object.

    Refused are NaN, infinities, numbers beyond a float, texts with half a surrogate pair (UTF-8 cannot encode them),
    nesting beyond MAX_LEVELS, and duplicate keys. Integers over 64 bits become floats.

    :param last_one_counts: accept duplicate keys, as Go does: the last one counts.
    :raises ProtocolError: ``bad-argument``, with what is wrong and where.
    """
    # Most messages are certainly flat and valid, and this takes a sixth of the time. orjson drops duplicate keys, so
    # the keys are counted: each has a colon, and usually no other byte is a colon. Empty objects may be nested in
    # lists. orjson makes floats of integers over 64 bits.
    if data.count(b"[") < MAX_LEVELS - 1:
        try:
            plain = orjson.loads(data)
        except orjson.JSONDecodeError:
            plain = None
        if type(plain) is dict and (data.count(b":") == len(plain) or _has_no_duplicate_key(data, len(plain))):
            return plain
    value = _load(data, last_one_counts=last_one_counts)
    if not isinstance(value, dict):
        raise ProtocolError("bad-argument", f"must be a JSON object, not {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    """The type of a JSON value, in words."""
    return _KINDS.get(type(value), "null")


def _has_no_duplicate_key(data: bytes, keys: int) -> bool:
    """Whether an object with this many different keys certainly has no duplicates, though some text has a colon.

    If no text has an escape, and no blank precedes a colon, each key ends with ``":`` and no other text does.
    """
    if b"\\" in data or data.count(b"{") != 1 or data.count(b'":') != keys:
        return False
    return not (b" :" in data or b"\t:" in data or b"\n:" in data or b"\r:" in data)


def _load(data: bytes, *, last_one_counts: bool) -> object:
    if is_deeper_than(data, MAX_LEVELS):
        raise ProtocolError("bad-argument", f"JSON nested deeper than {MAX_LEVELS} levels")
    try:
        value: object = json.loads(
            data.decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=_last_key_last if last_one_counts else _unique_keys,
        )
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise ProtocolError("bad-argument", f"not UTF-8 at byte {error.start + 1}") from None
    except UnicodeEncodeError:
        raise ProtocolError("bad-argument", "a text contains half a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise ProtocolError("bad-argument", f"not JSON: {error.msg}, at character {error.pos + 1}") from None
    except ValueError:
        raise ProtocolError("bad-argument", "a number has too many digits") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ProtocolError("bad-argument", f"not JSON: {name} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ProtocolError("bad-argument", f"the number {text[:40]} is too large")
    return number


def _integer(text: str) -> int | float:
    number = int(text)
    if -(2**63) <= number < 2**64:
        return number
    try:
        return float(number)
    except OverflowError:
        return number  # the check of the argument refuses it, with the name of the argument


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ProtocolError("bad-argument", f"{key[:100]}: given twice")
            seen.add(key)
    return result


def _last_key_last(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The pairs in the order of their last occurrences: known_fields then takes the last of all letter cases."""
    result: dict[str, object] = {}
    for key, value in pairs:
        result.pop(key, None)
        result[key] = value
    return result
