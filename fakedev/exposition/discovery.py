"""Where Prometheus finds the exporter of each node, as HTTP service discovery and file_sd have it."""

from __future__ import annotations

from collections.abc import Iterable

from fakedev.sim.entities.roster import Roster, RosterNode
from fakedev.spec.shards import Shard
from fakedev.spec.web_paths import NODE_METRICS


def chosen_nodes(roster: Roster, pool: str, shard: Shard | None) -> list[RosterNode]:
    """The nodes of a pool and a shard, in order of the configuration.

    :param pool: empty: of all pools.
    :param shard: None: all that the roster shows.
    :raises ValueError: for a shard whose nodes this one does not have.
    """
    if shard is not None and roster.shard is not None and shard != roster.shard and shard.count == roster.shard.count:
        raise ValueError(f"this is {roster.shard}, and {shard} is another process")
    return [node for node in roster.shown if pool in ("", node.pool.name) and (shard is None or shard.has(node.name))]


def targets_of(nodes: Iterable[RosterNode], where: str) -> list[dict[str, object]]:
    """A target for each node.

    :param where: host and port at which they all are reached.
    """
    return [
        {
            "targets": [where],
            "labels": {
                "__metrics_path__": NODE_METRICS.at(NODE=node.name),
                "instance": f"{node.name}:9400",
                "node": node.name,
                "pool": node.pool.name,
            },
        }
        for node in nodes
    ]
