"""Churn: workloads that start on nodes at random, without a request, and end after some time.

The arrivals are drawn for each node and tick and depend only on seed, names and tick: there is no event for them, and
a shard draws the same for its nodes as the whole fleet. An arrival takes devices without a pod, as a scheduler would
assign them; if a node has too few of them, the arrival is dropped.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fakedev.fleet.entities.naming import LETTERS, generated_name
from fakedev.fleet.entities.randomness import Floats, Keys, sub_keys, uniform
from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.state import Positions, State
from fakedev.fleet.spec.fleet_spec import ChurnKind, ChurnSpec
from fakedev.fleet.spec.limits import entity_key
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.fleet.workloads.intake import Intake
from fakedev.fleet.workloads.owners import Attribution
from fakedev.fleet.workloads.workload import CHURN_PREFIX, Workload

#: The most expected arrivals of a fleet in a tick: each takes some tenths of a millisecond.
MAX_EXPECTED: Final = 100.0
#: The most expected arrivals of a node in a tick, and the most that it gets.
MAX_EXPECTED_AT_NODE: Final = 1.0
_MAX_AT_NODE: Final = 8
_SUFFIX_LENGTH: Final = 5
_HASH_LENGTH: Final = 10
#: What is drawn for each arrival, within [0, 1).
_DRAWN: Final = ("count", "lasts", "owner", "pod")


@dataclass(frozen=True)
class Arrival:
    """A workload that churn starts on a node."""

    workload_id: str
    workload: WorkloadSpec


class Churn:
    """The arrivals on the nodes of a fleet.

    :ivar nodes: the nodes with churn.
    """

    def __init__(self, seed: int, tick_seconds: float, roster: Roster) -> None:
        self._seed = seed
        self._parts = roster.parts
        self.nodes = [(node, node.pool.churn) for node in roster.nodes if node.pool.churn is not None]
        names = [entity_key("churn", node.pool.name, node.name) for node, _ in self.nodes]
        self._keys: Keys = np.array(names, dtype=np.uint64)
        expected = np.array([churn.per_second * tick_seconds for _, churn in self.nodes])
        self._thresholds = _poisson(expected)
        specs = {id(churn): churn for _, churn in self.nodes}.values()
        self._kind_keys = {id(churn): _kind_keys(churn) for churn in specs}

    def start_arrivals(self, intake: Intake, attribution: Attribution, state: State) -> list[Workload]:
        """Start the workloads that arrive after a state, on devices that are present and have no pod."""
        level = state.levels["device"]

        def is_free(unit: int) -> bool:
            is_lost = "lost" in level.arrays and level.arrays["lost"][self._parts.owner(unit)] > 0
            return not is_lost and attribution.is_free(unit)

        arrived = [
            intake.accept(arrival.workload_id, arrival.workload, of_configuration=True)
            for arrival in self.arrivals(state.tick + 1, is_free)
            if intake.has_room
        ]
        if arrived:
            intake.apply_changes(state.tick, state.seconds)
        return arrived

    def arrivals(self, tick: int, free: Callable[[int], bool]) -> list[Arrival]:
        """The workloads that arrive at the beginning of a tick."""
        counts = self._counts(tick)
        if not counts.any():
            return []
        where = np.repeat(np.arange(len(counts)), counts)
        numbers = np.concatenate([np.arange(count) for count in counts[counts > 0].tolist()])
        keys = sub_keys(self._keys[where], numbers.astype(np.uint64))
        draws = {what: uniform(self._seed, keys, f"churn {what}", tick) for what in _DRAWN}
        kinds = self._drawn_kinds(where, keys, tick)
        taken: set[int] = set()
        arrivals = []
        for place, (node_place, number) in enumerate(zip(where.tolist(), numbers.tolist(), strict=True)):
            node, _ = self.nodes[node_place]
            drawn = {what: float(draws[what][place]) for what in _DRAWN}
            kind = kinds[place]
            counts_by_size = sorted(kind.counts)
            count = counts_by_size[int(drawn["count"] * len(counts_by_size))]
            units = [(unit, word) for unit, word in self._units(node) if unit not in taken and free(unit)][:count]
            if len(units) == count:
                taken.update(unit for unit, _ in units)
                words = tuple(word for _, word in units)
                workload_id = f"{CHURN_PREFIX}{node.name}-{tick}" + (f"-{number}" if number else "")
                arrivals.append(Arrival(workload_id, self._workload(node, kind, words, drawn)))
        return arrivals

    def _units(self, node: RosterNode) -> Iterator[tuple[int, str]]:
        """The units of a node that a workload can take, with their names: undivided boards, and instances of others."""
        for device in node.devices:
            word = f"{node.name}/{device - node.first}"
            if self._parts.is_undivided[device]:
                yield device, word
            else:
                yield from ((unit, f"{word}/{number}") for number, unit in enumerate(self._parts.of(device)))

    def _counts(self, tick: int) -> Positions:
        """The number of arrivals on each node: shape (nodes with churn,)."""
        drawn = uniform(self._seed, self._keys, "churn arrivals", tick)
        return np.asarray((drawn >= self._thresholds).sum(axis=0), dtype=np.int64)

    def _drawn_kinds(self, where: Positions, keys: Keys, tick: int) -> list[ChurnKind]:
        """The kind of each of some arrivals: the one that comes first, if each comes after an exponential time.

        Each kind has a draw of its own: another order changes nothing, and a kind more only what becomes of that kind.

        :param where: positions in ``nodes``.
        :param keys: of the arrivals.
        """
        specs = [self.nodes[place][1] for place in where.tolist()]
        of_each = [key ^ self._kind_keys[id(churn)] for key, churn in zip(keys, specs, strict=True)]
        drawn = iter(uniform(self._seed, np.concatenate(of_each), "churn kind", tick).tolist())

        def first(churn: ChurnSpec) -> ChurnKind:
            times = [_waits(next(drawn), kind.weight) for kind in churn.kinds]
            return churn.kinds[times.index(min(times))]

        return list(map(first, specs))

    def _workload(
        self, node: RosterNode, kind: ChurnKind, words: tuple[str, ...], drawn: Mapping[str, float]
    ) -> WorkloadSpec:
        lasts = kind.min_seconds * (kind.max_seconds / kind.min_seconds) ** drawn["lasts"]
        name = kind.workload.name
        if kind.is_job:
            owner = f"{name}-{int(drawn['owner'] * 90000) + 10000}"
        else:
            replica_set = entity_key("replica set", str(self._seed), node.pool.name, name)
            owner = f"{name}-{generated_name(replica_set, _HASH_LENGTH)}"
        pod = f"{owner}-{generated_name(int(drawn['pod'] * len(LETTERS) ** _SUFFIX_LENGTH), _SUFFIX_LENGTH)}"
        # Whole milliseconds: a readable number, and the same on every machine.
        return replace(kind.workload, devices=words, pod=pod, ttl_seconds=max(round(lasts, 3), 0.001))


def _poisson(expected: Floats) -> Floats:
    """For each number from 1 on the probability of fewer arrivals: shape (_MAX_AT_NODE, nodes)."""
    rows = []
    each = np.array([math.exp(-mean) for mean in expected.tolist()])
    total = each
    for number in range(1, _MAX_AT_NODE + 1):
        rows.append(total)
        each = each * expected / number
        total = total + each
    return np.array(rows)


def _kind_keys(churn: ChurnSpec) -> Keys:
    """The key of each kind, from its name; several of the same name are numbered: shape (kinds,)."""
    counted: Counter[str] = Counter()
    found = []
    for kind in churn.kinds:
        found.append(entity_key("churn kind", kind.workload.name, str(counted[kind.workload.name])))
        counted[kind.workload.name] += 1
    return np.array(found, dtype=np.uint64)


def _waits(drawn: float, weight: float) -> float:
    """An exponential time with the mean 1 / weight; infinite without a weight."""
    return -math.log1p(-drawn) / weight if weight else math.inf
