"""A recorded run of one board: samples over time, checked and in fakedev's units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Final

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask

USAGE: Final = "usage_ratio"
POWER: Final = "power_watts"
CLOCK: Final = "core_frequency_mhz"
HEAT: Final = "temperature_celsius"
MEMORY_HEAT: Final = "memory_temperature_celsius"
LIMIT: Final = "power_limit_watts"
#: What every sample must have, and what it may have.
REQUIRED: Final = (USAGE, POWER, CLOCK, HEAT)
OPTIONAL: Final = (MEMORY_HEAT, LIMIT)
#: Kinds of work that a run may consist of: those whose power the coefficients tell.
KINDS: Final = ("compute", "tensor", "memory")
#: Fewer samples tell too little; the fit of more takes minutes.
MIN_SAMPLES, MAX_SAMPLES = 60, 20_000
#: No board shows a larger number, in any of the units.
_LARGEST: Final = 1e6


class RunError(ValueError):
    """A run that cannot be used; ``str`` of it has the place, the reason and the remedy."""


@dataclass(frozen=True)
class Sample:
    """One sample.

    :param place: where it was read, for errors: ``run.csv:7``.
    :param seconds: its time, from any origin.
    :param numbers: by quantity; an optional one that was not shown is absent.
    :param kind: the kind of work, one of :data:`KINDS`.
    """

    place: str
    seconds: float
    numbers: Mapping[str, float]
    kind: str = KINDS[0]


@dataclass(frozen=True)
class Run:
    """A run of T samples.

    :param seconds: since the first sample, increasing: shape (T,).
    :param numbers: of each quantity, shape (T,).
    :param kinds: the kind of work of each sample.
    """

    seconds: Floats
    numbers: Mapping[str, Floats] = field(repr=False)
    kinds: tuple[str, ...] = field(repr=False)

    @property
    def steps_seconds(self) -> Floats:
        """The time from each sample to the next one: shape (T - 1,)."""
        return np.diff(self.seconds)

    def of_kind(self, kind: str) -> Mask:
        """The samples with a kind of work."""
        return np.array([each == kind for each in self.kinds], dtype=np.bool_)

    def with_work(self, begins: Sequence[tuple[float, str]]) -> Run:
        """The same run with other kinds of work.

        :param begins: (seconds since the first sample, the kind of work from there on).
        """
        kinds = np.array(self.kinds, dtype=object)
        for seconds, kind in sorted(begins):
            kinds[self.seconds >= seconds] = kind
        return replace(self, kinds=tuple(kinds.tolist()))


def run_of(samples: Sequence[Sample], where: str) -> Run:
    """The run of some samples. Samples of the same time count as one, with their mean.

    :param where: the name of what was read, for errors.
    :raises RunError: for times that go back, numbers that no board shows, and too few or too many samples.
    """
    for before, after in pairwise(samples):
        if after.seconds < before.seconds:
            back = before.seconds - after.seconds
            raise RunError(f"{after.place}: the time goes back by {back:g} s: sort the samples by time")
    for each in samples:
        _check(each)
    merged = [_mean(list(group)) for _, group in groupby(samples, key=lambda each: each.seconds)]
    if not MIN_SAMPLES <= len(merged) <= MAX_SAMPLES:
        remedy = "record longer" if len(merged) < MIN_SAMPLES else "record fewer a second, or a part of the run"
        raise RunError(f"{where}: {len(merged)} samples, not {MIN_SAMPLES} to {MAX_SAMPLES}: {remedy}")
    if not any(each.numbers[POWER] > 0 and each.numbers[CLOCK] > 0 for each in merged):
        raise RunError(f"{where}: no sample has both a power and a clock over 0: record a board that works")
    shown = [name for name in OPTIONAL if all(name in each.numbers for each in merged)]
    seconds = np.array([each.seconds - merged[0].seconds for each in merged])
    numbers = {name: np.array([each.numbers[name] for each in merged]) for name in (*REQUIRED, *shown)}
    return Run(seconds, numbers, tuple(each.kind for each in merged))


def _check(sample: Sample) -> None:
    for name, number in sample.numbers.items():
        least = -_LARGEST if name.endswith("_celsius") else 0.0
        most = 1.0 if name == USAGE else _LARGEST
        if not least <= number <= most:
            raise RunError(
                f"{sample.place}: {name} is {number:g}, which is not within {least:g} to {most:g}: check its unit"
            )


def _mean(samples: Sequence[Sample]) -> Sample:
    """One sample for those of one time; their order makes no difference, not even in the last digit."""
    first = samples[0]
    if len(samples) == 1:
        return first
    names = [name for name in (*REQUIRED, *OPTIONAL) if all(name in each.numbers for each in samples)]
    means = {name: math.fsum(each.numbers[name] for each in samples) / len(samples) for name in names}
    return replace(first, numbers=means, kind=min(each.kind for each in samples))
