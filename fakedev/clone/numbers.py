"""The numbers of a page: how they are written, and the same number as a fact has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fakedev.exposition.identity import NumberFormat
from fakedev.exposition.numbers import formatted


def plain_number(text: str) -> str:
    """A number without an exponent, as facts that are numbers have it."""
    return np.format_float_positional(float(text), trim="-")


def format_of(numbers: Sequence[str], usual: NumberFormat) -> NumberFormat | None:
    """The format in which all numbers are written: the usual one, if they fit it; None where they fit none."""
    wanted = [number.encode() for number in numbers]
    values = np.array([float(number) for number in numbers])
    every = (usual, *NumberFormat)
    return next((each for each in every if formatted(values, each) == wanted), None)
