"""Published alert rules: each fires by a cause, or is shown to be broken; the document says so."""

from __future__ import annotations

from fakedev.fleet.spec.fault_kinds import KINDS
from tests.support.documents.public_rules import DOCUMENT, published, with_own_section


def test_each_has_a_cause_or_a_defect() -> None:
    """And none is there twice."""
    rules = published()
    assert len({(rule.expression, rule.waits) for rule in rules}) == len(rules) > 100
    assert [rule for rule in rules if not rule.cause and not rule.defect] == []
    assert [rule.cause for rule in rules if rule.needs_fault and rule.cause.split()[0] not in KINDS] == []


def test_the_document() -> None:
    page = DOCUMENT.read_text(encoding="utf-8")
    assert with_own_section(page) == page
