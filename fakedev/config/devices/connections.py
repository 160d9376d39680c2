"""How a board is connected to its host and to other boards: the keys of ``connections``, and the specification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fakedev.config.names import MAX_DEVICES_PER_NODE, pci_address
from fakedev.config.schema.nodes import Place, Report
from fakedev.config.schema.schema import Key, Section, Values
from fakedev.config.schema.types import Choice, Integer, ListOf, MapOf, Text
from fakedev.spec.device_types import GIGATRANSFERS_PER_SECOND, Connections, DeviceType, Layout, Links, Pcie, Server

#: Links of one board, and switches of one node.
MAX_LINKS: Final = 64
_GENERATION: Final = Integer(min(GIGATRANSFERS_PER_SECOND), max(GIGATRANSFERS_PER_SECOND))
_INDEX: Final = Integer(0, MAX_DEVICES_PER_NODE - 1)

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
        Key("count", Integer(1, MAX_LINKS), "Links of a board.", required=True),
        Key(
            "layout", Choice.of(Layout),
            "Where they go: to switches, to all other devices of the node, to the next and the last, or out of it.",
            default=Layout.NONE,
        ),
        Key("switches", Integer(0, MAX_LINKS), "Switches of a node.", default=0),
        Key(
            "peers",
            ListOf(ListOf(_INDEX, words="list of devices"), words="list of lists of devices"),
            "For each device the devices at the other ends of its links, in their order; in place of the layout on "
            "nodes of as many devices.",
            default=(),
        ),
    ),
    doc="The links to other boards.",
)  # fmt: skip

SERVER = Section(
    "device type.connections.server",
    (
        Key("name", Text(), "Its name: for readers only.", default=""),
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
    doc="The server that usually holds the board; used for nodes with at most as many devices.",
)  # fmt: skip

CONNECTIONS = Section(
    "device type.connections",
    (
        Key("pcie", PCIE, "The PCIe link.", default=None, default_words="not shown"),
        Key("links", LINKS, "The links to other boards.", default=None, default_words="no individual links"),
        Key("server", SERVER, "The server that usually holds the board.", default=None, default_words="not known"),
    ),
    doc="How the board is connected.",
)


def read_connections(section: Values | None, report: Report) -> Connections:
    """The connections that a section describes; problems are reported."""
    if section is None:
        return Connections()
    pcie = None if section["pcie"] is None else _pcie(section["pcie"], report)
    links = None if section["links"] is None else _links(section["links"], report)
    return Connections(pcie, links, _server(section["server"], report))


def with_topology(device_type: DeviceType, values: Values, report: Report) -> DeviceType:
    """The device type with the topology of a pool, if that has one; problems are reported."""
    if values["topology"] is None:
        return device_type
    layout, links, place = values["topology"], device_type.connections.links, values.place_of("topology")
    if links is None:
        report.problem(place, f"topology: the device type {device_type.name!r} has no individual links")
        return device_type
    if layout is Layout.SWITCHES and not links.switches:
        report.problem(place, f"topology: the device type {device_type.name!r} has no switches")
        return device_type
    switches = links.switches if layout is Layout.SWITCHES else 0
    links = replace(links, layout=layout, switches=switches, peers=())
    return replace(device_type, connections=replace(device_type.connections, links=links))


def _pcie(values: Values, report: Report) -> Pcie:
    generation, width, idle = (values[key] or 0 for key in ("generation", "width", "idle-generation"))
    if idle > generation:
        place = values.place_of("idle-generation")
        report.problem(place, f"pcie: idle-generation {idle} is over generation {generation}")
    return Pcie(generation, width, idle)


def _links(values: Values, report: Report) -> Links:
    count, layout, switches = values["count"] or 0, values["layout"], values["switches"]
    if (layout is Layout.SWITCHES) != bool(switches):
        place = values.place_of("switches" if switches else "layout")
        report.problem(place, "links: switches are given where the layout is switches, and only there")
    peers = tuple(tuple(row) for row in values["peers"])
    _check_peers(peers, count, values.place_of("peers"), report)
    return Links(count, layout, switches, peers)


def _check_peers(peers: Sequence[Sequence[int]], count: int, place: Place, report: Report) -> None:
    """Reports links that only one end lists."""
    for device, row in enumerate(peers):
        if len(row) != count or not all(0 <= peer < len(peers) and peer != device for peer in row):
            report.problem(place, f"peers: device {device} needs {count} others of 0 to {len(peers) - 1}")
            return
    for device, row in enumerate(peers):
        for peer in set(row):
            if row.count(peer) != peers[peer].count(device):
                report.problem(place, f"peers: {device} has another number of links to {peer} than {peer} to {device}")
                return


def _server(values: Values, report: Report) -> Server:
    addresses = values["pci-addresses"]
    if len(set(addresses)) < len(addresses):
        report.problem(values.place_of("pci-addresses"), "server: two devices have the same PCI address")
    cpus = {}
    for text, shown in values["cpus"].items():
        if not text.isdecimal():
            report.problem(values.place_of("cpus"), f"server: cpus: {text[:40]!r} is no number of a NUMA node")
            continue
        cpus[int(text)] = shown
    return Server(values["name"], tuple(addresses), tuple(values["numa-nodes"]), cpus)
