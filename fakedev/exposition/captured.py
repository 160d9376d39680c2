"""Parser of a page of metrics that keeps order, label order and the text of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

#: A line of a sample: its name, the text of its labels, the text of its number, that of its time.
# Possessive quantifiers, and names only from their first character on: a long line costs linear time.
SAMPLE: Final = re.compile(
    r"([a-zA-Z_:][\w:]*+)(?:\{((?:[^\"}]|\"(?:[^\"\\]|\\.)*+\")*+)\})?[ \t]++(\S++)(?:[ \t]++(-?[\d.]++))?[ \t]*+"
)
#: A label: its name, and its value, which is still escaped.
LABEL: Final = re.compile(r'(?<![\w-])([a-zA-Z_][\w-]*+)="((?:[^"\\]|\\.)*+)"')
_DECLARED: Final = re.compile(r"# (HELP|TYPE) (\S++) ?+(.*)")
#: Suffixes of sample names that the name of their family does not have.
_SUFFIXES: Final = ("_total", "_created", "_bucket", "_count", "_sum")
#: How many characters of a line an error shows.
_SHOWN: Final = 60
_LINES_AT_ONCE: Final = 10_000


@dataclass(frozen=True)
class Sample:
    """One line of a page; label values stay escaped."""

    labels: tuple[tuple[str, str], ...]
    number: str
    has_timestamp: bool

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of its labels, in their order."""
        return tuple(name for name, _ in self.labels)


@dataclass(frozen=True)
class CapturedFamily:
    """One family of a page; ``kind`` is the word of its TYPE line, ``help`` is None without a HELP line.

    :ivar has_type: whether there is a TYPE line; without one the kind is ``untyped``.
    """

    name: str
    kind: str
    help: str | None
    samples: tuple[Sample, ...]
    has_type: bool = True


@dataclass(frozen=True)
class CapturedPage:
    """The families of a page, in the order of first occurrence.

    :ivar is_declared_first: there are several declarations, all before the first sample.
    """

    families: Mapping[str, CapturedFamily]
    is_declared_first: bool

    def without(self, names: Collection[str]) -> CapturedPage:
        """The same page without some families."""
        kept = {name: family for name, family in self.families.items() if name not in names}
        return CapturedPage(kept, self.is_declared_first)

    def label_values(self) -> frozenset[str]:
        """All label values."""
        return frozenset(
            value for family in self.families.values() for sample in family.samples for _, value in sample.labels
        )


def _no_progress(share: float) -> None:
    """Nothing is told."""


def read_page(text: str, done: Callable[[float], None] = _no_progress) -> CapturedPage:
    """A page of the text format 0.0.4 or of OpenMetrics.

    :param done: called now and then with the share that is read, from 0 to 1.
    :raises ValueError: for a line that is neither a comment nor a sample, with its number.
    """
    kinds: dict[str, str] = {}
    helps: dict[str, str] = {}
    samples: dict[str, list[Sample]] = {}
    declared_after = False
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if number % _LINES_AT_ONCE == 0:
            done(number / len(lines))
        if line.startswith("#"):
            declared = _DECLARED.fullmatch(line)
            if declared:
                word, name, value = declared.groups()
                declared_after = declared_after or any(samples.values())
                samples.setdefault(name, [])
                (kinds if word == "TYPE" else helps).setdefault(name, value)
        elif line.strip():
            match = SAMPLE.fullmatch(line)
            if match is None or not _is_number(match[3]):
                raise ValueError(f"line {number} is no sample: {line[:_SHOWN]!r}")
            sample = Sample(tuple(LABEL.findall(match[2] or "")), match[3], match[4] is not None)
            samples.setdefault(_family_of(match[1], kinds), []).append(sample)
    families = {
        name: CapturedFamily(name, kinds.get(name, "untyped"), helps.get(name), tuple(found), name in kinds)
        for name, found in samples.items()
    }
    return CapturedPage(families, len(kinds) > 1 and not declared_after)


def _family_of(sample: str, declared: Mapping[str, str]) -> str:
    if sample not in declared:
        for suffix in _SUFFIXES:
            if sample.endswith(suffix) and sample.removesuffix(suffix) in declared:
                return sample.removesuffix(suffix)
    return sample


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
