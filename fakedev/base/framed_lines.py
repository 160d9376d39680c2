"""Lines that show damage: text after its length and checksum, and JSON objects with their checksum in them.

Files that people and other programs read too, as the record, stay JSON Lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from zlib import crc32

import orjson

#: The last key of an object, and its end.
_CHECKSUM: Final = b',"crc32":"%08x"}\n'
_CHECKSUM_BYTES: Final = len(_CHECKSUM % 0)


def framed(text: bytes) -> bytes:
    """The length of a text in bytes, its CRC-32 in hexadecimal, and the text, with a line break."""
    return b"%d %08x %b\n" % (len(text), crc32(text), text)


def unframed(line: bytes) -> bytes | None:
    """The text of a line; None if it is damaged or incomplete."""
    length, _, rest = line.partition(b" ")
    checksum, _, end = rest.partition(b" ")
    text = end[:-1]
    return text if end[-1:] == b"\n" and length == b"%d" % len(text) and checksum == b"%08x" % crc32(text) else None


def checked(fields: Mapping[str, object]) -> bytes:
    """An object, not an empty one, as a line of JSON.

    Its last key is ``crc32``, the checksum of the object without this key.
    """
    return _checked(orjson.dumps(fields))


def is_checked(line: bytes) -> bool:
    """Whether a line is as :func:`checked` has made it: neither changed nor incomplete."""
    return line == _checked(line[:-_CHECKSUM_BYTES] + b"}")


def _checked(text: bytes) -> bytes:
    return text[:-1] + _CHECKSUM % crc32(text)
