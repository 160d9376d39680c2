"""The catalog as prepared trees: what the YAML says, to the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakedev.schema.places import Report
from fakedev.schema.prepared import read_prepared
from fakedev.schema.reader import read_document
from tests.support.documents.prepared import CATALOG, SOURCES, prepared_of, prepared_text

REMEDY = "write the prepared trees again: PYTHONPATH=. .venv/bin/python -m tests.support.documents.prepared"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: f"{source.parent.name}-{source.stem}")
def test_is_up_to_date(source: Path) -> None:
    prepared, text = prepared_of(source), source.read_text(encoding="utf-8")
    assert prepared.exists() and prepared.read_text(encoding="utf-8") == prepared_text(source), REMEDY
    tree = read_prepared(prepared.read_text(encoding="utf-8"), text, "file.yaml")
    assert tree == read_document(text, "file.yaml", Report()) is not None


def test_no_others() -> None:
    assert {*CATALOG.glob("prepared/*/*")} == {*map(prepared_of, SOURCES)}, "remove what has no YAML file"


def test_a_changed_source_is_read_itself() -> None:
    """In a checkout, before its tree is prepared again; without a tree as well."""
    prepared = prepared_of(SOURCES[0]).read_text(encoding="utf-8")
    assert read_prepared(prepared, "name: other", "file.yaml") is None
    assert read_prepared("", "name: other", "file.yaml") is None
