"""The ResourceSlices of a node, with the taints of its devices.

Changes bring the present slices to the wanted ones. Sources: the API ``resource.k8s.io/v1`` (limits, pools and their
generations); k8s.io/dynamic-resource-allocation, resourceslice (how drivers publish);
kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin (device_health.go, driver.go) and the DeviceClasses of its
Helm chart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import orjson

from fakedev.kubernetes.devices.dra import CHANNEL_DRIVER, DRIVER, DraDevice, dra_devices, text_attribute, values_of
from fakedev.kubernetes.devices.offered_devices import NodeDevices

API_VERSION: Final = "resource.k8s.io/v1"
#: Devices of a slice. The API takes 128, and 64 where any has taints; health must not change the number of slices.
DEVICES_OF_SLICE: Final = 64
#: The label of all that fakedev makes, so that slices of real drivers are never touched.
MADE_BY: Final[Mapping[str, str]] = {"app.kubernetes.io/managed-by": "fakedev"}
#: The annotation of a node that has ResourceSlices of ours, so that they go when ``resources`` is another.
HAS_SLICES: Final = "fakedev/slices"
#: The key of a slice that is kept without its devices.
_DIGEST: Final = "digest"
#: The devices of the driver of channels on a node.
CHANNEL_DEVICES: Final = ("channel-0", "daemon-0")
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
    contents = [{"devices": [device_of_slice(dra_device, unhealthy or {}) for dra_device in row]} for row in rows]
    return slices_of_pool(devices.name, contents, node_uid)


def channel_slices(node: str, node_uid: str) -> list[dict[str, Any]]:
    """The slice with the channel and the IMEX daemon of a node in a rack."""
    devices = [
        {"name": name, "attributes": {"type": text_attribute(name.partition("-")[0]), "id": {"int": 0}}}
        for name in CHANNEL_DEVICES
    ]
    return slices_of_pool(node, [{"devices": devices}], node_uid, CHANNEL_DRIVER)


def slices_of_pool(
    node: str, contents: Sequence[Mapping[str, Any]], node_uid: str, driver: str = DRIVER
) -> list[dict[str, Any]]:
    """The slices of a node.

    :param contents: devices, or counters, of each.
    """
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "ResourceSlice",
            "metadata": _metadata(node, number, node_uid, driver),
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": len(contents)},
                **content,
            },
        }
        for number, content in enumerate(contents)
    ]


def changes(wanted: Sequence[Mapping[str, Any]], present: Sequence[Mapping[str, Any]]) -> SliceChanges:
    """What changes the present slices of one node into the wanted ones; nothing where they say the same.

    Each driver has a pool of its own.

    Where anything changes, all slices of the pool get the next generation: consumers wait until they have seen as many
    of it as the pool says, and never allocate from a mixture.

    :param wanted: of :func:`resource_slices`.
    :param present: slices of the API; those that fakedev did not make are left alone.
    """
    drivers = {each["spec"].get("driver", "") for each in (*wanted, *present)}
    if len(drivers) > 1:
        parts = [changes(_of_driver(wanted, driver), _of_driver(present, driver)) for driver in sorted(drivers)]
        return SliceChanges(
            tuple(chain.from_iterable(part.create for part in parts)),
            tuple(chain.from_iterable(part.replace for part in parts)),
            tuple(chain.from_iterable(part.delete for part in parts)),
        )
    ours = {present_slice["metadata"]["name"]: present_slice for present_slice in present if is_ours(present_slice)}
    names = [wanted_slice["metadata"]["name"] for wanted_slice in wanted]
    generations = [our["spec"].get("pool", {}).get("generation", 0) for our in ours.values()]
    is_current = len(set(generations)) <= 1 and ours.keys() == set(names)
    if is_current and all(_digest(each) == _digest(ours[each["metadata"]["name"]]) for each in wanted):
        return SliceChanges()
    generation = max(generations, default=0) + 1
    made = [_published(wanted_slice, ours.get(wanted_slice["metadata"]["name"]), generation) for wanted_slice in wanted]
    return SliceChanges(
        create=tuple(made_slice for made_slice in made if made_slice["metadata"]["name"] not in ours),
        replace=tuple(made_slice for made_slice in made if made_slice["metadata"]["name"] in ours),
        delete=tuple(sorted(ours.keys() - set(names))),
    )


def slim_slice(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is kept of a slice, for :func:`changes`: its devices are only compared, but for the times of taints."""
    if is_slim(item):
        return item
    metadata, spec = item["metadata"], item["spec"]
    devices = [each for each in spec.get("devices") or () if each.get("taints")]
    tainted = [{"name": device["name"], "taints": device["taints"]} for device in devices]
    return {
        "metadata": {key: metadata[key] for key in ("name", "resourceVersion", "labels") if key in metadata},
        "spec": {**{key: spec.get(key) for key in ("driver", "nodeName", "pool")}, "devices": tainted},
        _DIGEST: _digest(item),
    }


def is_slim(item: Mapping[str, Any]) -> bool:
    """Whether a slice lacks its devices."""
    return _DIGEST in item


def _digest(item: Mapping[str, Any]) -> str:
    if is_slim(item):
        return str(item[_DIGEST])
    return hashlib.blake2b(orjson.dumps(_content(item), option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def _of_driver(slices: Sequence[Mapping[str, Any]], driver: str) -> list[Mapping[str, Any]]:
    return [each for each in slices if each["spec"].get("driver", "") == driver]


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


def slice_name(node: str, number: int, driver: str = DRIVER) -> str:
    """The name of a slice of a node; they are counted from 0."""
    name = f"{node}-{driver}-{number}"
    if len(name) > _LONGEST_NAME:  # a node's name may itself be as long as a name can be
        name = f"{node[:200].rstrip('.-')}-{hashlib.sha256(node.encode()).hexdigest()[:16]}-{driver}-{number}"
    return name


def _metadata(node: str, number: int, node_uid: str, driver: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": slice_name(node, number, driver), "labels": dict(MADE_BY)}
    if node_uid:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": True}
        metadata["ownerReferences"] = [owner]
    return metadata


def counter_set(index: int) -> str:
    """The name of a board's set of counters."""
    return f"gpu-{index}-counter-set"


def device_of_slice(device: DraDevice, unhealthy: Mapping[str, str]) -> dict[str, Any]:
    """A device as a slice has it, with the taint of what ails it."""
    made: dict[str, Any] = {
        "name": device.name,
        "attributes": {name: dict(value) for name, value in device.attributes.items()},
        "capacity": {name: dict(value) for name, value in device.capacity.items()},
    }
    if device.is_shared:
        made["allowMultipleAllocations"] = True
    if device.counters:
        counters = values_of(device.counters)
        made["consumesCounters"] = [{"counterSet": counter_set(device.slot.index), "counters": counters}]
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
        "devices": [_plain(device) for device in spec.get("devices") or ()],
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
        before = {device.get("name"): device.get("taints") or [] for device in present["spec"].get("devices") or ()}
        if "devices" in spec:  # else it has counters
            spec["devices"] = [_with_times(device, before.get(device["name"], [])) for device in spec["devices"]]
    return {**wanted, "metadata": metadata, "spec": spec}


def _with_times(device: Mapping[str, Any], before: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if "taints" not in device:
        return dict(device)
    known = {(taint.get("key"), taint.get("value", ""), taint.get("effect")): taint for taint in before}
    taints = [known.get((taint["key"], taint.get("value", ""), taint["effect"]), taint) for taint in device["taints"]]
    return {**device, "taints": [dict(taint) for taint in taints]}
