"""The parser of the exposition format: it keeps order, label order and the digits of numbers.

Text format 0.0.4 and OpenMetrics as Prometheus reads them: only LF ends a line, label values have any other character.
More lenient than Prometheus: a line may end with CR LF. Names in quotes (text format 1.0.0) are not read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

# Possessive quantifiers: a long line costs linear time.
_NUMBER: Final = re.compile(
    rb"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?+|[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])?+|[nN][aA][nN]"
)
#: A sample: its name, what its braces enclose, its number, its time; then perhaps an exemplar of OpenMetrics.
_ROW: Final = re.compile(
    rb"[ \t]*+([a-zA-Z_:][\w:]*+)(?:[ \t]*+\{((?:[^\"}]|\"(?:[^\"\\]|\\.)*+\")*+)\}[ \t]*+|[ \t]++)"
    rb"([^\s#{]++)(?:[ \t]++([+-]?[\d.][\d.eE+-]*+))?(?:[ \t]++#[ \t]*+\{.*+)?[ \t]*+\r?"
)
_LABEL: Final = re.compile(rb'[ \t]*+([a-zA-Z_]\w*+)[ \t]*+=[ \t]*+"((?:[^"\\]|\\.)*+)"[ \t]*+(,?+)[ \t]*+')
_DECLARED: Final = re.compile(rb"[ \t]*+#[ \t]++(HELP|TYPE)[ \t]++(\S++)[ \t]?+(.*?)\r?")
_EOF: Final = b"# EOF"
_ESCAPE: Final = re.compile(r'\\([\\n"])')
#: Escapes of HELP in the text format; OpenMetrics has those of labels there.
_ESCAPE_IN_HELP: Final = re.compile(r"\\([\\n])")
#: Suffixes of sample names that the name of their family does not have, by its type.
_SUFFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "counter": ("_total", "_created"),
    "summary": ("_count", "_sum", "_created"),
    "histogram": ("_bucket", "_count", "_sum", "_created"),
    "gaugehistogram": ("_bucket", "_gcount", "_gsum"),
    "info": ("_info",),
}
#: How many characters of a line an error shows.
_SHOWN: Final = 60
_LINES_AT_ONCE: Final = 10_000

#: Names and values of labels, in their order; values without escapes.
Labels = tuple[tuple[str, str], ...]


class WrongLine(ValueError):
    """A line that is not well formed.

    :ivar number: of the line, from 1.
    :ivar shown: its beginning.
    """

    def __init__(self, number: int, line: bytes) -> None:
        self.number = number
        self.shown = line[: 4 * _SHOWN].decode(errors="replace")[:_SHOWN]
        super().__init__(f"line {number} is no sample: {self.shown!r}")


class Row(NamedTuple):
    """The line of a sample.

    :ivar number: its digits.
    :ivar time: its digits, in milliseconds (text format) or in seconds (OpenMetrics); None without one.
    :ivar number_at: how many bytes of the line are before the number.
    """

    name: str
    labels: Labels
    number: str
    time: str | None
    number_at: int


class Declaration(NamedTuple):
    """A HELP or a TYPE line; a HELP without escapes."""

    word: str
    name: str
    text: str


@dataclass(frozen=True)
class Sample:
    """One sample of a family; ``number`` has the digits of the page.

    :ivar suffix: of its name, where the family's does not have it: ``_bucket``.
    """

    labels: Labels
    number: str
    has_timestamp: bool
    suffix: str = ""

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

    def with_samples(self, other: CapturedPage) -> CapturedPage:
        """The same page with the samples of another one of the same exporter, too."""
        both = {
            name: replace(family, samples=family.samples + other.families[name].samples)
            if name in other.families else family
            for name, family in self.families.items()
        }  # fmt: skip
        return CapturedPage({**both, **other.without(both).families}, self.is_declared_first)

    def with_labels(self, changed: Callable[[Labels], Labels]) -> CapturedPage:
        """The same page with other labels of its samples."""
        families = {
            name: replace(family, samples=tuple(replace(each, labels=changed(each.labels)) for each in family.samples))
            for name, family in self.families.items()
        }
        return CapturedPage(families, self.is_declared_first)

    def without_labels(self, names: Collection[str]) -> CapturedPage:
        """The same page without some labels of its samples."""
        return self.with_labels(lambda labels: tuple(pair for pair in labels if pair[0] not in names))

    def label_names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self._labels())

    def label_values(self) -> frozenset[str]:
        return frozenset(value for _, value in self._labels())

    def _labels(self) -> Iterator[tuple[str, str]]:
        return (label for family in self.families.values() for sample in family.samples for label in sample.labels)


def is_number(text: bytes) -> bool:
    """Whether a text is a number of the exposition format; ``1_0`` and hexadecimal numbers are none."""
    return _NUMBER.fullmatch(text) is not None


def is_openmetrics(page: bytes) -> bool:
    """Whether a page ends as OpenMetrics ends."""
    return page[-2 * len(_EOF) :].rstrip().endswith(_EOF)


def read_row(line: bytes, known: dict[bytes, Labels] | None = None) -> Row | None:
    """The sample of a line without its LF; None if it is not well formed.

    :param known: labels by the text between the braces, for the next lines.
    """
    found = _ROW.fullmatch(line)
    if found is None:
        return None
    name, inner, number, time = found.groups()
    if not is_number(number) or not (time is None or is_number(time)):
        return None
    labels: Labels | None = () if not inner else None if known is None else known.get(inner)
    if labels is None:
        labels = _labels(inner)
        if labels is None:
            return None
        if known is not None:
            known[inner] = labels
    return Row(name.decode(), labels, number.decode(), None if time is None else time.decode(), found.start(3))


def read_lines(page: bytes | str) -> Iterator[tuple[int, Row | Declaration]]:
    """The samples and declarations of a page with the numbers of their lines; without comments and empty lines.

    :raises WrongLine: for a line that is neither a comment nor a sample, or not in UTF-8.
    """
    data = page.encode("utf-8", "surrogatepass") if isinstance(page, str) else page
    escape = _ESCAPE if is_openmetrics(data) else _ESCAPE_IN_HELP
    known: dict[bytes, Labels] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        row = read_row(line, known)
        if row is not None:
            yield number, row
            continue
        begin = line.lstrip(b" \t")
        if begin.startswith(b"#"):
            declared = _DECLARED.fullmatch(line)
            if declared:
                try:
                    word, name, text = (part.decode() for part in declared.groups())
                except UnicodeDecodeError:
                    raise WrongLine(number, line) from None
                yield number, Declaration(word, name, escape.sub(_unescaped, text) if word == "HELP" else text.strip())
        elif begin.strip():
            raise WrongLine(number, line)


def read_page(page: bytes | str, done: Callable[[float], None] = lambda share: None) -> CapturedPage:
    """The families of a page.

    :param done: called now and then with the share that is read, from 0 to 1.
    :raises WrongLine: as :func:`read_lines`.
    """
    kinds: dict[str, str] = {}
    helps: dict[str, str] = {}
    samples: dict[str, list[Sample]] = {}
    has_samples = declared_after = False
    total = page.count("\n") if isinstance(page, str) else page.count(b"\n")
    for number, line in read_lines(page):
        if number % _LINES_AT_ONCE == 0:
            done(min(number / (total + 1), 1.0))
        if isinstance(line, Declaration):
            declared_after = declared_after or has_samples
            samples.setdefault(line.name, [])
            (kinds if line.word == "TYPE" else helps).setdefault(line.name, line.text)
        else:
            has_samples = True
            family = _family_of(line.name, kinds)
            sample = Sample(line.labels, line.number, line.time is not None, line.name[len(family) :])
            samples.setdefault(family, []).append(sample)
    families = {
        name: CapturedFamily(name, kinds.get(name, "untyped"), helps.get(name), tuple(found), name in kinds)
        for name, found in samples.items()
    }
    return CapturedPage(families, len(kinds) > 1 and not declared_after)


def _labels(inner: bytes) -> Labels | None:
    """The labels between braces; None where they are not well formed, or two have one name."""
    labels: dict[str, str] = {}
    place, count = 0, 0
    try:
        while place < len(inner):
            found = _LABEL.match(inner, place)
            if found is None or not (found[3] or found.end() == len(inner)):
                return None if inner.strip(b" \t") else ()
            value = found[2].decode()
            labels[found[1].decode()] = _ESCAPE.sub(_unescaped, value) if "\\" in value else value
            place, count = found.end(), count + 1
    except UnicodeDecodeError:
        return None
    return tuple(labels.items()) if len(labels) == count else None


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


def _family_of(sample: str, kinds: Mapping[str, str]) -> str:
    if sample not in kinds:
        begin, bar, end = sample.rpartition("_")
        if bar and f"_{end}" in _SUFFIXES.get(kinds.get(begin, ""), ()):
            return begin
    return sample

