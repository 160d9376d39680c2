"""The faults of a fleet, and their effects on its devices in each tick."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from fakedev.base.errors import Refused, unknown_name
from fakedev.base.groups import grouped
from fakedev.fleet.budget import Budget, cost_of_fault
from fakedev.fleet.entities.randomness import uniform
from fakedev.fleet.entities.state import Level, Mask, Positions
from fakedev.fleet.faults.effects import Act, Target, no_effect
from fakedev.fleet.faults.per_tick import FaultTick
from fakedev.fleet.faults.rules import ROUNDING_SECONDS, Change, Fault, FaultRules, Signs
from fakedev.fleet.parts.part_layout import Parts
from fakedev.fleet.spec.fault_kinds import MACHINE_SCOPES, Scope
from fakedev.fleet.spec.fleet_spec import FaultSpec
from fakedev.fleet.spec.limits import Limits, check_limit, entity_key

#: Faults with up to this number of devices are drawn together: each draw has a fixed cost.
_DRAWN_TOGETHER: Final = 8192


class _Tick(NamedTuple):
    """Devices that a fault hits, affects and releases in a tick; whether it is over then, and was active before."""

    struck: Positions
    held: Positions
    recovered: Positions
    is_over: bool
    was_active: bool = False


def _in_order(ticks: list[tuple[Fault, _Tick]]) -> list[tuple[Fault, _Tick]]:
    """Faults in the order of their effects: as they came, but last and by name those whose numbers add up."""
    adding = [tick for tick in ticks if tick[0].effect.adds_up]
    if len(adding) <= 2:  # two numbers have the same sum in both orders
        return ticks
    return [tick for tick in ticks if not tick[0].effect.adds_up] + sorted(adding, key=lambda each: each[0].key)


class NearFaults(NamedTuple):
    """The faults that affect a unit now, and the last tick's changes that concern it."""

    now: list[Fault]
    changed: list[Fault]


class Faults:
    """The faults of a fleet.

    :ivar by_id: pending and lasting faults, oldest first.
    :ivar changes: their changes in the last tick.
    :ivar has_moved: whether a lasting fault affects other devices than a tick ago.
    """

    def __init__(self, seed: int, rules: FaultRules, budget: Budget) -> None:
        self._seed = seed
        self._budget = budget
        self.rules = rules
        self.by_id: dict[str, Fault] = {}
        self.changes: list[Change] = []
        self.has_moved = False
        self._devices_moved = False
        self._reserved = 0

    @property
    def parts(self) -> Parts:
        return self.rules.roster.parts

    def start(
        self, fault_id: str, spec: FaultSpec, key: str = "", peer: object | None = None, *,
        of_configuration: bool = False,
    ) -> Fault:  # fmt: skip
        """Start a fault of its own, not of a workload.

        :param peer: who injects it, empty for no single peer; None: the limits were checked already.
        :raises Refused: when there is no room for it, or the fleet cannot have it; nothing is changed then.
        """
        if peer is not None:
            self.check_room(1)
        fault = self.rules.made(fault_id, spec, key, of_configuration=of_configuration)
        fault.peer, cost = peer, cost_of_fault(spec, len(fault.devices))
        if peer is not None:
            self._budget.check(cost, peer)
        self._budget.add(cost, peer)
        fault.cost = cost
        self.add(fault)
        return fault

    def check_room(self, count: int, limits: Limits | None = None) -> None:
        """Check the room for new faults.

        :param limits: None: those in use.
        :raises Refused: when there are too many.
        """
        check_limit("faults", count, len(self.by_id) + self._reserved, (limits or self._budget.limits).faults)

    def reserve(self, count: int) -> None:
        """Reserve room for the faults of a reload; 0 releases it."""
        self._reserved = count

    def add(self, fault: Fault) -> None:
        """Add a fault, which starts with the next tick or at its start time."""
        self.by_id[fault.fault_id] = fault

    def clear(self, fault_ids: Sequence[str]) -> None:
        """End faults with the next tick.

        :raises Refused: when one of them does not exist or is cleared already; then none is cleared.
        """
        for fault in [self.find(fault_id) for fault_id in fault_ids]:
            fault.is_cleared = True

    def standing(self) -> list[Fault]:
        """The faults, oldest first, without those that are cleared and end with the next tick."""
        return [fault for fault in self.by_id.values() if not fault.is_cleared]

    def find(self, fault_id: str) -> Fault:
        """The fault of that id.

        :raises Refused: when there is none, or it is cleared.
        """
        fault = self.by_id.get(fault_id)
        if fault is None or fault.is_cleared:
            ids = [fault.fault_id for fault in self.standing()]
            raise Refused("unknown-name", unknown_name("fault", fault_id, ids), "fault")
        return fault

    def clear_if_there(self, fault_id: str) -> None:
        """End a fault with the next tick, if it still exists."""
        if fault_id in self.by_id:
            self.by_id[fault_id].is_cleared = True

    def remove_all(self) -> None:
        """All faults are gone at once, as if they had not been: devices do not recover from them."""
        for fault in list(self.by_id.values()):
            self._remove(fault)
        self._devices_moved = True

    def move(self, new_of: Positions, rules: FaultRules, resolved_again: Collection[str]) -> None:
        """Move faults to the new positions of their devices after a reload; faults without devices are removed.

        In a shard, faults of the configuration stay: a reload may add devices of theirs later.

        :param new_of: the new position of each device, -1 if it is removed.
        :param rules: the faults that are possible from now on.
        :param resolved_again: ids of faults whose device words are resolved again.
        """
        self.rules, self._devices_moved = rules, True
        for fault in list(self.by_id.values()):
            places, concerned = new_of[fault.devices], new_of[fault.concerned]
            if fault.fault_id in resolved_again:
                new = rules.made(fault.fault_id, fault.spec, fault.key, of_configuration=True)
                fault.devices, fault.keys, fault.metric = new.devices, new.keys, new.metric
                # A fault that does not last does not strike new devices.
                fault.has_new_devices = fault.lasts and fault.period >= 0
            else:
                order = np.argsort(places)[np.count_nonzero(places < 0) :]
                fault.devices, fault.keys = places[order], fault.keys[order]
            fault.affect(np.isin(fault.devices, concerned))
            is_elsewhere = fault.fault_id in resolved_again and rules.roster.whole is not None
            is_gone = not len(fault.devices) and not is_elsewhere
            if is_gone or (fault.metric is not None and fault.metric.quantity not in rules.known):
                self._remove(fault)

    def _remove(self, fault: Fault) -> None:
        del self.by_id[fault.fault_id]
        if fault.cost is not None:
            self._budget.remove(fault.cost, fault.peer)

    def advance(self, start_seconds: float, end_seconds: float) -> FaultTick | None:
        """The effects of the faults in a tick; None without faults of devices here."""
        self.changes, self.has_moved, self._devices_moved = [], self._devices_moved, False
        if not self.by_id:
            return None
        effects = FaultTick(self.parts, end_seconds - start_seconds, end_seconds)
        faults = list(self.by_id.values())
        known = [self._tick_of(fault, start_seconds) for fault in faults]
        drawn = self._drawn([fault for fault, tick in zip(faults, known, strict=True) if tick is None])
        ticks = []
        for fault, settled in zip(faults, known, strict=True):
            tick = self._after_draw(fault, next(drawn)) if settled is None else settled
            if tick.was_active:
                self.changes.append(Change(fault, "over", tick.recovered))
            ticks.append((fault, tick))
        for fault, tick in ticks:
            if len(tick.recovered):
                self._act(fault, fault.effect.recover, effects, tick.recovered)
        for fault, tick in _in_order(ticks):
            self._act(fault, fault.effect.strike, effects, tick.struck)
            self._act(fault, fault.effect.hold, effects, tick.held)
            if tick.is_over:
                self._remove(fault)
        return effects if any(len(fault.devices) for fault, _ in ticks) else None

    @staticmethod
    def _act(fault: Fault, act: Act, effects: FaultTick, devices: Positions) -> None:
        if len(devices) and act is not no_effect:
            act(effects, Target(fault.fault_id, devices, fault.values))

    def _tick_of(self, fault: Fault, now: float) -> _Tick | None:
        """The devices that the fault strikes, affects and releases in the tick that starts now; None: draw them."""
        none = fault.devices[:0]
        if fault.since_seconds is None:
            fault.since_seconds = now + fault.spec.start_seconds
        age = now - fault.since_seconds + ROUNDING_SECONDS
        duration = fault.spec.duration_seconds
        if fault.is_cleared or (duration and age >= duration):
            left = fault.concerned
            fault.affect(np.zeros_like(fault.on))
            self.has_moved |= bool(len(left))
            return _Tick(none, none, left, is_over=True, was_active=fault.period >= 0 and len(fault.devices) > 0)
        if age < 0:
            return _Tick(none, none, none, is_over=False)
        every = self._every(fault)
        period = int(age // every) if every else 0
        if period == fault.period and not fault.has_new_devices:
            return _Tick(none, fault.concerned, none, is_over=False)
        fault.is_first, fault.period, fault.has_new_devices = fault.period < 0, period, False
        return None

    def _every(self, fault: Fault) -> float:
        """The time between two draws; 0: there is one draw alone."""
        return fault.spec.every_seconds or (self.rules.tick_seconds if fault.spec.probability < 1 else 0.0)

    def _drawn(self, faults: Sequence[Fault]) -> Iterator[Mask]:
        """The devices that each of some faults hits now, shape (N,); the faults of few devices are drawn together."""
        some: list[Fault] = []
        count = 0
        for fault in faults:
            some.append(fault)
            count += len(fault.keys)
            if count > _DRAWN_TOGETHER:
                yield from self._drawn_together(some)
                some, count = [], 0
        if some:
            yield from self._drawn_together(some)

    def _drawn_together(self, faults: Sequence[Fault]) -> Iterator[Mask]:
        counts = [len(fault.keys) for fault in faults]
        periods = np.repeat(np.array([fault.period for fault in faults], dtype=np.uint64), counts)
        keys = np.concatenate([fault.keys for fault in faults])
        probable = np.repeat([fault.spec.probability for fault in faults], counts)
        hit = uniform(self._seed, keys, "fault", periods) < probable
        end = 0
        for count in counts:
            begin, end = end, end + count
            yield hit[begin:end]

    def _after_draw(self, fault: Fault, now_on: Mask) -> _Tick:
        """The devices that the fault strikes, affects and releases, after a draw."""
        was = fault.on
        fault.affect(now_on & fault.lasts)
        self.has_moved |= not np.array_equal(fault.on, was)
        struck = fault.devices[now_on & ~was]
        recovered = fault.devices[was & ~now_on]
        if (fault.is_first and len(fault.devices)) or len(struck) or len(recovered):
            self._note(fault, struck, recovered, fault.is_first)
        return _Tick(struck, fault.concerned, recovered, is_over=not fault.lasts and not self._every(fault))

    def _note(self, fault: Fault, struck: Positions, recovered: Positions, is_first: bool) -> None:
        if is_first:
            self.changes.append(Change(fault, "began", struck))
        elif len(struck):
            self.changes.append(Change(fault, "struck", struck))
        if len(recovered):
            self.changes.append(Change(fault, "eased", recovered))

    def stale(self) -> frozenset[int]:
        """The devices that keep the labels of pods whose work has ended."""
        stale = [fault for fault in self.active(Scope.SERIES) if fault.kind.name == "stale-labels"]
        found = [self.parts.with_parts(fault.concerned).tolist() for fault in stale]
        return frozenset(unit for units in found for unit in units)

    def frozen(self) -> Mask | None:
        """The units whose whole series are frozen, shape (units,); None for none."""
        frozen = [fault for fault in self.active(Scope.SERIES) if fault.kind.name == "frozen" and fault.metric is None]
        if not frozen:
            return None
        which = np.zeros(self.parts.unit_count, np.bool_)
        for fault in frozen:
            which[self.parts.with_parts(fault.concerned)] = True
        return which

    def active(self, *scopes: Scope) -> list[Fault]:
        """The faults of some scopes that affect any device now."""
        return [fault for fault in self.by_id.values() if fault.kind.scope in scopes and len(fault.concerned)]

    # -- the faults that cause what devices show -------------------------------------------------------

    def signs(self, *levels: Level) -> Signs:
        """The signs of all units, to find causes by; parameters as of :meth:`Signs.of`."""
        removed = np.zeros(self.parts.unit_count, np.bool_)
        for fault in self.by_id.values():
            if fault.effect.loses:
                removed[self.parts.with_parts(fault.concerned)] = True
        return Signs.of(np.arange(self.parts.unit_count), removed, *levels)

    def behind_each(self, quantity: str, units: Sequence[int], signs: Signs) -> list[list[Fault]]:
        """As :meth:`behind`, for each of some devices and parts.

        :param signs: of all units.
        """
        found: list[dict[str, Fault]] = [{} for _ in units]
        places = grouped((key, place) for place, unit in enumerate(units) for key in {unit, self.parts.owner(unit)})
        is_asked = np.zeros(self.parts.unit_count, np.bool_)
        is_asked[list(places)] = True
        where = [(fault, fault.concerned) for fault in self.by_id.values()]
        where += [(fault, concerned) for fault, _, concerned in self.changes]
        for fault, concerned in where:
            if fault.kind.scope in MACHINE_SCOPES and fault.moves(quantity):
                acts = fault.acts(quantity, signs)
                for unit in concerned[is_asked[concerned]].tolist():
                    for place in places[unit]:
                        if acts[units[place]]:
                            found[place][fault.fault_id] = fault
        return [list(by_fault.values()) for by_fault in found]

    def near(self, unit: int) -> NearFaults:
        """The faults that affect a device or part now, or did in the last tick."""
        every, changes = list(self.by_id.values()), self.changes
        now = self._which([fault.devices for fault in every], unit, [fault.on for fault in every])
        changed = self._which([change.devices for change in changes], unit)
        return NearFaults([every[place] for place in now], [changes[place].fault for place in changed])

    def behind(
        self, quantity: str, unit: int, level: Level, near: NearFaults | None = None, *, is_limited: bool = True
    ) -> list[Fault]:
        """The faults that explain a quantity of a device or part, or its change in the last tick.

        :param level: of all units.
        :param near: the faults of the unit, for callers that need them for several quantities.
        :param is_limited: whether impaired links limited the quantity.
        """
        near = near or self.near(unit)
        removed = np.array([any(fault.effect.loses for fault in near.now)])
        signs = Signs.of(np.array([unit]), removed, level)
        kinds = {fault.fault_id: fault for fault in (*near.now, *near.changed) if fault.moves(quantity)}
        return [
            fault
            for fault in kinds.values()
            if fault.kind.scope in MACHINE_SCOPES
            and fault.acts(quantity, signs)[0]
            and (is_limited or not fault.is_limit_of(quantity))
        ]

    def units_by_cause(self, quantity: str, units: Positions, signs: Signs) -> list[Positions]:
        """Some units, grouped by the faults that explain a quantity; groups in the order of their first units.

        :param signs: of all units.
        """
        where = {fault.fault_id: (fault, [fault.concerned]) for fault in self.by_id.values() if fault.moves(quantity)}
        for fault, _, concerned in self.changes:
            if fault.moves(quantity):
                where.setdefault(fault.fault_id, (fault, []))[1].append(concerned)
        if not where:
            return [units]
        marks_of_all = np.zeros(self.parts.unit_count, np.uint64)
        for fault_id, (fault, found) in where.items():
            concerned = np.flatnonzero(np.bincount(self.parts.with_parts(np.concatenate(found))))
            concerned = concerned[fault.acts(quantity, signs)[concerned]]
            marks_of_all[concerned] ^= np.uint64(entity_key("fault", fault_id))
        marks = marks_of_all[units]
        _, firsts, groups = np.unique(marks, return_index=True, return_inverse=True)
        ordered = np.split(units[np.argsort(groups, kind="stable")], np.cumsum(np.bincount(groups))[:-1])
        return [ordered[place] for place in np.argsort(firsts).tolist()]

    def of_exporters(self, quantity: str, near: NearFaults) -> list[Fault]:
        """The exporter faults that change or hide a quantity of a device or part."""
        return [
            fault
            for fault in near.now
            if fault.kind.scope is Scope.SERIES and (fault.metric is None or fault.metric.quantity == quantity)
            and fault.kind.takes_metric
        ]

    def _which(self, many: Sequence[Positions], unit: int, on: Sequence[Mask] | None = None) -> list[int]:
        """Which of many sets of units include a unit or its device, in order: one calculation for thousands of faults.

        :param on: the members of each set that count; None for all.
        """
        if not many:
            return []
        joined = np.concatenate(many)
        found = np.flatnonzero((joined == unit) | (joined == self.parts.owner(unit)))
        if on is not None:
            found = found[np.concatenate(on)[found]]
        ends = np.cumsum([len(units) for units in many])
        places: list[int] = np.unique(np.searchsorted(ends, found, side="right")).tolist()
        return places
