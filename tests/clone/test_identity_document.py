"""Identities as documents: what is written reads as the same identity."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakedev.clone.document import file_text
from fakedev.clone.identity_changes import identity_document, with_seen_labels
from fakedev.exporters.identity import Identity
from fakedev.exporters.samples import read_page
from fakedev.exporters.settings.catalog import Catalog
from fakedev.schema.files import Files
from fakedev.schema.places import Place, Report
from tests.support.identities import TITLES

PATH = "/clone/identity.yaml"


def as_written(name: str) -> Identity:
    """An identity of the catalog without what windows add."""
    found = Catalog(Files(environ={}), Report()).identity(name, Place("test"))
    assert found is not None
    return found.as_written or found.identity


def read_again(identity: Identity, base: str) -> Identity:
    """What reading the document of an identity gives, with the name and the version of the given one."""
    text = file_text(identity_document("copy", base, identity, as_written(base)))
    report = Report()
    found = Catalog(Files(environ={}, made={PATH: text}), report).identity(PATH, Place("test"))
    report.raise_if_any()
    assert found is not None
    return replace(found.as_written or found.identity, name=identity.name, version=identity.version)


@pytest.mark.parametrize("title", TITLES)
def test_families_in_another_order(title: str) -> None:
    """All keys of all families of the catalog: reversed, each family has to be written."""
    identity = as_written(title)
    turned = replace(identity, families=identity.families[::-1])
    assert read_again(turned, title) == turned


def test_only_what_differs_is_written() -> None:
    """A family less is `without`; one that is changed is `also`."""
    base = as_written("dcgm@4.8.2")
    first, second, *rest = base.families
    less = replace(base, families=(first, *rest))
    assert identity_document("copy", "dcgm@4.8.2", less, base) == {
        "name": "copy", "based-on": "dcgm@4.8.2", "without": [second.name],
    }  # fmt: skip
    other = replace(base, families=(replace(first, help="Other."), second, *rest))
    document = identity_document("copy", "dcgm@4.8.2", other, base)
    assert [family["help"] for family in document["also"]] == ["Other."]
    assert read_again(other, "dcgm@4.8.2") == other


def test_labels_of_owners_on_an_idle_page() -> None:
    """A Prometheus keeps no empty labels, so that their absence says nothing; on a page itself it does."""
    page = read_page('gpu_gfx_activity{gpu_id="0",hostname="amd-0",serial_number="131"} 0\n')
    stored, plain = (
        {label.name: label.optional for label in
         with_seen_labels(as_written("amd-device-metrics@1"), page, is_stored=is_stored).labels}
        for is_stored in (True, False)
    )  # fmt: skip
    assert stored["pod"]
    assert "pod" not in plain
    assert "deployment_mode" not in stored
