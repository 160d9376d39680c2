"""An identity's YAML to the identity that the exposition reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fakedev.config.identities.families import (
    LEVELS,
    Library,
    arranged,
    check_rows,
    making_of,
    read_families,
    read_labels,
    shown_by_counters,
    with_labels,
)
from fakedev.config.identities.keys import IDENTITY
from fakedev.config.identities.windows import with_windows
from fakedev.config.models import LoadedIdentity, Making, Quirk
from fakedev.config.schema.nodes import Node, Place, Report, Table
from fakedev.config.schema.schema import INVALID, Values, did_you_mean
from fakedev.exposition.identity import Identity, LabelSpec

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,79}")
_VALUE: Final = re.compile(r"[ -~]{0,400}")
_CONTENT_TYPE: Final = re.compile(r"[ -~][ -.0-~]*+/[ -~]++")
#: Headers that the server sends.
_OURS: Final = frozenset((
    "connection", "content-encoding", "content-length", "content-type", "date", "server", "transfer-encoding", "vary",
    "x-fakedev-tick",
))  # fmt: skip


def load_identity(node: Node, report: Report, library: Library) -> LoadedIdentity | None:
    """The identity of a document; None when it cannot be used (the problems are reported).

    :param library: has the identity that it is based on, and its counters.
    """
    if not isinstance(node, Table):
        report.problem(node.place, "an identity is a mapping with name, labels and families")
        return None
    values = IDENTITY.read(node, "", report)
    if values is INVALID:
        return None
    base = library.identity(values["based-on"], values.place_of("based-on")) if values["based-on"] else None
    if values["based-on"] and base is None:
        return None
    if base is None and not values.given("families") and not values["counters"]:
        report.problem(
            values.place, "families is missing: give the metric families, or counters, or based-on: another identity"
        )
    quantities: dict[str, Place] = {}
    making = making_of(values, base.making if base else Making())
    shown = shown_by_counters(values, making, library, report)
    families = read_families(values["families"], "families", quantities, report)
    also = read_families(values["also"], "also", quantities, report)
    identity = values.build(
        Identity,
        name=values["name"] or "",
        families=families,
        labels=read_labels(values["labels"], "labels", report),
        labels_of_levels=_labels_of_levels(values, report),
        headers=_read_headers(values, "headers", report),
        health_headers=_read_headers(values, "health-headers", report),
    )
    if base is not None:
        identity = _based_on(base.as_written or base.identity, identity, values)
        quantities = {**base.quantity_places, **quantities}
    labels_of_counters = base.counter_labels if base else ()
    if shown is not None:
        identity = with_labels(identity, () if values.given("labels") else labels_of_counters, shown)
        labels_of_counters = tuple(label.name for label in shown.labels)
        identity = replace(identity, families=shown.families)
        quantities |= shown.quantity_places
    elif values.given("labels"):
        # It may have kept some of these; an identity based on it replaces them by the labels of its own counters.
        labels_of_counters = tuple(label.name for label in identity.labels if label.name in labels_of_counters)
    identity = replace(identity, families=arranged(identity.families, also, values, making, library, report))
    known = _quirks(values, base, report)
    for name, asked in zip(values["quirks"], values.items_of("quirks"), strict=False):
        quirk = next((each for each in known if each.name == name), None)
        if quirk is None:
            report.problem(asked.place, _no_quirk(name, known))
        else:
            identity = quirk.shown_by(identity)
    places = {family["name"]: family.place for family in (*values["families"], *values["also"])}
    for family in identity.families:
        check_rows(family, identity, places.get(family.name, values.place), report)
    if identity.leading_labels > len(identity.labels):
        place = values.place_of("leading-labels")
        report.problem(place, f"leading-labels: there are only {len(identity.labels)} labels")
    _check_content_type(identity.content_type, values.place_of("content-type"), report)
    counting = with_windows(identity, making, values.place, report)
    return LoadedIdentity(
        counting, quantity_places=quantities, making=making, counter_labels=labels_of_counters,
        quirks=known, as_written=identity,
    )  # fmt: skip


def _labels_of_levels(values: Values, report: Report) -> tuple[tuple[str, tuple[LabelSpec, ...]], ...]:
    """The labels of rows of some levels; a level that there is not is reported."""
    found = []
    for level, labels in values["labels-of-levels"].items():
        if level not in LEVELS:
            hint = did_you_mean(level, LEVELS) or f"there is {', '.join(LEVELS)}"
            report.problem(values.place_of("labels-of-levels"), f"labels-of-levels: no level {level!r}; {hint}")
        found.append((level, read_labels(labels, f"labels-of-levels: {level}", report)))
    return tuple(found)


def _quirks(values: Values, base: LoadedIdentity | None, report: Report) -> tuple[Quirk, ...]:
    """The quirks that can be asked for: those that are written, and those of the base."""
    written = {
        each["name"]: each.build(
            Quirk,
            name=each["name"],
            labels=read_labels(each["labels"], "labels", report),
            added=read_labels(each["add-labels"], "add-labels", report),
        )
        for each in values["known-quirks"]
    }
    of_base = {quirk.name: quirk for quirk in (base.quirks if base else ())}
    return tuple((of_base | written).values())


def _no_quirk(name: str, known: Sequence[Quirk]) -> str:
    names = [quirk.name for quirk in known]
    hint = did_you_mean(name, names) or f"there is {', '.join(names) or 'none'}"
    return f"quirks: no quirk {name!r} is known of this identity; {hint}"


def _based_on(base: Identity, own: Identity, values: Values) -> Identity:
    fields = values.section.fields_of(Identity)
    written = {field: getattr(own, field) for key, field in fields.items() if values.given(key)}
    return replace(base, **({"version": ""} | written))


def _read_headers(values: Values, key: str, report: Report) -> tuple[tuple[str, str], ...]:
    """The headers of a mapping, (name, value) each; those that cannot be are reported."""
    headers: dict[str, str] = values[key]
    place = values.place_of(key)
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            report.problem(place, f"{key}: {name[:80]}: {value[:80]!r} is no header")
        elif name.lower() in _OURS:
            report.problem(place, f"{key}: {name} is the server's own and cannot be given")
    return tuple(headers.items())


def _check_content_type(text: str, place: Place, report: Report) -> None:
    if not _CONTENT_TYPE.fullmatch(text):
        report.problem(place, f"content-type: {text[:80]!r} is no Content-Type, as text/plain; version=0.0.4")
