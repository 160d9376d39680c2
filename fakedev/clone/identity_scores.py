"""Which identities a captured page may be of, on which board, and how well each conforms: the best first."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, product
from typing import Final

from fakedev.base.names import without_variables
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
from fakedev.schema.places import ConfigurationError, Place, Report

#: How DCGM's profiling fields begin: a board in MIG mode without instances has none of them.
_PROFILING: Final = "DCGM_FI_PROF_"
#: What dcgm-exporter's own list of counters has to 4.8.4 and the Helm chart's has not: a label and a family.
_NOT_OF_HELM: Final = ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_DEV_FB_RESERVED")
#: The values of labels that an exporter has only in Kubernetes.
_OF_PODS: Final = ("{container}", "{namespace}", "{pod}")
#: The path of an identity that is not on the disk.
_OWN_COUNTERS: Final = "/own-counters.yaml"
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
    found, remark = (device, "") if device else _shown_device(capture, catalog)
    devices = [found] if found else alike_devices(usual_device(names, catalog, report), catalog)
    steps = 2 * len(names) + (1 if found else len(names) + len(devices))
    done = count(1)
    of_page = partial(
        _scores, capture, thinned(capture), catalog, report, compare, is_fragment=is_fragment, is_known=bool(found)
    )

    def scores(wanted: Sequence[str], boards: Sequence[str], *, is_idle: bool = False) -> list[Scored]:
        made: list[Scored] = []
        for name, board in product(wanted, boards):
            try:
                made += of_page(name, board, is_idle=is_idle)
            except ConfigurationError:
                if name == names[-1] and not made:
                    raise  # of several, one that cannot show such boards is not the most similar
            if show is not None:
                show(next(done) / steps)
        return made

    every = scores(names, devices[:1])
    if not found:
        # The nearest board is that of the most similar page of the identity that is best on any board.
        found = max(scores([max(every, key=similarity).identity], devices), key=_similarity_of_boards).device
        every = scores(names, [found]) if found != devices[0] else every
        remark = f"{remark}: compared with the nearest, {found}"
    best = max(every, key=similarity)
    # Of a capture of idle boards, the numbers are those of such a page.
    idle = scores([best.identity], [best.device], is_idle=True)
    if max(score.result.percent for score in idle) > best.result.percent:
        every += idle + scores([name for name in names if name != best.identity], [best.device], is_idle=True)
    best_of = {score.identity: score for score in sorted(every, key=similarity)}
    ordered = sorted(best_of.values(), key=similarity, reverse=True)
    own = ", ".join(ordered[0].own)
    of_own = own and (
        f"{own}: only a counters file of one's own turns this on in that release, so TYPE and HELP of it are not "
        "compared"
    )
    return ScoreReport(source, tuple(ordered), (*report.notes, *filter(None, (remark, of_own))))


def _shown_device(capture: CapturedPage, catalog: Catalog) -> tuple[str, str]:
    """The device type of a page's boards, empty for one that the catalog has not; and a remark, or nothing."""
    recognized = recognized_device(capture.label_values(), catalog)
    board = shown_board(capture)
    if recognized or not board:
        return recognized or "", "" if recognized else "the page does not name its board"
    model = device_of_model(board, catalog) or ""
    said = f"the board {board!r} is in no device type"
    return model, f"{said}: compared with the type of its model, {model}" if model else said


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
                notes[f"{said}: judged as the type of its model, {loaded.type.name}"] = None
            limits[board] = highest_shown(most, loaded.type)
            result = within_limits(result, part, limits[board], where)
        if unnamed is not None and limits and limits.keys() == lines.keys():
            # They are of one of these boards.
            shared = set.intersection(*(set(limit) for limit in limits.values()))
            highest = {name: max(limit[name] for limit in limits.values()) for name in shared}
            result = within_limits(result, unnamed, highest, where)
    return result, list(notes)


def _similarity(scored: Scored) -> tuple[float, float, float]:
    """The score; then how much was compared; then how near the numbers are."""
    return scored.result.percent, scored.result.aspects, -scored.result.distance


def _similarity_of_boards(scored: Scored) -> tuple[int, float]:
    """What boards have and have not; then how near the numbers are."""
    return -sum(difference.aspect != "range" for difference in scored.result.differences), -scored.result.distance


def _scores(
    capture: CapturedPage, thin: CapturedPage, catalog: Catalog, report: Report, compare: Compare | None,
    name: str, device: str, *, is_idle: bool, is_fragment: bool, is_known: bool,
) -> Iterator[Scored]:
    """The scores of an identity on a device, also as pages of boards in MIG mode without instances.

    :param thin: the capture for comparisons.
    :param compare: how pages are compared; None: as conform does, then also with counters of the capture's own.
    :param is_idle: both boards of the page are idle; else one works.
    :param is_known: the capture's boards are of the device type, so that they cannot show more than it does.
    """  # fmt: skip
    instances = recognized_instances(capture, device, catalog)
    loaded = catalog.device(device, Place("device"))
    known = loaded.type.facts if loaded is not None else {}
    shown = shown_facts(thin, named_identity(name, catalog, report), known)
    text, own = _own_counters(name, capture, catalog) if compare is None else ("", ())
    for file, undeclared in ((name, ()), (_OWN_COUNTERS, own)) if text else ((name, ()),):
        sample = partial(
            sample_page, file, device, facts=shown.boards, owner=shown.owner, is_idle=is_idle, devices=shown.devices,
            made={_OWN_COUNTERS: text},
        )  # fmt: skip
        identity, page_text = sample(instances)
        page = read_page(page_text)
        if instances and _has_whole_boards(capture):
            page = read_page(sample()[1]).with_samples(page)
        highest = highest_shown(identity, loaded.type) if loaded is not None and is_known else {}
        counters = " (own counters)" if file == _OWN_COUNTERS else ""
        judge = compare or partial(compared, is_fragment=is_fragment, undeclared=undeclared)
        for variant, remark in _variants(identity, page, capture, own_labels=compare is None):
            result = within_limits(judge(capture, variant), capture, highest)
            title = f"{identity.title} on {device}{counters}{remark}{' (idle)' if is_idle else ''}"
            yield Scored(title, result, name, device, undeclared)


def _own_counters(name: str, capture: CapturedPage, catalog: Catalog) -> tuple[str, tuple[str, ...]]:
    """The file of an identity with the counters of a capture, some of which only a user's counters file can have.

    Its text and these counters; both are empty where the capture has none, or the identity is not made of counters.
    """
    loaded = catalog.identity(name, Place(name))
    table = catalog.field_table(loaded.making.fields, Place(name)) if loaded else None
    if loaded is None or table is None:
        return "", ()
    usual = {family.name: family for family in loaded.identity.families}
    metrics = {field for field, shows in table.fields.items() if not shows["label"]}
    labels = {field for field, shows in table.fields.items() if shows["label"] or shows["fact"]} & capture.label_names()
    # A family that another release shows by default is a sign of that release, and nobody's own counter.
    others = (catalog.identity(name, Place(name)) for name in catalog.identity_names()
              if name.startswith(f"{loaded.identity.name}@"))  # fmt: skip
    known = {family.name for other in others if other for family in other.identity.families}
    own = tuple(family for family in capture.families if family in metrics and family not in usual.keys() | known)
    is_own = own or not labels <= {label.name for label in loaded.identity.labels}
    if not is_own or not usual.keys() <= metrics:
        return "", ()
    rows = io.StringIO()
    counters = csv.writer(rows, lineterminator="\n")
    for family in capture.families.values():
        if family.name in usual:
            counters.writerow((family.name, usual[family.name].kind, usual[family.name].help))
        elif family.name in own:
            counters.writerow((family.name, family.kind if family.kind == "counter" else "gauge", ""))
    counters.writerows((label, "label", "") for label in sorted(labels))
    file = {"name": loaded.identity.name, "version": loaded.identity.version, "based-on": name}
    return without_variables(json.dumps(file | {"counters": rows.getvalue()})), own


def _variants(
    identity: Identity, page: CapturedPage, capture: CapturedPage, *, own_labels: bool
) -> Iterator[tuple[CapturedPage, str]]:
    """A page; and for a capture without what only undivided boards have, or Helm leaves out, the same without that.

    :param own_labels: with the labels that the capture's configuration turned on or off.
    """
    remark = ""
    if own_labels:
        page, remark = _with_own_labels(identity, page, capture)
    yield from _divided(identity, page, capture, remark)
    label, family = _NOT_OF_HELM
    if label in (spec.name for spec in identity.labels) and label not in capture.label_names():
        page = page.without_labels({label}).without({family} - capture.families.keys())
        yield from _divided(identity, page, capture, f"{remark} (counters of the Helm chart)")


def _with_own_labels(identity: Identity, page: CapturedPage, capture: CapturedPage) -> tuple[CapturedPage, str]:
    """A page as the capture's exporter is configured: which optional labels, whether labels of pods, in which order."""
    remarks = []
    has = capture.label_names()
    always = {label.name for label in identity.labels if not label.optional}
    pods = {label.name for label in identity.labels if label.name in always and label.value in _OF_PODS}
    if pods and not pods & has:
        page = page.without_labels(pods)
        remarks.append("without labels of pods")
    added = sorted({label.name for label in identity.optional_labels} & has - {label.name for label in identity.labels})
    if added:
        common = always - pods
        extra = tuple((name, "") for name in added)
        page = page.with_labels(lambda old: tuple(sorted(old + extra)) if common <= dict(old).keys() else old)
        remarks.append(f"with the labels {', '.join(added)}")
    if _is_sorted(capture) and not _is_sorted(page):
        page = page.with_labels(lambda labels: tuple(sorted(labels)))
        remarks.append("labels by name, as a library of Prometheus repeats them")
    return page, "".join(f" ({remark})" for remark in remarks)


def _has_whole_boards(page: CapturedPage) -> bool:
    """Whether boards of a page are no instances, of which others are."""
    return any(
        "GPU_I_PROFILE" not in sample.label_names and "gpu" in sample.label_names
        for family in page.families.values() for sample in family.samples
    )  # fmt: skip


def _is_sorted(page: CapturedPage) -> bool:
    """Whether all samples have their labels in alphabetical order."""
    names = (sample.label_names for family in page.families.values() for sample in family.samples)
    return all(tuple(sorted(each)) == each for each in names)


def _divided(
    identity: Identity, page: CapturedPage, capture: CapturedPage, remark: str
) -> Iterator[tuple[CapturedPage, str]]:
    """A page; before it, for a capture that has none of what only undivided boards have, the same without that.

    Of pages that are as similar the last one counts: a fragment that has nothing of the kind is not of a divided board.
    """
    whole = {family.name for family in identity.families if {row.level for row in family.rows} == {"whole"}}
    if whole & page.families.keys() and not whole & capture.families.keys():
        profiling = {name for name in page.families if name.startswith(_PROFILING)}
        for gone in (whole, whole | profiling):
            yield page.without(gone), f"{remark} (MIG on, no instance)"
    yield page, remark
