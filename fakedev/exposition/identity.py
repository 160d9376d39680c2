"""An identity: what one version of one vendor's exporter prints, as data.

A family is a list of rows; a row shows one quantity of one entity level, in a unit, with labels.
Labels are templates over facts: ``nvidia{index}``, ``GPU-{uuid}``, ``0000{pci_address|upper}``.

An identity as it shows a fleet in which no device has parts, nor tiles.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from fakedev.sim.links.levels import LINK_QUANTITIES
from fakedev.spec.fleet import MetricName

#: Units a row may be shown in: factor from the quantity's own unit.
UNITS: Final[dict[str, float]] = {
    "same": 1.0,
    "percent": 100.0,
    "half": 0.5,
    "MiB": 1.0 / 1048576,
    "1000KiB": 1.0 / 1024000,
    "kB": 1.0 / 1000,
    "KiB": 1.0 / 1024,
    "MB": 1e-6,
    "GB": 1e-9,
    "Mbit": 8e-6,
    "mJ": 1000.0,
    "uJ": 1e6,
    "mW": 1000.0,
    "ns": 1e9,
    "Hz": 1e6,
}


class NumberFormat(Enum):
    """How an exporter writes numbers."""

    INT = "int"  # 345
    FIXED6 = "fixed6"  # 69.850000
    GO = "go"  # shortest, exponent from 1e6: 12.5, 1.048576e+06
    GO_WHOLE = "go-whole"  # the same of whole numbers: what an exporter first held as an integer
    GO_FIXED2 = "go-fixed2"  # the same of numbers of two decimals
    GO_FIXED6 = "go-fixed6"  # the same of numbers of six decimals
    PYTHON = "python"  # prometheus_client's: 55.0, 1.048576e+06
    PYTHON_WHOLE = "python-whole"  # the same of whole numbers
    DIGITS15 = "digits15"  # C's %.15g: 55, 1234567.5


class SharedDevices(Enum):
    """The rows of a device on which several pods are."""

    FIRST = "first"  # as many as of any other: with the labels of the pod that has been there longest
    EACH = "each"  # as many for each pod, with that pod's labels
    NO_DEVICES = "nobody"  # as many as of any other, without a pod: its numbers are no single pod's


class Layout(Enum):
    """The order of lines on a page."""

    FAMILIES = "families"  # HELP, TYPE, rows; family by family
    DECLARATIONS_FIRST = "declarations-first"  # all HELP and TYPE, then all rows sorted as text


@dataclass(frozen=True)
class LabelSpec:
    """A label: its name, and a template over facts. An optional one is left out when it has no value.

    :param texts: what is shown in the place of a value, (value, text) each; with any, another value is ``otherwise``.
    :param leading: of a row's own: it stays with the leading ones of the identity when the others are sorted.
    """

    name: str
    value: str
    optional: bool = False
    texts: tuple[tuple[str, str], ...] = ()
    otherwise: str = ""
    leading: bool = False


@dataclass(frozen=True)
class RowSpec:
    """One row for each entity of ``level`` that has ``quantity``, in ``unit`` (a key of UNITS).

    :param requires: another quantity that the entity must have; empty for none.
    :param plus: quantities that are added to it; an entity must have them too.
    :param per: a quantity that the sum is divided by, 0 where that is 0; an entity must have it too. Empty for none.
    :param where: quantities of which one at least must not be 0; empty for no such condition.
    :param unless: quantities that must all be 0, or absent.
    :param constant: is shown where ``quantity`` is empty.
    :param fact: a template whose text is the number that is shown where ``quantity`` is empty; an entity whose text
        is none has no row.
    :param bits: 1 is shown where the quantity, a mask, has any of these bits, else 0; 0: the quantity itself.
    :param within: the window of the identity over which its tallies are counted, by its name; empty for none.
    """

    quantity: str
    unit: str = "same"
    labels: tuple[LabelSpec, ...] = ()
    level: str = "device"
    requires: str = ""
    plus: tuple[str, ...] = ()
    per: str = ""
    where: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    constant: float = 0.0
    fact: str = ""
    bits: int = 0
    within: str = ""

    @property
    def needed(self) -> tuple[str, ...]:
        """The quantities that an entity must have to be shown."""
        names = (self.quantity, *self.plus, self.per, self.requires)
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def state_level(self) -> str:
        """The level of the state that it shows: ``link/5``, the fifth links of all devices, are some of ``link``."""
        return self.level.partition("/")[0]

    @property
    def named(self) -> tuple[str, ...]:
        """All quantities that it depends on."""
        return tuple(dict.fromkeys((*self.needed, *self.where, *self.unless)))

    @property
    def is_conditional(self) -> bool:
        """Whether an entity that has all that is needed may still have no row."""
        return bool(self.where or self.unless or self.fact)

    def excludes(self, other: RowSpec) -> bool:
        """Whether no entity can have both rows at once: one is left out for what the other needs."""
        pairs = ((self.where, other.unless), (other.where, self.unless))
        return any(where and set(where) <= set(unless) for where, unless in pairs)

    @property
    def is_plain(self) -> bool:
        """Whether it shows its quantity alone."""
        return bool(self.quantity) and not self.plus and not self.per and not self.bits


@dataclass(frozen=True)
class FamilySpec:
    """A metric family. ``kind`` is the word of its TYPE line."""

    name: str
    kind: str
    help: str
    number: NumberFormat
    rows: tuple[RowSpec, ...]


@dataclass(frozen=True)
class Identity:
    """A vendor's exporter in one version.

    :param labels: on every row, before the row's own unless ``sort_labels``.
    :param labels_of_levels: in place of ``labels`` on rows of some levels: (level, labels) each.
    :param leading_labels: how many of ``labels`` stay in front when the others are sorted.
    :param sort_labels: labels are in alphabetical order of their names.
    :param timestamps: every row ends with the tick's wall time in milliseconds.
    :param openmetrics: whether the exporter negotiates OpenMetrics.
    :param shared_devices: the rows of devices that several pods share.
    :param hold_seconds: its page shows the last state at a multiple of this; 0: that of now.
    :param headers: (name, value) of headers that it sends with every answer, beside the Content-Type.
    :param health: what /health answers, as that exporter does; empty for fakedev's own answer.
    :param health_headers: further headers of that answer.
    :param landing: the title of its page at /; empty: it has none.
    :param not_covered: families or traits of the exporter that are not simulated, in words.
    """

    name: str
    version: str
    families: tuple[FamilySpec, ...]
    labels: tuple[LabelSpec, ...]
    content_type: str = "text/plain; version=0.0.4; charset=utf-8"
    layout: Layout = Layout.FAMILIES
    sort_labels: bool = False
    leading_labels: int = 0
    labels_of_levels: tuple[tuple[str, tuple[LabelSpec, ...]], ...] = ()
    timestamps: bool = False
    openmetrics: bool = False
    shared_devices: SharedDevices = SharedDevices.FIRST
    hold_seconds: float = 0.0
    health: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    health_headers: tuple[tuple[str, str], ...] = ()
    landing: str = ""
    not_covered: tuple[str, ...] = ()

    def labels_on(self, level: str) -> tuple[LabelSpec, ...]:
        """The labels of every row of a level."""
        return dict(self.labels_of_levels).get(level, self.labels)

    def leading_on(self, level: str) -> int:
        """How many of them stay in front: all of those that a level has for itself."""
        own = dict(self.labels_of_levels).get(level)
        return self.leading_labels if own is None else len(own)

    def metric_names(self) -> dict[str, MetricName]:
        """What each family shows first, for limits that users give by the names that they see."""
        return {
            family.name: MetricName(family.rows[0].quantity, UNITS[family.rows[0].unit])
            for family in self.families
            if family.rows and family.rows[0].is_plain and family.rows[0].state_level not in LINK_QUANTITIES
        }

    @property
    def title(self) -> str:
        """``name@version``, as the configuration names it."""
        return f"{self.name}@{self.version}" if self.version else self.name

    def conditional_families(self) -> list[str]:
        """Families that are there at times, or of some boards: all their rows depend on what is 0, or on facts."""
        return [family.name for family in self.families if all(row.is_conditional for row in family.rows)]

    def absent_families(self, quantities: Collection[str]) -> list[str]:
        """Families that cannot be shown where only these quantities exist."""
        return [
            family.name
            for family in self.families
            if not any(_can_be_there(row, quantities) for row in family.rows)
        ]


def _can_be_there(row: RowSpec, quantities: Collection[str]) -> bool:
    """Whether devices with these quantities, or their links, can have a row."""
    if row.state_level in LINK_QUANTITIES:
        return "links_up" in quantities
    return set(row.needed) <= set(quantities)

#: What is the level of all devices where none has parts.
_DEVICES = frozenset(("unit", "repeated", "whole", "single"))
#: Levels of which there is nobody then.
_NO_DEVICES = frozenset(("part", "tile", "tiled"))


def without_parts(identity: Identity) -> Identity:
    """The same pages with the rows of one level: labels are written once for each device.

    The identity itself where it has no such rows.
    """
    if not any(row.level in _DEVICES | _NO_DEVICES for family in identity.families for row in family.rows):
        return identity
    families = [
        replace(
            family,
            rows=tuple(
                replace(row, level="device") if row.level in _DEVICES else row
                for row in family.rows
                if row.level not in _NO_DEVICES
            ),
        )
        for family in identity.families
    ]
    return replace(identity, families=tuple(family for family in families if family.rows))
