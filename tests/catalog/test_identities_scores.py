"""The built-in identities against every reference text: nothing differs that is not explained."""

from __future__ import annotations

import pytest

from tests.support.documents.identity_scores import CASES, DOCUMENT, Case, with_own_section
from tests.support.paths import GOLDEN

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"the reference texts are not at hand ({GOLDEN})")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.identity}-{case.file[:40]}")
def test_each_difference_is_explained(case: Case) -> None:
    """And each explanation explains something."""
    differences = case.result().differences
    assert [str(each) for each in differences if case.explanation(each) is None] == []
    given = {case.explanation(each) for each in differences}
    assert {why for _, _, why in case.explained} == given


def test_every_page_is_compared() -> None:
    """All texts that are pages of an exporter, but for the exporter's own test text of no metric of its."""
    texts = {path.name for path in GOLDEN.glob("*.prom")} - {"dcgm-exporter-4.8.2-test-render.prom"}
    assert {case.file for case in CASES} == texts


@pytest.mark.slow
def test_the_document_has_the_scores() -> None:
    """As tests/support/documents/identity_scores.py writes them."""
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document == with_own_section(document)
