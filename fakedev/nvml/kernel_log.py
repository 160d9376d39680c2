"""What drivers write into the kernel's log about boards: NVIDIA's the XIDs; AMD's and Intel's have files of their own.

Monitors of nodes find errors there: gpud, NVSentinel's syslog monitor, node-problem-detector, scripts with dmesg. The
first XID of a board has two lines before it, with its UUID and its serial number.

Sources of the form: NVIDIA's Xid documentation ("Viewing Xid Messages", https://docs.nvidia.com/deploy/xid-errors/)
and lines of public reports, by code: 13 leptonai/gpud#46; 31, 43, 94 akash-network/support#244; 45
NVIDIA/open-gpu-kernel-modules#1150; 48 NVIDIA/gpu-operator#1146; 62, 120 forum reports of a Turing board and of a
GB10; 63 stas00/ml-engineering; 64, 79, 119 test data of gpud and of others; 74 NVIDIA/NVSentinel, design 022; 95 a
comment of NVIDIA's open kernel modules; 144 to 150 test data of NVSentinel and of gpud. Numbers that only NVIDIA can
read are those of the reports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fakedev.fleet.entities.naming import device_facts
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.links.link_levels import link_history
from fakedev.fleet.spec.xids import Xid
from fakedev.nvml.amd_errors import AmdWords
from fakedev.nvml.board_errors import BoardError
from fakedev.nvml.chosen_boards import AMD, is_shown
from fakedev.nvml.image import prefixed
from fakedev.nvml.intel_errors import IntelWords

#: The processes of the errors are not known, as the driver says it.
_NOBODY: Final = "pid='<unknown>', name=<unknown>"
_TEXTS: Final = {
    Xid.GRAPHICS_EXCEPTION: "Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): Illegal Instruction Parameter",
    Xid.PAGE_FAULT: "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_8 faulted @ 0x73ac_1c000000. "
    "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE",
    Xid.CHANNEL_STOPPED: "Ch 00000008",
    Xid.CLEANED_UP: "Ch 00000008",
    Xid.DOUBLE_BIT: "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at "
    "partition 4, subpartition 1",
    Xid.HALT: "203c(3090) 85020c09 ffffbd53",
    Xid.ROW_REMAPPED: "Row Remapper: New row marked for remapping, reset gpu to activate.",
    Xid.REMAP_FAILED: "Row Remapper Error: (0x00000002eebc4100) - All reserved rows for bank are remapped",
    Xid.FALLEN_OFF: "GPU has fallen off the bus.",
    Xid.CONTAINED: "Contained: SM (0x1). RST: No, D-RST: No",
    Xid.UNCONTAINED: "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    Xid.GSP_TIMEOUT: "Timeout after 6s of waiting for RPC response from GPU{index} GSP! Expected function 103 "
    "(GSP_RM_ALLOC) (0x2081 0x4).",
    Xid.GSP_ERROR: "GSP task exception: load access fault",
}
#: For codes of which no line was found.
_OTHER: Final = "Unknown Error"
_LINK: Final = "NVLink: fatal error detected on link {}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"


class BoardXid(NamedTuple):
    """An XID that a board reported.

    :ivar board: its index in the node.
    :ivar seconds: simulated seconds.
    :ivar wall_seconds: since 1970.
    :ivar links: the numbers of the links that XID 74 concerns.
    :ivar message: the driver's words after the code; empty: they follow from the code.
    """

    node: RosterNode
    board: int
    code: int
    seconds: float
    wall_seconds: float
    links: Sequence[int]
    message: str


def xids_of_tick(fleet: Fleet, nodes: Sequence[str]) -> list[BoardXid]:
    """The XIDs that NVIDIA's boards reported in the present tick, in order.

    :param nodes: names of the nodes; none: all of the fleet.
    """
    roster, state = fleet.roster, fleet.state
    found = []
    for report in fleet.reports:
        for device in report.devices.tolist():
            node = roster.nodes[roster.node_position(device)]
            index = device - node.first
            if (not nodes or node.name in nodes) and roster.node(node.name) is not None and is_shown(node, index):
                links = _broken(fleet, device) if report.code == Xid.LINK else ()
                seconds, wall = state.seconds, state.wall_seconds
                found.append(BoardXid(node, index, report.code, seconds, wall, links, report.message))
    return found


def _broken(fleet: Fleet, device: int) -> list[int]:
    """The numbers of the links of a board that are down; all, where each has only a part of its bandwidth."""
    links, up = fleet.roster.links.of(device), link_history(fleet.state.levels).up
    down = [number for number, link in enumerate(links) if up is not None and not up[link]]
    return down or list(range(len(links)))


#: What a kernel tells.
Reported = BoardXid | BoardError


class KernelLog:
    """Words what boards of a fleet report.

    :param seed: of the fleet, for the facts of boards.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._of_amd, self._of_intel = AmdWords(seed), IntelWords(seed)
        self._introduced: set[tuple[str, int]] = set()

    def texts(self, report: Reported) -> Iterator[str]:
        """The messages of a report, without the time and the host."""
        if isinstance(report, BoardXid):
            return self._of_xid(report)
        return (self._of_amd if report.maker == AMD else self._of_intel).texts(report)

    def _of_xid(self, xid: BoardXid) -> Iterator[str]:
        node, index = xid.node, xid.board
        facts = device_facts(self._seed, node.pool, node.spec, index)
        address = facts["pci_address"].rpartition(".")[0]
        if (node.name, index) not in self._introduced:
            self._introduced.add((node.name, index))
            yield f"NVRM: GPU at PCI:{address}: {prefixed('GPU-', facts['uuid'])}"
            yield f"NVRM: GPU Board Serial Number: {facts['serial']}"
        texts = [_LINK.format(link) for link in xid.links]
        for text in texts or [_TEXTS.get(xid.code, _OTHER)]:  # type: ignore[call-overload]  # an IntEnum is its number
            words = xid.message or f"{_NOBODY}, {text.format(index=index)}"
            yield f"NVRM: Xid (PCI:{address}): {xid.code}, {words}"
        if xid.code == Xid.FALLEN_OFF:
            yield f"NVRM: GPU {facts['pci_address']}: {_TEXTS[Xid.FALLEN_OFF]}"
