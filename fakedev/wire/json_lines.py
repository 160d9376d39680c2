"""Requests in JSON lines, the format for programs."""

from __future__ import annotations

from typing import Final

from fakedev.wire.argument_values import from_json
from fakedev.wire.errors import ProtocolError
from fakedev.wire.grammar import Grammar, Request, Verb, did_you_mean
from fakedev.wire.strict_json import kind_of, load_object

_MAX_ID_CHARACTERS: Final = 256
_MAX_ID: Final = 2**63


def parse_json_line(line: bytes, grammar: Grammar) -> Request:
    """Parse a request.

    :raises ProtocolError: ``unknown-verb`` or ``bad-argument``, with the id of the request if it could be read.
    """
    fields = load_object(line)
    request_id = fields.pop("id", None)
    if type(request_id) is not int or not -_MAX_ID <= request_id < _MAX_ID:
        request_id = _request_id(request_id)
    try:
        verb = _verb(fields, grammar)
        return Request(verb.name, verb.checked(_arguments(verb, fields)), request_id)
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


def _verb(fields: dict[str, object], grammar: Grammar) -> Verb:
    name = fields.pop("op", None)
    if not isinstance(name, str):
        raise ProtocolError("bad-argument", f"op: must be a text, not {kind_of(name)}" if name else "op: missing")
    return grammar.find(name)


def _arguments(verb: Verb, fields: dict[str, object]) -> dict[str, object]:
    plain_types = verb.plain_types_by_name
    found: dict[str, object] = {}
    for name, value in fields.items():
        if type(value) in plain_types.get(name, ()) or (value := _checked(verb, name, value)) is not None:
            found[name] = value
    return found


def _checked(verb: Verb, name: str, value: object) -> object:
    """The value of an argument or a flag; None if it counts as not given."""
    argument = verb.arguments_by_name.get(name)
    if argument is not None:
        return None if value is None else from_json(argument, value)
    if name not in verb.flag_names:
        hint = did_you_mean(name, [*verb.arguments_by_name, *verb.flag_names])
        raise ProtocolError("bad-argument", f"{name[:100]}: not an argument of {verb.name}{hint}")
    if not isinstance(value, bool | None):
        raise ProtocolError("bad-argument", f"{name}: must be true or false, not {kind_of(value)}")
    return value or None
