"""What faults do to the devices of a fleet in one tick: arrays by name, made when a fault needs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from fakedev.sim.demand import Demand
from fakedev.sim.places import Places
from fakedev.sim.quantities import ERROR_COUNTERS
from fakedev.sim.randomness import Floats
from fakedev.sim.schedule import Positions
from fakedev.sim.state import Mask

#: What the devices have of each condition without faults.
NEUTRAL: Final[Mapping[str, float]] = {
    "inlet_rise_celsius": 0.0,  # warmer air
    "heat_resistance": 1.0,  # by that of a board that is cooled well
    "fan_stopped": 0.0,
    "clock_share": 1.0,  # of the highest clock: the power brake
    "power_limit_watts": np.nan,  # that of the type
    "pcie_share": 1.0,  # of what the link carries
    "fabric_share": 1.0,  # of what the links to other boards carry
    "hung": 0.0,
    "idled": 0.0,  # the board does no work
    "lost": 0.0,
    "reset": 0.0,  # in this tick
    "xid": np.nan,  # the code that is reported in this tick
    "row_remap_pending": 0.0,
    **dict.fromkeys(ERROR_COUNTERS, 0.0),  # errors in this tick
}


class Ending(NamedTuple):
    """Workloads that end.

    :ivar devices: those on one of these do.
    :ivar text: why; the device's name comes in the place of ``{}``.
    :ivar fault_id: the fault that did it.
    """

    devices: Positions
    text: str
    fault_id: str


class Conditions:
    """The conditions of D devices in one tick.

    :param seconds: the length of the tick.
    :param now_seconds: simulated time at its end.
    :ivar endings: the workloads that faults end.
    """

    def __init__(self, count: int, seconds: float, now_seconds: float) -> None:
        self._count = count
        self.seconds = seconds
        self.now_seconds = now_seconds
        self._arrays: dict[str, Floats] = {}
        self.endings: list[Ending] = []

    def _of(self, name: str) -> Floats:
        if name not in self._arrays:
            self._arrays[name] = np.full(self._count, NEUTRAL[name])
        return self._arrays[name]

    def get(self, name: str) -> Floats | None:
        """A condition, shape (D,); None when all devices have what they have without faults."""
        return self._arrays.get(name)

    def where(self, name: str) -> Mask | None:
        """The devices of which a flag is set, shape (D,); None for none."""
        flags = self._arrays.get(name)
        return None if flags is None or not flags.any() else flags > 0

    def put(self, name: str, devices: Positions, value: float) -> None:
        """Set a condition; of several faults the last one counts."""
        self._of(name)[devices] = value

    def add(self, name: str, devices: Positions, amount: float) -> None:
        """Add to a condition."""
        self._of(name)[devices] += amount

    def lower(self, name: str, devices: Positions, value: float) -> None:
        """Bring a condition down to a value, where it is not lower already."""
        array = self._of(name)
        array[devices] = np.minimum(array[devices], value)

    def scale(self, name: str, devices: Positions, factor: float) -> None:
        """Multiply a condition."""
        self._of(name)[devices] *= factor

    def end_work(self, devices: Positions, text: str, fault_id: str) -> None:
        """End the workloads on some devices."""
        if len(devices):
            self.endings.append(Ending(devices, text, fault_id))

    def of(self, places: Places) -> Mapping[str, Floats]:
        """The conditions of some devices: those that any fault has touched."""
        return places.of(self._arrays)

    def on(self, demand: Demand) -> Demand:
        """What is asked of the devices, under these conditions: errors come to it, and some boards do no work."""
        asked = dict(demand.asked)
        for name in (*ERROR_COUNTERS, "hung"):
            if name in self._arrays:
                asked[name] = asked.get(name, 0.0) + self._arrays[name]
        idled = self.where("idled")
        loads = demand.loads
        if idled is not None:
            loads = {kind: np.where(idled, 0.0, load) for kind, load in loads.items()}
            asked = {name: amount if name in ERROR_COUNTERS else np.where(idled, 0.0, amount)
                     for name, amount in asked.items()}  # fmt: skip
        return Demand(loads, demand.held, asked)
