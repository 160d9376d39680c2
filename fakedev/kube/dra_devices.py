"""A node's devices as NVIDIA's DRA driver names and describes them: attributes and capacities for schedulers.

Sources: kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin (deviceinfo.go, mig.go, numa.go);
k8s.io/dynamic-resource-allocation/deviceattribute; profile ids as ``nvidia-smi mig -lgip`` lists them.

The driver announces what can be allocated: whole GPUs, and of GPUs in MIG mode their instances instead, whatever the
strategy of a device plugin is. Instances exist here before pods do, so they consume no shared counters; the driver has
these only where it makes instances on demand (its feature DynamicMIG).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fakedev.kube.devices import GPU, MIG_PREFIX, NodeDevices, Slot
from fakedev.spec.mig import attributes_of

#: The driver, which is the domain of its taints too.
DRIVER: Final = "gpu.nvidia.com"
#: The longest text of an attribute, in characters, and the most attributes and capacities of a device.
MAX_TEXT: Final = 64
_STANDARD: Final = "resource.kubernetes.io/"
_NOT_IN_NAMES: Final = re.compile("[^a-z0-9-]")
_VERSION: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){0,2}")
#: Architectures as NVML's library for Go names them; others begin with a capital letter.
_ARCHITECTURES: Final = {"ada": "Ada Lovelace"}
#: The ids of profiles by slices of the board, slices and memory slices of the profile, and ``+me``.
_PROFILE_IDS: Final[Mapping[tuple[int, int, int, bool], int]] = {
    (7, 1, 1, False): 19, (7, 1, 1, True): 20, (7, 1, 2, False): 15, (7, 2, 2, False): 14, (7, 3, 4, False): 9,
    (7, 4, 4, False): 5, (7, 7, 8, False): 0,
    (4, 1, 1, False): 14, (4, 1, 1, True): 21, (4, 2, 2, False): 5, (4, 2, 2, True): 6, (4, 4, 4, False): 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DraDevice:
    """A device that claims can be allocated.

    :param name: in its pool: ``gpu-0``, ``gpu-0-mig-1g10gb-19-0``.
    :param slot: the same device as a device plugin offers it, with its UUID.
    :param board_id: the UUID of its board: of the slot, unless it is an instance.
    :param profile: of an instance; empty: a whole GPU.
    :param attributes, capacity: as a ResourceSlice has them.
    """

    name: str
    slot: Slot
    board_id: str
    profile: str
    attributes: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[str, Mapping[str, str]]


def dra_devices(devices: NodeDevices) -> tuple[DraDevice, ...]:
    """All devices of a node, in order of boards; none of other vendors' boards."""
    found: list[DraDevice] = []
    for index, board in enumerate(devices.boards if devices.is_nvidia else ()):
        if devices.has_instances(index):
            found += [_instance(devices, index, number) for number in range(len(devices.parts[index]))]
        elif board.get("mig_mode") != "1":  # a GPU in MIG mode without instances offers nothing
            found.append(_board(devices, index))
    return tuple(found)


def quantity(value: int) -> str:
    """A whole number as the API writes it with binary suffixes: ``40Gi``, ``81559Mi``, ``7``."""
    suffixes = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
    place = 0
    while value and value % 1024 == 0 and place + 1 < len(suffixes):
        value, place = value // 1024, place + 1
    return f"{value}{suffixes[place]}"


def _board(devices: NodeDevices, index: int) -> DraDevice:
    facts = devices.boards[index]
    board_id = f"GPU-{facts['uuid']}"
    slot = Slot(GPU, board_id, index, None, _numa_node(facts))
    attributes = {"type": _text("gpu"), "uuid": _text(board_id), **_common(facts)}
    memory_bytes = int(devices.pool.device_type.memory_total_bytes)
    return DraDevice(f"gpu-{index}", slot, board_id, "", attributes, {"memory": {"value": quantity(memory_bytes)}})


def _instance(devices: NodeDevices, index: int, number: int) -> DraDevice:
    facts, part = devices.boards[index], devices.parts[index][number]
    profile, board_id, uuid = part.get("mig_profile", ""), f"GPU-{facts['uuid']}", f"MIG-{part['part_uuid']}"
    spec = devices.pool.parts_of(index)[number]
    profile_id, begin, count = _placement(part, spec.compute_share)
    word = _NOT_IN_NAMES.sub("-", profile.replace(".", "").lower()).strip("-")
    attributes = {
        "type": _text("mig"),
        "uuid": _text(uuid),
        "parentUUID": _text(board_id),
        "profile": _text(profile),
        **_common(facts),
    }
    amounts = _engines(facts, profile)
    amounts["memory"] = int(spec.memory_bytes)
    amounts |= {f"memorySlice{place}": 1 for place in range(begin, begin + count)}
    return DraDevice(
        f"gpu-{index}-mig-{word}-{profile_id}-{begin}",
        Slot(MIG_PREFIX + profile.replace("+", "."), uuid, index, number, _numa_node(facts)),
        board_id,
        profile,
        attributes,
        {name: {"value": quantity(amount)} for name, amount in amounts.items()},
    )


def _placement(part: Mapping[str, str], compute_share: float) -> tuple[int, int, int]:
    """The id of an instance's profile, its first memory slice and the number of its memory slices.

    Its own id is its number in the tree of halves of the board (:mod:`fakedev.sim.parts.mig`).
    """
    profile = part.get("mig_profile", "")
    digits = profile.partition("g")[0]
    slices = int(digits) if digits.isdecimal() else 1
    of_board = round(slices / compute_share) if compute_share > 0 else slices
    memory_slices = 1 << max(of_board - 1, 0).bit_length()
    number = int(part["mig_id"]) if part.get("mig_id", "").isdecimal() else 0
    level = (number + 1).bit_length() - 1
    count = max(memory_slices >> level, 1)
    begin = (number + 1 - (1 << level)) * count
    return _PROFILE_IDS.get((of_board, slices, count, profile.endswith("+me")), 0), begin, count


def _engines(board: Mapping[str, str], profile: str) -> dict[str, int]:
    """Multiprocessors and engines of an instance; empty where they are not known."""
    known = attributes_of(board, profile)
    if known is None:
        return {}
    return {
        "multiprocessors": known.multiprocessors,
        "copyEngines": known.copy,
        "decoders": known.decoder,
        "encoders": known.encoder,
        "jpegEngines": known.jpeg,
        "ofaEngines": known.ofa,
    }


def _common(facts: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The attributes of a GPU that its instances have too."""
    architecture = facts.get("architecture", "")
    domain, _, address = facts["pci_address"].lower().partition(":")
    bus_id = f"{domain[-4:]}:{address}"
    attributes = {
        "productName": _text(facts.get("product_name", "")),
        "brand": _text("Nvidia"),
        "architecture": _text(_ARCHITECTURES.get(architecture, architecture.capitalize())),
        "cudaComputeCapability": _version(facts.get("compute_cap", "")),
        "driverVersion": _version(facts.get("driver_version", "")),
        "cudaDriverVersion": _version(facts.get("cuda_version", "")),
        f"{_STANDARD}pciBusID": _text(bus_id),
        # The fact, where a device has it; else each board has a root of its own, as no source says which share one.
        f"{_STANDARD}pcieRoot": _text(facts.get("pcie_root") or f"pci{bus_id.rpartition(':')[0]}"),
    }
    numa_node = _numa_node(facts)
    if numa_node is not None:
        attributes[f"{_STANDARD}numaNode"] = {"int": numa_node}
    return {name: value for name, value in attributes.items() if value}


def _text(text: str) -> dict[str, Any]:
    return {"string": text[:MAX_TEXT]} if text else {}


def _version(text: str) -> dict[str, Any]:
    """A semantic version: three numbers without leading zeros, so ``550.163.01`` is ``550.163.1``."""
    if not _VERSION.fullmatch(text):
        return {}
    numbers = [*map(int, text.split(".")), 0, 0][:3]
    return {"version": ".".join(map(str, numbers))}


def _numa_node(facts: Mapping[str, str]) -> int | None:
    text = facts.get("numa_node", "")
    return int(text) if text.isdecimal() else None
