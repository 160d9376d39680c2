"""The keys of device types in the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fakedev.config.devices.connections import CONNECTIONS
from fakedev.config.devices.dynamics import DYNAMICS
from fakedev.config.devices.mig import MIG
from fakedev.config.names import fact_name
from fakedev.config.schema.nodes import Node, Report, Scalar
from fakedev.config.schema.schema import INVALID, Key, Section, Type
from fakedev.config.schema.types import Boolean, Choice, Integer, ListOf, MapOf, Number, Size, Text
from fakedev.spec.quantities import ERROR_COUNTERS


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
    """A value for readers of the file only."""

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
        Key("aliases", ListOf(Text()), "Other names for it, in the catalog.", default=()),
        Key(
            "facts",
            _TEXTS,
            "Texts for labels: product_name, vendor, pci_device_id, driver_version and others.",
            default={},
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
                    ),
                    Key(
                        "reserved",
                        Size(),
                        "Memory that driver and firmware use.",
                        default=0.0,
                    ),
                    Key(
                        "page",
                        Size(),
                        "The granularity of used memory.",
                        default=1.0,
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
        Key("dynamics", DYNAMICS, "How clocks, power and heat act on each other.", default=None),
        Key("connections", CONNECTIONS, "How the board is connected.", default=None, default_words="not known"),
        Key("tiles", Integer(1, 16), "The number of its tiles.", default=1),
        Key("mig", MIG, "How it can be divided into instances.", default=None, default_words="not at all"),
        Key(
            "limits",
            MapOf(Amount(), words="mapping of quantities to numbers"),
            "Quantity to the value above which a workload of the device is ended: the one that grew most.",
            default={},
            default_words="none; where workloads give the memory that they need, all that the board has",
        ),
        Key(
            "capability",
            Number(),
            "How much work it does at its highest clock, relative to other types: TFLOPS, for instance.",
            default=0.0,
            default_words="not given",
        ),
        Key("counts-errors", Boolean(), "Whether it has error counters.", default=True),
        Key(
            "lacks",
            ListOf(Choice((*ERROR_COUNTERS, "xid"))),
            "Error counters, or codes (xid), that it lacks.",
            default=(),
        ),
        Key("sources", Anything(), "Where the values come from: for readers only."),
    ),
    doc="A model of device.",
)
