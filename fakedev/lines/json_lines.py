"""JSON lines, the format of programs: requests, strict JSON, and the encoding of answers in all formats.

Strict JSON refuses values that would cause errors later. Answers, errors and notifications are encoded in words or
JSON lines; a bare workload gets one digit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

import orjson

from fakedev.base.errors import did_you_mean, printable
from fakedev.lines.framing import JSON_LINES, Dialect, is_deeper_than
from fakedev.lines.grammar import Argument, Grammar, Kind, ProtocolError, Request, Verb, has_type

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
    # Most messages are certainly valid, and this takes a sixth of the time. orjson drops duplicate keys, so the keys
    # are counted: each has a colon, and usually no other byte is a colon. It makes floats of integers over 64 bits.
    try:
        plain = orjson.loads(data)
    except orjson.JSONDecodeError:
        plain = None
    if type(plain) is dict:
        is_flat = data.count(b":") == len(plain) and data.count(b"[") < MAX_LEVELS - 1
        if is_flat or _has_no_duplicate_key(data, plain):
            return plain
    value = _load(data, last_one_counts=last_one_counts)
    if not isinstance(value, dict):
        raise ProtocolError("bad-argument", f"must be a JSON object, not {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    """The type of a JSON value, in words."""
    return _KINDS.get(type(value), "null")


def _has_no_duplicate_key(data: bytes, value: object) -> bool:
    """Whether a value, whose text is ``data``, certainly had no duplicate keys, and is not too deep.

    If no text has an escape, and no blank precedes a colon, each key ends with ``":`` and no other text does.
    """
    if b"\\" in data or b" :" in data or b"\t:" in data or b"\n:" in data or b"\r:" in data:
        return False
    keys, level = 0, [value]
    for _ in range(MAX_LEVELS):
        inner: list[object] = []
        for item in level:
            if type(item) is dict:
                keys += len(item)
                inner += item.values()
            elif type(item) is list:
                inner += item
        if not inner:
            return data.count(b'":') == keys
        level = inner
    return False


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


_MAX_ID_CHARACTERS: Final = 256
_MAX_ID: Final = 2**63
_LIST: Final = Kind.LIST  # before Python 3.12, to look it up in its class costs more than a call


def parse_json_line(line: bytes, grammar: Grammar) -> Request:
    """Parse a request.

    :raises ProtocolError: ``unknown-verb`` or ``bad-argument``, with the id of the request if it could be read.
    """
    fields = load_object(line)
    request_id = fields.pop("id", None)
    if type(request_id) is not int or not -_MAX_ID <= request_id < _MAX_ID:
        request_id = _request_id(request_id)
    try:
        name = fields.pop("op", None)
        if not isinstance(name, str):
            raise ProtocolError("bad-argument", f"op: must be a text, not {kind_of(name)}" if name else "op: missing")
        verb = grammar.find(name)
        try:
            return Request(verb.name, verb.checked(_arguments(verb, fields)), request_id)
        except ProtocolError:
            if verb.is_secret:
                raise verb.misused from None
            raise
    except ProtocolError as error:
        error.request_id = request_id
        raise


def _request_id(value: object) -> str | None:
    """An id that is not an integer."""
    if value is None or (isinstance(value, str) and len(value) <= _MAX_ID_CHARACTERS):
        return value
    raise ProtocolError(
        "bad-argument", f"id: must be a text of at most {_MAX_ID_CHARACTERS} characters or a 64-bit integer"
    )


def _arguments(verb: Verb, fields: dict[str, object]) -> dict[str, object]:
    plain_types = verb.plain_types_by_name
    found: dict[str, object] = {}
    for written, value in fields.items():
        if type(value) in plain_types.get(written, ()):
            found[written] = value
        elif value is not None and (argument := verb.arguments_by_name.get(written)) is not None:
            found[written] = _value(argument, value)
        else:
            name = verb.other_names.get(written, written)
            if name is not written and fields.get(name) is not None:
                raise ProtocolError("bad-argument", f"{written}: is the same as {name}: give one of the two")
            if (checked := _checked(verb, name, value)) is not None:
                found[name] = checked
    return found


def _checked(verb: Verb, name: str, value: object) -> object:
    """The value of an argument or a flag; None if it counts as not given."""
    argument = verb.arguments_by_name.get(name)
    if argument is not None:
        return None if value is None else _value(argument, value)
    if name not in verb.flag_names:
        hint = did_you_mean(name, [*verb.arguments_by_name, *verb.flag_names])
        raise ProtocolError("bad-argument", f"{name[:100]}: not an argument of {verb.name}{hint}")
    if not isinstance(value, bool | None):
        raise ProtocolError("bad-argument", f"{name}: must be true or false, not {kind_of(value)}")
    return value or None


def _value(argument: Argument, value: object) -> object:
    kind = argument.kind
    if kind is _LIST and type(value) is str:
        return value.split(",")
    fits = has_type(value, kind.types)
    if fits and isinstance(value, list) and kind.entries:
        fits = {*map(type, value)} <= kind.entries and (kind is _LIST or "\0" not in "".join(value))
    if not fits:
        raise argument.refused(argument.name, kind_of(value))
    if isinstance(value, dict) and kind.entries:
        for key, entry in value.items():
            if not has_type(entry, kind.entries):
                expected = kind.text.removeprefix("names, each with ")
                text = f"{argument.name}: {key[:100]!r} must have {expected}, not {kind_of(entry)}"
                raise ProtocolError("bad-argument", text)
    return value


_MAX_EXCERPT_BYTES = 400


@dataclass(slots=True)
class Reply:
    """An answer that reports success.

    :param text: follows ``ok`` in words.
    :param data: the fields of the object in JSON lines; None for the text or the lines.
    :param lines: a longer answer, instead of the text.
    """

    text: str = ""
    data: Mapping[str, object] | None = None
    lines: Sequence[str] | None = None


@dataclass(frozen=True)
class Notification:
    """An event that is sent to a peer without a request.

    :param data: the object in JSON lines; its ``event`` names the kind.
    """

    text: str
    data: Mapping[str, object]


def encode_reply(reply: Reply, way: Dialect, request_id: str | int | None = None) -> bytes:
    """Encode an answer in words or JSON lines."""
    if way is JSON_LINES:
        data = reply.data
        if data is None:
            text: Mapping[str, object] = {"text": reply.text} if reply.text else {}
            data = text if reply.lines is None else {"lines": list(reply.lines)}
        return _json_line({"ok": True, **data} if request_id is None else {"id": request_id, "ok": True, **data})
    if reply.lines is None:
        return _line(f"ok {reply.text}" if reply.text else "ok")
    return _line(f"ok {len(reply.lines)} lines") + b"".join(_line(line) for line in reply.lines)


def encode_error(error: ProtocolError, way: Dialect, request_id: str | int | None = None) -> bytes:
    if way is JSON_LINES:
        fields = {"ok": False, "error": {"code": error.code, "message": error.text}}
        return _json_line(fields if request_id is None else {"id": request_id, **fields})
    return _line(f"error {error.code} {error.text}")


def encode_notification(news: Notification, way: Dialect) -> bytes:
    return _json_line(news.data) if way is JSON_LINES else _line(news.text)


def bare_digit(code: int) -> bytes:
    """The only answer to a bare workload: 0 or 1."""
    return b"1" if code else b"0"


def excerpt(message: bytes) -> str:
    """A message as the log shows it: printable, and cut if it is long."""
    text = printable(message[:_MAX_EXCERPT_BYTES].decode("utf-8", "replace"))
    return text if len(message) <= _MAX_EXCERPT_BYTES else f"{text}... ({len(message)} bytes)"


def _line(text: str) -> bytes:
    return printable(text).encode("utf-8") + b"\n"


def _json_line(data: Mapping[str, object]) -> bytes:
    # ASCII only, with control characters and half surrogate pairs as escapes. orjson takes a third of the time, but
    # does not escape DEL and other characters that are not ASCII, and writes null for NaN.
    try:
        plain = orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        plain = b"null"
    text = plain.decode()  # a search in bytes takes several times as long as one in a text
    if text.isascii() and "\x7f" not in text and "null" not in text:
        return plain
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
