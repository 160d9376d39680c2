"""Writes the configuration of a fleet that looks like the one whose pages it reads."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Final

from fakedev.base.console import Progress, write_text
from fakedev.base.errors import plain_reason
from fakedev.base.given_files import open_given
from fakedev.clone.cloning import Clone, Cloning, Wanted
from fakedev.clone.document import FIRST_LINE
from fakedev.clone.prometheus_pages import read_prometheus
from fakedev.clone.scraped import SourcePage, grouped
from fakedev.commands.conform import captured_page, check_score
from fakedev.commands.prometheus_access import PROMETHEUS_ACCESS, reached_prometheus
from fakedev.schema.options import Failed, Operand, Option, WrongUsage, command, percentage, write_file

_IDENTITY_FILE: Final = "fleet-identity.yaml"


@command(
    "fakedev clone",
    __doc__,
    Operand("pages", "PAGE", "file with a scrape of an exporter; - reads it", count="*"),
    Option("prometheus", "URL", "read series of this Prometheus instead of pages"),
    Option("match", "SELECTOR", "which of its series, as '{job=\"dcgm\"}'", ""),
    *PROMETHEUS_ACCESS,
    Option("from", "TIME", "the oldest series to read (ISO 8601); default 5m before --to", value="first"),
    Option("to", "TIME", "the newest series to read; default now", value="last"),
    Option("anonymize", "", "replace names, UUIDs, serial numbers and pods"),
    Option("identity", "NAME", "identity of the catalog or a file; else the most similar"),
    Option("device", "TYPE", "device type of all boards; default: by each node's labels"),
    Option("output", "FILE", "the configuration, instead of standard output"),
    Option(
        "identity-output", "FILE", "where an identity of its own goes if the pages need one, in the configuration's "
        f"folder; default {_IDENTITY_FILE}, or OUTPUT-identity.yaml",
    ),
    Option("min", "PERCENT", "exit with 3 below this score", parse=percentage),
    failures={ValueError: 2, ConnectionError: 1},
)  # fmt: skip
def clone(options: Namespace) -> None:
    """Write the configuration, and an identity of its own where the pages need one.

    The exit code is 3 when the pages of the clone conform less than ``--min``.

    :raises ConfigurationError: when the named identity or device cannot be used.
    """
    if bool(options.pages) == bool(options.prometheus):
        raise WrongUsage("give pages, or --prometheus URL")
    path = Path(options.output or "fleet.yaml").absolute()
    name = f"{path.stem}-identity.yaml" if options.output else _IDENTITY_FILE
    own = Path(options.identity_output).absolute() if options.identity_output else path.parent / name
    if own.parent != path.parent:
        raise WrongUsage(f"--identity-output: {own} is not in the folder of the configuration, {path.parent}")
    wanted = Wanted(path, own, options.identity or "", options.device or "", options.anonymize)
    with Progress("fakedev clone", sys.stderr) as progress:
        cloning = Cloning(wanted, progress.show)
        cloning.check()
        result = cloning.run(grouped(_sources(options), is_stored=bool(options.prometheus)))
    _write(result, options.output)
    for note in result.notes:
        write_text(sys.stderr, f"fakedev clone: note: {note}\n")
    for title, score in result.scores:
        text = f"{title}: {score.percent:.1f} % ({score.met} of {score.aspects} aspects)"
        write_text(sys.stderr, f"fakedev clone: {text}\n")
    check_score(min(score.percent for _, score in result.scores), options)


def _sources(options: Namespace) -> list[SourcePage]:
    """The pages of files, or of the targets of a Prometheus.

    :raises ValueError: for a page that cannot be read, naming it.
    :raises ConnectionError: when the Prometheus does not answer as one.
    """
    server = reached_prometheus(options)
    if server is not None:
        return read_prometheus(server.url, server.ask, options.match, options.first, options.last)
    return [_page(path) for path in options.pages]


def _page(path: str) -> SourcePage:
    page = captured_page(path)
    if not any(family.samples for family in page.families.values()):
        raise ValueError(f"{path}: there is no metric in it")
    return SourcePage("page" if path == "-" else Path(path).stem, page)


def _write(result: Clone, output: str | None) -> None:
    """Write the files; standard output comes last, so that what it names is there.

    :raises Failed: for a file that cannot be written, and for an identity that the user may have written.
    """
    for path, text in result.identities.items():
        _check_own(path)
        write_file(path, text)
        write_text(sys.stderr, f"fakedev clone: wrote the identity {path}\n")
    if output is None:
        write_text(sys.stdout, result.text, is_document=True)
    else:
        write_file(output, result.text)


def _check_own(path: Path) -> None:
    try:
        with open_given(path) as file:
            is_own = file.readline(len(FIRST_LINE)).decode(errors="replace") == FIRST_LINE
    except FileNotFoundError:
        return
    except OSError as error:
        raise Failed(f"{path}: {plain_reason(error)}") from None
    if not is_own:
        raise Failed(f"{path}: is there, and not of a clone: name another file with --identity-output")
