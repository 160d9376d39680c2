"""doc/dcgm-fields.md says of DCGM's fields what the catalog has."""

from __future__ import annotations

import csv

import pytest
import yaml

from tests.support.documents.field_table import DOCUMENT, FIELDS, REASONS, document, reason
from tests.support.paths import GOLDEN

TABLE = yaml.safe_load(FIELDS.read_text(encoding="utf-8"))


def test_the_document() -> None:
    """As tests/support/documents/field_table.py writes it."""
    assert DOCUMENT.read_text(encoding="utf-8") == document()


def test_reasons() -> None:
    """No field is in both lists; each reason is that of some field."""
    others = TABLE["not-simulated"]
    assert not set(TABLE["fields"]) & set(others)
    assert {reason(name) for name in others} == {why for _, why in REASONS}


@pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"the reference texts are not at hand ({GOLDEN})")
def test_all_fields_are_known() -> None:
    """Those of DCGM, with their numbers, but for the names that are only bounds of others."""
    with (GOLDEN / "dcgm-fields-4.5.3.csv").open(encoding="utf-8") as stream:
        numbers = {row["field_name"]: int(row["field_id"]) for row in csv.DictReader(stream)}
    bounds = {name for name in numbers if "FIELD_ID" in name or "INTERNAL_FIELDS" in name or name.endswith("_UNKNOWN")}
    aliases = {field.get("alias") for field in TABLE["fields"].values()}
    assert set(numbers) - bounds <= {*TABLE["fields"], *TABLE["not-simulated"], *aliases}
    wrong = {name for name, field in TABLE["fields"].items() if numbers.get(name, field["number"]) != field["number"]}
    assert not wrong
