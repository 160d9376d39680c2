"""The usage of jobs: series as they are read, and profiles for jobs that have no usage in the trace.

Series have the times of rows, and the values of each name, in any order, up to a bound.

Without usage in the trace, usage is a constant with fluctuation, or the distribution of another trace. A distribution
is drawn once, as a number of profiles of some values; each job repeats the profile that the seed gives to its name.
So a job's usage does not depend on the other jobs, and a million jobs need no more memory than a few.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.fleet.entities.randomness import uniform
from fakedev.fleet.spec.limits import entity_key
from fakedev.fleet.spec.workload_spec import Activities, Activity
from fakedev.replay.table_reader import TraceProblems
from fakedev.replay.trace import WHOLE_TRACE, UseSeries, Window

#: The values that are kept, of 24 bytes each: five days of a cluster of 2,500 GPUs with a value a minute.
MOST_VALUES: Final = 20_000_000


#: The times of rows that are known at once: more than half a year has minutes.
_MOST_TIMES: Final = 300_000
#: How long a value may hold: rows that are older than a window by more are not kept.
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
        """Whether a row is kept: its value may hold in the window, or it must be refused."""
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


#: How a usage that is that of another trace begins.
LIKE: Final = "like="
_PROFILES: Final = 128
_VALUES: Final = 96


class Usage(NamedTuple):
    """The usage of all jobs: percent of what a job has of its devices, plus or minus."""

    percent: float
    fluctuation: float = 0.0

    def of(self, name: str, part: float, seconds: float) -> tuple[Activities, bool]:
        """What a job does.

        :param name: of the job.
        :param part: share of its devices that it has, above 0, up to 1.
        :param seconds: how long it runs.
        :returns: and whether it repeats that until its time is over; else the activities are as long as the job.
        """
        return Activities([Activity(self.percent * part, self.fluctuation * part, seconds)]), False

    @property
    def words(self) -> str:
        """The usage, for people."""
        return f"{self.percent:g} % plus or minus {self.fluctuation:g}"


class Distribution(NamedTuple):
    """The usage of a trace in a few numbers.

    :ivar quantiles: shares of all values, ascending from that of zeros to 1, with the value at each in percent.
    :ivar exponent: of the way from one of these values to the next: 1 is a line; it makes the mean that of the trace.
    :ivar stays: the share of values that are as the one before; it is the correlation from value to value.
    :ivar seconds: from value to value.
    """

    quantiles: tuple[tuple[float, float], ...]
    exponent: float
    stays: float
    seconds: float

    def values_at(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values below which so large shares of all values are, in percent, of the same shape."""
        edges, values = np.array(self.quantiles).T
        place = np.clip(np.searchsorted(edges, shares, "right") - 1, 0, len(edges) - 2)
        way = np.clip((shares - edges[place]) / (edges[place + 1] - edges[place]), 0.0, 1.0)
        found: NDArray[np.float64] = values[place] + (values[place + 1] - values[place]) * way**self.exponent
        return found


#: Counted in the 157,417 values of duty cycle of https://github.com/alibaba/clusterdata, cluster-trace-v2026-GenAI.
#: With the exponent the mean is 7.0 percent, as there.
DISTRIBUTIONS: Final[Mapping[str, Distribution]] = {
    "gentd26": Distribution(
        ((0.67, 0.0), (0.75, 9.5), (0.90, 24.7), (0.95, 31.7), (0.99, 78.6), (1.0, 99.7)), 1.4, 0.33, 57.0
    )
}


class Like(NamedTuple):
    """The usage of the trace of that name."""

    name: str
    seed: int = 0


def usage_of(text: str) -> Usage | Like:
    """The usage of an option: ``60``, ``60:20`` for 60 percent plus or minus 20, or ``like=gentd26``.

    :raises ValueError: for another text.
    """
    if text.startswith(LIKE):
        name = text.removeprefix(LIKE)
        if name not in DISTRIBUTIONS:
            raise ValueError(f"{name[:40]!r} is no trace whose usage is known: {', '.join(DISTRIBUTIONS)}")
        return Like(name)
    parts = text.split(":")
    try:
        values = [float(part) for part in parts]
    except ValueError:
        values = []
    if not 1 <= len(values) <= 2 or not all(0 <= value <= 100 for value in values):
        example = f"as 60:20, or {LIKE}{next(iter(DISTRIBUTIONS))}"
        raise ValueError(f"{text[:40]!r} is no usage: give percent and fluctuation, each 0 to 100, {example}")
    return Usage(*values)


class DrawnUsage:
    """Each job has the usage over time of a profile that its name chooses."""

    def __init__(self, like: Like) -> None:
        self._like = like
        self._distribution = DISTRIBUTIONS[like.name]
        self._table = profiles_of(self._distribution, like.seed)
        self._made: dict[tuple[int, float], Activities] = {}

    def of(self, name: str, part: float, seconds: float) -> tuple[Activities, bool]:
        """As :meth:`Usage.of`."""
        key = np.array([entity_key(name)], dtype=np.uint64)
        number = int(uniform(self._like.seed, key, "trace usage", 0)[0] * _PROFILES)
        made = self._made.get((number, part))
        if made is None:
            values = self._table[number] * part
            seconds_of_each = np.full(_VALUES, self._distribution.seconds)
            numbers = array("d", np.column_stack((values, np.zeros(_VALUES), seconds_of_each)).ravel().tolist())
            made = self._made[number, part] = Activities.of_numbers(numbers)
        return made, True

    @property
    def words(self) -> str:
        """The distribution, for people."""
        table = self._table
        zeros = 100.0 * np.count_nonzero(table == 0.0) / table.size
        return f"like {self._like.name}, seed {self._like.seed}: mean {table.mean():.1f} %, {zeros:.0f} % of the time 0"


def profiles_of(distribution: Distribution, seed: int) -> NDArray[np.float64]:
    """Profiles with the values of a distribution, in percent, rounded to hundredths: shape (profiles, values).

    A value stays as it is with the probability of the correlation, else it is drawn anew: from equal shares of the
    distribution in a drawn order, so that all profiles together have its quantiles.
    """
    keys = np.arange(_PROFILES * _VALUES, dtype=np.uint64)
    is_new = (uniform(seed, keys, "trace usage stays", 0) >= distribution.stays).reshape(_PROFILES, _VALUES)
    is_new[:, 0] = True
    count = np.count_nonzero(is_new)
    order = np.argsort(uniform(seed, keys[:count], "trace usage order", 0), kind="stable")
    drawn = distribution.values_at((order + 0.5) / count).round(2)
    profiles: NDArray[np.float64] = drawn[np.cumsum(is_new.ravel()) - 1].reshape(_PROFILES, _VALUES)
    return profiles
