"""The names of devices: UUIDs, serial numbers, PCI addresses, device files.

All are functions of (seed, node name, index), so that added devices change no names. PCI addresses are those of the
server that usually has the board, if they are known.
"""

from __future__ import annotations

import hashlib
import math
import re
import uuid
from collections.abc import Mapping
from typing import Final

from fakedev.fleet.spec.device_types import DeviceType, PartSpec
from fakedev.fleet.spec.drivers import cuda_of
from fakedev.fleet.spec.fleet_spec import NodeSpec, PoolSpec
from fakedev.fleet.spec.quantities import FACT_ALIASES, IMEX_DOMAIN_WORDS
from fakedev.fleet.spec.rack_spec import RackSpec

#: The alphabet of names that Kubernetes generates: without vowels and characters that look alike.
LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
#: Facts that are the numbers of a PCI address, and the signs between them.
_PCI_PARTS: Final = ("pci_domain", "pci_bus", "pci_device")
_PCI_SIGNS: Final = re.compile("[:.]")
#: Serial numbers of racks begin so.
_CHASSIS: Final = 1_820_000_000_000
_BUSES_PER_DOMAIN: Final = 28  # leaves room below 0xff for eight bus numbers each, from 0x0a


def _digest(seed: int, node: str, index: int, what: str) -> bytes:
    return hashlib.blake2b(f"{seed}\0{node}\0{index}\0{what}".encode(), digest_size=16).digest()


def pci_address(seed: int, node: str, index: int) -> str:
    """A PCI address (``0000:1b:00.0``), unique in its node, with bus numbers spread as on real servers."""
    domain, slot = divmod(index, _BUSES_PER_DOMAIN)
    bus = 0x0A + slot * 8 + _digest(seed, node, index, "pci")[0] % 8
    return f"{domain:04x}:{bus:02x}:00.0"


def driver_facts(driver: str, of_type: Mapping[str, str]) -> dict[str, str]:
    """The facts that follow from a version of a driver: also the version of CUDA, of NVIDIA's."""
    has_cuda = "cuda_version" in of_type or of_type.get("vendor", "").startswith("NVIDIA")
    cuda = cuda_of(driver) if has_cuda else None
    return {"driver_version": driver} | ({} if cuda is None else {"cuda_version": cuda})


def device_facts(seed: int, pool: PoolSpec, node: NodeSpec, index: int) -> dict[str, str]:
    """All facts of one device; its own facts win over the facts of its node, pool and type.

    The original's label names (``addr``, ``file``, ``pciid``, ``name``) and ours are aliases of each other, so that any
    identity works on any device. A version of NVIDIA's driver decides the version of CUDA.
    """
    device = pool.devices.get(index)
    configured = _with_aliases(pool.device_type.facts) | _rack_facts(seed, pool, node, index)
    for source in (pool.facts, node.facts, device.facts if device else {}):
        if "driver_version" in source:
            configured |= driver_facts(source["driver_version"], configured)
        configured |= _with_aliases(source)
    serial = _digest(seed, node.name, index, "serial")
    facts = {
        # As vendors print it, without a prefix.
        "uuid": str(uuid.UUID(bytes=_digest(seed, node.name, index, "uuid"), version=4)),
        # 13 digits, as on NVIDIA's boards.
        "serial": f"{1_320_000_000_000 + int.from_bytes(serial[:5], 'big') % 10**10}",
        "pci_address": pci_address(seed, node.name, index),
        "device_file": f"card{index}",
        **_server_facts(pool, index),
    }
    facts.update(configured)
    facts.update({"index": str(index), "node": node.name, "pool": pool.name})
    if any(not part.is_tile for part in pool.parts_of(index)):
        facts["mig_mode"] = "1"
    facts["device_count"] = str(pool.devices_per_node)
    facts["device_memory_bytes"] = f"{pool.device_type.memory_total_bytes:.0f}"
    facts = _with_aliases(facts)
    facts.update(zip(_PCI_PARTS, (f"0x{part}" for part in _PCI_SIGNS.split(facts["pci_address"])), strict=False))
    return facts


def cpu_serial(seed: int, node: str, cpu: int) -> str:
    return _digest(seed, node, cpu, "cpu").hex()[:18].upper()


def rack_name(pool: PoolSpec, node: NodeSpec) -> str:
    """The name of a node's rack: the pool's and the number of the rack, from 0."""
    return f"{pool.name}-rack-{node.place // pool.racks.trays}" if pool.racks is not None else ""


def _rack_facts(seed: int, pool: PoolSpec, node: NodeSpec, index: int) -> dict[str, str]:
    """What a node's place in its rack gives its devices: serials, slots, ids and the clique."""
    racks = pool.racks
    if racks is None:
        return {}
    name, tray = rack_name(pool, node), node.place % racks.trays
    facts = {
        "rack": name,
        # 13 digits, as on racks of captures.
        "platform_chassis_serial": str(_CHASSIS + int.from_bytes(_digest(seed, name, 0, "chassis")[:5], "big") % 10**9),
        # Slots count the switch trays, too; captures have tray 4 in slot 14, and tray 15 in slot 25.
        "platform_slot_number": str(1 + racks.switch_trays + tray),
        "platform_tray_index": str(tray),
        "platform_host_id": "1",
        # Captures of both types have the modules 2, 1, 4, 3.
        "platform_module_id": str((index ^ 1) + 1),
        # At the start; then it follows the quantity of this name.
        "imex_domain_status": IMEX_DOMAIN_WORDS[0],
        **_smoothing_facts(pool.device_type, racks),
    }
    if racks.switch_trays:
        number = (tray * pool.devices_per_node + index) // (racks.partition or racks.trays * pool.devices_per_node)
        cluster = str(uuid.UUID(bytes=_digest(seed, name, 0, "cluster"), version=4))
        facts |= {"fabric_cluster_uuid": cluster, "fabric_clique_id": str(number), "fabric_state": "3"}
    return facts


def _smoothing_facts(board: DeviceType, racks: RackSpec) -> dict[str, str]:
    """The settings of power smoothing in NVML's units; none without it. Privilege 2 sees all of them."""
    if not racks.smooths_power or board.dynamics is None:
        return {}
    floor = racks.smoothing_floor_percent
    facts = {
        "power_smoothing_enabled": "1",
        "power_smoothing_privilege": "2",
        "power_smoothing_floor_percent": f"{floor:g}",
        "power_smoothing_floor_watts": f"{board.dynamics.power_limit_watts * floor / 100.0:g}",
        "power_smoothing_hysteresis": f"{racks.smoothing_hold_seconds * 1000.0:.0f}",
    }
    ramps = {"power_smoothing_ramp_up": racks.ramp_up_watts, "power_smoothing_ramp_down": racks.ramp_down_watts}
    return facts | {name: f"{watts * 1000.0:.0f}" for name, watts in ramps.items() if math.isfinite(watts)}


def _server_facts(pool: PoolSpec, index: int) -> dict[str, str]:
    """The server's facts of a device; without the address, if the configuration gives it to another device."""
    facts = pool.device_type.connections.server.facts(index, pool.devices_per_node)
    if facts.get("pci_address", "") in pool.given_addresses:
        return {name: text for name, text in facts.items() if name != "pci_address"}
    return facts


def part_facts(seed: int, node: str, index: int, number: int, part: PartSpec) -> dict[str, str]:
    """The facts of a part in addition to its device's.

    :param number: of the part, among the parts of its device.
    """
    part_uuid = str(uuid.UUID(bytes=_digest(seed, node, index, f"part {part.key}"), version=5))
    return {"part_uuid": part_uuid, **part.facts, "part": str(number)}


def _with_aliases(facts: Mapping[str, str]) -> dict[str, str]:
    """Facts, with each alias filled in from the long name, and the reverse."""
    result = dict(facts)
    for short, long in FACT_ALIASES.items():
        if short in facts:
            result.setdefault(long, facts[short])
        elif long in facts:
            result[short] = facts[long]
    return result


def generated_name(number: int, length: int) -> str:
    """The last digits of a number as letters and digits, as in names that Kubernetes generates."""
    letters = []
    for _ in range(length):
        number, letter = divmod(number, len(LETTERS))
        letters.append(LETTERS[letter])
    return "".join(letters)
