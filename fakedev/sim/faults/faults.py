"""The faults of a fleet: which there are, and what they do to its devices in each tick."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entity_keys import entity_key
from fakedev.sim.errors import Refused
from fakedev.sim.faults.effects import Act, Effect, Touched
from fakedev.sim.faults.fault_tick import FaultTick
from fakedev.sim.faults.kinds import KINDS, FaultKind, Scope
from fakedev.sim.faults.on_parts import check_parts
from fakedev.sim.faults.spec import FaultSpec
from fakedev.sim.randomness import Keys, uniform
from fakedev.sim.roster import Roster
from fakedev.sim.schedule import Positions
from fakedev.sim.selectors import resolve_here
from fakedev.sim.spec import MetricName
from fakedev.sim.state import Mask

#: Faults that a fleet takes, those that wait among them.
MOST_FAULTS: Final = 10_000
#: Sums of decimal fractions miss a tick's boundary by less than this.
_ROUNDING_SECONDS: Final = 1e-6


@dataclass
class Fault:
    """A fault that was accepted.

    :ivar devices: units (devices, and parts of such) that it may concern, N.
    :ivar values: what its kind takes, defaults among it.
    :ivar metric: what its metric shows; None for all metrics.
    :ivar since_seconds: simulated time of its start; None until the next tick begins.
    :ivar on: which of its devices it concerns now, shape (N,).
    :ivar is_cleared: it ends with the next tick.
    :ivar has_new_devices: it concerns devices that have come since the last tick.
    """

    fault_id: str
    spec: FaultSpec
    kind: FaultKind
    effect: Effect
    devices: Positions
    keys: Keys
    values: Mapping[str, float]
    metric: MetricName | None
    on: Mask
    since_seconds: float | None = None
    is_cleared: bool = False
    period: int = -1
    has_new_devices: bool = False

    @property
    def lasts(self) -> bool:
        """Whether it goes on for a time; else it happens, and is over."""
        return self.kind.lasts_with(self.values)

    @property
    def concerned(self) -> Positions:
        """The devices that it concerns now."""
        return self.devices[self.on]


class Change(NamedTuple):
    """What became of a fault in a tick.

    :ivar what: ``began``, ``struck`` (again, or other devices), ``eased`` (some devices) or ``over``.
    """

    fault: Fault
    what: str
    devices: Positions


class _Tick(NamedTuple):
    """Devices that a fault strikes, holds and leaves in a tick, and whether that was its last."""

    struck: Positions
    held: Positions
    recovered: Positions
    is_over: bool


class Faults:
    """The faults of a fleet.

    :param device_keys: keys of randomness of the devices, shape (D,).
    :param present: the devices that have each quantity, shape (D,).
    :param metric_of: what a metric that somebody names shows.
    :param known: quantities that metrics may show. A shard knows those of the whole fleet.
    :ivar by_id: the faults that wait or last, oldest first.
    :ivar changes: what became of them in the last tick.
    :ivar has_moved: whether a fault that lasts concerns other devices than a tick ago.
    """

    def __init__(
        self,
        seed: int,
        roster: Roster,
        device_keys: Keys,
        present: Mapping[str, NDArray[np.bool_]],
        metric_of: Callable[[str], MetricName],
        known: Collection[str],
        tick_seconds: float,
    ) -> None:
        self._seed = seed
        self._roster = roster
        self._keys = device_keys
        self._present = present
        self._metric_of = metric_of
        self._known = known
        self._tick_seconds = tick_seconds
        self.by_id: dict[str, Fault] = {}
        self.changes: list[Change] = []
        self.has_moved = False
        self._devices_moved = False
        self._reserved = 0

    # -- the door ---------------------------------------------------------------------------------

    def made(self, fault_id: str, spec: FaultSpec, key: str = "", *, of_configuration: bool = False) -> Fault:
        """The fault of a specification, not yet among the others.

        :param key: what its randomness is keyed by; empty: its id.
        :param of_configuration: every shard is told of it: there may be none of its devices here.
        :raises Refused: when it cannot be; ``where`` is the field at fault.
        """
        kind = KINDS[spec.kind]
        if fault_id not in self.by_id:
            self.check_room(1)
        devices = resolve_here(spec.devices, self._roster, spec.node, of_configuration=of_configuration)
        may_lack = of_configuration and self._roster.whole is not None
        if kind.scope in (Scope.PAGE, Scope.NODE) and len(devices):
            nodes = np.unique(self._roster.node_positions(devices)).tolist()
            devices = np.concatenate([np.array(self._roster.nodes[node].devices) for node in nodes])
        for needed, by in kind.needed(spec.values).items():
            has = self._present.get(needed, np.zeros(self._roster.parts.unit_count, np.bool_))
            devices = devices[has[devices]]
            if not len(devices) and not may_lack:
                raise Refused("unknown-name", f"{by} needs {needed}, which none of its devices has", "devices")
        if "link" in spec.values:
            link = int(spec.values["link"])
            devices = devices[self._roster.links.counts[self._roster.parts.owners_of(devices)] > link]
            if not len(devices) and not may_lack:
                raise Refused("unknown-name", f"none of the devices has a link {link}", "link")
        if "watts" in spec.values and len(devices):
            devices = self._with_limit(devices, spec.values["watts"])
        values = {each.name: spec.values.get(each.name, each.default or 0.0) for each in kind.parameters}
        check_parts(kind, values, devices, self._roster)
        metric = self._metric_of(spec.metric) if spec.metric else None
        if metric is not None and metric.quantity not in self._known:
            raise Refused("unknown-name", f"no metric {spec.metric!r}", "metric")
        if spec.every_seconds and spec.every_seconds < self._tick_seconds - _ROUNDING_SECONDS:
            raise Refused("limit", f"must not be less than a tick of {self._tick_seconds:g} seconds", "every")
        first = devices
        if kind.scope in (Scope.PAGE, Scope.NODE) and len(devices):
            # All of a node, or nothing of it.
            first = np.array([self._roster.nodes[each].first for each in self._roster.node_positions(devices).tolist()])
        keys = self._keys[first] ^ np.uint64(entity_key("fault", key or fault_id))
        off = np.zeros(len(devices), np.bool_)
        return Fault(fault_id, spec, kind, kind.effect_of(values), devices, keys, values, metric, off)

    def check_room(self, count: int) -> None:
        """Whether so many faults more may be there.

        :raises Refused: when they may not.
        """
        taken = len(self.by_id) + self._reserved
        if taken + count > MOST_FAULTS:
            text = f"{taken} faults are there, and {count} more would come: at most {MOST_FAULTS} can be"
            raise Refused("full", f"there are {MOST_FAULTS} faults already" if count == 1 else text)

    def reserve(self, count: int) -> None:
        """Keep room for faults that will come with another configuration; 0: they have come."""
        self._reserved = count

    def add(self, fault: Fault) -> None:
        """Take a fault in: it begins, or waits for its start, with the next tick."""
        self.by_id[fault.fault_id] = fault

    def clear(self, fault_id: str) -> None:
        """End a fault with the next tick.

        :raises Refused: when there is none of that id.
        """
        fault = self.by_id.get(fault_id)
        if fault is None or fault.is_cleared:
            raise Refused("unknown-name", f"no fault {fault_id!r}", "fault")
        fault.is_cleared = True

    def clear_if_there(self, fault_id: str) -> None:
        """End a fault with the next tick, if it is not over or cleared already."""
        if fault_id in self.by_id:
            self.by_id[fault_id].is_cleared = True

    def move(
        self,
        new_of: Positions,
        roster: Roster,
        device_keys: Keys,
        present: Mapping[str, NDArray[np.bool_]],
        metric_of: Callable[[str], MetricName],
        known: Collection[str],
        named_anew: Collection[str],
    ) -> None:
        """The devices have new places: faults follow theirs; one that has no device any more is gone.

        :param new_of: the new position of each device, -1 of those that are gone.
        :param named_anew: ids of the faults that concern what their words name now.
        """
        self._roster, self._keys, self._present = roster, device_keys, present
        self._metric_of, self._known = metric_of, known
        self._devices_moved = True
        for fault in list(self.by_id.values()):
            places, concerned = new_of[fault.devices], new_of[fault.concerned]
            if fault.fault_id in named_anew:
                anew = self.made(fault.fault_id, fault.spec, of_configuration=True)
                fault.devices, fault.keys, fault.metric = anew.devices, anew.keys, anew.metric
                # What happens once has happened to those that were there.
                fault.has_new_devices = fault.lasts and fault.period >= 0
            else:
                order = np.argsort(places)[np.count_nonzero(places < 0) :]
                fault.devices, fault.keys = places[order], fault.keys[order]
            fault.on = np.isin(fault.devices, concerned)
            if not len(fault.devices) or (fault.metric is not None and fault.metric.quantity not in known):
                del self.by_id[fault.fault_id]

    # -- the tick ---------------------------------------------------------------------------------

    def advance(self, start_seconds: float, end_seconds: float) -> FaultTick | None:
        """What the faults do to the devices in a tick; None when nothing."""
        self.changes, self.has_moved, self._devices_moved = [], self._devices_moved, False
        if not self.by_id:
            return None
        effects = FaultTick(self._roster.parts, end_seconds - start_seconds, end_seconds)
        ticks = [(fault, self._tick_of(fault, start_seconds)) for fault in list(self.by_id.values())]
        for fault, tick in ticks:
            self._act(fault, fault.effect.recover, effects, tick.recovered)
        for fault, tick in ticks:
            self._act(fault, fault.effect.strike, effects, tick.struck)
            self._act(fault, fault.effect.hold, effects, tick.held)
            if tick.is_over:
                del self.by_id[fault.fault_id]
        return effects

    @staticmethod
    def _act(fault: Fault, act: Act, effects: FaultTick, devices: Positions) -> None:
        if len(devices):
            act(effects, Touched(fault.fault_id, devices, fault.values))

    def _tick_of(self, fault: Fault, now: float) -> _Tick:
        """Which devices the fault strikes, holds and leaves in the tick that begins now."""
        none = fault.devices[:0]
        if fault.since_seconds is None:
            fault.since_seconds = now + fault.spec.start_seconds
        age = now - fault.since_seconds + _ROUNDING_SECONDS
        was = fault.on
        duration = fault.spec.duration_seconds
        if fault.is_cleared or (duration and age >= duration):
            fault.on = np.zeros_like(was)
            self.has_moved |= bool(was.any())
            left = fault.devices[was]
            if fault.period >= 0:
                self.changes.append(Change(fault, "over", left))
            return _Tick(none, none, left, is_over=True)
        if age < 0:
            return _Tick(none, none, none, is_over=False)
        is_first = fault.period < 0
        every = fault.spec.every_seconds or (self._tick_seconds if fault.spec.probability < 1 else 0.0)
        period = int(age // every) if every else 0
        if period == fault.period and not fault.has_new_devices:
            return _Tick(none, fault.concerned, none, is_over=False)
        fault.period, fault.has_new_devices = period, False
        now_on = uniform(self._seed, fault.keys, "fault", period) < fault.spec.probability
        fault.on = now_on & fault.lasts
        self.has_moved |= bool((fault.on != was).any())
        struck = fault.devices[now_on & ~was]
        recovered = fault.devices[was & ~now_on]
        if is_first or len(struck) or len(recovered):
            self._note(fault, struck, recovered, is_first)
        return _Tick(struck, fault.concerned, recovered, is_over=not fault.lasts and not every)

    def _note(self, fault: Fault, struck: Positions, recovered: Positions, is_first: bool) -> None:
        if is_first:
            self.changes.append(Change(fault, "began", struck))
        elif len(struck):
            self.changes.append(Change(fault, "struck", struck))
        if len(recovered):
            self.changes.append(Change(fault, "eased", recovered))

    # -- what others ask ----------------------------------------------------------------------------

    def on_device(self, position: int) -> list[Fault]:
        """The faults that concern a unit now: a device, or a part by itself or with its device."""
        return [fault for fault in self.by_id.values() if self._concerns(fault.concerned, position)]

    def _concerns(self, concerned: Positions, unit: int) -> bool:
        return unit in concerned or self._roster.parts.owner(unit) in concerned

    def _with_limit(self, devices: Positions, watts: float) -> Positions:
        """Those of some devices that may be capped at so much power: a driver takes no limit above the type's."""
        types = [node.pool.device_type for node in self._roster.nodes]
        limits = np.array([each.dynamics.power_limit_watts if each.dynamics else 0.0 for each in types])
        limits = limits[self._roster.node_positions(devices)]
        if watts > limits.max():
            raise Refused("bad-argument", f"watts: none of the devices may have more than {limits.max():g} W", "watts")
        return devices[limits >= watts]

    def behind(self, quantity: str, position: int) -> list[Fault]:
        """The faults that may be why a quantity of a device has changed in the last tick, or is as it is."""
        found = self.on_device(position) + [
            fault for fault, _, devices in self.changes if self._concerns(devices, position)
        ]
        kinds = {fault.fault_id: fault for fault in found if _moves(fault, quantity)}
        return [fault for fault in kinds.values() if fault.kind.scope in (Scope.BOARD, Scope.NODE)]

    def by_cause(self, quantity: str, units: Positions) -> list[Positions]:
        """Some units, those together that have the same faults behind a quantity, in the order of the first of each."""
        where = {fault.fault_id: [fault.concerned] for fault in self.by_id.values() if _moves(fault, quantity)}
        for fault, _, devices in self.changes:
            if _moves(fault, quantity):
                where.setdefault(fault.fault_id, []).append(devices)
        owners, marks = self._roster.parts.owners_of(units), np.zeros(len(units), np.uint64)
        for fault_id, concerned in where.items():
            is_on = np.zeros(self._roster.parts.unit_count, np.bool_)
            is_on[np.concatenate(concerned)] = True
            marks[is_on[units] | is_on[owners]] ^= np.uint64(entity_key("fault", fault_id))
        _, firsts, groups = np.unique(marks, return_index=True, return_inverse=True)
        ordered = np.split(units[np.argsort(groups, kind="stable")], np.cumsum(np.bincount(groups))[:-1])
        return [ordered[each] for each in np.argsort(firsts).tolist()]

    def disguises(self, quantity: str, position: int) -> list[Fault]:
        """The faults that show another value of a quantity of a device, or none."""
        return [
            fault
            for fault in self.active(Scope.SERIES)
            if self._concerns(fault.concerned, position) and (fault.metric is None or fault.metric.quantity == quantity)
            and fault.kind.takes_metric
        ]

    def stale(self) -> frozenset[int]:
        """The devices whose labels of pods stay when their work is over."""
        stale = [fault for fault in self.active(Scope.SERIES) if fault.kind.name == "stale-labels"]
        found = [self._roster.parts.with_parts(fault.concerned).tolist() for fault in stale]
        return frozenset(unit for units in found for unit in units)

    def active(self, *scopes: Scope) -> list[Fault]:
        """The faults of some scopes that concern any device now."""
        return [fault for fault in self.by_id.values() if fault.kind.scope in scopes and fault.on.any()]


def _moves(fault: Fault, quantity: str) -> bool:
    return not fault.kind.moves or quantity in fault.kind.moves
