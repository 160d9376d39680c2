"""Random processes in the place of quantities, for families that the simulation does not follow.

A value is a function of seed, family, entity and time alone, like all randomness (`fleet/entities/randomness.py`):
nothing is kept from tick to tick, and a page that is not asked for costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist
from typing import Final

import numpy as np

from fakedev.fleet.entities.randomness import Floats, Keys, normal, sub_keys, uniform
from fakedev.schema.declare import LONGEST_SECONDS, setting

_NORMAL: Final = NormalDist()
#: The normal distribution as a table. Scores beyond its ends, 1 of 1,000, show the smallest and the largest quantile.
PLACES: Final = np.linspace(0.0, 1.0, 129)
SCORES: Final = np.array([_NORMAL.inv_cdf(min(max(place, 0.001), 0.999)) for place in PLACES.tolist()])


@dataclass(frozen=True)
class Wander:
    """A random process: a value with a given distribution that stays near itself for a time; or a counter.

    The normal score of a value has three parts, whose variances add up to 1: one of the entity, one that changes in
    each tick, and one that moves slowly. A counter gains in a part of each stretch of time, at a random place in it.

    :param quantiles: the distribution of the values; of a counter, the distribution over entities of what they gain in
        a second. Equal steps of probability, increasing.
    :param shares: of the values where there are no others between them; as many as quantiles.
    """

    quantiles: tuple[float, ...]
    shares: tuple[float, ...] = ()
    lasts_seconds: float = setting("For how long a value stays near itself.", default=60.0, low=0.001,
                                   high=LONGEST_SECONDS)
    own: float = setting("The share of the variance that is between entities: 1 for values that never change.",
                         default=0.0, low=0, high=1)
    noise: float = setting("The share of the variance that changes in each tick.", default=0.0, low=0, high=1)
    growing: float = setting("Of a counter, the share of time in which it gains; 0: it is none.", default=0.0, low=0,
                             high=1)

    def values(self, name: str, keys: Keys, seconds: float, tick: int) -> Floats:
        """The values of some entities at a time; shape as ``keys``.

        :param name: of the family.
        """
        if self.growing:
            return self._counted(name, keys, seconds)
        slow = max(1.0 - self.own - self.noise, 0.0)
        score = math.sqrt(self.own) * normal(0, keys, f"{name} own", 0)
        if slow:
            place = seconds / self.lasts_seconds + uniform(0, keys, f"{name} phase", 0)
            begun = np.floor(place)
            part, slots = place - begun, begun.astype(np.uint64)
            moving = normal(0, sub_keys(keys, slots), name, 0)
            if not self.shares:
                following = normal(0, sub_keys(keys, slots + np.uint64(1)), name, 0)
                # A mean of two independent scores has less variance than one of them.
                moving = ((1.0 - part) * moving + part * following) / np.sqrt((1.0 - part) ** 2 + part**2)
            score = score + math.sqrt(slow) * moving
        if self.noise:
            score = score + math.sqrt(self.noise) * normal(0, keys, f"{name} noise", tick)
        return self._of_scores(score)

    def _counted(self, name: str, keys: Keys, seconds: float) -> Floats:
        """What the counters of some entities have gained since the beginning; shape as ``keys``."""
        rates = self._of_scores(normal(0, keys, f"{name} own", 0))
        phase = uniform(0, keys, f"{name} phase", 0)
        gained = self._progress(name, keys, seconds / self.lasts_seconds + phase) - self._progress(name, keys, phase)
        return rates * self.lasts_seconds * gained

    def _progress(self, name: str, keys: Keys, place: Floats) -> Floats:
        """Gains in stretches: 1 for each that is over."""
        begun = np.floor(place)
        start = (1.0 - self.growing) * uniform(0, sub_keys(keys, begun.astype(np.uint64)), name, 0)
        return begun + np.clip((place - begun - start) / self.growing, 0.0, 1.0)

    def _of_scores(self, scores: Floats) -> Floats:
        """The values at some normal scores."""
        quantiles = np.array(self.quantiles)
        if self.shares:
            total = sum(self.shares)
            ends = [each / total for each in accumulate(self.shares)][:-1]
            edges = [_NORMAL.inv_cdf(min(max(end, 1e-9), 1.0 - 1e-9)) for end in ends]
            return np.asarray(quantiles[np.searchsorted(edges, scores, "right")])
        places = np.linspace(0.0, 1.0, len(quantiles))
        return np.asarray(np.interp(scores, SCORES, np.interp(PLACES, places, quantiles)))
