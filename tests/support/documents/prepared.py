"""Writes the trees of the catalog's files: ``PYTHONPATH=. python -m tests.support.documents.prepared``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zlib import crc32

import fakedev.catalog
from fakedev.schema.places import Listing, Node, Report, Scalar
from fakedev.schema.reader import read_document

CATALOG = Path(fakedev.catalog.__file__).parent
SOURCES = sorted(CATALOG.glob("*/*.yaml"))


def prepared_of(source: Path) -> Path:
    """The file with the tree of a file of the catalog."""
    return CATALOG / "prepared" / source.parent.name / f"{source.stem}.json"


def prepared_text(source: Path) -> str:
    """The tree as :mod:`fakedev.schema.prepared` reads it."""
    text = source.read_text(encoding="utf-8")
    report = Report()
    node = read_document(text, source.name, report)
    report.raise_if_any()
    assert node is not None
    values = {"crc32": crc32(text.encode()), "tree": _values(node)}
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False) + "\n"


def _values(node: Node) -> list[Any]:
    line = node.place.line
    if isinstance(node, Scalar):
        return [line, node.text, int(node.quoted)]
    if isinstance(node, Listing):
        return [line, [_values(item) for item in node.items]]
    return [line, {key.text: [key.place.line, _values(value)] for key, value in node.entries}]


def write() -> None:
    """Write the tree of each file."""
    for source in SOURCES:
        file = prepared_of(source)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(prepared_text(source), encoding="utf-8")


if __name__ == "__main__":
    write()
