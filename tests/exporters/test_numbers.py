"""Numbers as exporters write them, against prometheus_client's own way and the rules of Go."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.utils import floatToGoString

from fakedev.exporters.identity import NumberFormat
from fakedev.exporters.numbers import formatted, go_number

FINITE = st.floats(allow_nan=False, allow_infinity=False)
#: As they occur: whole numbers, sizes, ratios, times, beside anything at all.
VALUES = st.one_of(FINITE, st.integers(-(10**17), 10**17).map(float), st.floats(0, 1), st.floats(1e5, 1e7))
#: Where the ways part: bounds of the exponents, halves, and the ends of what a float holds.
EDGES = [
    0.0, -0.0, 1.0, -1.0, 0.5, 55.0, 69.85, 1e-4, 9.999e-5, 1e-5, 1e-7, 999999.0, 999999.9999999999, 1e6, 1000000.5,
    -1e6, 1048576.0, 7e12, 1e9, 9999999999.0, 1e10, 1.5e10, 123456789012.0, 1e15, 999999999999999.9, 1e16, 1.5e16,
    1e21, 1e22, 1.7952398414083004e9, 5e-324, 1.7976931348623157e308, 2.0**53, 2.0**63, 0.1 + 0.2,
    5.960464477539063e-08,
]  # fmt: skip


def written(values: list[float], number: NumberFormat) -> list[str]:
    return [text.decode() for text in formatted(np.array(values, dtype=np.float64), number)]


def as_client_python(value: float) -> str:
    """prometheus_client's own text; its older releases wrote e+010 for what is now e+10."""
    return re.sub(r"e\+0(\d\d)$", r"e+\1", floatToGoString(value))


def digits(text: str) -> str:
    """The significant digits of a number."""
    return text.lstrip("-").partition("e")[0].replace(".", "").strip("0")


#: What writes the same texts. Whole numbers past 64 bits must not turn negative.
ORACLES: dict[NumberFormat, Callable[[float], str]] = {
    NumberFormat.PYTHON: as_client_python,
    NumberFormat.INT: lambda value: f"{round(value)}",
    NumberFormat.FIXED6: lambda value: f"{value:.6f}",
    NumberFormat.DIGITS15: lambda value: f"{value:.15g}",
}


@pytest.mark.parametrize("number", ORACLES)
@given(values=st.lists(VALUES, max_size=20))
@example(values=EDGES)
@example(values=[-value for value in EDGES])
def test_as_another_writes(number: NumberFormat, values: list[float]) -> None:
    """For all finite numbers, in arrays of any length."""
    assert written(values, number) == [ORACLES[number](value) for value in values]


@given(values=st.lists(VALUES, max_size=20))
@example(values=EDGES)
@example(values=[-value for value in EDGES])
def test_go_writes_the_shortest_text(values: list[float]) -> None:
    """It reads as the same number, with the digits of Python's shortest text; an exponent from 1e6 on and below 1e-4.

    One digit is before the point; the exponent has a sign and at least two digits. prometheus_client has a trailing .0,
    and gives large negative numbers no exponent, or one at another place than Go.
    """
    for value, text in zip(values, written(values, NumberFormat.GO), strict=True):
        assert float(text) == value
        assert math.copysign(1, float(text)) == math.copysign(1, value)
        assert digits(text) == digits(repr(value))
        if value == 0 or 1e-4 <= abs(value) < 1e6:
            assert "e" not in text
            assert not text.endswith(".0")
        else:
            mantissa, _, exponent = text.lstrip("-").partition("e")
            assert len(mantissa.partition(".")[0]) == 1
            assert not mantissa.endswith((".", ".0"))
            assert exponent == f"{Decimal(repr(value)).adjusted():+03d}"
        if value > -1e6:
            assert text == as_client_python(value).removesuffix(".0")


#: Positive numbers of Python get Go's exponents from 1e6 on, negative ones keep Python's, from 1e16 on. Those of Go are
#: what strconv.FormatFloat(v, 'g', -1, 64) says. Halves go to the even neighbour, and there is no whole minus zero.
EXAMPLES: dict[NumberFormat, dict[float, str]] = {
    NumberFormat.PYTHON: {
        55: "55.0", 0: "0.0", 69.85: "69.85", 1048576: "1.048576e+06", 7e12: "7e+12", -1048576: "-1048576.0",
        -1e16: "-1e+16", 0.00002: "2e-05",
    },
    NumberFormat.GO: {
        0: "0", 55: "55", 12.5: "12.5", 100000: "100000", 999999: "999999", 1000000: "1e+06", 1048576: "1.048576e+06",
        -2500000: "-2.5e+06", 7e12: "7e+12", 123456789012: "1.23456789012e+11", 0.0001: "0.0001", 0.00001: "1e-05",
        0.0000123: "1.23e-05", 5e-324: "5e-324", 1e100: "1e+100",
    },
    NumberFormat.INT: {
        0.4: "0", -0.4: "0", 0.5: "0", 1.5: "2", 344.6: "345", -7: "-7", 1e15: "1000000000000000",
        2**63: "9223372036854775808",
    },
    NumberFormat.FIXED6: {69.85: "69.850000", 0: "0.000000", 1e9: "1000000000.000000"},
    NumberFormat.DIGITS15: {
        55: "55", 0: "0", 12.5: "12.5", 1234567.5: "1234567.5", 0.1 + 0.2: "0.3", 1e15: "1e+15",
        999999999999999: "999999999999999", 0.00001: "1e-05",
    },
}  # fmt: skip


@pytest.mark.parametrize("number", EXAMPLES)
def test_examples(number: NumberFormat) -> None:
    assert written([*EXAMPLES[number]], number) == [*EXAMPLES[number].values()]


def test_go_numbers_alone() -> None:
    """The function for one number, and minus zero."""
    assert [go_number(float(value)) for value in EXAMPLES[NumberFormat.GO]] == [*EXAMPLES[NumberFormat.GO].values()]
    assert (written([-0.0], NumberFormat.GO), go_number(-0.0)) == (["-0"], "-0")


@pytest.mark.parametrize("number", NumberFormat)
def test_in_every_format(number: NumberFormat) -> None:
    """What is no finite number is spelled as Prometheus reads it. A text depends neither on others nor on the array."""
    values = np.array([1.5, np.nan, np.inf, 2e7, -np.inf])
    texts = formatted(values, number)
    assert (texts[1], texts[2], texts[4]) == (b"NaN", b"+Inf", b"-Inf")
    assert [texts[0], texts[3]] == formatted(values[[0, 3]], number)
    assert written(EDGES, number) == [text for value in EDGES for text in written([value], number)]
    assert formatted(np.zeros(0), number) == []
    column = np.arange(12.0).reshape(3, 4)[:, 1]
    assert formatted(column, number) == formatted(np.array([1.0, 5.0, 9.0]), number)
