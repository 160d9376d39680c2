"""What a run must reach, and whether it did."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fakedev.tester.quantiles import Histogram
from fakedev.tester.statistics import PARTS, Statistics

#: Words for points of a distribution; None is the mean.
POINTS: Final[dict[str, float | None]] = {
    "min": 0.0, "mean": None, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "max": 1.0,
}  # fmt: skip
COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
#: Numbers of requests that may be expected, as a count or as a share of all that were to be made.
COUNTS: Final = ("failures", "successes", "late", "dropped")


@dataclass(frozen=True)
class Expectation:
    """One thing that is expected.

    :param text: as it was given.
    :param subject: ``rate``, a word of COUNTS, or one of PARTS with a point: ``total.p99``.
    :param comparison: a key of COMPARISONS.
    :param bound: seconds, requests per second, a count or a share of 1.
    :param is_share: of a count: whether the bound is a share.
    """

    text: str
    subject: str
    comparison: str
    bound: float
    is_share: bool = False


@dataclass(frozen=True)
class Finding:
    """What came of an expectation.

    :param measured: in the unit of the bound; None when there is nothing to measure.
    """

    expectation: Expectation
    measured: float | None
    is_met: bool


def judge(expectation: Expectation, statistics: Statistics, now: float) -> Finding:
    """Whether the statistics meet an expectation; one that nothing was measured for is not met."""
    measured = _measured(expectation, statistics, now)
    is_met = measured is not None and COMPARISONS[expectation.comparison](measured, expectation.bound)
    return Finding(expectation, measured, is_met)


def point_of(histogram: Histogram, point: str) -> float:
    """A point of a distribution, by its word, in seconds."""
    share = POINTS[point]
    if share is None:
        return histogram.mean
    if share == 0:
        return histogram.least
    return histogram.most if share == 1 else histogram.quantile(share)


def _measured(expectation: Expectation, statistics: Statistics, now: float) -> float | None:
    if expectation.subject == "rate":
        return statistics.rate(now)
    part, dot, point = expectation.subject.partition(".")
    if dot and part in PARTS:
        histogram = statistics.timings[part]
        return point_of(histogram, point) if histogram.count else None
    counts = {
        "failures": statistics.failed + statistics.dropped,
        "successes": statistics.successes,
        "late": statistics.late,
        "dropped": statistics.dropped,
    }
    asked = statistics.completed + statistics.dropped
    if expectation.subject == "late":
        asked = statistics.started_count + statistics.dropped
    if not asked:
        return None
    count = counts[expectation.subject]
    return count / asked if expectation.is_share else count
