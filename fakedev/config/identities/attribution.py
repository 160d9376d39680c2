"""Whose a shared device is, on the pages of a pool."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fakedev.config.schema.schema import Key
from fakedev.config.schema.types import Choice
from fakedev.exposition.identity import Identity, SharedDevices

ATTRIBUTION: Final = Key(
    "attribution",
    Choice(("as-vendor", "honest")),
    "Whose a device is that several pods share. as-vendor: whose the exporter says; honest: nobody's, "
    "for its numbers are no single pod's.",
    default="as-vendor",
)


def attributed(identity: Identity, attribution: str) -> Identity:
    """An identity with an attribution."""
    if attribution == "as-vendor":
        return identity
    return replace(identity, shared_devices=SharedDevices.NO_POD)
