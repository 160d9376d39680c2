"""A compiled configuration: all that depends only on a fleet's specification; a thread can prepare it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from fakedev.sim.devices.relations import Relations
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.reindex import FleetReindex
from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.state import Level, Mask
from fakedev.sim.faults.rules import FaultRules
from fakedev.sim.parts.demand import unit_capacity
from fakedev.sim.parts.relations import PartRelations
from fakedev.sim.shard_dependencies import shard_roster
from fakedev.sim.workloads.admission import Admission
from fakedev.sim.workloads.churn import Churn
from fakedev.sim.workloads.endings import DeviceLimits
from fakedev.spec.fleet import FleetSpec


class CompiledFleet:
    """The parts of a fleet without a history.

    To compile a large fleet takes long, and has no side effects: a thread may do it.

    :ivar keys: the key of randomness of each unit (device or part): shape (units,).
    :ivar capacity: of the units.
    :ivar part_relations: None if no device has parts.
    :ivar quantities: every quantity of the fleet, with the devices that have it, shape (devices,).
    :ivar idle: the level of devices without work.
    :ivar unit_quantities: every quantity, with the units that have it, shape (units,).
    """

    def __init__(self, spec: FleetSpec) -> None:
        self.spec = spec
        self.roster = Roster(spec.pools) if spec.shard is None else shard_roster(spec, spec.shard)
        self.roster.links.prepare()
        self.relations = Relations(self.roster, spec.epoch_seconds, spec.seed)
        parts = self.roster.parts
        self.part_relations = PartRelations(self.roster, self.relations, spec.seed) if parts.count else None
        self.capacity = unit_capacity(self.relations.capacity(), parts)
        self.keys = self.roster.unit_keys
        self.quantities = self.relations.quantities
        self.unit_quantities: Mapping[str, Mask] = {name: parts.units(has) for name, has in self.quantities.items()}
        known = self._known_quantities()
        self.admission = Admission(
            self.roster, self.capacity, self.quantities, spec.metric_names, spec.tick_seconds, known
        )
        self.admission.prepare(spec.base)
        self.fault_rules = FaultRules(
            self.roster, self.keys, self.unit_quantities, self.admission.metric, known, spec.tick_seconds
        )
        self.device_limits = DeviceLimits(self.roster, self.capacity)
        self.churn = Churn(spec.seed, spec.tick_seconds, self.roster)
        self.idle = self.relations.idle_level()
        self._moves: FleetReindex | None = None

    def reindex_from(self, old: Roster) -> FleetReindex:
        """The positions of another roster's devices in this one; computed at the first call."""
        if self._moves is None or self._moves.before is not old:
            self._moves = FleetReindex(old, self.roster)
        return self._moves

    def _known_quantities(self) -> Collection[str]:
        """The quantities of all pools; a shard may have no node of some pools."""
        if self.roster.whole is None:
            return self.quantities
        samples = Roster([replace(pool, nodes=pool.nodes[:1]) for pool in self.spec.pools])
        return Relations(samples, self.spec.epoch_seconds, self.spec.seed).quantities

    def pace(self, devices: Level) -> Mapping[str, Floats]:
        """The speed of each kind of work on each unit, relative to its speed at the highest clock: shape (units,)."""
        return {kind: self.roster.parts.units(pace) for kind, pace in self.relations.pace(devices).items()}
