"""``fakedev scenario run FILE``: runs a scenario in virtual time, and writes what is asked for."""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import time
from typing import Final

from fakedev.app.configuration_options import add_configuration_options, argument_type
from fakedev.app.history import HistoryBlocks, HistoryFiles
from fakedev.app.promtool import PromtoolError
from fakedev.app.scenario import begin_of, make_run
from fakedev.commands.console import Progress, restored_after_interrupt, table, tell_notes, write_text
from fakedev.commands.lines_file import LinesFile
from fakedev.commands.parser import Parser
from fakedev.commands.scenario.remote_write import add_remote_write_options, remote_progress, send
from fakedev.config.scenarios import LoadedScenario, load_scenario
from fakedev.scenario.player import Played
from fakedev.scenario.run import Run
from fakedev.scenario.samples import FleetSamples, Stored
from fakedev.scenario.truth import Cause
from fakedev.sim.events import event_to_fields
from fakedev.sim.journal_entries import JournalEntry
from fakedev.sim.record import head_fields
from fakedev.spec.errors import Refused
from fakedev.spec.os_errors import plain_reason
from fakedev.spec.units import format_duration

_PROGRAM: Final = "fakedev scenario run"
#: How many devices a row of the table names.
_SHOWN: Final = 4
#: The options that ask for something; without any of them a table of the faults is printed.
_OUTPUTS: Final = ("openmetrics", "blocks", "remote_write", "truth", "journal", "record")


def run(arguments: Sequence[str]) -> int:
    """Run the scenario.

    :returns: 0; 1 when something cannot be written; 2 when the options or the scenario cannot be used; 130.
    :raises ConfigurationError: when the scenario cannot be used.
    """
    options = _parser().parse_args(list(arguments))
    loaded = load_scenario(options.file, os.environ, options.config, options.set)
    tell_notes(loaded.notes)
    if options.check:
        count = len(loaded.scenario.occurrences)
        what = f"{count} occurrence{'s' * (count != 1)}"
        print(f"{options.file}: good: {what} in {format_duration(loaded.scenario.span_seconds)}")
        return 0
    try:
        return _run(options, loaded)
    except Refused as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return 2
    except (ValueError, PromtoolError) as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        # The end of a history cannot be written.
        print(f"{_PROGRAM}: {error.filename or 'the history'}: {plain_reason(error)}", file=sys.stderr)
        return 1


def _parser() -> Parser:
    parser = Parser(_PROGRAM, description=__doc__)
    add_scenario_options(parser)
    parser.add_argument("--check", action="store_true", help="only check the scenario: exit 0 or 2")
    parser.add_argument("--openmetrics", metavar="FOLDER", help="the history, as OpenMetrics, a file for two hours")
    parser.add_argument("--blocks", metavar="FOLDER", help="the history, as blocks of Prometheus; needs promtool")
    add_remote_write_options(parser)
    parser.add_argument("--truth", metavar="FILE", help="what happened: causes and effects, in JSON Lines")
    parser.add_argument("--journal", metavar="FILE", help="the journal, in JSON Lines")
    parser.add_argument("--record", metavar="FILE", help="the events, to be run again by fakedev render --events")
    return parser


def _run(options: argparse.Namespace, loaded: LoadedScenario) -> int:
    """Run it, and write what is asked for.

    :raises ValueError, OSError, PromtoolError: when something cannot be written.
    """
    with ExitStack() as stack:
        files = (options.truth, options.journal, options.record)
        truth, journal, record = (stack.enter_context(LinesFile(each)) for each in files)
        progress = stack.enter_context(Progress(_PROGRAM, sys.stderr))

        def tell(entries: Sequence[JournalEntry]) -> None:
            journal.write(entry.fields() for entry in entries)

        begin_seconds = begin_of(loaded, options.end)
        remote = remote_progress(options, loaded, begin_seconds)
        if remote is not None:
            begin_seconds = remote.begin_seconds
        run, head = make_run(
            loaded, begin_seconds, lambda stamped: record.write([event_to_fields(stamped)]), tell,
            partial(tell_refused, progress),
        )  # fmt: skip
        record.write([head_fields(head)])
        stack.enter_context(restored_after_interrupt())
        code = 0
        try:
            with ExitStack() as histories:
                history = _written(run, _histories(options, histories), progress, reads=remote is not None)
                if remote is not None:
                    code = send(options, history, remote, progress, _PROGRAM)
                else:
                    deque(history, maxlen=0)
        finally:
            found = run.truth
            truth.write(found.lines())
        progress.clear()
        if not any(getattr(options, each) for each in _OUTPUTS):
            rows = [_row(each) for each in found.causes]
            write_text(sys.stdout, table(rows) if rows else "nothing happened\n")
    return code


def _histories(options: argparse.Namespace, stack: ExitStack) -> list[HistoryFiles | HistoryBlocks]:
    """What the history is written to.

    :raises OSError: when that cannot be written.
    :raises PromtoolError: when promtool is missing.
    """
    found: list[HistoryFiles | HistoryBlocks] = []
    if options.openmetrics:
        found.append(stack.enter_context(HistoryFiles(Path(options.openmetrics))))
    if options.blocks:
        found.append(stack.enter_context(HistoryBlocks(Path(options.blocks))))
    return found


def _written(
    run: Run, histories: Sequence[HistoryFiles | HistoryBlocks], progress: Progress, *, reads: bool
) -> Iterator[Stored | None]:
    """Runs it and writes its history; yields it after each tick.

    :param reads: whether the caller needs the history.
    :raises ValueError: when it cannot be written.
    """
    samples = FleetSamples(run.targets)
    try:
        for instant in run.instants():
            progress.show(run.share_done)
            stored = samples.scrape(instant) if instant is not None and (histories or reads) else None
            if stored is not None:
                for history in histories:
                    history.write(stored)
            yield stored
    except PromtoolError as error:
        raise ValueError(str(error)) from None
    except OSError as error:
        raise ValueError(f"{error.filename or 'the history'}: {plain_reason(error)}") from None


def _row(cause: Cause) -> dict[str, str]:
    end = "the end" if cause.end_seconds is None else format_duration(cause.end_seconds)
    return {
        "FROM": format_duration(cause.begin_seconds),
        "TO": end,
        "FAULT": cause.kind,
        "NAME": cause.name,
        "DEVICES": ", ".join(cause.devices[:_SHOWN]) + (" ..." if len(cause.devices) > _SHOWN else ""),
    }


def tell_refused(progress: Progress, played: Played) -> None:
    """Tell that an entry of a timeline was not possible."""
    if played.problem:
        progress.clear()
        at = format_duration(played.occurrence.seconds)
        entry = played.occurrence.entry
        write_text(sys.stderr, f"note: {entry.place}: {entry.words}: not possible at {at}: {played.problem}\n")


def add_scenario_options(parser: argparse.ArgumentParser) -> None:
    """The options of all subcommands that run a scenario."""
    parser.add_argument("file", metavar="FILE", help="the scenario")
    add_configuration_options(parser, "in place of the scenario's")
    parser.add_argument(
        "--end", metavar="TIME", type=argument_type(end_seconds), default="now",
        help="when the history ends, as 2026-11-22T06:00:00Z, or now, the default; not with fleet.epoch",
    )  # fmt: skip


def end_seconds(text: str) -> float:
    """The time of an option, in seconds since 1970.

    :raises ValueError: for what is no time.
    """
    if text == "now":
        return time()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no time: give now, or one such as 2026-11-22T06:00:00Z") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
