"""Comparison of a clone's page with what was read, also where a Prometheus has lost order and format."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fakedev.clone.source_pages import thinned
from fakedev.exposition.captured import CapturedFamily, CapturedPage, Sample
from fakedev.exposition.conformity import Conformity, compared


def conformity(read: CapturedPage, shown: CapturedPage, *, is_stored: bool) -> Conformity:
    """How well a clone's page conforms to the one that was read.

    :param is_stored: the read page comes from a Prometheus: names and labels are compared, not their order, nor how
        numbers are written; TYPE and HELP where it has them.
    """
    if not is_stored:
        return compared(thinned(read), thinned(shown))
    order = [name for name in read.families if name in shown.families]
    names = [*order, *(name for name in shown.families if name not in read.families)]
    ordered = CapturedPage({name: shown.families[name] for name in names}, read.is_declared_first)
    result = compared(_as_stored(read), _as_stored(ordered), is_fragment=True)
    return result


def _as_stored(page: CapturedPage) -> CapturedPage:
    families = {name: _stored_family(family) for name, family in thinned(page).families.items()}
    return CapturedPage(families, page.is_declared_first)


def _stored_family(family: CapturedFamily) -> CapturedFamily:
    return replace(family, samples=tuple(_stored_samples(family.samples)))


def _stored_samples(samples: Iterable[Sample]) -> Iterable[Sample]:
    for sample in samples:
        yield Sample(tuple(sorted(sample.labels)), f"{float(sample.number):.0f}", has_timestamp=False)
