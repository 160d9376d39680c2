"""An identity: what one version of one vendor's exporter prints, as data.

A family is a list of rows; a row shows one quantity of one entity level, in a unit, with labels.
Labels are templates over facts: ``nvidia{index}``, ``GPU-{uuid}``, ``0000{pci_address|upper}``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final

from fakedev.sim.spec import MetricName

#: Units a row may be shown in: factor from the quantity's own unit.
UNITS: Final[dict[str, float]] = {
    "same": 1.0,
    "percent": 100.0,
    "MiB": 1.0 / 1048576,
    "kB": 1.0 / 1000,
    "mJ": 1000.0,
    "uJ": 1e6,
    "mW": 1000.0,
    "Hz": 1e6,
}


class NumberFormat(Enum):
    """How an exporter writes numbers."""

    INT = "int"  # 345
    FIXED6 = "fixed6"  # 69.850000
    GO = "go"  # shortest, exponent from 1e6: 12.5, 1.048576e+06
    PYTHON = "python"  # prometheus_client's: 55.0, 1.048576e+06
    DIGITS15 = "digits15"  # C's %.15g: 55, 1234567.5


class Layout(Enum):
    """The order of lines on a page."""

    FAMILIES = "families"  # HELP, TYPE, rows; family by family
    DECLARATIONS_FIRST = "declarations-first"  # all HELP and TYPE, then all rows sorted as text


@dataclass(frozen=True)
class LabelSpec:
    """A label: its name, and a template over facts. An optional one is left out when it has no value."""

    name: str
    value: str
    optional: bool = False


@dataclass(frozen=True)
class RowSpec:
    """One row for each entity of ``level`` that has ``quantity``, in ``unit`` (a key of UNITS).

    :param requires: another quantity that the entity must have; empty for none.
    """

    quantity: str
    unit: str = "same"
    labels: tuple[LabelSpec, ...] = ()
    level: str = "device"
    requires: str = ""


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
    :param leading_labels: how many of ``labels`` stay in front when the others are sorted.
    :param sort_labels: labels are in alphabetical order of their names.
    :param timestamps: every row ends with the tick's wall time in milliseconds.
    :param openmetrics: whether the exporter negotiates OpenMetrics.
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
    timestamps: bool = False
    openmetrics: bool = False
    not_covered: tuple[str, ...] = ()

    def metric_names(self) -> dict[str, MetricName]:
        """What each family shows first, for limits that users give by the names that they see."""
        return {
            family.name: MetricName(family.rows[0].quantity, UNITS[family.rows[0].unit])
            for family in self.families
            if family.rows
        }

    @property
    def title(self) -> str:
        """``name@version``, as the configuration names it."""
        return f"{self.name}@{self.version}" if self.version else self.name

    def absent_families(self, quantities: Collection[str]) -> list[str]:
        """Families that cannot be shown where only these quantities exist."""
        return [
            family.name
            for family in self.families
            if not any({row.quantity, row.requires or row.quantity} <= set(quantities) for row in family.rows)
        ]
