"""Durations, sizes and numbers as users write them: parsing, formatting, units of profile values. Imports no NumPy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_DURATION_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE_UNITS: Final = {
    "": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
# Possessive quantifiers: texts of peers cost linear time.
_PART: Final = re.compile(r"(\d++(?:\.\d++)?)(ms|s|m|h|d)")
_SIZE: Final = re.compile(r"(\d++(?:\.\d++)?)\s*+([A-Za-z]*+)")
_NUMBER: Final = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?")
#: Longer texts are no durations: to search one for its parts takes time that grows with the square of its length.
_MAX_CHARACTERS: Final = 64
#: How a negative number begins.
NEGATIVE: Final = re.compile(r"\s{0,9}-\.?[0-9]")
LONGEST_SECONDS: Final = 1e10  # some 300 years: beyond it a float loses the milliseconds


def refuse_negative(text: str) -> None:
    """Refuse a negative number, whose form is right but for that.

    :raises ValueError: for one.
    """
    if NEGATIVE.match(text):
        raise ValueError(f"{text[:_MAX_CHARACTERS]!r} is negative: give at least 0")


def parse_duration(text: str) -> float:
    """Seconds of ``250ms``, ``1.5s``, ``1h30m`` or ``0``.

    :raises ValueError: with a text that shows the right form.
    """
    stripped = text.strip()
    if stripped == "0":
        return 0.0
    parts = _PART.findall(stripped) if len(stripped) <= _MAX_CHARACTERS else []
    if not parts or "".join(number + unit for number, unit in parts) != stripped:
        refuse_negative(text)
        raise ValueError(f"{text!r} is no duration: give a number with ms, s, m, h or d, as 250ms or 1h30m")
    seconds = sum(float(number) * _DURATION_UNITS[unit] for number, unit in parts)
    if seconds > LONGEST_SECONDS:
        raise ValueError(f"{text!r} is too long: at most {LONGEST_SECONDS:.0f} seconds")
    return seconds


def format_duration(seconds: float) -> str:
    """A duration as :func:`parse_duration` reads it: the largest unit that keeps it whole."""
    milliseconds = round(seconds * 1000)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0"


def parse_size(text: str) -> int:
    """Bytes of ``512MiB``, ``80GB`` or ``1024``.

    :raises ValueError: with a text that shows the right form.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2] not in _SIZE_UNITS:
        refuse_negative(text)
        raise ValueError(f"{text!r} is no size: give bytes, or a number with kB, MB, GB, KiB, MiB, GiB or TiB")
    size = float(match[1]) * _SIZE_UNITS[match[2]]
    if not math.isfinite(size) or size > 2**60:
        raise ValueError(f"{text!r} is too large: at most 1 EiB")
    return round(size)


def parse_number(text: str) -> float:
    """A decimal number.

    :raises ValueError: for anything else, also for a number in Python's own form (1_000).
    """
    if "_" in text:
        raise ValueError(f"{text[:100]!r} is no number")
    return float(text)


def parse_seconds(text: str) -> float:
    """Seconds of a plain number, or of a duration such as 90s or 5m.

    :raises ValueError: for anything else.
    """
    return float(text) if _NUMBER.fullmatch(text.strip()) else parse_duration(text.strip())


def format_number(value: float) -> str:
    """The shortest text of a number that loses no digit."""
    return repr(int(value)) if value == int(value) else repr(value)


@dataclass(frozen=True)
class Unit:
    """A unit of values of 0 or more.

    :param noun: for a value in messages.
    :param most: the highest value.
    :param parse: the number of a text; raises ValueError.
    :param suffix: of a number's text.
    """

    noun: str
    most: float
    parse: Callable[[str], float]
    suffix: str = ""

    def show(self, number: float) -> str:
        """The text of a number of this unit, without loss of a digit."""
        return format_number(number) + self.suffix

    def brief(self, number: float) -> str:
        """The rounded text, for messages."""
        return f"{number:g}{self.suffix}"


def _plain(text: str) -> float:
    try:
        return parse_number(text)
    except ValueError:
        raise ValueError(f"{text[:100]!r} is no number") from None


def _percent(text: str) -> float:
    number = text.removesuffix("%")
    if number == text and text.strip() != "0":
        raise ValueError(f"{text[:100]!r} has no %: where one value is a share of the device's maximum, all are")
    return _plain(number)


def _size(text: str) -> float:
    try:
        return parse_number(text)
    except ValueError:
        return float(parse_size(text))


def _rate(text: str) -> float:
    return _size(text.removesuffix("/s"))


def _traffic(text: str) -> float:
    bare = text.removesuffix("/s")
    try:
        return parse_number(bare.removesuffix("B"))
    except ValueError:
        return float(parse_size(bare))


#: For plain load: percent of the device.
LOAD: Final = Unit("load", 100.0, _plain)
#: For shares of the device's maximum.
SHARE: Final = Unit("share", 100.0, _percent, "%")
BYTES: Final = Unit("size", 2.0**60, _size)
BYTES_PER_SECOND: Final = Unit("rate", 2.0**60, _rate)
RATIO: Final = Unit("share", 1.0, _plain)
#: For a bandwidth that is usually a share.
TRAFFIC: Final = Unit("rate", 2.0**60, _traffic, "B/s")
#: Processors, which work may need a part of.
CORES: Final = Unit("number of cores", 1e6, _plain)
#: For errors.
COUNTS_PER_SECOND: Final = Unit("rate", 1e9, _plain)


def go_number(value: float) -> str:
    """A finite number as Go's ``%g`` and client_golang write it: shortest, with an exponent from 1e6 and below 1e-4.

    Source of the rule: documentation of Go's strconv.FormatFloat with format 'g' and precision -1.
    """
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return repr(value).removesuffix(".0")
    # The digits of repr are the shortest that parse to the value; rounding to as many digits may give others.
    written, _, power = repr(abs(value)).partition("e")
    whole, _, fraction = written.partition(".")
    digits = (whole + fraction).rstrip("0")
    point = "." if len(digits) > 1 else ""
    return f"{'-' if value < 0 else ''}{digits[0]}{point}{digits[1:]}e{int(power or 0) + len(whole) - 1:+03d}"


def python_number(value: float) -> str:
    """A number as prometheus_client writes it: like Python, but 1.048576e+06 with an exponent from 1e6 up.

    Its own function would do, but to import that library takes too long for ``fakedev-exporter``.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    text = repr(float(value))
    point = text.find(".")
    if value <= 0 or point <= 6:
        return text
    digits = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
    return f"{digits}e+{point - 1:02d}"


def number_of(value: object) -> float | None:
    """A number as a float; None for anything else, also for True and for numbers too large for a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
