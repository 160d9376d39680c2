"""The faults of a fleet: which there are, and what they do to its devices in each tick."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

import numpy as np

from fakedev.sim.entities.randomness import uniform
from fakedev.sim.faults.effects import Act, Touched
from fakedev.sim.faults.fault import Change, Fault
from fakedev.sim.faults.rules import ROUNDING_SECONDS, FaultRules
from fakedev.sim.faults.tick import FaultTick
from fakedev.sim.parts.layout import Parts
from fakedev.sim.workloads.schedule import Positions
from fakedev.spec.errors import Refused
from fakedev.spec.fault import FaultSpec
from fakedev.spec.fault_kinds import Scope

#: Faults that a fleet takes, those that wait among them.
MAX_FAULTS: Final = 10_000


class _Tick(NamedTuple):
    """Devices that a fault strikes, holds and leaves in a tick, and whether that was its last."""

    struck: Positions
    held: Positions
    recovered: Positions
    is_over: bool


class Faults:
    """The faults of a fleet.

    :ivar rules: which there can be.
    :ivar by_id: the faults that wait or last, oldest first.
    :ivar changes: what became of them in the last tick.
    :ivar has_moved: whether a fault that lasts concerns other devices than a tick ago.
    """

    def __init__(self, seed: int, rules: FaultRules) -> None:
        self._seed = seed
        self.rules = rules
        self.by_id: dict[str, Fault] = {}
        self.changes: list[Change] = []
        self.has_moved = False
        self._devices_moved = False
        self._reserved = 0

    @property
    def parts(self) -> Parts:
        """Which devices have parts."""
        return self.rules.roster.parts

    # -- the door ---------------------------------------------------------------------------------

    def made(self, fault_id: str, spec: FaultSpec, key: str = "", *, of_configuration: bool = False) -> Fault:
        """As :meth:`FaultRules.made`; not yet among the others, for which there must be room."""
        self.check_room(1)
        return self.rules.made(fault_id, spec, key, of_configuration=of_configuration)

    def check_room(self, count: int) -> None:
        """Whether so many faults more may be there.

        :raises Refused: when they may not.
        """
        taken = len(self.by_id) + self._reserved
        if taken + count > MAX_FAULTS:
            text = f"{taken} faults are there, and {count} more would come: at most {MAX_FAULTS} can be"
            raise Refused("full", f"there are {MAX_FAULTS} faults already" if count == 1 else text)

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

    def move(self, new_of: Positions, rules: FaultRules, named_anew: Collection[str]) -> None:
        """The devices have new places: faults follow theirs; one that has no device any more is gone.

        In a shard one of the configuration stays: devices of it may come here later.

        :param new_of: the new position of each device, -1 of those that are gone.
        :param rules: which there can be from here on.
        :param named_anew: ids of the faults that concern what their words name now.
        """
        self.rules, self._devices_moved = rules, True
        for fault in list(self.by_id.values()):
            places, concerned = new_of[fault.devices], new_of[fault.concerned]
            if fault.fault_id in named_anew:
                anew = rules.made(fault.fault_id, fault.spec, of_configuration=True)
                fault.devices, fault.keys, fault.metric = anew.devices, anew.keys, anew.metric
                # What happens once has happened to those that were there.
                fault.has_new_devices = fault.lasts and fault.period >= 0
            else:
                order = np.argsort(places)[np.count_nonzero(places < 0) :]
                fault.devices, fault.keys = places[order], fault.keys[order]
            fault.on = np.isin(fault.devices, concerned)
            is_elsewhere = fault.fault_id in named_anew and rules.roster.whole is not None
            is_gone = not len(fault.devices) and not is_elsewhere
            if is_gone or (fault.metric is not None and fault.metric.quantity not in rules.known):
                del self.by_id[fault.fault_id]

    # -- the tick ---------------------------------------------------------------------------------

    def advance(self, start_seconds: float, end_seconds: float) -> FaultTick | None:
        """What the faults do to the devices in a tick; None when nothing."""
        self.changes, self.has_moved, self._devices_moved = [], self._devices_moved, False
        if not self.by_id:
            return None
        effects = FaultTick(self.parts, end_seconds - start_seconds, end_seconds)
        ticks = [(fault, self._tick_of(fault, start_seconds)) for fault in list(self.by_id.values())]
        for fault, tick in ticks:
            self._act(fault, fault.effect.recover, effects, tick.recovered)
        for fault, tick in ticks:
            self._act(fault, fault.effect.strike, effects, tick.struck)
            self._act(fault, fault.effect.hold, effects, tick.held)
            if tick.is_over:
                del self.by_id[fault.fault_id]
        return effects if any(len(fault.devices) for fault, _ in ticks) else None

    @staticmethod
    def _act(fault: Fault, act: Act, effects: FaultTick, devices: Positions) -> None:
        if len(devices):
            act(effects, Touched(fault.fault_id, devices, fault.values))

    def _tick_of(self, fault: Fault, now: float) -> _Tick:
        """Which devices the fault strikes, holds and leaves in the tick that begins now."""
        none = fault.devices[:0]
        if fault.since_seconds is None:
            fault.since_seconds = now + fault.spec.start_seconds
        age = now - fault.since_seconds + ROUNDING_SECONDS
        was = fault.on
        duration = fault.spec.duration_seconds
        if fault.is_cleared or (duration and age >= duration):
            fault.on = np.zeros_like(was)
            self.has_moved |= bool(was.any())
            left = fault.devices[was]
            if fault.period >= 0 and len(fault.devices):
                self.changes.append(Change(fault, "over", left))
            return _Tick(none, none, left, is_over=True)
        if age < 0:
            return _Tick(none, none, none, is_over=False)
        is_first = fault.period < 0
        every = fault.spec.every_seconds or (self.rules.tick_seconds if fault.spec.probability < 1 else 0.0)
        period = int(age // every) if every else 0
        if period == fault.period and not fault.has_new_devices:
            return _Tick(none, fault.concerned, none, is_over=False)
        fault.period, fault.has_new_devices = period, False
        now_on = uniform(self._seed, fault.keys, "fault", period) < fault.spec.probability
        fault.on = now_on & fault.lasts
        self.has_moved |= bool((fault.on != was).any())
        struck = fault.devices[now_on & ~was]
        recovered = fault.devices[was & ~now_on]
        if (is_first and len(fault.devices)) or len(struck) or len(recovered):
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

    def stale(self) -> frozenset[int]:
        """The devices whose labels of pods stay when their work is over."""
        stale = [fault for fault in self.active(Scope.SERIES) if fault.kind.name == "stale-labels"]
        found = [self.parts.with_parts(fault.concerned).tolist() for fault in stale]
        return frozenset(unit for units in found for unit in units)

    def active(self, *scopes: Scope) -> list[Fault]:
        """The faults of some scopes that concern any device now."""
        return [fault for fault in self.by_id.values() if fault.kind.scope in scopes and fault.on.any()]
