"""What the series and labels of one exporter are called in another one, or in another release of the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fakedev.exporters.identity import UNITS, FamilySpec, Identity, LabelSpec, RowSpec

_PART: Final = re.compile(r"\{\w++\?")
#: Levels of devices.
_OF_DEVICES: Final = ("device", "unit", "repeated", "whole", "single", "tiled", "held")
_WORD: Final = re.compile(r"[a-z]+")


class Counterpart(NamedTuple):
    """What a family is called now.

    :ivar factor: from old values to new ones.
    :ivar matchers: what selects the rows that show the same, if the new family also has others:
        ``clock_type="memory"``.
    """

    name: str
    factor: float
    matchers: str = ""

    @property
    def selector(self) -> str:
        """The name with its matchers."""
        return f"{self.name}{{{self.matchers}}}" if self.matchers else self.name


class Renamed(NamedTuple):
    """What series of one identity are called in another one.

    :ivar families: by their old name.
    :ivar labels: the name of a label of rows to its new one.
    :ivar lost_families, lost_labels: those without a counterpart.
    """

    families: Mapping[str, Counterpart]
    labels: Mapping[str, str]
    lost_families: frozenset[str]
    lost_labels: frozenset[str]


def renamed(old: Identity, new: Identity, shown: Collection[str] = ()) -> Renamed:
    """The new names of the families and labels that are called otherwise, or have another unit.

    :param shown: the families that the boards of the new identity have. If several families show the same quantity,
        the first choice is one that these boards have, then one whose rows do not differ by partition, then one whose
        name has more words in common. Several old families may have the same counterpart.
    """
    theirs = {family.name: family for family in new.families}
    names = {family.name for family in old.families}
    rows = [(family, row) for family in new.families if family.name not in names for row in family.rows]
    taken: set[int] = set()
    families = {}
    for family in old.families:
        ours = family.rows[0]
        if family.name in theirs:
            families[family.name] = Counterpart(family.name, _scale(theirs[family.name].rows[0]) / _scale(ours))
            continue
        words = _words(family.name)
        same = [
            (other.name not in shown, len(other.rows), at in taken, -len(words & _words(other.name)), at)
            for at, (other, row) in enumerate(rows) if is_the_same(ours, row)
        ]  # fmt: skip
        if same:
            at = min(same)[-1]
            other, row = rows[at]
            taken.add(at)
            families[family.name] = Counterpart(other.name, _scale(row) / _scale(ours), _matchers(other, row))
    changed = {name: found for name, found in families.items() if found != Counterpart(name, 1.0)}
    labels = new_names_of_labels(old.labels, new.labels)
    gone = {label.name for label in old.labels} - {label.name for label in new.labels}
    return Renamed(changed, labels, frozenset(names - families.keys()), frozenset(gone - labels.keys()))


def _words(name: str) -> frozenset[str]:
    return frozenset(_WORD.findall(name.lower()))


def _scale(row: RowSpec) -> float:
    return UNITS[row.unit] * row.times


def _matchers(family: FamilySpec, row: RowSpec) -> str:
    """The own labels of a row by which it differs from the other rows of its level, few of them.

    Those by which it differs from rows with another meaning come first: the type of a clock, then its index. Labels
    with few values (a type, a place) come before those with many (a name, an index).
    """
    own = {label.name: label.value for label in row.labels if "{" not in label.value and not label.texts}
    counts = Counter(name for name, _ in {(label.name, label.value) for other in family.rows for label in other.labels})
    rows = [other for other in family.rows if other.level == row.level]
    kept: frozenset[str] = frozenset()
    for others in ([other for other in rows if not is_the_same(row, other)], rows):
        needed = frozenset(own)
        for name in sorted(own, key=lambda name: -counts[name]):
            fewer = needed - {name} | kept
            if all(_differs(other, own, fewer) for other in others if _differs(other, own, own)):
                needed = fewer
        kept = needed
    return ",".join(f'{name}="{own[name]}"' for name in sorted(kept))


def _differs(row: RowSpec, values: Mapping[str, str], names: Iterable[str]) -> bool:
    """Whether a row has other values of some labels."""
    labels = {label.name: label.value for label in row.labels}
    return any(labels.get(name, "") != values[name] for name in names)


def counterparts(lost: Iterable[str], added: Iterable[str], is_the_same: Callable[[str, str], bool]) -> dict[str, str]:
    """The new name of each lost thing that has one: the first of those that are the same, each for one thing."""
    found: dict[str, str] = {}
    left = list(added)
    for name in lost:
        new = next((candidate for candidate in left if is_the_same(name, candidate)), None)
        if new is not None:
            left.remove(new)
            found[name] = new
    return found


def is_the_same(before: RowSpec, after: RowSpec) -> bool:
    """Whether two rows show the same quantity of the same entity, in any units."""
    return bool(before.quantity or before.fact) and _source(before) == _source(after)


def _source(row: RowSpec) -> tuple[object, ...]:
    """The source of a row's numbers, regardless of unit and of how devices are divided."""
    level = "device" if row.level in _OF_DEVICES else row.level
    return level, row.quantity, row.fact, row.bits, row.plus, row.per


def new_names_of_labels(old: Sequence[LabelSpec], new: Sequence[LabelSpec]) -> dict[str, str]:
    """The new name of each label that another one has the value of."""
    # {unit?index} is {index} on boards that are not divided.
    before, after = ({label.name: _PART.sub("{", label.value) for label in labels} for labels in (old, new))
    lost, added = ([name for name in some if name not in others] for some, others in ((before, after), (after, before)))
    return counterparts(lost, added, lambda one, other: before[one] == after[other])
