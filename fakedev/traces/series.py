"""Series as they are read: the times of rows, and the values of each name, in any order, up to a bound."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from fakedev.traces.problems import TraceProblems
from fakedev.traces.trace import WHOLE_TRACE, UseSeries, Window

#: The values that are kept, of 24 bytes each: five days of a cluster of 2,500 GPUs with a value a minute.
MOST_VALUES: Final = 20_000_000


#: The times of rows that are known at once: more than half a year has minutes.
_MOST_TIMES: Final = 300_000
#: A value may hold for so long: what is so much older than a window is not kept.
_BEFORE_SECONDS: Final = 60.0


class Times:
    """The times of the rows of a large table, of which many have the same.

    :param read: seconds of a text, since any time; raises ValueError.
    :param first: the beginning of the trace, as ``read`` gives it; None: the time of the first row.
    """

    def __init__(self, read: Callable[[str], float], window: Window, first: float | None = None) -> None:
        self._read = read
        self._window = window
        self._first = first
        self._known: dict[str, float] = {}

    def seconds(self, text: str) -> float:
        """Seconds since the beginning of the trace; before it they are negative.

        :raises ValueError: for a text that is no time.
        """
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= _MOST_TIMES:
                self._known.clear()
            seconds = self._read(text)
            self._first = seconds if self._first is None else self._first
            found = self._known[text] = seconds - self._first
        return found

    def is_inside(self, text: str) -> bool:
        """Whether a row is kept: its value may hold in the window, or it is to be refused."""
        try:
            seconds = self.seconds(text)
        except ValueError:
            return True
        return self._window.begin_seconds - _BEFORE_SECONDS <= seconds < self._window.end_seconds


class Values:
    """The values of some series, as far as they may hold in a window: of those before and after it, only the nearest.

    :param most: how many are kept.
    :ivar latest_seconds: the time of the last value of all, kept or not.
    """

    def __init__(self, window: Window = WHOLE_TRACE, most: int = MOST_VALUES) -> None:
        self._window = window
        self._before: dict[str, tuple[float, float, float]] = {}
        self._after: dict[str, tuple[float, float, float]] = {}
        self._values: dict[str, array[float]] = defaultdict(lambda: array("d"))
        self._most = most
        self._left = most
        self.latest_seconds = 0.0

    def add(self, name: str, seconds: float, usage: float, memory_bytes: float = np.nan) -> None:
        """One more value; NaN for unknown memory.

        :raises TraceProblems: when there are too many.
        """
        self.latest_seconds = max(self.latest_seconds, seconds)
        if seconds < self._window.begin_seconds:
            if name not in self._before or self._before[name][0] <= seconds:
                self._before[name] = (seconds, usage, memory_bytes)
            return
        if seconds >= self._window.end_seconds:
            # The first value of a series holds before it, too.
            if name not in self._after or self._after[name][0] > seconds:
                self._after[name] = (seconds, usage, memory_bytes)
            return
        if not self._left:
            text = f"the series have more than {self._most:,} values in that time: give a shorter --for"
            raise TraceProblems([text])
        self._left -= 1
        self._values[name].extend((seconds, usage, memory_bytes))

    def series(self) -> dict[str, UseSeries]:
        """The series, in the order of their names; the values are not kept."""
        for name, value in {**self._after, **self._before}.items():
            if name in self._before or name not in self._values:
                self._values[name].extend(value)
        self._before.clear()
        self._after.clear()
        return {name: _series_of(self._values.pop(name)) for name in sorted(self._values)}


def _series_of(values: array[float]) -> UseSeries:
    """A series of its values as read: time, usage and memory in turn; memory is NaN where there is none.

    Unknown memory is that of the value before; a series without any has none.
    """
    table = np.frombuffer(values, dtype=np.float64).reshape(-1, 3)
    # The last of several values of a time: the first one in the reversed table.
    seconds, places = np.unique(table[::-1, 0], return_index=True)
    _, usage, memory = table[::-1][places].T
    known = ~np.isnan(memory)
    held: np.ndarray[tuple[int], np.dtype[np.float64]] | None = None
    if known.any():
        latest = np.maximum.accumulate(np.where(known, np.arange(len(memory)), -1))
        held = memory[np.where(latest < 0, int(np.argmax(known)), latest)]
    return UseSeries(seconds, float(seconds[-1]) + _interval_of(list(seconds)), usage.astype(np.float32), held)


def _interval_of(seconds: Sequence[float]) -> float:
    """The usual time between two values of a series; 60 s for one that has a single value."""
    return float(np.median(np.diff(seconds))) if len(seconds) > 1 else 60.0
