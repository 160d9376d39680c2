"""Samples of clock events, as an exporter takes them: how many samples have each event, and how often it started."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.reindex import FleetReindex
from fakedev.sim.entities.state import Mask
from fakedev.spec.tallies import CLOCK_EVENTS

Bits = NDArray[np.uint16]
_SHIFTS: Final = np.arange(len(CLOCK_EVENTS), dtype=np.uint16)[:, None]


class ClockEvents:
    """Samples at multiples of an interval.

    :param count: devices, D.
    :param windows: lengths in seconds over which samples are counted.
    """

    def __init__(self, count: int, every_seconds: float, windows: Sequence[float]) -> None:
        self._every = every_seconds
        self._windows = {seconds: SampleWindow(count, seconds) for seconds in windows}
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
            window.add(now, bits)
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
        self._starts = np.where(stays, self._starts[:, old], 0.0)
        self._known = np.where(stays, self._known[old], False)
        if self._before is not None:
            self._before = np.where(stays, self._before[old], 0).astype(np.uint16)
        for window in self._windows.values():
            window.move(moves)
        self._windows = {seconds: self._windows.get(seconds) or SampleWindow(len(old), seconds) for seconds in windows}


class SampleWindow:
    """The samples of the last seconds.

    :ivar counts: the number of samples with each event: shape (events, D).
    """

    def __init__(self, count: int, seconds: float) -> None:
        self._seconds = seconds
        self._samples: deque[tuple[float, Bits]] = deque()
        self.counts = np.zeros((len(CLOCK_EVENTS), count))

    def add(self, now: float, bits: Bits) -> None:
        """Add a sample taken now."""
        self._samples.append((now, bits))
        self.counts = self.counts + _events(bits)

    def expire(self, now: float) -> None:
        """Remove samples from before the window."""
        while self._samples and self._samples[0][0] <= now - self._seconds:
            self.counts = self.counts - _events(self._samples.popleft()[1])

    def move(self, moves: FleetReindex) -> None:
        """Move to the new positions of devices."""
        stays = moves.old_of >= 0
        moved = [(when, np.where(stays, bits[moves.old_of], 0).astype(np.uint16)) for when, bits in self._samples]
        self._samples = deque(moved)
        self.counts = np.where(stays, self.counts[:, moves.old_of], 0.0)


def _events(bits: Bits) -> NDArray[np.uint16]:
    """1 where an event's bit is set, else 0: shape (events, D)."""
    return (bits[None, :] >> _SHIFTS) & np.uint16(1)
