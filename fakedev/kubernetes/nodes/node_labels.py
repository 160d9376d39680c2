"""The node labels of NVIDIA's GPU feature discovery (GFD) and GPU operator, and of AMD's node labeller.

Sources: NVIDIA/k8s-device-plugin, internal/lm (resource.go, mig-strategy.go, nvml.go, fabric.go) and
internal/resource/nvml-mig-device.go; NVIDIA/gpu-operator, controllers/state_manager.go; labels that users show.

- ``gpu.mode`` follows from the PCI class (0302: compute, 0300: graphics). A type without that fact is taken to be a 3D
  controller, as all NVIDIA boards of the catalog are.
- ``gpu.machine`` is the server of the device type; GFD reads the product name of the host's firmware.
- ``gpu.clique`` needs a fabric with the UUID of its cluster: the facts ``fabric_state`` 3, ``fabric_clique_id`` and
  ``fabric_cluster_uuid``. A DGX H100 has no such UUID, and so no label (go-nvlib's IsFabricAttached).
- Multiprocessors and engines of instances are those of :mod:`fakedev.fleet.spec.device_types`, and left out where there
  is no source.
- ``mps.capable`` is false: devices are not shared by MPS here. ``vgpu.present`` is false.
- ``mig.config.state`` is of the MIG manager, and is there on nodes with divided boards.

AMD's (ROCm/k8s-device-plugin, cmd/k8s-node-labeller/main.go) lack what only the kernel has: family, firmware,
compute units, partitions and the driver's source.

Real operators act on ``gpu.deploy.*``: where one runs in the cluster its DaemonSets come to nodes with these labels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from fakedev.fleet.spec.device_types import attributes_of
from fakedev.fleet.spec.offers import MigStrategy
from fakedev.kubernetes.devices.offered_devices import GPU, MIG_PREFIX, NodeDevices

#: Characters of a label's value, at most (Kubernetes: labels, syntax and character set).
MAX_VALUE: Final = 63
_DOMAIN: Final = "nvidia.com/"
_AMD: Final = "amd.com/gpu."
_MIB: Final = 2**20
_GIB: Final = 2**30
#: A label's name has 63 characters, and ``gpu.product-name.`` is before this one.
_MAX_AMD_VALUE: Final = 46
#: What GFD removes from names of products.
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_. -]")
_DRIVER: Final = re.compile(r"[0-9]+\.[0-9]+(?:\.[0-9]+)?")
_TWO_NUMBERS: Final = re.compile(r"[0-9]+\.[0-9]+")
#: Families by the major number of the compute capability; 7 and 8 depend on the minor one too.
_FAMILIES: Final[Mapping[int, str]] = {
    1: "tesla", 2: "fermi", 3: "kepler", 5: "maxwell", 6: "pascal", 9: "hopper", 10: "blackwell", 12: "blackwell",
    13: "rubin",
}  # fmt: skip
_MODES: Final[Mapping[tuple[str, str], str]] = {("3", "0"): "graphics", ("3", "2"): "compute"}
#: What the GPU operator deploys on nodes for containers.
_DEPLOYED: Final = (
    "driver", "gpu-feature-discovery", "container-toolkit", "device-plugin", "dcgm", "dcgm-exporter",
    "node-status-exporter", "operator-validator",
)  # fmt: skip
_FABRIC_COMPLETED: Final = "3"


def node_labels(devices: NodeDevices, timestamp_seconds: float) -> dict[str, str]:
    """All labels of a node; none for boards of other vendors than NVIDIA and AMD, whose plugins do not label nodes.

    :param timestamp_seconds: of the discovery, in seconds since 1970.
    """
    if not devices.boards or not devices.is_nvidia:
        return _of_amd(devices) if devices.boards and devices.is_amd else {}
    first = devices.boards[0]
    labels = {
        "gfd.timestamp": str(int(timestamp_seconds)),
        "gpu.machine": _machine(devices),
        "mig.capable": "true" if _is_mig_capable(devices) else "false",
        "mps.capable": "false",
        "vgpu.present": "false",
        "gpu.mode": _MODES.get((first.get("pci_base_class", "3"), first.get("pci_sub_class", "2")), "unknown"),
        **_versions(first),
        **_clique(devices),
        **_of_operator(devices),
    }
    labels = {_DOMAIN + name: value for name, value in labels.items()} | _of_boards(devices)
    strategy = devices.pool.in_cluster.mig_strategy
    if strategy is not MigStrategy.NONE:
        labels[f"{_DOMAIN}mig.strategy"] = strategy.value
    if devices.mig_problem:
        labels |= _invalid(devices)
    elif strategy is not MigStrategy.NONE:
        labels |= _of_instances(devices, strategy)
    return labels


def family(compute_capability: str) -> str:
    """The family of a compute capability, as ``hopper`` of ``9.0``; ``undefined`` for others, as GFD writes it."""
    if not _TWO_NUMBERS.fullmatch(compute_capability):
        return "undefined"
    major, minor = map(int, compute_capability.split("."))
    if major == 7:
        return "volta" if minor < 5 else "turing"
    if major == 8:
        return "ampere" if minor < 9 else "ada-lovelace"
    return _FAMILIES.get(major, "undefined")


def product_value(model: str, *marks: str) -> str:
    """A label's value of a product: its name without what labels may not have, and marks as ``SHARED`` behind it.

    A name that would be too long is cut; the marks stay.
    """
    end = "".join(f"-{mark}" for mark in marks)
    name = "-".join(_NOT_IN_NAMES.sub("", model).split())[: MAX_VALUE - len(end)].strip("-_.")
    return (name + end).lstrip("-")


def _of_amd(devices: NodeDevices) -> dict[str, str]:
    """The labeller counts boards by value under the prefix ``beta.``, and names the only value under both prefixes."""
    vram = f"{round(devices.pool.device_type.memory_total_bytes / _GIB)}G"
    entries = {
        "device-id": Counter(_amd_value(board.get("pci_device_id", "")).removeprefix("0x") for board in devices.boards),
        "product-name": Counter(_amd_value(board.get("product_name", "")) for board in devices.boards),
        "vram": Counter({vram: len(devices.boards)}),
    }
    labels = {f"{_AMD}driver-version": _amd_value(devices.boards[0].get("driver_version", ""))}
    for kind, counts in entries.items():
        counted = {f"{_AMD}{kind}.{value}": str(count) for value, count in counts.items() if value}
        single = {f"{_AMD}{kind}": value for value in counts if value and len(counts) == 1}
        labels |= {f"beta.{label}": value for label, value in {**counted, **single}.items()} | (single or counted)
    return labels


def _amd_value(text: str) -> str:
    return _NOT_IN_NAMES.sub("", text).replace(" ", "_")[:_MAX_AMD_VALUE].strip("-_.")


def _machine(devices: NodeDevices) -> str:
    server = devices.pool.device_type.connections.server
    known = max(len(server.pci_addresses), len(server.numa_nodes), 1)
    return (product_value(server.name) if len(devices.boards) <= known else "") or "unknown"


def _is_mig_capable(devices: NodeDevices) -> bool:
    """Boards for which NVML reports a MIG mode can be divided."""
    return any("mig_mode" in board for board in devices.boards)


def _versions(board: Mapping[str, str]) -> dict[str, str]:
    """The versions of driver and CUDA, under their names and the deprecated ones."""
    labels: dict[str, str] = {}
    driver, cuda = board.get("driver_version", ""), board.get("cuda_version", "")
    if _DRIVER.fullmatch(driver):
        parts = (*driver.split("."), "")[:3]
        labels |= _numbered("cuda.driver", ("major", "minor", "rev"), parts)
        labels |= _numbered("cuda.driver-version", ("major", "minor", "revision", "full"), (*parts, driver))
    if _TWO_NUMBERS.fullmatch(cuda):
        parts = tuple(cuda.split("."))
        labels |= _numbered("cuda.runtime", ("major", "minor"), parts)
        labels |= _numbered("cuda.runtime-version", ("major", "minor", "full"), (*parts, cuda))
    return labels


def _numbered(label: str, ends: tuple[str, ...], texts: tuple[str, ...]) -> dict[str, str]:
    return {f"{label}.{end}": text for end, text in zip(ends, texts, strict=True)}


#: The label of a node in a fabric: the UUID of its cluster, and the number of its clique.
CLIQUE: Final = "nvidia.com/gpu.clique"
#: The label of a node in a ComputeDomain, and of what belongs to the domain, with its UID.
DOMAIN: Final = "resource.nvidia.com/computeDomain"


def _clique(devices: NodeDevices) -> dict[str, str]:
    """The fabric of the node, if all its boards that are attached to one have the same."""
    found = {
        f"{board['fabric_cluster_uuid']}.{board.get('fabric_clique_id', '0')}"
        for board in devices.boards
        if board.get("fabric_state") == _FABRIC_COMPLETED and board.get("fabric_cluster_uuid", "").strip("0-")
    }
    return {"gpu.clique": product_value(found.pop())} if len(found) == 1 else {}


def _of_operator(devices: NodeDevices) -> dict[str, str]:
    labels = {"gpu.present": "true", **{f"gpu.deploy.{name}": "true" for name in _DEPLOYED}}
    if _is_mig_capable(devices):
        labels["gpu.deploy.mig-manager"] = "true"
    if any(map(devices.has_instances, range(len(devices.boards)))):
        labels["mig.config.state"] = "success"
    return labels


def _shared(devices: NodeDevices) -> tuple[dict[str, str], tuple[str, ...]]:
    """How a resource is shared: the ends of its labels with their values, and the marks of its product."""
    sharing = devices.pool.in_cluster
    strategy = "none" if sharing.replicas == 1 else "time-slicing"
    marks = ("SHARED",) if sharing.replicas > 1 and not sharing.is_renamed else ()
    return {"replicas": str(sharing.replicas), "sharing-strategy": strategy}, marks


def _of_boards(devices: NodeDevices) -> dict[str, str]:
    """The labels of whole boards; GFD shows those outside of MIG mode, if there are any, and counts both."""
    plain = [place for place in range(len(devices.boards)) if not devices.is_mig_on(place)]
    board = devices.boards[plain[0] if plain else 0]
    model = board.get("product_name", "")
    sharing, marks = _shared(devices) if plain else ({"replicas": "0", "sharing-strategy": "none"}, ())
    labels = {
        "product": product_value(model, *marks),
        "count": str(sum(facts.get("product_name", "") == model for facts in devices.boards)),
        **sharing,
    }
    if devices.pool.device_type.memory_total_bytes:
        labels["memory"] = str(int(devices.pool.device_type.memory_total_bytes) // _MIB)
    capability = board.get("compute_cap", "")
    if _TWO_NUMBERS.fullmatch(capability):
        labels["family"] = family(capability)
        labels["compute.major"], labels["compute.minor"] = capability.split(".")
    return {f"{GPU}.{name}": value for name, value in labels.items()}


def _invalid(devices: NodeDevices) -> dict[str, str]:
    """GFD marks a node whose boards do not suit the strategy ``single``."""
    first = next(index for index in range(len(devices.boards)) if devices.is_mig_on(index))
    product = product_value(devices.boards[first].get("product_name", ""), "MIG", "INVALID")
    return {f"{GPU}.product": product, f"{GPU}.count": "0", f"{GPU}.replicas": "0", f"{GPU}.memory": "0"}


def _of_instances(devices: NodeDevices, strategy: MigStrategy) -> dict[str, str]:
    """The labels of each profile: of the resource ``nvidia.com/gpu`` with ``single``, else of its own resource."""
    labels: dict[str, str] = {}
    of_all = (facts.get("mig_profile", "") for parts in devices.parts for facts in parts)
    counts = Counter(profile for profile in of_all if profile)
    sharing, marks = _shared(devices)
    for profile, count in counts.items():
        index, number = next(
            (index, number)
            for index, parts in enumerate(devices.parts)
            for number, facts in enumerate(parts)
            if facts.get("mig_profile") == profile
        )
        name = profile.replace("+", ".")
        board = devices.boards[index]
        own = {
            "product": product_value(board.get("product_name", ""), "MIG", name, *marks),
            "count": str(count),
            **sharing,
            **_attributes(devices, index, number, profile),
        }
        resource = GPU if strategy is MigStrategy.SINGLE else MIG_PREFIX + name
        labels |= {f"{resource}.{end}": value for end, value in own.items()}
    return labels


def _attributes(devices: NodeDevices, index: int, number: int, profile: str) -> dict[str, str]:
    """Memory, slices and engines of an instance."""
    labels = {}
    memory_bytes = devices.pool.parts_of(index)[number].memory_bytes
    if memory_bytes:
        labels["memory"] = str(int(memory_bytes) // _MIB)
    slices, mark, _ = profile.partition("g")
    if mark and slices.isdecimal():
        # One compute instance takes the whole GPU instance here, so both have as many slices.
        labels |= {"slices.gi": slices, "slices.ci": slices}
    known = attributes_of(devices.boards[index], profile)
    if known is not None:
        labels["multiprocessors"] = str(known.multiprocessors)
        for engine in ("copy", "decoder", "encoder", "jpeg", "ofa"):
            labels[f"engines.{engine}"] = str(getattr(known, engine))
    return labels
