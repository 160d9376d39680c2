"""Runs a scenario in virtual time, and writes its history, its truth, its journal or its record."""

from __future__ import annotations

import hashlib
import os
import sys
from argparse import Namespace
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import time
from typing import Any, Final

import orjson

from fakedev import __version__
from fakedev.base.console import Progress, restored_after_interrupt, table, tell_notes, write_text
from fakedev.base.errors import Refused, plain_reason
from fakedev.base.given_files import read_given
from fakedev.base.lines_file import LinesFile
from fakedev.base.units import format_duration
from fakedev.config.options import configuration_options
from fakedev.fleet.journal import JournalEntry
from fakedev.fleet.record import event_line, head_line
from fakedev.scenario.run import Run
from fakedev.scenario.samples.history import HistoryBlocks, HistoryFiles
from fakedev.scenario.samples.series import FleetSamples, Stored
from fakedev.scenario.settings import LoadedScenario, load_scenario
from fakedev.scenario.start import begin_of, make_run
from fakedev.scenario.timeline import Played
from fakedev.scenario.truth import Cause
from fakedev.schema.options import Failed, Operand, Option, command

_PROGRAM: Final = "fakedev scenario run"
#: Minimum wait that is reported: shorter ones are over before they are read.
_TOLD_SECONDS: Final = 1.0
#: How many devices a row of the table names.
_SHOWN: Final = 4
#: The options that ask for something; without any of them a table of the faults is printed.
_OUTPUTS: Final = ("openmetrics", "blocks", "remote_write", "truth", "journal", "record")


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


#: The options of all subcommands that run a scenario.
SCENARIO: Final = (
    Operand("file", "FILE", "the scenario"),
    *configuration_options("in place of the scenario's"),
    Option(
        "end", "TIME", "when the history ends, e.g. 2026-11-22T06:00:00Z; default now; not with fleet.epoch",
        "now", end_seconds,
    ),
)  # fmt: skip


@command(
    _PROGRAM,
    __doc__,
    *SCENARIO,
    Option("check", "", "only check the scenario: exit 0 or 2"),
    Option("openmetrics", "FOLDER", "write the history as OpenMetrics, in files of two hours each"),
    Option("blocks", "FOLDER", "write the history as blocks of Prometheus; needs promtool"),
    Option(
        "remote-write", "URL", "send the history to a server, e.g. http://127.0.0.1:9090/api/v1/write; needs "
        "fakedev[scenario]", "",
    ),
    Option("token-file", "FILE", "Bearer token for --remote-write", ""),
    Option(
        "resume", "FILE", "keep the progress of --remote-write in FILE; an interrupted run continues from there",
        "",
    ),
    Option("truth", "FILE", "write what happened, causes and effects, in JSON Lines"),
    Option("journal", "FILE", "write the journal in JSON Lines"),
    Option("record", "FILE", "write the events, for fakedev render --events"),
    failures={Refused: 2, ValueError: 1},
)  # fmt: skip
def run(options: Namespace) -> int:
    """Run the scenario; the exit code is 130 after a signal.

    :raises ConfigurationError: when the scenario cannot be used.
    """
    loaded = load_scenario(options.file, os.environ, options.config, options.set)
    tell_notes(loaded.notes)
    if options.check:
        count = len(loaded.scenario.occurrences)
        what = f"{count} occurrence{'s' * (count != 1)}"
        write_text(sys.stdout, f"{options.file}: good: {what} in {format_duration(loaded.scenario.span_seconds)}\n")
        return 0
    try:
        return _run(options, loaded)
    except OSError as error:
        # The end of a history cannot be written.
        raise Failed(f"{error.filename or 'the history'}: {plain_reason(error)}") from None


def _run(options: Namespace, loaded: LoadedScenario) -> int:
    """Run it, and write the requested files.

    :raises ValueError, OSError, PromtoolError: when something cannot be written.
    """
    with ExitStack() as stack:
        files = (options.truth, options.journal, options.record)
        truth, journal, record = (stack.enter_context(LinesFile(file)) for file in files)
        progress = stack.enter_context(Progress(_PROGRAM, sys.stderr))

        def tell(entries: Sequence[JournalEntry]) -> None:
            journal.write(entry.line() for entry in entries)

        begin_seconds = begin_of(loaded, options.end)
        remote = _remote_progress(options, loaded, begin_seconds)
        if remote is not None:
            begin_seconds = remote.begin_seconds
        run, head = make_run(
            loaded, begin_seconds, lambda stamped: record.write([event_line(stamped)]), tell,
            partial(tell_refused, progress),
        )  # fmt: skip
        record.write([head_line(head)])
        stack.enter_context(restored_after_interrupt())
        code = 0
        try:
            with ExitStack() as histories:
                history = _written(run, _histories(options, histories), progress, reads=remote is not None)
                if remote is not None:
                    code = _send(options, history, remote, progress)
                else:
                    deque(history, maxlen=0)
        finally:
            found = run.truth
            truth.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in found.lines())
        progress.clear()
        if not any(getattr(options, output) for output in _OUTPUTS):
            rows = [_row(cause) for cause in found.causes]
            write_text(sys.stdout, table(rows) if rows else "nothing happened\n")
    return code


def _histories(options: Namespace, stack: ExitStack) -> list[HistoryFiles | HistoryBlocks]:
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


def _remote_progress(options: Namespace, loaded: LoadedScenario, begin_seconds: float) -> Any:
    """How far the history has been sent; None without remote write. A run that goes on has the beginning of the first.

    :param begin_seconds: of a run that begins, since 1970.
    :raises ValueError: when the options cannot be used.
    """
    if not options.remote_write:
        for name in ("token_file", "resume"):
            if getattr(options, name):
                raise ValueError(f"--{name.replace('_', '-')} goes with --remote-write URL")
        return None
    from fakedev.scenario.samples.sender import SendProgress, without_credentials  # noqa: PLC0415 - it needs Twisted

    url, _ = without_credentials(options.remote_write)
    return SendProgress(options.resume, _digest(options, loaded), url, begin_seconds).of_file()


def _send(options: Namespace, history: Iterable[Stored | None], remote: Any, progress: Progress) -> int:
    """Send the history.

    :param remote: what _remote_progress has returned.
    :returns: the exit code: 0, or 130 after a signal.
    :raises ValueError: when it cannot be sent.
    """
    from fakedev.scenario.samples.sender import send_history  # noqa: PLC0415 - virtual time alone needs no Twisted

    def tell(problem: str, seconds: float) -> None:
        if seconds >= _TOLD_SECONDS:
            progress.clear()
            write_text(sys.stderr, f"{_PROGRAM}: {problem}: again in {format_duration(round(seconds))}\n")

    token = _token(options.token_file)
    samples, signal_name = send_history(history, remote, options.remote_write, token=token, on_wait=tell)
    progress.clear()
    if signal_name:
        if options.resume:
            write_text(sys.stderr, f"{_PROGRAM}: interrupted: the same command goes on from {options.resume}\n")
        return 130
    write_text(sys.stderr, f"{_PROGRAM}: {samples} samples sent\n")
    return 0


def _token(path: str) -> str:
    try:
        token = read_given(path).decode("ascii").strip() if path else ""
    except OSError as error:
        raise ValueError(f"{path}: {plain_reason(error)}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: has no token in ASCII") from None
    if path and (not token or not token.isprintable() or " " in token):
        raise ValueError(f"{path}: must have one token, on one line")
    return token


def _digest(options: Namespace, loaded: LoadedScenario) -> str:
    """A word that differs for histories of other files, options or versions."""
    texts = [sorted(configuration.files.texts.items()) for configuration in loaded.configurations]
    own = read_given(options.file).decode()
    values = [__version__, own, texts, [list(configuration.overrides) for configuration in loaded.configurations]]
    return hashlib.sha256(orjson.dumps(values)).hexdigest()
