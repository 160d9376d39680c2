"""Rates and their curves as users write them, ``20/s`` or ``ramp:5/s:50/s:60s``; expectations, ``p99<2s``."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from fakedev.base.errors import nearest_name
from fakedev.base.units import parse_duration, refuse_negative
from fakedev.schema.files import Unreadable
from fakedev.tester.expectation import COUNTS, POINTS, Expectation
from fakedev.tester.plan import Lines, OpenLoad, RateCurve, Sine, constant, ramp, spike, steps
from fakedev.tester.statistics import PARTS

_RATE: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(?:/(s|m|h))?", re.ASCII)
_UNIT_SECONDS: Final = {None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
#: One program cannot start more requests a second.
_LARGEST_RATE: Final = 1e6
#: The form of each curve, for messages, and its number of parts.
_FORMS: Final = {
    "ramp": ("RATE:RATE:DURATION", 3),
    "steps": ("RATE,RATE,...:DURATION", 2),
    "sine": ("MEAN:AMPLITUDE:PERIOD", 3),
    "spike": ("RATE:PEAK:BEGIN:DURATION", 4),
}
#: The columns of a CSV file.
_CURVE_COLUMNS: Final = ["seconds", "rate"]
_LIST_COLUMNS: Final = ["seconds"]
_FORM: Final = re.compile(r"([^<>=\s]++)\s*+(<=|>=|<|>)([^<>=]++)")
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(%?)", re.ASCII)
#: The subjects of expectations; a point without a subject is one of ``total``.
_SUBJECTS: Final = ("rate", *COUNTS, *POINTS, *(f"{part}.{point}" for part in PARTS for point in POINTS))


def parse_rate(text: str) -> float:
    """Requests per second of ``20/s``, ``20`` or ``1200/m``.

    :raises ValueError: with the correct form.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None:
        refuse_negative(text)
        raise ValueError(f"{text[:60]!r} is no rate: give a number with /s, /m or /h, as 20/s")
    rate = float(match[1]) / _UNIT_SECONDS[match[2]]
    if rate > _LARGEST_RATE:
        raise ValueError(f"{text[:60]!r} is too much: at most {_LARGEST_RATE:.0f}/s")
    return rate


def parse_open_load(text: str, read: Callable[[str], str]) -> OpenLoad:
    """The open load that a rate, a curve or ``csv:FILE`` stands for, with the defaults of all else.

    :param read: a file's text by its path; raises Unreadable.
    :raises ValueError: with the correct form.
    """
    kind, colon, rest = text.strip().partition(":")
    if not colon:
        rate = parse_rate(text)
        if not rate:
            raise ValueError(f"{text[:60]!r}: a rate must be above 0")
        return OpenLoad(constant(rate))
    if kind == "csv":
        try:
            return _table(read(rest), rest)
        except Unreadable as reason:
            raise ValueError(f"{rest[:200]}: {reason}") from None
    if kind not in _FORMS:
        raise ValueError(f"there is no curve {kind[:40]!r}: give a rate, or {', '.join(_FORMS)} or csv:FILE")
    form, count = _FORMS[kind]
    parts = rest.split(":")
    if len(parts) != count:
        raise ValueError(f"{text[:60]!r} is not {kind}:{form}")
    return OpenLoad(_curve(kind, parts))


def _curve(kind: str, parts: Sequence[str]) -> RateCurve:
    match kind:
        case "ramp":
            return _something(ramp(parse_rate(parts[0]), parse_rate(parts[1]), _length(parts[2])))
        case "steps":
            return _something(steps([parse_rate(part) for part in parts[0].split(",")], _length(parts[1])))
        case "sine":
            return Sine(parse_rate(parts[0]), parse_rate(parts[1]), _length(parts[2]))
        case _:
            base, peak = parse_rate(parts[0]), parse_rate(parts[1])
            return _something(spike(base, peak, parse_duration(parts[2]), _length(parts[3])))


def _length(text: str) -> float:
    seconds = parse_duration(text)
    if not seconds:
        raise ValueError("a curve's duration must be above 0")
    return seconds


def _something(curve: Lines) -> Lines:
    if math.isinf(curve.time_of(0.5)):
        raise ValueError("no request ever arrives with this curve")
    return curve


def _table(text: str, path: str) -> OpenLoad:
    """A curve or a list of arrivals from a CSV file."""
    rows = _rows(text, path)
    _, names = next(rows, (1, []))
    columns = [name.strip() for name in names]
    if columns not in (_CURVE_COLUMNS, _LIST_COLUMNS):
        raise ValueError(f"{path}:1: the columns must be seconds,rate (a curve) or seconds (arrivals)")
    numbers: list[list[float]] = []
    for line, row in rows:
        if not row:
            continue
        if len(row) != len(columns):
            raise ValueError(f"{path}:{line}: must have {len(columns)} columns, not {len(row)}")
        numbers.append([_number(cell, f"{path}:{line}") for cell in row])
        if len(numbers) > 1 and numbers[-1][0] < numbers[-2][0]:
            raise ValueError(f"{path}:{line}: the seconds must not fall")
    if not numbers:
        raise ValueError(f"{path}: has no rows")
    if columns == _LIST_COLUMNS:
        return OpenLoad(listed_seconds=tuple(seconds for (seconds,) in numbers))
    if numbers[0][0] != 0:
        raise ValueError(f"{path}:2: a curve begins at 0 seconds")
    try:
        return OpenLoad(_something(Lines([(seconds, rate) for seconds, rate in numbers], ends=True)))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _rows(text: str, path: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file, with the number of their last line."""
    rows = csv.reader(text.splitlines())
    try:
        yield from ((rows.line_num, row) for row in rows)
    except csv.Error as error:
        raise ValueError(f"{path}:{rows.line_num}: is not CSV: {error}") from None


def _number(cell: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1e9:
        raise ValueError(f"{where}: {cell[:40]!r} is no number from 0 to 1e9")
    return value


def parse_expectation(text: str) -> Expectation:
    """The expectation that a text describes.

    :raises ValueError: with the correct form.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:60]!r} is no expectation: give WHAT, one of < <= > >=, and a number, as p99<2s")
    subject, comparison, bound = match[1], match[2], match[3].strip()
    if subject not in _SUBJECTS:
        nearest = nearest_name(subject, _SUBJECTS)
        hint = f"did you mean {nearest}?" if nearest else f"there are rate, {', '.join(COUNTS)}, {', '.join(POINTS)}"
        raise ValueError(f"{text[:60]!r}: there is no {subject[:40]!r}; {hint}")
    try:
        if subject == "rate":
            return Expectation(text, subject, comparison, parse_rate(bound))
        if subject not in COUNTS:
            subject = subject if subject.partition(".")[0] in PARTS else f"total.{subject}"
            return Expectation(text, subject, comparison, parse_duration(bound))
    except ValueError as error:
        raise ValueError(f"{text[:60]!r}: {error}") from None
    number = _NUMBER.fullmatch(bound)
    if number is None:
        raise ValueError(f"{text[:60]!r}: {bound[:40]!r} is neither a number nor a share, as 1%")
    is_share = number[2] == "%"
    return Expectation(text, subject, comparison, float(number[1]) / (100 if is_share else 1), is_share)
