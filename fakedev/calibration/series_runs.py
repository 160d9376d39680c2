"""Runs as series of a Prometheus: an OpenMetrics text with times, or the answer to a query for raw samples."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fakedev.calibration.runs import OPTIONAL, REQUIRED, Run, RunError, Sample, run_of
from fakedev.exposition.captured import LABEL, SAMPLE
from fakedev.spec.errors import printable
from fakedev.spec.fleet import MetricName

_EOF: Final = "# EOF"
_SHOWN: Final = 60
#: Text format 0.0.4 has milliseconds, OpenMetrics has seconds.
_MILLISECONDS: Final = 1000.0


class Point(NamedTuple):
    """A sample of a series: where it was read, its time in seconds, its number."""

    place: str
    seconds: float
    number: float


class Series(NamedTuple):
    """The samples of a family with one set of labels."""

    family: str
    labels: Mapping[str, str]
    points: Sequence[Point]


def read_openmetrics(text: str, file: str) -> list[Series]:
    """The series of a text.

    :param file: its name, for errors.
    :raises RunError: for a line that is no sample, or one without a time.
    """
    lines = text.splitlines()
    per_second = 1.0 if any(line.rstrip() == _EOF for line in lines[-3:]) else _MILLISECONDS
    found: dict[tuple[str, str], list[Point]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        place, match = f"{file}:{number}", SAMPLE.fullmatch(line)
        if match is None:
            raise RunError(f"{place}: this is no sample: {printable(line[:_SHOWN])}")
        if match[4] is None:
            raise RunError(f"{place}: the sample has no time: fakedev render --openmetrics and promtool write it")
        key = match[1], match[2] or ""
        seconds, value = _number(match[4], place) / per_second, _number(match[3], place)
        found.setdefault(key, []).append(Point(place, seconds, value))
    return [Series(family, dict(LABEL.findall(labels)), points) for (family, labels), points in found.items()]


def read_answer(text: str, where: str) -> list[Series]:
    """The series of a Prometheus's answer to an instant query with a range, as ``up[30m]``.

    :param where: what was asked, for errors.
    :raises RunError: for an error of the server, or an answer of another form.
    """
    try:
        answer = json.loads(text)
        if answer["status"] != "success":
            raise RunError(f"{where}: {printable(str(answer.get('error')))[:300]}")
        return [_series(each, where) for each in answer["data"]["result"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, RunError):
            raise
        raise RunError(f"{where}: the answer is not that of a Prometheus: {printable(text[:_SHOWN])}") from None


def _series(result: Any, where: str) -> Series:
    labels = {str(name): str(value) for name, value in result["metric"].items()}
    points = [Point(where, _number(str(time), where), _number(str(value), where)) for time, value in result["values"]]
    return Series(labels.pop("__name__", ""), labels, points)


def run_of_series(
    series: Sequence[Series], names: Mapping[str, MetricName], only: Mapping[str, str], where: str
) -> Run:
    """The run of one board. Samples count at the times at which all that is required has one.

    :param names: quantity and unit of each family.
    :param only: labels that a series must have.
    :param where: what was read, for errors.
    :raises RunError: when a quantity is missing, when there are several boards, and as :func:`run_of`.
    """
    of_quantity: dict[str, tuple[Series, float]] = {}
    for each in series:
        name = names.get(each.family)
        if name is None or name.quantity not in (*REQUIRED, *OPTIONAL):
            continue
        if any(each.labels.get(label) != value for label, value in only.items()):
            continue
        other = of_quantity.setdefault(name.quantity, (each, name.factor))[0]
        if other is not each and other.family == each.family:
            raise RunError(f"{where}: several boards have {each.family}: {_choice(other.labels, each.labels)}")
    missing = [name for name in REQUIRED if name not in of_quantity]
    if missing:
        wanted = "; ".join(f"{quantity}: {_families(quantity, names)}" for quantity in missing)
        raise RunError(f"{where}: no series shows {', '.join(missing)}; families of the identity: {wanted}")
    at: dict[float, dict[str, float]] = {}
    places: dict[float, str] = {}
    for quantity, (found, factor) in of_quantity.items():
        for point in found.points:
            at.setdefault(point.seconds, {})[quantity] = point.number / factor
            places.setdefault(point.seconds, point.place)
    whole = [each for each in sorted(at) if all(name in at[each] for name in REQUIRED)]
    return run_of([Sample(places[each], each, at[each]) for each in whole], where)


def _number(text: str, place: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RunError(f"{place}: {printable(text)[:_SHOWN]!r} is no number that a board shows")
    return number


def _choice(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    """How to choose between series of two boards."""
    label = next((label for label in sorted(one) if one[label] != other.get(label)), "")
    if not label:
        return "their labels do not tell them apart"
    return f"choose one, as --only {label}={printable(one[label])[:_SHOWN]}"


def _families(quantity: str, names: Mapping[str, MetricName]) -> str:
    found = [family for family, name in names.items() if name.quantity == quantity]
    return " or ".join(found[:3]) or "none"
