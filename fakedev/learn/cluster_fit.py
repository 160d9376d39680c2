"""Fits a living cluster to jobs that were seen: kinds of jobs with their sizes, lengths, usage, memory, and arrivals.

Lengths are lognormal; those of jobs that still ran are known to be longer only, which the fit takes into account (the
EM algorithm for censored normal values: Dempster, Laird and Rubin 1977, section 4.3). So are the times at which jobs
came that may have waited.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, median
from typing import Any, Final

import numpy as np

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.spec.cluster_spec import THURSDAY, mean_length
from fakedev.learn.oddities import share_of_failures
from fakedev.learn.seen_jobs import ENOUGH_JOBS, SeenJob, kind_of
from fakedev.learn.tracks import USAGE, Owner, Track
from fakedev.learn.usage_fit import (
    DAY,
    HOUR,
    TypeOf,
    Window,
    differences,
    fitted_day,
    fitted_memory,
    fitted_profile,
    held_memory,
    shapes,
)

#: More kinds are one, of the jobs that have the fewest boards times hours; so are kinds with a smaller share of them.
_MOST_KINDS: Final = 12
_LEAST_SHARE: Final = 0.01
_ROUNDS: Final = 60
#: Spread of equal lengths; and standard deviations at which the tail of a normal distribution is cut.
_LEAST_SIGMA: Final = 0.01
_FAR: Final = 30.0
#: Times in which boards were lost that say how long that takes.
_LEAST_REPAIRS: Final = 3
_LONGEST_KEPT: Final = 365.0 * DAY
#: A daily wave in the times of N arrivals by chance is smaller than this divided by the root of N, 95 times of 100.
_BY_CHANCE: Final = 3.5
_NORMAL: Final = NormalDist()
_MIB: Final = 2**20
#: Halvings of a range in which a length is looked for.
_HALVINGS: Final = 40

#: Returns the namespace and the name that a kind gets.
NameOf = Callable[[tuple[str, str]], tuple[str, str]]


@dataclass(frozen=True)
class Lengths:
    """A lognormal distribution.

    :param spread: the factor from the median to one standard deviation of the logarithms.
    """

    median: float
    spread: float
    longest: float


def fitted_lengths(ended: Sequence[float], running: Sequence[float], mean_seconds: float = 0.0) -> Lengths:
    """The distribution of some lengths.

    :param ended: seconds of jobs that were seen whole, at least one of both.
    :param running: of jobs that went on for an unknown time: their lengths so far.
    :param mean_seconds: the mean of all, which the longest one is to bring about where running ones leave it open; 0:
        not known.
    """
    logs, least = np.log(np.maximum(ended, 1.0)), np.log(np.maximum(running, 1.0))
    every = np.concatenate([logs, least])
    mean, sigma = float(every.mean()), max(float(every.std()), _LEAST_SIGMA)
    for _ in range(_ROUNDS if len(least) else 0):
        # The mean and the variance of a normal value of which only the least is known.
        begins = [(value - mean) / sigma for value in least.tolist()]
        tails = [_NORMAL.pdf(begin) / _NORMAL.cdf(-begin) if begin < _FAR else begin + 1.0 / begin for begin in begins]
        means = np.array([mean + sigma * tail for tail in tails])
        rest = [sigma**2 * max(1.0 + begin * tail - tail**2, 0.0) for begin, tail in zip(begins, tails, strict=True)]
        mean = float((logs.sum() + means.sum()) / len(every))
        squares = ((logs - mean) ** 2).sum() + ((means - mean) ** 2).sum() + sum(rest)
        sigma = min(max(math.sqrt(float(squares) / len(every)), _LEAST_SIGMA), math.log(100.0))
    most = float(np.exp(every.max()))
    # What still ran may take far longer than anything that was seen; what has ended did not.
    longest = most * (4.0 if len(least) and least.max() >= every.max() else 1.0)
    median, spread = min(math.exp(mean), _LONGEST_KEPT), math.exp(sigma)
    if mean_seconds and longest > most:
        low, high = most, _LONGEST_KEPT
        for _ in range(_HALVINGS):
            longest = math.sqrt(low * high)
            is_short = mean_length(median, spread, longest) < mean_seconds
            low, high = (longest, high) if is_short else (low, longest)
    return Lengths(median, spread, min(longest, _LONGEST_KEPT))


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
    jobs: Sequence[SeenJob], tracks: Sequence[Track], type_of: TypeOf, window: Window, boards: int,
    name_of: NameOf, word_of: Callable[[Track], str], xids: int = 0,
    lost_seconds: Sequence[float] = (),
) -> Fitted:  # fmt: skip
    """The living cluster of some jobs.

    :param tracks: of all devices, also of those without an owner.
    :param xids: how many came on all boards.
    :param lost_seconds: for how long boards were lost, each time.
    :param word_of: returns the device word of a track.
    """
    if not jobs:
        own_work = board_work(tracks, type_of, window, word_of)
        note = "no series shows usage of boards: no work is learnt"
        if own_work:
            note = "no series names an owner of boards: there are no jobs, and each board has its usage all the time"
        return Fitted({}, own_work, (note,))
    entries: list[dict[str, Any]] = []
    # Exporters of several kinds: some name owners, and some do not.
    named = {track.device[0] for job in jobs for track in job.tracks}
    base = board_work([track for track in tracks if track.device[0] not in named and _is_used(track)], type_of, window,
                      word_of)  # fmt: skip
    held: dict[str, float] = {}
    notes: list[str] = []
    if base:
        nodes = {work["devices"].rpartition("/")[0] for work in base}
        notes.append(f"no series of {len(nodes)} nodes names an owner of a board: {len(base)} boards there are used, "
                     "and have their usage all the time")
    span = max(window.end - window.begin, window.step)
    for key, all_of_kind in _kinds(jobs):
        namespace, name = name_of(key)
        # Drawn by chance, few large jobs would often not be there at all.
        lasting = [job for job in all_of_kind if job.is_constant]
        if lasting:
            base += _always(lasting, (namespace, name), type_of, window, word_of)
        those = [job for job in all_of_kind if not job.is_constant]
        if not those:
            continue
        alike = list(shapes(those))
        for number, jobs_of_shape in enumerate(alike, 1):
            own_name = f"{name}-{number}" if len(alike) > 1 else name
            held[own_name] = sum(job.size * job.seconds for job in jobs_of_shape) / span
            kind = _kind_of_jobs(jobs_of_shape, own_name, type_of, window, held[own_name] * span, notes)
            entries.append(kind | _namespaced(namespace))
    begun = sum(not job.is_older for job in jobs)
    if begun < ENOUGH_JOBS:
        notes.append(f"jobs that began in this time: {begun}, too few to say how often they come, and for how long")
    total = sum(held.values()) or 1.0
    for entry in entries:
        entry["share"] = round(held[entry["name"]] / total, 4)
    load = total / max(boards, 1)
    document: dict[str, Any] = {"load": round(min(max(load, 0.01), 5.0), 3)}
    document |= _arrivals(jobs, _came_in(jobs, boards, window), window, notes)
    document |= _failures(xids, lost_seconds, sum(job.size * job.seconds for job in jobs) / HOUR, notes)
    return Fitted({**document, "jobs": entries} if entries else {}, base, tuple(notes))


def _is_used(track: Track) -> bool:
    return len(track.seconds) > 0 and float(track.numbers[USAGE].mean()) > _LEAST_SHARE


def _kind_of_jobs(
    jobs: Sequence[SeenJob], name: str, type_of: TypeOf, window: Window, board_seconds: float, notes: list[str]
) -> dict[str, Any]:
    """A kind of jobs as the section ``jobs`` has it, but for its share.

    :param board_seconds: that they had boards.
    """
    profile, memory = fitted_profile(jobs, type_of, window.step), fitted_memory(jobs, type_of)
    coming = [job for job in jobs if not job.is_older]
    asked = sum(job.size for job in coming)
    lengths = fitted_lengths(
        [job.seconds for job in coming if not job.is_running],
        # Without arrivals the only thing that is known is that all were there for longer.
        [job.seconds for job in (coming or jobs) if job.is_running or not coming],
        # What is there is what comes, times how long it stays (Little's law).
        board_seconds / asked if len(coming) >= ENOUGH_JOBS else 0.0,
    )
    sizes = Counter(job.size for job in coming or jobs)
    if not coming:
        notes.append(f"{name}: none of its jobs began in this time, so their lengths are a guess")
    return {
        "name": name, "sizes": dict(sorted(sizes.items())),
        "lasts": f"{max(lengths.median, 1):.0f}s", "spread": round(max(lengths.spread, 1.0), 3),
        "longest": f"{lengths.longest:.0f}s", "memory": [round(share, 3) for share in memory], "ending": "0s",
        **profile.keys, **_varying(differences(jobs, type_of)),
    }  # fmt: skip


def _varying(factors: Floats) -> dict[str, float]:
    """How much jobs differ, for the ones that say it."""
    known = factors[factors != 1.0]
    # The standard deviation of a uniform distribution from 1 - v to 1 + v is v divided by the root of 3.
    return {"varies": round(min(math.sqrt(3.0) * float(known.std()), 1.0), 2)} if len(known) else {}


def _namespaced(namespace: str) -> dict[str, str]:
    return {"namespace": namespace} if namespace else {}


def _always(
    jobs: Sequence[SeenJob], name_of_kind: tuple[str, str], type_of: TypeOf, window: Window,
    word_of: Callable[[Track], str],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Base workloads on the boards that some jobs had all the time, one a pod."""
    namespace, name = name_of_kind
    of_day = fitted_day(jobs, window)
    for number, job in enumerate(jobs):
        pods: dict[Owner, list[Track]] = defaultdict(list)
        for track in job.tracks:
            pods[track.owner].append(track)
        # Each has its own usage: pods that were there all the time, as replicas, do not move together.
        for rank, tracks in enumerate(pods.values()):
            own = replace(job, tracks=tuple(tracks))
            profile = fitted_profile([own], type_of, window.step).turned(number + rank)
            work = profile.keys
            if of_day:
                work |= {"profile": of_day, "intensity": f"{profile.mean_intensity:.0f}"}
            held = held_memory(own, type_of, window.step, number + rank)
            yield {
                "name": name, "devices": sorted({word_of(track) for track in tracks}), "pod": f"{name}-{number}-{rank}",
                **work, **_namespaced(namespace), "metrics": {"memory": held},
            }  # fmt: skip


def board_work(
    tracks: Sequence[Track], type_of: TypeOf, window: Window, word_of: Callable[[Track], str],
    name_of: NameOf = lambda kind: kind,
) -> list[dict[str, Any]]:  # fmt: skip
    """Base workloads of boards of which no series names an owner, and of instances: each has its usage all the time.

    They begin at different levels, so that they do not move together. The pod is of the kind that was there longest.
    """
    found = []
    places: dict[str, list[Track]] = defaultdict(list)
    for track in tracks:
        if track.is_placed:
            places[word_of(track)].append(track)
    for number, (word, own) in enumerate(places.items()):
        if own[0].is_instance and not any(track.numbers[USAGE].any() for track in own):
            continue  # nobody has it
        job = SeenJob(("", ""), tuple(own), window.begin, window.end, is_older=True, is_running=True)
        profile = fitted_profile([job], type_of, window.step).turned(number)
        held = held_memory(job, type_of, window.step, number)
        if own[0].is_instance:  # a share would be one of its own memory
            whole = type_of(own[0].device[0]).memory_total_bytes
            held = f"{median(fitted_memory([job], type_of)) * whole / _MIB:.0f}MiB"
        owner = max(own, key=lambda track: len(track.seconds)).owner
        namespace, name = name_of(kind_of(owner)) if owner != Owner() else ("", "")
        found.append({
            "name": word.replace("/", "-"), "devices": word,
            **profile.keys, "metrics": {"memory": held},
            **({"pod": f"{name}-{number}"} if name else {}), **_namespaced(namespace),
        })  # fmt: skip
    return found


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


def _came_in(jobs: Sequence[SeenJob], boards: int, window: Window) -> Floats:
    """In which hours of the day jobs may have come, as shares of the time: shape (jobs, 24).

    A job is seen when it starts. Where it may have waited it is one of those that came while fewer boards were free
    than it has: in that time jobs start as others end, not as they come.
    """
    moments = np.arange(window.begin, window.end + window.step, window.step)
    changes = np.zeros(len(moments) + 1)
    for track in (track for job in jobs for track in job.tracks):
        changes[np.searchsorted(moments, track.seconds[0])] += 1.0
        changes[np.searchsorted(moments, track.seconds[-1], "right")] -= 1.0
    free = boards - np.cumsum(changes)[:-1]
    hours = (moments % DAY // HOUR).astype(np.int64)
    found = np.zeros((len(jobs), 24))
    with_room = {size: np.flatnonzero(free >= size) for size in {job.size for job in jobs}}
    for row, job in zip(found, jobs, strict=True):
        begin, room = int(np.searchsorted(moments, job.begin_seconds)), with_room[job.size]
        later = int(np.searchsorted(room, begin))
        since = int(room[later - 1]) + 1 if later else 0
        until = begin if since >= begin else int(room[later]) if later < len(room) else len(moments)
        row[:] = np.bincount(hours[since : until + 1], minlength=24)
    shares: Floats = found / found.sum(axis=1, keepdims=True)
    return shares


def _arrivals(jobs: Sequence[SeenJob], came: Floats, window: Window, notes: list[str]) -> dict[str, Any]:
    """How arrivals follow the hour and the day of the week.

    :param came: of :func:`_came_in`.
    """
    found: dict[str, Any] = {"day": 0.0, "weekend": 1.0}
    span = window.end + window.step - window.begin
    whole = window.begin + span // DAY * DAY
    begins = np.array([math.inf if job.is_older else job.begin_seconds for job in jobs])
    came, begins = came[begins < whole], begins[begins < whole]
    if span < DAY or len(begins) < 2:
        notes.append("a day of the data would show how arrivals follow the hour: they are taken to be even")
        return found
    circle = np.exp(2j * math.pi * (np.arange(24) + 0.5) / 24.0)
    height, wave = 0j, np.ones(24)
    for _ in range(_ROUNDS):
        likely = came * wave / (came @ wave)[:, None]
        # Twice the mean of the unit vectors is the height of the first harmonic.
        height = 2.0 * complex((likely @ circle).mean())
        wave = 1.0 + (height * circle.conj()).real / max(abs(height), 1.0)
    if abs(height) > _BY_CHANCE / math.sqrt(len(begins)):
        hour = math.atan2(height.imag, height.real) % (2.0 * math.pi) * 24.0 / (2.0 * math.pi)
        found |= {"day": round(min(abs(height), 1.0), 2), "busiest": round(hour, 1)}
    hours, many = (
        np.bincount(((moments // DAY + THURSDAY) % 7 >= 5).astype(np.int64), minlength=2)
        for moments in (np.arange(window.begin, whole, HOUR), begins)
    )
    if hours.min() >= 24 and many[0]:
        found["weekend"] = round(min(float(many[1] / hours[1] / (many[0] / hours[0])), 5.0), 2)
    else:
        notes.append("a weekend and a weekday are not both in the data: a weekend is taken to be like a weekday")
    return found


def _failures(xids: int, lost_seconds: Sequence[float], board_hours: float, notes: list[str]) -> dict[str, Any]:
    """Boards times hours between two failures, of which those without an XID are not seen."""
    if xids:
        hours = board_hours * share_of_failures("lost", "xid") / xids
        repair = {"repair": f"{max(median(lost_seconds), 60):.0f}s"} if len(lost_seconds) >= _LEAST_REPAIRS else {}
        return {"failure-hours": round(min(max(hours, 1.0), 1e9)), **repair}
    least = max(round(board_hours), 1)
    notes.append(f"no XID came in {least} boards times hours of work, which says only that failures are rare: "
                 f"failure-hours is {max(2 * least, 50_700)}")
    return {"failure-hours": max(2 * least, 50_700)}
