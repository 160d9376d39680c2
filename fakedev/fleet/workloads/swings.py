"""How the activity of devices changes within a tick: long ticks have the power and the throttling of short ones."""

from __future__ import annotations

from typing import Final

import numpy as np

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.workloads.demand import Swing
from fakedev.fleet.workloads.draws import Course
from fakedev.fleet.workloads.table import Table

#: Ticks up to this count as steady: a power limit needs about as long to act.
STEADY_SECONDS: Final = 1.0


def swing_of(table: Table, course: Course, share: Floats, count: int, seconds: float) -> Swing | None:
    """The change of the devices' activity; None in steady ticks.

    Workloads change independently of each other: their variances and third central moments add up.

    :param share: the load of each pair, percent.
    """
    if seconds <= STEADY_SECONDS or not len(table):
        return None
    variance, third = course.swings(table.profiles)
    if len(table.intense):
        rows = table.intense.workload
        variance[rows], third[rows] = course.swings(table.intense.profiles, rows)
    busy = np.maximum(table.busy(share), 0.0)
    terms = (busy, busy**2 * table.each(variance), busy**3 * table.each(third))
    return Swing.of(*(table.sums.by_device(term, count) for term in terms))
