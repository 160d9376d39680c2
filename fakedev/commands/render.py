"""``fakedev render``: prints the pages of a simulated span of time, byte for byte as the service would send them."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import time

from fakedev import __version__
from fakedev.app.configuration_options import add_configuration_options
from fakedev.app.history import HistoryFiles, HistoryStream
from fakedev.commands.console import Progress, restored_after_interrupt, tell_notes
from fakedev.commands.lines_file import CannotWriteLines, LinesFile
from fakedev.commands.parser import Parser
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.exposition.held_states import HeldStates
from fakedev.exposition.label_cache import LabelCache
from fakedev.exposition.page import Page
from fakedev.exposition.sources import DeviceSource, by_identity
from fakedev.scenario.entries import Scraping
from fakedev.scenario.samples import FleetSamples
from fakedev.scenario.scrapes import Scrapes
from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.entities.roster import RosterNode
from fakedev.sim.entities.selectors import no_node
from fakedev.sim.fleet import Fleet
from fakedev.sim.journal import Tell, no_op
from fakedev.sim.journal_entries import JournalEntry
from fakedev.sim.record import Replay, read_record, without_incomplete_line
from fakedev.spec.errors import Refused
from fakedev.spec.os_errors import plain_reason
from fakedev.spec.record_head import RecordHead
from fakedev.spec.units import parse_duration


def render(arguments: Sequence[str]) -> int:
    """Print the pages.

    :returns: 0; 1 when a page cannot be written; 2 when the options or the record cannot be used.
    :raises ConfigurationError: when the configuration cannot be used.
    """
    options = _parser().parse_args(list(arguments))
    try:
        with ExitStack() as stack:
            _render(options, stack)
    except CannotWriteLines as error:
        print(f"fakedev render: {error}", file=sys.stderr)
        return 1
    except (Refused, ValueError) as error:
        print(f"fakedev render: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"fakedev render: {options.output or 'standard output'}: {plain_reason(error)}", file=sys.stderr)
        return 1
    return 0


def _render(options: argparse.Namespace, stack: ExitStack) -> None:
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
    tell = partial(_tell, journal) if journal.is_wanted else no_op
    fleet = _fleet(configuration, head, tell)
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


def _tell(journal: LinesFile, entries: Sequence[JournalEntry]) -> None:
    """Write entries of the journal."""
    journal.write(entry.fields() for entry in entries)


def _parser() -> argparse.ArgumentParser:
    parser = Parser("fakedev render", description=__doc__)
    add_configuration_options(parser, "else the record's, else the demo")
    parser.add_argument("--events", metavar="FILE", help="a record (serve --record), whose events are replayed")
    parser.add_argument("--for", dest="span", default="1m", metavar="DURATION", help="simulated time, default 1m")
    parser.add_argument("--every", default="15s", metavar="DURATION", help="time between two pages, default 15s")
    parser.add_argument("--node", default="", metavar="NODE", help="this node's page instead of the fleet's")
    parser.add_argument("--output", metavar="FOLDER", help="a file per page, TICK.prom, instead of standard output")
    parser.add_argument("--journal", metavar="FILE", help="write what happened, and why, in JSON Lines")
    parser.add_argument(
        "--openmetrics", action="store_true",
        help="all pages in one OpenMetrics text with times, as a Prometheus would store them, for promtool; "
        "with --output files of two hours",
    )  # fmt: skip
    return parser


def _record(
    path: str | None, compiled: Callable[[RecordHead], CompiledFleet]
) -> tuple[RecordHead | None, Replay]:
    if path is None:
        return None, Replay([])
    try:
        given = Path(path).read_bytes()
        text = without_incomplete_line(given)
        if text != given:
            print(f"fakedev render: note: {path}: the last line is incomplete, and left out", file=sys.stderr)
        head, events = read_record(text, compiled)
        if head.version != __version__:
            what = f"{path}: of version {head.version}, not {__version__}: simulated values and bytes may differ"
            print(f"fakedev render: note: {what}", file=sys.stderr)
    except Refused as refusal:
        raise Refused(refusal.code, f"{path}: {refusal.text}", refusal.where) from None
    except OSError as error:
        raise ValueError(f"{path}: {plain_reason(error)}") from None
    return head, Replay(events)


def _configuration(options: argparse.Namespace, head: RecordHead | None) -> Configuration:
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
    fleet: Fleet, replay: Replay, options: argparse.Namespace, keep: Callable[[], None], progress: Progress
) -> Iterator[None]:
    """Runs the ticks of the span, and yields at each tick that has a page, also at tick 0."""
    tick_seconds, last = fleet.spec.tick_seconds, _last_tick(fleet, options)
    every = max(1, math.ceil(round(parse_duration(options.every) / tick_seconds, 9)))
    while True:
        if fleet.state.tick % every == 0:
            yield
        if fleet.state.tick >= last:
            return
        replay.advance(fleet)
        keep()
        progress.show(fleet.state.tick / last)


def _last_tick(fleet: Fleet, options: argparse.Namespace) -> int:
    return math.floor(round(parse_duration(options.span) / fleet.spec.tick_seconds, 9))


def _write_history(
    fleet: Fleet, replay: Replay, options: argparse.Namespace, configurations: Mapping[int | None, Configuration],
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
                    kept = [each for each in instant.scrapes if scrapes.targets[each.target].node == options.node]
                    instant = instant._replace(scrapes=kept)
                history.write(samples.scrape(instant))


def _write(fleet: Fleet, page: bytes, folder: str | None) -> None:
    state = fleet.state
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        Path(folder, f"{state.tick}.prom").write_bytes(page)
        return
    when = datetime.fromtimestamp(state.wall_seconds, UTC).isoformat(timespec="milliseconds")
    sys.stdout.buffer.write(f"# page tick={state.tick} time={when}\n".encode() + page)
    sys.stdout.buffer.flush()
