"""The built-in identities against every reference text: nothing differs that is not explained."""

from __future__ import annotations

import hashlib
import os

import pytest

from fakedev.clone.identity_scores import scored
from fakedev.exporters.samples import read_page
from fakedev.exporters.settings.catalog import Catalog
from fakedev.schema.files import Files
from fakedev.schema.places import Report
from tests.support.documents import held_out
from tests.support.documents.identity_scores import CASES, DOCUMENT, Case, with_own_section
from tests.support.paths import GOLDEN

pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"the reference texts are not at hand ({GOLDEN})")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.identity}-{case.file[:40]}")
def test_each_difference_is_explained(case: Case) -> None:
    """And each explanation explains something."""
    differences = case.result().differences
    assert [str(difference) for difference in differences if case.explanation(difference) is None] == []
    given = {case.explanation(difference) for difference in differences}
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


def test_captures_that_were_set_aside() -> None:
    """The document has their sources and scores, and each miss its reason."""
    found = held_out.captures()
    assert [each.sha256 for each in found] == sorted(each.sha256 for each in found)
    assert [each.file for each in found if (each.after < 100) != bool(each.differences)] == []
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document == held_out.with_own_section(document)


@pytest.mark.slow
@pytest.mark.skipif(not held_out.TEXTS.is_dir(), reason=f"the captures are not at hand ({held_out.TEXTS})")
@pytest.mark.parametrize("capture", held_out.captures(), ids=lambda capture: capture.file)
def test_the_score_of_a_capture(capture: held_out.HeldOut) -> None:
    text = (held_out.TEXTS / f"{capture.file}.prom").read_bytes()
    assert hashlib.sha256(text).hexdigest() == capture.sha256
    report = Report()
    scores = scored(
        read_page(text), capture.file, Catalog(Files(environ=os.environ), report), report,
        identity=capture.identity, device=capture.device, is_fragment=capture.is_fragment,
    )  # fmt: skip
    assert round(scores.best.result.percent, 1) == capture.after
