"""A followed cluster whose devices are offered by Dynamic Resource Allocation, and its slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.kube.api_server import node
from tests.support.kube.followed import LABEL, FollowedCluster

DRIVER = "gpu.nvidia.com"
SLICES, CLAIMS = "resourceslices", "resourceclaims"


def followed(folder: Path, resources: str = "dra", **more: str) -> FollowedCluster:
    """A cluster with a node ``a`` and the application."""
    made = FollowedCluster(folder, more=f", resources: {resources}{more.pop('more', '')}", **more)
    made.api.add(node("a", {LABEL: "h100"}))
    made.start()
    made.tick(2)
    return made


def slices_of(cluster: FollowedCluster, name: str = "a") -> list[Any]:
    """The slices of a node."""
    return [each for each in cluster.api.items(SLICES) if each["spec"]["nodeName"] == name]


def taints(cluster: FollowedCluster) -> dict[str, list[tuple[str, str, str]]]:
    """Key, value and effect of the taints of each device that has any."""
    devices = [device for each in slices_of(cluster) for device in each["spec"]["devices"]]
    return {
        device["name"]: [(each["key"], each.get("value", ""), each["effect"]) for each in device["taints"]]
        for device in devices
        if device.get("taints")
    }


def generation(cluster: FollowedCluster) -> int:
    """Of the node's pool, which all its slices have."""
    (found,) = {each["spec"]["pool"]["generation"] for each in slices_of(cluster)}
    return int(found)
