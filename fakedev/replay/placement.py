"""Places the jobs of a trace on devices and shares of devices: where the trace says, or by a policy."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.replay.trace import WHOLE, TraceJob, TraceNode

#: Best fit: the fullest node (of shares: the fullest device) with room; spread: the emptiest; first: in their order.
POLICIES: Final = ("best-fit", "spread", "first")

#: Of jobs that wait, which comes first: the longest waiting of those that fit, where jobs come when they started in the
#: trace, or when they were submitted; the longest waiting, which none overtakes; the one that takes the shortest time,
#: or has the fewest or the most devices.
ORDERS: Final = ("trace", "arrival", "strict", "shortest", "smallest", "largest")


class Placed(NamedTuple):
    """A job with its place.

    :ivar start_seconds: when it starts: later than in the trace, if it had to wait for its place.
    :ivar node: the place of its node among the nodes.
    :ivar indices: of its devices on the node.
    """

    job: TraceJob
    start_seconds: float
    node: int
    indices: tuple[int, ...]

    @property
    def end_seconds(self) -> float:
        """When it ends: it runs as long as in the trace."""
        return self.start_seconds + self.job.seconds

    @property
    def delay_seconds(self) -> float:
        """How much later than in the trace it starts."""
        return self.start_seconds - self.job.start_seconds


@dataclass
class Placement:
    """What a placement has come to.

    :ivar placed: in the order of their starts.
    :ivar never: jobs that found no place: no such node or model, or more devices than any node has.
    """

    placed: list[Placed] = field(default_factory=list)
    never: list[TraceJob] = field(default_factory=list)

    @property
    def delayed(self) -> list[Placed]:
        """The jobs that had to wait for a place."""
        return [placed for placed in self.placed if placed.delay_seconds > 0]


class _Demand(NamedTuple):
    """What jobs have in common that find a place or none alike."""

    devices: int
    share: int
    node: str
    models: tuple[str, ...]
    indices: tuple[int, ...]


def place(nodes: Sequence[TraceNode], jobs: Sequence[TraceJob], policy: str, order: str = ORDERS[0]) -> Placement:
    """Place jobs as they come; ties go to the first node and device, so that nothing is drawn.

    A job without a place waits until another ends.

    :param policy: one of POLICIES.
    :param order: one of ORDERS.
    """
    return _Placer(nodes, policy, order).place(jobs)


class _Placer:
    """The devices with what is free of them, in thousandths; -1 where a node has fewer devices."""

    def __init__(self, nodes: Sequence[TraceNode], policy: str, order: str) -> None:
        self._policy = policy
        self._order = order
        self._positions = {node.name: place for place, node in enumerate(nodes)}
        most = max((node.devices for node in nodes), default=0)
        counts = np.array([node.devices for node in nodes], dtype=np.int64)
        self._free = np.where(np.arange(most) < counts[:, None], WHOLE, -1)
        self._whole = counts.copy()
        self._counts = counts
        self._models = np.array([node.model for node in nodes], dtype=object)
        self._allowed: dict[tuple[str, tuple[str, ...]], NDArray[np.bool_] | None] = {}
        self._ends: list[tuple[float, int, Placed]] = []
        #: Those that wait, a heap of each demand: what decides, the rank of their coming, and the job.
        self._waiting: dict[_Demand, list[tuple[float, int, TraceJob]]] = {}
        self._result = Placement()

    def place(self, jobs: Sequence[TraceJob]) -> Placement:
        for rank, job in enumerate(sorted(jobs, key=self._comes)):
            now = self._comes(job)
            self._end_until(now)
            demand = _Demand(job.devices, job.share, job.node, job.models, job.indices)
            must_wait = demand in self._waiting or (self._order == "strict" and self._waiting)
            if not self._ever(demand):
                self._result.never.append(job)
            elif must_wait or not self._try(job, demand, now):
                heapq.heappush(self._waiting.setdefault(demand, []), (self._comes_first(job), rank, job))
        self._end_until(np.inf)
        self._result.placed.sort(key=lambda each: each.start_seconds)
        return self._result

    def _comes(self, job: TraceJob) -> float:
        return job.start_seconds if self._order == "trace" else job.submit_seconds

    def _comes_first(self, job: TraceJob) -> float:
        """The jobs with the smallest number come first; of equal ones those that wait longest."""
        devices = job.devices * job.share
        return {"shortest": job.seconds, "smallest": devices, "largest": -devices}.get(self._order, 0.0)

    def _end_until(self, seconds: float) -> None:
        while self._ends and self._ends[0][0] <= seconds:
            now = self._ends[0][0]
            while self._ends and self._ends[0][0] == now:
                ended = heapq.heappop(self._ends)[2]
                self._take(ended.node, ended.indices, -ended.job.share)
            if self._waiting:
                self._start_waiting(now)

    def _start_waiting(self, now: float) -> None:
        """Start what fits: of the demands that may fit, always the job that comes first."""
        queues = [(queue[0][:2], demand) for demand, queue in self._waiting.items()]
        heapq.heapify(queues)
        while queues:
            _, demand = heapq.heappop(queues)
            queue = self._waiting[demand]
            if self._try(queue[0][2], demand, now):
                heapq.heappop(queue)
                if queue:
                    heapq.heappush(queues, (queue[0][:2], demand))
                else:
                    del self._waiting[demand]
            elif self._order == "strict":
                return

    def _ever(self, demand: _Demand) -> bool:
        allowed = self._nodes_for(demand)
        enough = self._counts >= max(demand.devices, *(index + 1 for index in demand.indices), 0)
        return bool((enough if allowed is None else enough & allowed).any())

    def _nodes_for(self, demand: _Demand) -> NDArray[np.bool_] | None:
        """The nodes that a demand accepts; None: all."""
        key = (demand.node, demand.models)
        if key not in self._allowed:
            allowed = None
            if demand.node:
                allowed = np.zeros(len(self._counts), dtype=np.bool_)
                if demand.node in self._positions:
                    allowed[self._positions[demand.node]] = True
            elif demand.models:
                allowed = np.isin(self._models.astype(str), demand.models)
            self._allowed[key] = allowed
        return self._allowed[key]

    def _try(self, job: TraceJob, demand: _Demand, now: float) -> bool:
        if job.indices:
            node = self._positions[demand.node]
            found = (node, demand.indices) if (self._free[node, demand.indices] >= demand.share).all() else None
        else:
            found = self._find_share(demand) if job.share < WHOLE else self._find_whole(demand)
        if found is None:
            return False
        placed = Placed(job, now, *found)
        self._take(*found, job.share)
        self._result.placed.append(placed)
        heapq.heappush(self._ends, (placed.end_seconds, len(self._result.placed), placed))
        return True

    def _find_whole(self, demand: _Demand) -> tuple[int, tuple[int, ...]] | None:
        fits = self._whole >= demand.devices
        allowed = self._nodes_for(demand)
        node = self._best(self._whole, fits if allowed is None else fits & allowed)
        if node is None:
            return None
        indices = np.flatnonzero(self._free[node] == WHOLE)[: demand.devices]
        return node, tuple(indices.tolist())

    def _find_share(self, demand: _Demand) -> tuple[int, tuple[int, ...]] | None:
        fits = self._free >= demand.share
        allowed = self._nodes_for(demand)
        if allowed is not None:
            fits &= allowed[:, None]
        device = self._best(self._free.ravel(), fits.ravel())
        if device is None:
            return None
        node, index = divmod(device, self._free.shape[1])
        return node, (index,)

    def _best(self, free: NDArray[np.int64], fits: NDArray[np.bool_]) -> int | None:
        """The place that the policy takes; None when nothing fits."""
        if self._policy == "best-fit":
            found = int(np.where(fits, free, np.iinfo(np.int64).max).argmin())
        elif self._policy == "spread":
            found = int(np.where(fits, free, -1).argmax())
        else:
            found = int(fits.argmax())
        return found if fits[found] else None

    def _take(self, node: int, indices: tuple[int, ...], share: int) -> None:
        """Take a share of devices; a negative one gives it back."""
        self._free[node, indices] -= share
        self._whole[node] = np.count_nonzero(self._free[node] == WHOLE)
