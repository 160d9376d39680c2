"""The pages that a clone is made from, grouped by exporter, and as one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fakedev.exposition.captured import CapturedFamily, CapturedPage, Sample

#: Pages are of one exporter if they share at least this part of the families of the smaller one.
_SHARED: Final = 0.5
#: Of each family, so many lines with each set of labels are compared.
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
            before = -1
            for name, family in source.page.families.items():
                if name not in families:
                    before += 1
                    order.insert(before, name)
                    families[name] = family
                else:
                    before = max(before, order.index(name))
                samples.setdefault(name, []).extend(family.samples)
        joined = {name: replace(families[name], samples=tuple(samples[name])) for name in order}
        return CapturedPage(joined, self.pages[0].page.is_declared_first)

    def of_each_shape(self) -> PageGroup:
        """The first page of each set of families and labels, for trials."""
        shapes: dict[frozenset[tuple[str, tuple[str, ...]]], SourcePage] = {}
        for source in self.pages:
            families = source.page.families.values()
            shape = frozenset((each.name, sample.label_names) for each in families for sample in each.samples)
            shapes.setdefault(shape, source)
        return replace(self, pages=tuple(shapes.values()))


def grouped(sources: Iterable[SourcePage], *, is_stored: bool = False) -> list[PageGroup]:
    """Pages by exporter, in the order of their first page.

    Two pages are of one exporter if no TYPE and no HELP contradicts, and they share most families.
    """
    groups: list[tuple[dict[str, tuple[str, str | None]], list[SourcePage]]] = []
    for source in sources:
        declared = {name: (each.kind, each.help) for name, each in source.page.families.items()}
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
    families = {name: replace(each, samples=_thinned(each.samples)) for name, each in page.families.items()}
    return CapturedPage(families, page.is_declared_first)


def _thinned(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    numbers: dict[tuple[str, ...], dict[tuple[str, bool], Sample]] = {}
    for sample in samples:
        seen = numbers.setdefault(sample.label_names, {})
        if len(seen) < _COMPARED:
            seen.setdefault((sample.number, sample.has_timestamp), sample)
    return tuple(sample for seen in numbers.values() for sample in seen.values())
