"""doc/dcgm-fields.md says of DCGM's fields what the catalog has."""

from __future__ import annotations

import csv

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.fleet import Fleet
from tests.support.configurations import loaded
from tests.support.documents.field_table import DOCUMENT, FIELDS, REASONS, document, reason
from tests.support.paths import GOLDEN

TABLE = yaml.load(FIELDS.read_text(encoding="utf-8"), yaml.CSafeLoader)


def test_the_document() -> None:
    """As tests/support/documents/field_table.py writes it."""
    assert DOCUMENT.read_text(encoding="utf-8") == document()


@pytest.mark.slow
def test_how_many_can_be_shown() -> None:
    """At least 400 of DCGM's fields; on some board each has rows, but those that need a fault or a fan of its own."""
    names = [name for name in TABLE["fields"] if not name.startswith("DCGM_EXP_")]
    assert len(names) >= 400
    rows = {name: "label" in TABLE["fields"][name] for name in names}
    counters = "".join(f"  {name}, gauge, X.\n" for name in names if not rows[name])
    identity = f"name: all\nbased-on: dcgm\ncounters: |\n{counters}"
    shown: set[str] = set()
    racks = "racks: {kind: nvl72, smoothing-floor: 50, ramp-up: 100, ramp-down: 50}"
    for device, more in (("h100", ""), ("a100", "mig: [1g.5gb]"), ("t4", ""), ("gb200", racks)):
        divided = f", {more}" if more else ""
        pools = f"{{name: p, nodes: [n], device: {device}, devices-per-node: 2, identity: all.yaml{divided}}}"
        text = f"fleet: {{pools: [{pools}]}}\nweb: []\nworkloads: {{listen: []}}\n"
        configuration = loaded(text, {"all.yaml": identity})
        fleet = Fleet(configuration.fleet)
        page = Page(LabelCache(configuration.identities["p"], DeviceSource(fleet)), fleet.roster.nodes)
        shown |= {family.name for family in text_string_to_metric_families(page.render(fleet.state).decode())}
    missing = {name for name, is_label in rows.items() if not is_label} - shown
    assert missing == {"DCGM_FI_DEV_FAN_SPEED", "DCGM_FI_DEV_XID_ERRORS"}


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
