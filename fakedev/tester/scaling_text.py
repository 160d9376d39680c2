"""The report of a scaling test, as text and as plain values."""

from __future__ import annotations

import math
from typing import Any, Final

from fakedev.tester.scaling import NEGLIGIBLE, Law, Scaling, growth

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
