"""Messages of the node port in JSON lines, as fakedev-node sends and receives them."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fakedev.spec.errors import FieldError
from fakedev.spec.nvml_layout import VERSION, Counts, head_of
from fakedev.wire.errors import ProtocolError, error_in_words
from fakedev.wire.framing import MAX_BYTES
from fakedev.wire.strict_json import load_object

#: Room for the other fields of a report.
_BESIDE_BYTES = 200
#: How slots are compressed: to a tenth, in less than a millisecond.
_FASTEST = 1
#: Of a slot: much more than any node has.
_MAX_SLOT_BYTES = 16 << 20


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


def slot_fields(counts: Counts, content: bytes) -> dict[str, object]:
    """The fields of the answer to ``boards``.

    :param content: the bytes of a slot of the file for NVML.
    """
    packed = zlib.compress(content, _FASTEST)
    return {"layout": VERSION, "counts": list(counts), "slot": b64encode(packed).decode("ascii")}


def slot_from(fields: Mapping[str, object]) -> tuple[Counts, bytes]:
    """What a slot has room for, and its bytes, of such fields.

    :raises FieldError: when they are not those of this layout.
    """
    if fields.get("layout") != VERSION:
        raise FieldError("layout", f"must be {VERSION}: the service is another version of fakedev")
    given, packed = fields.get("counts"), fields.get("slot")
    if not isinstance(given, list) or len(given) != len(Counts._fields) or not all(type(each) is int for each in given):
        raise FieldError("counts", f"must be {len(Counts._fields)} whole numbers")
    if not isinstance(packed, str):
        raise FieldError("slot", "must be a text")
    counts = Counts(*given)
    size = head_of(counts)["slot_bytes"]
    if min(counts) < 0 or not isinstance(size, int) or size > _MAX_SLOT_BYTES:
        raise FieldError("counts", f"must make a slot of at most {_MAX_SLOT_BYTES} bytes")
    try:
        content = zlib.decompressobj().decompress(b64decode(packed, validate=True), size + 1)
    except (ValueError, NoBase64, zlib.error):
        raise FieldError("slot", "must be compressed bytes in base64") from None
    if len(content) != size:
        raise FieldError("slot", f"must have {size} bytes: the service is another version of fakedev")
    return counts, content
