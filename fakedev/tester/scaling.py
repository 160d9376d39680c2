"""How throughput grows with the number of backends: the Universal Scalability Law, fitted to measurements; its report.

Neil Gunther, Guerrilla Capacity Planning (2007): the throughput of n is

    x(n) = x1 * n / (1 + contention * (n - 1) + coherency * n * (n - 1))

Contention is the share of serial work; coherency is the cost of coordination between each two. Without both the law
is a straight line; contention alone leads to a ceiling, coherency to a peak with a decline after it.

The report of a scaling test is text and plain values.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Quantiles of the confidence interval of 90 %.
_LOWER, _UPPER = 0.05, 0.95
_DRAWS: Final = 400
#: A smaller loss than this at the largest step is no limit.
NEGLIGIBLE: Final = 0.05


@dataclass(frozen=True)
class ScaleStep:
    """A measurement with one number of backends.

    :param rates: requests per second in each of several intervals.
    :param failures: requests without success.
    :param run_seconds, wait_seconds, communication_seconds: means of a request.
    """

    backends: int
    rates: tuple[float, ...]
    failures: int = 0
    run_seconds: float = 0.0
    wait_seconds: float = 0.0
    communication_seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Requests per second over the whole step."""
        return sum(self.rates) / len(self.rates)

    @property
    def relative_error(self) -> float:
        """The standard error of the rate, as a share of it."""
        count = len(self.rates)
        if count < 2 or not self.rate:
            return 0.0
        variance = sum((rate - self.rate) ** 2 for rate in self.rates) / (count - 1)
        return math.sqrt(variance / count) / self.rate


@dataclass(frozen=True)
class Law:
    """A fitted law.

    :param single: requests per second of one backend.
    :param contention: 0 to 1.
    :param coherency: 0 and up.
    """

    single: float
    contention: float
    coherency: float

    def rate(self, backends: float) -> float:
        """Requests per second with this number of backends."""
        loss = self.contention * (backends - 1) + self.coherency * backends * (backends - 1)
        return self.single * backends / (1 + loss)

    @property
    def peak_backends(self) -> float:
        """The number of backends with the highest throughput; infinity if it never falls."""
        if self.coherency <= 0:
            return math.inf
        return max(1.0, math.sqrt(max(0.0, 1 - self.contention) / self.coherency))

    @property
    def ceiling(self) -> float:
        """The highest throughput with any number of backends; infinity for no limit."""
        if self.coherency > 0:
            return self.rate(self.peak_backends)
        return self.single / self.contention if self.contention > 0 else math.inf

    @property
    def knee_backends(self) -> float:
        """Where the straight line of the first backend meets the ceiling: more backends bring little."""
        return self.ceiling / self.single


@dataclass(frozen=True)
class Doubling:
    """The effect of doubling the backends.

    :param speed_up: throughput after by throughput before.
    :param error: its standard error.
    """

    backends: int
    speed_up: float
    error: float


@dataclass(frozen=True)
class Scaling:
    """The analysis of all steps.

    :param knee_interval: the 90 % confidence interval of the knee; both ends may be infinite.
    :param hits_ceiling: whether a straight line up to a ceiling fits better than the law. The reason is a fully used
        resource; the law, which has no sharp bend, would explain it by coordination and predict a decline.
    """

    steps: tuple[ScaleStep, ...]
    doublings: tuple[Doubling, ...]
    law: Law | None
    knee_interval: tuple[float, float]
    hits_ceiling: bool = False


def scaling_of(steps: Sequence[ScaleStep], seed: int = 1) -> Scaling:
    """Analyse measured steps, in increasing numbers of backends.

    :param seed: of the random draws for the interval: the same steps have the same interval.
    """
    doublings = []
    for before, after in pairwise(steps):
        speed_up = after.rate / before.rate if before.rate else 0.0
        error = speed_up * math.hypot(before.relative_error, after.relative_error)
        doublings.append(Doubling(after.backends, speed_up, error))
    good = [step for step in steps if step.rate > 0]
    if len(good) < 2:
        return Scaling(tuple(steps), tuple(doublings), None, (math.nan, math.nan))
    backends = np.array([float(step.backends) for step in good])
    rates = np.array([step.rate for step in good])
    law = fit(backends, rates)
    interval = _knee_interval(good, backends, rates, law, seed)
    return Scaling(tuple(steps), tuple(doublings), law, interval, _hits_ceiling(backends, rates, law))


def fit(backends: Floats, rates: Floats) -> Law:
    """Fit the law by least squares of relative errors, without negative coefficients.

    n / x(n) is linear in 1 / x1, contention / x1 and coherency / x1. A coefficient that would be negative is 0, and the
    others are fitted again. With two numbers of backends coherency is 0, as it cannot be distinguished from contention.

    :param backends: shape (steps,), at least two different ones.
    :param rates: shape (steps,), above 0.
    """
    inverse = backends / rates
    columns = np.stack([np.ones_like(backends), backends - 1, backends * (backends - 1)], axis=1)
    most = 3 if len(set(backends.tolist())) > 2 else 2
    best: tuple[float, Law] | None = None
    for used in ([0, 1, 2], [0, 1], [0, 2], [0]):
        if max(used) >= most:
            continue
        # Dividing each row by its target makes its error relative.
        scaled = columns[:, used] / inverse[:, None]
        found, *_ = np.linalg.lstsq(scaled, np.ones_like(inverse), rcond=None)
        if found.min() < 0 or found[0] <= 0:
            continue
        values = dict(zip(used, found.tolist(), strict=True))
        law = Law(1 / values[0], min(1.0, values.get(1, 0.0) / values[0]), values.get(2, 0.0) / values[0])
        error = float(np.sum((scaled @ found - 1) ** 2))
        if best is None or error < best[0] - 1e-12:
            best = (error, law)
    assert best is not None  # [0] is always possible
    return best[1]


def _hits_ceiling(backends: Floats, rates: Floats, law: Law) -> bool:
    by_law = rates / np.array([law.rate(count) for count in backends.tolist()]) - 1
    errors = []
    for place in range(1, len(rates)):
        single, ceiling = float(np.mean(rates[:place] / backends[:place])), float(np.mean(rates[place:]))
        errors.append(float(np.sum((rates / np.minimum(single * backends, ceiling) - 1) ** 2)))
    # With two steps any line fits.
    return len(rates) > 2 and min(errors) < float(np.sum(by_law**2))


def _knee_interval(
    steps: Sequence[ScaleStep], backends: Floats, rates: Floats, law: Law, seed: int
) -> tuple[float, float]:
    """The confidence interval of the knee, from draws with the errors of the measurements and of the fit."""
    expected = np.array([law.rate(count) for count in backends.tolist()])
    residuals = rates / expected - 1
    freedom = max(1, len(steps) - 3)
    spread = math.sqrt(float(np.sum(residuals**2)) / freedom)
    errors = np.array([math.hypot(step.relative_error, spread) for step in steps])
    knees = []
    for draw in range(_DRAWS):
        factors = 1 + errors * np.array([_normal(seed, draw, step) for step in range(len(steps))])
        knees.append(fit(backends, expected * np.maximum(factors, 0.01)).knee_backends)
    knees.sort()
    return knees[int(_LOWER * _DRAWS)], knees[int(_UPPER * _DRAWS) - 1]


def _normal(seed: int, draw: int, step: int) -> float:
    """A draw of mean 0 and deviation 1, a pure function of its arguments: the sum of twelve uniforms less 6."""
    digest = hashlib.blake2b(f"{seed}\0{draw}\0{step}".encode(), digest_size=48).digest()
    return sum(int.from_bytes(digest[at : at + 4], "little") for at in range(0, 48, 4)) / 2**32 - 6


def growth(steps: Iterable[ScaleStep], part: str) -> float:
    """The growth of a part of a request from the first step to the last, in seconds."""
    found = [getattr(step, f"{part}_seconds") for step in steps]
    return float(found[-1] - found[0]) if found else 0.0


_STEP_NAMES: Final = ("backends", "rate", "failures", "run_seconds", "wait_seconds", "communication_seconds")


def scaling_text(scaling: Scaling, wanted: float) -> str:
    """The report as text.

    :param wanted: minimum speed-up of each doubling.
    """
    lines = ["Scaling", "=======", ""]
    lines.append(
        f"{'backends':>8}{'requests/s':>14}{'+-':>9}{'speed-up':>11}{'+-':>9}{'failures':>10}"
        f"{'run s':>10}{'wait s':>10}{'comm. s':>10}"
    )
    doublings = {doubling.backends: doubling for doubling in scaling.doublings}
    for step in scaling.steps:
        doubling = doublings.get(step.backends)
        speed_up = f"{doubling.speed_up:11.3f}{doubling.error:9.3f}" if doubling else f"{'':20}"
        lines.append(
            f"{step.backends:8}{step.rate:14.3f}{step.rate * step.relative_error:9.3f}{speed_up}{step.failures:10}"
            f"{step.run_seconds:10.4f}{step.wait_seconds:10.4f}{step.communication_seconds:10.4f}"
        )
    lines.append("")
    if scaling.law is not None:
        lines += _law_lines(scaling, scaling.law)
    lines += ["", *(verdicts(scaling, wanted) or [f"PASS: each doubling brought at least {wanted:g}"])]
    return "\n".join([*lines, ""])


def _law_lines(scaling: Scaling, law: Law) -> list[str]:
    low, high = scaling.knee_interval
    lines = [
        f"Universal Scalability Law: one backend {law.single:.3f}/s, contention {law.contention:.5f}, "
        f"coherency {law.coherency:.6f}"
    ]
    if _loss(scaling, law) < NEGLIGIBLE:
        most = scaling.steps[-1].backends
        lines.append(f"Knee: none up to {most} backends; it is not below {_number(low)}, nine chances in ten")
    else:
        interval = f"{_number(low)} to {_number(high)}, nine chances in ten"
        lines.append(f"Knee: {law.knee_backends:.1f} backends ({interval}), ceiling {law.ceiling:.3f}/s")
        if not math.isinf(law.peak_backends) and not scaling.hits_ceiling:
            lines.append(f"Peak: {law.peak_backends:.1f} backends; with more of them throughput falls")
    lines.append(f"Limit: {limiting_cause(scaling, law)}")
    return lines


def limiting_cause(scaling: Scaling, law: Law) -> str:
    """What limits throughput, in a sentence."""
    most = scaling.steps[-1].backends
    contention = law.contention * (most - 1)
    coherency = law.coherency * most * (most - 1)
    if _loss(scaling, law) < NEGLIGIBLE:
        return f"none up to {most} backends: throughput grows with them"
    if scaling.hits_ceiling:
        kind = "a ceiling: something that all share is fully used"
    elif contention >= coherency:
        kind = f"contention: {law.contention:.1%} of the work is done by one at a time, in something that all share"
    else:
        kind = "coordination: backends keep each other from their work, the more of them the more"
    parts = {part: growth(scaling.steps, part) for part in ("run", "wait", "communication")}
    where = max(parts, key=lambda part: parts[part])
    places = {
        "run": "runs get longer, so it is where the backends work (a device, a processor, a disk that they share)",
        "wait": "requests wait longer in the queue, so it is in taking them out of it",
        "communication": "the way between client and backend takes longer, so it is the frontend or the network",
    }
    first = scaling.steps[0]
    whole = first.run_seconds + first.wait_seconds + first.communication_seconds
    return f"{kind}; {places[where]}" if parts[where] > NEGLIGIBLE * whole else kind


def verdicts(scaling: Scaling, wanted: float) -> list[str]:
    """A line for each failed check; none if all passed."""
    lines = [
        f"FAIL: {step.failures} requests failed with {step.backends} backends"
        for step in scaling.steps
        if step.failures
    ]
    lines += [f"FAIL: nothing succeeded with {step.backends} backends" for step in scaling.steps if not step.rate]
    lines += [
        f"FAIL: doubling to {doubling.backends} backends brought {doubling.speed_up:.3f}, less than {wanted:g}"
        for doubling in scaling.doublings
        if doubling.speed_up < wanted
    ]
    return lines


def scaling_values(scaling: Scaling, wanted: float) -> dict[str, Any]:
    """The report as plain values for JSON; infinity is null."""
    law = scaling.law
    return {
        "steps": [{name.replace("_", "-"): getattr(step, name) for name in _STEP_NAMES} for step in scaling.steps],
        "doublings": [
            {"backends": doubling.backends, "speed-up": doubling.speed_up, "error": doubling.error}
            for doubling in scaling.doublings
        ],
        "law": None
        if law is None
        else {
            "single-rate": law.single,
            "contention": law.contention,
            "coherency": law.coherency,
            "knee-backends": _finite(law.knee_backends),
            "knee-interval": [_finite(end) for end in scaling.knee_interval],
            "peak-backends": _finite(law.peak_backends),
            "ceiling-rate": _finite(law.ceiling),
            "limit": limiting_cause(scaling, law),
        },
        "wanted-speed-up": wanted,
        "failures": verdicts(scaling, wanted),
    }


def _loss(scaling: Scaling, law: Law) -> float:
    """The loss at the last step according to the law, as a share of linear growth."""
    most = scaling.steps[-1].backends
    return 1 - law.rate(most) / (most * law.single)


def _number(value: float) -> str:
    return f"{value:.1f}" if math.isfinite(value) else "no limit"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
