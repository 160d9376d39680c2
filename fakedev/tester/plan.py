"""Load plans: the load on a queue, and the arrivals of requests in the open model."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate, count, takewhile
from typing import Final

from fakedev.spec.client_tls import NO_FILES, ClientTls
from fakedev.tester.rate_curve import RateCurve

#: The suffixes of files of reports. They are here because the configuration and ``-help`` name them, but write none.
REPORT_SUFFIXES: Final = (".txt", ".json", ".csv", ".html")


class Spacing(Enum):
    """How arrivals are spread in the open model."""

    EVEN = "even"
    POISSON = "poisson"


@dataclass(frozen=True)
class ClosedLoad:
    """A fixed number of requests in flight: the next one starts when one has ended.

    :param parallel: at the start.
    :param max_parallel: maximum of later changes.
    :param delay_seconds: between the end of a request and the start of the next one.
    """

    parallel: int = 1
    max_parallel: int = 2
    delay_seconds: float = 0.0


@dataclass(frozen=True)
class OpenLoad:
    """Requests that arrive at given times, whether or not earlier ones have ended.

    :param curve: the rate over time.
    :param listed_seconds: a list of increasing arrivals instead of a curve.
    :param max_outstanding: maximum requests in flight; further arrivals wait.
    :param max_waiting: maximum waiting arrivals; further ones are dropped and counted.
    """

    curve: RateCurve | None = None
    listed_seconds: tuple[float, ...] = ()
    spacing: Spacing = Spacing.EVEN
    seed: int = 1
    max_outstanding: int = 10_000
    max_waiting: int = 100_000

    def arrivals(self, name: str) -> Iterator[float]:
        """Seconds after the start of each arrival.

        :param name: of the plan: plans with the same seed have different arrivals.
        """
        if self.curve is None:
            return iter(self.listed_seconds)
        if self.spacing is Spacing.POISSON:
            return poisson_arrivals(self.curve, self.seed, name)
        return even_arrivals(self.curve)


@dataclass(frozen=True)
class Plan:
    """A load on a queue.

    :param frontend: where the queue is: HOST:PORT, tls://HOST:PORT, or the path of a UNIX socket.
    :param limit_seconds: run-time limit of each request; 0 for none.
    :param json_lines: all requests on one connection, as JSON lines; else a connection for each, in bare JSON, as with
        the original program.
    :param token_file: has the frontend's token; empty for none.
    :param tls: files for a frontend with TLS.
    """

    name: str
    queue: str
    load: ClosedLoad | OpenLoad
    frontend: str
    arguments: tuple[str, ...] = ()
    limit_seconds: float = 0.0
    json_lines: bool = True
    token_file: str = ""
    tls: ClientTls = NO_FILES


def even_arrivals(curve: RateCurve) -> Iterator[float]:
    """Seconds after the start of each arrival, evenly spaced along the curve; ends if the curve does."""
    return _times(curve, (number + 0.5 for number in count()))


def poisson_arrivals(curve: RateCurve, seed: int, name: str) -> Iterator[float]:
    """Seconds after the start of each arrival of a Poisson process whose rate follows the curve.

    The inverse of the curve's integral transforms the gaps of a process of rate 1.

    :param seed: the same seed and name give the same arrivals.
    """
    return _times(curve, accumulate(-math.log1p(-_uniform(seed, name, number)) for number in count()))


def _times(curve: RateCurve, counts: Iterable[float]) -> Iterator[float]:
    """When each of these numbers of arrivals is expected, until the curve ends."""
    return takewhile(math.isfinite, map(curve.time_of, counts))


def _uniform(seed: int, name: str, number: int) -> float:
    """A number in [0, 1) of 53 random bits."""
    digest = hashlib.blake2b(f"{seed}\0{name}\0{number}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
