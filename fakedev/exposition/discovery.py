"""Where Prometheus finds the exporter of each node, as HTTP service discovery and file_sd have it."""

from __future__ import annotations

from collections.abc import Iterable

from fakedev.sim.roster import RosterNode


def targets_of(nodes: Iterable[RosterNode], where: str) -> list[dict[str, object]]:
    """A target for each node.

    :param where: host and port at which they all are reached.
    """
    return [
        {
            "targets": [where],
            "labels": {
                "__metrics_path__": f"/nodes/{node.name}/metrics",
                "instance": f"{node.name}:9400",
                "node": node.name,
                "pool": node.pool.name,
            },
        }
        for node in nodes
    ]
