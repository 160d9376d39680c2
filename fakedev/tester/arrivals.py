"""When requests are meant to start in the open model. Pure functions of the curve, a seed and a name."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from itertools import count

from fakedev.tester.rate_curve import RateCurve


def even_arrivals(curve: RateCurve) -> Iterator[float]:
    """Seconds after the start of each arrival, as even as the curve allows; ends when nothing more arrives."""
    for number in count():
        seconds = curve.time_of(number + 0.5)
        if math.isinf(seconds):
            return
        yield seconds


def poisson_arrivals(curve: RateCurve, seed: int, name: str) -> Iterator[float]:
    """Seconds after the start of each arrival of a Poisson process whose rate follows the curve.

    The gaps of a process of rate 1 are put through the inverse of the curve's integral.

    :param seed: with ``name``, decides them all: the same two give the same arrivals.
    """
    expected = 0.0
    for number in count():
        expected -= math.log1p(-_uniform(seed, name, number))
        seconds = curve.time_of(expected)
        if math.isinf(seconds):
            return
        yield seconds


def _uniform(seed: int, name: str, number: int) -> float:
    """A number in [0, 1) of 53 random bits."""
    digest = hashlib.blake2b(f"{seed}\0{name}\0{number}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
