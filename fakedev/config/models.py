"""Device types, identities and pools as loaded: the values, with their places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fakedev.config.schema.nodes import Place
from fakedev.config.schema.schema import Values
from fakedev.exposition.identity import Identity, LabelSpec, NumberFormat
from fakedev.sim.parts.mig import Mig
from fakedev.spec.device_types import DeviceType
from fakedev.spec.fleet import DeviceSpec, NodeSpec, PoolSpec


@dataclass(frozen=True)
class LoadedDevice:
    """A device type.

    :param labels: of the original's JSON: label to its place, for notes on unused ones.
    :param mig: how it can be divided into instances; None: it cannot.
    """

    type: DeviceType
    labels: Mapping[str, Place] = field(default_factory=dict)
    mig: Mig | None = None


@dataclass(frozen=True)
class LoadedDeviceList:
    """The original's device list."""

    devices: tuple[DeviceSpec, ...]
    labels: Mapping[str, Place] = field(default_factory=dict)


@dataclass(frozen=True)
class Making:
    """How an identity builds its families; identities that are based on it inherit this.

    :param order: ``given``, ``name`` or ``number``.
    :param fields: which fields counters may name.
    :param numbers: the format of all numbers; None: that of each family.
    :param windows: the seconds over which tallies are counted, by the names that rows use.
    :param sample_seconds: the interval at which the exporter takes the samples that it counts.
    :param variants: the names of the variants of fields that show other rows than usual.
    """

    order: str = "given"
    fields: str = "dcgm"
    numbers: NumberFormat | None = None
    windows: Mapping[str, float] = field(default_factory=dict)
    sample_seconds: float = 30.0
    variants: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Quirk:
    """A known fault of an exporter, shown on request.

    :param issue: where it was reported.
    :param labels: labels that replace those of the same names.
    :param renamed: old to new names of labels.
    :param without: labels that are left out.
    :param added: labels that are added to those of all rows; ``leading`` ones behind the other leading ones.
    """

    name: str
    issue: str = ""
    doc: str = ""
    labels: tuple[LabelSpec, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    added: tuple[LabelSpec, ...] = ()

    def shown_by(self, identity: Identity) -> Identity:
        """An identity with this quirk."""
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


@dataclass(frozen=True)
class LoadedPool:
    """A pool, with the values and parts that it was built from."""

    spec: PoolSpec
    values: Values
    device: LoadedDevice
    identity: LoadedIdentity
    devices: LoadedDeviceList | None

    @property
    def sample(self) -> PoolSpec:
        """The pool for checks of its pages: one whose nodes come from a cluster has two nodes."""
        if not self.spec.has_cluster_nodes:
            return self.spec
        return replace(self.spec, nodes=(NodeSpec("node-0"), NodeSpec("node-1")))
