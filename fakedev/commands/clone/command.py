"""``fakedev clone``: writes the configuration of a fleet that looks like the one whose pages it reads."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fakedev.clone.file_text import FIRST_LINE
from fakedev.clone.source_pages import SourcePage, grouped
from fakedev.commands.clone.cloning import Clone, Cloning, Wanted
from fakedev.commands.clone.prometheus import PrometheusSource, read_prometheus
from fakedev.commands.console import Progress, write_text
from fakedev.commands.parser import Parser, percentage
from fakedev.exposition.captured import read_page
from fakedev.spec.os_errors import plain_reason

_IDENTITY_FILE: Final = "fleet-identity.yaml"


class _CannotWrite(Exception):
    """A file that cannot be written, and why."""


def clone(arguments: Sequence[str]) -> int:
    """Write the configuration, and an identity of its own where the pages need one.

    :returns: 0; 1 when a file cannot be written or a Prometheus does not answer; 2 when options or pages cannot be
        used; 3 when the pages of the clone conform less than ``--min``.
    :raises ConfigurationError: when the named identity or device cannot be used.
    """
    parser = _parser()
    options = parser.parse_args(list(arguments))
    if bool(options.pages) == bool(options.prometheus):
        parser.error("give pages, or --prometheus URL")
    path = Path(options.output or "fleet.yaml").absolute()
    own = Path(options.identity_output).absolute() if options.identity_output else path.parent / _identity_name(options)
    if own.parent != path.parent:
        parser.error(f"--identity-output: {own} is not in the folder of the configuration, {path.parent}")
    wanted = Wanted(path, own, options.identity or "", options.device or "", options.anonymize)
    try:
        with Progress("fakedev clone", sys.stderr) as progress:
            groups = grouped(_sources(options), is_stored=bool(options.prometheus))
            result = Cloning(wanted, progress.show).run(groups)
        _write(result, options.output)
    except ValueError as error:
        print(f"fakedev clone: {error}", file=sys.stderr)
        return 2
    except (_CannotWrite, ConnectionError) as error:
        print(f"fakedev clone: {error}", file=sys.stderr)
        return 1
    for title, score in result.scores:
        text = f"{title}: {score.percent:.1f} % ({score.met} of {score.aspects} aspects)"
        print(f"fakedev clone: {text}", file=sys.stderr)
    least = min(score.percent for _, score in result.scores)
    if options.least is not None and least < options.least:
        print(f"fakedev clone: {least:.1f} % is less than --min {options.least:g}", file=sys.stderr)
        return 3
    return 0


def _parser() -> Parser:
    parser = Parser("fakedev clone", description=__doc__)
    parser.add_argument("pages", metavar="PAGE", nargs="*", help="file with a scrape of an exporter; - reads it")
    parser.add_argument("--prometheus", metavar="URL", help="read series of this Prometheus instead of pages")
    parser.add_argument("--match", metavar="SELECTOR", default="", help="which of its series, as '{job=\"dcgm\"}'")
    parser.add_argument("--from", dest="first", metavar="TIME", help="series since then (ISO 8601); default 5m before")
    parser.add_argument("--to", dest="last", metavar="TIME", help="and until then; default now")
    parser.add_argument("--anonymize", action="store_true", help="other names, UUIDs, serial numbers and pods")
    parser.add_argument("--identity", metavar="NAME", help="identity of the catalog or a file; else the most similar")
    parser.add_argument("--device", metavar="TYPE", help="device type of all boards; else that of each node's labels")
    parser.add_argument("--output", metavar="FILE", help="the configuration, instead of standard output")
    parser.add_argument(
        "--identity-output", metavar="FILE",
        help="where an identity of its own goes if the pages need one, in the configuration's folder; default "
        f"{_IDENTITY_FILE}, or OUTPUT-identity.yaml",
    )  # fmt: skip
    parser.add_argument("--min", dest="least", type=percentage, metavar="PERCENT", help="exit with 3 below this score")
    return parser


def _identity_name(options: argparse.Namespace) -> str:
    return f"{Path(options.output).stem}-identity.yaml" if options.output else _IDENTITY_FILE


def _sources(options: argparse.Namespace) -> list[SourcePage]:
    """The pages of files, or of the targets of a Prometheus.

    :raises ValueError: for a page that cannot be read, naming it.
    :raises ConnectionError: when the Prometheus does not answer as one.
    """
    if options.prometheus:
        return read_prometheus(PrometheusSource(options.prometheus, options.match, options.first, options.last))
    return [_page(path) for path in options.pages]


def _page(path: str) -> SourcePage:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        page = read_page(text)
    except OSError as error:
        raise ValueError(f"{path}: {plain_reason(error)}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not text in UTF-8: byte {error.start}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not any(family.samples for family in page.families.values()):
        raise ValueError(f"{path}: there is no metric in it")
    return SourcePage("page" if path == "-" else Path(path).stem, page)


def _write(result: Clone, output: str | None) -> None:
    """Write the files; standard output comes last, so that what it names is there.

    :raises _CannotWrite: for a file that cannot be written, and for an identity that the user may have written.
    """
    for path, text in result.identities.items():
        _check_own(path)
        _write_file(path, text)
        print(f"fakedev clone: wrote the identity {path}", file=sys.stderr)
    if output is None:
        write_text(sys.stdout, result.text)
    else:
        _write_file(Path(output), result.text)


def _check_own(path: Path) -> None:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            is_own = file.readline() == FIRST_LINE
    except FileNotFoundError:
        return
    except OSError as error:
        raise _CannotWrite(f"{path}: {plain_reason(error)}") from None
    if not is_own:
        raise _CannotWrite(f"{path}: is there, and not of a clone: name another file with --identity-output")


def _write_file(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _CannotWrite(f"{path}: {plain_reason(error)}") from None
