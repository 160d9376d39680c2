"""What the values of a profile are: percent of load, shares of a device's maximum, bytes, counts.

Imports no NumPy: small commands use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fakedev.spec.units import parse_size
from fakedev.spec.value_functions import format_number, parse_number


@dataclass(frozen=True)
class Unit:
    """A unit of values; they are 0 or more.

    :param noun: what a value is called in messages.
    :param most: the highest value.
    :param parse: the number of a text; raises ValueError.
    :param suffix: what follows a number when it is written.
    """

    noun: str
    most: float
    parse: Callable[[str], float]
    suffix: str = ""

    def show(self, number: float) -> str:
        """A number of this unit as it is parsed again, to the last digit."""
        return format_number(number) + self.suffix

    def brief(self, number: float) -> str:
        """The same, rounded, for messages."""
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


#: Of the plain load: percent of the device.
LOAD: Final = Unit("load", 100.0, _plain)
#: Of what the device has at most.
SHARE: Final = Unit("share", 100.0, _percent, "%")
BYTES: Final = Unit("size", 2.0**60, _size)
BYTES_PER_SECOND: Final = Unit("rate", 2.0**60, _rate)
RATIO: Final = Unit("share", 1.0, _plain)
#: Of a bandwidth that is otherwise asked for as a share.
TRAFFIC: Final = Unit("rate", 2.0**60, _traffic, "B/s")
#: Of errors, in a second.
COUNTS_PER_SECOND: Final = Unit("rate", 1e9, _plain)
