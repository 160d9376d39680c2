"""Dynamic resource allocation (DRA): resource claims, a node's devices, and its ResourceSlices with taints.

Claims say which container has which device, and give the labels ``dra_*`` of dcgm-exporter. Sources: the API
``resource.k8s.io/v1`` (ResourceClaim); the API ``v1`` (Pod: resourceClaims, resourceClaimStatuses,
extendedResourceClaimStatus); NVIDIA/dcgm-exporter, internal/pkg/transformation/kubernetes.go (the labels ``dra_*``).

Devices have the names, attributes and capacities of NVIDIA's DRA driver, for schedulers. Sources:
kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin (deviceinfo.go, mig.go, numa.go);
k8s.io/dynamic-resource-allocation/deviceattribute; profile ids as ``nvidia-smi mig -lgip`` lists them.

The driver announces what can be allocated: whole GPUs, and of GPUs in MIG mode their instances instead, whatever the
strategy of a device plugin is. Instances exist here before pods do, so they consume no shared counters; the driver
has these only where it makes instances on demand (its feature DynamicMIG).

ResourceSlices have taints of unhealthy devices; changes bring the present slices to the wanted ones. Sources: the API
``resource.k8s.io/v1`` (limits, pools and their generations); k8s.io/dynamic-resource-allocation, resourceslice (how
drivers publish); kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin (device_health.go, driver.go) and the
DeviceClasses of its Helm chart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fakedev.fleet.spec.device_types import attributes_of
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.kubernetes.offered_devices import GPU, MIG_PREFIX, NodeDevices, Slot, numa_node
from fakedev.kubernetes.pods import Container, Pod

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
    slot = Slot(GPU, board_id, index, None, numa_node(facts))
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
        Slot(MIG_PREFIX + profile.replace("+", "."), uuid, index, number, numa_node(facts)),
        board_id,
        profile,
        attributes,
        {name: {"value": quantity(amount)} for name, amount in amounts.items()},
    )


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
    zone = numa_node(facts)
    if zone is not None:
        attributes[f"{_STANDARD}numaNode"] = {"int": zone}
    return {name: value for name, value in attributes.items() if value}


def _text(text: str) -> dict[str, Any]:
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
    :param is_admin: for supervision: whoever has it shares the device with its users, and takes nothing from them.
    """

    request: str
    driver: str
    pool: str
    device: str
    is_admin: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim.

    :param results: the devices of all drivers; empty: not allocated yet.
    :param pods: the UIDs of the pods that may use it now.
    :param uid: its own.
    :param allocated: when its devices were allocated, as the API writes times; empty: unknown.
    """

    namespace: str
    name: str
    results: tuple[Result, ...] = ()
    pods: frozenset[str] = frozenset()
    uid: str = ""
    allocated: str = ""

    @property
    def holder(self) -> str:
        """How the ledger names it."""
        return f"claim {self.namespace}/{self.name}"

    def devices_on(self, node: str) -> tuple[str, ...]:
        """The names of the devices of a node that nobody else may have."""
        return tuple(
            each.device for each in self.results if each.driver == DRIVER and each.pool == node and not each.is_admin
        )


@dataclass(frozen=True)
class ClaimedDevices:
    """What a pod has by claims.

    :param slots: of each container that has any, in order of the pod's containers and claims.
    :param labels: of each of these slots, by container: the facts ``dra_*`` of its devices.
    :param problems: results that no device of the node fits, in words.
    """

    slots: Mapping[str, tuple[Slot, ...]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[Slot, Mapping[str, str]]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def read_claim(item: Mapping[str, Any]) -> Claim:
    """A claim of the API. The API server has checked its form; what is missing is empty."""
    metadata, status = item.get("metadata") or {}, item.get("status") or {}
    allocation = status.get("allocation") or {}
    devices = allocation.get("devices") or {}
    return Claim(
        namespace=metadata.get("namespace", "default"),
        name=metadata.get("name", ""),
        results=tuple(map(_result, devices.get("results") or ())),
        pods=frozenset(
            each.get("uid", "") for each in status.get("reservedFor") or () if each.get("resource") == _PODS
        ),
        uid=metadata.get("uid", ""),
        allocated=allocation.get("allocationTimestamp", ""),
    )


def claimed_devices(
    pod: Pod, node: str, devices: Iterable[DraDevice], claims: Mapping[tuple[str, str], Claim]
) -> ClaimedDevices:
    """What a pod has by claims on its node; several pods, and several containers, may have the same device.

    :param node: the node's name, which is that of its pool.
    :param devices: of the node: :func:`~fakedev.kubernetes.dra.dra_devices`.
    :param claims: by namespace and name.
    """
    by_name = {device.name: device for device in devices}
    slots: dict[str, tuple[Slot, ...]] = {}
    labels: dict[str, dict[Slot, Mapping[str, str]]] = {}
    problems: dict[str, None] = {}
    for container in pod.containers:
        found: dict[Slot, Mapping[str, str]] = {}
        for claim, result in _results(pod, container, claims):
            if result.driver == DRIVER and not result.is_admin:
                device = by_name.get(result.device) if result.pool == node else None
                if device is None:
                    text = f"claim {claim.namespace}/{claim.name}: no device {result.pool}/{result.device} on {node}"
                    problems[text] = None
                else:
                    found.setdefault(device.slot, dra_labels(claim, result, device))
        if found:
            slots[container.name], labels[container.name] = tuple(found), found
    return ClaimedDevices(slots, labels, tuple(problems))


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
    claimed = {slot.word(node): each for slot, each in labels.items()}
    plain = tuple(word for word in workload.devices if word not in claimed)
    single = [
        replace(workload, devices=(word,), labels=(*workload.labels, *claimed[word].items()))
        for word in workload.devices
        if word in claimed
    ]
    return (replace(workload, devices=plain), *single) if plain else tuple(single)


def _result(item: Mapping[str, Any]) -> Result:
    request, driver, pool, device = (item.get(name) or "" for name in ("request", "driver", "pool", "device"))
    return Result(request, driver, pool, device, is_admin=bool(item.get("adminAccess")))


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


API_VERSION: Final = "resource.k8s.io/v1"
#: Devices of a slice. The API takes 128, and 64 where any has taints; health must not change the number of slices.
DEVICES_OF_SLICE: Final = 64
#: The label of all that fakedev makes, so that slices of real drivers are never touched.
MADE_BY: Final[Mapping[str, str]] = {"app.kubernetes.io/managed-by": "fakedev"}
#: The annotation of a node that has ResourceSlices of ours, so that they go when ``resources`` is another.
HAS_SLICES: Final = "fakedev/slices"
#: The reason of a device that pods have by the device plugin.
HELD: Final = "held by the device plugin"
#: The reason of a device that nobody watches, which remains of use.
UNMONITORED: Final = "unmonitored"
_LONGEST_NAME: Final = 253
_XID: Final = re.compile("XID ([0-9]{1,9})")


@dataclass(frozen=True)
class SliceChanges:
    """What changes the present slices of a pool into the wanted ones.

    :param create, replace: whole objects, to send in this order; a replaced one has its resourceVersion.
    :param delete: names, to delete last.
    """

    create: tuple[dict[str, Any], ...] = ()
    replace: tuple[dict[str, Any], ...] = ()
    delete: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.create or self.replace or self.delete)


def resource_slices(
    devices: NodeDevices, unhealthy: Mapping[str, str] | None = None, node_uid: str = ""
) -> list[dict[str, Any]]:
    """The slices of a node, as its driver publishes them; none without devices of NVIDIA.

    :param unhealthy: device ids, of instances or of whole boards, each with the reason.
    :param node_uid: of the node, which then owns the slices: they are deleted with it.
    """
    found = dra_devices(devices)
    rows = [found[place : place + DEVICES_OF_SLICE] for place in range(0, len(found), DEVICES_OF_SLICE)]
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "ResourceSlice",
            "metadata": _metadata(devices.name, number, node_uid),
            "spec": {
                "driver": DRIVER,
                "nodeName": devices.name,
                "pool": {"name": devices.name, "generation": 1, "resourceSliceCount": len(rows)},
                "devices": [_device(each, unhealthy or {}) for each in row],
            },
        }
        for number, row in enumerate(rows)
    ]


def changes(wanted: Sequence[Mapping[str, Any]], present: Sequence[Mapping[str, Any]]) -> SliceChanges:
    """What changes the present slices of one node into the wanted ones; nothing where they say the same.

    Where anything changes, all slices of the pool get the next generation: consumers wait until they have seen as many
    of it as the pool says, and never allocate from a mixture.

    :param wanted: of :func:`resource_slices`.
    :param present: slices of the API; those that fakedev did not make are left alone.
    """
    ours = {each["metadata"]["name"]: each for each in present if is_ours(each)}
    names = [each["metadata"]["name"] for each in wanted]
    generations = [each["spec"].get("pool", {}).get("generation", 0) for each in ours.values()]
    is_current = len(set(generations)) <= 1 and ours.keys() == set(names)
    if is_current and all(_content(each) == _content(ours[each["metadata"]["name"]]) for each in wanted):
        return SliceChanges()
    generation = max(generations, default=0) + 1
    made = [_published(each, ours.get(each["metadata"]["name"]), generation) for each in wanted]
    return SliceChanges(
        create=tuple(each for each in made if each["metadata"]["name"] not in ours),
        replace=tuple(each for each in made if each["metadata"]["name"] in ours),
        delete=tuple(sorted(ours.keys() - set(names))),
    )


def is_ours(item: Mapping[str, Any]) -> bool:
    """Whether fakedev made an object of the API."""
    labels = (item.get("metadata") or {}).get("labels") or {}
    return all(labels.get(name) == value for name, value in MADE_BY.items())


def taint_of(reason: str) -> dict[str, str]:
    """The taint of an unhealthy device: NVIDIA's driver has one key for each kind of trouble.

    :param reason: ``XID 79``; ``unmonitored``; :data:`HELD`, which is fakedev's own; all others, as ``lost`` and
        ``hangs``, are of a device that no longer answers.
    """
    xid = _XID.fullmatch(reason)
    if xid is not None:
        return {"key": f"{DRIVER}/xid", "value": xid[1], "effect": "NoSchedule"}
    if reason == HELD:
        return {"key": "fakedev/held-by-device-plugin", "effect": "NoSchedule"}
    if reason == UNMONITORED:
        return {"key": f"{DRIVER}/{UNMONITORED}", "effect": "None"}
    return {"key": f"{DRIVER}/gpu-lost", "effect": "NoSchedule"}


def slice_name(node: str, number: int) -> str:
    """The name of a slice of a node; they are counted from 0."""
    name = f"{node}-{DRIVER}-{number}"
    if len(name) > _LONGEST_NAME:  # a node's name may itself be as long as a name can be
        name = f"{node[:200].rstrip('.-')}-{hashlib.sha256(node.encode()).hexdigest()[:16]}-{DRIVER}-{number}"
    return name


def _metadata(node: str, number: int, node_uid: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": slice_name(node, number), "labels": dict(MADE_BY)}
    if node_uid:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": True}
        metadata["ownerReferences"] = [owner]
    return metadata


def _device(device: DraDevice, unhealthy: Mapping[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": device.name,
        "attributes": {name: dict(value) for name, value in device.attributes.items()},
        "capacity": {name: dict(value) for name, value in device.capacity.items()},
    }
    reason = unhealthy.get(device.slot.id) or unhealthy.get(device.board_id)
    if reason:
        made["taints"] = [taint_of(reason)]
    return made


def _content(item: Mapping[str, Any]) -> dict[str, Any]:
    """What a slice says, without what the API server adds: the times of taints, and the generation."""
    spec = item["spec"]
    return {
        **spec,
        "pool": {name: value for name, value in spec.get("pool", {}).items() if name != "generation"},
        "devices": [_plain(each) for each in spec.get("devices") or ()],
        "owners": [owner.get("uid") for owner in item["metadata"].get("ownerReferences") or ()],
    }


def _plain(device: Mapping[str, Any]) -> dict[str, Any]:
    taints = [{name: text for name, text in each.items() if name != "timeAdded"} for each in device.get("taints") or ()]
    return {**device, "taints": taints}


def _published(wanted: Mapping[str, Any], present: Mapping[str, Any] | None, generation: int) -> dict[str, Any]:
    """The object to send: a taint that is there already keeps its time, from which evictions are counted."""
    spec = dict(wanted["spec"])
    spec["pool"] = {**spec["pool"], "generation": generation}
    metadata = dict(wanted["metadata"])
    if present is not None:
        metadata["resourceVersion"] = present["metadata"].get("resourceVersion", "")
        before = {each.get("name"): each.get("taints") or [] for each in present["spec"].get("devices") or ()}
        spec["devices"] = [_with_times(each, before.get(each["name"], [])) for each in spec["devices"]]
    return {**wanted, "metadata": metadata, "spec": spec}


def _with_times(device: Mapping[str, Any], before: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if "taints" not in device:
        return dict(device)
    known = {(each.get("key"), each.get("value", ""), each.get("effect")): each for each in before}
    taints = [known.get((each["key"], each.get("value", ""), each["effect"]), each) for each in device["taints"]]
    return {**device, "taints": [dict(each) for each in taints]}
