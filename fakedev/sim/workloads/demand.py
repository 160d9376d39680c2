"""What the workloads of a fleet ask of its devices in one tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fakedev.sim.entities.randomness import Floats


@dataclass(frozen=True)
class Demand:
    """Sums over all workloads, for D devices.

    :ivar loads: by kind of work, shares of 1, each of shape (D,); all kinds together at most 1 on a device.
    :ivar held: what the workloads hold of each device as long as they run, a share of 1, shape (D,): the memory of
        those that do not say how much they need.
    :ivar asked: by quantity, what activities of that quantity ask beside the plain load, in its unit, each of shape
        (D,); of counters what is added in this tick. Not held to what the device has.
    """

    loads: Mapping[str, Floats]
    held: Floats
    asked: Mapping[str, Floats] = field(default_factory=dict)
