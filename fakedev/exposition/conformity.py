"""Comparison of a page with a captured one: differences in words, and the share of equal aspects.

Each family of either page has seven aspects: presence on both pages, TYPE, HELP, label names in order, number format,
range of the numbers, and position among the families. A family of only one page differs in all of them; aspects that
need samples are skipped without samples. Of a fragment, TYPE and HELP count only where it has them. Values are not
compared, only their magnitudes, which differ between percents and ratios, or bytes and MiB.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fakedev.exposition.captured import CapturedFamily, CapturedPage, Sample
from fakedev.exposition.identity import NumberFormat
from fakedev.exposition.numbers import formatted

#: Aspects of a family if both pages have samples of it.
ASPECTS: Final = ("family", "TYPE", "HELP", "labels", "numbers", "range", "order")
#: Aspects that need samples.
_OF_SAMPLES: Final = ("labels", "numbers", "range")
#: The largest factor between numbers of one magnitude. Ratio and percent differ by 100.
_MAGNITUDE: Final = 30.0

#: Number formats by name, each as a function from a value to its text.
_FORMATS: Final[dict[str, Callable[[float], str]]] = {
    "whole": lambda value: f"{value:.0f}",
    "with six decimals": lambda value: f"{value:.6f}",
    "as Go does": lambda value: _written(value, NumberFormat.GO),
    "as Python does": lambda value: _written(value, NumberFormat.PYTHON),
    "with up to 15 digits": lambda value: f"{value:.15g}",
}


@dataclass(frozen=True)
class Difference:
    """A difference between a page and the captured one.

    :param family: its name; empty for the whole page.
    :param aspect: one of :data:`ASPECTS`, or ``layout``.
    """

    family: str
    aspect: str
    words: str

    def __str__(self) -> str:
        return f"{self.family or 'the page'}: {self.words}"


@dataclass(frozen=True)
class Conformity:
    """The result of a comparison.

    :ivar aspects: the number of compared aspects.
    :ivar met: the number of equal ones.
    :ivar distance: how far the highest numbers of gauges are apart, as a mean of logarithms: of two pages that are
        equally similar, that of the more similar board has less.
    """

    differences: tuple[Difference, ...]
    aspects: int
    met: int
    distance: float = 0.0

    @property
    def percent(self) -> float:
        """The share of equal aspects."""
        return 100.0 * self.met / self.aspects if self.aspects else 100.0

    @property
    def by_aspect(self) -> dict[str, list[Difference]]:
        """The differences of each aspect, in the order of ``ASPECTS``; aspects without any are left out."""
        groups: dict[str, list[Difference]] = {aspect: [] for aspect in (*ASPECTS, "layout")}
        for difference in self.differences:
            groups[difference.aspect].append(difference)
        return {aspect: found for aspect, found in groups.items() if found}


def _written(value: float, number: NumberFormat) -> str:
    return formatted(np.array([value]), number)[0].decode()


def compared(capture: CapturedPage, page: CapturedPage, *, is_fragment: bool = False) -> Conformity:
    """Compare a page with a captured one.

    :param is_fragment: the capture is a part of a page, so families and declarations that it lacks do not count.
    """
    differences: list[Difference] = []
    aspects = 1
    declares = any(family.has_type or family.help is not None for family in capture.families.values())
    if capture.is_declared_first != page.is_declared_first and (declares or not is_fragment):
        where = "before all lines" if capture.is_declared_first else "before the lines of their family"
        differences.append(Difference("", "layout", f"the capture has HELP and TYPE {where}"))
    lost = len(differences)
    shared = [name for name in capture.families if name in page.families]
    misplaced = _misplaced(shared, [name for name in page.families if name in capture.families])
    for name, theirs in capture.families.items():
        aspects += len(ASPECTS)
        ours = page.families.get(name)
        if ours is None:
            differences.append(Difference(name, "family", "only the capture has it"))
            lost += len(ASPECTS)
            continue
        if not theirs.samples or not ours.samples:
            aspects -= len(_OF_SAMPLES)
        found = _family_differences(theirs, ours, is_misplaced=name in misplaced)
        if is_fragment:
            declared = {"TYPE": theirs.has_type, "HELP": theirs.help is not None}
            missing = {aspect for aspect, is_there in declared.items() if not is_there}
            aspects -= len(missing)
            found = [difference for difference in found if difference.aspect not in missing]
        differences += found
        lost += len(found)
    for name in page.families:
        if name not in capture.families and not is_fragment:
            differences.append(Difference(name, "family", "the capture does not have it"))
            aspects += len(ASPECTS)
            lost += len(ASPECTS)
    distances = [_distance(capture.families[name], page.families[name]) for name in shared]
    distance = sum(distances) / len(distances) if distances else 0.0
    return Conformity(tuple(differences), aspects, aspects - lost, distance)


def _family_differences(theirs: CapturedFamily, ours: CapturedFamily, *, is_misplaced: bool) -> list[Difference]:
    """The differences of a family that both pages have."""
    words: dict[str, str] = {}
    if theirs.kind != ours.kind:
        words["TYPE"] = f"TYPE is {theirs.kind} in the capture, {ours.kind} on the page"
    if theirs.help != ours.help:
        words["HELP"] = f"HELP is {_quoted(theirs.help)} in the capture, {_quoted(ours.help)} on the page"
    if theirs.samples and ours.samples:
        words["labels"] = _labels(theirs.samples, ours.samples)
        words["numbers"] = _numbers(theirs.samples, ours.samples)
        words["range"] = _range(theirs, ours)
    if is_misplaced:
        words["order"] = "it has another place among the families"
    return [Difference(theirs.name, aspect, text) for aspect, text in words.items() if text]


def _quoted(text: str | None) -> str:
    return "missing" if text is None else f'"{text}"'


def _labels(theirs: Sequence[Sample], ours: Sequence[Sample]) -> str:
    """The difference in label names: every set of the capture must exist, and no unrelated one."""
    wanted = list(dict.fromkeys(sample.label_names for sample in theirs))
    has = list(dict.fromkeys(sample.label_names for sample in ours))
    for names in wanted:
        if names not in has:
            return f"labels {_names(names)} in the capture, {_names(_nearest(names, has))} on the page"
    for names in has:
        if not any(_is_part(names, other) or _is_part(other, names) for other in wanted):
            return f"labels {_names(names)} on the page, {_names(_nearest(names, wanted))} in the capture"
    return ""


def _names(names: Sequence[str]) -> str:
    return ",".join(names) if names else "none"


def _nearest(names: Sequence[str], others: Sequence[Sequence[str]]) -> Sequence[str]:
    return min(others, key=lambda other: len(set(names) ^ set(other)))


def _is_part(part: Sequence[str], whole: Iterable[str]) -> bool:
    """Whether ``part`` is ``whole`` without some items."""
    rest = iter(whole)
    return all(name in rest for name in part)


def _numbers(theirs: Sequence[Sample], ours: Sequence[Sample]) -> str:
    """The difference in number formats: all numbers of both pages must fit one format."""
    stamped = {sample.has_timestamp for sample in theirs}
    if stamped != {sample.has_timestamp for sample in ours}:
        return "lines end with a time " + ("in the capture only" if True in stamped else "on the page only")
    formats = _formats(theirs)
    if formats & _formats(ours):
        return ""
    odd = [sample for sample in ours if not any(_is_written(sample, each) for each in formats)]
    return f"numbers as {_longest(theirs)} in the capture, as {_longest(odd or ours)} on the page"


def _formats(samples: Sequence[Sample]) -> frozenset[str]:
    """The formats that all numbers fit."""
    return frozenset(each for each in _FORMATS if all(_is_written(sample, each) for sample in samples))


def _is_written(sample: Sample, number_format: str) -> bool:
    return sample.number == _FORMATS[number_format](float(sample.number))


def _longest(samples: Sequence[Sample]) -> str:
    return max((sample.number for sample in samples), key=len)


def _range(theirs: CapturedFamily, ours: CapturedFamily) -> str:
    """The difference in magnitude; counters and zeros do not count."""
    if "counter" in (theirs.kind, ours.kind):
        return ""
    wanted, has = _magnitudes(theirs.samples), _magnitudes(ours.samples)
    if not wanted or not has:
        return ""
    if min(has) * _MAGNITUDE < min(wanted) or max(has) > max(wanted) * _MAGNITUDE:
        return f"{_span(wanted)} in the capture, {_span(has)} on the page"
    return ""


def _distance(theirs: CapturedFamily, ours: CapturedFamily) -> float:
    """How far the highest numbers of a family are apart, as a logarithm; 0 for counters, a factor of 30 for a zero."""
    wanted, has = _magnitudes(theirs.samples), _magnitudes(ours.samples)
    if "counter" in (theirs.kind, ours.kind) or not (wanted or has):
        return 0.0
    return abs(math.log(max(wanted) / max(has))) if wanted and has else math.log(_MAGNITUDE)


def _magnitudes(samples: Sequence[Sample]) -> list[float]:
    values = [abs(float(sample.number)) for sample in samples]
    return [value for value in values if 0 < value < math.inf]


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _misplaced(wanted: Sequence[str], has: Sequence[str]) -> frozenset[str]:
    """The smallest set of names to remove so that both have the same order."""
    place = {name: number for number, name in enumerate(has)}
    ends: list[int] = []
    links: list[tuple[str, int]] = []
    last_of: list[int] = []
    for name in wanted:
        at = bisect_left(ends, place[name])
        links.append((name, last_of[at - 1] if at else -1))
        if at == len(ends):
            ends.append(place[name])
            last_of.append(len(links) - 1)
        else:
            ends[at], last_of[at] = place[name], len(links) - 1
    kept = set()
    link = last_of[-1] if last_of else -1
    while link >= 0:
        name, link = links[link]
        kept.add(name)
    return frozenset(wanted) - kept
