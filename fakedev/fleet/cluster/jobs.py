"""The jobs of a cluster: when they arrive, how large and long they are, and how they end.

All is drawn by seed, kind and minute, whatever the length of a tick.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from fakedev.fleet.entities.naming import generated_name
from fakedev.fleet.entities.randomness import Keys, hashes, normal, sub_keys, uniform
from fakedev.fleet.spec.cluster_spec import ClusterSpec, JobKind, ServiceKind, length_at_work
from fakedev.fleet.spec.limits import entity_key
from fakedev.fleet.spec.quantities import quantity_name
from fakedev.fleet.spec.value_functions import Function
from fakedev.fleet.spec.workload_spec import Activities, Activity, Intensity, MetricUse, WorkloadSpec

#: Time for which arrivals are drawn at once.
SLOT_SECONDS: Final = 60.0
#: The most that arrive at once: jobs of a kind in a minute, requests of a service in a step.
_MOST_AT_ONCE: Final = 100_000
#: A mean from which a normal distribution is close enough.
_MANY: Final = 50.0
_MEMORY: Final = quantity_name("memory")
#: A job's memory fills within this time.
_FILLING_SECONDS: Final = 120.0
#: Of jobs that fail by themselves, those that run out of memory (Acme, arXiv 2403.07648, table 3, reduced to jobs).
_OUT_OF_MEMORY: Final = 1.0 / 7.0
#: The time after which NCCL's watchdog of PyTorch ends a job whose ranks wait for each other.
WATCHDOG_SECONDS: Final = 600.0


class Cause(NamedTuple):
    """Why a job ends before its work is done.

    :ivar fault: the kind of the fault that strikes one of its boards, or the node; empty: none.
    :ivar code: of an XID.
    :ivar hangs: its ranks wait for each other until the watchdog ends it.
    """

    text: str
    weight: float = 0.0
    fault: str = ""
    code: int = 0
    hangs: bool = False


#: The 419 unexpected interruptions of 54 days on 16,384 H100s (The Llama 3 Herd of Models, arXiv 2407.21783, table 5):
#: faulty boards; HBM and SRAM; the board's own processor; software; network, watchdog and corrupt data; hosts.
CAUSES: Final = (
    Cause("a board has fallen off the bus (XID 79)", 148 + 6, "lost"),
    Cause("uncorrectable memory error (XID 95)", 72 + 19, "xid", 95),
    Cause("GSP timeout (XID 119)", 17, "xid", 119),
    Cause("exited with code 1", 54 + 2),
    Cause("NCCL watchdog timeout", 35 + 7 + 7 + 6, hangs=True),
    Cause("the node is down", 32 + 3 + 3 + 2 + 2 + 2 + 2, "node-down"),
)
_ERROR: Final = Cause("exited with code 1")
_NO_MEMORY: Final = Cause("CUDA out of memory")


@dataclass(slots=True)
class ClusterJob:
    """A job that waits or runs.

    :ivar key: of its randomness.
    :ivar arrived_seconds: when it came, or came back.
    :ivar left_seconds: the work that is left.
    :ivar until_seconds: when its present phase ends.
    :ivar lag_seconds: what slow boards have added to that.
    :ivar cause: why it will end early; None: it will finish.
    :ivar workload_ids: of its present phase, one for each node; empty while it waits.
    :ivar words: the device words of its boards on each node.
    :ivar is_settled: it ran before the first tick: its beginning is over.
    """

    kind: str
    name: str
    key: int
    size: int
    arrived_seconds: float
    left_seconds: float
    attempt: int = 0
    began_seconds: float = 0.0
    until_seconds: float = math.inf
    lag_seconds: float = 0.0
    phase: str = "waiting"
    cause: Cause | None = None
    workload_ids: tuple[str, ...] = ()
    is_settled: bool = False
    words: tuple[tuple[str, ...], ...] = ()

    @property
    def words_of_key(self) -> Keys:
        """Its key, as draws take it."""
        return np.array([self.key], dtype=np.uint64)


def poisson_count(mean: float, seed: int, key: Keys, quantity: str, tick: int) -> int:
    """How many arrive, at most 100,000: a Poisson distribution; by the normal distribution for large means.

    :param key: of the draw, shape (1,).
    """
    if mean > _MANY:
        drawn = float(normal(seed, key, quantity, tick)[0])
        return min(max(round(mean + math.sqrt(mean) * drawn), 0), _MOST_AT_ONCE)
    drawn = float(uniform(seed, key, quantity, tick)[0])
    term = total = math.exp(-mean)
    count = 0
    while total <= drawn and count < _MOST_AT_ONCE - 1:
        count += 1
        term *= mean / count
        total += term
    return count


class Arrivals:
    """Draws the jobs of a cluster.

    :param largest: the most boards that a job can have.
    :param boards: of the cluster.
    """

    def __init__(self, seed: int, spec: ClusterSpec, boards: int, largest: int) -> None:
        self._seed, self._spec = seed, spec
        self._kinds: dict[str, tuple[JobKind, Sequence[tuple[int, float]], float]] = {}
        asked = sum(kind.share for kind in spec.jobs) or 1.0
        for kind in spec.jobs:
            sizes = [(size, weight) for size, weight in kind.sizes if size <= largest and weight > 0]
            total = sum(weight for _, weight in sizes)
            if sizes and kind.share:
                sizes = [(size, weight / total) for size, weight in sizes]
                of_each = sum(size * weight for size, weight in sizes) * kind.mean_seconds
                rate = spec.load * boards * kind.share / asked / of_each
                self._kinds[kind.workload.name] = (kind, sizes, rate)

    def in_slot(self, slot: int, epoch_seconds: float) -> list[ClusterJob]:
        """The jobs that arrive in a minute, in order."""
        share = self._spec.arrival_share(epoch_seconds + slot * SLOT_SECONDS)
        found: list[ClusterJob] = []
        for name, (kind, sizes, rate) in self._kinds.items():
            key = np.array([entity_key("cluster", name)], dtype=np.uint64)
            count = poisson_count(rate * share * SLOT_SECONDS, self._seed, key, "arrivals", slot)
            if count:
                numbers = np.uint64(slot * _MOST_AT_ONCE) + np.arange(count, dtype=np.uint64)
                keys = sub_keys(np.repeat(key, count), numbers)
                times = (slot + uniform(self._seed, keys, "arrives", 0)) * SLOT_SECONDS
                found += self._jobs(kind, sizes, keys, times.tolist(), is_settled=False)
        return sorted(found, key=lambda job: job.arrived_seconds)

    def at_work(self, now_seconds: float) -> list[ClusterJob]:
        """The jobs that came before the first tick and run or wait at it, in the order of their arrival.

        Those that run are as many as come during the mean length of one, and longer than others.
        """
        found: list[ClusterJob] = []
        for name, (kind, sizes, rate) in self._kinds.items():
            key = np.array([entity_key("cluster", name, "at work")], dtype=np.uint64)
            count = poisson_count(rate * kind.mean_seconds, self._seed, key, "arrivals", 0)
            if count:
                keys = sub_keys(np.repeat(key, count), np.arange(count, dtype=np.uint64))
                jobs = list(self._jobs(kind, sizes, keys, [now_seconds] * count, is_settled=True))
                for job, passed in zip(jobs, uniform(self._seed, keys, "passed", 0).tolist(), strict=True):
                    job.arrived_seconds -= passed * job.left_seconds
                    job.left_seconds *= 1.0 - passed
                found += jobs
        return sorted(found, key=lambda job: job.arrived_seconds)

    def _jobs(
        self, kind: JobKind, sizes: Sequence[tuple[int, float]], keys: Keys, times: Sequence[float], *,
        is_settled: bool,
    ) -> Iterator[ClusterJob]:  # fmt: skip
        sigma = math.log(kind.spread)
        drawn = zip(
            keys.tolist(), times, uniform(self._seed, keys, "size", 0).tolist(),
            normal(self._seed, keys, "lasts", 0).tolist(), strict=True,
        )  # fmt: skip
        for key, time, of_size, of_length in drawn:
            length = min(kind.lasts_seconds * math.exp(sigma * of_length), kind.longest_seconds)
            # A job that is met at work is longer than others.
            length = length_at_work(kind, of_length) if is_settled else length
            name = f"{kind.workload.name}-{generated_name(key, 5)}"
            yield ClusterJob(kind.workload.name, name, key, _drawn(sizes, of_size), time, length, is_settled=is_settled)

    def settle_end(self, job: ClusterJob, kind: JobKind | ServiceKind, now_seconds: float) -> None:
        """Draw how and when a job ends that starts now."""
        keys = job.words_of_key
        fails, cause, early = (
            float(uniform(self._seed, keys, what, job.attempt)[0]) for what in ("fails", "cause", "early")
        )
        failure = -math.log1p(-early) * self._spec.failure_hours * 3600.0 / job.size
        job.cause, seconds = None, job.left_seconds
        if failure < seconds:
            weights = [(place, cause.weight) for place, cause in enumerate(CAUSES)]
            total = sum(weight for _, weight in weights)
            job.cause = CAUSES[_drawn([(place, weight / total) for place, weight in weights], cause)]
            seconds = failure
        if isinstance(kind, JobKind) and not job.attempt and not job.is_settled and fails < kind.failing:
            own = kind.failing_after_seconds * math.exp(1.5 * float(normal(self._seed, keys, "error", 0)[0]))
            if own < seconds:
                job.cause, seconds = _NO_MEMORY if fails < kind.failing * _OUT_OF_MEMORY else _ERROR, own
        job.phase, job.lag_seconds = "running", 0.0
        job.began_seconds, job.until_seconds = now_seconds, now_seconds + seconds

    def repair_seconds(self, job: ClusterJob) -> float:
        """How long what a job's end has broken is away."""
        drawn = float(normal(self._seed, job.words_of_key, "repair", job.attempt)[0])
        return self._spec.repair_seconds * math.exp(drawn)

    def rank_of_failure(self, job: ClusterJob) -> int:
        """Which of its nodes fails."""
        return int(hashes(self._seed, job.words_of_key, "rank", job.attempt)[0] % np.uint64(len(job.words)))

    def workload(self, job: ClusterJob, kind: JobKind | ServiceKind) -> WorkloadSpec:
        """What a job runs in its present phase, but for devices and pod."""
        own = kind.workload
        if isinstance(kind, ServiceKind):
            return own
        held, differs = (float(uniform(self._seed, job.words_of_key, what, 0)[0]) for what in ("memory", "differs"))
        percent = 100.0 * float(np.interp(held, np.linspace(0.0, 1.0, len(kind.memory)), kind.memory))
        if job.phase == "hanging":
            return replace(own, activities=Activities((Activity(100.0),)), intensities=(Intensity(15.0, 3.0),),
                           uses=_memory(percent, filled=True))
        if job.phase == "ending":
            return replace(own, activities=Activities((Activity(2.0, 2.0),)), intensities=(Intensity(10.0),),
                           uses=_memory(percent, filled=True))
        factor = 1.0 + kind.varies * (2.0 * differs - 1.0)
        intensities = tuple(
            Intensity(min(intensity.percent * factor, 100.0), intensity.fluctuation)
            for intensity in own.intensities or (Intensity(100.0),)
        )
        uses = tuple(use for use in own.uses if use.metric != _MEMORY)
        activities = own.activities
        if job.is_settled and activities.once_count:
            skipped = activities.once_count
            activities = Activities([*activities][skipped:])
            intensities = intensities if len(intensities) == 1 else intensities[skipped:]
            rests = [Activities([*use.activities][use.activities.once_count :]) for use in uses]
            uses = tuple(replace(use, activities=rest) for use, rest in zip(uses, rests, strict=True))
        return replace(own, activities=activities, intensities=intensities,
                       uses=(*uses, *_memory(percent, filled=job.is_settled)))


def _memory(percent: float, *, filled: bool) -> tuple[MetricUse, ...]:
    """The memory that a job holds; it grows at the beginning, unless it is there already."""
    if not percent:
        return ()
    grows = () if filled else (Activity(Function("ramp", (min(2.0, percent), percent)), 0.0, _FILLING_SECONDS),)
    return (MetricUse(_MEMORY, Activities((*grows, Activity(percent))), is_share=True, is_optional=True),)


def _drawn(weights: Sequence[tuple[int, float]], drawn: float) -> int:
    """What a uniform draw takes of some numbers with weights of 1 in all."""
    total = 0.0
    for number, weight in weights:
        total += weight
        if drawn < total:
            return number
    return weights[-1][0]  # where rounding leaves a rest
