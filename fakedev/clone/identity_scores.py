"""Which identities a captured page may be of, on which board, and how well each conforms: the best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from fakedev.clone.recognition import (
    alike_devices,
    by_board,
    device_of_model,
    likely_identities,
    recognized_device,
    recognized_instances,
    shown_board,
    shown_facts,
    usual_device,
)
from fakedev.clone.scraped import thinned
from fakedev.config.sample_page import sample_page
from fakedev.exporters.conform import Conformity, compared, highest_shown, within_limits
from fakedev.exporters.identity import Identity
from fakedev.exporters.samples import CapturedPage, read_page
from fakedev.exporters.scores import Report as ScoreReport
from fakedev.exporters.scores import Scored
from fakedev.exporters.settings.catalog import Catalog, named_identity
from fakedev.schema.places import Place, Report

#: How DCGM's profiling fields begin: a board in MIG mode without instances has none of them.
_PROFILING: Final = "DCGM_FI_PROF_"
#: What dcgm-exporter's own list of counters has to 4.8.4 and the Helm chart's has not: a label and a family.
_NOT_OF_HELM: Final = ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_DEV_FB_RESERVED")
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
    similarity: Callable[[Scored], tuple[float, ...]] | None = None,
    show: Callable[[float], None] | None = None,
    program: str = "fakedev conform",
) -> ScoreReport:
    """The scores of the identities that the capture may be of.

    :param source: where the capture comes from, for problems and the report.
    :param report: of the catalog.
    :param identity, device: names that the user has given; empty: the most similar, and the one of the capture.
    :param compare: how pages are compared; None: as whole pages, or as a fragment.
    :param similarity: the best has most of it; None: the score, then how near the numbers are.
    :param show: is told the share that is done.
    :raises ConfigurationError: when an identity or a device cannot be used.
    :raises ValueError: when no identity has any of the families.
    """
    if identity:
        named_identity(identity, catalog, report, f"{program}: --identity")
    if device:
        catalog.device(device, Place(f"{program}: --device"))
        report.raise_if_any()
    similarity = similarity or _similarity
    names = [identity] if identity else likely_identities(capture.families, catalog, report)
    if not names:
        raise ValueError(f"{source}: no identity has any of its families; name one with --identity")
    recognized = device or recognized_device(capture.label_values(), catalog)
    board = shown_board(capture)
    model = None if recognized or not board else device_of_model(board, catalog)
    found = recognized or model
    devices = [found] if found else alike_devices(usual_device(names, catalog, report), catalog)
    compare, thin = compare or partial(compared, is_fragment=is_fragment), thinned(capture)
    steps = 2 * len(names) + (1 if found else len(names) + len(devices))
    done = 0

    def scores(wanted: Sequence[str], boards: Sequence[str], *, is_idle: bool = False) -> list[Scored]:
        nonlocal done
        made: list[Scored] = []
        for name in wanted:
            for board in boards:
                made += _scores(name, board, capture, thin, catalog, report, compare, is_idle=is_idle)
                done += 1
                if show is not None:
                    show(done / steps)
        return made

    every, notes = scores(names, devices[:1]), list(report.notes)
    if found is None:
        # The nearest board is that of the most similar page of the identity that is best on any board.
        nearest = max(scores([max(every, key=similarity).identity], devices), key=_similarity_of_boards).device
        every = scores(names, [nearest]) if nearest != devices[0] else every
        said = f"the board {board!r} is in no device type" if board else "the page does not name its board"
        notes.append(f"{said}: compared with the nearest, {nearest}")
    if model is not None:
        notes.append(f"the board {board!r} is in no device type: compared with that of its model, {model}")
    best = max(every, key=similarity)
    # Of a capture of idle boards, the numbers are those of such a page.
    idle = scores([best.identity], [best.device], is_idle=True)
    if max(score.result.percent for score in idle) > best.result.percent:
        every += idle + scores([name for name in names if name != best.identity], [best.device], is_idle=True)
    best_of = {score.identity: score for score in sorted(every, key=similarity)}
    ordered = sorted((best_of[name] for name in names), key=similarity, reverse=True)
    return ScoreReport(source, tuple(ordered), tuple(notes))


def judged(
    result: Conformity,
    pages: Mapping[str, CapturedPage],
    catalog: Catalog,
    report: Report,
    *,
    identity: str = "",
    device: str = "",
    program: str = "fakedev conform",
) -> tuple[Conformity, list[str]]:
    """A comparison of pages that also has their numbers which their boards cannot show; and remarks, a line each.

    :param pages: each by where it is, for the words.
    :param identity, device: names that the user has given; empty: the most similar, and the board that lines name.
    :raises ConfigurationError: when an identity or a device cannot be used.
    """
    if device:
        catalog.device(device, Place(f"{program}: --device"))
        report.raise_if_any()
    notes: dict[str, None] = {}
    for where, page in pages.items():
        likely = [identity] if identity else likely_identities(page.families, catalog, report)
        shown = [named_identity(name, catalog, report, f"{program}: --identity") for name in likely]
        if not shown:
            notes[f"no identity has any of the families {where}: its numbers are not judged"] = None
            continue
        most = max(shown, key=lambda each: len({family.name for family in each.families} & page.families.keys()))
        lines = {device: page} if device else by_board(page)
        unnamed = lines.pop("", None)
        if not lines:
            notes[f"no line {where} names its board: its numbers are not judged; name one with --device"] = None
        limits = {}
        for board, part in lines.items():
            known = device or recognized_device((board,), catalog)
            model = known or device_of_model(board, catalog)
            loaded = catalog.device(model, Place("device")) if model else None
            said = f"the board {board!r} is in no device type"
            if loaded is None:
                notes[f"{said}: its numbers are not judged; name one with --device"] = None
                continue
            if not known:
                notes[f"{said}: judged as that of its model, {loaded.type.name}"] = None
            limits[board] = highest_shown(most, loaded.type)
            result = within_limits(result, part, limits[board], where)
        if unnamed is not None and limits and limits.keys() == lines.keys():
            # They are of one of these boards.
            shared = set.intersection(*(set(limit) for limit in limits.values()))
            highest = {name: max(limit[name] for limit in limits.values()) for name in shared}
            result = within_limits(result, unnamed, highest, where)
    return result, list(notes)


def _similarity(scored: Scored) -> tuple[float, float]:
    """The score; then how near the numbers are."""
    return scored.result.percent, -scored.result.distance


def _similarity_of_boards(scored: Scored) -> tuple[int, float]:
    """What boards have and have not; then how near the numbers are."""
    return -sum(difference.aspect != "range" for difference in scored.result.differences), -scored.result.distance


def _scores(
    name: str, device: str, capture: CapturedPage, thin: CapturedPage, catalog: Catalog, report: Report,
    compare: Compare, *, is_idle: bool,
) -> Iterator[Scored]:
    """The scores of an identity on a device, also as pages of boards in MIG mode without instances.

    :param thin: the capture for comparisons.
    :param is_idle: both boards of the page are idle; else one works.
    """  # fmt: skip
    instances = recognized_instances(capture, device, catalog)
    loaded = catalog.device(device, Place("device"))
    known = loaded.type.facts if loaded is not None else {}
    shown = shown_facts(thin, named_identity(name, catalog, report), known)
    identity, text = sample_page(
        name, device, instances, facts=shown.boards, owner=shown.owner, is_idle=is_idle, devices=shown.devices
    )
    highest = highest_shown(identity, loaded.type) if loaded is not None else {}
    for page, remark in _variants(identity, read_page(text), capture):
        result = within_limits(compare(capture, page), capture, highest)
        yield Scored(f"{identity.title} on {device}{remark}{' (idle)' if is_idle else ''}", result, name, device)


def _variants(identity: Identity, page: CapturedPage, capture: CapturedPage) -> Iterator[tuple[CapturedPage, str]]:
    """A page; and for a capture without what only undivided boards have, or Helm leaves out, the same without that."""
    yield from _divided(identity, page, capture, "")
    label, family = _NOT_OF_HELM
    if label in (spec.name for spec in identity.labels) and label not in capture.label_names():
        page = page.without_label(label).without({family} - capture.families.keys())
        yield from _divided(identity, page, capture, " (counters of the Helm chart)")


def _divided(
    identity: Identity, page: CapturedPage, capture: CapturedPage, remark: str
) -> Iterator[tuple[CapturedPage, str]]:
    """A page; and for a capture that has none of what only undivided boards have, the same without that."""
    yield page, remark
    whole = {family.name for family in identity.families if {row.level for row in family.rows} == {"whole"}}
    if whole & page.families.keys() and not whole & capture.families.keys():
        profiling = {name for name in page.families if name.startswith(_PROFILING)}
        for gone in (whole, whole | profiling):
            yield page.without(gone), f"{remark} (MIG on, no instance)"
