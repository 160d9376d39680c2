"""A page of metrics read back as it was written: order, label order and the text of numbers are kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_SAMPLE: Final = re.compile(
    r"([a-zA-Z_:][\w:]*)(?:\{((?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*)\})?[ \t]+(\S+)(?:[ \t]+(-?[\d.]+))?[ \t]*"
)
_LABEL: Final = re.compile(r'([a-zA-Z_][\w-]*)="((?:[^"\\]|\\.)*)"')
_DECLARED: Final = re.compile(r"# (HELP|TYPE) (\S+) ?(.*)")
#: Ends of the names of samples that belong to a family of a shorter name.
_ENDS: Final = ("_total", "_created", "_bucket", "_count", "_sum")
#: How much of a line a problem shows.
_SHOWN: Final = 60


@dataclass(frozen=True)
class Sample:
    """One line of a page; its label values as they are escaped."""

    labels: tuple[tuple[str, str], ...]
    number: str
    has_timestamp: bool

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of its labels, in their order."""
        return tuple(name for name, _ in self.labels)


@dataclass(frozen=True)
class CapturedFamily:
    """What a page says of one family; ``kind`` is the word of its TYPE line, ``help`` None where there is no HELP."""

    name: str
    kind: str
    help: str | None
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class CapturedPage:
    """The families of a page, in the order in which it first names them.

    :ivar is_declared_first: all declarations come before the first sample, and there are several.
    """

    families: Mapping[str, CapturedFamily]
    is_declared_first: bool

    def label_values(self) -> frozenset[str]:
        """Every value that a label has."""
        return frozenset(
            value for family in self.families.values() for sample in family.samples for _, value in sample.labels
        )


def read_page(text: str) -> CapturedPage:
    """A page of the text format 0.0.4 or of OpenMetrics.

    :raises ValueError: for a line that is neither a comment nor a sample, with its number.
    """
    kinds: dict[str, str] = {}
    helps: dict[str, str] = {}
    samples: dict[str, list[Sample]] = {}
    declared_after = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            declared = _DECLARED.fullmatch(line)
            if declared:
                word, name, said = declared.groups()
                declared_after = declared_after or any(samples.values())
                samples.setdefault(name, [])
                (kinds if word == "TYPE" else helps).setdefault(name, said)
        elif line.strip():
            match = _SAMPLE.fullmatch(line)
            if match is None or not _is_number(match[3]):
                raise ValueError(f"line {number} is no sample: {line[:_SHOWN]!r}")
            sample = Sample(tuple(_LABEL.findall(match[2] or "")), match[3], match[4] is not None)
            samples.setdefault(_family_of(match[1], kinds), []).append(sample)
    families = {
        name: CapturedFamily(name, kinds.get(name, "untyped"), helps.get(name), tuple(lines))
        for name, lines in samples.items()
    }
    return CapturedPage(families, len(kinds) > 1 and not declared_after)


def _family_of(sample: str, declared: Mapping[str, str]) -> str:
    if sample not in declared:
        for end in _ENDS:
            if sample.endswith(end) and sample.removesuffix(end) in declared:
                return sample.removesuffix(end)
    return sample


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
