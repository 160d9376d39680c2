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


def formatted(values: Floats, number: NumberFormat) -> list[bytes]:
    """Each value as text: a list as long as ``values``."""
    if not np.isfinite(values).all():
        return _with_special_values(values, number)
    if number is NumberFormat.INT:
        return _split(orjson.dumps(np.rint(values).astype(np.int64), option=orjson.OPT_SERIALIZE_NUMPY))
    if number is NumberFormat.FIXED6:
        return [b"%.6f" % value for value in values.tolist()]
    text = orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)
    write = go_number
    if number is NumberFormat.PYTHON:
        write = floatToGoString
    else:
        text = text.replace(b".0,", b",").replace(b".0]", b"]")
    numbers = _split(text)
    magnitude = np.abs(values)
    unusual = np.flatnonzero((magnitude >= _LARGE) | ((magnitude < _SMALL) & (magnitude > 0)))
    for position, value in zip(unusual.tolist(), values[unusual].tolist(), strict=True):
        numbers[position] = write(value).encode()
    return numbers


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
