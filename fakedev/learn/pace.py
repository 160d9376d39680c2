"""How families move that the simulation does not follow: random processes fitted to their history.

Kept are the kind (constant, one of a few states, number, counter), the distribution, how much of it is between
entities, and the autocorrelation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from fakedev.clone.identity_changes import assumed_wander, short_numbers
from fakedev.clone.scraped import Names
from fakedev.exporters.samples import CapturedFamily, Labels, Sample
from fakedev.exporters.wandering import PLACES, SCORES, Wander
from fakedev.fleet.entities.randomness import Floats
from fakedev.learn.tracks import OWNERS, Seen

#: Steps of probability of quantiles.
_STEPS: Final = 20
#: Different values of something that is one of a few states.
_MOST_STATES: Final = 12
#: Series of a family that are read, of all its targets, and samples of each.
MOST_SERIES: Final = 64
MOST_SAMPLES: Final = 5000
#: Lags, in steps, at which the autocorrelation is compared.
_LAGS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
#: How long values may stay near themselves, in steps.
_LASTING: Final = np.geomspace(0.5, 300.0, 40)
_LEAST_GROWING: Final = 0.01
#: Reads a family, with the targets of its series: at least that one, where others come without a further reading.
History = Callable[[str], Iterable[tuple[str, Seen]]]


class Paces:
    """Fits how families move.

    :param history: reads a family.
    :param names: those that stand in the place of others on the pages; None: none do.
    :param step: seconds between samples.
    """

    def __init__(self, history: History, names: Names | None, step: float) -> None:
        self._history = history
        self._names = names
        self._step = step
        self._found: dict[tuple[str, Labels], Wander | None] = {}
        self._pieces: dict[str, dict[tuple[str, Labels], list[Seen]]] = {}

    def __call__(self, family: CapturedFamily, own: Labels, samples: Sequence[Sample]) -> Wander | None:
        """The process of a row; see :data:`fakedev.clone.identity_changes.Movement`."""
        if (family.name, own) not in self._found:
            if family.name not in self._pieces:
                self._read(family.name)
            pieces = self._pieces.get(family.name, {})
            entities = [_joined(parts) for (_, labels), parts in pieces.items() if set(own) <= set(labels)]
            entities = [entity for entity in entities if len(entity[0])]
            self._found[family.name, own] = (
                fitted_wander(entities, self._step, is_counter=family.kind == "counter") if entities
                else assumed_wander(family, own, samples)
            )
        return self._found[family.name, own]

    def _read(self, name: str) -> None:
        """Take the samples of a family by entity: its target, and its labels without those of owners."""
        for target, seen in self._history(name):
            other = self._names.other if self._names is not None else _same
            labels = tuple((label, other(label, text)) for label, text in seen.labels if label not in OWNERS)
            pieces = self._pieces.setdefault(seen.name, {})
            if (target, labels) in pieces or len(pieces) < MOST_SERIES:
                parts = pieces.setdefault((target, labels), [])
                room = MOST_SAMPLES - sum(len(part.seconds) for part in parts)
                if room > 0:
                    parts.append(Seen(seen.name, seen.labels, seen.seconds[:room], seen.numbers[:room]))


def _same(_label: str, text: str) -> str:
    return text


def _joined(parts: Sequence[Seen]) -> tuple[Floats, Floats]:
    """The samples in the order of their times, those that are finite; one at a time."""
    seconds = np.concatenate([part.seconds for part in parts])
    numbers = np.concatenate([part.numbers for part in parts])
    known = np.isfinite(numbers)
    times, first = np.unique(seconds[known], return_index=True)
    return times, numbers[known][first]


def fitted_wander(entities: Sequence[tuple[Floats, Floats]], step: float, *, is_counter: bool) -> Wander | None:
    """The process of some entities; None for what is always the same.

    :param entities: times and numbers of each, shape (N,) and N at least 1.
    """
    every = np.concatenate([numbers for _, numbers in entities])
    if every.min() == every.max():
        return None
    if is_counter or _is_counting(entities):
        return _fitted_counter(entities, step)
    values, counts = np.unique(every, return_counts=True)
    means = np.concatenate([np.full(len(numbers), numbers.mean()) for _, numbers in entities])
    if len(values) <= _MOST_STATES and len(values) < len(every) / 4:
        changes = sum(int((np.diff(numbers) != 0).sum()) for _, numbers in entities)
        own = round(float(means.var() / every.var()), 3) if changes else 1.0
        shares = counts / counts.sum()
        # A new draw may be the same state again.
        lasts = step * len(every) / max(changes, 1) * (1.0 - float((shares**2).sum()))
        return Wander(short_numbers(values), short_numbers(shares), float(f"{lasts:.3g}"), own)
    probabilities = np.linspace(0.0, 1.0, _STEPS + 1)
    quantiles = np.quantile(every, probabilities)
    scores = [_scores(numbers, quantiles) for _, numbers in entities]
    own = _between(scores) if len(entities) > 1 else 0.0
    share, lasts = _fitted_autocorrelation([score - score.mean() for score in scores], step)
    noise = (1.0 - own) * (1.0 - share)
    return Wander(short_numbers(quantiles), (), float(f"{lasts:.3g}"), round(own, 3), round(noise, 3))


def _is_counting(entities: Sequence[tuple[Floats, Floats]]) -> bool:
    """Whether nothing ever falls, and most entities rise more than once."""
    steps = [np.diff(numbers) for _, numbers in entities]
    rising = [int((step > 0).sum()) for step in steps]
    return all((step >= 0).all() for step in steps) and float(np.median(rising)) > 2


def _fitted_counter(entities: Sequence[tuple[Floats, Floats]], step: float) -> Wander:
    """Rates by entity, the share of time in which it gains, and how long that lasts; a fall is a new beginning."""
    means, relative = [], []
    for seconds, numbers in entities:
        gains = np.maximum(np.diff(numbers), 0.0)
        spans = np.diff(seconds)
        mean = float(gains.sum() / spans.sum()) if len(gains) else 0.0
        means.append(mean)
        if mean:
            relative.append(gains / spans / mean)
    rates = np.quantile(means, np.linspace(0.0, 1.0, min(_STEPS, len(means) - 1) + 1) if len(means) > 1 else [0.5])
    every = np.concatenate([*relative, np.zeros(1)])
    growing = max(1.0 / (1.0 + float(every.var())), _LEAST_GROWING)
    # In each stretch of time it begins to gain once.
    begins = sum(int(((each[1:] > 0.5) & (each[:-1] <= 0.5)).sum()) for each in relative)
    lasts = step * len(every) / max(begins, 1)
    return Wander(short_numbers(rates), (), float(f"{lasts:.3g}"), growing=round(growing, 3))


def _scores(numbers: Floats, quantiles: Floats) -> Floats:
    """Normal scores of some numbers among all: the reverse of what a process does."""
    places = np.linspace(0.0, 1.0, len(quantiles))
    # Equal quantiles have the place in their middle.
    distinct, first, counts = np.unique(quantiles, return_index=True, return_counts=True)
    middle = [places[begin : begin + count].mean() for begin, count in zip(first, counts, strict=True)]
    return np.asarray(np.interp(np.interp(numbers, distinct, middle), PLACES, SCORES))


def _between(scores: Sequence[Floats]) -> float:
    """The share of the variance that is between entities."""
    every = np.concatenate(scores)
    means = np.concatenate([np.full(len(score), score.mean()) for score in scores])
    total = float(every.var())
    return min(float(means.var()) / total, 1.0) if total else 0.0


def _fitted_autocorrelation(series: Sequence[Floats], step: float) -> tuple[float, float]:
    """The share of the variance that moves slowly, and for how long it stays: by the least squares.

    :param series: without their means.
    """
    variance = sum(float((each**2).sum()) for each in series) / max(sum(map(len, series)), 1)
    lags, measured = [], []
    for lag in _LAGS:
        pairs = sum(max(len(each) - lag, 0) for each in series)
        if variance and pairs >= 2 * lag and pairs >= 16:
            products = sum(float((each[lag:] * each[:-lag]).sum()) for each in series if len(each) > lag)
            lags.append(lag)
            measured.append(products / pairs / variance)
    if not lags:
        return 1.0, step
    best = (float("inf"), 0.0, step)
    for lasting in _LASTING.tolist():
        model = _slow_autocorrelation(np.array(lags) / lasting)
        share = min(max(float(model @ measured) / max(float(model @ model), 1e-12), 0.0), 1.0)
        best = min(best, (float(((share * model - measured) ** 2).sum()), share, lasting * step))
    return best[1], best[2]


def _slow_autocorrelation(lags: Floats) -> Floats:
    """Of the slow part of :class:`Wander`, at some lags in units of its length; the mean over the place in a slot."""
    begin = np.linspace(0.0, 1.0, 41)[:-1] + 1.0 / 80.0
    end = begin[None, :] + lags[:, None]
    slot, part = np.floor(end), end - np.floor(end)
    same = (1 - begin) * (1 - part) + begin * part
    common = np.where(slot == 0, same, np.where(slot == 1, begin * (1 - part), 0.0))
    sizes = np.sqrt((1 - begin) ** 2 + begin**2) * np.sqrt((1 - part) ** 2 + part**2)
    return np.asarray((common / sizes).mean(axis=1))
