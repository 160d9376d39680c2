"""The keys of ``connections``: how a board is connected to its host and to other boards."""

from __future__ import annotations

from typing import Final

from fakedev.config.names import MOST_DEVICES_PER_NODE, pci_address
from fakedev.config.schema.schema import Key, Section
from fakedev.config.schema.shapes import ListOf, MapOf
from fakedev.config.schema.types import Choice, Integer, Text
from fakedev.spec.connections import GIGATRANSFERS_PER_SECOND, Layout

#: Links of one board, and switches of one node.
MOST_LINKS: Final = 64
_GENERATION: Final = Integer(min(GIGATRANSFERS_PER_SECOND), max(GIGATRANSFERS_PER_SECOND))
_INDEX: Final = Integer(0, MOST_DEVICES_PER_NODE - 1)

PCIE = Section(
    "device type.connections.pcie",
    (
        Key("generation", _GENERATION, "The highest generation.", required=True),
        Key("width", Integer(1, 32), "Lanes.", required=True),
        Key(
            "idle-generation", _GENERATION, "What it falls back to while the board idles.", default=0,
            default_words="it does not",
        ),
    ),
    doc="The PCIe link.",
)  # fmt: skip

LINKS = Section(
    "device type.connections.links",
    (
        Key("count", Integer(1, MOST_LINKS), "Links of a board.", required=True),
        Key(
            "layout", Choice(tuple(layout.value for layout in Layout)),
            "Where they lead: to switches, to all other devices of the node, to the next and the last, or out of it.",
            default="none",
        ),
        Key("switches", Integer(0, MOST_LINKS), "Switches of a node.", default=0),
        Key(
            "peers",
            ListOf(ListOf(_INDEX, words="list of devices"), words="list of lists of devices"),
            "For each device the devices at the other ends of its links, in their order; in place of the layout on "
            "nodes of as many devices.",
            default=(),
            default_words="none",
        ),
    ),
    doc="The links to other boards.",
)  # fmt: skip

SERVER = Section(
    "device type.connections.server",
    (
        Key("name", Text(), "What it is called: for readers.", default=""),
        Key(
            "pci-addresses", ListOf(Text("PCI address", pci_address)), "The PCI addresses of its devices.", default=(),
            default_words="from seed, node and index",
        ),
        Key("numa-nodes", ListOf(Integer(0, 1023)), "The NUMA node of each.", default=(), default_words="not known"),
        Key(
            "cpus", MapOf(Text(), words="mapping of NUMA nodes to CPUs"), "The CPUs of each NUMA node.", default={},
            default_words="not known",
        ),
    ),
    doc="The server that the board usually comes in; it holds for nodes of at most as many devices.",
)  # fmt: skip

CONNECTIONS = Section(
    "device type.connections",
    (
        Key("pcie", PCIE, "The PCIe link.", default=None, default_words="not shown"),
        Key("links", LINKS, "The links to other boards.", default=None, default_words="none that are told apart"),
        Key("server", SERVER, "The server that the board usually comes in.", default=None, default_words="not known"),
    ),
    doc="How the board is connected.",
)
