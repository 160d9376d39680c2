"""Which identities a captured page may be of, on which board, and how well each conforms: the best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from fakedev.commands.conform_report import Report as ScoreReport
from fakedev.commands.conform_report import Scored
from fakedev.commands.sample_page import sample_page
from fakedev.config.catalog import Catalog
from fakedev.config.identities.choice import (
    DEFAULT_DEVICE,
    alike_devices,
    likely_identities,
    named_identity,
    recognized_device,
    recognized_facts,
    recognized_instances,
    shown_board,
)
from fakedev.config.schema.nodes import Place, Report
from fakedev.exposition.captured import CapturedPage, read_page
from fakedev.exposition.conformity import Conformity, compared
from fakedev.exposition.identity import Identity

#: How DCGM's profiling fields begin: a board that is to be divided and is not has none of them.
_PROFILING: Final = "DCGM_FI_PROF_"
#: Compares a capture with a page.
Compare = Callable[[CapturedPage, CapturedPage], Conformity]


def scored(
    capture: CapturedPage,
    source: str,
    catalog: Catalog,
    report: Report,
    *,
    identity: str = "",
    device: str = "",
    is_fragment: bool = False,
    compare: Compare | None = None,
    show: Callable[[float], None] | None = None,
    program: str = "fakedev conform",
) -> ScoreReport:
    """The scores of the identities that the capture may be of.

    :param source: where the capture comes from, for problems and the report.
    :param report: of the catalog.
    :param identity, device: names that the user has given; empty: the most similar, and the one of the capture.
    :param compare: how pages are compared; None: as whole pages, or as a fragment.
    :param show: is told the share that is done.
    :raises ConfigurationError: when an identity or a device cannot be used.
    :raises ValueError: when no identity has any of the families.
    """
    if identity:
        named_identity(identity, catalog, report, f"{program}: --identity")
    if device:
        catalog.device(device, Place(f"{program}: --device"))
        report.raise_if_any()
    names = [identity] if identity else likely_identities(capture.families, catalog, report)
    if not names:
        raise ValueError(f"{source}: no identity has any of its families; name one with --identity")
    recognized = device or recognized_device(capture.label_values(), catalog)
    devices = [recognized] if recognized else alike_devices(DEFAULT_DEVICE, catalog)
    scorer = _Scorer(capture, catalog, compare or partial(compared, is_fragment=is_fragment))
    steps = 2 * len(names) + (1 if recognized else len(names) + len(devices))
    done = 0

    def scores(wanted: Sequence[str], boards: Sequence[str], *, is_idle: bool = False) -> list[Scored]:
        nonlocal done
        found: list[Scored] = []
        for name in wanted:
            for each in boards:
                found += scorer.scores(name, each, is_idle=is_idle)
                done += 1
                if show is not None:
                    show(done / steps)
        return found

    every, notes = scores(names, devices[:1]), list(report.notes)
    if recognized is None:
        # The nearest board is that of the most similar page of the identity that is best on any board.
        nearest = max(scores([max(every, key=_similarity).identity], devices), key=_similarity_of_boards).device
        every = scores(names, [nearest]) if nearest != devices[0] else every
        board = shown_board(capture)
        said = f"the board {board!r} is in no device type" if board else "the page does not name its board"
        notes.append(f"{said}: compared with the nearest, {nearest}")
    best = max(every, key=_similarity)
    # Of a capture of idle boards, the numbers are those of such a page.
    idle = scores([best.identity], [best.device], is_idle=True)
    if max(each.result.percent for each in idle) > best.result.percent:
        every += idle + scores([name for name in names if name != best.identity], [best.device], is_idle=True)
    best_of = {each.identity: each for each in sorted(every, key=_similarity)}
    ordered = sorted((best_of[name] for name in names), key=_similarity, reverse=True)
    return ScoreReport(source, tuple(ordered), tuple(notes))


def _similarity(scored: Scored) -> tuple[float, float]:
    """The score; then how near the numbers are."""
    return scored.result.percent, -scored.result.distance


def _similarity_of_boards(scored: Scored) -> tuple[int, float]:
    """What boards have and have not; then how near the numbers are."""
    return -sum(difference.aspect != "range" for difference in scored.result.differences), -scored.result.distance


class _Scorer:
    """Compares a capture with pages of identities on devices."""

    def __init__(self, capture: CapturedPage, catalog: Catalog, compare: Compare) -> None:
        self._capture = capture
        self._catalog = catalog
        self._compare = compare
        self._facts = recognized_facts(capture)

    def scores(self, name: str, device: str, *, is_idle: bool) -> list[Scored]:
        """The scores of an identity on a device, also as pages of boards that are to be divided and are not yet.

        :param is_idle: both boards of the page are idle; else one works.
        """
        found = []
        instances = recognized_instances(self._capture, device, self._catalog)
        identity, text = sample_page(name, device, instances, facts=self._facts, is_idle=is_idle)
        for page, remark in _variants(identity, read_page(text), self._capture):
            result = self._compare(self._capture, page)
            title = f"{identity.title} on {device}{remark}{' (idle)' if is_idle else ''}"
            found.append(Scored(title, result, name, device))
        return found


def _variants(identity: Identity, page: CapturedPage, capture: CapturedPage) -> Iterator[tuple[CapturedPage, str]]:
    """A page; and for a capture that has none of what only undivided boards have, the same without that."""
    yield page, ""
    whole = {each.name for each in identity.families if {row.level for row in each.rows} == {"whole"}}
    if whole & page.families.keys() and not whole & capture.families.keys():
        yield page.without(whole), " (MIG on, no instance)"
        profiling = {name for name in page.families if name.startswith(_PROFILING)}
        yield page.without(whole | profiling), " (MIG on, no instance)"
