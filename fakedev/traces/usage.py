"""What jobs do that a trace has no usage of: a constant with fluctuation, or the distribution of another trace.

A distribution is drawn once, as a number of profiles of some values; each job repeats the profile that the seed gives
to its name. So a job's usage does not depend on the other jobs, and a million jobs need no more memory than a few.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import uniform
from fakedev.spec.fleet import Activities, Activity
from fakedev.spec.shards import entity_key

#: How a usage that is that of another trace begins.
LIKE: Final = "like="
_PROFILES: Final = 128
_VALUES: Final = 96


class Usage(NamedTuple):
    """Percent of what a job has of its devices, plus or minus."""

    percent: float
    fluctuation: float = 0.0


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


class JobUsage(NamedTuple):
    """What a job does.

    :ivar is_repeated: whether its activities go on until its time is over; else they are as long as the job.
    """

    activities: Activities
    is_repeated: bool = False


class UsageRule(Protocol):
    """Decides what jobs do."""

    def of(self, name: str, part: float, seconds: float) -> JobUsage:
        """What a job does.

        :param name: of the job.
        :param part: of its devices that it has, above 0, up to 1.
        :param seconds: how long it runs.
        """

    @property
    def words(self) -> str:
        """What is shown, for people."""


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
        values = [float(each) for each in parts]
    except ValueError:
        values = []
    if not 1 <= len(values) <= 2 or not all(0 <= each <= 100 for each in values):
        example = f"as 60:20, or {LIKE}{next(iter(DISTRIBUTIONS))}"
        raise ValueError(f"{text[:40]!r} is no usage: give percent and fluctuation, each 0 to 100, {example}")
    return Usage(*values)


def rule_of(usage: Usage | Like) -> UsageRule:
    """The rule of a usage."""
    return _Drawn(usage) if isinstance(usage, Like) else _Constant(usage)


class _Constant:
    def __init__(self, usage: Usage) -> None:
        self._usage = usage

    def of(self, name: str, part: float, seconds: float) -> JobUsage:
        percent, fluctuation = self._usage
        return JobUsage(Activities([Activity(percent * part, fluctuation * part, seconds)]))

    @property
    def words(self) -> str:
        return f"{self._usage.percent:g} % plus or minus {self._usage.fluctuation:g}"


class _Drawn:
    def __init__(self, like: Like) -> None:
        self._like = like
        self._distribution = DISTRIBUTIONS[like.name]
        self._table = profiles_of(self._distribution, like.seed)
        self._made: dict[tuple[int, float], Activities] = {}

    def of(self, name: str, part: float, seconds: float) -> JobUsage:
        key = np.array([entity_key(name)], dtype=np.uint64)
        number = int(uniform(self._like.seed, key, "trace usage", 0)[0] * _PROFILES)
        made = self._made.get((number, part))
        if made is None:
            values = self._table[number] * part
            seconds_of_each = np.full(_VALUES, self._distribution.seconds)
            numbers = array("d", np.column_stack((values, np.zeros(_VALUES), seconds_of_each)).ravel().tolist())
            made = self._made[number, part] = Activities.of_numbers(numbers)
        return JobUsage(made, is_repeated=True)

    @property
    def words(self) -> str:
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
