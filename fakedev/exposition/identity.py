"""Identities: the pages of one version of one vendor's exporter, as data.

A family is a list of rows; a row shows one quantity of one entity level, in a unit, with labels.
Labels are templates over facts: ``nvidia{index}``, ``GPU-{uuid}``, ``0000{pci_address|upper}``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from fakedev.exposition.page_levels import COUNT, FOLLOW_FROM, PAGE_QUANTITIES, PROCESS
from fakedev.sim.links.levels import LINK_QUANTITIES
from fakedev.spec.fleet import MetricName

#: Units of rows: factor from the quantity's own unit.
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
    "ms": 1000.0,
    "32B": 1.0 / 32,
}
#: Levels that are all devices if none has parts.
_DEVICES: Final = frozenset(("unit", "repeated", "whole", "single"))
#: Levels with quantities of their own.
_NOT_OF_DEVICES: Final = frozenset((*LINK_QUANTITIES, *PAGE_QUANTITIES, PROCESS))
#: Levels that may have no entity at a time, though devices have the quantities.
_AT_TIMES: Final = frozenset(("part", "xid", PROCESS))
#: Levels that are empty then.
_NO_DEVICES: Final = frozenset(("part", "tile", "tiled"))


class NumberFormat(Enum):
    """How an exporter writes numbers."""

    INT = "int"  # 345
    FIXED6 = "fixed6"  # 69.850000
    GO = "go"  # shortest, exponent from 1e6: 12.5, 1.048576e+06
    GO_WHOLE = "go-whole"  # the same, rounded to whole numbers: values of integer type
    GO_FIXED2 = "go-fixed2"  # the same, rounded to two decimals
    GO_FIXED6 = "go-fixed6"  # the same, rounded to six decimals
    PYTHON = "python"  # prometheus_client's: 55.0, 1.048576e+06
    PYTHON_WHOLE = "python-whole"  # the same, rounded to whole numbers
    DIGITS15 = "digits15"  # C's %.15g: 55, 1234567.5


class SharedDevices(Enum):
    """The rows of a device that several pods share."""

    FIRST = "first"  # one set of rows, with the labels of the oldest pod
    EACH = "each"  # a set of rows for each pod, with its labels
    NO_POD = "nobody"  # one set of rows without labels of pods


class Layout(Enum):
    """The order of lines on a page."""

    FAMILIES = "families"  # HELP, TYPE, rows; family by family
    DECLARATIONS_FIRST = "declarations-first"  # all HELP and TYPE, then all rows sorted as text


@dataclass(frozen=True)
class LabelSpec:
    """A label: its name, and a template over facts. An optional label without a value is omitted.

    :param texts: (value, text) pairs that replace values; other values become ``otherwise`` if there are any.
    :param leading: a row's own label that stays with the leading ones of the identity when others are sorted.
    :param only_with: a fact without which the label is omitted; empty for none.
    """

    name: str
    value: str
    optional: bool = False
    texts: tuple[tuple[str, str], ...] = ()
    otherwise: str = ""
    leading: bool = False
    only_with: str = ""


@dataclass(frozen=True)
class RowSpec:
    """One row for each entity of ``level`` that has ``quantity``, in ``unit`` (a key of UNITS).

    :param requires: another quantity that the entity must have; empty for none.
    :param plus: quantities that are added; an entity must have them too.
    :param per: a quantity that divides the sum, with 0 / 0 = 0; an entity must have it too. Empty for none.
    :param where: quantities of which at least one must not be 0; empty for no condition.
    :param unless: quantities that must all be 0 or absent.
    :param constant: the number if ``quantity`` is empty.
    :param fact: a template of the number if ``quantity`` is empty; an entity whose text is no number has no row.
    :param is_per_fact: the number of ``fact`` divides the quantity or constant instead.
    :param times: the sum of the quantities is multiplied by this.
    :param bits: show 1 if the quantity, a mask, has any of these bits, else 0; 0 shows the quantity itself.
    :param within: the name of the identity's window over which its tallies are counted; empty for none.
    :param between: two versions: ``fact`` is one, and only an entity whose version is at least the first and below the
        second has a row, which shows 0; empty for no such condition.
    :param without_it: what it shows for an entity that does not have the quantities; None: it has no row.
    :param only: the name of a fact, and its values with which an entity may have the row; empty: with any value.
    :param excepted: the same, and its values with which an entity has no row. The rows of a family have the same two.
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
    between: tuple[str, ...] = ()
    without_it: float | None = None
    only: tuple[str, ...] = ()
    excepted: tuple[str, ...] = ()
    is_per_fact: bool = False
    times: float = 1.0

    @property
    def is_of_some(self) -> bool:
        """Whether it depends on a fact who may have it."""
        return bool(self.only or self.excepted)

    def is_of(self, facts: Mapping[str, str]) -> bool:
        """Whether an entity with some facts may have it."""
        if self.excepted and facts.get(self.excepted[0], "") in self.excepted[1:]:
            return False
        return not self.only or facts.get(self.only[0], "") in self.only[1:]

    @property
    def needed(self) -> tuple[str, ...]:
        """The quantities that an entity must have to be shown."""
        own = (self.quantity, *self.plus) if self.without_it is None else ()
        names = (*own, self.per, self.requires)
        return tuple(dict.fromkeys(name for name in names if name))

    @property
    def state_level(self) -> str:
        """Its level of the state: ``link`` for ``link/5``, the links 5 of all devices."""
        return self.level.partition("/")[0]

    @property
    def is_of_one_link(self) -> bool:
        """Whether it shows the links of one number, which a device with fewer links does not have."""
        return self.level != self.state_level

    @property
    def named(self) -> tuple[str, ...]:
        """All quantities that it depends on."""
        every = (self.quantity, *self.plus, *self.needed, *self.where, *self.unless)
        return tuple(dict.fromkeys(name for name in every if name))

    @property
    def is_conditional(self) -> bool:
        """Whether an entity with all needed quantities may still have no row."""
        return bool(self.where or self.unless or self.fact)

    def excludes(self, other: RowSpec) -> bool:
        """Whether no entity can have both rows: one excludes what the other needs."""
        pairs = ((self.where, other.unless), (other.where, self.unless))
        return any(where and set(where) <= set(unless) for where, unless in pairs)

    @property
    def is_plain(self) -> bool:
        """Whether it shows only its quantity."""
        changed = self.plus or self.per or self.bits or self.is_per_fact or self.times != 1.0
        return bool(self.quantity) and not changed


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

    :param labels: labels of every row, before the row's own unless ``sort_labels``.
    :param labels_of_levels: (level, labels) pairs that replace ``labels`` on rows of some levels.
    :param leading_labels: how many of ``labels`` stay in front of the sorted ones.
    :param sort_labels: labels are sorted by name.
    :param timestamps: every row ends with the tick's wall time in milliseconds.
    :param openmetrics: the exporter negotiates OpenMetrics.
    :param shared_devices: the rows of devices that several pods share.
    :param hold_seconds: its page shows the last state at a multiple of this; 0: the current state.
    :param headers: (name, value) pairs of headers of every answer, beside the Content-Type.
    :param health: the exporter's answer at /health; empty for fakedev's own answer.
    :param health_headers: further headers of that answer.
    :param landing: the title of its page at /; empty without such a page.
    :param answers_post: its /metrics answers POST as it does GET.
    :param board: the device type that commands take for its pages where none is named; empty for none.
    :param not_covered: families or features of the exporter that are not simulated, in words.
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
    answers_post: bool = False
    board: str = ""
    not_covered: tuple[str, ...] = ()

    def __hash__(self) -> int:
        # Not that of all fields: pages look identities up, and there are hundreds of rows.
        return hash((self.name, self.version))

    def labels_on(self, level: str) -> tuple[LabelSpec, ...]:
        """The labels of every row of a level."""
        return dict(self.labels_of_levels).get(level, self.labels)

    def leading_on(self, level: str) -> int:
        """How many labels of a level stay in front; all labels that replace the identity's."""
        own = dict(self.labels_of_levels).get(level)
        return self.leading_labels if own is None else len(own)

    def metric_names(self) -> dict[str, MetricName]:
        """Quantity and unit of each family's first row, by the family's name, for limits."""
        return {
            family.name: MetricName(family.rows[0].quantity, UNITS[family.rows[0].unit])
            for family in self.families
            if family.rows and family.rows[0].is_plain and family.rows[0].state_level not in _NOT_OF_DEVICES
        }

    @property
    def of_processes(self) -> frozenset[str]:
        """The quantities of processes that it shows."""
        rows = [row for family in self.families for row in family.rows if row.level == PROCESS]
        return frozenset(name for row in rows for name in row.named)

    @property
    def has_processes(self) -> bool:
        """Whether it shows processes, or their number."""
        rows = [row for family in self.families for row in family.rows]
        return any(row.level == PROCESS or COUNT in row.named for row in rows)

    @property
    def title(self) -> str:
        """``name@version``, as the configuration names it."""
        return f"{self.name}@{self.version}" if self.version else self.name

    def conditional_families(self) -> list[str]:
        """Families all of whose rows are conditional, of some devices, of one link, or of levels that may be empty."""
        return [
            family.name
            for family in self.families
            if all(
                row.is_conditional or row.is_of_some or row.is_of_one_link or row.state_level in _AT_TIMES
                for row in family.rows
            )
        ]

    def absent_families(self, quantities: Collection[str]) -> list[str]:
        """Families that no entity has if only these quantities exist."""
        return [
            family.name
            for family in self.families
            if not any(_can_exist(row, quantities) for row in family.rows)
        ]


def _can_exist(row: RowSpec, quantities: Collection[str]) -> bool:
    """Whether devices with these quantities, or their links, can have a row."""
    if row.state_level in LINK_QUANTITIES:
        return "links_up" in quantities
    if row.state_level in PAGE_QUANTITIES:
        return True
    return {FOLLOW_FROM.get(name, name) for name in row.needed} <= set(quantities)


def without_parts(identity: Identity) -> Identity:
    """The same identity for a fleet without parts or tiles: labels are rendered only once for each device."""
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
