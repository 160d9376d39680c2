"""Nodes with devices, and pods, for the tests of fakedev/kubernetes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fakedev.fleet.spec.device_types import DeviceType
from fakedev.fleet.spec.fleet_spec import PoolSpec
from fakedev.fleet.spec.offers import InCluster, MigStrategy
from fakedev.kubernetes.devices.node_ledger import NodeLedger, NotEnough
from fakedev.kubernetes.devices.offered_devices import NodeDevices
from fakedev.kubernetes.pods import Container, ContainerKind, Pod
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.divided_devices import parts_of
from tests.support.fleet.fleets import pool_of

GPU = "nvidia.com/gpu"


def pool(device: str | DeviceType = "h100", count: int = 8, *mig: str, **more: Any) -> PoolSpec:
    """A pool of one node ``dgx-0``.

    :param mig: the profiles of the instances of each board, which is an A100 then.
    :param more: further fields of the pool; ``replicas``, ``is_renamed`` and ``strategy`` are those in the cluster.
    """
    strategy = more.pop("strategy", MigStrategy.NONE)
    shown = InCluster(more.pop("replicas", 1), more.pop("is_renamed", False), strategy)
    board = catalog_type(device) if isinstance(device, str) else device
    return pool_of(device_type=board, devices_per_node=count, parts=parts_of(*mig), in_cluster=shown, **more)


def device_fault(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """An object DeviceFault."""
    metadata = {"name": name, "generation": 1}
    return {"apiVersion": "faults.fakedev/v1alpha1", "kind": "DeviceFault", "metadata": metadata, "spec": dict(spec)}


def node_of(spec: PoolSpec) -> NodeDevices:
    """The devices of the pool's first node."""
    return NodeDevices(1, spec, spec.nodes[0])


def node(device: str | DeviceType = "h100", count: int = 8, *mig: str, **more: Any) -> NodeDevices:
    """The devices of a node; arguments as of :func:`pool`."""
    return node_of(pool(device, count, *mig, **more))


def typed(name: str, **facts: str) -> DeviceType:
    """A device type of the catalog with other facts."""
    found = catalog_type(name)
    return replace(found, facts={**found.facts, **facts})


def container(name: str, count: int, kind: ContainerKind = ContainerKind.MAIN, resource: str = GPU) -> Container:
    """A container that wants so many GPUs."""
    return Container(name, kind, {resource: count} if count else {})


def init(name: str, count: int) -> Container:
    """An init container."""
    return container(name, count, ContainerKind.INIT)


def sidecar(name: str, count: int) -> Container:
    """A sidecar."""
    return container(name, count, ContainerKind.SIDECAR)


def pod(*containers: Container, name: str = "train", phase: str = "Running", **more: Any) -> Pod:
    """A pod of dgx-0 in the namespace ml; without containers, one that wants a GPU."""
    fields: dict[str, Any] = {"labels": {}, "annotations": {}, "uid": f"uid-{name}", **more}
    return Pod("ml", name, fields.pop("uid"), "dgx-0", phase, containers or (container("main", 1),), **fields)


def annotated(annotations: Mapping[str, str], **more: Any) -> Pod:
    """A pod with annotations."""
    return pod(annotations=annotations, **more)


def free_count(allocation: NodeLedger, unhealthy: Collection[str] = ()) -> int:
    """How many GPUs are free and healthy: the node says so when it refuses a pod."""
    with pytest.raises(NotEnough) as caught:
        allocation.admit(pod(container("all", 1000), name="large"), unhealthy)
    return caught.value.free
