"""JSON lines: for programs."""

from __future__ import annotations

from typing import Final

from fakedev.wire.errors import ProtocolError
from fakedev.wire.grammar import Grammar, Request, Verb, did_you_mean, from_json
from fakedev.wire.strict_json import kind_of, load_object

_LONGEST_ID: Final = 256
_LARGEST_ID: Final = 2**63


def parse_json_line(line: bytes, grammar: Grammar) -> Request:
    """The request that an object says; its arguments have the names that words use.

    :raises ProtocolError: ``unknown-verb`` or ``bad-argument``, with the request's id when it could be read.
    """
    fields = load_object(line)
    request_id = fields.pop("id", None)
    if type(request_id) is not int or not -_LARGEST_ID <= request_id < _LARGEST_ID:
        request_id = _request_id(request_id)
    try:
        verb = _verb(fields, grammar)
        return Request(verb.name, verb.checked(_arguments(verb, fields)), request_id)
    except ProtocolError as error:
        error.request_id = request_id
        raise


def _request_id(value: object) -> str | None:
    """An id that is no integer."""
    if value is None or (isinstance(value, str) and len(value) <= _LONGEST_ID):
        return value
    raise ProtocolError("bad-argument", f"id: must be a text of at most {_LONGEST_ID} characters or a 64-bit integer")


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
    """The value of an argument or a flag; None when it is as if it were not given."""
    argument = verb.arguments_by_name.get(name)
    if argument is not None:
        return None if value is None else from_json(argument, value)
    if name not in verb.flag_names:
        hint = did_you_mean(name, [*verb.arguments_by_name, *verb.flag_names])
        raise ProtocolError("bad-argument", f"{name[:100]}: not an argument of {verb.name}{hint}")
    if not isinstance(value, bool | None):
        raise ProtocolError("bad-argument", f"{name}: must be true or false, not {kind_of(value)}")
    return value or None
