"""Trees of the package's own YAML files, kept as JSON: to read them needs no PyYAML, and half of the time.

A scalar is ``[LINE, TEXT, IS_QUOTED]``, a list ``[LINE, [ITEM, ...]]``, a mapping ``[LINE, {KEY: [LINE, VALUE]}]``.
``python -m tests.support.documents.prepared`` writes them.
"""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

from fakedev.schema.places import Listing, Node, Place, Scalar, Table, scalar_of


def read_prepared(prepared: str, source: str, file: str) -> Node | None:
    """The tree of a source; None where it was not prepared, or was prepared of another text.

    :param prepared: JSON with the tree, and the CRC-32 of its source in UTF-8.
    :param file: the source's name, as problems shall show it.
    """
    values = json.loads(prepared or "{}")
    if values.get("crc32") != crc32(source.encode()):
        return None
    return _node(values["tree"], file)


def _node(values: list[Any], file: str) -> Node:
    """The node without checks: the document of which it was prepared had no problem."""
    line, value, *quoted = values
    place = Place(file, line)
    if isinstance(value, str):
        return scalar_of(place, value, quoted != [0])
    if isinstance(value, list):
        return Listing(place, tuple([_node(item, file) for item in value]))
    entries = [(Scalar(Place(file, at), key, True), _node(item, file)) for key, (at, item) in value.items()]
    return Table(place, tuple(entries))
