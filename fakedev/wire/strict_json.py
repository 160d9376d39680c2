"""JSON as it may come from a peer: refused is what could hurt later."""

from __future__ import annotations

import json
import math
from typing import Final, NoReturn

import orjson

from fakedev.wire.errors import ProtocolError
from fakedev.wire.json_scan import is_deeper_than

#: Levels to which objects and arrays may be nested.
MAX_LEVELS: Final = 64

_KINDS: Final[dict[type, str]] = {
    bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object",
}  # fmt: skip


def load_object(data: bytes, *, last_one_counts: bool = False) -> dict[str, object]:
    """The object that the bytes hold.

    Not taken are NaN, infinities, numbers past a float, texts with half a surrogate pair (they cannot be
    written again), nesting beyond MAX_LEVELS, and keys given twice. Integers over 64 bits become floats.

    :param last_one_counts: take keys that are given twice, as Go does: the last one counts.
    :raises ProtocolError: ``bad-argument``, saying what is wrong and where.
    """
    plain = _load_plain(data)
    if plain is not None:
        return plain
    value = _load(data, last_one_counts=last_one_counts)
    if not isinstance(value, dict):
        raise ProtocolError("bad-argument", f"must be a JSON object, not {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    """What a JSON value is, in words."""
    return _KINDS.get(type(value), "null")


def _load_plain(data: bytes) -> dict[str, object] | None:
    """The object, when it is plain; None when that is not sure, or when something is wrong with it.

    Most messages are plain, and this takes a sixth of the time. orjson forgets keys that are given twice, so it is
    counted how many there are: each has a colon, and as a rule nothing else does. It makes floats of integers over 64
    bits, which nobody wants as they are.
    """
    if data.count(b"[") >= MAX_LEVELS - 1:  # an object without keys may be in them
        return None
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if type(value) is not dict:
        return None
    return value if data.count(b":") == len(value) or _has_no_key_twice(data, len(value)) else None


def _has_no_key_twice(data: bytes, keys: int) -> bool:
    """Whether that is sure of an object with so many different keys, though some text has a colon.

    Where no text has an escape, and no blank is before a colon, each key ends with ``":`` and nothing else does.
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
            object_pairs_hook=_last_one_last if last_one_counts else _no_key_twice,
        )
        if b"\\u" in data:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise ProtocolError("bad-argument", f"not UTF-8 at byte {error.start + 1}") from None
    except UnicodeEncodeError:
        raise ProtocolError("bad-argument", "a text holds half a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise ProtocolError("bad-argument", f"not JSON: {error.msg}, at character {error.pos + 1}") from None
    except ValueError:
        raise ProtocolError("bad-argument", "a number has too many digits") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ProtocolError("bad-argument", f"not JSON: {name} is no number")


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
        return number  # no argument can be so large: whoever reads it says which one was


def _no_key_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ProtocolError("bad-argument", f"{key[:100]}: given twice")
            seen.add(key)
    return result


def _last_one_last(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The pairs in the order of the last ones, so that names that differ in letter case only can be told apart."""
    result: dict[str, object] = {}
    for key, value in pairs:
        result.pop(key, None)
        result[key] = value
    return result
