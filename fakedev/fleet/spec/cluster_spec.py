"""A living cluster as frozen values: the jobs that arrive, the services that always run, and how they fail."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Final

from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.schema.declare import described, setting

_HOUR: Final = 3600.0
_DAY: Final = 24.0 * _HOUR
#: Days from a Monday to 1970-01-01, a Thursday.
THURSDAY: Final = 3
_LONGEST: Final = 365.0 * _DAY
_NORMAL: Final = NormalDist()


@dataclass(frozen=True)
class JobKind:
    """One kind of jobs.

    :param workload: what runs on the boards, without devices, pod and memory.
    :param sizes: numbers of boards, each with its weight.
    :param memory: quantiles of the memory that jobs hold, as shares of a board's: the least, the most, and between them
        as many as are given, in equal steps.
    """

    workload: WorkloadSpec
    sizes: tuple[tuple[int, float], ...]
    lasts_seconds: float = field(metadata=described(
        "The median of its length; lengths have a lognormal distribution.", low=1, high=_LONGEST))
    share: float = setting("Its part of all requested boards times hours, relative to the other kinds.",
                           default=1.0, low=0)
    spread: float = setting("16 % of the jobs last longer than the median times this, and 16 % less than it divided by "
                            "this.", default=3.0, low=1, high=100)
    longest_seconds: float = setting("The longest length.", default=30 * _DAY, low=1, high=_LONGEST)
    memory: tuple[float, ...] = (0.1, 0.9)
    varies: float = setting("How much jobs differ: the intensity of each is multiplied by a number of its own from 1 "
                            "minus this to 1 plus this.", default=0.0, low=0, high=1)
    failing: float = setting("The share of jobs that fail by an error of their own, of which a seventh runs out of "
                             "memory.", default=0.0, low=0, high=1)
    failing_after_seconds: float = setting("The median of the time after which these fail.", default=120.0, low=1,
                                           high=_LONGEST)
    checkpoint_seconds: float = setting("The time between checkpoints: a job that hardware has ended comes back and "
                                        "goes on from the last one; 0: from its beginning.", default=0.0, low=0,
                                        high=_LONGEST)
    ending_seconds: float = setting("How long it holds its boards after the work, to write results.", default=15.0,
                                    low=0, high=_DAY)

    @property
    def mean_seconds(self) -> float:
        """The mean length: of a lognormal distribution, cut at the longest."""
        return mean_length(self.lasts_seconds, self.spread, self.longest_seconds)


def mean_length(median: float, spread: float, longest: float) -> float:
    """The mean of a lognormal length that is cut at the longest one."""
    sigma = math.log(spread)
    if not sigma:
        return min(median, longest)
    cut = math.log(longest / median) / sigma
    return median * math.exp(sigma**2 / 2.0) * _NORMAL.cdf(cut - sigma) + longest * (1.0 - _NORMAL.cdf(cut))


def length_at_work(kind: JobKind, score: float) -> float:
    """The length of a job that is met at work: of these lengths weighted by themselves.

    :param score: drawn from a normal distribution.
    """
    sigma = math.log(kind.spread)
    if not sigma:
        return kind.mean_seconds
    whole = kind.lasts_seconds * math.exp(sigma**2 / 2.0)
    # The weights of the longest add up to less than the uncut distribution has there.
    share = _NORMAL.cdf(score) * kind.mean_seconds / whole
    if share >= _NORMAL.cdf(math.log(kind.longest_seconds / kind.lasts_seconds) / sigma - sigma):
        return kind.longest_seconds
    return kind.lasts_seconds * math.exp(sigma**2 + sigma * _NORMAL.inv_cdf(share))


@dataclass(frozen=True)
class ServiceKind:
    """Replicas of one model behind a load balancer, with an autoscaler.

    :param workload: what runs on the boards of a replica, at the load of a busy engine.
    """

    workload: WorkloadSpec
    model: str = setting("Name of the model, as its page shows it.", default="meta-llama/Llama-3.1-70B-Instruct")
    boards: int = setting("Boards of a replica: its tensor parallel size.", default=1, low=1, high=64)
    least: int = setting("The fewest replicas.", default=1, low=1, high=1000)
    most: int = setting("The most replicas.", default=4, low=1, high=1000)
    requests: float = setting("Requests at the busiest time of the day.", "requests a second", default=10.0, low=0,
                              high=1e5)
    night: float = setting("Requests at the quietest time, as a share of the busiest.", default=0.2, low=0, high=1)
    prompt_tokens: float = setting("Tokens of a prompt, on average.", default=900.0, low=1, high=1e6)
    output_tokens: float = setting("Tokens of an answer, on average.", default=250.0, low=1, high=1e6)
    running: int = setting("The most requests that a replica runs at once (max_num_seqs); 1: one after the other, of "
                           "lengths that differ, as for images.", default=256, low=1,
                           high=10_000)
    cache_tokens: float = setting("Tokens for which the KV cache of a replica has room.", default=400_000.0, low=1,
                                  high=1e9)
    prefill_tokens: float = setting("Tokens of prompts that a replica reads in a second.", default=12_000.0, low=1,
                                    high=1e7)
    token_seconds: float = setting("The time from token to token of a single request.", "seconds", default=0.018,
                                   low=1e-4, high=10, name="seconds-per-token")
    crowded_seconds: float = setting("How much longer that takes for each other request that runs.", "seconds",
                                     default=0.00025, low=0, high=1, name="seconds-per-other")
    scale_at: float = setting("Requests that run or wait in each replica, at which the autoscaler adds another one, as "
                              "a share of the most that it runs.", default=0.6, low=0.01, high=10)
    loading_seconds: float = setting("How long a new replica takes to load the model.", default=180.0, low=0, high=_DAY)


@dataclass(frozen=True)
class ClusterSpec:
    """A living cluster on the boards of a fleet."""

    load: float = setting("Boards that jobs request at a time, on average over a week, as a share of all boards.",
                          default=0.85, low=0.01, high=5)
    day: float = setting("How many more jobs come at the busiest hour than on average, as a share; as many fewer come "
                         "twelve hours later.", default=0.5, low=0, high=1)
    busiest: float = setting("The busiest hour.", "hour of the day, UTC", default=14.0, low=0, high=24)
    weekend: float = setting("Arrivals on a Saturday or Sunday, as a share of a weekday's.",
                             default=0.6, low=0, high=5)
    failure_hours: float = setting("Boards times hours between two failures of hardware or system software.",
                                   default=50_700.0, low=1, high=1e9)
    repair_seconds: float = setting("The median time until a failed board or node is back.", default=4 * _HOUR, low=1,
                                    high=_LONGEST)
    jobs: tuple[JobKind, ...] = field(default=())
    services: tuple[ServiceKind, ...] = field(default=())

    def arrival_share(self, wall_seconds: float) -> float:
        """How often jobs arrive at a time, relative to the mean of a week."""
        days, second = divmod(wall_seconds, _DAY)
        is_weekend = (int(days) + THURSDAY) % 7 >= 5
        of_day = (self.weekend if is_weekend else 1.0) * 7.0 / (5.0 + 2.0 * self.weekend)
        return of_day * (1.0 + self.day * daily(second, self.busiest))


def daily(wall_seconds: float, busiest: float) -> float:
    """1 at the busiest hour of a day, -1 twelve hours later."""
    return math.cos(2.0 * math.pi * (wall_seconds - busiest * _HOUR) / _DAY)
