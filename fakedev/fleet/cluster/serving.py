"""Inference services: requests that arrive, wait, run and end on replicas, and what this makes of their boards.

Each replica is a queue in front of an engine that batches: requests wait for room among those that run and for the
engine to read their prompts; a token takes longer the more run. Numbers of requests are means of a tick, not whole.
The boards follow the engine: their load is the share of time in which any request runs, their intensity grows with the
number that run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from fakedev.fleet.cluster.jobs import poisson_count
from fakedev.fleet.entities.randomness import Floats, Keys, normal, sub_keys, uniform
from fakedev.fleet.spec.cluster_spec import ServiceKind, daily
from fakedev.fleet.spec.limits import entity_key

#: Upper ends of the buckets of latencies and of tokens, as vLLM has them.
LATENCY_BUCKETS: Final = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
FIRST_TOKEN_BUCKETS: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)  # fmt: skip
TOKEN_BUCKETS: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
#: What is counted.
TOTALS: Final = ("prompt_tokens", "generation_tokens", "finished", "aborted")
HISTOGRAMS: Final[Mapping[str, tuple[float, ...]]] = {
    "time_to_first_token": FIRST_TOKEN_BUCKETS, "inter_token_latency": TOKEN_BUCKETS,
    "e2e_request_latency": LATENCY_BUCKETS, "request_queue_time": LATENCY_BUCKETS,
    "request_prefill_time": LATENCY_BUCKETS, "request_decode_time": LATENCY_BUCKETS,
}  # fmt: skip
#: A tick is done in steps of at most this length.
_STEP_SECONDS: Final = 2.0
_MOST_STEPS: Final = 30
#: How many times the requests that run may wait; clients of others give up.
_MOST_WAITING: Final = 10.0
#: The spread of latencies around their mean, and of the shares of replicas (logarithms).
_LATENCY_SPREAD: Final = 0.4
_SHARE_SPREAD: Final = 0.15
#: A service has half of its demand for 9 of 24 hours: GenTD26's pods for 10.
_DAY_EXPONENT: Final = 2.0
#: Demand changes by this from minute to minute, and from one quarter of an hour to the next (logarithms): fitted to
#: the autocorrelation of GenTD26's duty cycles within hours, and after 10 minutes and an hour, 0.29 and 0.23.
_MINUTE_SPREAD: Final = 0.25
_SLOW_SPREAD: Final = 0.35
_SLOW_SECONDS: Final = 900.0
#: How much of an engine that only reads prompts is missing for the next tokens of the others.
_READING_SLOWS: Final = 0.8
#: Lengths of requests that run one after the other, as multiples of the mean, at the given shares of all requests:
#: from 5,899 stretches of one or two minutes with work of GenTD26's pods, without the 8 % that have two requests.
_LENGTH_SHARES: Final = np.array([0.0, 0.03, 0.055, 0.11, 0.13, 0.2, 0.345, 0.627, 0.79, 0.863, 0.93, 0.97, 1.0])
_LENGTHS: Final = np.array([0.05, 0.25, 0.5, 0.73, 0.82, 0.9, 0.98, 1.06, 1.14, 1.22, 1.39, 1.5, 1.75]) / 1.0067
#: How much the usage differs from request to request (logarithm): the highest minutes of GenTD26's pods in stretches of
#: six minutes and more are from 25 to 48 % (p10 to p90), with a median of 33.
_USAGE_SPREAD: Final = 0.2
#: The highest usage while such a request reads its prompt; each lower one is as likely: GenTD26's pods often have a
#: minute of 0.1 to 0.7 % before one of 25 %, and 5 s at 0 to 30 % of 42 % make these.
_READING_USAGE: Final = 0.3
#: The replicas among which a load balancer chooses: the default of Envoy's choice_count (v3 API, LeastRequest).
_CHOICES: Final = 2
#: The share of an engine's intensity that a single request has.
_ONE_REQUEST: Final = 0.35
#: The autoscaler: how often it looks, its tolerance, and how long it waits before it takes replicas away: those of
#: Kubernetes' HorizontalPodAutoscaler.
SYNC_SECONDS: Final = 15.0
_TOLERANCE: Final = 0.1
_CALM_SECONDS: Final = 300.0


@dataclass
class Replica:
    """A replica and its engine.

    :ivar job: the name of the job that it is, and of its pod.
    :ivar ready_seconds: when it has loaded its model.
    :ivar busy: the share of the last tick in which a request ran; effort: how much of its intensity it used then.
    :ivar reading_seconds: for which it still reads prompts, if requests run one after the other.
    :ivar last_request: the number of the last request that came to it, if these run one after the other.
    :ivar totals: counters; prompt and generation tokens, requests.
    :ivar buckets: by histogram the observations in each bucket, and those above the last one.
    """

    job: str
    service: str
    key: int
    ready_seconds: float = math.inf
    workload_id: str = ""
    running: float = 0.0
    waiting: float = 0.0
    cache: float = 0.0
    busy: float = 0.0
    effort: float = 1.0
    reading_seconds: float = 0.0
    last_request: int = 0
    totals: dict[str, float] = field(default_factory=lambda: dict.fromkeys(TOTALS, 0.0))
    buckets: dict[str, Floats] = field(
        default_factory=lambda: {name: np.zeros(len(ends) + 1) for name, ends in HISTOGRAMS.items()}
    )
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(HISTOGRAMS, 0.0))


class Serving:
    """The replicas of all services.

    :ivar replicas: those that have boards, by the name of their job, the oldest first.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.replicas: dict[str, Replica] = {}
        self._wished: dict[str, list[tuple[float, int]]] = {}

    def demand(self, kind: ServiceKind, busiest: float, wall_seconds: float) -> float:
        """Requests of a service in a second."""
        of_day = kind.night + (1.0 - kind.night) * (0.5 + 0.5 * daily(wall_seconds, busiest)) ** _DAY_EXPONENT
        key = np.array([entity_key("service", kind.workload.name)], dtype=np.uint64)
        noise = 0.0
        for what, spread, length in (("demand", _MINUTE_SPREAD, 60.0), ("slow demand", _SLOW_SPREAD, _SLOW_SECONDS)):
            number, passed = divmod(wall_seconds / length, 1.0)
            one, other = (float(normal(self._seed, key, what, int(number) + later)[0]) for later in (0, 1))
            noise += spread * (one + (other - one) * passed)
        return float(kind.requests * of_day * math.exp(noise))

    def at_beginning(self, kind: ServiceKind, busiest: float, wall_seconds: float) -> int:
        """How many replicas a service has when a cluster begins: as many as its requests need."""
        least = kind.scale_at * kind.running
        token = kind.token_seconds + kind.crowded_seconds * least
        each = kind.prompt_tokens / kind.prefill_tokens + kind.output_tokens * token
        wanted = math.ceil(self.demand(kind, busiest, wall_seconds) * each / least)
        return min(max(wanted, kind.least), kind.most)

    def advance(
        self, kinds: Mapping[str, ServiceKind], busiest: float, wall_seconds: float, now_seconds: float, seconds: float,
        tick: int,
    ) -> None:  # fmt: skip
        """Do what the replicas do in a tick that begins now."""
        for name, kind in kinds.items():
            some = [replica for replica in self.replicas.values() if replica.service == name]
            ready = [replica for replica in some if replica.ready_seconds <= now_seconds]
            for replica in some:
                if replica.ready_seconds > now_seconds:
                    replica.busy, replica.effort = 0.02, 0.1
            if ready:
                self._serve(ready, kind, self.demand(kind, busiest, wall_seconds + seconds / 2.0), seconds, tick)

    def _serve(self, ready: Sequence[Replica], kind: ServiceKind, demand: float, seconds: float, tick: int) -> None:
        keys: Keys = np.array([replica.key for replica in ready], dtype=np.uint64)
        shares = np.exp(_SHARE_SPREAD * normal(self._seed, keys, "share", 0))
        prompt, output = kind.prompt_tokens, kind.output_tokens
        steps = min(max(math.ceil(seconds / _STEP_SECONDS), 1), _MOST_STEPS)
        arrivals = _Arrivals(self._seed, keys, demand * seconds / steps * shares / shares.sum(), tick, steps)
        serve = _one_by_one if kind.running == 1 else _batched
        running, waiting, began, ended, given_up, busy, held, queued, token = serve(ready, kind, arrivals, seconds)
        prefill = prompt / kind.prefill_tokens + token
        latencies = {
            "time_to_first_token": (queued + prefill, began), "inter_token_latency": (token, ended * output),
            "e2e_request_latency": (queued + prefill + output * token, ended), "request_queue_time": (queued, began),
            "request_prefill_time": (prefill, began), "request_decode_time": (output * token, ended),
        }  # fmt: skip
        for place, replica in enumerate(ready):
            replica.running, replica.waiting = float(running[place]), float(waiting[place])
            replica.cache = min(replica.running * (prompt + output / 2.0) / kind.cache_tokens, 1.0)
            replica.busy = float(busy[place])
            replica.effort = 1.0 if kind.running == 1 else _ONE_REQUEST + (1.0 - _ONE_REQUEST) * float(held[place])
            replica.totals["prompt_tokens"] += float(began[place]) * prompt
            replica.totals["generation_tokens"] += float(ended[place]) * output
            replica.totals["finished"] += float(ended[place])
            replica.totals["aborted"] += float(given_up[place])
        for name, (mean, counts) in latencies.items():
            seen = np.flatnonzero(counts)
            spread = _observed(mean[seen], counts[seen], HISTOGRAMS[name])
            sums = (mean * counts).tolist()
            for place, observed in zip(seen.tolist(), spread, strict=True):
                ready[place].buckets[name] += observed
                ready[place].sums[name] += sums[place]

    def wished(self, name: str, kind: ServiceKind, replicas: int, now_seconds: float) -> int:
        """How many replicas the autoscaler wants of a service that has some."""
        ready = [each for each in self.replicas.values() if each.service == name and each.ready_seconds <= now_seconds]
        wanted = max(replicas, kind.least)
        if ready:
            ratio = sum(each.running + each.waiting for each in ready) / len(ready) / (kind.scale_at * kind.running)
            if abs(ratio - 1.0) > _TOLERANCE:
                wanted = math.ceil(len(ready) * ratio)
        past = [wish for wish in self._wished.get(name, ()) if wish[0] > now_seconds - _CALM_SECONDS]
        self._wished[name] = [*past, (now_seconds, wanted)]
        wanted = max(number for _, number in self._wished[name])
        return min(max(wanted, kind.least), kind.most)


class _Arrivals(NamedTuple):
    """Requests that come to N replicas in a tick.

    :ivar mean: of each replica in a step, shape (N,).
    """

    seed: int
    keys: Keys
    mean: Floats
    tick: int
    steps: int


def _batched(ready: Sequence[Replica], kind: ServiceKind, arrivals: _Arrivals, seconds: float) -> tuple[Floats, ...]:
    """Engines that run many requests at once: numbers of requests are means.

    :returns: requests that run and wait at the end; that began, ended, gave up; the share of the time with any; the
        share of the room that is used; seconds in the queue, and for a token: each of shape (N,).
    """
    running = np.array([replica.running for replica in ready])
    waiting = np.array([replica.waiting for replica in ready])
    prompt, output, step, mean = kind.prompt_tokens, kind.output_tokens, seconds / arrivals.steps, arrivals.mean
    most = min(float(kind.running), kind.cache_tokens / (prompt + output / 2.0))
    began, ended, given_up, busy, held, queued, token = (np.zeros(len(ready)) for _ in range(7))
    for number in range(arrivals.steps):
        drawn = normal(arrivals.seed, arrivals.keys, f"requests {number}", arrivals.tick)
        waiting = waiting + np.maximum(mean + np.sqrt(mean) * drawn, 0.0)
        readable = np.minimum(waiting, kind.prefill_tokens * step / prompt)
        reading = readable * prompt / (kind.prefill_tokens * step)
        per_token = (kind.token_seconds + kind.crowded_seconds * running) / (1.0 - _READING_SLOWS * reading)
        # Between arrivals at an even rate and ends at a rate that is as high as many run: solved for the step.
        lasts = output * per_token
        stays = np.exp(-step / lasts)
        room = (most - running * stays) * step / (lasts * (1.0 - stays))
        taken = np.minimum(readable, np.maximum(room, 0.0))
        following = running * stays + taken / step * lasts * (1.0 - stays)
        done = running + taken - following
        mean_running = done * lasts / step
        waiting = waiting - taken
        left_alone = np.maximum(waiting - _MOST_WAITING * most, 0.0)
        busy += -np.expm1(-mean_running) / arrivals.steps
        waiting, running = waiting - left_alone, following
        began, ended, given_up = began + taken, ended + done, given_up + left_alone
        held, token = held + mean_running / most / arrivals.steps, token + per_token / arrivals.steps
        queued += waiting / np.maximum(taken / step, 1e-3) / arrivals.steps
    return running, waiting, began, ended, given_up, busy, held, queued, token


def _one_by_one(ready: Sequence[Replica], kind: ServiceKind, arrivals: _Arrivals, seconds: float) -> tuple[Floats, ...]:
    """Engines that run one request after the other, as for images: whole requests, of lengths that differ.

    The load balancer gives a request to the best of two replicas that it picks at random: the one with the fewest
    requests, among these to the one whose last request came first. By their usage GenTD26's pods had such a one.

    Parameters and result as of :func:`_batched`.
    """
    reads, works = kind.prompt_tokens / kind.prefill_tokens, kind.output_tokens * kind.token_seconds
    step, before = seconds / arrivals.steps, np.array([replica.running + replica.waiting for replica in ready])
    left, came, busy, queued = before * works, np.zeros(len(ready)), np.zeros(len(ready)), np.zeros(len(ready))
    reading = np.array([replica.reading_seconds for replica in ready])
    last = np.array([replica.last_request for replica in ready])
    key = np.array([entity_key("service", kind.workload.name)], dtype=np.uint64)
    for number in range(arrivals.steps):
        length = _lengths(arrivals.seed, arrivals.keys, number, arrivals.tick)
        total = poisson_count(float(arrivals.mean.sum()), arrivals.seed, key, f"requests {number}", arrivals.tick)
        each, more = divmod(total, len(ready))
        many = np.full(len(ready), float(each))
        order = np.lexsort((last, np.ceil(left / works)))
        picks = uniform(arrivals.seed, sub_keys(key, np.arange(_CHOICES * more, dtype=np.uint64)), f"replicas {number}",
                        arrivals.tick)
        best = order[(picks * len(ready)).astype(np.intp).reshape(-1, _CHOICES).min(axis=1)]
        np.add.at(many, best, 1.0)
        last[best] = last.max() + 1 + np.arange(more)
        left, reading, came = left + many * works * length, reading + many * reads * length, came + many
        read = np.minimum(reading, step)
        # A request that uses more of the board is done earlier.
        requests = sub_keys(arrivals.keys, last.astype(np.uint64))
        pace = np.exp(_USAGE_SPREAD * normal(arrivals.seed, requests, "usage", 0))
        loading = _READING_USAGE * uniform(arrivals.seed, requests, "loading", 0)
        used = np.minimum(left, (step - read) * pace)
        left, reading, busy = left - used, reading - read, busy + (used + loading * read) / seconds
        queued += left / arrivals.steps
    given_up = np.maximum(left / works - _MOST_WAITING, 0.0)
    there = left / works - given_up
    reading = np.where(given_up > 0, np.minimum(reading, there * reads), reading)
    for replica, number, later in zip(ready, last.tolist(), reading.tolist(), strict=True):
        replica.last_request, replica.reading_seconds = number, later
    running = np.minimum(there, 1.0)
    ended = np.maximum(before + came - given_up - there, 0.0)
    return running, there - running, came, ended, given_up, busy, busy, queued, np.full(len(ready), kind.token_seconds)


def _lengths(seed: int, keys: Keys, number: int, tick: int) -> Floats:
    """The lengths of the requests that come in a step, as multiples of their mean: shape as the keys."""
    return np.interp(uniform(seed, keys, f"length {number}", tick), _LENGTH_SHARES, _LENGTHS)


def _observed(mean: Floats, counts: Floats, ends: tuple[float, ...]) -> Floats:
    """Observations by bucket: as many as there are, lognormal around their means; shape (replicas, buckets + 1)."""
    apart = (np.log(np.array(ends))[None, :] - np.log(np.maximum(mean, 1e-6))[:, None]) / _LATENCY_SPREAD
    below = 1.0 / (1.0 + np.exp(-1.702 * np.clip(apart, -40.0, 40.0)))  # close to the normal distribution's
    parts = np.diff(below, prepend=0.0, append=1.0, axis=1)
    observed: Floats = parts * counts[:, None]
    return observed
