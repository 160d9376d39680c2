"""Messages of the node port in JSON lines, as fakedev-node sends and receives them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fakedev.wire.errors import ProtocolError, error_in_words
from fakedev.wire.framing import MAX_BYTES
from fakedev.wire.strict_json import load_object

#: Room for the other fields of a report.
_BESIDE_BYTES = 200


class Answer(NamedTuple):
    """A good answer.

    :param request: the number of the request; None for ``auth``.
    """

    request: int | None
    fields: Mapping[str, object]


class Refusal(NamedTuple):
    """An error.

    :param request: None when the service refuses the connection.
    """

    request: int | None
    code: str
    text: str


class Notice(NamedTuple):
    """A message that answers no request, as ``changed``."""

    event: str
    fields: Mapping[str, object]


NodeMessage = Answer | Refusal | Notice


def parse_node_message(line: bytes) -> NodeMessage:
    """Parse a line from the service.

    :raises ProtocolError: when it is none of this protocol.
    """
    if line.startswith(b"error "):  # too many connections: it does not know the format yet
        return Refusal(None, *error_in_words(line))
    fields = load_object(line)
    event = fields.pop("event", None)
    if isinstance(event, str):
        return Notice(event, fields)
    number = fields.pop("id", None)
    request = number if isinstance(number, int) else None
    if fields.pop("ok", None) is True:
        return Answer(request, fields)
    error = fields.get("error")
    if not isinstance(error, dict):
        raise ProtocolError("bad-argument", "neither an answer nor an event")
    return Refusal(request, str(error.get("code", "")), str(error.get("message", "")))


def report_parts(allocations: Sequence[Mapping[str, object]]) -> Iterator[dict[str, object]]:
    """The arguments of the ``report`` requests for a list, each within a line's bytes."""
    part: list[Mapping[str, object]] = []
    room = MAX_BYTES - _BESIDE_BYTES
    for each in allocations:
        size = len(json.dumps(each, separators=(",", ":"))) + 1
        if part and size > room:
            yield {"allocations": part, "more": True}
            part, room = [], MAX_BYTES - _BESIDE_BYTES
        part.append(each)
        room -= size
    yield {"allocations": part}
