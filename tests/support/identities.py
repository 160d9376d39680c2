"""The identities of the catalog as they are loaded, for tests that look at them as data."""

from __future__ import annotations

from functools import cache
from typing import Any

from fakedev.exporters.identity import Identity, LabelSpec
from fakedev.exporters.settings.catalog import Catalog
from fakedev.schema.files import Files
from fakedev.schema.places import Place, Report

#: All identities, and all releases of exporters with several, by their names with versions.
TITLES = tuple(name for name in Catalog(Files(environ={}), Report()).identity_names() if "@" in name)


@cache
def loaded(title: str) -> Identity:
    """An identity by its name with version."""
    report = Report()
    found = Catalog(Files(environ={}), report).identity(title, Place("test"))
    report.raise_if_any()
    assert found is not None
    return found.identity


def written(title: str) -> dict[str, Any]:
    """An identity with all that it takes from others, with the keys of its YAML."""
    identity = loaded(title)
    return {
        "name": identity.name,
        "version": identity.version,
        "content-type": identity.content_type,
        "openmetrics": identity.openmetrics,
        "layout": identity.layout.value,
        "sort-labels": identity.sort_labels,
        "leading-labels": identity.leading_labels,
        "timestamps": identity.timestamps,
        "labels": [_label(label) for label in identity.labels],
        "families": [
            {
                "name": family.name,
                "type": family.kind,
                "help": family.help,
                "format": family.number.value,
                "rows": [
                    {
                        "quantity": row.quantity,
                        "plus": list(row.plus),
                        "per": row.per,
                        "requires": row.requires,
                        "unit": row.unit,
                        "level": row.level,
                        "labels": [_label(label) for label in row.labels],
                    }
                    for row in family.rows
                ],
            }
            for family in identity.families
        ],
        "not-covered": list(identity.not_covered),
    }


def _label(label: LabelSpec) -> dict[str, Any]:
    return {"name": label.name, "value": label.value} | ({"optional": True} if label.optional else {})
