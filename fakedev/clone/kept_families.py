"""Families that the simulation does not follow: they keep the numbers that were read."""

from __future__ import annotations

import math
from typing import Final

from fakedev.clone.fleet_reader import KEPT_NUMBER, TELLING
from fakedev.clone.label_facts import facts_of, unescaped
from fakedev.clone.numbers import format_of
from fakedev.exposition.captured import CapturedFamily, Sample
from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec

#: Types of families that an identity can have.
KINDS: Final = ("gauge", "counter", "untyped")
#: Rows of such a family with different labels of their own, at most.
_MOST_ROWS: Final = 200


def is_of_devices(family: CapturedFamily, identity: Identity) -> bool:
    """Whether all lines of a family name a device by the identity's labels."""
    return all(
        any(name in TELLING for name in facts_of(dict(sample.labels), identity.labels)) for sample in family.samples
    )


def kept_family(family: CapturedFamily, identity: Identity, devices: int) -> FamilySpec:
    """A family that shows the numbers that were read, each on its device; of lines of no device the first.

    :param devices: of the fleet; where all have the same number it is a constant, else a fact of each.
    :raises ValueError: when an identity cannot have it, with the reason.
    """
    if family.kind not in KINDS:
        raise ValueError(f"its type is {family.kind}, and identities have {', '.join(KINDS)}")
    if not all(math.isfinite(float(sample.number)) for sample in family.samples):
        raise ValueError("it has numbers that are not finite")
    of_devices = is_of_devices(family, identity)
    level = "page"
    if of_devices:
        divided = any("mig_id" in facts_of(dict(sample.labels), identity.labels) for sample in family.samples)
        level = "repeated" if divided else "device"
    common = {label.name for label in identity.labels_on(level)}
    rows: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in family.samples:
        own = tuple((name, value) for name, value in sample.labels if name not in common)
        rows.setdefault(own, []).append(sample)
    if any("{" in value or "}" in value for own in rows for _, value in own):
        raise ValueError("a label has braces, which identities take for facts")
    if len(rows) > _MOST_ROWS:
        raise ValueError(f"it has {len(rows)} rows with different labels, more than {_MOST_ROWS}")
    number = format_of([sample.number for sample in family.samples], NumberFormat.GO) or NumberFormat.GO
    specs = []
    for place, (own, samples) in enumerate(rows.items()):
        fact = f"{KEPT_NUMBER}{family.name}" + (f"_{place}" if place else "")
        is_constant = not of_devices or (len({each.number for each in samples}) == 1 and len(samples) >= devices)
        specs.append(_row(own, "" if is_constant else f"{{{fact}}}", float(samples[0].number), level))
    return FamilySpec(family.name, family.kind, unescaped(family.help or ""), number, tuple(specs))


def _row(own: tuple[tuple[str, str], ...], fact: str, constant: float, level: str) -> RowSpec:
    labels = tuple(LabelSpec(name, unescaped(value)) for name, value in own)
    return RowSpec("", labels=labels, level=level, fact=fact, constant=0.0 if fact else constant)
