"""Effects of faults on the devices of a fleet in one tick: arrays by name, created when a fault needs them.

Lasting effects become the conditions of the devices; the others concern only this tick.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from fakedev.fleet.boards.conditions import Conditions
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Mask, Positions
from fakedev.fleet.parts.part_layout import Parts
from fakedev.fleet.spec.quantities import ERROR_COUNTERS
from fakedev.fleet.spec.xids import Xid
from fakedev.fleet.workloads.demand import Demand

_PENDING: Final = "row_remap_pending"
#: Lasting effects, with their values on devices without faults.
_LASTING: Final[Mapping[str, float]] = {
    "inlet_rise_celsius": 0.0,
    "power_limit_watts": np.nan,
    "highest_mhz": np.nan,
    "boost_share": np.nan,
    "overheated_celsius": np.nan,
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
#: Effects only in the tick, likewise.
_MOMENTARY: Final[Mapping[str, float]] = {
    "idled": 0.0,  # the board does no work
    "reset": 0.0,
    "needs_reset": 0.0,  # the driver advises one
    "xid": np.nan,  # the reported code
    _PENDING: 0.0,
    **dict.fromkeys(ERROR_COUNTERS, 0.0),  # new errors
}
#: Effects that racks show, likewise.
_OF_RACKS: Final[Mapping[str, float]] = {
    "worn_link": -1.0,
    "wear_per_hour": 0.0,
    "fabric_closed": 0.0,  # its links carry nothing
    "tray_lost": 0.0,
    "route_lost": 0.0,
    "route_share": 1.0,  # of the traffic over links that are up
    "access_timeout": 0.0,
    "imex_down": 0.0,
    "leak": 0.0,
    "flow_share": 1.0,
    "rack_kilowatts": np.nan,
    "cpu_rise_celsius": 0.0,
    "c2c_errors": 0.0,
}
_NEUTRAL: Final[Mapping[str, float]] = {**_LASTING, **_MOMENTARY, **_OF_RACKS}
#: Hundreds of faults that multiply the same number would leave the range of floats.
_MOST_TIMES: Final = 1e6


class Ending(NamedTuple):
    """A fault ends the workloads on some devices.

    :ivar text: the reason; ``{}`` stands for the device's name.
    :ivar of_shared: only work that exchanges memory over the fabric with boards that are not among these, and all
        ranks of its job.
    :ivar since_seconds: only work that started then, or later.
    """

    devices: Positions
    text: str
    fault_id: str
    of_shared: bool = False
    since_seconds: float = -math.inf


class Report(NamedTuple):
    """An error code that the driver of some devices reports.

    :ivar message: the driver's words, where they depend on more than the code.
    """

    devices: Positions
    code: int
    message: str = ""


class Cut(NamedTuple):
    """A link of some devices is down.

    :ivar link: its number; ALL_LINKS for all of each device.
    """

    devices: Positions
    link: int


class FaultTick:
    """Effects of faults on D units (devices and parts) in one tick.

    :param now_seconds: simulated time at its end.
    :ivar endings: workloads that faults end.
    :ivar reports: error codes of drivers, in order; a device's ``xid`` is the last of its codes.
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
        """Only the effects on devices."""
        if not self._parts.count:
            return self
        parts, count = self._parts, self._parts.device_count
        tick = FaultTick(Parts(count), self.seconds, self.now_seconds)
        tick._arrays = {name: values[:count] for name, values in self._arrays.items()}
        if _PENDING in self._arrays:
            # Memory rows belong to the device, whichever part's work found the errors.
            tick._arrays[_PENDING] = np.minimum(parts.folded(self._arrays[_PENDING]), 1.0)
        tick.endings = self.endings
        tick.reports = [self._of_boards(report) for report in self.reports]
        return tick

    def get(self, name: str) -> Floats | None:
        """An effect by its name, shape (D,); None for no effect."""
        return self._arrays.get(name)

    def _of_boards(self, report: Report) -> Report:
        """The report of the devices' drivers: a lost instance is no board that has fallen off the bus."""
        units = report.devices
        if report.code == Xid.FALLEN_OFF:
            units = units[units < self._parts.device_count]
        return report._replace(devices=self._parts.owners_of(units))

    def where(self, name: str) -> Mask | None:
        """The units with a flag, shape (D,); None for none."""
        flags = self._arrays.get(name)
        return None if flags is None or not flags.any() else flags > 0

    def resets(self) -> Mask | None:
        """The devices that are reset, shape (D,); None for none. A lost device cannot be reset."""
        reset, lost = self.where("reset"), self.where("lost")
        return reset if reset is None or lost is None else reset & ~lost

    def report(self, devices: Positions, code: int, message: str = "") -> None:
        """Report an error code of the devices' drivers."""
        self.reports.append(Report(devices, code, message))
        self.put("xid", devices, code)

    def put(
        self, name: str, devices: Positions, value: float | Floats, combine: np.ufunc | None = None
    ) -> None:
        """Put a value on some devices, each named once.

        :param combine: combines it with the value before, such as ``np.add``; None: the last of several faults counts.
        """
        values = self._of(name)
        found = value if combine is None else combine(values[devices], value)
        values[devices] = np.minimum(found, _MOST_TIMES) if combine is np.multiply else found

    def end_work(self, ending: Ending) -> None:
        """End the workloads on some devices."""
        if len(ending.devices):
            self.endings.append(ending)

    def conditions(self, inlet_celsius: Floats) -> Conditions:
        """The conditions of the devices.

        :param inlet_celsius: the inlet temperature without faults; NaN where it is not known, shape (D,).
        """
        given = {name: self._arrays[name] for name in _LASTING if name in self._arrays}
        rise = given.pop("inlet_rise_celsius", None)
        if rise is not None:
            given["inlet_celsius"] = np.where(rise == 0.0, np.nan, inlet_celsius + rise)
        if (closed := self.where("fabric_closed")) is not None:
            given["fabric_share"] = np.where(closed, 0.0, given.get("fabric_share", np.ones(self._count)))
        if (routed := self._arrays.get("route_share")) is not None:
            given["fabric_share"] = np.fmin(routed, given.get("fabric_share", routed))
        return Conditions(**given)

    def on(self, demand: Demand) -> Demand:
        """The demand under these faults: with their errors, and without the work of idled boards."""
        asked = dict(demand.asked)
        for name in ERROR_COUNTERS:
            if name in self._arrays:
                asked[name] = asked.get(name, 0.0) + self._arrays[name]
        if (reset := self.resets()) is not None:
            of_devices = np.arange(self._count) < self._parts.device_count
            asked["resets"] = asked.get("resets", 0.0) + np.where(of_devices, reset, 0.0)
        idled = self.where("idled")
        if idled is None:
            return replace(demand, asked=asked)
        idled = self._parts.spread(idled)
        for name in set(asked) - set(ERROR_COUNTERS):
            asked[name] = np.where(idled, 0.0, asked[name])
        working = replace(demand, asked=asked, contexts=demand.contexts & ~idled)
        return working.with_loads(lambda load: np.where(idled, 0.0, load))
