"""The pages that a clone is made from: grouped by exporter, their numbers, and pages without real names.

The pages of an exporter are joined to one page. A number has its format, and the same number as a fact has it. In
anonymous pages each text that may reveal something has the same other text everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from uuid import NAMESPACE_URL, uuid5

import numpy as np

from fakedev.exporters.identity import NumberFormat
from fakedev.exporters.numbers import formatted
from fakedev.exporters.samples import CapturedFamily, CapturedPage, Sample

#: Pages are of one exporter if they share at least this part of the families of the smaller one.
_SHARED: Final = 0.5
#: Lines of a family that are compared for each set of labels.
_COMPARED: Final = 100


@dataclass(frozen=True)
class SourcePage:
    """A page that was read.

    :param name: of the file, or of the target in a Prometheus; it names the node if no label does.
    :param page: its families.
    """

    name: str
    page: CapturedPage


@dataclass(frozen=True)
class PageGroup:
    """Pages of one exporter.

    :param is_stored: they come from a Prometheus: without order, number formats and labels' order.
    """

    pages: tuple[SourcePage, ...]
    is_stored: bool = False

    def joined(self) -> CapturedPage:
        """All lines as one page: families in the order of the pages, a new one after the one before it."""
        families: dict[str, CapturedFamily] = {}
        samples: dict[str, list[Sample]] = {}
        order: list[str] = []
        for source in self.pages:
            others = [name for name in source.page.families if name not in families]
            if others:
                order = in_order(order, list(source.page.families), others)
            for name, family in source.page.families.items():
                families.setdefault(name, family)
                samples.setdefault(name, []).extend(family.samples)
        joined = {name: replace(families[name], samples=tuple(samples[name])) for name in order}
        return CapturedPage(joined, self.pages[0].page.is_declared_first)

    def of_each_shape(self) -> PageGroup:
        """The first page of each set of families and labels, for trials."""
        shapes: dict[frozenset[tuple[str, tuple[str, ...]]], SourcePage] = {}
        for source in self.pages:
            families = source.page.families.values()
            shape = frozenset((family.name, sample.label_names) for family in families for sample in family.samples)
            shapes.setdefault(shape, source)
        return replace(self, pages=tuple(shapes.values()))


def grouped(sources: Iterable[SourcePage], *, is_stored: bool = False) -> list[PageGroup]:
    """Pages by exporter, in the order of their first page.

    Two pages are of one exporter if no TYPE and no HELP contradicts, and they share most families.
    """
    groups: list[tuple[dict[str, tuple[str, str | None]], list[SourcePage]]] = []
    for source in sources:
        declared = {name: (family.kind, family.help) for name, family in source.page.families.items()}
        for known, members in groups:
            if _are_alike(known, declared):
                known.update(declared)
                members.append(source)
                break
        else:
            groups.append((declared, [source]))
    return [PageGroup(tuple(members), is_stored) for _, members in groups]


def _are_alike(known: Mapping[str, object], other: Mapping[str, object]) -> bool:
    shared = known.keys() & other.keys()
    fewest = min(len(known), len(other))
    return len(shared) >= fewest * _SHARED and all(known[name] == other[name] for name in shared)


def thinned(page: CapturedPage) -> CapturedPage:
    """A page for comparisons: of each family some lines with each set of labels, the first and different numbers."""
    families = {name: replace(family, samples=_thinned(family.samples)) for name, family in page.families.items()}
    return CapturedPage(families, page.is_declared_first)


def _thinned(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    numbers: dict[tuple[str, ...], dict[tuple[str, bool], Sample]] = {}
    for sample in samples:
        seen = numbers.setdefault(sample.label_names, {})
        if len(seen) < _COMPARED:
            seen.setdefault((sample.number, sample.has_timestamp), sample)
    return tuple(sample for seen in numbers.values() for sample in seen.values())


def in_order(order: Sequence[str], usual: Sequence[str], others: Iterable[str]) -> list[str]:
    """Names with others among them, each after all that usually go before it.

    :param others: some of the usual names, in the same order.
    """
    places, added = {name: place for place, name in enumerate(order, 1)}, set(others)
    after: dict[int, list[str]] = {}
    at = 0
    for name in usual:
        if name in added:
            after.setdefault(at, []).append(name)
        at = max(at, places.get(name, 0))
    return after.get(0, []) + [
        each for place, name in enumerate(order, 1) for each in (name, *after.get(place, ()))
    ]


def plain_number(text: str) -> str:
    """A number without an exponent, as facts that are numbers have it."""
    return np.format_float_positional(float(text), trim="-")


def format_of(numbers: Sequence[str], usual: NumberFormat) -> NumberFormat | None:
    """The format in which all numbers are written: the usual one, if they fit it; None where they fit none."""
    wanted = [number.encode() for number in numbers]
    values = np.array([float(number) for number in numbers])
    every = (usual, *NumberFormat)
    return next((form for form in every if formatted(values, form) == wanted), None)


_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
#: Texts that tell nothing of whose fleet it is: numbers, PCI addresses, device files, names of links.
_HARMLESS: Final = re.compile(
    r"[-+]?[0-9]{1,6}(?:\.[0-9]{1,6}){0,4}|0x[0-9a-fA-F]{1,8}|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]|"
    r"(?:nvidia|card|renderD|accel|nvswitch)[0-9]{1,4}|"
)
#: Numbers with these labels tell whose they are.
_OF_PEOPLE: Final = re.compile(r"serial|job|user|uid", re.IGNORECASE)
#: Labels of the kind of a row, and of versions: of exporters, not of users.
_LABELS_THAT_STAY: Final = re.compile(
    r"(?:DCGM_FI_(?:DRIVER|CUDA|NVML|PROCESS|DEV_BRAND|DEV_NAME)_?\w*+|GPU_I_\w++|gpu_\w*+version|driver_\w++|cuda_\w++|"
    r"vbios_version|err_\w++|type|reason|state|mode|window\w*+|health_\w++|clock_event|link_status|le|quantile)",
    re.IGNORECASE,
)
#: Labels of boards, where the exporter is one of boards; others have names of services and files there.
_LABELS_OF_BOARDS: Final = re.compile(
    r"(?:model|make|modelName|model_?name|card_(?:model|series|vendor)|brand|name|vendor|src|dev_name|hw_\w++|location|"
    r"device_brand)",
    re.IGNORECASE,
)
#: Of these the texts are names in the cluster, though the form of the label is that of a label that stays.
_WORDS: Final = {"Hostname": "node", "hostname": "node", "node": "node", "pod": "pod", "instance": "node"}


class Names:
    """The other texts, by kind and text, numbered in the order in which they are first met.

    :param kept: labels whose texts stay; of pods and nodes each label that names them.
    """

    def __init__(self, kept: Iterable[str] = ()) -> None:
        self._kept = {_WORDS.get(label, label) for label in kept}
        self._of_kind: dict[str, dict[str, str]] = {}
        self._uuids: dict[str, str] = {}

    def other(self, label: str, value: str, *, is_of_boards: bool = True) -> str:
        """The text in the place of a label's value.

        :param is_of_boards: whether the exporter is one of boards. What has another text on a page that is not of
            boards has it everywhere.
        """
        if self.keeps(label):
            return value
        if _UUID.search(value):
            return _UUID.sub(lambda found: self._uuid(found[0]), value)
        if _HARMLESS.fullmatch(value) and not _OF_PEOPLE.search(label):
            return value
        if _LABELS_THAT_STAY.fullmatch(label):
            return value
        kind = _WORDS.get(label, label.replace("_", "-"))
        if is_of_boards and _LABELS_OF_BOARDS.fullmatch(label) and value not in self._of_kind.get(kind, ()):
            return value
        return self.name(kind, value)

    def keeps(self, label: str) -> bool:
        """Whether the texts of a label stay."""
        return _WORDS.get(label, label) in self._kept

    def name(self, kind: str, value: str) -> str:
        """The name in the place of one of some kind."""
        if kind in self._kept:
            return value
        known = self._of_kind.setdefault(kind, {})
        return known.setdefault(value, f"{kind}-{len(known) + 1}")

    def _uuid(self, text: str) -> str:
        number = len(self._uuids)
        return self._uuids.setdefault(text, str(uuid5(NAMESPACE_URL, f"urn:fakedev:clone:{number}")))


def anonymous_groups(
    groups: Iterable[PageGroup], names: Names | None = None, is_of_boards: Callable[[CapturedPage], bool] = bool
) -> list[PageGroup]:
    """The same pages with other names, UUIDs and serial numbers; equal texts of a kind stay equal.

    Kept are numbers, PCI addresses, models of boards, versions, and labels that exporters fill with words of their own.

    :param names: those given so far; they grow.
    :param is_of_boards: returns whether the exporter of a page is one of boards.
    """
    names = names or Names()
    found = []
    for group in groups:
        other = partial(names.other, is_of_boards=is_of_boards(group.joined()))
        found.append(replace(group, pages=tuple(_page(source, other, names) for source in group.pages)))
    return found


def _page(source: SourcePage, other: Callable[[str, str], str], names: Names) -> SourcePage:
    families = {
        name: replace(family, samples=tuple(
            replace(sample, labels=tuple((label, other(label, value)) for label, value in sample.labels))
            for sample in family.samples
        ))
        for name, family in source.page.families.items()
    }  # fmt: skip
    page = CapturedPage(families, source.page.is_declared_first)
    return SourcePage(names.name("page", source.name), page)
