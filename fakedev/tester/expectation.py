"""Expectations of a run, and whether it meets them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fakedev.base.histograms import QuantileSketch
from fakedev.tester.statistics import PARTS, Statistics

#: Points of a distribution, as quantiles; None is the mean.
POINTS: Final[dict[str, float | None]] = {
    "min": 0.0, "mean": None, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "max": 1.0,
}  # fmt: skip
COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
#: Numbers of requests that may be expected, as a count or as a share of all intended requests.
COUNTS: Final = ("failures", "successes", "late", "dropped")


@dataclass(frozen=True)
class Expectation:
    """One expectation.

    :param text: its source text.
    :param subject: ``rate``, a word of COUNTS, or one of PARTS with a point: ``total.p99``.
    :param comparison: a key of COMPARISONS.
    :param bound: seconds, requests per second, a count or a share, 0 to 1.
    :param is_share: whether the bound of a count is a share.
    """

    text: str
    subject: str
    comparison: str
    bound: float
    is_share: bool = False


@dataclass(frozen=True)
class Finding:
    """The result of an expectation.

    :param measured: in the unit of the bound; None if there was nothing to measure.
    """

    expectation: Expectation
    measured: float | None
    is_met: bool


def judge(expectation: Expectation, statistics: Statistics, now: float) -> Finding:
    """Check an expectation. It is not met if there was nothing to measure."""
    measured = _measured(expectation, statistics, now)
    is_met = measured is not None and COMPARISONS[expectation.comparison](measured, expectation.bound)
    return Finding(expectation, measured, is_met)


def point_of(sketch: QuantileSketch, point: str) -> float:
    """A point of a distribution in seconds.

    :param point: a key of POINTS.
    """
    share = POINTS[point]
    if share is None:
        return sketch.mean
    if share == 0:
        return sketch.minimum
    return sketch.maximum if share == 1 else sketch.quantile(share)


def _measured(expectation: Expectation, statistics: Statistics, now: float) -> float | None:
    if expectation.subject == "rate":
        return statistics.rate(now)
    part, dot, point = expectation.subject.partition(".")
    if dot and part in PARTS:
        sketch = statistics.timings[part]
        return point_of(sketch, point) if sketch.count else None
    counts = {
        "failures": statistics.failed + statistics.dropped,
        "successes": statistics.successes,
        "late": statistics.late,
        "dropped": statistics.dropped,
    }
    intended = statistics.completed + statistics.dropped
    if expectation.subject == "late":
        intended = statistics.started_count + statistics.dropped
    if not intended:
        return None
    count = counts[expectation.subject]
    return count / intended if expectation.is_share else count
