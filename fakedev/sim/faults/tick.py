"""What faults do to the devices of a fleet in one tick: arrays by name, made when a fault needs them.

What lasts becomes the conditions in which the devices live; the rest happens in this tick alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from fakedev.sim.boards.conditions import Conditions
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask
from fakedev.sim.parts.layout import Parts
from fakedev.sim.workloads.demand import Demand
from fakedev.sim.workloads.schedule import Positions
from fakedev.spec.quantities import ERROR_COUNTERS

_PENDING: Final = "row_remap_pending"
#: What lasts: what each of these is on devices without faults.
_LASTING: Final[Mapping[str, float]] = {
    "inlet_rise_celsius": 0.0,
    "power_limit_watts": np.nan,
    "highest_mhz": np.nan,
    "resistance": 1.0,
    "braked": 0.0,
    "fan_stopped": 0.0,
    "hung": 0.0,
    "lost": 0.0,
    "pcie_share": 1.0,
    "fabric_share": 1.0,
    "pcie_width": np.nan,
    "pcie_generation": np.nan,
}
#: What happens in the tick alone.
_MOMENTARY: Final[Mapping[str, float]] = {
    "idled": 0.0,  # the board does no work
    "reset": 0.0,
    "xid": np.nan,  # the code that is reported
    _PENDING: 0.0,
    **dict.fromkeys(ERROR_COUNTERS, 0.0),  # errors that come to those before
}
_NEUTRAL: Final[Mapping[str, float]] = {**_LASTING, **_MOMENTARY}

#: NVIDIA's code for a board that has fallen off the bus.
FALLEN_OFF: Final = 79


class Ending(NamedTuple):
    """Workloads that end.

    :ivar devices: those on one of these do.
    :ivar text: why; the device's name comes in the place of ``{}``.
    :ivar fault_id: the fault that did it.
    """

    devices: Positions
    text: str
    fault_id: str


class Report(NamedTuple):
    """A code of an error that the driver of some devices reports."""

    devices: Positions
    code: int


class Cut(NamedTuple):
    """Links that are down.

    :ivar link: which of the devices'; ALL_LINKS: all.
    """

    devices: Positions
    link: int


class FaultTick:
    """What faults do to D units (devices, and parts of such) in one tick.

    :param parts: which devices have parts.
    :param seconds: the length of the tick.
    :param now_seconds: simulated time at its end.
    :ivar endings: the workloads that faults end.
    :ivar reports: all that drivers report, in order; of several of a device the last stands in its ``xid``.
    :ivar cuts: single links that are down.
    :ivar struck: links that go down in this tick, single ones or all of a device.
    """

    def __init__(self, parts: Parts, seconds: float, now_seconds: float) -> None:
        self._parts = parts
        self._count = parts.unit_count
        self.seconds = seconds
        self.now_seconds = now_seconds
        self._arrays: dict[str, Floats] = {}
        self.endings: list[Ending] = []
        self.reports: list[Report] = []
        self.cuts: list[Cut] = []
        self.struck: list[Cut] = []

    def _of(self, name: str) -> Floats:
        if name not in self._arrays:
            self._arrays[name] = np.full(self._count, _NEUTRAL[name])
        return self._arrays[name]

    def of_devices(self) -> FaultTick:
        """What they do to the devices alone."""
        if not self._parts.count:
            return self
        parts, count = self._parts, self._parts.device_count
        tick = FaultTick(Parts(count), self.seconds, self.now_seconds)
        tick._arrays = {name: values[:count] for name, values in self._arrays.items()}
        if _PENDING in self._arrays:
            # Rows of memory are the device's, whichever part's work has found them bad.
            tick._arrays[_PENDING] = np.minimum(parts.folded(self._arrays[_PENDING]), 1.0)
        tick.endings = self.endings
        tick.reports = [self._of_boards(report) for report in self.reports]
        return tick

    def get(self, name: str) -> Floats | None:
        """What they do of that name, shape (D,); None for nothing."""
        return self._arrays.get(name)

    def _of_boards(self, report: Report) -> Report:
        """Whose driver it is: an instance that is gone is no board that has fallen off the bus."""
        units, code = report
        if code == FALLEN_OFF:
            units = units[units < self._parts.device_count]
        return Report(self._parts.owners_of(units), code)

    def where(self, name: str) -> Mask | None:
        """The units of which a flag is set, shape (D,); None for none."""
        flags = self._arrays.get(name)
        return None if flags is None or not flags.any() else flags > 0

    def resets(self) -> Mask | None:
        """The devices that are reset, shape (D,); None for none. One that is lost cannot be."""
        reset, lost = self.where("reset"), self.where("lost")
        return reset if reset is None or lost is None else reset & ~lost

    def report(self, devices: Positions, code: int) -> None:
        """Drivers report an error."""
        self.reports.append(Report(devices, code))
        self.put("xid", devices, code)

    def put(self, name: str, devices: Positions, value: float) -> None:
        """Set a value; of several faults the last one counts."""
        self._of(name)[devices] = value

    def add(self, name: str, devices: Positions, amount: float) -> None:
        """Add to a value."""
        self._of(name)[devices] += amount

    def add_each(self, name: str, devices: Positions, amounts: Floats) -> None:
        """Add to the value of each of some devices, no two of which are the same."""
        self._of(name)[devices] += amounts

    def lower(self, name: str, devices: Positions, value: float) -> None:
        """Bring it down to a value, where it is not lower already."""
        array = self._of(name)
        array[devices] = np.fmin(array[devices], value)

    def raise_to(self, name: str, devices: Positions, value: float) -> None:
        """Bring it up to a value, where it is not higher already."""
        array = self._of(name)
        array[devices] = np.maximum(array[devices], value)

    def scale(self, name: str, devices: Positions, factor: float) -> None:
        """Multiply a value."""
        self._of(name)[devices] *= factor

    def end_work(self, devices: Positions, text: str, fault_id: str) -> None:
        """End the workloads on some devices."""
        if len(devices):
            self.endings.append(Ending(devices, text, fault_id))

    def conditions(self, inlet_celsius: Floats) -> Conditions:
        """The conditions that the devices live in.

        :param inlet_celsius: the inlet temperature without faults; NaN where that is not known, shape (D,).
        """
        given = {name: self._arrays[name] for name in _LASTING if name in self._arrays}
        rise = given.pop("inlet_rise_celsius", None)
        if rise is not None:
            given["inlet_celsius"] = np.where(rise == 0.0, np.nan, inlet_celsius + rise)
        return Conditions(**given)

    def on(self, demand: Demand) -> Demand:
        """What is asked of the devices under these faults: errors come to it, and some boards do no work."""
        asked = dict(demand.asked)
        for name in ERROR_COUNTERS:
            if name in self._arrays:
                asked[name] = asked.get(name, 0.0) + self._arrays[name]
        idled = self.where("idled")
        if idled is None:
            return Demand(demand.loads, demand.held, asked)
        idled = self._parts.spread(idled)
        loads = {kind: np.where(idled, 0.0, load) for kind, load in demand.loads.items()}
        for name in set(asked) - set(ERROR_COUNTERS):
            asked[name] = np.where(idled, 0.0, asked[name])
        return Demand(loads, demand.held, asked)
