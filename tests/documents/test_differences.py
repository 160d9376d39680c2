"""The rows of doc/switching.md on images and charts."""

from __future__ import annotations

import re

import pytest

from tests.support.documents.differences import DOCUMENT, ROWS, Row, written
from tests.support.paths import ROOT

ALL = [row for rows in ROWS.values() for row in rows]


def test_the_document_has_the_rows() -> None:
    """As ``python -m tests.support.documents.differences`` writes them."""
    assert DOCUMENT.read_text(encoding="utf-8") == written()


@pytest.mark.parametrize("row", ALL, ids=lambda row: row.what)
def test_a_row(row: Row) -> None:
    """Its test exists, and a difference has all of its three texts."""
    path, *names = row.test.split("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert re.search(rf"^ *(?:async )?def {names[-1]}\(", text, re.MULTILINE)
    assert bool(row.there) == bool(row.here) == bool(row.reason)
