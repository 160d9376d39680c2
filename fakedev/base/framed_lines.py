"""Lines that show damage: the length of their text in bytes, its CRC-32 in hexadecimal, and the text."""

from __future__ import annotations

from zlib import crc32


def framed(text: bytes) -> bytes:
    """A line with its line break."""
    return b"%d %08x %b\n" % (len(text), crc32(text), text)


def unframed(line: bytes) -> bytes | None:
    """The text of a line; None if it is damaged or incomplete."""
    length, _, rest = line.partition(b" ")
    checksum, _, end = rest.partition(b" ")
    text = end[:-1]
    return text if end[-1:] == b"\n" and length == b"%d" % len(text) and checksum == b"%08x" % crc32(text) else None
