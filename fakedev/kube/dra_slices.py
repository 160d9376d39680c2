"""The ResourceSlices of a node, with taints of unhealthy devices, and what changes the present ones into them.

Sources: the API ``resource.k8s.io/v1`` (limits, pools and their generations); k8s.io/dynamic-resource-allocation,
resourceslice (how drivers publish); kubernetes-sigs/dra-driver-nvidia-gpu, cmd/gpu-kubelet-plugin (device_health.go,
driver.go) and the DeviceClasses of its Helm chart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fakedev.kube.devices import GPU, NodeDevices
from fakedev.kube.dra_devices import DRIVER, DraDevice, dra_devices

API_VERSION: Final = "resource.k8s.io/v1"
#: Devices of a slice. The API takes 128, and 64 where any has taints; health must not change the number of slices.
DEVICES_OF_SLICE: Final = 64
#: The label of all that fakedev makes, so that slices of real drivers are never touched.
MADE_BY: Final[Mapping[str, str]] = {"app.kubernetes.io/managed-by": "fakedev"}
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

    :param reason: ``XID 79``; ``unmonitored``; all others, as ``lost`` and ``hangs``, are of a device that no longer
        answers.
    """
    xid = _XID.fullmatch(reason)
    if xid is not None:
        return {"key": f"{DRIVER}/xid", "value": xid[1], "effect": "NoSchedule"}
    if reason == UNMONITORED:
        return {"key": f"{DRIVER}/{UNMONITORED}", "effect": "None"}
    return {"key": f"{DRIVER}/gpu-lost", "effect": "NoSchedule"}


def device_classes() -> list[dict[str, Any]]:
    """The DeviceClasses of NVIDIA's driver: pods that ask for ``nvidia.com/gpu`` are given devices of the first."""
    return [_class(DRIVER, "gpu", GPU), _class("mig.nvidia.com", "mig")]


def _class(name: str, kind: str, resource: str = "") -> dict[str, Any]:
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": expression}}]}
    if resource:
        spec["extendedResourceName"] = resource
    return {"apiVersion": API_VERSION, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def _metadata(node: str, number: int, node_uid: str) -> dict[str, Any]:
    name = f"{node}-{DRIVER}-{number}"
    if len(name) > _LONGEST_NAME:  # a node's name may itself be as long as a name can be
        name = f"{node[:200].rstrip('.-')}-{hashlib.sha256(node.encode()).hexdigest()[:16]}-{DRIVER}-{number}"
    metadata: dict[str, Any] = {"name": name, "labels": dict(MADE_BY)}
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
