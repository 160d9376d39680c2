"""Finds places for jobs: first come, first served, with backfill; all boards of a job at once, on whole nodes if it is
larger than one.

A job at the head of the queue that has no place reserves the nodes that will be free first. Jobs behind it may
overtake it on other nodes, or on these if they will be over by then: EASY backfill (Lifka, The ANL/IBM SP Scheduling
System, 1995). The scheduler knows how long jobs will take, as if their users had asked for just that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from fakedev.fleet.cluster.jobs import ClusterJob
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.state import Mask, Positions

#: The jobs of the queue that a pass looks at.
DEPTH: Final = 200


class Place(NamedTuple):
    """Boards of a node for a job: the node's position among the cluster's, and the boards' indices on it."""

    node: int
    indices: tuple[int, ...]


class Nodes:
    """The nodes of a cluster: those without churn, with undivided boards, and not of a Kubernetes cluster.

    :ivar names: of the nodes, in order.
    :ivar boards: the number of all their boards.
    """

    def __init__(self, roster: Roster) -> None:
        nodes = [
            node for node in roster.nodes
            if node.pool.churn is None and not node.pool.has_parts and not node.pool.has_cluster_nodes
        ]
        self.names = [node.name for node in nodes]
        self.positions = {name: place for place, name in enumerate(self.names)}
        self.firsts: Positions = np.array([node.first for node in nodes], dtype=np.int64)
        self.widths: Positions = np.array([node.pool.devices_per_node for node in nodes], dtype=np.int64)
        kinds = [(node.pool.name, node.pool.device_type.name) for node in nodes]
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
        #: A job has boards of one pool and type.
        self.pools: Positions = np.array([numbers[kind] for kind in kinds], dtype=np.int64)
        self.boards = int(self.widths.sum())
        of_pools = [self.widths[self.pools == number] for number in numbers.values()]
        #: The largest job: half of a pool, since all of it would have to be idle for more; but at least a node.
        self.largest = max((max(int(pool.sum()) // 2, int(pool.max())) for pool in of_pools), default=0)

    def words(self, place: Place) -> tuple[str, ...]:
        """The device words of a place."""
        name = self.names[place.node]
        if len(place.indices) == self.widths[place.node]:
            return (f"{name}/*",)
        return tuple(f"{name}/{index}" for index in place.indices)


class Pass:
    """One look of the scheduler at its queue.

    :param free: which boards of the fleet can be taken, shape (devices,).
    :param free_at: by node, when its last job will be over; nodes without one are missing.
    """

    def __init__(self, nodes: Nodes, free: Mask, free_at: Mapping[int, float], now_seconds: float) -> None:
        self._nodes, self._free, self._free_at, self._now = nodes, free, free_at, now_seconds
        sums = np.concatenate(([0], np.cumsum(free)))
        self._counts: Positions = sums[nodes.firsts + nodes.widths] - sums[nodes.firsts]

    def placed(self, waiting: Iterable[ClusterJob], depth: int = DEPTH) -> list[tuple[ClusterJob, Sequence[Place]]]:
        """The jobs that start now, with their places."""
        found: list[tuple[ClusterJob, Sequence[Place]]] = []
        open_nodes = np.ones(len(self._counts), dtype=np.bool_)
        shadow = np.inf
        blocked: set[tuple[int, bool]] = set()
        for number, job in enumerate(waiting):
            if number == depth:
                break
            is_short = self._now + job.left_seconds <= shadow
            if (job.size, is_short) in blocked:
                continue
            places = self._places(job.size, None if is_short else open_nodes)
            if places is not None:
                found.append((job, places))
                for place in places:
                    self._counts[place.node] -= len(place.indices)
                    self._free[self._nodes.firsts[place.node] + np.array(place.indices)] = False
                blocked.clear()
                continue
            blocked.add((job.size, is_short))
            if shadow == np.inf:
                shadow = self._reserve(job.size, open_nodes)
        return found

    def _places(self, size: int, among: Mask | None) -> Sequence[Place] | None:
        nodes, counts = self._nodes, self._counts
        fits = counts >= np.minimum(size, nodes.widths)
        if among is not None:
            fits &= among
        small = fits & (nodes.widths >= size)
        if small.any():
            best = int(np.where(small, counts, np.iinfo(np.int64).max).argmin())
            return [self._on(best, size)]
        for pool in range(int(nodes.pools.max(initial=-1)) + 1):
            whole = np.flatnonzero(fits & (counts == nodes.widths) & (nodes.pools == pool))
            enough = int(np.searchsorted(np.cumsum(nodes.widths[whole]), size))
            if enough < len(whole):
                left, places = size, []
                for node in whole[: enough + 1].tolist():
                    places.append(self._on(node, min(left, int(nodes.widths[node]))))
                    left -= len(places[-1].indices)
                return places
        return None

    def _on(self, node: int, count: int) -> Place:
        first, width = int(self._nodes.firsts[node]), int(self._nodes.widths[node])
        return Place(node, tuple(np.flatnonzero(self._free[first : first + width])[:count].tolist()))

    def _reserve(self, size: int, open_nodes: Mask) -> float:
        """Close the nodes that a job will have first; when that will be."""
        nodes = self._nodes
        at: Floats = np.where(self._counts == nodes.widths, self._now, np.inf)
        for node, seconds in self._free_at.items():
            at[node] = seconds
        best: tuple[float, Positions] = (np.inf, np.zeros(0, dtype=np.int64))
        for pool in range(int(nodes.pools.max(initial=-1)) + 1):
            order = np.flatnonzero(nodes.pools == pool)
            order = order[np.argsort(at[order], kind="stable")]
            enough = int(np.searchsorted(np.cumsum(nodes.widths[order]), size))
            if enough < len(order) and at[order[enough]] < best[0]:
                best = float(at[order[enough]]), order[: enough + 1]
        open_nodes[best[1]] = False
        return best[0]
