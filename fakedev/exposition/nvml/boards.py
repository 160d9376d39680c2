"""What of nodes, boards, MIG instances and links does not change from tick to tick, as records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.exposition.numbers import version_number
from fakedev.exposition.nvml.records import dtype_of, fact_of, slices_of, whole
from fakedev.sim.entities.roster import Roster, RosterNode
from fakedev.sim.entities.state import Positions
from fakedev.spec.binary_records import Record, text_of
from fakedev.spec.device_types import DeviceType
from fakedev.spec.mig import profiles_to_text
from fakedev.spec.nvml_layout import ABSENT, BOARD, LINK, NODE, PART

#: NVIDIA's number of a vendor on PCI.
_VENDOR: Final = 0x10DE
_VENDOR_NAME: Final = "NVIDIA"
#: The generation of NVLink by architecture.
_LINK_GENERATIONS: Final = {"pascal": 1, "volta": 2, "ampere": 3, "hopper": 4, "blackwell": 5}
#: A clock step that boards without dynamics have.
_CLOCK_STEP_MHZ: Final = 15.0


class Chosen(NamedTuple):
    """The boards of some nodes that NVML shows, in order of the file.

    :ivar nodes: with the indices of their boards.
    :ivar devices: positions of the boards in the level of devices, shape (B,).
    :ivar parts: positions of their instances in the level of parts, shape (P,).
    :ivar links: positions of their links, shape (L,).
    """

    nodes: Sequence[tuple[RosterNode, Sequence[int]]]
    devices: Positions
    parts: Positions
    links: Positions


def chosen(roster: Roster, nodes: Sequence[RosterNode]) -> Chosen:
    """The boards of NVIDIA, and those whose vendor is not known, of some nodes."""
    found = [(node, [index for index in range(len(node.devices)) if _is_shown(node, index)]) for node in nodes]
    devices = [node.first + index for node, indices in found for index in indices]
    parts = [unit - roster.parts.device_count for device in devices for unit in roster.parts.of(device)]
    links = [link for device in devices for link in roster.links.of(device)]
    return Chosen(found, *(np.array(each, dtype=np.int64) for each in (devices, parts, links)))


def _is_shown(node: RosterNode, index: int) -> bool:
    device = node.pool.devices.get(index)
    for facts in (device.facts if device else {}, node.spec.facts, node.pool.facts, node.pool.device_type.facts):
        if "vendor" in facts:
            return _VENDOR_NAME in facts["vendor"].upper()
    return True


def static_records(roster: Roster, seed: int, boards: Chosen) -> dict[str, NDArray[Any]]:
    """The records of nodes, boards, parts and links, by the names of their places in a slot."""
    node_rows: list[dict[str, Any]] = []
    board_rows: list[dict[str, Any]] = []
    part_rows: list[dict[str, Any]] = []
    link_rows: list[dict[str, Any]] = []
    place_of = {device: place for place, device in enumerate(boards.devices.tolist())}
    for node, indices in boards.nodes:
        facts = roster.facts(seed, node)
        of_parts = roster.part_facts(seed, node, facts)
        first_part = roster.parts.of(node.first).start
        first = facts[indices[0]] if indices else {}
        node_rows.append({
            **_facts(NODE, first), "name": text_of(node.name, 256), "cuda_version": _cuda_version(first),
            "first_board": len(board_rows), "board_count": len(indices),
        })  # fmt: skip
        for index in indices:
            device = node.first + index
            units, links = roster.parts.of(device), roster.links.of(device)
            own = of_parts[units.start - first_part : units.stop - first_part]
            board_rows.append({
                **_board(facts[index], node.pool.device_type), "node": len(node_rows) - 1, "index": index,
                "first_part": len(part_rows), "part_count": len(own), "first_link": len(link_rows),
                "link_count": len(links),
            })  # fmt: skip
            part_rows += [_part(each, len(board_rows) - 1) for each in own]
            link_rows += [_link(roster, node, link, place_of) for link in links]
    rows = ((NODE, node_rows), (BOARD, board_rows), (PART, part_rows), (LINK, link_rows))
    return {f"{record.name}s": _array(record, each) for record, each in rows}


def _array(record: Record, rows: Sequence[Mapping[str, Any]]) -> NDArray[Any]:
    array = np.zeros(len(rows), dtype=dtype_of(record))
    for place, row in enumerate(rows):
        for field in record.fields:
            array[place][field.name] = row.get(field.name, b"" if field.text_bytes else ABSENT)
    return array


def _facts(record: Record, facts: Mapping[str, str]) -> dict[str, Any]:
    return {field.name: fact_of(field, facts) for field in record.fields if field.fact}


def _board(facts: Mapping[str, str], device_type: DeviceType) -> dict[str, Any]:
    pci = {**facts, "id": facts.get("pci_device_id", "").removeprefix("0x")}
    capability = version_number(facts.get("compute_cap", "")) or (ABSENT, ABSENT)
    dynamics, links = device_type.dynamics, device_type.connections.links
    low, high = device_type.power_limit_ends()
    per_link = dynamics.fabric_bytes_per_second / links.count if dynamics and links and links.count else 0.0
    address = facts.get("pci_address", "")
    return {
        **_facts(BOARD, facts),
        "uuid": text_of(_prefixed("GPU-", facts.get("uuid", "")), 48),
        "pci_bus_id": text_of(f"0000{address.upper()}" if address else "", 32),
        "pci_device_id": int(pci["id"], 16) << 16 | _VENDOR if _is_hexadecimal(pci["id"]) else ABSENT,
        "max_part_count": device_type.mig_slices,
        "mig_profiles": text_of(profiles_to_text(device_type.mig_profiles, 512), 512),
        "minor_number": int(facts["index"]),
        "compute_major": capability[0],
        "compute_minor": capability[1],
        "power_limit_min": int(whole(low, 1000.0)) if dynamics else ABSENT,
        "power_limit_max": int(whole(high, 1000.0)) if dynamics else ABSENT,
        "clock_step": int(whole(dynamics.clock_step_mhz if dynamics else _CLOCK_STEP_MHZ, 1000.0)),
        "link_generation": _LINK_GENERATIONS.get(facts.get("architecture", ""), ABSENT) if links else ABSENT,
        "link_bandwidth": int(whole(per_link)) if per_link else ABSENT,
    }


def _part(facts: Mapping[str, str], board: int) -> dict[str, Any]:
    own = {"uuid": text_of(_prefixed("MIG-", facts["part_uuid"]), 48), "board": board}
    return {**_facts(PART, facts), **own, "slices": slices_of(facts.get("mig_profile", ""))}


def _link(roster: Roster, node: RosterNode, link: int, place_of: Mapping[int, int]) -> dict[str, Any]:
    layout = roster.links
    owner, remote, switch = int(layout.owners[link]), int(layout.remotes[link]), int(layout.switches[link])
    row = {"board": place_of[owner], "number": link - int(layout.firsts[owner]), "up": 1}
    if remote >= 0:
        peer = int(layout.owners[remote])
        row |= {"remote_board": place_of.get(peer, ABSENT), "remote_number": remote - int(layout.firsts[peer])}
    if switch >= 0:
        row["switch_number"] = switch - layout.switches_of(node.first).start
    return row


def _cuda_version(facts: Mapping[str, str]) -> int:
    numbers = version_number(facts.get("cuda_version", ""))
    return numbers[0] * 1000 + numbers[1] * 10 if numbers else ABSENT


def _prefixed(prefix: str, uuid: str) -> str:
    return uuid if uuid.startswith(prefix) or not uuid else prefix + uuid


def _is_hexadecimal(text: str) -> bool:
    return 0 < len(text) <= 4 and all(each in "0123456789abcdefABCDEF" for each in text)
