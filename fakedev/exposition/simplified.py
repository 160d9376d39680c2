"""An identity as it shows a fleet in which no device has parts."""

from __future__ import annotations

from dataclasses import replace

from fakedev.exposition.identity import Identity

#: What is the level of all devices where none has parts.
_DEVICES = frozenset(("unit", "whole"))


def without_parts(identity: Identity) -> Identity:
    """The same pages with the rows of one level: labels are written once for each device.

    The identity itself where it has no such rows.
    """
    if not any(row.level in _DEVICES for family in identity.families for row in family.rows):
        return identity
    families = tuple(
        replace(
            family,
            rows=tuple(replace(row, level="device") if row.level in _DEVICES else row for row in family.rows),
        )
        for family in identity.families
    )
    return replace(identity, families=families)
