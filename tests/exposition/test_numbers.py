"""Numbers as exporters write them, against prometheus_client's own way and the rules of Go."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.utils import floatToGoString

from fakedev.exposition.identity import NumberFormat
from fakedev.exposition.numbers import formatted, go_number

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


def written(value: float, number: NumberFormat) -> str:
    """One number as text."""
    return formatted(np.array([value], dtype=np.float64), number)[0].decode()


class TestPython:
    """As prometheus_client writes: always with a point or an exponent."""

    @given(st.lists(VALUES, max_size=20))
    @example(EDGES)
    @example([-value for value in EDGES])
    def test_equals_prometheus_client(self, values: list[float]) -> None:
        """For all finite numbers, in arrays of any length."""
        assert formatted(np.array(values, dtype=np.float64), NumberFormat.PYTHON) == [
            as_client_python(value).encode() for value in values
        ]

    @pytest.mark.parametrize(
        ("value", "text"),
        [(55, "55.0"), (0, "0.0"), (69.85, "69.85"), (1048576, "1.048576e+06"), (7e12, "7e+12"),
         (-1048576, "-1048576.0"), (-1e16, "-1e+16"), (0.00002, "2e-05")],
    )  # fmt: skip
    def test_examples(self, value: float, text: str) -> None:
        """Positive numbers get Go's exponents from 1e6 on, negative ones keep Python's, from 1e16 on."""
        assert written(value, NumberFormat.PYTHON) == text


class TestGo:
    """As Go's client writes: the shortest text, with an exponent from 1e6 on and below 1e-4."""

    @given(st.lists(VALUES, max_size=20))
    @example(EDGES)
    @example([-value for value in EDGES])
    def test_reads_as_the_same_number_and_is_the_shortest(self, values: list[float]) -> None:
        """No digit could be left out; the number of digits is that of Python's own shortest text."""
        for value, text in zip(values, formatted(np.array(values, dtype=np.float64), NumberFormat.GO), strict=True):
            assert float(text) == value
            assert math.copysign(1, float(text)) == math.copysign(1, value)
            assert digits(text.decode()) == digits(repr(value))

    @given(st.lists(VALUES, max_size=20))
    @example(EDGES)
    @example([-value for value in EDGES])
    def test_exponents(self, values: list[float]) -> None:
        """One digit before the point, a sign and at least two digits in the exponent; else no exponent at all."""
        for value, text in zip(values, formatted(np.array(values, dtype=np.float64), NumberFormat.GO), strict=True):
            if value == 0 or 1e-4 <= abs(value) < 1e6:
                assert b"e" not in text
                assert not text.endswith(b".0")
            else:
                mantissa, _, exponent = text.lstrip(b"-").partition(b"e")
                assert len(mantissa.partition(b".")[0]) == 1
                assert not mantissa.endswith((b".", b".0"))
                assert exponent.decode() == f"{Decimal(repr(value)).adjusted():+03d}"

    @given(VALUES)
    def test_equals_prometheus_client_but_for_what_that_has_of_its_own(self, value: float) -> None:
        """It has a trailing .0, and gives large negative numbers no exponent, or one at another place than Go."""
        if value > -1e6:
            assert written(value, NumberFormat.GO) == as_client_python(value).removesuffix(".0")

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0, "0"),
            (-0.0, "-0"),
            (55, "55"),
            (12.5, "12.5"),
            (100000, "100000"),
            (999999, "999999"),
            (1000000, "1e+06"),
            (1048576, "1.048576e+06"),
            (-2500000, "-2.5e+06"),
            (7e12, "7e+12"),
            (123456789012, "1.23456789012e+11"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.0000123, "1.23e-05"),
            (5e-324, "5e-324"),
            (1e100, "1e+100"),
        ],
    )
    def test_examples(self, value: float, text: str) -> None:
        """What strconv.FormatFloat(v, 'g', -1, 64) says."""
        assert written(value, NumberFormat.GO) == text
        assert go_number(float(value)) == text


class TestInt:
    """As an exporter of whole numbers writes."""

    @given(st.lists(st.floats(-1e300, 1e300), max_size=20))
    def test_the_nearest_whole_number(self, values: list[float]) -> None:
        """Also past 64 bits: another's counter may be large, and must not turn negative."""
        assert formatted(np.array(values, dtype=np.float64), NumberFormat.INT) == [
            b"%d" % round(value) for value in values
        ]

    @pytest.mark.parametrize(
        ("value", "text"),
        [(0.4, "0"), (-0.4, "0"), (0.5, "0"), (1.5, "2"), (344.6, "345"), (-7, "-7"), (1e15, "1000000000000000"),
         (2**63, "9223372036854775808")],
    )  # fmt: skip
    def test_examples(self, value: float, text: str) -> None:
        """Halves go to the even neighbour, and there is no minus zero."""
        assert written(value, NumberFormat.INT) == text


class TestFixed6:
    """As C's %f writes."""

    @given(st.lists(FINITE, max_size=20))
    def test_six_decimals(self, values: list[float]) -> None:
        """For any number."""
        texts = formatted(np.array(values, dtype=np.float64), NumberFormat.FIXED6)
        assert texts == [f"{value:.6f}".encode() for value in values]

    @pytest.mark.parametrize(("value", "text"), [(69.85, "69.850000"), (0, "0.000000"), (1e9, "1000000000.000000")])
    def test_examples(self, value: float, text: str) -> None:
        """Never an exponent."""
        assert written(value, NumberFormat.FIXED6) == text


class TestDigits15:
    """As C's %.15g writes."""

    @given(st.lists(FINITE, max_size=20))
    def test_fifteen_digits(self, values: list[float]) -> None:
        """For any number: the value that is read back is at most half a digit off."""
        texts = formatted(np.array(values, dtype=np.float64), NumberFormat.DIGITS15)
        assert texts == [f"{value:.15g}".encode() for value in values]

    @pytest.mark.parametrize(
        ("value", "text"),
        [(55, "55"), (0, "0"), (12.5, "12.5"), (1234567.5, "1234567.5"), (0.1 + 0.2, "0.3"), (1e15, "1e+15"),
         (999999999999999, "999999999999999"), (0.00001, "1e-05")],
    )  # fmt: skip
    def test_examples(self, value: float, text: str) -> None:
        """An exponent only from 1e15 on and below 1e-4."""
        assert written(value, NumberFormat.DIGITS15) == text


class TestAll:
    """What is so in every format."""

    @pytest.mark.parametrize("number", NumberFormat)
    def test_what_is_no_finite_number(self, number: NumberFormat) -> None:
        """Spelled as Prometheus reads them, and the others beside them stay what they are."""
        values = np.array([1.5, np.nan, np.inf, 2e7, -np.inf])
        texts = formatted(values, number)
        assert (texts[1], texts[2], texts[4]) == (b"NaN", b"+Inf", b"-Inf")
        assert [texts[0], texts[3]] == formatted(values[[0, 3]], number)

    @pytest.mark.parametrize("number", NumberFormat)
    def test_each_on_its_own(self, number: NumberFormat) -> None:
        """What a number looks like does not depend on those beside it."""
        together = formatted(np.array(EDGES), number)
        assert together == [formatted(np.array([value]), number)[0] for value in EDGES]

    @pytest.mark.parametrize("number", NumberFormat)
    def test_nothing(self, number: NumberFormat) -> None:
        """No values, no texts."""
        assert formatted(np.zeros(0), number) == []

    @pytest.mark.parametrize("number", NumberFormat)
    def test_arrays_that_are_parts_of_others(self, number: NumberFormat) -> None:
        """A column, or every second value, is as good as a separate array."""
        values = np.arange(12.0).reshape(3, 4)
        assert formatted(values[:, 1], number) == formatted(np.array([1.0, 5.0, 9.0]), number)


def as_client_python(value: float) -> str:
    """prometheus_client's own text; its older releases wrote e+010 for what is now e+10."""
    return re.sub(r"e\+0(\d\d)$", r"e+\1", floatToGoString(value))


def digits(text: str) -> str:
    """The significant digits of a number."""
    return text.lstrip("-").partition("e")[0].replace(".", "").strip("0")
