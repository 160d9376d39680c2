"""The means of workloads' values over a tick, from the stretches of their profiles that pass in it.

Most profiles pass as time does, or at the speed of the work: a tick is one stretch of the profile. Where the lengths
of activities are drawn (:mod:`fakedev.sim.workloads.lengths`), it is a stretch for each activity in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fakedev.sim.entities.randomness import Floats, Keys
from fakedev.sim.entities.state import Positions
from fakedev.sim.workloads.draws import day_integrals, drawn_integrals
from fakedev.sim.workloads.schedule import DECIMALS, Profiles


@dataclass(frozen=True)
class Spans:
    """Stretches of profiles in a tick, in seconds of the profiles: arrays of shape (N,).

    :ivar tick: the length of the whole tick at the speed of the stretch.
    :ivar wall: seconds of the wall clock at its beginning, since 1970.
    """

    begin: Floats
    end: Floats
    tick: Floats
    wall: Floats

    def at(self, places: Positions) -> Spans:
        """Some of the stretches."""
        return Spans(self.begin[places], self.end[places], self.tick[places], self.wall[places])


@dataclass(frozen=True)
class FurtherSpans:
    """The stretches of some workloads after their first one in a tick, N in all; each begins where another one ends.

    :ivar rows: the workload of each, shape (N,).
    :ivar before: the stretch before each: of W workloads below W the first one of that workload, else W and the
        position of one of these; shape (N,).
    """

    spans: Spans
    rows: Positions
    before: Positions

    def of(self, workloads: Positions, count: int) -> FurtherSpans:
        """Those of some workloads, which have new positions.

        :param workloads: their positions, ascending.
        :param count: W.
        """
        places = np.full(count, -1, dtype=np.int64)
        places[workloads] = np.arange(len(workloads))
        kept = np.flatnonzero(places[self.rows] >= 0)
        moved = np.empty(count + len(self.rows), dtype=np.int64)
        moved[:count] = places
        moved[count + kept] = len(workloads) + np.arange(len(kept))
        return FurtherSpans(self.spans.at(kept), places[self.rows[kept]], moved[self.before[kept]])


@dataclass(frozen=True)
class Course:
    """How far the profiles of W workloads get in a tick.

    :ivar keys, services: keys of randomness of the workloads and of their services, shape (W,).
    :ivar first: the first stretch of each workload, shape (W,).
    :ivar further: None: there are none.
    :ivar until: where each profile is at the end of the tick, shape (W,).
    :ivar done: seconds of open profiles that are done at the end of the tick, shape (W,); 0 for others.
    """

    seed: int
    keys: Keys
    services: Keys
    first: Spans
    further: FurtherSpans | None
    until: Floats
    done: Floats

    def means(
        self, profiles: Profiles, quantity: str, of: Positions | None = None, decimals: int = DECIMALS
    ) -> tuple[Floats, Floats]:
        """Mean values and fluctuation of some profiles over the tick, both of shape (U,).

        :param profiles: of U workloads.
        :param quantity: that they describe; part of the key of each draw.
        :param of: the workloads' positions, ascending; None: all.
        """
        first, further, keys, services, until = self.first, self.further, self.keys, self.services, self.until
        if of is not None and len(of) < len(keys):
            further = None if further is None else further.of(of, len(keys))
            first, keys, services, until = first.at(of), keys[of], services[of], until[of]
        begins, ends = profiles.integrals_again(first.begin), profiles.integrals(first.end)
        extra = self._drawn(profiles, keys, services, quantity, first)
        load = (ends[0] - begins[0] + extra) / first.tick
        fluctuation = (ends[1] - begins[1]) / first.tick
        if further is not None and len(further.rows):
            rows, spans, count = further.rows, further.spans, len(keys)
            own = profiles.at(rows)
            extra = self._drawn(own, keys[rows], services[rows], quantity, spans)
            last = own.integrals(spans.end)
            passed = [
                there - np.concatenate((here, there))[further.before]
                for here, there in zip(ends, last, strict=True)
            ]
            load = load + np.bincount(rows, (passed[0] + extra) / spans.tick, count)
            fluctuation = fluctuation + np.bincount(rows, passed[1] / spans.tick, count)
            for here, there in zip(ends, last, strict=True):
                here[rows] = there  # the last one of each workload stays
        profiles.keep(until, ends)
        return np.round(load, decimals), np.round(fluctuation, decimals)

    def _drawn(
        self, profiles: Profiles, keys: Keys, services: Keys, quantity: str, spans: Spans
    ) -> Floats | float:
        """The integrals of values without a closed form; 0 if there are none."""
        drawn = drawn_integrals(profiles, self.seed, keys, quantity, spans.begin, spans.end)
        days = day_integrals(profiles, self.seed, services, spans.begin, spans.end, spans.wall)
        return (0.0 if drawn is None else drawn) + (0.0 if days is None else days)
