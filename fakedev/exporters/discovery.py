"""Targets of Prometheus: the exporter of each node, in the JSON of HTTP service discovery and file_sd."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.spec.limits import Shard
from fakedev.web.paths import NODE_METRICS


def node_chooser(roster: Roster, pool: str, shard: Shard | None) -> Callable[[RosterNode], bool]:
    """A function that returns whether a node is in a pool and a shard.

    :param pool: empty for all pools.
    :param shard: None for all nodes that the roster shows.
    :raises ValueError: for a shard whose nodes this one does not have.
    """
    if shard is not None and roster.shard is not None and shard != roster.shard and shard.count == roster.shard.count:
        raise ValueError(f"this is {roster.shard}, and {shard} is another process")
    return lambda node: pool in ("", node.pool.name) and (shard is None or shard.has(node.name))


def targets_of(roster: Roster, pool: str, shard: Shard | None, where: str) -> Iterator[dict[str, object]]:
    """A target for each node of a pool and a shard, in order of the configuration; see :func:`node_chooser`."""
    return (target_of(node, where) for node in filter(node_chooser(roster, pool, shard), roster.shown))


def target_of(node: RosterNode, where: str) -> dict[str, object]:
    """The target of a node.

    :param where: its host and port.
    """
    return {
        "targets": [where],
        "labels": {
            "__metrics_path__": NODE_METRICS.at(NODE=node.name),
            "instance": f"{node.name}:9400",
            "node": node.name,
            "pool": node.pool.name,
        },
    }
