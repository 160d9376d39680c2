"""Dynamic resource allocation (DRA): resource claims, and a node's devices.

Claims say which container has which device, and give the labels ``dra_*`` of dcgm-exporter. Sources: the API
``resource.k8s.io/v1`` (ResourceClaim); the API ``v1`` (Pod: resourceClaims, resourceClaimStatuses,
extendedResourceClaimStatus); NVIDIA/dcgm-exporter, internal/pkg/transformation/kubernetes.go (the labels ``dra_*``).

Devices have the names, attributes and capacities of NVIDIA's DRA driver, for schedulers. Sources:
kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin (deviceinfo.go, mig.go, numa.go);
k8s.io/dynamic-resource-allocation/deviceattribute; profile ids as ``nvidia-smi mig -lgip`` lists them.

The driver announces what can be allocated: whole GPUs, and of GPUs in MIG mode their instances instead, whatever the
strategy of a device plugin is. Boards that claims divide are in ``partitionable.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fakedev.base.errors import FieldError
from fakedev.fleet.parts.mig import Instance
from fakedev.fleet.spec.device_types import attributes_of
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.kubernetes.devices.offered_devices import GPU, MIG_PREFIX, NodeDevices, Slot, numa_node
from fakedev.kubernetes.devices.sharing import MIB, WHOLE, ClaimConfig, Sharing, quantity_bytes, sharing_of
from fakedev.kubernetes.pods import Container, Pod

#: The driver, which is the domain of its taints too.
DRIVER: Final = "gpu.nvidia.com"
#: The driver of channels between the nodes of a rack.
CHANNEL_DRIVER: Final = "compute-domain.nvidia.com"
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
_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class DraDevice:
    """A device that claims can be allocated.

    :param name: in its pool: ``gpu-0``, ``gpu-0-mig-1g10gb-19-0``.
    :param slot: the same device as a device plugin offers it, with its UUID.
    :param board_id: the UUID of its board: of the slot, unless it is an instance.
    :param profile: of an instance; empty: a whole GPU.
    :param attributes, capacity: as a ResourceSlice has them.
    :param counters: what it takes of its board's counters.
    :param instance: it is made when a claim has it; None: it is there in any case.
    :param is_shared: several claims may have it, each a share of its capacity.
    :param is_made: whether it is there now; the slot of one that is not has no part.
    """

    name: str
    slot: Slot
    board_id: str
    profile: str
    attributes: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[str, Mapping[str, Any]]
    counters: Mapping[str, int] = field(default_factory=dict)
    instance: Instance | None = None
    is_shared: bool = False
    is_made: bool = True

    @property
    def without_values(self) -> DraDevice:
        """The same without what only its slice has, which is long."""
        return replace(self, attributes=_NOTHING, capacity=_NOTHING, counters=_NOTHING)


def dra_devices(devices: NodeDevices) -> tuple[DraDevice, ...]:
    """All devices of a node, in order of boards; none of other vendors' boards."""
    found: list[DraDevice] = []
    for index, board in enumerate(devices.boards if devices.is_nvidia else ()):
        if devices.has_instances(index):
            found += [_instance(devices, index, number) for number in range(len(devices.parts[index]))]
        elif board.get("mig_mode") != "1":  # a GPU in MIG mode without instances offers nothing
            found.append(_board(devices, index))
    sharing, reserved_bytes = devices.pool.in_cluster, int(devices.pool.device_type.memory_reserved_bytes)
    return tuple(_shared(one, sharing.replicas, reserved_bytes) if sharing.is_consumable else one for one in found)


def _shared(device: DraDevice, replicas: int, reserved_bytes: int) -> DraDevice:
    """The device for several claims: they consume its memory, by whole MiB.

    :param reserved_bytes: that a board's driver takes, and claims cannot have.
    """
    memory_bytes = quantity_bytes(device.capacity["memory"]["value"]) - (0 if device.profile else reserved_bytes)
    usual = {"value": quantity(memory_bytes)}
    least = quantity(MIB)
    policy = {"default": quantity(memory_bytes // replicas // MIB * MIB), "validRange": {"min": least, "step": least}}
    capacity = {**device.capacity, "memory": {**usual, "requestPolicy": policy}}
    return replace(device, capacity=capacity, is_shared=True)


def quantity(value: int) -> str:
    """A whole number as the API writes it with binary suffixes: ``40Gi``, ``81559Mi``, ``7``."""
    suffixes = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
    place = 0
    while value and value % 1024 == 0 and place + 1 < len(suffixes):
        value, place = value // 1024, place + 1
    return f"{value}{suffixes[place]}"


def values_of(amounts: Mapping[str, int]) -> dict[str, dict[str, str]]:
    """Capacities or counters as the API has them."""
    return {name: {"value": quantity(amount)} for name, amount in amounts.items()}


def _board(devices: NodeDevices, index: int) -> DraDevice:
    facts = devices.boards[index]
    board_id = f"GPU-{facts['uuid']}"
    slot = Slot(GPU, board_id, index, None, numa_node(facts))
    attributes = {"type": text_attribute("gpu"), "uuid": text_attribute(board_id), **_common(facts)}
    memory_bytes = int(devices.pool.device_type.memory_total_bytes)
    return DraDevice(f"gpu-{index}", slot, board_id, "", attributes, {"memory": {"value": quantity(memory_bytes)}})


def _instance(devices: NodeDevices, index: int, number: int) -> DraDevice:
    facts, part = devices.boards[index], devices.parts[index][number]
    profile, board_id, uuid = part.get("mig_profile", ""), f"GPU-{facts['uuid']}", f"MIG-{part['part_uuid']}"
    spec = devices.pool.parts_of(index)[number]
    number_of_profile, begin, count = _placement(part, spec.compute_share)
    attributes = {"uuid": text_attribute(uuid), **instance_attributes(facts, profile)}
    amounts = instance_amounts(facts, profile, spec.memory_bytes)
    amounts |= {f"memorySlice{place}": 1 for place in range(begin, begin + count)}
    return DraDevice(
        instance_name(index, profile, number_of_profile, begin),
        Slot(MIG_PREFIX + profile.replace("+", "."), uuid, index, number, numa_node(facts)),
        board_id,
        profile,
        attributes,
        values_of(amounts),
    )


def instance_name(index: int, profile: str, profile_id: int, begin: int) -> str:
    """The name of an instance in its pool."""
    word = _NOT_IN_NAMES.sub("-", profile.replace(".", "").lower()).strip("-")
    return f"gpu-{index}-mig-{word}-{profile_id}-{begin}"


def instance_attributes(facts: Mapping[str, str], profile: str) -> dict[str, dict[str, Any]]:
    """The attributes of an instance but its UUID.

    :param facts: of its board.
    """
    board_id = f"GPU-{facts['uuid']}"
    own = {"type": text_attribute("mig"), "parentUUID": text_attribute(board_id), "profile": text_attribute(profile)}
    return own | _common(facts)


def instance_amounts(facts: Mapping[str, str], profile: str, memory_bytes: float) -> dict[str, int]:
    return {**_engines(facts, profile), "memory": int(memory_bytes)}


def _placement(part: Mapping[str, str], compute_share: float) -> tuple[int, int, int]:
    """The id of an instance's profile, its first memory slice and the number of its memory slices.

    Its own id is its number in the tree of halves of the board (:mod:`fakedev.fleet.parts.mig`).
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
    return profile_id(of_board, slices, count, profile), begin, count


def profile_id(of_board: int, slices: int, memory_slices: int, profile: str) -> int:
    """The id of a profile, by the slices of the board and of an instance; 0 for an unknown one."""
    return _PROFILE_IDS.get((of_board, slices, memory_slices, profile.endswith("+me")), 0)


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
        "productName": text_attribute(facts.get("product_name", "")),
        "brand": text_attribute("Nvidia"),
        "architecture": text_attribute(_ARCHITECTURES.get(architecture, architecture.capitalize())),
        "cudaComputeCapability": _version(facts.get("compute_cap", "")),
        "driverVersion": _version(facts.get("driver_version", "")),
        "cudaDriverVersion": _version(facts.get("cuda_version", "")),
        f"{_STANDARD}pciBusID": text_attribute(bus_id),
        # The fact, where a device has it; else each board has a root of its own, as no source says which share one.
        f"{_STANDARD}pcieRoot": text_attribute(facts.get("pcie_root") or f"pci{bus_id.rpartition(':')[0]}"),
    }
    zone = numa_node(facts)
    if zone is not None:
        attributes[f"{_STANDARD}numaNode"] = {"int": zone}
    return {name: value for name, value in attributes.items() if value}


def text_attribute(text: str) -> dict[str, Any]:
    """A text as the value of an attribute; nothing for an empty one."""
    return {"string": text[:MAX_TEXT]} if text else {}


def _version(text: str) -> dict[str, Any]:
    """A semantic version: three numbers without leading zeros, so ``550.163.01`` is ``550.163.1``."""
    if not _VERSION.fullmatch(text):
        return {}
    numbers = [*map(int, text.split(".")), 0, 0][:3]
    return {"version": ".".join(map(str, numbers))}


#: The kind of consumers in ``status.reservedFor`` that are pods.
_PODS: Final = "pods"


@dataclass(frozen=True, slots=True)
class Result:
    """A device that a claim was allocated.

    :param request: ``NAME``, or ``NAME/SUBREQUEST`` where a request had alternatives.
    :param share: the id of its share of a device that several claims have; empty: it has all.
    :param memory_bytes: that this share has of the memory; None: all.
    :param is_admin: for supervision: whoever has it shares the device with its users, and takes nothing from them.
    """

    request: str
    driver: str
    pool: str
    device: str
    is_admin: bool = False
    share: str = ""
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim.

    :param results: the devices of all drivers; empty: not allocated yet.
    :param pods: the UIDs of the pods that may use it now.
    :param uid: its own.
    :param allocated: when its devices were allocated, as the API writes times; empty: unknown.
    :param configs: how devices of the driver are shared, those of the class first.
    :param domain: the UID of the ComputeDomain that it has channels of; empty: none.
    """

    namespace: str
    name: str
    results: tuple[Result, ...] = ()
    pods: frozenset[str] = frozenset()
    uid: str = ""
    allocated: str = ""
    configs: tuple[ClaimConfig, ...] = ()
    domain: str = ""

    @property
    def holder(self) -> str:
        """How the ledger names it."""
        return f"claim {self.namespace}/{self.name}"

    @property
    def is_shared(self) -> bool:
        """Whether others may have each of its devices, too."""
        return bool(self.results) and all(result.share for result in self.results if result.driver == DRIVER)

    def devices_on(self, node: str) -> tuple[str, ...]:
        """The names of the devices of a node that nobody else may have."""
        return tuple(
            each.device for each in self.results if each.driver == DRIVER and each.pool == node and not each.is_admin
        )

    def sharing(self, result: Result, device: DraDevice) -> Sharing:
        """What containers may use of one of its devices.

        :raises FieldError: when the driver refuses to prepare the claim.
        """
        sharing = sharing_of(self.configs, result.request, device.slot.id, is_instance=bool(device.profile))
        limits = [each for each in (sharing.memory_bytes, result.memory_bytes) if each is not None]
        return sharing._replace(memory_bytes=min(limits, default=None))


@dataclass(frozen=True)
class ClaimedDevices:
    """What a pod has by claims.

    :param slots: of each container that has any, in order of the pod's containers and claims.
    :param labels: of each of these slots, by container: the facts ``dra_*`` of its devices.
    :param sharing: what it may use of slots that it shares, in the same way.
    :param problems: why devices are not there or are not prepared for it: reason and message of an Event each.
    """

    slots: Mapping[str, tuple[Slot, ...]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[Slot, Mapping[str, str]]] = field(default_factory=dict)
    sharing: Mapping[str, Mapping[Slot, Sharing]] = field(default_factory=dict)
    problems: tuple[tuple[str, str], ...] = ()


def read_claim(item: Mapping[str, Any]) -> Claim:
    """A claim of the API. The API server has checked its form; what is missing is empty."""
    metadata, status = item.get("metadata") or {}, item.get("status") or {}
    allocation = status.get("allocation") or {}
    devices = allocation.get("devices") or {}
    opaque = [(device, device.get("opaque") or {}) for device in devices.get("config") or ()]
    channels = (each.get("parameters") for _, each in opaque if each.get("driver") == CHANNEL_DRIVER)
    return Claim(
        namespace=metadata.get("namespace", "default"),
        name=metadata.get("name", ""),
        results=tuple(map(_result, devices.get("results") or ())),
        pods=frozenset(
            consumer.get("uid", "") for consumer in status.get("reservedFor") or () if consumer.get("resource") == _PODS
        ),
        uid=metadata.get("uid", ""),
        allocated=allocation.get("allocationTimestamp", ""),
        configs=tuple(
            ClaimConfig(tuple(device.get("requests") or ()), each.get("parameters"))
            for device, each in opaque
            if each.get("driver") == DRIVER
        ),
        domain=next((str(each.get("domainID", "")) for each in channels if isinstance(each, Mapping)), ""),
    )


def claimed_devices(
    pod: Pod, node: str, devices: Iterable[DraDevice], claims: Mapping[tuple[str, str], Claim]
) -> ClaimedDevices:
    """What a pod has by claims on its node; several pods, and several containers, may have the same device.

    :param node: the node's name, which is that of its pool.
    :param devices: of the node: :func:`~fakedev.kubernetes.devices.dra.dra_devices`.
    :param claims: by namespace and name.
    """
    by_name = {device.name: device for device in devices}
    slots: dict[str, tuple[Slot, ...]] = {}
    labels: dict[str, dict[Slot, Mapping[str, str]]] = {}
    sharing: dict[str, dict[Slot, Sharing]] = {}
    problems: dict[tuple[str, str], None] = {}
    for container in pod.containers:
        found: dict[Slot, Mapping[str, str]] = {}
        for claim, result in _results(pod, container, claims):
            if result.driver == DRIVER and not result.is_admin:
                device = by_name.get(result.device) if result.pool == node else None
                if device is None:
                    text = f"claim {claim.namespace}/{claim.name}: no device {result.pool}/{result.device} on {node}"
                    problems["UnknownDevice", text] = None
                    continue
                if not device.is_made:
                    continue  # its board is divided first
                try:
                    shared = claim.sharing(result, device)
                except FieldError as wrong:
                    text = f"claim {claim.namespace}/{claim.name}: {wrong.text}"
                    problems["FailedPrepareDynamicResources", text] = None
                    continue
                if shared != WHOLE:
                    sharing.setdefault(container.name, {})[device.slot] = shared
                found.setdefault(device.slot, dra_labels(claim, result, device))
        if found:
            slots[container.name], labels[container.name] = tuple(found), found
    return ClaimedDevices(slots, labels, sharing, tuple(problems))


def dra_labels(claim: Claim, result: Result, device: DraDevice) -> dict[str, str]:
    """The facts of a claimed device that dcgm-exporter shows; those of instances have two more."""
    labels = {
        "dra_claim_name": claim.name,
        "dra_claim_namespace": claim.namespace,
        "dra_driver_name": result.driver,
        "dra_pool_name": result.pool,
        "dra_device_name": result.device,
    }
    if device.profile:
        labels |= {"dra_mig_profile": device.profile, "dra_mig_device_uuid": device.slot.id}
    return labels


def with_labels(
    workload: WorkloadSpec, node: str, labels: Mapping[Slot, Mapping[str, str]]
) -> tuple[WorkloadSpec, ...]:  # fmt: skip
    """The workload of a container as one for each claimed device, for each has labels of its own.

    All have the same name, so that ``stop NAME`` ends all. Devices without labels stay together, in the first one.

    :param labels: of claimed devices of the container.
    """
    claimed = {slot.word(node): label for slot, label in labels.items()}
    plain = tuple(word for word in workload.devices if word not in claimed)
    single = [
        replace(workload, devices=(word,), labels=(*workload.labels, *claimed[word].items()))
        for word in workload.devices
        if word in claimed
    ]
    return (replace(workload, devices=plain), *single) if plain else tuple(single)


def _result(item: Mapping[str, Any]) -> Result:
    request, driver, pool, device = (item.get(name) or "" for name in ("request", "driver", "pool", "device"))
    consumed = (item.get("consumedCapacity") or {}).get("memory")
    memory_bytes = None if consumed is None else quantity_bytes(consumed)
    return Result(
        request, driver, pool, device, bool(item.get("adminAccess")), item.get("shareID") or "", memory_bytes
    )


def _results(
    pod: Pod, container: Container, claims: Mapping[tuple[str, str], Claim]
) -> Iterator[tuple[Claim, Result]]:
    """The results that a container may use: of its claims that are allocated, and reserved for the pod."""
    for use in container.claims:
        claim = claims.get((pod.namespace, pod.claims.get(use.name, "")))
        if claim is None or pod.uid not in claim.pods:
            continue
        for result in claim.results:
            if use.request in ("", result.request, result.request.partition("/")[0]):
                yield claim, result
