"""``fakedev conform``: compares a page with a captured scrape of the real exporter."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fakedev.commands.conform_report import Report as ScoreReport
from fakedev.commands.conform_report import Scored
from fakedev.commands.conform_scores import scored
from fakedev.commands.console import Progress, write_text
from fakedev.commands.parser import Parser, percentage
from fakedev.config.catalog import Catalog
from fakedev.config.schema.files import Files
from fakedev.config.schema.nodes import Report
from fakedev.exposition.captured import CapturedPage, read_page
from fakedev.exposition.conformity import compared
from fakedev.spec.os_errors import plain_reason

#: What reading a capture takes, of the time in which it is compared with some identities.
_SHARE_OF_READING: Final = 0.2


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
    parser.add_argument("--min", dest="least", type=percentage, metavar="PERCENT", help="exit with 3 below this score")
    parser.add_argument(
        "--report", type=_report_path, metavar="FILE", action="append", default=[],
        help="write the result to a file, by its name HTML or JSON; may be given more than once",
    )  # fmt: skip
    return parser


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
    return scored(
        capture, options.against, Catalog(Files(environ=os.environ), report), report,
        identity=options.identity or "", device=options.device or "", is_fragment=options.fragment,
        show=lambda share: progress.show(_SHARE_OF_READING + (1 - _SHARE_OF_READING) * share),
    )  # fmt: skip
