"""Fits a living cluster to jobs that were seen: kinds of jobs with their sizes, lengths, usage, memory, and arrivals.

Lengths are lognormal; those of jobs that still ran are known to be longer only, which the fit takes into account (the
EM algorithm for censored normal values: Dempster, Laird and Rubin 1977, section 4.3).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.spec.cluster_spec import mean_length
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.learn.seen_jobs import SeenJob
from fakedev.learn.tracks import MEMORY, POWER, USAGE, XID, Owner, Track

#: More kinds are one, of the jobs that have the fewest boards times hours; so are kinds with a smaller share of them.
_MOST_KINDS: Final = 12
_LEAST_SHARE: Final = 0.01
#: The levels of a profile: means of so many equal parts of all samples, in an order in which neighbours differ.
_LEVELS: Final = 8
_ORDER: Final = (0, 5, 2, 7, 4, 1, 6, 3)
#: A usage whose middle 80 % are as near together has one level.
_STEADY: Final = 0.08
_MEMORY_STEPS: Final = 4
_ROUNDS: Final = 60
#: Equal lengths differ by so much; from so many standard deviations on the tail of a normal distribution has its limit.
_LEAST_SIGMA: Final = 0.01
_FAR: Final = 30.0
_HOUR: Final = 3600.0
_DAY: Final = 24.0 * _HOUR
#: Days from a Monday to 1970-01-01.
_THURSDAY: Final = 3
_LONGEST_KEPT: Final = 365.0 * _DAY
#: A daily wave in the times of N arrivals by chance is smaller than this divided by the root of N, 95 times of 100.
_BY_CHANCE: Final = 3.5
_NORMAL: Final = NormalDist()


@dataclass(frozen=True)
class Window:
    """The time that was read.

    :param begin, end: its first and last moment, seconds since 1970.
    :param step: seconds between samples.
    """

    begin: float
    end: float
    step: float


@dataclass(frozen=True)
class Lengths:
    """A lognormal distribution.

    :param spread: the factor from the median to one standard deviation of the logarithms.
    """

    median: float
    spread: float
    longest: float


def fitted_lengths(ended: Sequence[float], running: Sequence[float]) -> Lengths:
    """The distribution of some lengths.

    :param ended: seconds of jobs that were seen whole, at least one of both.
    :param running: of jobs that went on for an unknown time: at least so long.
    """
    logs, least = np.log(np.maximum(ended, 1.0)), np.log(np.maximum(running, 1.0))
    every = np.concatenate([logs, least])
    mean, sigma = float(every.mean()), max(float(every.std()), _LEAST_SIGMA)
    for _ in range(_ROUNDS if len(least) else 0):
        # The mean and the variance of a normal value of which only the least is known.
        begins = [(value - mean) / sigma for value in least.tolist()]
        tails = [_NORMAL.pdf(each) / _NORMAL.cdf(-each) if each < _FAR else each + 1.0 / each for each in begins]
        means = np.array([mean + sigma * tail for tail in tails])
        rest = [sigma**2 * max(1.0 + each * tail - tail**2, 0.0) for each, tail in zip(begins, tails, strict=True)]
        mean = float((logs.sum() + means.sum()) / len(every))
        squares = ((logs - mean) ** 2).sum() + ((means - mean) ** 2).sum() + sum(rest)
        sigma = min(max(math.sqrt(float(squares) / len(every)), _LEAST_SIGMA), math.log(100.0))
    most = float(np.exp(every.max()))
    # What still ran may take far longer than anything that was seen; what has ended did not.
    longest = most * (4.0 if len(least) and least.max() >= every.max() else 1.0)
    median = min(math.exp(mean), _LONGEST_KEPT)
    return Lengths(median, math.exp(sigma), min(max(longest, median), _LONGEST_KEPT))


@dataclass(frozen=True)
class Profile:
    """How the boards of a kind are used.

    :param words: the profile, as configurations have it.
    :param intensity: the same for the intensity.
    """

    words: str
    intensity: str


def fitted_profile(jobs: Sequence[SeenJob], type_of: Callable[[str], DeviceType], step: float) -> Profile:
    """The usage of some jobs: levels that have the distribution of all samples, for as long as one lasts.

    :param type_of: returns the device type of a node.
    """
    usage, share = _usage_and_share(jobs, type_of)
    if not len(usage):
        return Profile("0", "100")
    low, high = np.quantile(usage, (0.1, 0.9))
    levels = 1 if high - low <= _STEADY else _LEVELS
    edges = np.quantile(usage, np.linspace(0.0, 1.0, levels + 1))
    number = np.clip(np.searchsorted(edges[1:-1], usage, "right"), 0, levels - 1)
    lasting = _lasting(jobs, float(np.median(usage)), step)
    words, intensities = [], []
    for level in _ORDER if levels > 1 else (0,):
        inside = number == level
        if not inside.any():
            continue
        busy = inside & np.isfinite(share)
        percent = round(100 * float(usage[inside].mean()), 2)
        fluctuation = min(round(100 * float(usage[inside].std()), 2), percent, round(100 - percent, 2))
        # Equal values, as of boards that are always full, are several of the equal parts at once.
        seconds = max(lasting * levels * float(inside.mean()), step)
        words.append(f"{percent:g}:{fluctuation:g}:{seconds:.0f}")
        intensities.append(f"{float(np.clip(100 * np.median(share[busy]), 0, 100)) if busy.any() else 100:.0f}")
    if len(words) == 1:
        words = [f"{words[0].rpartition(':')[0]}:0"]
    return Profile(",".join(words), ",".join(intensities))


def _usage_and_share(jobs: Sequence[SeenJob], type_of: Callable[[str], DeviceType]) -> tuple[Floats, Floats]:
    """All usage of some jobs, and the share of the power over idle that full work at this usage would draw."""
    usages, shares = [np.zeros(0)], [np.zeros(0)]
    for track in (track for job in jobs for track in job.tracks):
        usage = np.clip(track.numbers[USAGE].astype(np.float64), 0.0, 1.0)
        share, span = np.full(len(usage), np.nan), type_of(track.device[0]).ranges.get(POWER)
        if POWER in track.numbers and span is not None and span.high > span.low:
            busy = usage > 0.05
            share[busy] = (track.numbers[POWER][busy] - span.low) / (span.high - span.low) / usage[busy]
        usages.append(usage)
        shares.append(share)
    return np.concatenate(usages), np.concatenate(shares)


def _lasting(jobs: Sequence[SeenJob], middle: float, step: float) -> float:
    """The mean seconds for which usage stays on one side of its median."""
    changes = samples = 0
    for track in (track for job in jobs for track in job.tracks):
        above = track.numbers[USAGE] > middle
        changes += int((above[1:] != above[:-1]).sum())
        samples += len(above)
    return min(step * samples / max(changes, 1), _HOUR)


def fitted_memory(jobs: Sequence[SeenJob], type_of: Callable[[str], DeviceType]) -> list[float]:
    """Quantiles of the memory of jobs in equal steps, as shares of a board's."""
    held = []
    for job in jobs:
        shares = [
            float(np.quantile(track.numbers[MEMORY], 0.9)) / total for track in job.tracks
            if MEMORY in track.numbers and (total := type_of(track.device[0]).memory_total_bytes)
        ]  # fmt: skip
        if shares:
            held.append(float(np.mean(shares)))
    if not held:
        return [0.1, 0.9]
    found: list[float] = np.clip(np.quantile(held, np.linspace(0.0, 1.0, _MEMORY_STEPS + 1)), 0.0, 1.0).tolist()
    return found


@dataclass(frozen=True)
class Fitted:
    """A living cluster that was fitted.

    :ivar document: the section ``fleet.cluster``.
    :ivar base: the list ``workloads.base``: what was there all the time.
    :ivar notes: what could not be learnt, in words.
    """

    document: dict[str, Any]
    base: list[dict[str, Any]]
    notes: tuple[str, ...]


def fitted_cluster(
    jobs: Sequence[SeenJob], tracks: Sequence[Track], type_of: Callable[[str], DeviceType], window: Window, boards: int,
    name_of: Callable[[tuple[str, str]], tuple[str, str]], word_of: Callable[[Track], str],
) -> Fitted:  # fmt: skip
    """The living cluster of some jobs.

    :param tracks: of all devices, also of those without an owner.
    :param name_of: returns the namespace and the name that a kind gets.
    :param word_of: returns the device word of a track.
    :raises ValueError: when there is no job.
    """
    if not jobs:
        raise ValueError("no series has a pod or a batch job: there is no work to learn; use fakedev clone")
    entries: list[dict[str, Any]] = []
    base: list[dict[str, Any]] = []
    asked: dict[str, float] = {}
    notes: list[str] = []
    span = max(window.end - window.begin, window.step)
    for key, those in _kinds(jobs):
        namespace, name = name_of(key)
        profile, memory = fitted_profile(those, type_of, window.step), fitted_memory(those, type_of)
        work = {"profile": profile.words, "intensity": profile.intensity}
        if namespace:
            work["namespace"] = namespace
        if all(job.is_constant for job in those):
            base += _always(those, name, work, memory, word_of)
            continue
        coming = [job for job in those if not job.is_older]
        lengths = fitted_lengths(
            [job.seconds for job in coming if not job.is_running],
            # Without arrivals the only thing that is known is that all were there for longer.
            [job.seconds for job in (coming or those) if job.is_running or not coming],
        )
        mean = mean_length(lengths.median, lengths.spread, lengths.longest)
        sizes = Counter(job.size for job in coming or those)
        if coming:
            asked[name] = sum(job.size for job in coming) / span * mean
        else:
            asked[name] = sum(job.size * job.seconds for job in those) / span
            notes.append(f"{name}: none of its jobs began in this time, so their lengths are a guess")
        entry: dict[str, Any] = {
            "name": name, "sizes": dict(sorted(sizes.items())),
            "lasts": f"{max(lengths.median, 1):.0f}s", "spread": round(max(lengths.spread, 1.0), 3),
            "longest": f"{lengths.longest:.0f}s", "memory": [round(share, 3) for share in memory], "ending": "0s",
        }  # fmt: skip
        entries.append(entry | work)
    total = sum(asked.values()) or 1.0
    for entry in entries:
        entry["share"] = round(asked[entry["name"]] / total, 4)
    load = total / max(boards, 1)
    document: dict[str, Any] = {"load": round(min(max(load, 0.01), 5.0), 3)}
    document |= _arrivals([job.begin_seconds for job in jobs if not job.is_older], window, notes)
    document |= _failures(tracks, sum(job.size * job.seconds for job in jobs) / _HOUR, notes)
    return Fitted({**document, "jobs": entries} if entries else {}, base, tuple(notes))


def _always(
    jobs: Sequence[SeenJob], name: str, work: Mapping[str, str], memory: Sequence[float],
    word_of: Callable[[Track], str],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Base workloads on the boards that some jobs had all the time, one a pod."""
    for number, job in enumerate(jobs):
        pods: dict[Owner, list[str]] = defaultdict(list)
        for track in job.tracks:
            pods[track.owner].append(word_of(track))
        for rank, words in enumerate(pods.values()):
            pod = f"{name}-{number}-{rank}"
            held = f"{100 * memory[len(memory) // 2]:.1f}%"
            yield {"name": name, "devices": sorted(set(words)), "pod": pod, **work, "metrics": {"memory": held}}


def _kinds(jobs: Sequence[SeenJob]) -> list[tuple[tuple[str, str], list[SeenJob]]]:
    """The jobs by kind, those with the most boards times hours first; what is left is of the kind ``other``."""
    found: dict[tuple[str, str], list[SeenJob]] = defaultdict(list)
    for job in jobs:
        found[job.kind].append(job)
    used = {kind: sum(job.size * job.seconds for job in those) for kind, those in found.items()}
    order = sorted(found, key=lambda kind: (-used[kind], kind))
    least = _LEAST_SHARE * sum(used.values())
    kept = [kind for kind in order[: _MOST_KINDS - 1] if used[kind] >= least]
    rest = [job for kind in order if kind not in kept for job in found[kind]]
    return [(kind, found[kind]) for kind in kept] + ([(("", "other"), rest)] if rest else [])


def _arrivals(times: Sequence[float], window: Window, notes: list[str]) -> dict[str, Any]:
    """How arrivals follow the hour and the day of the week."""
    found: dict[str, Any] = {"day": 0.0, "weekend": 1.0}
    span = window.end + window.step - window.begin
    if span < _DAY or len(times) < 2:
        notes.append("a day of the data would show how arrivals follow the hour: they are taken to be even")
        return found
    whole = window.begin + span // _DAY * _DAY
    inside = np.array([time for time in times if time < whole])
    angles = 2.0 * math.pi * (inside % _DAY) / _DAY
    wave = complex(np.cos(angles).mean(), np.sin(angles).mean()) if len(inside) else 0j
    # Twice the mean of the unit vectors is the height of the first harmonic.
    if 2.0 * abs(wave) > _BY_CHANCE / math.sqrt(max(len(inside), 1)):
        hour = math.atan2(wave.imag, wave.real) % (2.0 * math.pi) * 24.0 / (2.0 * math.pi)
        found |= {"day": round(min(2.0 * abs(wave), 1.0), 2), "busiest": round(hour, 1)}
    days = np.arange(window.begin, whole, _HOUR)
    hours = [int(((days // _DAY + _THURSDAY) % 7 >= 5).sum()), 0]
    hours[1] = len(days) - hours[0]
    many = [int(((inside // _DAY + _THURSDAY) % 7 >= 5).sum()), 0]
    many[1] = len(inside) - many[0]
    if min(hours) >= 24 and many[1]:
        found["weekend"] = round(min(many[0] / hours[0] / (many[1] / hours[1]), 5.0), 2)
    else:
        notes.append("a weekend and a weekday are not both in the data: a weekend is taken to be like a weekday")
    return found


def _failures(tracks: Sequence[Track], board_hours: float, notes: list[str]) -> dict[str, Any]:
    """Boards times hours between two failures: changes of the last XID of boards."""
    changes = sum(
        int(((xid[1:] != xid[:-1]) & (xid[1:] > 0)).sum())
        for xid in (track.numbers[XID] for track in tracks if XID in track.numbers)
    )
    if changes:
        return {"failure-hours": round(min(max(board_hours / changes, 1.0), 1e9))}
    least = max(round(board_hours), 1)
    notes.append(f"no XID came in {least} boards times hours of work, which says only that failures are rare: "
                 f"failure-hours is {max(2 * least, 50_700)}")
    return {"failure-hours": max(2 * least, 50_700)}
