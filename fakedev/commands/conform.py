"""``fakedev conform``: compares a page with a captured scrape of the real exporter."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from fakedev.commands.conform_report import Report as ScoreReport
from fakedev.commands.conform_report import Scored
from fakedev.commands.console import Progress, write_text
from fakedev.commands.parser import Parser
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
from fakedev.config.schema.files import Files
from fakedev.config.schema.nodes import Place, Report
from fakedev.exposition.captured import CapturedPage, read_page
from fakedev.exposition.conformity import compared
from fakedev.exposition.identity import Identity
from fakedev.spec.os_errors import plain_reason

#: What reading a capture takes, of the time in which it is compared with some identities.
_SHARE_OF_READING: Final = 0.2
#: How DCGM's profiling fields begin: a board that is to be divided and is not has none of them.
_PROFILING: Final = "DCGM_FI_PROF_"


def conform(arguments: Sequence[str]) -> int:
    """Compare, and print the differences by kind.

    :returns: 0; 1 when a report cannot be written; 2 when options or files cannot be used; 3 when the score is below
        ``--min``.
    :raises ConfigurationError: when an identity or a device cannot be used.
    """
    options = _parser().parse_args(list(arguments))
    try:
        with Progress("fakedev conform", sys.stderr) as progress:
            capture = _page(options.against, lambda share: progress.show(share * _SHARE_OF_READING))
            report = _report(capture, options, progress)
    except ValueError as error:
        print(f"fakedev conform: {error}", file=sys.stderr)
        return 2
    write_text(sys.stdout, report.text())
    for path in options.report:
        try:
            Path(path).write_text(report.file(path), encoding="utf-8")
        except OSError as error:
            print(f"fakedev conform: {path}: {plain_reason(error)}", file=sys.stderr)
            return 1
    percent = report.best.result.percent
    if options.least is not None and percent < options.least:
        print(f"fakedev conform: {percent:.1f} % is less than --min {options.least:g}", file=sys.stderr)
        return 3
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser("fakedev conform", description=__doc__)
    parser.add_argument("--against", metavar="CAPTURE", required=True, help="file with a scrape of the exporter")
    parser.add_argument("--identity", metavar="NAME", help="identity of the catalog or a file; else the most similar")
    parser.add_argument("--device", metavar="TYPE", help="device of the page; else that of the capture, or the nearest")
    parser.add_argument("--page", metavar="FILE", help="compare this page instead of an identity's")
    parser.add_argument("--fragment", action="store_true", help="the capture is only part of a page")
    parser.add_argument("--min", dest="least", type=_percent, metavar="PERCENT", help="exit with 3 below this score")
    parser.add_argument(
        "--report", type=_report_path, metavar="FILE", action="append", default=[],
        help="write the result to a file, by its name HTML or JSON; may be given more than once",
    )  # fmt: skip
    return parser


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage from 0 to 100")
    return value


def _report_path(text: str) -> str:
    if not text.endswith((".html", ".json")):
        raise argparse.ArgumentTypeError(f"{text!r} does not end in .html or .json")
    return text


def _page(path: str, done: Callable[[float], None]) -> CapturedPage:
    try:
        page = read_page(Path(path).read_text(encoding="utf-8"), done)
    except OSError as error:
        raise ValueError(f"{path}: {plain_reason(error)}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not page.families:
        raise ValueError(f"{path}: there is no metric in it")
    return page


def _report(capture: CapturedPage, options: argparse.Namespace, progress: Progress) -> ScoreReport:
    """The scores of a page, or of the identities that the capture may be of, the best first."""
    if options.page is not None:
        result = compared(capture, _page(options.page, progress.show), is_fragment=options.fragment)
        return ScoreReport(options.against, (Scored(options.page, result),))
    report = Report()
    catalog = Catalog(Files(environ=os.environ), report)
    if options.identity:
        named_identity(options.identity, catalog, report, "fakedev conform: --identity")
    if options.device:
        catalog.device(options.device, Place("fakedev conform: --device"))
        report.raise_if_any()
    names = [options.identity] if options.identity else likely_identities(capture.families, catalog, report)
    if not names:
        raise ValueError(f"{options.against}: no identity has any of its families; name one with --identity")
    recognized = options.device or recognized_device(capture.label_values(), catalog)
    devices = [recognized] if recognized else alike_devices(DEFAULT_DEVICE, catalog)
    scorer = _Scorer(capture, catalog, options.fragment)
    steps = 2 * len(names) + (1 if recognized else len(names) + len(devices))
    done = 0

    def scores(wanted: Sequence[str], devices: Sequence[str], *, is_idle: bool = False) -> list[Scored]:
        nonlocal done
        found: list[Scored] = []
        for name in wanted:
            for device in devices:
                found += scorer.scores(name, device, is_idle=is_idle)
                done += 1
                progress.show(_SHARE_OF_READING + (1 - _SHARE_OF_READING) * done / steps)
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
    return ScoreReport(options.against, tuple(ordered), tuple(notes))


def _similarity(scored: Scored) -> tuple[float, float]:
    """The score; then how near the numbers are."""
    return scored.result.percent, -scored.result.distance


def _similarity_of_boards(scored: Scored) -> tuple[int, float]:
    """What boards have and have not; then how near the numbers are."""
    return -sum(difference.aspect != "range" for difference in scored.result.differences), -scored.result.distance


class _Scorer:
    """Compares a capture with pages of identities on devices."""

    def __init__(self, capture: CapturedPage, catalog: Catalog, is_fragment: bool) -> None:
        self._capture = capture
        self._catalog = catalog
        self._is_fragment = is_fragment
        self._facts = recognized_facts(capture)

    def scores(self, name: str, device: str, *, is_idle: bool) -> list[Scored]:
        """The scores of an identity on a device, also as pages of boards that are to be divided and are not yet.

        :param is_idle: both boards of the page are idle; else one works.
        """
        found = []
        instances = recognized_instances(self._capture, device, self._catalog)
        identity, text = sample_page(name, device, instances, facts=self._facts, is_idle=is_idle)
        for page, remark in _variants(identity, read_page(text), self._capture):
            result = compared(self._capture, page, is_fragment=self._is_fragment)
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
