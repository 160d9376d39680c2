"""Numbers as text, in the formats of exporters."""

from __future__ import annotations

import math
import re
from operator import itemgetter
from typing import Final

import numpy as np
import orjson
from numpy.typing import NDArray

from fakedev.base.units import go_number, python_number
from fakedev.exporters.identity import NumberFormat
from fakedev.fleet.entities.randomness import Floats

#: From the first up, and below the second, Go and prometheus_client write an exponent; Ryu may not.
_LARGE: Final = 1e6
_SMALL: Final = 1e-4
#: The lowest number that int64 cannot hold.
_PAST_INT64: Final = 2.0**63
#: Whole numbers below this have at most 15 digits, so dividing them by a power of ten is exact enough.
_EXACT: Final = 1e15
#: From here up numbers are not precise enough to round decimals.
_SIX_DECIMALS: Final = 1e10
#: Formats of rounded numbers: the decimals, and the format of the result.
_DECIMALS: Final = {
    NumberFormat.GO_WHOLE: (0, NumberFormat.GO),
    NumberFormat.GO_FIXED2: (2, NumberFormat.GO),
    NumberFormat.GO_FIXED6: (6, NumberFormat.GO),
    NumberFormat.PYTHON_WHOLE: (0, NumberFormat.PYTHON),
}
#: Powers of ten, for exponents of whole numbers from 1e6.
_POWERS: Final = 10.0 ** np.arange(7, 16)
#: Texts that are numbers; no vendor writes other forms that Python accepts.
_WHOLE: Final = re.compile(r"0[xX][0-9a-fA-F]+")
_DECIMAL: Final = re.compile(r"-?\d+(\.\d+)?")


def number_of(text: str) -> float:
    """The number of a text, decimal or like ``0x1f``; NaN if it is none."""
    if _WHOLE.fullmatch(text):
        return float(int(text, 16))
    return float(text) if _DECIMAL.fullmatch(text) else math.nan


def formatted(values: Floats, number: NumberFormat) -> list[bytes]:
    """Each value as text: a list as long as ``values``."""
    if not len(values):
        return []
    magnitudes = np.abs(values)
    largest = np.maximum.reduce(magnitudes)
    if not largest < np.inf:
        return _with_special_values(values, number)
    if number is NumberFormat.INT:
        if largest >= _PAST_INT64:
            return [b"%d" % round(value) for value in values.tolist()]
        return _split(orjson.dumps(np.rint(values).astype(np.int64), option=orjson.OPT_SERIALIZE_NUMPY))
    if number is NumberFormat.FIXED6:
        return [b"%.6f" % value for value in values.tolist()]
    if number is NumberFormat.DIGITS15:
        return [b"%.15g" % value for value in values.tolist()]
    if number in _DECIMALS:
        is_small = magnitudes < _SIX_DECIMALS
        decimals, written = _DECIMALS[number]
        rounded = np.round(np.where(is_small, values, 0.0), decimals)
        return formatted(np.where(is_small, rounded, np.rint(values)), written)
    return _shortest(values, magnitudes, number)


def _shortest(values: Floats, magnitudes: Floats, number: NumberFormat) -> list[bytes]:
    """The shortest text of each value, with an exponent where the format has one."""
    unusual = np.flatnonzero((magnitudes >= _LARGE) | ((magnitudes < _SMALL) & (magnitudes > 0)))
    if not len(unusual):
        return _split(_without_exponents(values, number))
    candidates = values[unusual]
    is_whole = (candidates >= _LARGE) & (candidates < _EXACT) & (np.rint(candidates) == candidates)
    exponents = np.zeros(len(values), dtype=np.int64)
    exponents[unusual[is_whole]] = 6 + np.searchsorted(_POWERS, candidates[is_whole], side="right")
    first, last = int(exponents.min()), int(exponents.max())
    if first == last:
        texts = _with_exponent(values, first, number)
    else:
        order = np.argsort(exponents, kind="stable")
        ends = np.searchsorted(exponents[order], np.arange(first, last + 1), side="right").tolist()
        grouped: list[bytes] = []
        for exponent, end in enumerate(ends, first):
            if end > len(grouped):
                grouped += _with_exponent(values[order[len(grouped) : end]], exponent, number)
        places = np.empty(len(values), dtype=np.int64)
        places[order] = np.arange(len(values))
        texts = list(itemgetter(*places.tolist())(grouped))
    is_decimal = (candidates >= _LARGE) & (candidates < _EXACT) & ~is_whole
    if is_decimal.any():
        for position, text in zip(*_decimals_with_exponents(values, unusual[is_decimal]), strict=True):
            texts[position] = text
    write = go_number if number is NumberFormat.GO else python_number
    for position in unusual[~is_whole & ~is_decimal].tolist():
        texts[position] = write(float(values[position])).encode()
    return texts


def _with_exponent(values: Floats, exponent: int, number: NumberFormat) -> list[bytes]:
    """Whole numbers below 1e15 as significand and exponent; any numbers if the exponent is 0."""
    if not exponent:
        return _split(_without_exponents(values, number))
    end = b"e+%02d" % exponent
    significands = _without_exponents(values / 10.0**exponent, NumberFormat.GO)
    return _split(significands.replace(b",", end + b",").replace(b"]", end + b"]"))


def _decimals_with_exponents(values: Floats, places: NDArray[np.int64]) -> tuple[list[int], list[bytes]]:
    """The texts of the values at some places, which are not whole, from 1e6 and below 1e15; and their places."""
    exponents = 6 + np.searchsorted(_POWERS, values[places], side="right")
    found: list[int] = []
    texts: list[bytes] = []
    for exponent in np.unique(exponents).tolist():
        alike = places[exponents == exponent]
        # The digits are the shortest ones, and do not end with 0: only the point moves.
        written = _without_exponents(values[alike], NumberFormat.PYTHON)[1:-1].decode().split(",")
        end, point = f"e+{exponent:02d}", exponent + 1
        moved = [f"{text[0]}.{text[1:point]}{text[point + 1 :]}" for text in written]
        texts += ((end + ",").join(moved) + end).encode().split(b",")
        found += alike.tolist()
    return found, texts


def _without_exponents(values: Floats, number: NumberFormat) -> bytes:
    text = orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)
    if number is NumberFormat.GO and (np.rint(values) == values).any():
        text = text.replace(b".0,", b",").replace(b".0]", b"]")
    return text


def _split(array: bytes) -> list[bytes]:
    return array[1:-1].split(b",")


def _with_special_values(values: Floats, number: NumberFormat) -> list[bytes]:
    finite: NDArray[np.bool_] = np.isfinite(values)
    numbers = formatted(np.where(finite, values, 0.0), number)
    for position in np.flatnonzero(~finite).tolist():
        value = values[position]
        numbers[position] = b"NaN" if np.isnan(value) else b"+Inf" if value > 0 else b"-Inf"
    return numbers
