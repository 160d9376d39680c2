"""The identities of the catalog, as data: what each must have to be shown at all."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from fakedev.base.names import COMPUTED_FACTS
from fakedev.exporters.identity import UNITS, Identity
from fakedev.exporters.labels import Template
from fakedev.exporters.row_levels import PAGE_QUANTITIES, PROCESS, PROCESS_PART
from fakedev.exporters.settings.catalog import Catalog
from fakedev.fleet.spec.quantities import KNOWN_QUANTITIES, tally_of
from fakedev.schema.files import Files
from fakedev.schema.places import Place, Report
from tests.support.identities import TITLES, loaded

METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
#: Facts that every board of the catalog has.
FACTS = {
    *COMPUTED_FACTS, "uuid", "serial", "pci_address", "device_file",
    "product_name", "vendor", "pci_device_id", "driver_version", "architecture", "memory_type",
}  # fmt: skip
#: Levels of rows of the catalog.
LEVELS = {
    "device", "held", "part", "unit", "repeated", "whole", "tile", "tiled", "single", "link", "xid/device",
    PROCESS, PROCESS_PART, *PAGE_QUANTITIES,
}  # fmt: skip
#: Facts that only entities of some levels have.
OF_LEVELS = {"cpu", "cpucore", "tile", "node_tile", "link", "port", "switch", "mig_id", "mig_profile", "part_uuid"}


@pytest.fixture(params=TITLES)
def identity(request: pytest.FixtureRequest) -> Identity:
    """Each identity in turn."""
    return loaded(request.param)


def test_families(identity: Identity) -> None:
    """Names are valid and unique; types are known."""
    names = [family.name for family in identity.families]
    assert len(names) == len(set(names)) > 0
    for family in identity.families:
        assert METRIC_NAME.fullmatch(family.name)
        assert family.kind in {"gauge", "counter"}
        assert family.help.strip() == family.help


def test_rows(identity: Identity) -> None:
    """Rows show known quantities of devices in known units; each row has different labels."""
    for family in identity.families:
        for row in family.rows:
            assert {name for name in row.named if tally_of(name) is None} <= set(KNOWN_QUANTITIES), family.name
            assert row.quantity or not row.plus
            assert row.quantity or row.constant or row.is_per_fact or not row.per
            assert row.unit in UNITS
            assert row.level in LEVELS or row.state_level == "link"
        for row, other in combinations(family.rows, 2):
            assert row.excludes(other) or row.labels != other.labels, family.name


def test_labels(identity: Identity) -> None:
    """Labels have valid names, templates of facts that every board has, and none is on a line twice."""
    common = [label.name for label in identity.labels]
    assert len(common) == len(set(common))
    assert 0 <= identity.leading_labels <= len(common)
    of_rows = [label for family in identity.families for row in family.rows for label in row.labels]
    of_levels = [label for _, labels in identity.labels_of_levels for label in labels]
    for label in (*identity.labels, *of_rows, *of_levels):
        assert LABEL_NAME.fullmatch(label.name)
        assert not label.name.startswith("__")
        facts = {*FACTS, *OF_LEVELS}
        assert label.optional or label.only_with in facts or set(Template.parse(label.value).facts) <= facts, label
    for family in identity.families:
        for row in family.rows:
            others = {label.name for label in identity.labels_on(row.level)}
            assert not {label.name for label in row.labels} & others, family.name
            assert row.level == "tile" or not any("{tile}" in label.value for label in row.labels), family.name


def test_not_covered(identity: Identity) -> None:
    """Omissions are described; a single word before the colon is a family that does not exist."""
    names = {family.name for family in identity.families}
    assert identity.not_covered, f"{identity.title}: give not-covered: at least one line"
    for text in identity.not_covered:
        head, _, reason = text.partition(": ")
        assert reason, text
        assert not set(head.split(", ")) & names, text


@pytest.mark.parametrize("title", TITLES)
def test_based_on(title: str) -> None:
    """An identity that is based on another and says nothing else shows the same families, number for number."""
    report = Report()
    made = Files(environ={}, made={"/own.yaml": f'{{name: own, version: "1", based-on: "{title}"}}'})
    found = Catalog(made, report).identity("/own.yaml", Place("test"))
    report.raise_if_any()
    assert found is not None
    assert (found.identity.families, found.identity.labels) == (loaded(title).families, loaded(title).labels)
