"""Fits what boards do while they work: phases with their levels, a day, memory, and how far boards move together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.fleet.boards.sensors import swing
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.learn.seen_jobs import SeenJob
from fakedev.learn.tracks import MEMORY, POWER, USAGE, Track

#: Quiet and busy times of a profile, at most: each pair has levels of its own.
_MOST_PAIRS: Final = 4
#: The order of the levels of a side: neighbours differ.
_ORDERS: Final[dict[int, tuple[int, ...]]] = {1: (0,), 2: (0, 1), 3: (0, 2, 1), 4: (0, 2, 1, 3)}
#: A side with a smaller share of the time is none.
_LEAST_SIDE: Final = 0.01
#: A usage with a smaller standard deviation has one level.
_STEADY: Final = 0.03
#: The standard deviation of the fluctuation of a profile (doc/simulation.md).
_DEVIATION: Final = 0.45
#: Power says something of work with a larger usage.
_LEAST_USAGE: Final = 0.05
#: Work is training when boards above this usage draw, in some of their samples, more than this many times the power of
#: default work: less is the difference between boards of one type.
_TRAINING: Final = "training"
_MUCH_USAGE: Final = 0.5
_OFTEN: Final = 0.95
_MORE_POWER: Final = 1.08
#: Spreads of lengths that profiles take.
_MOST_SPREAD: Final = 10.0
#: Jobs load first when this share of them begin quietly, more than twice as many as are quiet later.
_LOADING: Final = 0.5
#: Jobs of a kind are of two shapes when their means have this share of the variance of all values.
_SHAPED: Final = 0.3
_LEAST_JOBS: Final = 5
_MOST_SPLITS: Final = 2
#: Samples of a time on one side of which the first and the last are left out.
_LONG: Final = 3
#: The share of the samples of a side that stand for all.
_ENOUGH: Final = 0.1
#: Jobs whose boards are compared, of all times, and samples that they need.
MOST_COMPARED: Final = 500
LEAST_SAMPLES: Final = 10
#: A wave of the day is one when it explains this share of the variance of hourly means, and has this height; of two
#: days or more. The function daily() of profiles has this height at 24 hours (doc/simulation.md).
_EXPLAINED: Final = 0.5
_LEAST_HEIGHT: Final = 0.05
_HEIGHT_OF_DAILY: Final = 0.4
_MEMORY_STEPS: Final = 4
HOUR: Final = 3600.0
DAY: Final = 24.0 * HOUR

TypeOf = Callable[[str], DeviceType]


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
class Level:
    """A part of a profile; numbers are percent.

    :param seconds: the median of its length; 0: for ever.
    """

    percent: float
    fluctuation: float
    seconds: float
    spread: float = 1.0
    intensity: float = 100.0
    intensity_fluctuation: float = 0.0
    is_once: bool = False

    @property
    def words(self) -> str:
        """As configurations have it."""
        spread = f":{self.spread:.3g}" if self.spread > 1.0 else ""
        return f"{self.percent:g}:{self.fluctuation:g}:{self.seconds:.0f}{spread}{':once' * self.is_once}"


@dataclass(frozen=True)
class Profile:
    """How the boards of a kind are used: some levels one after the other, again and again.

    :ivar kind: of the work; empty: the usual one.
    """

    levels: tuple[Level, ...]
    kind: str = ""

    @property
    def keys(self) -> dict[str, str]:
        """What a workload says of it."""
        return {"profile": self.words, "intensity": self.intensity} | ({"kind": self.kind} if self.kind else {})

    @property
    def words(self) -> str:
        """The profile, as configurations have it."""
        return ",".join(level.words for level in self.levels)

    @property
    def intensity(self) -> str:
        """The same for the intensity."""
        return ",".join(
            f"{level.intensity:.0f}" + (f":{own:.0f}" if (own := level.intensity_fluctuation) >= 0.5 else "")
            for level in self.levels
        )

    @property
    def mean_intensity(self) -> float:
        """That of most of the power, which high levels draw."""
        weights = [level.percent * max(level.seconds, 1.0) for level in self.levels]
        return float(np.average([level.intensity for level in self.levels], weights=weights if any(weights) else None))

    def turned(self, by: int) -> Profile:
        """The same from another level on."""
        by %= len(self.levels)
        return replace(self, levels=self.levels[by:] + self.levels[:by])


_IDLE: Final = Profile((Level(0.0, 0.0, 0.0),))


def fitted_profile(jobs: Sequence[SeenJob], type_of: TypeOf, step: float) -> Profile:
    """The usage of some jobs: quiet and busy times one after the other, with the levels and lengths that they have.

    Jobs that load first do so once. The boards of a job move together as far as they did.

    :param type_of: returns the device type of a node.
    """
    threshold = _threshold(joined([track.numbers[USAGE] for track in _tracks(jobs)]))
    loading, waits = _loading(jobs, threshold, type_of, step)
    tracks = [
        _without_first(track, waits) if loading and not job.is_older else track for job in jobs for track in job.tracks
    ]
    usage = joined([np.clip(track.numbers[USAGE], 0.0, 1.0) for track in tracks])
    if not len(usage):
        return _IDLE
    # How jobs and boards differ is no fluctuation.
    factors = differences([replace(job, tracks=(track,)) for job in jobs for track in job.tracks], type_of)
    activity = joined([_activity(track, type_of) / own for track, own in zip(tracks, factors, strict=True)])
    board = type_of(tracks[0].device[0])
    kind, power = _kind_of_work(usage, activity, board)
    activity = activity / power
    is_busy = usage > threshold
    share = float(is_busy.mean())
    is_one_side = not _LEAST_SIDE < share < 1.0 - _LEAST_SIDE
    if is_one_side or usage.std() <= _STEADY:
        # What is seldom, as the end of a job, is no fluctuation.
        usual = is_busy == (share > 0.5) if is_one_side else np.full(len(usage), True)
        return Profile((*loading, _level(usage[usual], activity[usual], 0.0, 1.0, board, power)), kind)
    runs = [_runs(track.numbers[USAGE] > threshold) for track in tracks]
    inside, perhaps = (np.concatenate(parts) for parts in zip(*(_inside(lengths) for lengths, _ in runs), strict=True))
    changes = sum(len(lengths) - 1 for lengths, _ in runs)
    longest = float(np.median([job.seconds for job in jobs]))
    # A side is seen for a step at least.
    cycle = max(2.0 * step * len(usage) / max(changes, 1), step / min(share, 1.0 - share))
    cycle = min(cycle, max(longest, 2.0 * step))
    # What lasts for ever has room for all levels; each has a sample at least.
    is_always = all(job.is_older and job.is_running for job in jobs)
    room = _MOST_PAIRS if is_always else max(int(longest // cycle), 1)
    own_sides = {busy: _pure((is_busy == busy) & inside, (is_busy == busy) & perhaps) for busy in (True, False)}
    pairs = min(room, _MOST_PAIRS, *(int(own.sum()) for own in own_sides.values()))
    sides = []
    begins_busy = 2 * sum(bool(side[:1].any()) for _, side in runs) > len(runs)
    for busy in (begins_busy, not begins_busy):
        values, shares = usage[own_sides[busy]], activity[own_sides[busy]]
        order = np.argsort(values, kind="stable")
        spread = _spread(joined([lengths[side == busy] for lengths, side in runs]))
        mean = cycle * (share if busy else 1.0 - share)
        # The mean of a lognormal length with this spread.
        median = max(mean / math.exp(0.5 * math.log(spread) ** 2), 1.0)
        sides.append([
            _level(values[part], shares[part], median, spread, board, power) for part in np.array_split(order, pairs)
        ])
    levels = [
        level for place, other in zip(_ORDERS[pairs], reversed(_ORDERS[pairs]), strict=True)
        for level in (sides[0][place], sides[1][other])
    ]  # fmt: skip
    return Profile((*loading, *_as_together(levels, together(matrices(jobs)))), kind)


def _kind_of_work(usage: Floats, activity: Floats, board: DeviceType) -> tuple[str, float]:
    """The kind of work, and its power relative to default work: training where boards draw more than default work can.

    Such work reaches the power limit, which lowers the clock.
    """
    busy = (usage > _MUCH_USAGE) & np.isfinite(activity)
    training = board.dynamics.kinds.get(_TRAINING) if board.dynamics is not None else None
    if training is None or not busy.any() or np.quantile(activity[busy] / usage[busy], _OFTEN) <= _MORE_POWER:
        return "", 1.0
    return _TRAINING, training.power


def _tracks(jobs: Sequence[SeenJob]) -> Iterator[Track]:
    return (track for job in jobs for track in job.tracks)


def joined(parts: Sequence[NDArray[np.generic]]) -> Floats:
    return np.concatenate([np.zeros(0), *parts]).astype(np.float64)


def _threshold(usage: Floats) -> float:
    """The usage that divides values into a quiet and a busy part: by Otsu's method."""
    counts = np.bincount(np.clip(np.round(100.0 * usage), 0, 100).astype(np.int64), minlength=101).astype(np.float64)
    below, sums = np.cumsum(counts), np.cumsum(counts * np.arange(101))
    above = below[-1] - below
    with np.errstate(invalid="ignore", divide="ignore"):
        between = np.nan_to_num(below * above * (sums / below - (sums[-1] - sums) / above) ** 2)
    return (float(np.argmax(between)) + 0.5) / 100.0


def _runs(is_busy: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    """The lengths of the times on one side, in samples, and which side it is."""
    edges = np.concatenate([[0], np.flatnonzero(is_busy[1:] != is_busy[:-1]) + 1, [len(is_busy)]])
    return np.diff(edges).astype(np.float64), is_busy[edges[:-1]] if len(is_busy) else is_busy


def _inside(lengths: Floats) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The samples of times on one side that are the mean of nothing else: of long ones all but the first and the last.

    :return: those, and those with all samples of short times, which may be.
    """
    ends = np.cumsum(lengths).astype(np.int64)
    inside = np.repeat(lengths >= _LONG, lengths.astype(np.int64))
    perhaps = ~inside
    for place in (ends - 1, ends - lengths.astype(np.int64)):
        inside[place[lengths > 0]] = False
    return inside, inside | perhaps


def _pure(inside: NDArray[np.bool_], perhaps: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The samples of a side to take: those that are surely its own, where they are enough."""
    return inside if inside.sum() >= max(LEAST_SAMPLES, _ENOUGH * perhaps.sum()) else perhaps


def _spread(lengths: Floats) -> float:
    """Of some lengths of at least one: half of the way from 16 to 84 % of their logarithms.

    Some times are cut off by a beginning or an end, and a short one may be missed, so that two are one.
    """
    low, high = np.quantile(np.log(np.maximum(lengths, 1.0)), (0.16, 0.84)) if len(lengths) else (0.0, 0.0)
    return min(round(math.exp(float(high - low) / 2.0), 2), _MOST_SPREAD)


def _level(
    usage: Floats, activity: Floats, seconds: float, spread: float, board: DeviceType, power: float = 1.0
) -> Level:
    """A level of some samples.

    :param power: by which the activity was divided.
    """
    percent = round(100.0 * float(usage.mean()), 2)
    fluctuation = _fluctuation(100.0 * float(usage.std()), percent)
    intensity, own = 100.0, 0.0
    busy = (usage > _LEAST_USAGE) & np.isfinite(activity)
    if busy.any():
        # Boards that the hardware slows down may draw no more than idle ones; work has some intensity.
        intensity = round(float(np.clip(100.0 * np.median(activity[busy] / usage[busy]), 1.0, 100.0)))
        # The fluctuation of the usage moves the power, too.
        noise = _noise(power * activity[busy], board) / power
        deviation = 100.0 * math.sqrt(max(float(activity[busy].var() - (noise**2).mean()), 0.0)) / _DEVIATION
        own = (deviation - fluctuation * intensity / 100.0) / float(usage[busy].mean())
        own = min(max(round(own), 0.0), intensity, 100.0 - intensity)
    return Level(percent, fluctuation, seconds, max(spread, 1.0), intensity, own)


def _fluctuation(deviation: float, percent: float) -> float:
    return max(min(round(deviation / _DEVIATION, 2), percent, round(100.0 - percent, 2)), 0.0)


def _activity(track: Track, type_of: TypeOf) -> Floats:
    """How busy the engines are, by the power over that of a context as a share of plain full work's; NaN: not known."""
    kind = type_of(track.device[0])
    span = kind.ranges.get(POWER)
    if POWER not in track.numbers or span is None or span.high <= span.low:
        return np.full(len(track.seconds), np.nan)
    # Work holds a context: the clock is high, and draws its share without any kernel (doc/simulation.md, power).
    context = kind.dynamics.clocked_power_share if kind.dynamics is not None else 0.0
    watts = track.numbers[POWER].astype(np.float64)
    return ((watts - span.low) / (span.high - span.low) - context) / (1.0 - context)


def _noise(activity: Floats, board: DeviceType) -> Floats:
    """The standard deviation that the board and its sensor bring about, not the work."""
    span, dynamics = board.ranges[POWER], board.dynamics
    if dynamics is None:
        return np.zeros_like(activity)
    busy = 1.0 - dynamics.clocked_power_share
    above_idle = activity + dynamics.clocked_power_share / busy
    drawn = above_idle + span.low / (span.high - span.low) / busy
    shown = swing(np.array(dynamics.power_average_seconds)) * above_idle
    return np.hypot(shown, drawn * dynamics.power_noise / math.sqrt(3.0))


def differences(jobs: Sequence[SeenJob], type_of: TypeOf) -> Floats:
    """How much more power over idle each job draws than others with its usage, a factor: shape (J,).

    1 for jobs of few samples, whose noise looks like a difference, and where few jobs have many.
    """
    ratios = np.full(len(jobs), np.nan)
    for number, job in enumerate(jobs):
        usage = joined([track.numbers[USAGE] for track in job.tracks])
        activity = joined([_activity(track, type_of) for track in job.tracks])
        busy = (usage > _LEAST_USAGE) & np.isfinite(activity)
        if busy.sum() >= LEAST_SAMPLES and activity[busy].sum() > 0:
            ratios[number] = activity[busy].sum() / usage[busy].sum()
    known = np.isfinite(ratios)
    if known.sum() < _LEAST_JOBS:
        return np.ones(len(jobs))
    return np.where(known, np.clip(ratios / ratios[known].mean(), 0.1, 10.0), 1.0)


def _without_first(track: Track, samples: int) -> Track:
    return replace(track, seconds=track.seconds[samples:],
                   numbers={name: numbers[samples:] for name, numbers in track.numbers.items()})


def _loading(
    jobs: Sequence[SeenJob], threshold: float, type_of: TypeOf, step: float
) -> tuple[tuple[Level, ...], int]:
    """What jobs do before they are busy for the first time, once; and for how many samples, usually."""
    firsts = [job.tracks[0] for job in jobs if not job.is_older]
    begins = [track.numbers[USAGE] for track in firsts]
    waits = [int(np.argmax(usage > threshold)) for usage in begins if (usage > threshold).any()]
    quiet = [wait for wait in waits if wait]
    if len(waits) < _LEAST_JOBS or len(quiet) < _LOADING * len(waits):
        return (), 0
    usual = int(np.median(quiet))
    later = joined([usage[usual:] <= threshold for usage in begins])
    if len(later) and 2.0 * float(later.mean()) > len(quiet) / len(waits):
        return (), 0
    # The last sample may be the mean of both.
    most = max(usual - 1, 1)
    waiting = [
        track for track, usage in zip(firsts, begins, strict=True) if len(usage) > usual and usage[0] <= threshold
    ]
    values = joined([track.numbers[USAGE][:most] for track in waiting])
    activity = joined([_activity(track, type_of)[:most] for track in waiting])
    board = type_of(waiting[0].device[0])
    level = _level(values, activity, step * usual, _spread(np.array(quiet, dtype=np.float64)), board)
    return (replace(level, is_once=True),), usual


def matrices(jobs: Sequence[SeenJob]) -> Iterator[Floats]:
    """The usage of the boards of jobs with several of them, by board and time."""
    several = [job for job in jobs if len(job.tracks) > 1]
    for job in several[:: math.ceil(len(several) / MOST_COMPARED) or 1]:
        times = job.tracks[0].seconds
        for track in job.tracks[1:]:
            times = np.intersect1d(times, track.seconds, assume_unique=True)
        if len(times) >= LEAST_SAMPLES:
            yield np.stack([
                track.numbers[USAGE][np.searchsorted(track.seconds, times)].astype(np.float64) for track in job.tracks
            ])  # fmt: skip


def together(jobs: Iterator[Floats]) -> float | None:
    """The correlation between two boards of a job, the mean of all; None where no job shows it.

    :param jobs: usage of each, shape (boards, times), of two boards and more.
    """
    common = whole = 0.0
    for usage in jobs:
        count, samples = usage.shape
        # The variance of a mean of n boards is (1 + (n - 1) r) / n of that of one.
        each, mean = float(usage.var(axis=1).mean()), float(usage.mean(axis=0).var())
        common += samples * (count * mean - each) / (count - 1)
        whole += samples * each
    return min(max(common / whole, 0.0), 1.0) if whole > 0.0 else None


def _as_together(levels: Sequence[Level], correlation: float | None) -> Sequence[Level]:
    """Levels are common to the boards of a job, fluctuation is each board's own: which of them has how much."""
    weights = [level.seconds for level in levels]
    mean = float(np.average([level.percent for level in levels], weights=weights))
    variance = float(np.average([(level.percent - mean) ** 2 for level in levels], weights=weights))
    own = float(np.average([(_DEVIATION * level.fluctuation) ** 2 for level in levels], weights=weights))
    if correlation is None or correlation * (variance + own) >= variance:
        return levels
    common = correlation * (variance + own) / variance
    found = []
    for level in levels:
        percent = round(mean + math.sqrt(common) * (level.percent - mean), 2)
        deviation = math.hypot(_DEVIATION * level.fluctuation, math.sqrt((1.0 - common) * variance))
        found.append(replace(level, percent=percent, fluctuation=_fluctuation(deviation, percent)))
    return found


def shapes(jobs: Sequence[SeenJob], splits: int = _MOST_SPLITS) -> Iterator[Sequence[SeenJob]]:
    """Jobs of a kind that use their boards alike; the ones with the lower usage first."""
    parts = [joined([track.numbers[USAGE] for track in job.tracks]) for job in jobs]
    means = np.array([part.mean() if len(part) else 0.0 for part in parts])
    sizes = np.array([len(part) for part in parts], dtype=np.float64)
    every = joined(parts)
    if splits and len(jobs) >= 2 * _LEAST_JOBS and len(every):
        between = float(np.average((means - every.mean()) ** 2, weights=sizes))
        above = means > _threshold(means)
        if between > _SHAPED * float(every.var()) and min(above.sum(), (~above).sum()) >= _LEAST_JOBS:
            for side in (~above, above):
                yield from shapes([job for job, inside in zip(jobs, side, strict=True) if inside], splits - 1)
            return
    yield jobs


def fitted_day(jobs: Sequence[SeenJob], window: Window) -> str:
    """The profile of services whose usage follows the day; empty where it does not, or where too few days were read.

    A wave of 24 hours is fitted to the hourly means of all their boards.
    """
    hours = int((window.end + window.step - window.begin) // HOUR)
    if hours * HOUR < 2 * DAY:
        return ""
    tracks = [track for job in jobs for track in job.tracks]
    usage = np.concatenate([track.numbers[USAGE].astype(np.float64) for track in tracks])
    hour = np.concatenate([(track.seconds.astype(np.float64) - window.begin) // HOUR for track in tracks])
    hour = np.minimum(hour.astype(np.int64), hours - 1)
    counts = np.bincount(hour, minlength=hours)
    seen = np.flatnonzero(counts)
    means = np.bincount(hour, usage, hours)[seen] / counts[seen]
    angles = 2.0 * math.pi * ((window.begin + (seen + 0.5) * HOUR) % DAY) / DAY
    waves = np.stack([np.ones(len(seen)), np.cos(angles), np.sin(angles)], axis=1)
    level, *parts = np.linalg.lstsq(waves, means, rcond=None)[0].tolist()
    fit = waves @ np.array([level, *parts])
    height = math.hypot(*parts)
    if height < _LEAST_HEIGHT or ((means - fit) ** 2).mean() > (1.0 - _EXPLAINED) * means.var():
        return ""
    low, high = (100 * min(max(level + side * height / (2.0 * _HEIGHT_OF_DAILY), 0.0), 1.0) for side in (-1.0, 1.0))
    around = 100 * float(np.std(usage - np.bincount(seen, fit, hours)[hour])) / _DEVIATION
    busiest = math.atan2(parts[1], parts[0]) % (2.0 * math.pi) * DAY / (2.0 * math.pi) / HOUR
    return f"daily({low:.1f},{high:.1f},{busiest:.2f}h):{min(around, low, 100 - high):.1f}:0"


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


def held_memory(job: SeenJob, type_of: TypeOf, step: float, turned: int) -> str:
    """The memory of work that is there all the time, as workloads ask for it: its levels, one after the other.

    :param turned: begins with another level, so that workloads do not move together.
    """
    held = [
        track.numbers[MEMORY] / total for track in job.tracks
        if MEMORY in track.numbers and (total := type_of(track.device[0]).memory_total_bytes)
    ]  # fmt: skip
    shares = joined(held) if held else np.array([0.5])
    low, middle, high = np.clip(np.quantile(shares, (0.1, 0.5, 0.9)), 0.0, 1.0).tolist()
    if high - low < _STEADY:
        return f"{100 * middle:.1f}%"
    # A half of the levels is below the median, so a time on one side of it has two of them.
    sides = sum(1 + int(np.count_nonzero(np.diff(own > middle))) for own in held)
    seconds = max(step * len(shares) / sides / 2.0, step)
    levels = np.clip(np.quantile(shares, (0.125, 0.375, 0.875, 0.625)), 0.0, 1.0)
    return ",".join(f"{100 * level:.1f}%:0:{seconds:.0f}" for level in np.roll(levels, -turned).tolist())
