"""Identities as loaded: the values, with their places, and what those based on them inherit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fakedev.exporters.identity import Identity, LabelSpec, NumberFormat
from fakedev.schema.declare import described, setting
from fakedev.schema.places import Place
from fakedev.schema.types import Choice, Duration, MapOf, Text


@dataclass(frozen=True)
class Making:
    """How an identity builds its families; identities that are based on it inherit this."""

    order: str = setting(
        "Order of the families: as given, by name, or by the number of the field that counters name.",
        default="given", choices=("given", "name", "number"),
    )  # fmt: skip
    fields: str = setting("Which fields the rows of counters may name.", default="dcgm")
    numbers: NumberFormat | None = setting(
        "How all numbers are written.", type=Choice.of(NumberFormat), default_words="as in each family"
    )
    windows: Mapping[str, float] = setting(
        "The windows of time over which the exporter counts, by the names that rows use.",
        default={}, type=MapOf(Duration(0.001, 86400.0)),
    )  # fmt: skip
    sample_seconds: float = setting(
        "How often the exporter takes the samples that it counts.",
        default=30.0, low=0.001, high=86400.0, name="sample-every",
    )  # fmt: skip
    variants: Mapping[str, str] = setting(
        "Fields of counters that show other rows than usual, by the names of these variants.", default={}
    )


@dataclass(frozen=True)
class Quirk:
    """A known fault of an exporter, shown on request.

    :param labels: labels that replace those of the same names.
    :param added: labels that are added to those of all rows; ``leading`` ones behind the other leading ones.
    """

    name: str = field(metadata=described("Its name, as labels.empty."))
    issue: str = setting("Where it was reported: OWNER/REPOSITORY#NUMBER.", default="", required=True)
    doc: str = setting("Its effect on the page.", default="", required=True)
    labels: tuple[LabelSpec, ...] = ()
    renamed: Mapping[str, str] = setting(
        "Labels that have other names.",
        default={}, name="rename-labels", type=MapOf(Text(), words="mapping of names to names"),
    )  # fmt: skip
    without: tuple[str, ...] = setting("Labels that are not there.", default=(), name="without-labels")
    added: tuple[LabelSpec, ...] = ()

    def shown_by(self, identity: Identity) -> Identity:
        leading = sum(label.name not in self.without for label in identity.labels[: identity.leading_labels])
        of_levels = tuple((level, self._changed(labels)) for level, labels in identity.labels_of_levels)
        labels = self._changed(identity.labels)
        in_front = tuple(label for label in self.added if label.leading)
        others = tuple(label for label in self.added if not label.leading)
        labels, leading = (*labels[:leading], *in_front, *labels[leading:], *others), leading + len(in_front)
        return replace(identity, labels=labels, leading_labels=leading, labels_of_levels=of_levels)

    def _changed(self, labels: Iterable[LabelSpec]) -> tuple[LabelSpec, ...]:
        own = {label.name: label for label in self.labels}
        found = [own.get(label.name, label) for label in labels if label.name not in self.without]
        return tuple(replace(label, name=self.renamed.get(label.name, label.name)) for label in found)


@dataclass(frozen=True)
class LoadedIdentity:
    """An identity.

    :param strict: it is the original's JSON: some device must have a value for every mapping.
    :param label_places: mapped label (the fact) or shown fact to its place.
    :param quantity_places: quantity to its place.
    :param counter_labels: names of the labels from counters.
    :param quirks: those that can be requested.
    :param as_written: the identity with windows by name, for identities that are based on it; None: it has none.
    """

    identity: Identity
    strict: bool = False
    label_places: Mapping[str, Place] = field(default_factory=dict)
    quantity_places: Mapping[str, Place] = field(default_factory=dict)
    making: Making = Making()
    counter_labels: tuple[str, ...] = ()
    quirks: tuple[Quirk, ...] = ()
    as_written: Identity | None = None
