"""Prints the pages of a simulated time span, byte for byte as the service would send them."""

from __future__ import annotations

import math
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import time

from fakedev import __version__
from fakedev.base.console import Progress, restored_after_interrupt, tell_notes, write_bytes, write_text
from fakedev.base.errors import Refused, plain_reason
from fakedev.base.given_files import read_given
from fakedev.base.lines_file import CannotWriteLines, LinesFile
from fakedev.base.units import parse_duration
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.config.options import configuration_options
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource, HeldStates, by_identity
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.entities.selectors import no_node
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.journal import JournalEntry, Tell, no_op
from fakedev.fleet.record import INCOMPLETE, Replay, read_record, without_incomplete_line
from fakedev.fleet.spec.limits import RecordHead
from fakedev.scenario.entries import Scraping
from fakedev.scenario.samples.history import HistoryFiles, HistoryStream
from fakedev.scenario.samples.scrapes import Scrapes
from fakedev.scenario.samples.series import FleetSamples
from fakedev.schema.files import Files
from fakedev.schema.options import Failed, Option, command


@command(
    "fakedev render",
    __doc__,
    *configuration_options("default: the record's, else the demo"),
    Option("events", "FILE", "a record (serve --record), whose events are replayed"),
    Option("for", "DURATION", "simulated time, default 1m", 60.0, parse_duration, value="span"),
    Option("every", "DURATION", "time between two pages, default 15s", 15.0, parse_duration),
    Option("node", "NODE", "print this node's page instead of the fleet's", ""),
    Option("output", "FOLDER", "write one file per page, TICK.prom, instead of standard output"),
    Option("journal", "FILE", "write what happened, and why, in JSON Lines"),
    Option(
        "openmetrics", "", "print all pages as one OpenMetrics text with timestamps, for promtool; with --output: "
        "files of two hours each",
    ),
    failures={CannotWriteLines: 1, Refused: 2, ValueError: 2},
)  # fmt: skip
def render(options: Namespace) -> None:
    """Print the pages.

    :raises ConfigurationError: when the configuration cannot be used.
    """
    try:
        with ExitStack() as stack:
            _render(options, stack)
    except BrokenPipeError:
        # The reader has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise Failed(f"{options.output or 'standard output'}: {plain_reason(error)}") from None


def _render(options: Namespace, stack: ExitStack) -> None:
    """Print the pages; what is opened is closed by the stack."""
    #: By what they were read from; None: what the run began with. A change of the cluster's nodes is no other one.
    configurations: dict[int | None, Configuration] = {}

    def compiled(source: RecordHead) -> CompiledFleet:
        """The compiled fleet of the configuration that a reload has read."""
        files = Files(source.files, source.environment)
        configuration = load(source.config, files, [*source.overrides, *options.set], source.text)
        fleet = CompiledFleet(replace(configuration.fleet, epoch_seconds=source.epoch_seconds))
        configurations[id(source)] = configuration
        return fleet

    head, replay = _record(options.events, compiled)
    configuration = _configuration(options, head)
    tell_notes(configuration.notes)
    configurations[None] = configuration
    journal = stack.enter_context(LinesFile(options.journal))

    def tell(entries: Sequence[JournalEntry]) -> None:
        journal.write(entry.line() for entry in entries)

    fleet = _fleet(configuration, head, tell if journal.is_wanted else no_op)
    held = HeldStates(lambda: fleet.shown)
    made_for, pages = None, []
    # The pages and the progress would mix on a terminal.
    shown_on = None if sys.stdout.isatty() and not options.output else sys.stderr
    with Progress("fakedev render", shown_on) as progress:
        if options.openmetrics:
            _write_history(fleet, replay, options, configurations, progress)
            return
        for _ in _ticks(fleet, replay, options, held.keep, progress):
            if fleet.compiled is not made_for:
                made_for = fleet.compiled
                held.renew()
                made = _pages(fleet, configurations[id(fleet.source) if fleet.source else None], options.node)
                pages = [(page, held.every(page.identity.hold_seconds)) for page in made]
            _write(fleet, b"".join(page.render(state()) for page, state in pages), options.output)


def _record(
    path: str | None, compiled: Callable[[RecordHead], CompiledFleet]
) -> tuple[RecordHead | None, Replay]:
    if path is None:
        return None, Replay([])
    try:
        given = read_given(path)
        text = without_incomplete_line(given)
        if text != given:
            write_text(sys.stderr, f"fakedev render: note: {path}: {INCOMPLETE}\n")
        head, events = read_record(text, compiled)
        if head.version != __version__:
            what = f"{path}: of version {head.version}, not {__version__}: simulated values and bytes may differ"
            write_text(sys.stderr, f"fakedev render: note: {what}\n")
    except Refused as refusal:
        raise Refused(refusal.code, f"{path}: {refusal.text}", refusal.where) from None
    except OSError as error:
        raise ValueError(f"{path}: {plain_reason(error)}") from None
    return head, Replay(events)


def _configuration(options: Namespace, head: RecordHead | None) -> Configuration:
    if options.config is not None or head is None:
        return load(options.config, Files(environ=os.environ), options.set)
    files = Files(head.files, head.environment)
    return load(head.config, files, [*head.overrides, *options.set], text=head.text)


def _fleet(configuration: Configuration, head: RecordHead | None, tell: Tell) -> Fleet:
    if head is not None:
        epoch = head.epoch_seconds
    else:
        epoch = time() if configuration.epoch_is_start else configuration.fleet.epoch_seconds
    spec = replace(configuration.fleet, epoch_seconds=epoch)
    wall_per_tick = spec.tick_seconds / configuration.speed if configuration.speed else None
    return Fleet(spec, wall_per_tick=wall_per_tick, tell=tell)


def _pages(fleet: Fleet, configuration: Configuration, name: str) -> list[Page[RosterNode]]:
    nodes = list(fleet.roster.shown)
    if name:
        node = fleet.roster.node(name)
        if node is None and any(pool.has_cluster_nodes for pool in fleet.spec.pools):
            return []  # it may come later, and its page is not there now
        if node is None:
            raise no_node(name, fleet.roster, "node")
        nodes = [node]
    return [
        Page(LabelCache(identity, DeviceSource.of(fleet, identity)), group)
        for identity, group in by_identity(nodes, configuration.identities)
    ]


def _ticks(
    fleet: Fleet, replay: Replay, options: Namespace, keep: Callable[[], None], progress: Progress
) -> Iterator[None]:
    """Runs the ticks of the span, and yields at each tick that has a page, also at tick 0."""
    tick_seconds, last = fleet.spec.tick_seconds, _last_tick(fleet, options)
    every = max(1, math.ceil(round(options.every / tick_seconds, 9)))
    while True:
        if fleet.state.tick % every == 0:
            yield
        if fleet.state.tick >= last:
            return
        replay.advance(fleet)
        keep()
        progress.show(fleet.state.tick / last)


def _last_tick(fleet: Fleet, options: Namespace) -> int:
    span: float = options.span
    return math.floor(round(span / fleet.spec.tick_seconds, 9))


def _write_history(
    fleet: Fleet, replay: Replay, options: Namespace, configurations: Mapping[int | None, Configuration],
    progress: Progress,
) -> None:
    """Write the pages of all nodes as the samples that a Prometheus would store; the end is exclusive."""  # fmt: skip
    scrapes, made_for, last = Scrapes(fleet, Scraping()), None, _last_tick(fleet, options)
    samples = FleetSamples(scrapes.targets)
    if options.node and fleet.roster.node(options.node) is None:
        raise no_node(options.node, fleet.roster, "node")
    with (
        restored_after_interrupt(),
        HistoryFiles(Path(options.output)) if options.output else HistoryStream(sys.stdout.buffer) as history,
    ):
        for _ in _ticks(fleet, replay, options, scrapes.keep, progress):
            if fleet.compiled is not made_for:
                made_for = fleet.compiled
                scrapes.use(configurations[id(fleet.source) if fleet.source else None].identities)
            if fleet.state.tick < last:
                instant = scrapes.scrape(fleet.state.seconds, fleet.state.wall_seconds)
                if options.node:
                    kept = [scrape for scrape in instant.scrapes if scrapes.targets[scrape.target].node == options.node]
                    instant = instant._replace(scrapes=kept)
                history.write(samples.scrape(instant))


def _write(fleet: Fleet, page: bytes, folder: str | None) -> None:
    state = fleet.state
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, f"{state.tick}.prom").write_bytes(page)
        return
    when = datetime.fromtimestamp(state.wall_seconds, UTC).isoformat(timespec="milliseconds")
    write_bytes(sys.stdout, f"# page tick={state.tick} time={when}\n".encode() + page)
