"""Identities: the pages of one version of one vendor's exporter, as data.

A family is a list of rows; a row shows one quantity of one entity level, in a unit, with labels.
Labels are templates over facts: ``nvidia{index}``, ``GPU-{uuid}``, ``0000{pci_address|upper}``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from fakedev.base.names import is_version_between
from fakedev.exporters.row_levels import COUNT, FOLLOW_FROM, PAGE_QUANTITIES, POD, WORK_LEVELS
from fakedev.exporters.wandering import Wander
from fakedev.fleet.links.link_levels import LINK_QUANTITIES
from fakedev.fleet.racks.racks import RACK_QUANTITIES
from fakedev.fleet.spec.fleet_spec import MetricName
from fakedev.schema.declare import LONGEST_SECONDS, described, setting

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
    "kHz": 1e3,
    "ms": 1000.0,
    "32B": 1.0 / 32,
}
#: Levels that are all devices if none has parts.
_DEVICES: Final = frozenset(("unit", "repeated", "whole", "single"))
#: Levels of devices whose containers can have rows of their own.
_WITH_PODS: Final = ("unit", "whole")
#: Levels with quantities of their own.
_NOT_OF_DEVICES: Final = frozenset((*LINK_QUANTITIES, *RACK_QUANTITIES, *PAGE_QUANTITIES, *WORK_LEVELS))
#: Levels that may have no entity at a time, though devices have the quantities.
AT_TIMES: Final = frozenset(("part", "xid", *WORK_LEVELS))
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


class PageLayout(Enum):
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

    name: str = field(metadata=described("Name of the label."))
    value: str = field(metadata=described("Its value: text with {fact}, {fact|upper}, {fact|lower}."))
    optional: bool = setting("Left out when it has no value.", default=False)
    texts: tuple[tuple[str, str], ...] = ()
    otherwise: str = setting("Shown for a value that texts have not.", default="", default_words="nothing")
    leading: bool = setting("Of a row: it stays in front when the labels are sorted.", default=False)
    only_with: str = setting("The label is left out where this fact has no value.", default="", name="with")


@dataclass(frozen=True)
class RowSpec:
    """One row for each entity of ``level`` that has ``quantity``, in ``unit`` (a key of UNITS).

    :param per: a quantity, where 0 / 0 is 0; a text with facts becomes ``fact``.
    :param is_per_fact: the number of ``fact`` divides the quantity or constant instead.
    :param drivers: versions of drivers: the first with which an entity may have the row, and the first with which it
        may not any more, if there is one; empty: with any driver.
    :param only: the name of a fact, and its values with which an entity may have the row; empty: with any value.
    :param excepted: the same, and its values with which an entity has no row. The rows of a family have the same two.
    :param random: what it shows in place of a quantity: of things that the simulation does not follow.
    """

    quantity: str
    unit: str = setting("Unit in which it is shown.", default="same", choices=tuple(UNITS))
    labels: tuple[LabelSpec, ...] = ()
    level: str = "device"
    requires: str = setting("Another quantity that an entity must have to be shown.", default="")
    plus: tuple[str, ...] = setting("Quantities that are added to it; an entity must have them too.", default=())
    per: str = setting(
        "What it is divided by: a quantity, which an entity must have too, or a text with {facts} in it.", default=""
    )
    where: tuple[str, ...] = setting("Quantities of which one must not be 0, or there is no row.", default=())
    unless: tuple[str, ...] = setting("Quantities that must all be 0 or absent, or there is no row.", default=())
    constant: float = setting(
        "What it shows in place of a quantity: of things that never change.", default=0.0, absent="none"
    )
    fact: str = setting(
        "In place of a quantity a text with {facts} in it that is a number, decimal or 0x...; no row where it is none.",
        default="",
    )
    bits: int = setting(
        "Of a quantity that is a mask: it shows 1 where any of these bits is set, else 0.",
        default=0, high=2**31 - 1, default_words="its value",
    )  # fmt: skip
    within: str = setting(
        "The window over which it is counted: a name in windows.", default="",
        default_words="since the beginning",
    )  # fmt: skip
    drivers: tuple[str, ...] = ()
    without_it: float | None = setting(
        "What it shows for an entity that has the quantity of requires, but not this one.",
        name="else", default_words="no row",
    )  # fmt: skip
    only: tuple[str, ...] = ()
    excepted: tuple[str, ...] = ()
    is_per_fact: bool = False
    times: float = setting(
        "A number that it is multiplied by; a counter is then rounded down.", default=1.0
    )
    without: tuple[str, ...] = setting(
        "Quantities that an entity must not have, or there is no row.", default=()
    )
    random: Wander | None = None

    @property
    def is_of_some(self) -> bool:
        """Whether it depends on a fact who may have it."""
        return bool(self.only or self.excepted or self.drivers)

    @property
    def driver_words(self) -> str:
        """The drivers with which an entity may have it: ``from 580.65 to below 580.105``; empty: with any."""
        return f"from {' to below '.join(self.drivers)}" if self.drivers else ""

    def is_of_driver(self, facts: Mapping[str, str]) -> bool:
        """Whether an entity with some facts may have it by its driver."""
        return not self.drivers or is_version_between(facts.get("driver_version", ""), *self.drivers)

    def is_of(self, facts: Mapping[str, str]) -> bool:
        """Whether an entity with some facts may have it."""
        if not self.is_of_driver(facts):
            return False
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
    def named(self) -> tuple[str, ...]:
        """All quantities that it depends on."""
        every = (self.quantity, *self.plus, *self.needed, *self.where, *self.unless, *self.without)
        return tuple(dict.fromkeys(name for name in every if name))

    def excludes(self, other: RowSpec) -> bool:
        """Whether no entity can have both rows: one excludes what the other needs."""
        pairs = ((self.where, other.unless), (other.where, self.unless))
        if any(where and set(where) <= set(unless) for where, unless in pairs):
            return True
        if self._is_of_others_than(other) or other._is_of_others_than(self):
            return True
        return not (set(self.without).isdisjoint(other.needed) and set(other.without).isdisjoint(self.needed))

    def _is_of_others_than(self, other: RowSpec) -> bool:
        """Whether a fact has a text that this row wants in all entities, and the other one in none."""
        return bool(self.only) and all(
            (other.only[:1] == self.only[:1] and text not in other.only[1:])
            or (other.excepted[:1] == self.only[:1] and text in other.excepted[1:])
            for text in self.only[1:]
        )

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
    :param optional_labels: labels that the exporter's own configuration can add to those of every row.
    :param headers: (name, value) pairs of headers of every answer, besides the Content-Type.
    :param health_headers: further headers of the answer at /health.
    :param versions: of an exporter with releases: all versions that print this page, the oldest first.
    """

    name: str = field(metadata=described("Name of the exporter."))
    version: str = field(metadata=described("Its version.", default=""))
    families: tuple[FamilySpec, ...]
    labels: tuple[LabelSpec, ...]
    content_type: str = setting("Content-Type of its pages.", default="text/plain; version=0.0.4; charset=utf-8")
    layout: PageLayout = setting("The order of lines on a page.", default=PageLayout.FAMILIES)
    sort_labels: bool = setting("Whether labels are in alphabetical order.", default=False)
    leading_labels: int = setting("How many labels stay in front when the labels are sorted.", default=0)
    labels_of_levels: tuple[tuple[str, tuple[LabelSpec, ...]], ...] = ()
    optional_labels: tuple[LabelSpec, ...] = ()
    timestamps: bool = setting("Whether lines end with a time in milliseconds, but for level page.", default=False)
    openmetrics: bool = setting("Whether it negotiates OpenMetrics.", default=False)
    shared_devices: SharedDevices = setting(
        "Which pods the rows of a shared device show: the first on it, each in its own rows, or none.",
        default=SharedDevices.FIRST,
    )
    hold_seconds: float = setting(
        "Its pages show the last tick at a multiple of this, as an exporter that collects at intervals does.",
        default=0.0, high=LONGEST_SECONDS, default_words="0s: each tick",
    )  # fmt: skip
    health: str = setting("The body of /health.", default="", default_words="fakedev's own")
    headers: tuple[tuple[str, str], ...] = ()
    health_headers: tuple[tuple[str, str], ...] = ()
    landing: str = setting("Title of its page at /.", default="", default_words="it has none")
    answers_post: bool = setting("Whether its /metrics answers POST as it does GET.", default=False)
    sort_rows: bool = setting(
        "Whether the rows of a family on a node are in the order of their labels, as dcgm-exporter sorts them from "
        "4.8.3 on; else in the order of the devices.", default=False,
    )  # fmt: skip
    values_of_pods: tuple[str, ...] = setting(
        "With shared-devices: each, families in which each pod has its own share of a device's value, in a row besides "
        "that of the device.", default=(),
    )  # fmt: skip
    jobs_of_instances: bool = setting(
        "Whether jobs of a batch system on a divided GPU (hpc-jobs) belong to its instances.", default=True
    )
    board: str = setting(
        "The device type that commands take for its pages where none is named.", default="",
        default_words="of four of the catalog the one that shows most of it",
    )  # fmt: skip
    versions: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = setting("What the exporter has and this identity lacks, in words.", default=())

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
        rows = [row for family in self.families for row in family.rows if row.state_level in WORK_LEVELS]
        return frozenset(name for row in rows for name in row.named)

    @property
    def has_processes(self) -> bool:
        """Whether it shows processes, or their number."""
        rows = [row for family in self.families for row in family.rows]
        return any(row.state_level in WORK_LEVELS or COUNT in row.named for row in rows)

    @property
    def shows_slurm_jobs(self) -> bool:
        """Whether its labels are those of AMD's exporter for a job of Slurm."""
        return any("{job_id}" in label.value for label in self.labels)

    @property
    def title(self) -> str:
        """``name@version``, as the configuration names it."""
        return f"{self.name}@{self.version}" if self.version else self.name

    @property
    def span(self) -> str:
        """Its versions in words: ``3.3.7-3.5.0 to 3.3.9-3.6.1``; empty when only one has its page."""
        return f"{self.versions[0]} to {self.versions[-1]}" if len(self.versions) > 1 else ""

    def conditional_families(
        self, quantities: Collection[str], kinds: Iterable[Mapping[str, str]] | None = None
    ) -> list[str]:
        """Families all of whose rows are conditional, of some devices, of one link, or of levels that may be empty.

        :param quantities: those that exist: rows of others are on no page.
        :param kinds: the facts of the devices that there are; None: any may be there.
        """
        every = None if kinds is None else [*kinds]

        def is_conditional(row: RowSpec) -> bool:
            if row.where or row.unless or row.without or row.fact:
                return True
            is_of_one_link = row.level != row.state_level
            is_of_some = row.is_of_some and (every is None or len({row.is_of(facts) for facts in every}) > 1)
            return is_of_one_link or is_of_some or row.state_level in AT_TIMES

        rows = {family.name: _possible_rows(family, quantities, every) for family in self.families}
        return [name for name, possible in rows.items() if possible and all(map(is_conditional, possible))]

    def absent_families(
        self, quantities: Collection[str], kinds: Iterable[Mapping[str, str]] | None = None
    ) -> list[str]:
        """Families that no entity has if only these quantities exist.

        :param kinds: the facts of the devices that there are; None: any may be there.
        """
        every = None if kinds is None else [*kinds]
        return [family.name for family in self.families if not _possible_rows(family, quantities, every)]


def _possible_rows(
    family: FamilySpec, quantities: Collection[str], kinds: list[Mapping[str, str]] | None
) -> list[RowSpec]:
    """The rows of a family that an entity can have if only these quantities, and kinds of devices, exist."""

    def can_exist(row: RowSpec) -> bool:
        if kinds is not None and not any(row.is_of(facts) for facts in kinds):
            return False
        if row.state_level in LINK_QUANTITIES:
            return "links_up" in quantities
        if row.state_level in RACK_QUANTITIES:
            return "imex_daemon_status" in quantities
        if row.state_level == "xid":
            return "xid" in quantities
        needed = {FOLLOW_FROM.get(name, name) for name in row.needed}
        return row.state_level in PAGE_QUANTITIES or needed <= set(quantities)

    return list(filter(can_exist, family.rows))


def with_rows_of_pods(identity: Identity) -> Identity:
    """The identity with rows of pods in its families with values of pods, if it shows each pod of a device.

    Rows of pods have the label ``pod_uid``, whether others have it or not.
    """
    if identity.shared_devices is not SharedDevices.EACH or not identity.values_of_pods:
        return identity
    has_uid = any(label.name == "pod_uid" for label in identity.labels_on(POD))
    uid = () if has_uid else (LabelSpec("pod_uid", "{pod_uid}", only_with="pod"),)

    def rows_of(family: FamilySpec) -> Iterator[RowSpec]:
        for row in family.rows:
            is_shared = family.name in identity.values_of_pods and row.level in _WITH_PODS
            yield replace(row, level=f"{row.level}/bare") if is_shared else row
            if is_shared:
                level = POD if row.level == "unit" else f"{POD}/{row.level}"
                yield replace(row, level=level, labels=(*row.labels, *uid))

    families = tuple(replace(family, rows=tuple(rows_of(family))) for family in identity.families)
    return replace(identity, families=families)


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
