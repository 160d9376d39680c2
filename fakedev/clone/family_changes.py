"""How the families of an exporter's pages differ from its identity's: an identity that has the page's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fakedev.clone.fleet_reader import KEPT_NUMBER
from fakedev.clone.kept_families import kept_family
from fakedev.clone.label_facts import unescaped
from fakedev.clone.numbers import format_of
from fakedev.exposition.captured import CapturedFamily, CapturedPage
from fakedev.exposition.conformity import Conformity
from fakedev.exposition.identity import FamilySpec, Identity


@dataclass(frozen=True)
class Change:
    """An identity that is nearer to a page.

    :param left_out: families of the page that it cannot have, each with the reason.
    """

    identity: Identity
    left_out: Mapping[str, str]


def with_seen_families(
    identity: Identity,
    read: CapturedPage,
    shown: CapturedPage,
    result: Conformity,
    known: Mapping[str, FamilySpec],
    devices: int,
) -> Change:
    """The identity with the families of the page that was read, in its order.

    A family that the simulation does not fill, or whose labels differ, keeps the numbers that were read.

    :param shown: the page of the identity as it is.
    :param result: the comparison of both.
    :param known: families that the identity does not have, and that the simulation fills.
    :param devices: the number of devices.
    """
    specs = {family.name: family for family in identity.families}
    aspects: dict[str, set[str]] = {}
    for difference in result.differences:
        aspects.setdefault(difference.family, set()).add(difference.aspect)
    left_out: dict[str, str] = {}
    found: dict[str, FamilySpec] = {}
    for name, family in read.families.items():
        if not family.samples:
            continue
        spec = specs.get(name)
        if spec is None and name in known:
            found[name] = _as_read(known[name], family, {"TYPE", "HELP"})
        elif spec is not None and name in shown.families and "labels" not in aspects.get(name, ()):
            found[name] = _as_read(spec, family, aspects.get(name, set()))
        elif spec is not None and name not in shown.families and _without_versions(spec) != spec:
            found[name] = _without_versions(spec)
        else:
            try:
                found[name] = kept_family(family, identity, devices)
            except ValueError as error:
                left_out[name] = str(error)
    order = list(found) if "order" in {aspect for each in aspects.values() for aspect in each} else None
    missing = [family for family in identity.families if family.name not in {*read.families, *shown.families}]
    every = {**found, **{family.name: family for family in missing}}
    names = _in_order(order or _placed(list(specs), list(found)), list(specs), [family.name for family in missing])
    changed = replace(identity, families=tuple(every[name] for name in names))
    return Change(_with_page_labels(changed), left_out)


def _without_versions(spec: FamilySpec) -> FamilySpec:
    """A family whose rows of 0 do not depend on the version of a driver."""
    rows = (replace(row, fact="", between=(), constant=0.0) if row.between else row for row in spec.rows)
    return replace(spec, rows=tuple(rows))


def _as_read(spec: FamilySpec, read: CapturedFamily, aspects: Iterable[str]) -> FamilySpec:
    """A family with what differs in some aspects as it was read."""
    if "TYPE" in aspects and read.has_type:
        spec = replace(spec, kind=read.kind)
    if "HELP" in aspects and read.help is not None:
        spec = replace(spec, help=unescaped(read.help))
    if "numbers" in aspects:
        number = format_of([sample.number for sample in read.samples], spec.number)
        spec = replace(spec, number=number or spec.number)
    return spec


def _placed(usual: Sequence[str], found: Sequence[str]) -> list[str]:
    """The families of the page in its order; where that is the usual one of those that are known, both are kept."""
    shared = [name for name in usual if name in set(found)]
    if shared == [name for name in found if name in set(usual)]:
        return list(found)
    order = list(shared)
    return _in_order(order, found, [name for name in found if name not in set(usual)])


def _in_order(order: Sequence[str], usual: Sequence[str], others: Iterable[str]) -> list[str]:
    """Names with others among them, each after the one that usually goes before it."""
    placed = list(order)
    for name in others:
        at = 0
        for before in usual[: usual.index(name)]:
            if before in placed:
                at = max(at, placed.index(before) + 1)
        placed.insert(at, name)
    return placed


def _with_page_labels(identity: Identity) -> Identity:
    """Rows of pages have the labels that were read only, not those of devices."""
    has_pages = any(
        row.level == "page" and not row.quantity for family in identity.families for row in family.rows
    )
    if not has_pages or "page" in dict(identity.labels_of_levels):
        return identity
    return replace(identity, labels_of_levels=(*identity.labels_of_levels, ("page", ())))


def kept_names(identity: Identity, base: Identity) -> list[str]:
    """The families of an identity that keep the numbers that were read, without those that are so in its base."""
    of_base = {family.name for family in base.families}
    return [
        family.name
        for family in identity.families
        if (family.name not in of_base or any(KEPT_NUMBER in row.fact for row in family.rows))
        and all(row.fact.startswith(f"{{{KEPT_NUMBER}") or not (row.fact or row.quantity) for row in family.rows)
    ]
