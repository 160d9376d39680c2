"""An identity as it shows a fleet in which no device has parts, nor tiles."""

from __future__ import annotations

from dataclasses import replace

from fakedev.exposition.identity import Identity

#: What is the level of all devices where none has parts.
_DEVICES = frozenset(("unit", "repeated", "whole", "single"))
#: Levels of which there is nobody then.
_NOBODY = frozenset(("part", "tile", "tiled"))


def without_parts(identity: Identity) -> Identity:
    """The same pages with the rows of one level: labels are written once for each device.

    The identity itself where it has no such rows.
    """
    if not any(row.level in _DEVICES | _NOBODY for family in identity.families for row in family.rows):
        return identity
    families = [
        replace(
            family,
            rows=tuple(
                replace(row, level="device") if row.level in _DEVICES else row
                for row in family.rows
                if row.level not in _NOBODY
            ),
        )
        for family in identity.families
    ]
    return replace(identity, families=tuple(family for family in families if family.rows))
