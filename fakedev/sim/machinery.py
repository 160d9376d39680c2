"""What follows from a fleet's specification alone: made beside a running fleet, before that goes over to it."""

from __future__ import annotations

from fakedev.sim.admission import Admission
from fakedev.sim.churn import Churn
from fakedev.sim.limits import DeviceLimits
from fakedev.sim.relations import Relations
from fakedev.sim.roster import Roster
from fakedev.sim.shard_ties import shard_roster
from fakedev.sim.spec import FleetSpec


class Machinery:
    """The parts of a fleet that know no history.

    Making them takes long for a large fleet, and touches nothing else: it may be done in a thread.

    :ivar keys: of randomness, of each device: shape (devices,).
    :ivar quantities: every quantity that some device has, with the devices that have it, shape (devices,).
    """

    def __init__(self, spec: FleetSpec) -> None:
        self.spec = spec
        self.roster = Roster(spec.pools) if spec.shard is None else shard_roster(spec, spec.shard)
        self.relations = Relations(self.roster, spec.epoch_seconds, spec.seed)
        self.capacity = self.relations.capacity()
        self.keys = self.roster.keys()
        self.quantities = self.relations.quantities
        self.admission = Admission(self.roster, self.capacity, self.quantities, spec.metric_names, spec.tick_seconds)
        self.device_limits = DeviceLimits(self.roster, self.capacity)
        self.churn = Churn(spec.seed, spec.tick_seconds, self.roster.nodes)
