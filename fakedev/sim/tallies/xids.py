"""Error codes of drivers: how often each device reported each code, since the start and over windows of time.

A pair of device and code is an entity from its first report on. Its position never changes, so states of earlier ticks
stay valid.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.reindex import FleetReindex
from fakedev.sim.entities.state import Mask
from fakedev.sim.faults.tick import Report
from fakedev.sim.workloads.schedule import Positions

_NOTHING: Final = np.zeros(0)


class Window:
    """Counts of E entities over the last seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.counts: Floats = _NOTHING
        self._moments: deque[tuple[float, Positions]] = deque()

    def add(self, now: float, entities: Positions, count: int) -> None:
        """Count some of ``count`` entities now."""
        self.counts = _counted(self.counts, entities, count)
        self._moments.append((now, entities))

    def expire(self, now: float) -> None:
        """Remove counts from before the window."""
        while self._moments and self._moments[0][0] <= now - self.seconds:
            _, entities = self._moments.popleft()
            self.counts = _counted(self.counts, entities, len(self.counts), -1.0)

    def move(self, new_of: Positions, count: int) -> None:
        """Move to the new positions of entities, -1 for removed ones."""
        moments = [(when, new_of[entities]) for when, entities in self._moments]
        self._moments, self.counts = deque(), np.zeros(count)
        for when, entities in moments:
            self.add(when, entities[entities >= 0], count)


class Xids:
    """The reported codes: E pairs of device and code.

    :param windows: lengths in seconds over which they are counted, beside the counts since the start.
    :ivar devices: the device of each pair, shape (E,).
    :ivar codes: the code of each pair.
    """

    def __init__(self, windows: Sequence[float]) -> None:
        self.devices: Positions = np.zeros(0, dtype=np.int64)
        self.codes: list[int] = []
        self._places: dict[tuple[int, int], int] = {}
        self._of_device: dict[int, list[int]] = {}
        self._total: Floats = _NOTHING
        self._windows = {seconds: Window(seconds) for seconds in windows}

    def note(self, reports: Sequence[Report], lost: Mask | None, now: float) -> Positions:
        """Count the reports of a tick at its end.

        :param lost: devices that were lost before: they report nothing.
        :returns: the device of each new pair.
        """
        fresh: list[int] = []
        for window in self._windows.values():
            window.expire(now)
        for devices, code in reports:
            reporting = devices if lost is None else devices[~lost[devices]]
            entities = np.array([self._place(device, code, fresh) for device in reporting.tolist()], dtype=np.int64)
            self._total = _counted(self._total, entities, len(self.codes))
            for window in self._windows.values():
                window.add(now, entities, len(self.codes))
        if fresh:
            self.devices = np.concatenate([self.devices, np.array(fresh, dtype=np.int64)])
        return np.array(fresh, dtype=np.int64)

    def _place(self, device: int, code: int, fresh: list[int]) -> int:
        if (device, code) not in self._places:
            self._places[device, code] = len(self.codes)
            self._of_device.setdefault(device, []).append(len(self.codes))
            self.codes.append(code)
            fresh.append(device)
        return self._places[device, code]

    def of_device(self, device: int) -> list[tuple[int, int]]:
        """The codes of a device, ascending, each with its position."""
        places = self._of_device.get(device, ())
        return [(place, self.codes[place]) for place in sorted(places, key=self.codes.__getitem__)]

    def counts(self, window_seconds: float) -> Floats:
        """The count of each pair in a window, 0 for since the start: shape (E,)."""
        counts = self._windows[window_seconds].counts if window_seconds else self._total
        return _longer(counts, len(self.codes))

    def move(self, moves: FleetReindex, windows: Sequence[float]) -> None:
        """Move to the new positions of devices, and remove the codes of removed ones."""
        stays = np.flatnonzero(moves.new_of[self.devices] >= 0)
        new_of = np.full(len(self.codes), -1, dtype=np.int64)
        new_of[stays] = np.arange(len(stays))
        self._total = self.counts(0.0)[stays]
        self.devices = moves.new_of[self.devices[stays]]
        self.codes = [self.codes[place] for place in stays.tolist()]
        self._places, self._of_device = {}, {}
        for place, (device, code) in enumerate(zip(self.devices.tolist(), self.codes, strict=True)):
            self._places[device, code] = place
            self._of_device.setdefault(device, []).append(place)
        for window in self._windows.values():
            window.move(new_of, len(self.codes))
        # A new window starts empty.
        self._windows = {seconds: self._windows.get(seconds) or Window(seconds) for seconds in windows}


def _longer(counts: Floats, count: int) -> Floats:
    return np.concatenate([counts, np.zeros(count - len(counts))]) if len(counts) < count else counts


def _counted(counts: Floats, entities: Positions, count: int, amount: float = 1.0) -> Floats:
    """New counts with an amount added for each of some entities."""
    counted = _longer(counts, count).copy()
    np.add.at(counted, entities, amount)
    return counted
