"""Records of bytes, declared field by field: signed 64-bit numbers in the byte order of the machine, and texts that end
with a zero.

They have no padding, so that C, NumPy and this module lay them out alike.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

NUMBER_BYTES: Final = 8


class Field(NamedTuple):
    """A field of a record.

    :ivar text_bytes: of a text, with the zero at its end, a multiple of 8; 0: it is a number.
    :ivar quantity: that it shows, times ``factor``, as a whole number; empty: of none.
    :ivar fact: that it shows, times ``factor`` if it is a number; empty: of none.
    """

    name: str
    doc: str
    unit: str = ""
    text_bytes: int = 0
    quantity: str = ""
    fact: str = ""
    factor: float = 1.0

    @property
    def c_declaration(self) -> str:
        """The member of a C structure."""
        return f"char {self.name}[{self.text_bytes}]" if self.text_bytes else f"int64_t {self.name}"

    @property
    def source(self) -> str:
        """What it shows, for people."""
        if not self.quantity and not self.fact:
            return ""
        times = "" if self.factor == 1.0 else f" x {self.factor:g}"
        return f"`{self.quantity}`{times}" if self.quantity else f"fact `{self.fact}`{times}"


@dataclass(frozen=True)
class Record:
    """A record: its fields in order."""

    name: str
    doc: str
    fields: tuple[Field, ...]

    @cached_property
    def offsets(self) -> Mapping[str, int]:
        """The place of each field in bytes."""
        found, place = {}, 0
        for field in self.fields:
            found[field.name] = place
            place += field.text_bytes or NUMBER_BYTES
        return found

    @property
    def size(self) -> int:
        """Bytes of the record."""
        return sum(field.text_bytes or NUMBER_BYTES for field in self.fields)

    @property
    def quantities(self) -> tuple[Field, ...]:
        """The fields that show quantities; they follow each other."""
        return tuple(field for field in self.fields if field.quantity)

    def pack(self, values: Mapping[str, int | str | bytes]) -> bytes:
        """The bytes of a record; fields without a value are 0 or empty, and texts that are too long are cut."""
        parts = []
        for field in self.fields:
            value = values.get(field.name, 0 if not field.text_bytes else "")
            if field.text_bytes:
                parts.append(text_of(value, field.text_bytes))
            else:
                parts.append(struct.pack("=q", value))
        return b"".join(parts)

    def unpack(self, content: bytes, start: int = 0) -> dict[str, int | str]:
        """The values of a record in some bytes."""
        found: dict[str, int | str] = {}
        for field in self.fields:
            place = start + self.offsets[field.name]
            if field.text_bytes:
                found[field.name] = content[place : place + field.text_bytes].split(b"\0")[0].decode("utf-8", "replace")
            else:
                found[field.name] = struct.unpack_from("=q", content, place)[0]
        return found


def text_of(value: object, size: int) -> bytes:
    """A text as bytes with at least one zero at its end: cut between two characters if it is too long."""
    content = value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
    if len(content) >= size:
        content = content[: size - 1].decode("utf-8", "ignore").encode()
    return content.ljust(size, b"\0")


def quantity_fields(quantities: Sequence[tuple[str, str, float, str]]) -> tuple[Field, ...]:
    """The fields of some quantities.

    :param quantities: of each the name of the field, the quantity, the factor and the unit.
    """
    return tuple(Field(name, "", unit, quantity=quantity, factor=factor) for name, quantity, factor, unit in quantities)
