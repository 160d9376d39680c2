"""``fakedev conform``: compares a page with a captured scrape of the real exporter."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fakedev.commands.console import Progress, write_text
from fakedev.commands.parser import Parser
from fakedev.commands.sample_page import sample_page
from fakedev.config.catalog import Catalog
from fakedev.config.identities.choice import (
    likely_identities,
    named_identity,
    recognized_device,
    recognized_facts,
    recognized_instances,
)
from fakedev.config.schema.files import Files
from fakedev.config.schema.nodes import Place, Report
from fakedev.exposition.captured import CapturedPage, read_page
from fakedev.exposition.conformity import Conformity, compared
from fakedev.spec.os_errors import plain_reason

#: What reading a capture takes, of the time in which it is compared with one or two identities.
_SHARE_OF_READING: Final = 0.5


def conform(arguments: Sequence[str]) -> int:
    """Compare, and print the differences.

    :returns: 0; 2 when options or files cannot be used; 3 when the score is below ``--min``.
    :raises ConfigurationError: when an identity or a device cannot be used.
    """
    options = _parser().parse_args(list(arguments))
    try:
        with Progress("fakedev conform", sys.stderr) as progress:
            capture = _page(options.against, lambda share: progress.show(share * _SHARE_OF_READING))
            title, result = _best(capture, options, progress)
    except ValueError as error:
        print(f"fakedev conform: {error}", file=sys.stderr)
        return 2
    lines = [f"{title} against {options.against}: {result.percent:.1f} % ({result.met} of {result.aspects} aspects)"]
    lines += [f"  {difference}" for difference in result.differences]
    write_text(sys.stdout, "\n".join(lines) + "\n")
    if options.least is not None and result.percent < options.least:
        print(f"fakedev conform: {result.percent:.1f} % is less than --min {options.least:g}", file=sys.stderr)
        return 3
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser("fakedev conform", description=__doc__)
    parser.add_argument("--against", metavar="CAPTURE", required=True, help="file with a scrape of the exporter")
    parser.add_argument("--identity", metavar="NAME", help="identity of the catalog or a file; else the most similar")
    parser.add_argument("--device", metavar="TYPE", help="device of the page; else that of the capture")
    parser.add_argument("--page", metavar="FILE", help="compare this page instead of an identity's")
    parser.add_argument("--fragment", action="store_true", help="the capture is only part of a page")
    parser.add_argument("--min", dest="least", type=_percent, metavar="PERCENT", help="exit with 3 below this score")
    return parser


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage from 0 to 100")
    return value


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


def _best(capture: CapturedPage, options: argparse.Namespace, progress: Progress) -> tuple[str, Conformity]:
    """The title of the comparison and its result; of several identities the most similar."""
    if options.page is not None:
        return options.page, compared(capture, _page(options.page, progress.show), is_fragment=options.fragment)
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
    device = options.device or recognized_device(capture.label_values(), catalog)
    instances = recognized_instances(capture, device, catalog)
    facts, results = recognized_facts(capture), []
    for count, name in enumerate(names):
        progress.show(_SHARE_OF_READING + (1 - _SHARE_OF_READING) * count / len(names))
        identity, text = sample_page(name, device, instances, facts=facts)
        result = compared(capture, read_page(text), is_fragment=options.fragment)
        results.append((f"{identity.title} on {device}", result))
    return max(results, key=lambda each: each[1].percent)
