"""Load plans: the load on a queue, and rates of arrivals in the open model.

Rates change over time; a curve has its integral and the inverse of the integral.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from enum import Enum
from itertools import accumulate, count, takewhile
from typing import Final

from fakedev.schema.declare import described, setting
from fakedev.schema.peer_addresses import NO_FILES, ClientTls


@dataclass
class Lines:
    """A rate of straight lines between points.

    :param points: (seconds, rate), the first at 0, the seconds not decreasing; two points at the same time are a step.
    :param ends: no arrivals after the last point; else its rate continues.
    """

    points: InitVar[Sequence[tuple[float, float]]]
    ends: InitVar[bool] = False
    _times: list[float] = field(init=False)
    _rates: list[float] = field(init=False)
    _counts: list[float] = field(init=False)
    _last_rate: float = field(init=False)

    def __post_init__(self, points: Sequence[tuple[float, float]], ends: bool) -> None:
        self._times = [seconds for seconds, _ in points]
        self._rates = [rate for _, rate in points]
        if self._times[0] != 0:
            raise ValueError("a rate begins at 0 s")
        self._last_rate = 0.0 if ends else self._rates[-1]
        self._counts = [0.0]
        for place in range(1, len(points)):
            width = self._times[place] - self._times[place - 1]
            if width < 0:
                raise ValueError(f"the times of a rate must not fall: {self._times[place]:g} s")
            self._counts.append(self._counts[-1] + width * (self._rates[place - 1] + self._rates[place]) / 2)
        if min(self._rates) < 0:
            raise ValueError("a rate must not be below 0")

    def rate(self, seconds: float) -> float:
        """Arrivals per second at this time of the run."""
        place = bisect_right(self._times, seconds)
        if place == len(self._times):
            return self._last_rate
        begin, end = self._times[place - 1], self._times[place]
        share = (seconds - begin) / (end - begin)
        return self._rates[place - 1] * (1 - share) + self._rates[place] * share

    def time_of(self, count: float) -> float:
        """When this number of arrivals is expected since the start; infinity for never."""
        place = bisect_right(self._counts, count)
        begin = self._times[place - 1]
        rest = count - self._counts[place - 1]
        if place == len(self._counts):
            if rest == 0 and begin > 0:
                return begin
            return begin + rest / self._last_rate if self._last_rate > 0 else math.inf
        width = self._times[place] - begin
        first, last = self._rates[place - 1], self._rates[place]
        # first * x + slope / 2 * x^2 = rest, in the numerically stable form.
        root = math.sqrt(max(0.0, first * first + 2 * (last - first) / width * rest))
        return begin + min(width, 2 * rest / (first + root)) if first + root > 0 else begin


@dataclass(frozen=True)
class Sine:
    """A sine wave around a mean, which first rises.

    :param mean: arrivals per second.
    :param amplitude: at most the mean.
    """

    mean: float
    amplitude: float
    period_seconds: float

    def __post_init__(self) -> None:
        if not 0 <= self.amplitude <= self.mean or self.mean <= 0:
            raise ValueError("a sine's mean must be above 0, and its amplitude between 0 and the mean")
        if self.period_seconds <= 0:
            raise ValueError("a sine's period must be above 0")

    @property
    def _turn(self) -> float:
        return 2 * math.pi / self.period_seconds

    def rate(self, seconds: float) -> float:
        """Arrivals per second at this time of the run."""
        return self.mean + self.amplitude * math.sin(self._turn * seconds)

    def time_of(self, count: float) -> float:
        """When this number of arrivals is expected since the start."""
        swing = 2 * self.amplitude / self._turn  # the integral is between mean * t and mean * t + swing
        low, high = max(0.0, (count - swing) / self.mean), count / self.mean
        for _ in range(60):
            middle = (low + high) / 2
            if self._count(middle) < count:
                low = middle
            else:
                high = middle
        return high

    def _count(self, seconds: float) -> float:
        return self.mean * seconds + self.amplitude / self._turn * (1 - math.cos(self._turn * seconds))


#: A rate over the seconds of a run; equal when it was made with equal values.
RateCurve = Lines | Sine


def constant(rate: float) -> Lines:
    """A constant rate."""
    return Lines([(0.0, rate)])


def ramp(first: float, last: float, seconds: float) -> Lines:
    """A linear change from one rate to another, which then continues."""
    return Lines([(0.0, first), (seconds, last)])


def steps(rates: Sequence[float], seconds: float) -> Lines:
    """Each rate for the same time; the last one continues."""
    points = []
    for place, rate in enumerate(rates):
        points += [(place * seconds, rate), ((place + 1) * seconds, rate)]
    return Lines(points)


def spike(base: float, peak: float, begin_seconds: float, seconds: float) -> Lines:
    """A constant rate with one peak."""
    end = begin_seconds + seconds
    return Lines([(0.0, base), (begin_seconds, base), (begin_seconds, peak), (end, peak), (end, base)])


#: The highest parallelism when a plan gives none.
MAX_PARALLEL: Final = 1_000_000
#: The suffixes of files of reports. They are here because the configuration and ``-help`` name them, but write none.
REPORT_SUFFIXES: Final = (".txt", ".json", ".csv", ".html")


class Spacing(Enum):
    """How arrivals are spread in the open model."""

    EVEN = "even"
    POISSON = "poisson"


@dataclass(frozen=True)
class ClosedLoad:
    """A fixed number of requests in flight: the next one starts when one has ended."""

    parallel: int = setting(
        "Closed model: requests under way at once, at the start.", default=1, high=MAX_PARALLEL, absent="1"
    )
    max_parallel: int = setting(
        "The highest number to which that may be raised.",
        default=2, high=MAX_PARALLEL, name="most-parallel", absent=str(MAX_PARALLEL),
    )  # fmt: skip
    delay_seconds: float = setting(
        "Time between the end of a request and the start of the next.", default=0.0, high=86_400, absent="0"
    )


@dataclass(frozen=True)
class OpenLoad:
    """Requests that arrive at given times, whether or not earlier ones have ended.

    :param curve: the rate over time.
    :param listed_seconds: a list of increasing arrivals instead of a curve.
    """

    curve: RateCurve | None = None
    listed_seconds: tuple[float, ...] = ()
    spacing: Spacing = setting("The spacing of arrivals.", default=Spacing.EVEN, name="arrivals", absent="even")
    seed: int = setting("Seed of Poisson arrivals.", default=1, high=2**63 - 1, absent="1")
    max_outstanding: int = setting(
        "Requests under way at once; further arrivals wait.",
        default=10_000, low=1, high=1_000_000, name="most-outstanding", absent="10000",
    )  # fmt: skip
    max_waiting: int = setting(
        "Arrivals that wait; further ones are dropped.",
        default=100_000, high=1_000_000, name="most-waiting", absent="100000",
    )  # fmt: skip

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

    :param json_lines: all requests on one connection, as JSON lines; else a connection for each, in bare JSON, as with
        the original program.
    :param tls: files for a frontend with TLS.
    """

    name: str = field(metadata=described("Name of the plan.", default_words="that of the queue"))
    queue: str = field(metadata=described("The queue that requests are put into."))
    load: ClosedLoad | OpenLoad
    frontend: str = field(metadata=described(
        "Where the queue's clients connect: HOST:PORT, tls://HOST:PORT or the path of a UNIX socket.", words="address",
        default_words="the first of queues.listen-clients, where this file has it; localhost:9997",
    ))  # fmt: skip
    arguments: tuple[str, ...] = setting("Arguments of each request.", default=())
    limit_seconds: float = setting("Run-time limit of each request.", default=0.0)
    json_lines: bool = True
    token_file: str = setting(
        "File with the frontend's token, read for each connection; with protocol: json.",
        default="", path="file", absent="none: no token",
    )  # fmt: skip
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
