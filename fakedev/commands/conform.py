"""Compares a page with a captured scrape of the real exporter."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import nullcontext
from typing import BinaryIO, Final

from fakedev.base.console import Progress, write_text
from fakedev.base.errors import plain_reason
from fakedev.base.given_files import open_given
from fakedev.clone.identity_scores import judged, scored
from fakedev.exporters.conform import compared
from fakedev.exporters.samples import CapturedPage, read_page
from fakedev.exporters.scores import Report as ScoreReport
from fakedev.exporters.scores import Scored
from fakedev.exporters.settings.catalog import Catalog
from fakedev.schema.files import Files
from fakedev.schema.options import Failed, Option, command, percentage, write_file
from fakedev.schema.places import Report

#: What reading a capture takes, of the time in which it is compared with some identities.
_SHARE_OF_READING: Final = 0.2
#: A larger page and a longer line are refused: 10,000 boards of dcgm-exporter have 150 MiB, in lines of 300 bytes.
_MOST_BYTES: Final = 256 * 2**20
_LONGEST_LINE: Final = 2**20


def _report_path(text: str) -> str:
    if not text.endswith((".html", ".json")):
        raise ValueError(f"{text!r} does not end in .html or .json")
    return text


@command(
    "fakedev conform",
    __doc__,
    Option("against", "CAPTURE", "file with a scrape of the exporter", is_required=True),
    Option("identity", "NAME", "identity of the catalog or a file; else the most similar"),
    Option("device", "TYPE", "device of the page; default: the capture's, or the most similar"),
    Option("page", "FILE", "compare this page, and both with what their boards can show"),
    Option("fragment", "", "the capture is only part of a page"),
    Option("min", "PERCENT", "exit with 3 below this score", parse=percentage),
    Option(
        "report", "FILE", "write the result to a file, *.html or *.json; may be repeated",
        parse=_report_path, is_repeated=True,
    ),
    failures={ValueError: 2},
)  # fmt: skip
def conform(options: Namespace) -> None:
    """Compare, and print the differences by kind; the exit code is 3 when the score is below ``--min``.

    :raises ConfigurationError: when an identity or a device cannot be used.
    """
    with Progress("fakedev conform", sys.stderr) as progress:
        capture = captured_page(options.against, lambda share: progress.show(share * _SHARE_OF_READING))
        report = _report(capture, options, progress)
    write_text(sys.stdout, report.text())
    for path in options.report:
        write_file(path, report.file(path))
    check_score(report.best.result.percent, options)


def check_score(percent: float, options: Namespace) -> None:
    """
    :raises Failed: with code 3, when a score is below ``--min``.
    """
    if options.min is not None and percent < options.min:
        raise Failed(f"{percent:.1f} % is less than --min {options.min:g}", 3)


def captured_page(path: str, done: Callable[[float], None] | None = None) -> CapturedPage:
    """The page in a file, or of standard input for ``-``.

    :param done: is called with the share that is read.
    :raises ValueError: for a page that cannot be read, naming it.
    """
    try:
        with nullcontext(sys.stdin.buffer) if path == "-" else open_given(path) as stream:
            content = _limited(stream)
        page = read_page(content, done or (lambda share: None))
    except OSError as error:
        raise ValueError(f"{path}: {plain_reason(error)}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not page.families:
        raise ValueError(f"{path}: there is no metric in it")
    return page


def _limited(stream: BinaryIO) -> bytes:
    """All of a page, which may come from anybody: a device or a program may write without end.

    :raises ValueError: for a page or a line that is too long, before more of it is read.
    """
    lines, left = [], _MOST_BYTES
    while line := stream.readline(_LONGEST_LINE + 1):
        lines.append(line)
        left -= len(line)
        if len(line) > _LONGEST_LINE:
            raise ValueError(f"line {len(lines)} is longer than {_LONGEST_LINE} bytes: it is no page of metrics")
        if left < 0:
            raise ValueError(f"is larger than {_MOST_BYTES // 2**20} MiB: give the pages of fewer nodes")
    return b"".join(lines)


def _report(capture: CapturedPage, options: Namespace, progress: Progress) -> ScoreReport:
    """The scores of a page, or of the identities that the capture may be of, the best first."""
    report = Report()
    catalog = Catalog(Files(environ=os.environ), report)
    if options.page is not None:
        page = captured_page(options.page, progress.show)
        pages = {"in the capture": capture, "on the page": page}
        result, notes = judged(
            compared(capture, page, is_fragment=options.fragment), pages, catalog, report,
            identity=options.identity or "", device=options.device or "",
        )  # fmt: skip
        return ScoreReport(options.against, (Scored(options.page, result),), tuple(notes))
    return scored(
        capture, options.against, catalog, report,
        identity=options.identity or "", device=options.device or "", is_fragment=options.fragment,
        show=lambda share: progress.show(_SHARE_OF_READING + (1 - _SHARE_OF_READING) * share),
    )  # fmt: skip
