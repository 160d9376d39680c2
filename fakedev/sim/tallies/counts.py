"""Counts since the start and over windows of time: of error codes that drivers report, and of samples of clock events.

A pair of device and code is an entity from its first report on. Its position never changes, so states of earlier ticks
stay valid. Clock events are sampled as an exporter samples them: at multiples of an interval.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.reindex import FleetReindex
from fakedev.sim.entities.state import Mask, Positions
from fakedev.sim.faults.tick import Report
from fakedev.spec.tallies import CLOCK_EVENTS

Bits = NDArray[np.uint16]
Item = TypeVar("Item", bound=NDArray[Any])
_NOTHING: Final = np.zeros(0)
_SHIFTS: Final = np.arange(len(CLOCK_EVENTS), dtype=np.uint16)[:, None]


class Window(Generic[Item]):
    """Counts over the last seconds.

    :param add: new counts: those of an item added (1) or removed (-1).
    """

    def __init__(self, seconds: float, counts: Floats, add: Callable[[Floats, Item, int], Floats]) -> None:
        self._seconds = seconds
        self._add = add
        self._items: deque[tuple[float, Item]] = deque()
        self.counts = counts

    def note(self, now: float, item: Item) -> None:
        """Count an item now."""
        self._items.append((now, item))
        self.counts = self._add(self.counts, item, 1)

    def expire(self, now: float) -> None:
        """Remove items from before the window."""
        while self._items and self._items[0][0] <= now - self._seconds:
            self.counts = self._add(self.counts, self._items.popleft()[1], -1)

    def move(self, moved: Callable[[Item], Item], counts: Floats) -> None:
        """Use the new positions of what is counted; the counts are there already."""
        self._items = deque((when, moved(item)) for when, item in self._items)
        self.counts = counts


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
        self._last: Floats = _NOTHING
        self._windows = {seconds: self._window(seconds) for seconds in windows}

    def note(self, reports: Sequence[Report], lost: Mask | None, now: float, wall_seconds: float) -> Positions:
        """Count the reports of a tick at its end.

        :param lost: devices that were lost before: they report nothing.
        :param wall_seconds: the wall time of the tick, in seconds since 1970.
        :returns: the device of each new pair.
        """
        fresh: list[int] = []
        for window in self._windows.values():
            window.expire(now)
        for devices, code in reports:
            reporting = devices if lost is None else devices[~lost[devices]]
            entities = np.array([self._place(device, code, fresh) for device in reporting.tolist()], dtype=np.int64)
            self._total = self._counted(self._total, entities)
            self._last = self._longer(self._last).copy()
            self._last[entities] = wall_seconds
            for window in self._windows.values():
                window.note(now, entities)
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
        return self._longer(counts)

    def last_times(self) -> Floats:
        """The wall time of the last report of each pair, in seconds since 1970: shape (E,)."""
        return self._longer(self._last)

    def _window(self, seconds: float) -> Window[Positions]:
        return Window(seconds, _NOTHING, self._counted)

    def _longer(self, counts: Floats) -> Floats:
        """Counts with 0 for the newest pairs."""
        missing = len(self.codes) - len(counts)
        return np.concatenate([counts, np.zeros(missing)]) if missing else counts

    def _counted(self, counts: Floats, entities: Positions, amount: int = 1) -> Floats:
        counted = self._longer(counts).copy()
        np.add.at(counted, entities, amount)
        return counted

    def move(self, moves: FleetReindex, windows: Sequence[float]) -> None:
        """Move to the new positions of devices, and remove the codes of removed ones."""
        stays = np.flatnonzero(moves.new_of[self.devices] >= 0)
        new_of = np.full(len(self.codes), -1, dtype=np.int64)
        new_of[stays] = np.arange(len(stays))
        self._total, self._last = self.counts(0.0)[stays], self.last_times()[stays]
        for window in self._windows.values():
            window.move(lambda places: new_of[places[new_of[places] >= 0]], self._longer(window.counts)[stays])
        self.devices = moves.new_of[self.devices[stays]]
        self.codes = [self.codes[place] for place in stays.tolist()]
        self._places, self._of_device = {}, {}
        for place, (device, code) in enumerate(zip(self.devices.tolist(), self.codes, strict=True)):
            self._places[device, code] = place
            self._of_device.setdefault(device, []).append(place)
        # A new window starts empty.
        self._windows = {seconds: self._windows.get(seconds) or self._window(seconds) for seconds in windows}


class ClockEvents:
    """Samples at multiples of an interval.

    :param count: devices, D.
    :param windows: lengths in seconds over which samples are counted.
    """

    def __init__(self, count: int, every_seconds: float, windows: Sequence[float]) -> None:
        self._every = every_seconds
        self._count = count
        self._windows = {seconds: self._window(seconds) for seconds in windows}
        self._interval = -1
        self._before: Bits | None = None
        self._known = np.zeros(count, dtype=np.bool_)
        self._starts = np.zeros((len(CLOCK_EVENTS), count))

    def note(self, reasons: Floats, is_there: Mask, now: float) -> None:
        """Take a sample at the end of a tick if a new interval has started.

        :param is_there: devices that report.
        """
        for window in self._windows.values():
            window.expire(now)
        interval = math.floor(round(now / self._every, 9))
        if interval == self._interval:
            return
        self._interval = interval
        bits = np.where(is_there, reasons, 0.0).astype(np.uint16)
        for window in self._windows.values():
            window.note(now, bits)
        if self._before is not None:
            # Events of the first sample did not start since.
            begun = np.where(self._known & is_there, bits & ~self._before, 0)
            self._starts = self._starts + _events(begun)
            bits = np.where(is_there, bits, self._before)
        self._before, self._known = bits, self._known | is_there

    def samples(self, event: int, window_seconds: float) -> Floats:
        """The number of samples in a window with an event, by its number: shape (D,)."""
        counts: Floats = self._windows[window_seconds].counts[event]
        return counts

    def starts(self, event: int) -> Floats:
        """How often an event has started since the first sample: shape (D,)."""
        starts: Floats = self._starts[event]
        return starts

    def move(self, moves: FleetReindex, windows: Sequence[float]) -> None:
        """Move to the new positions of devices; new ones start at 0."""
        old, stays = moves.old_of, moves.old_of >= 0
        self._count = len(old)
        self._starts = np.where(stays, self._starts[:, old], 0.0)
        self._known = np.where(stays, self._known[old], False)
        if self._before is not None:
            self._before = np.where(stays, self._before[old], 0).astype(np.uint16)
        for window in self._windows.values():
            counts = np.where(stays, window.counts[:, old], 0.0)
            window.move(lambda bits: np.where(stays, bits[old], 0).astype(np.uint16), counts)
        self._windows = {seconds: self._windows.get(seconds) or self._window(seconds) for seconds in windows}

    def _window(self, seconds: float) -> Window[Bits]:
        return Window(seconds, np.zeros((len(CLOCK_EVENTS), self._count)), _sampled)


def _sampled(counts: Floats, bits: Bits, amount: int) -> Floats:
    return counts + _events(bits) if amount > 0 else counts - _events(bits)


def _events(bits: Bits) -> NDArray[np.uint16]:
    """1 where an event's bit is set, else 0: shape (events, D)."""
    return (bits[None, :] >> _SHIFTS) & np.uint16(1)
