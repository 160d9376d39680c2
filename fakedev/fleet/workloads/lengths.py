"""How far the profiles of workloads get in a tick.

The seconds of a profile are time, work, or drawn. A drawn length is the written one times two factors of log-normal
shape: one for the pace of the workload, and one for each run of each activity. Both are pure functions of the seed,
the workload, the run and the activity; so a profile passes at another speed in each of its activities.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from fakedev.fleet.entities.randomness import Floats, Keys, normal
from fakedev.fleet.entities.state import Positions
from fakedev.fleet.spec.value_functions import MAX_LENGTHS
from fakedev.fleet.workloads.draws import Course, FurtherSpans, Spans, segment_keys
from fakedev.fleet.workloads.table import Table

#: Spread of the pace of workloads with drawn lengths, as a natural logarithm: mostly within 1 / 1.25 to 1.25.
_PACE: Final = math.log(1.25)
#: Less than this of an activity is nothing: sums of decimal fractions differ by less.
ROUNDING_SECONDS: Final = 1e-6
#: Squarings of :func:`_exponential`.
_SQUARINGS: Final = 10


def pace_of(seed: int, keys: Keys) -> Floats:
    """The pace of workloads with drawn lengths: how much longer than others they take for everything, shape (W,).

    :param keys: of the workloads, shape (W,).
    """
    return _exponential(_PACE * normal(seed, keys, "pace", 0))


class _LengthWalk:
    """Goes through the activities of N workloads with drawn lengths, one of each workload at a time.

    :param rows: the workloads, ascending, shape (N,).
    :param left: the time that they have in the tick, at the speed of their work, shape (N,).
    """

    def __init__(self, table: Table, seed: int, rows: Positions, left: Floats) -> None:
        self._rows, self._seed = rows, seed
        self._profiles = profiles = table.profiles.at(rows)
        self._keys, self._work = table.keys[rows], table.work[rows]
        self._time, self._left = table.done[rows], left.copy()
        self._run = profiles.run_at(self._time + ROUNDING_SECONDS)
        self._segment = profiles.segment_at(self._time + ROUNDING_SECONDS - self._run * profiles.period).copy()
        self._pace = table.pace[rows]
        #: Of the N workloads that continue.
        self._here = np.arange(len(rows))

    def step(self, *, is_last: bool) -> tuple[Positions, Floats, Floats, Floats]:
        """The next stretch of the workloads that go on: their rows, the time before it, its end, and its factor.

        :param is_last: take all that is left, with the lengths as they are written.
        """
        here, profiles = self._here, self._profiles
        run, segment, begin, left = self._run[here], self._segment[here], self._time[here], self._left[here]
        spread = profiles.spread[segment]
        own = segment_keys(self._keys[here], run, segment - profiles.firsts[here])
        factor = self._pace[here] * _exponential(spread * normal(self._seed, own, "length", 0))
        factor = np.ones(len(here)) if is_last else np.where(spread > 0.0, factor, 1.0)
        end = np.where(run > 0, run * profiles.period[here], 0.0) + profiles.ends[segment]
        cost = np.maximum(end - begin, 0.0) * factor
        is_over = (cost <= left) & (not is_last)
        stop = np.minimum(np.where(is_over, end, begin + left / factor), self._work[here])
        self._time[here], self._left[here] = stop, left - cost
        rows = self._rows[here]
        self._here = here = here[is_over & (stop < self._work[here] - ROUNDING_SECONDS) & (cost < left)]
        following = self._segment[here] + 1
        is_end = following > profiles.lasts[here]
        self._run[here] += is_end
        self._segment[here] = np.where(is_end, profiles.again[here], following)
        return rows, left, stop, factor

    @property
    def is_over(self) -> bool:
        """Whether no workload goes on."""
        return not len(self._here)


def course_of(
    table: Table, seed: int, start_seconds: float, end_seconds: float, wall_seconds: float, rates: Floats
) -> Course:
    """The course of some workloads in a tick.

    :param start_seconds, end_seconds: of the tick, simulated.
    :param wall_seconds: of the wall clock at its beginning, since 1970.
    :param rates: the speed of each workload's work, shape (W,); 1 where profiles pass as time does.
    """
    seconds = end_seconds - start_seconds
    begin = np.minimum(start_seconds - table.start, table.lasts)
    end = np.minimum(end_seconds - table.start, table.lasts)
    first = Spans(begin, end, rates * seconds, np.full(len(table), wall_seconds))
    if not table.is_open.any():
        return Course(seed, table.keys, table.services, first, None, end, np.zeros(len(table)))
    # A profile that ends within a tick, or at the deadline of its workload, has only part of its load there.
    left = first.tick * np.where(table.is_open, (end - begin) / seconds, 1.0)
    done = np.minimum(table.done + left, table.work)
    begin, end = np.where(table.is_open, table.done, begin), np.where(table.is_open, done, end)
    first = replace(first, begin=begin, end=end)
    further = None
    rows = np.flatnonzero(table.is_open & table.profiles.is_drawn)
    if len(rows):
        further = _drawn(table, seed, rows, left[rows], first)
        done[rows] = first.end[rows]
        if further is not None:
            done[further.rows] = further.spans.end  # the last one counts
    until = np.where(table.is_open, done, end)
    return Course(seed, table.keys, table.services, first, further, until, np.where(table.is_open, done, 0.0))


def _drawn(table: Table, seed: int, rows: Positions, left: Floats, first: Spans) -> FurtherSpans | None:
    """The stretches of workloads with drawn lengths; the first ones are written into ``first``.

    :param left: the time that they have in the tick, at the speed of their work, shape (N,).
    """
    walk = _LengthWalk(table, seed, rows, left)
    _, _, stop, factor = walk.step(is_last=False)
    whole = first.tick[rows]
    first.end[rows], first.tick[rows] = stop, whole / factor
    latest = np.arange(len(table))  # the latest stretch of each workload
    found: list[tuple[Positions, Positions, Floats, Floats, Floats]] = []
    count, tick, given = len(table), np.ones(len(table)), np.zeros(len(table))
    tick[rows], given[rows] = whole, left
    for number in range(1, MAX_LENGTHS):
        if walk.is_over:
            break
        own, remains, stop, factor = walk.step(is_last=number == MAX_LENGTHS - 1)
        found.append((own, latest[own], stop, tick[own] / factor, first.wall[own] + given[own] - remains))
        latest[own] = count + np.arange(len(own))
        count += len(own)
    if not found:
        return None
    places, before = (np.concatenate(columns) for columns in list(zip(*found, strict=True))[:2])
    end, ticks, wall = (np.concatenate(columns) for columns in list(zip(*found, strict=True))[2:])
    begin = np.concatenate((first.end, end))[before]
    return FurtherSpans(Spans(begin, end, ticks, wall), places, before)


def _exponential(values: Floats) -> Floats:
    """Nearly e to the power of values within -20 to 20, only by products: the same bits on every vector unit."""
    power = 1.0 + values / 2.0**_SQUARINGS
    for _ in range(_SQUARINGS):
        power = power * power
    return power
