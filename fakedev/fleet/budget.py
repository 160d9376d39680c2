"""What workloads and faults take of the limits of a fleet: counted by their specifications alone.

The limits hold for events that arrive; a replay applies what was accepted once, under whatever limits.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Final
from weakref import WeakValueDictionary

from fakedev.base.groups import grouped
from fakedev.fleet.spec.fleet_spec import Cost, FaultSpec
from fakedev.fleet.spec.limits import (
    ACTIVITY_BYTES,
    DRAW_DEVICES,
    EACH_BYTES,
    FROZEN_DEVICES,
    FROZEN_SERIES_DEVICES,
    FUNCTION_BYTES,
    PEER,
    Limits,
    check_limit,
)
from fakedev.fleet.spec.value_functions import DRAWN, MAX_LENGTHS
from fakedev.fleet.spec.workload_spec import Activities, WorkloadSpec
from fakedev.fleet.workloads.workload import Workload


def cost_of_workload(
    spec: WorkloadSpec, device_count: int, tick_seconds: float, faults: Sequence[Cost] = ()
) -> Cost:  # fmt: skip
    """What a workload takes.

    :param device_count: how many devices it runs on.
    :param faults: what the faults take that it brings.
    """
    texts = (spec.name, spec.kind, spec.node, spec.pod, spec.namespace, spec.container, *spec.devices)
    texts = (*texts, *(metric for metric, _ in spec.limits), *map(str, spec.faults))
    texts = (*texts, *(text for label in spec.labels for text in label))
    profiles = (spec.activities, *(use.activities for use in spec.uses))
    draws = sum(_draws(profile, tick_seconds) for profile in profiles) if device_count else 0
    of_intensity = profile_bytes(spec.activities) if spec.intensities else 0
    own = Cost(
        EACH_BYTES + sum(map(_text_bytes, texts)) + of_intensity,
        device_count * (1 + len(spec.uses) + bool(spec.intensities)) + DRAW_DEVICES * draws,
        profiles=profiles,
    )
    return _sum([own, *faults]) if faults else own


def cost_of_fault(spec: FaultSpec, device_count: int) -> Cost:
    """What a fault takes.

    :param device_count: how many devices it may affect.
    """
    texts = (spec.node, spec.metric, *spec.devices)
    if spec.kind == "frozen" and not spec.metric:
        device_count = FROZEN_SERIES_DEVICES + FROZEN_DEVICES * device_count
    return Cost(EACH_BYTES + sum(map(_text_bytes, texts)), fault_devices=device_count)


def profile_bytes(activities: Activities) -> int:
    """What a profile takes."""
    return ACTIVITY_BYTES * activities.segment_count + FUNCTION_BYTES * len(activities.functions)


def _draws(activities: Activities, tick_seconds: float) -> int:
    """The most random values of a profile in a tick, and the most drawn lengths."""
    every = [value.arguments[2] for value in activities.functions.values() if value.name in DRAWN]
    lengths = [activities.numbers[3 * position + 2] for position in activities.spreads]
    of_lengths = min(math.ceil(tick_seconds / min(lengths)), MAX_LENGTHS) if lengths else 0
    return of_lengths + (math.ceil(tick_seconds / min(every)) if every else 0)


def _text_bytes(text: str) -> int:
    """What a text takes, in bytes: the most that it may, by its widest character, and its place in a list."""
    return 64 + len(text) * (1 if text.isascii() else 4)


def _sum(costs: Sequence[Cost]) -> Cost:
    return Cost(
        sum(cost.memory_bytes for cost in costs),
        sum(cost.workload_devices for cost in costs),
        sum(cost.fault_devices for cost in costs),
        tuple(profile for cost in costs for profile in cost.profiles),
    )


class _Account:
    """What one peer, or all together, take."""

    __slots__ = ("profiles", "used")

    def __init__(self) -> None:
        self.used = dict.fromkeys(_COUNTED, 0)
        #: How many use each profile.
        self.profiles: dict[Activities, int] = {}

    def needed(self, cost: Cost) -> dict[str, int]:
        """What it would take more."""
        new = sum(profile_bytes(profile) for profile in set(cost.profiles) if profile not in self.profiles)
        return {
            "memory_bytes": cost.memory_bytes + new,
            "workload_devices": cost.workload_devices,
            "fault_devices": cost.fault_devices,
        }

    def add(self, cost: Cost) -> None:
        for name, needed in self.needed(cost).items():
            self.used[name] += needed
        for profile in cost.profiles:
            self.profiles[profile] = self.profiles.get(profile, 0) + 1

    def remove_all(self, costs: Sequence[Cost]) -> None:
        # By their ids: thousands of workloads that end in one tick share few profiles, and a hash takes longer.
        profiles = {id(profile): profile for cost in costs for profile in cost.profiles}
        for key, count in Counter(id(profile) for cost in costs for profile in cost.profiles).items():
            profile = profiles[key]
            self.profiles[profile] -= count
            if not self.profiles[profile]:
                del self.profiles[profile]
                self.used["memory_bytes"] -= profile_bytes(profile)
        for name in _COUNTED:
            self.used[name] -= sum(map(attrgetter(name), costs))


_COUNTED: Final = ("memory_bytes", "workload_devices", "fault_devices")


class Budget:
    """What workloads and faults take of the limits, together and by peer; numbers of them are counted elsewhere.

    :ivar limits: a reload may change them; what runs then stays.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._all = _Account()
        self._of_peers: dict[object, _Account] = {}
        self._reserved: Sequence[Cost] = ()
        #: What ended in the last tick: it is counted off at the next question.
        self._gone: Sequence[Workload] = ()
        self._shared: WeakValueDictionary[Activities, Activities] = WeakValueDictionary()

    def check(self, cost: Cost, peer: object = "") -> None:
        """Check that there is room for a workload or a fault.

        :param peer: who starts it; empty: no single peer.
        :raises Refused: if there is none.
        """
        self.settle()
        if peer:
            account = self._of_peers.get(peer) or _Account()
            for name, needed in account.needed(cost).items():
                check_limit(PEER + name, needed, account.used[name], getattr(self.limits, PEER + name))
        for name, needed in self._all.needed(cost).items():
            if needed:
                check_limit(name, needed, self._all.used[name], getattr(self.limits, name))

    def check_all(self, costs: Sequence[Cost], limits: Limits) -> None:
        """Check that there is room for all that another configuration starts, under its limits.

        :raises Refused: if there is none.
        """
        self.settle()
        more = _sum(costs)
        for name, needed in self._all.needed(more).items():
            if needed:
                check_limit(name, needed, self._all.used[name], getattr(limits, name))

    def reserve(self, costs: Sequence[Cost]) -> None:
        """Keep room for what a reload will start; empty: it has started."""
        self._all.remove_all(self._reserved)
        self._reserved = costs
        for cost in costs:
            self._all.add(cost)

    def add(self, cost: Cost, peer: object = "") -> None:
        """A workload or a fault is there."""
        self._all.add(cost)
        if peer:
            self._of_peers.setdefault(peer, _Account()).add(cost)

    def remove(self, cost: Cost, peer: object = "") -> None:
        """A workload or a fault is gone."""
        self._remove_all([(cost, peer)])

    def remove_later(self, gone: Sequence[Workload]) -> None:
        """Workloads are gone; they are counted off at the next question: a tick in which thousands end has no time."""
        self.settle()
        self._gone = gone

    def settle(self, most: int | None = None) -> bool:
        """Count off workloads that ended in the last tick, if that is not done yet.

        :param most: maximum; None: all.
        :returns: whether there are more.
        """
        if self._gone:
            # They are freed here, too, which takes longer than to count them.
            gone, self._gone = self._gone[:most], self._gone[most:] if most else ()
            self._remove_all([(workload.cost, workload.peer) for workload in gone])
        return not self.is_settled

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to :meth:`settle`."""
        return not self._gone

    def _remove_all(self, gone: Sequence[tuple[Cost, object]]) -> None:
        self._all.remove_all([cost for cost, _ in gone])
        of_peers = grouped((peer, cost) for cost, peer in gone if peer and peer in self._of_peers)
        for peer, costs in of_peers.items():
            account = self._of_peers[peer]
            account.remove_all(costs)
            if not any(account.used.values()):
                del self._of_peers[peer]

    def shared(self, activities: Activities) -> Activities:
        """The same activities, as another workload has them already: so that all have one object."""
        return self._shared.setdefault(activities, activities)

    def used(self) -> dict[str, int]:
        """What is taken of each limit, by the name of its field; of a peer's limit what the largest peer takes."""
        self.settle()
        of_peers = [account.used for account in self._of_peers.values()]
        largest = {PEER + name: max((peer[name] for peer in of_peers), default=0) for name in _COUNTED}
        return {**self._all.used, **largest}
