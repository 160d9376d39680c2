"""Which container has which device by resource claims, and what dcgm-exporter says of them.

Sources: the API ``resource.k8s.io/v1`` (ResourceClaim); the API ``v1`` (Pod: resourceClaims, resourceClaimStatuses,
extendedResourceClaimStatus); NVIDIA/dcgm-exporter, internal/pkg/transformation/kubernetes.go (the labels ``dra_*``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fakedev.kube.devices import Slot
from fakedev.kube.dra_devices import DRIVER, DraDevice
from fakedev.kube.pods import Container, Pod
from fakedev.spec.fleet import WorkloadSpec

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
    """

    namespace: str
    name: str
    results: tuple[Result, ...] = ()
    pods: frozenset[str] = frozenset()
    uid: str = ""


@dataclass(frozen=True)
class ClaimedDevices:
    """What a pod has by claims.

    :param slots: of each container that has any, in order of the pod's containers and claims.
    :param labels: of each of these slots, by container: the facts ``dra_*`` of its devices.
    :param problems: results that no device of the node fits, in words.
    :param is_waiting: some claim is not known, not allocated, or not reserved for the pod yet.
    """

    slots: Mapping[str, tuple[Slot, ...]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[Slot, Mapping[str, str]]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    is_waiting: bool = False


def read_claim(item: Mapping[str, Any]) -> Claim:
    """A claim of the API. The API server has checked its form; what is missing is empty."""
    metadata, status = item.get("metadata") or {}, item.get("status") or {}
    devices = (status.get("allocation") or {}).get("devices") or {}
    return Claim(
        namespace=metadata.get("namespace", "default"),
        name=metadata.get("name", ""),
        results=tuple(_result(each) for each in devices.get("results") or ()),
        pods=frozenset(
            each.get("uid", "") for each in status.get("reservedFor") or () if each.get("resource") == _PODS
        ),
        uid=metadata.get("uid", ""),
    )


def claimed_devices(
    pod: Pod, node: str, devices: Iterable[DraDevice], claims: Mapping[tuple[str, str], Claim]
) -> ClaimedDevices:
    """What a pod has by claims on its node; several pods, and several containers, may have the same device.

    :param node: the node's name, which is that of its pool.
    :param devices: of the node: :func:`~fakedev.kube.dra_devices.dra_devices`.
    :param claims: by namespace and name.
    """
    by_name = {device.name: device for device in devices}
    slots: dict[str, tuple[Slot, ...]] = {}
    labels: dict[str, dict[Slot, Mapping[str, str]]] = {}
    problems: dict[str, None] = {}
    is_waiting = False
    for container in pod.containers:
        found: dict[Slot, Mapping[str, str]] = {}
        for claim, result in _results(pod, container, claims):
            if claim is None or result is None:
                is_waiting = True
            elif result.driver == DRIVER and not result.is_admin:
                device = by_name.get(result.device) if result.pool == node else None
                if device is None:
                    text = f"claim {claim.namespace}/{claim.name}: no device {result.pool}/{result.device} on {node}"
                    problems[text] = None
                else:
                    found.setdefault(device.slot, dra_labels(claim, result, device))
        if found:
            slots[container.name], labels[container.name] = tuple(found), found
    return ClaimedDevices(slots, labels, tuple(problems), is_waiting)


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
) -> Iterable[tuple[Claim | None, Result | None]]:
    """The results that a container may use; None for a claim that is not there yet, or not ready for the pod."""
    for use in container.claims:
        claim = claims.get((pod.namespace, pod.claims.get(use.name, "")))
        if claim is None or not claim.results or pod.uid not in claim.pods:
            yield claim, None
            continue
        for result in claim.results:
            if use.request in ("", result.request, result.request.partition("/")[0]):
                yield claim, result
