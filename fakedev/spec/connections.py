"""How a board is connected: to its host over PCIe, to other boards over links; and how its server is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

#: Transfers of one PCIe lane by generation, in 10^9 a second (PCI-SIG's base specifications).
GIGATRANSFERS_PER_SECOND: Final[Mapping[int, float]] = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}


class Layout(Enum):
    """Where the links of the devices of a node lead."""

    SWITCHES = "switches"  # to switches, dealt round
    MESH = "mesh"  # to every other device, as many to each as can be
    RING = "ring"  # to the next and the last device
    NONE = "none"  # out of the node, to what is not simulated


@dataclass(frozen=True)
class Pcie:
    """A PCIe link as the board and its slot allow it.

    :param width: lanes.
    :param idle_generation: what the link falls back to while the board idles; 0: it does not.
    """

    generation: int
    width: int
    idle_generation: int = 0


@dataclass(frozen=True)
class Links:
    """The links of a board to other boards (NVLink, Xe Link, xGMI).

    :param count: of one board.
    :param switches: of one node, where the links lead to switches.
    :param peers: for each device of a node the devices at the other ends of its links, in order; it stands in the
        place of the layout on nodes of as many devices.
    """

    count: int
    layout: Layout = Layout.NONE
    switches: int = 0
    peers: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Server:
    """The server that a board usually comes in; what it says holds for nodes of at most as many devices.

    :param pci_addresses: of its devices in order of index, as ``0000:1b:00.0``; empty for none that are known.
    :param numa_nodes: that of each device.
    :param cpus: the CPUs of each NUMA node, as ``0-55,112-167``.
    """

    name: str = ""
    pci_addresses: tuple[str, ...] = ()
    numa_nodes: tuple[int, ...] = ()
    cpus: Mapping[int, str] = field(default_factory=dict)

    def facts(self, index: int, devices: int) -> dict[str, str]:
        """What it says of one device of a node with so many: its address, NUMA node and CPUs."""
        facts = {}
        if devices <= len(self.pci_addresses):
            facts["pci_address"] = self.pci_addresses[index]
        if devices <= len(self.numa_nodes):
            numa_node = self.numa_nodes[index]
            facts["numa_node"] = str(numa_node)
            if numa_node in self.cpus:
                facts["cpu_affinity"] = self.cpus[numa_node]
        return facts


@dataclass(frozen=True)
class Connections:
    """All connections of a type of board; None and empty for what is not known, or not there."""

    pcie: Pcie | None = None
    links: Links | None = None
    server: Server = field(default_factory=Server)
