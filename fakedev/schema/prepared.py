"""Trees of the package's own YAML files, kept as JSON: to read them needs no PyYAML, and half of the time.

A scalar is ``[LINE, TEXT, IS_QUOTED]``, a list ``[LINE, [ITEM, ...]]``, a mapping ``[LINE, {KEY: [LINE, VALUE]}]``.
``python -m tests.support.documents.prepared`` writes them.
"""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

from fakedev.schema.places import Node, NodeBuilder, Report


def read_prepared(prepared: str, source: str, file: str, report: Report) -> Node | None:
    """The tree of a source; None where it was not prepared, or was prepared of another text.

    :param prepared: JSON with the tree, and the CRC-32 of its source in UTF-8.
    :param file: the source's name, as problems shall show it.
    """
    values = json.loads(prepared or "{}")
    if values.get("crc32") != crc32(source.encode()):
        return None
    return _node(values["tree"], NodeBuilder(file, report))


def _node(values: list[Any], builder: NodeBuilder) -> Node:
    line, value, *quoted = values
    if isinstance(value, str):
        return builder.scalar(value, line, quoted=quoted != [0])
    if isinstance(value, list):
        return builder.listing([_node(item, builder) for item in value], line)
    return builder.table([(builder.key(key, at), _node(item, builder)) for key, (at, item) in value.items()], line)
