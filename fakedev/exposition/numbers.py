"""Arrays to numbers as text, in the ways that exporters write them."""

from __future__ import annotations

from typing import Final

import numpy as np
import orjson
from numpy.typing import NDArray
from prometheus_client.utils import floatToGoString

from fakedev.exposition.identity import NumberFormat
from fakedev.sim.randomness import Floats

#: From here up, and below the second, Go and prometheus_client write an exponent and Ryu may not.
_LARGE: Final = 1e6
_SMALL: Final = 1e-4
_PAST_INT64: Final = 2.0**63


#: Whole numbers up to here have at most 15 digits, and so survive a division by a power of ten.
_EXACT: Final = 1e15
#: For whole numbers from 1e6 on: powers of ten above it.
_POWERS: Final = 10.0 ** np.arange(7, 16)


def formatted(values: Floats, number: NumberFormat) -> list[bytes]:
    """Each value as text: a list as long as ``values``."""
    if not np.isfinite(values).all():
        return _with_special_values(values, number)
    if number is NumberFormat.INT:
        return _split(orjson.dumps(np.rint(values).astype(np.int64), option=orjson.OPT_SERIALIZE_NUMPY))
    if number is NumberFormat.FIXED6:
        return [b"%.6f" % value for value in values.tolist()]
    numbers = _shortest(values, number)
    magnitude = np.abs(values)
    is_unusual = (magnitude >= _LARGE) | ((magnitude < _SMALL) & (magnitude > 0))
    if is_unusual.any():
        is_large = (values >= _LARGE) & (values < _EXACT) & (np.rint(values) == values)
        _write_exponents(numbers, values, np.flatnonzero(is_large))
        write = floatToGoString if number is NumberFormat.PYTHON else go_number
        for position in np.flatnonzero(is_unusual & ~is_large).tolist():
            numbers[position] = write(float(values[position])).encode()
    return numbers


def _shortest(values: Floats, number: NumberFormat) -> list[bytes]:
    """The shortest text that reads as the value, without exponent where Ryu writes none."""
    text = orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)
    if number is not NumberFormat.PYTHON:
        text = text.replace(b".0,", b",").replace(b".0]", b"]")
    return _split(text)


def _write_exponents(numbers: list[bytes], values: Floats, where: NDArray[np.int64]) -> None:
    """Write whole numbers from 1e6 to 1e15 with their exponent: those of one exponent by one call."""
    exponents = 6 + np.searchsorted(_POWERS, values[where], side="right")
    for exponent in np.unique(exponents).tolist():
        chosen = where[exponents == exponent]
        end = b"e+%02d" % exponent
        significands = _shortest(values[chosen] / 10.0**exponent, NumberFormat.GO)
        for position, text in zip(chosen.tolist(), significands, strict=True):
            numbers[position] = text + end


def _split(array: bytes) -> list[bytes]:
    return array[1:-1].split(b",") if len(array) > 2 else []


def _with_special_values(values: Floats, number: NumberFormat) -> list[bytes]:
    finite: NDArray[np.bool_] = np.isfinite(values)
    numbers = formatted(np.where(finite, values, 0.0), number)
    for position in np.flatnonzero(~finite).tolist():
        value = values[position]
        numbers[position] = b"NaN" if np.isnan(value) else b"+Inf" if value > 0 else b"-Inf"
    return numbers


def go_number(value: float) -> str:
    """A finite number as Go's ``%g`` and client_golang write it: shortest, with an exponent from 1e6 and below 1e-4.

    Source of the rule: documentation of Go's strconv.FormatFloat with format 'g' and precision -1.
    """
    if value == 0 or _SMALL <= abs(value) < _LARGE:
        return repr(value).removesuffix(".0")
    significant = repr(abs(value)).split("e")[0].replace(".", "").strip("0")
    return f"{value:.{len(significant) - 1}e}"
