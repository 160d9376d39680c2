"""Requests in JSON lines, the format for programs."""

from __future__ import annotations

import math
from typing import Final

from fakedev.spec.errors import did_you_mean
from fakedev.wire.errors import ProtocolError
from fakedev.wire.grammar import Argument, Grammar, Kind, Request, Verb
from fakedev.wire.strict_json import kind_of, load_object

_MAX_ID_CHARACTERS: Final = 256
_MAX_ID: Final = 2**63
_ONLY_TEXTS: Final = {str}


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
        case Kind.MAPPING | Kind.SERIES_MAPPING | Kind.TEXT_MAPPING:
            return _checked_mapping(argument, value)
    if not fits:
        raise argument.refused(argument.name, kind_of(value))
    return value


def _checked_mapping(argument: Argument, value: object) -> object:
    if not isinstance(value, dict):
        raise argument.refused(argument.name, kind_of(value))
    types = str | list if argument.kind is Kind.SERIES_MAPPING else str
    takes_numbers = argument.kind is not Kind.TEXT_MAPPING
    for key, entry in value.items():
        if not isinstance(entry, types) and not (takes_numbers and _is_number(entry)):
            expected = argument.kind.value.removeprefix("names, each with ")
            text = f"{argument.name}: {key[:100]!r} must have {expected}, not {kind_of(entry)}"
            raise ProtocolError("bad-argument", text)
    return value


def _is_number(value: object) -> bool:
    """Whether a value is a number within the range of a float. True and false are not."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False
