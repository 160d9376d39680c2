"""Durations and sizes as people write them."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.base.units import format_duration, parse_duration, parse_size
from fakedev.tester.rates import parse_rate


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("2d", 172_800),
        (" 15m ", 900),
        ("1h1m1s1ms", 3661.001),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "s", "--5s", "5 s", "5S", "1h 30m", "1m30", "1..5s", "1e3s", "nan", "infs", "5µs", "1,5s"]
)
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert str(caught.value) == f"{text!r} is no duration: give a number with ms, s, m, h or d, as 250ms or 1h30m"


def test_durations_end_after_300_years() -> None:
    """Beyond 1e10 seconds a float would lose the milliseconds."""
    assert parse_duration("10000000000s") == 1e10
    with pytest.raises(ValueError, match=r"^'10000000001s' is too long: at most 10000000000 seconds$"):
        parse_duration("10000000001s")


def test_a_long_text_is_refused_at_once() -> None:
    """Looking for units in 60,000 digits would delay all peers for a minute."""
    begun = time.process_time()
    for text in ("1" * 60_000, "1." * 30_000, "1s" * 30_000):
        with pytest.raises(ValueError, match="is no duration"):
            parse_duration(text)
        with pytest.raises(ValueError, match="is no size"):
            parse_size(text + "!")
    assert time.process_time() - begun < 20


@given(st.integers(0, 10**13))
def test_format_and_parse_duration(milliseconds: int) -> None:
    """Whole milliseconds are written so that they are read again."""
    seconds = milliseconds / 1000
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-15, abs=1e-6)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0"), (0.25, "250ms"), (1, "1s"), (90, "90s"), (300, "5m"), (5400, "90m"), (3600, "1h"), (172_800, "2d")],
)
def test_format_duration(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        ("512B", 512),
        ("80GB", 80 * 10**9),
        ("80 GiB", 80 * 2**30),
        ("1.5KiB", 1536),
        ("3kB", 3000),
        ("81559MiB", 81559 * 2**20),
        ("1TiB", 2**40),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "1 XB", "1mib", "1e9", "nan", "1GiB2"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_size(text)
    assert str(caught.value) == f"{text!r} is no size: give bytes, or a number with kB, MB, GB, KiB, MiB, GiB or TiB"


@pytest.mark.parametrize("text", ["2000000TiB", "9" * 400])
def test_sizes_end_at_an_exbibyte(text: str) -> None:
    with pytest.raises(ValueError, match="is too large: at most 1 EiB"):
        parse_size(text)


@pytest.mark.parametrize("parse", [parse_duration, parse_size, parse_rate])
@pytest.mark.parametrize("text", ["-5", "-5m", " -.5s", "-1KiB"])
def test_negative_numbers(parse: Callable[[str], float], text: str) -> None:
    with pytest.raises(ValueError, match=r"^' ?-[^']*' is negative: give at least 0$"):
        parse(text)
