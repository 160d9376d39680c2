"""A fault of a fleet, and what became of it in a tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fakedev.sim.entities.randomness import Keys
from fakedev.sim.entities.state import Mask
from fakedev.sim.faults.effects import Effect
from fakedev.sim.faults.kinds import lasts_with
from fakedev.sim.workloads.schedule import Positions
from fakedev.spec.fault import FaultSpec
from fakedev.spec.fault_kinds import FaultKind
from fakedev.spec.fleet import MetricName


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
        return lasts_with(self.kind, self.values)

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
