"""Nodes as Kubernetes sees them, for tests of Dynamic Resource Allocation."""

from __future__ import annotations

from fakedev.kube.devices import NodeDevices
from tests.support.configurations import loaded


def node_devices(keys: str = "device: h100", node: str = "dgx-0") -> NodeDevices:
    """The devices of a node of a pool with some keys, as the configuration writes them."""
    (pool, *_) = loaded(f"fleet: {{pools: [{{name: p, nodes: [{node}], {keys}}}]}}", {}).fleet.pools
    return NodeDevices.of(1, pool, pool.nodes[0])
