"""The keys of the catalog's files, and of the original exporter's JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fakedev.config.dynamics_keys import DYNAMICS
from fakedev.config.names import fact_name
from fakedev.config.nodes import Node, Scalar
from fakedev.config.problems import Report
from fakedev.config.scalars import Boolean, Choice, Integer, Number, Size, Text
from fakedev.config.schema import INVALID, Key, Section, Type
from fakedev.config.shapes import ListOf, MapOf
from fakedev.exposition.identity import UNITS, Layout, NumberFormat, SharedDevices
from fakedev.sim.quantities import ERROR_COUNTERS


@dataclass(frozen=True)
class Amount(Type):
    """A number, or a size in bytes."""

    words: str = "number or size"

    def takes(self, node: Node) -> bool:
        return isinstance(node, Scalar)

    def read(self, node: Node, where: str, report: Report) -> Any:
        number = Number()
        return (number if number.takes(node) else Size()).read(node, where, report)

    def schema(self) -> dict[str, Any]:
        return {"type": ["number", "string"]}


@dataclass(frozen=True)
class Anything(Type):
    """A value that is for readers of the file only."""

    words: str = "anything"

    def takes(self, node: Node) -> bool:
        return True

    def read(self, node: Node, where: str, report: Report) -> Any:
        return INVALID if node is None else ""

    def schema(self) -> dict[str, Any]:
        return {}


_TEXTS: Final = MapOf(Text(), check=fact_name, words="mapping of fact names to texts")


DEVICE_TYPE = Section(
    "device type",
    (
        Key("name", Text(), "Name of the type.", required=True),
        Key("aliases", ListOf(Text()), "Other names for it, in the catalog.", default=(), default_words="none"),
        Key(
            "facts",
            _TEXTS,
            "Texts for labels: product_name, vendor, pci_device_id, driver_version and others.",
            default={},
            default_words="none",
        ),
        Key(
            "memory",
            Section(
                "device type.memory",
                (
                    Key(
                        "total",
                        Size(),
                        "Memory of the board.",
                        default=0.0,
                        default_words="0",
                        unit="bytes, kB, MB, GB, KiB, MiB, GiB",
                    ),
                    Key(
                        "reserved",
                        Size(),
                        "What driver and firmware hold.",
                        default=0.0,
                        default_words="0",
                        unit="bytes, kB, MB, GB, KiB, MiB, GiB",
                    ),
                    Key(
                        "page",
                        Size(),
                        "Used memory is a whole number of these.",
                        default=1.0,
                        default_words="1",
                        unit="bytes, kB, MB, GB, KiB, MiB, GiB",
                    ),
                ),
                doc="The board's memory.",
            ),
            "The board's memory.",
        ),
        Key(
            "ranges",
            MapOf(
                ListOf(Amount(), 2, words="list of two numbers"),
                words="mapping of quantities to [at load 0, at load 100]",
            ),
            "Quantity to its values at load 0 and at load 100; those of bytes may be sizes (19818MiB).",
            required=True,
        ),
        Key("dynamics", DYNAMICS, "How clocks, power and heat act on each other.", default=None, default_words="none"),
        Key(
            "limits",
            MapOf(Amount(), words="mapping of quantities to numbers"),
            "Quantity to the value over which a workload of the device is ended: the one that grew most.",
            default={},
            default_words="none; where workloads say how much memory they need, all that the board has",
        ),
        Key(
            "capability",
            Number(),
            "How much work it does at its highest clock, beside other types: TFLOPS, for instance.",
            default=0.0,
            default_words="not said",
        ),
        Key("counts-errors", Boolean(), "Whether it has error counters.", default=True),
        Key(
            "lacks",
            ListOf(Choice((*ERROR_COUNTERS, "xid"))),
            "Error counters, or codes (xid), that it has not.",
            default=(),
            default_words="none",
        ),
        Key("sources", Anything(), "Where the values come from: for readers only.", default_words="none"),
    ),
    doc="A model of device.",
)

LABEL = Section(
    "identity.labels",
    (
        Key("name", Text(), "Name of the label.", required=True),
        Key("value", Text(), "Its value: text with {fact}, {fact|upper}, {fact|lower}.", required=True),
        Key("optional", Boolean(), "Left out when it has no value.", default=False),
        Key("texts", MapOf(Text()), "Texts shown in the place of values.", default={}, default_words="none"),
        Key("otherwise", Text(), "Shown for a value that texts have not.", default="", default_words="nothing"),
    ),
    doc="A label of a row.",
)
_LABELS: Final = ListOf(LABEL, words="list of labels")
_QUANTITY_DOC = "The quantity it shows."
_REQUIRES: Final = Key(
    "requires", Text(), "Another quantity that an entity must have to be shown.", default="", default_words="none"
)
_PLUS: Final = Key(
    "plus", ListOf(Text()), "Quantities that are added to it; an entity must have them too.", default=(),
    default_words="none",
)  # fmt: skip
_PER: Final = Key(
    "per", Text(), "A quantity that it is divided by; an entity must have it too.", default="", default_words="none"
)
_WHERE: Final = Key(
    "where", ListOf(Text()), "Quantities of which one must not be 0, or there is no row.", default=(),
    default_words="none",
)  # fmt: skip
_UNLESS: Final = Key(
    "unless", ListOf(Text()), "Quantities that must all be 0 or absent, or there is no row.", default=(),
    default_words="none",
)  # fmt: skip
_UNIT: Final = Key("unit", Choice(tuple(UNITS)), "Unit in which it is shown.", default="same")

ROW = Section(
    "identity.families.rows",
    (
        Key("quantity", Text(), _QUANTITY_DOC, required=True),
        _PLUS,
        _PER,
        _UNIT,
        Key("level", Text(), "The level of entities that have a row.", default="device"),
        _REQUIRES,
        _WHERE,
        _UNLESS,
        Key("labels", _LABELS, "Labels of this row, after the identity's.", default=(), default_words="none"),
    ),
    doc="A row of a family for each entity.",
)

FAMILY = Section(
    "identity.families",
    (
        Key("name", Text(), "Name of the family.", required=True),
        Key("type", Choice(("gauge", "counter", "untyped")), "Word of its TYPE line.", required=True),
        Key("help", Text(), "Text of its HELP line.", required=True),
        Key("format", Choice(tuple(kind.value for kind in NumberFormat)), "How numbers are written.", required=True),
        Key(
            "quantity", Text(), "The quantity it shows, when it has one row for each device.", default_words="see rows"
        ),
        _PLUS,
        _PER,
        _UNIT,
        _REQUIRES,
        _WHERE,
        _UNLESS,
        Key("labels", _LABELS, "Labels of that row, after the identity's.", default=(), default_words="none"),
        Key(
            "rows",
            ListOf(ROW, 1, words="list of rows"),
            "Its rows, in place of quantity.",
            default=(),
            default_words="one of quantity, unit, labels",
        ),
    ),
    doc="A metric family.",
)

IDENTITY = Section(
    "identity",
    (
        Key("name", Text(), "Name of the exporter.", required=True),
        Key(
            "based-on",
            Text(),
            "Another identity: what is not written here is as it is there.",
            default="",
            default_words="none",
        ),
        Key("version", Text(), "Its version.", default="", default_words="none"),
        Key("aliases", ListOf(Text()), "Other names for it, in the catalog.", default=(), default_words="none"),
        Key("default", Boolean(), "Whether its name without a version means this one, in the catalog.", default=False),
        Key("content-type", Text(), "Content-Type of its pages.", default="text/plain; version=0.0.4; charset=utf-8"),
        Key("openmetrics", Boolean(), "Whether it negotiates OpenMetrics.", default=False),
        Key(
            "layout",
            Choice(tuple(layout.value for layout in Layout)),
            "The order of lines on a page.",
            default="families",
        ),
        Key("sort-labels", Boolean(), "Whether labels are in alphabetical order.", default=False),
        Key("leading-labels", Integer(0, 100), "How many labels stay in front when the others are sorted.", default=0),
        Key("timestamps", Boolean(), "Whether lines end with a time in milliseconds.", default=False),
        Key(
            "shared-devices",
            Choice(tuple(shared.value for shared in SharedDevices)),
            "Which pods the rows of a shared device show: the first on it, or each in rows of its own.",
            default="first",
        ),
        Key("labels", _LABELS, "Labels of every row.", default=(), default_words="none"),
        Key(
            "families",
            ListOf(FAMILY, 1, words="list of families"),
            "The metric families, in the order of the page.",
            default=(),
            default_words="as in based-on",
        ),
        Key(
            "not-covered",
            ListOf(Text()),
            "What the exporter has and this identity has not, in words.",
            default=(),
            default_words="none",
        ),
        Key("sources", Anything(), "Where it comes from: for readers only.", default_words="none"),
    ),
    doc="What one version of an exporter prints.",
)
