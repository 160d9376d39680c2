"""Expectations as people write them: ``p99<2s``, ``failures<1%``, ``rate>=20/s``."""

from __future__ import annotations

import re
from typing import Final

from fakedev.config.rates import parse_rate
from fakedev.config.schema.schema import nearest_name
from fakedev.spec.units import parse_duration
from fakedev.tester.expectation import COUNTS, POINTS, Expectation
from fakedev.tester.statistics import PARTS

_FORM: Final = re.compile(r"\s*([^<>=\s]+)\s*(<=|>=|<|>)\s*([^<>=]+?)\s*")
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(%?)", re.ASCII)
#: All that can be expected of; a point alone is one of ``total``.
_SUBJECTS: Final = ("rate", *COUNTS, *POINTS, *(f"{part}.{point}" for part in PARTS for point in POINTS))


def parse_expectation(text: str) -> Expectation:
    """The expectation that a text says.

    :raises ValueError: saying what would be right.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:60]!r} is no expectation: give WHAT, one of < <= > >=, and a number, as p99<2s")
    subject, comparison, bound = match.groups()
    if subject not in _SUBJECTS:
        nearest = nearest_name(subject, _SUBJECTS)
        hint = f"did you mean {nearest}?" if nearest else f"there are rate, {', '.join(COUNTS)}, {', '.join(POINTS)}"
        raise ValueError(f"{text[:60]!r}: nothing is called {subject[:40]!r}; {hint}")
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
