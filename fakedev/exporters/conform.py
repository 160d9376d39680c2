"""Comparison of a page with a captured one (conformity), and the differences between two identities.

Each family of either page has seven aspects: presence on both pages, TYPE, HELP, label names in order, number format,
range of the numbers, and position among the families. A family of only one page differs in all of them; aspects that
need samples are skipped without samples. Of a fragment, TYPE and HELP count only where it has them, and the position
does not: families of a fragment are where its document put them. Values are not compared, only their magnitudes, which
differ between percents and ratios, or bytes and MiB, and with what the board can show. The result is differences in
words, and the share of equal aspects.

Differences between identities are for users who change from one to the other, e.g. in an upgrade.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from fakedev.base.errors import printable
from fakedev.exporters.counterparts import counterparts, is_the_same, new_names_of_labels
from fakedev.exporters.identity import UNITS, FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.exporters.numbers import formatted
from fakedev.exporters.samples import CapturedFamily, CapturedPage, Sample
from fakedev.fleet.spec.device_types import DeviceType

#: Aspects of a family if both pages have samples of it.
ASPECTS: Final = ("family", "TYPE", "HELP", "labels", "numbers", "range", "order")
#: Aspects that need samples.
_OF_SAMPLES: Final = ("labels", "numbers", "range")
#: Families that an exporter's library adds about its own process. No identity shows them.
_OF_PROCESS: Final = re.compile(r"(go|process|promhttp|python)_|[a-z_]+_exporter_build_info$")
#: The largest factor between numbers of one magnitude. Ratio and percent differ by 100.
_MAGNITUDE: Final = 30.0
#: Readings of power are over the limit for moments, the others are rounded.
_OVER_LIMIT: Final = 1.25
_ROUNDING: Final = 1.01
#: The speed of a fan may be over 100 % of its nominal one.
_ABOVE_ONE: Final = "fan_speed_ratio"

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
    :ivar foreign: the aspects of families that the capture does not have.
    """

    differences: tuple[Difference, ...]
    aspects: int
    met: int
    distance: float = 0.0
    foreign: int = 0

    @property
    def percent_of_capture(self) -> float:
        """The share of equal aspects among those of the capture: exporters are often configured to few families."""
        return 100.0 * self.met / (self.aspects - self.foreign) if self.aspects > self.foreign else 100.0

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


def compared(
    capture: CapturedPage, page: CapturedPage, *, is_fragment: bool = False, undeclared: Container[str] = ()
) -> Conformity:
    """Compare a page with a captured one.

    :param is_fragment: the capture is a part of a page, so families and declarations that it lacks do not count.
    :param undeclared: families whose TYPE and HELP do not count: who made the capture has written them.
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
        ours = page.families.get(name)
        if ours is None and _OF_PROCESS.match(name):
            continue
        counted = set(ASPECTS)
        if is_fragment:
            declared = {"TYPE": theirs.has_type, "HELP": theirs.help is not None, "order": False}
            counted -= {aspect for aspect, is_there in declared.items() if not is_there}
        if name in undeclared:
            counted -= {"TYPE", "HELP"}
        aspects += len(counted)
        if ours is None:
            differences.append(Difference(name, "family", "only the capture has it"))
            lost += len(counted)
            continue
        if not theirs.samples or not ours.samples:
            aspects -= len(_OF_SAMPLES)
        found = _family_differences(theirs, ours, is_misplaced=name in misplaced)
        found = [difference for difference in found if difference.aspect in counted]
        differences += found
        lost += len(found)
    foreign = 0
    for name in page.families:
        if name not in capture.families and not is_fragment:
            differences.append(Difference(name, "family", "the capture does not have it"))
            foreign += len(ASPECTS)
    aspects += foreign
    lost += foreign
    distances = [_distance(capture.families[name], page.families[name]) for name in shared]
    distance = sum(distances) / len(distances) if distances else 0.0
    return Conformity(tuple(differences), aspects, aspects - lost, distance, foreign)


def highest_shown(identity: Identity, device: DeviceType) -> dict[str, float]:
    """The highest number that each family of an identity can show of a board, where the type has it, by name."""
    limits = _limits(device)

    def highest(row: RowSpec) -> float:
        usual = 1.0 if row.quantity.endswith("_ratio") and row.quantity != _ABOVE_ONE else 0.0
        is_scaled = replace(row, times=1.0).is_plain
        most = limits.get(row.quantity, usual) * UNITS[row.unit] * row.times if is_scaled else 0.0
        return most if 0 < most < math.inf else math.inf

    found = {family.name: max(map(highest, family.rows), default=math.inf) for family in identity.families}
    return {name: most * _ROUNDING for name, most in found.items() if most < math.inf}


def _limits(device: DeviceType) -> dict[str, float]:
    """The highest value of quantities on a board, each in its own unit; 0 and infinity where the type has none."""
    dynamics, watts = device.dynamics, device.power_limit_ends()[1]
    clocks = {name: each.high * _OVER_LIMIT for name, each in device.ranges.items() if name.endswith("_frequency_mhz")}
    memory = dict.fromkeys(("memory_used_bytes", "memory_free_bytes", "memory_total_bytes"), device.memory_total_bytes)
    if dynamics is None:
        return {**clocks, **memory}
    carried = {
        "pcie": dynamics.pcie_bytes_per_second, "fabric": dynamics.fabric_bytes_per_second,
        "memory": dynamics.memory_bytes_per_second,
    }  # fmt: skip
    traffic = {f"{link}_{way}_bytes_per_second": most for link, most in carried.items()
               for way in ("tx", "rx", "read", "write")}  # fmt: skip
    return {
        **clocks, **memory, **traffic,
        "temperature_celsius": min(dynamics.hardware_slowdown_celsius, dynamics.shutdown_celsius),
        "power_watts": _OVER_LIMIT * watts, "power_limit_watts": watts,
    }  # fmt: skip


def within_limits(
    result: Conformity, page: CapturedPage, highest: Mapping[str, float], where: str = "in the capture"
) -> Conformity:
    """A comparison that also has the numbers of a page that the board cannot show.

    :param highest: the highest number of families, by name; the lowest is 0.
    :param where: the page is, for the words.
    """
    known = {difference.family for difference in result.differences if difference.aspect in ("family", "range")}
    found = []
    for name in sorted(page.families.keys() & highest.keys() - known):
        numbers = [number for sample in page.families[name].samples if math.isfinite(number := float(sample.number))]
        most, least = max(numbers, default=0.0), min(numbers, default=0.0)
        if most > highest[name]:
            words = f"{most:g} {where}, and the board shows at most {highest[name] / _ROUNDING:g}"
            found.append(Difference(name, "range", words))
        elif least < 0:
            found.append(Difference(name, "range", f"{least:g} {where}, and the board shows at least 0"))
    return replace(result, differences=(*result.differences, *found), met=result.met - len(found))


def _family_differences(theirs: CapturedFamily, ours: CapturedFamily, *, is_misplaced: bool) -> list[Difference]:
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
    return "missing" if text is None else f'"{printable(text)}"'


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
    odd = [sample for sample in ours if not any(_is_written(sample, form) for form in formats)]
    return f"numbers as {_longest(theirs)} in the capture, as {_longest(odd or ours)} on the page"


def _formats(samples: Sequence[Sample]) -> frozenset[str]:
    """The formats that all numbers fit."""
    return frozenset(form for form in _FORMATS if all(_is_written(sample, form) for sample in samples))


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


class _Series(NamedTuple):
    """A series of each entity."""

    family: FamilySpec
    row: RowSpec


def grouped_differences(old: Identity, new: Identity) -> Mapping[str, Sequence[str]]:
    """The differences that users notice, a line each, by their kind; kinds without differences are left out.

    A renamed series shows the same quantity under another name; a renamed label has the same value.
    """
    ours, theirs = ({family.name: family for family in identity.families} for identity in (old, new))
    both = [(family, theirs[name]) for name, family in ours.items() if name in theirs]
    alike = {family.name for family, other in both if _own_labels(family) == _own_labels(other)}
    groups = {
        "labels": [*_labels_of_rows(old, new), *chain.from_iterable(_labels_of_family(*pair) for pair in both)],
        "HELP": [f'changed  HELP of {a.name}: "{a.help}" -> "{b.help}"' for a, b in both if a.help != b.help],
        "families and series": list(_series_differences(_series(old), _series(new), alike)),
        "types, numbers and conditions": list(_changes(old, new, both, alike)),
        "order and page": list(_page(old, new)),
    }
    return {kind: lines for kind, lines in groups.items() if lines}


def _series(identity: Identity) -> dict[str, _Series]:
    """The series of an entity, by name with own labels."""
    found: dict[str, _Series] = {}
    for family in identity.families:
        for row in family.rows:
            labels = ",".join(f'{label.name}="{label.value}"' for label in row.labels)
            # The first of rows with the same labels is the usual one.
            found.setdefault(f"{family.name}{{{labels}}}" if labels else family.name, _Series(family, row))
    return found


def _own_labels(family: FamilySpec) -> frozenset[str]:
    """The names of labels of some row of a family."""
    return frozenset(label.name for row in family.rows for label in row.labels)


def _series_differences(
    ours: Mapping[str, _Series], theirs: Mapping[str, _Series], alike: Iterable[str]
) -> Iterator[str]:
    """Series that are lost, renamed or added.

    :param alike: families with the same own labels: of other families that both have, no single series is told.
    """
    before, after = ({sample.family.name for sample in series.values()} for series in (ours, theirs))
    told = (before ^ after) | set(alike)
    lost = [name for name, our in ours.items() if name not in theirs and our.family.name in told]
    added = [name for name, their in theirs.items() if name not in ours and their.family.name in told]
    new_names = counterparts(lost, added, lambda old, new: is_the_same(ours[old].row, theirs[new].row))
    for name in lost:
        if new := new_names.get(name):
            yield f"renamed  {name} -> {new}{_in_words(ours[name], theirs[new], with_help=True)}"
        else:
            yield f"lost     {name}"
    for name in added:
        if name not in new_names.values():
            yield f"added    {name}{_condition(theirs[name].row)}"


def _changes(
    old: Identity, new: Identity, both: Iterable[tuple[FamilySpec, FamilySpec]], alike: Iterable[str]
) -> Iterator[str]:
    """What is otherwise changed of series that both have, and of families that have other labels."""
    theirs = _series(new)
    for name, series in _series(old).items():
        if name in theirs and (words := _in_words(series, theirs[name])):
            yield f"changed  {name}{words}"
    for family, other in both:
        words = _in_words(_Series(family, family.rows[0]), _Series(other, other.rows[0]))
        if words and family.name not in alike:
            yield f"changed  {family.name}{words}"


def _in_words(old: _Series, new: _Series, *, with_help: bool = False) -> str:
    (family, row), (family_after, after) = old, new
    words = {
        f"TYPE {family.kind} -> {family_after.kind}": family.kind != family_after.kind,
        "another HELP": with_help and family.help != family_after.help,
        f"numbers {family.number.value} -> {family_after.number.value}": family.number is not family_after.number,
        f"unit {row.unit} -> {after.unit}": row.unit != after.unit,
        f"times {row.times:g} -> {after.times:g}": row.times != after.times,
        "under other conditions": (row.where, row.unless, row.drivers, row.without_it)
        != (after.where, after.unless, after.drivers, after.without_it),
    }
    changes = [text for text, is_changed in words.items() if is_changed]
    return ": " + ", ".join(changes) if changes else ""


def _condition(row: RowSpec) -> str:
    """What a row depends on besides its quantity, in words."""
    return f": only where driver_version is {row.driver_words}" if row.drivers else ""


def _labels_of_rows(old: Identity, new: Identity) -> Iterator[str]:
    """The labels of every row; then, of levels that have their own, those that differ in another way."""
    every = list(_label_changes(old.labels, new.labels))
    yield from every
    levels = dict.fromkeys(level for level, _ in (*old.labels_of_levels, *new.labels_of_levels))
    for level in levels:
        yield from (
            f"{line} (rows of the level {level})"
            for line in _label_changes(old.labels_on(level), new.labels_on(level))
            if line not in every
        )


def _labels_of_family(old: FamilySpec, new: FamilySpec) -> Iterator[str]:
    """The labels that only rows of one family have."""
    before, after = _own_labels(old), _own_labels(new)
    for verb, names in (("lost    ", before - after), ("added   ", after - before)):
        for name in sorted(names):
            yield f"{verb} label {name} on {old.name}"
    for name in sorted(before & after):
        if _texts(old, name) != _texts(new, name):
            yield f"changed  label {name} on {old.name}: other texts"


def _texts(family: FamilySpec, name: str) -> set[tuple[str, str]]:
    """The texts that a label of a family's rows shows in the place of values."""
    return {text for row in family.rows for label in row.labels if label.name == name for text in label.texts}


def _label_changes(old: Sequence[LabelSpec], new: Sequence[LabelSpec]) -> Iterator[str]:
    before = {label.name: label for label in old}
    after = {label.name: label for label in new}
    new_names = new_names_of_labels(old, new)
    for name in before:
        if name not in after:
            yield f"renamed  label {name} -> {new_names[name]}" if name in new_names else f"lost     label {name}"
    for name, label in after.items():
        if name not in before and name not in new_names.values():
            yield f"added    label {name}{_presence(label)}"
    for name, label in before.items():
        if name in after and label != after[name]:
            yield f"changed  label {name}: {_described(label)} -> {_described(after[name])}"
    shared = [name for name in before if name in after]
    if shared != [name for name in after if name in before]:
        yield "changed  labels: another order"


def _presence(label: LabelSpec) -> str:
    if label.only_with:
        return f", where there is a {label.only_with}"
    return ", where it has a value" if label.optional else ""


def _described(label: LabelSpec) -> str:
    return label.value + (_presence(label) or ", always")


def _page(old: Identity, new: Identity) -> Iterator[str]:
    before, after = ([family.name for family in identity.families] for identity in (old, new))
    is_reordered = [name for name in before if name in after] != [name for name in after if name in before]
    since = ("now", "no longer")
    words = {
        "page: another order of families": is_reordered,
        f"page: {old.layout.value} -> {new.layout.value}": old.layout is not new.layout,
        f"page: lines end with a time {since[old.timestamps]}": old.timestamps != new.timestamps,
        f"page: Content-Type {old.content_type} -> {new.content_type}": old.content_type != new.content_type,
        f"page: OpenMetrics is offered {since[old.openmetrics]}": old.openmetrics != new.openmetrics,
        "headers of answers": (old.headers, old.health_headers) != (new.headers, new.health_headers),
        f"page: POST is answered {since[old.answers_post]}": old.answers_post != new.answers_post,
    }
    yield from (f"changed  {text}" for text, is_changed in words.items() if is_changed)
