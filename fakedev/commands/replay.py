"""``fakedev replay FORMAT DIR --output DIR``: a trace of a cluster becomes a scenario; ``--check`` compares both."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from fakedev.app.configuration_options import argument_type
from fakedev.app.scenario import make_run
from fakedev.commands.console import Progress, restored_after_interrupt, table, write_text
from fakedev.commands.parser import Parser
from fakedev.config.scenarios import load_scenario
from fakedev.config.schema.files import MAX_BYTES as LARGEST_SCENARIO
from fakedev.spec.errors import Refused
from fakedev.spec.os_errors import plain_reason
from fakedev.spec.units import format_duration, parse_duration
from fakedev.traces import job_files, openb
from fakedev.traces.comparison import Finding, Watcher, compare
from fakedev.traces.model import Trace, part_of
from fakedev.traces.placement import BEST_FIT, RULES, Placement, place
from fakedev.traces.scenario_text import NODES_FILE, SCENARIO_FILE, UnknownModels, node_list, scenario_text
from fakedev.traces.table import MAX_BYTES, BadTrace, Problems

_PROGRAM: Final = "fakedev replay"
#: By the name of each format: the tables that it has, and what reads them.
FORMATS: Final = {"openb": (openb.TABLES, openb.read_openb), "jobs": (job_files.TABLES, job_files.read_job_files)}
#: So many jobs without a place are named.
_NAMED: Final = 10
NOT_MET: Final = 3


def replay(arguments: Sequence[str]) -> int:
    """Make a scenario of a trace, and compare its run with the trace if that is asked for.

    :returns: 0; 1 when a file cannot be written; 2 when the trace or the options cannot be used; 3 when the comparison
        misses a bound.
    :raises ConfigurationError: when the fleet cannot be made, as for a device type that there is not.
    """
    options = _parser().parse_args(list(arguments))
    try:
        trace, span = part_of(_read(options), options.begin, options.duration)
        nodes = node_list(trace.nodes, {**trace.models, **options.map})
        placement = place(trace, span, options.place)
    except (BadTrace, UnknownModels, ValueError) as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return 2
    _tell(trace, placement, span)
    text = scenario_text(placement.placed, span, options.tick, options.usage, options.seed)
    if len(text) > LARGEST_SCENARIO:
        advice = "give a shorter --for"
        print(f"{_PROGRAM}: a scenario of {len(placement.placed)} jobs is too large: {advice}", file=sys.stderr)
        return 2
    path = os.path.join(options.output, SCENARIO_FILE)
    try:
        os.makedirs(options.output, exist_ok=True)
        Path(options.output, NODES_FILE).write_text(nodes, encoding="utf-8")
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"{_PROGRAM}: {error.filename or options.output}: {plain_reason(error)}", file=sys.stderr)
        return 1
    if not options.check:
        write_text(sys.stdout, f"written: {path}; fakedev serve --scenario {path} plays it\n")
        return 0
    try:
        found = _checked(path, trace, placement)
    except Refused as error:
        print(f"{_PROGRAM}: {path}: {error}", file=sys.stderr)
        return 2
    write_text(sys.stdout, table([_row(each) for each in found]))
    return 0 if all(each.is_met for each in found) else NOT_MET


def _parser() -> Parser:
    parser = Parser(_PROGRAM, description=__doc__)
    formats = sorted(FORMATS)
    parser.add_argument("format", metavar="FORMAT", choices=formats, help=f"one of {', '.join(formats)}")
    parser.add_argument("folder", metavar="DIR", help="the folder with the tables of the trace")
    parser.add_argument("--output", metavar="DIR", required=True, help="write the scenario and its list of nodes there")
    parser.add_argument(
        "--usage", metavar="PERCENT:FLUCTUATION", type=argument_type(_usage), required=True,
        help="what a job uses of what it asked for, as 60:20; these traces do not tell",
    )  # fmt: skip
    parser.add_argument(
        "--map", metavar="MODEL=DEVICE,...", type=argument_type(_map), default={}, help="device types of models"
    )
    parser.add_argument(
        "--from", metavar="TIME", dest="begin", type=argument_type(parse_duration), default=0.0,
        help="begin there, as 117d, since the beginning of the trace",
    )  # fmt: skip
    parser.add_argument(
        "--for", metavar="TIME", dest="duration", type=argument_type(_length), help="how long; default: to its end"
    )
    parser.add_argument("--place", choices=RULES, default=BEST_FIT, help=f"where jobs run; default: {BEST_FIT}")
    parser.add_argument("--tick", metavar="TIME", type=argument_type(_length), default=60.0, help="default: 60s")
    parser.add_argument(
        "--seed", metavar="N", type=argument_type(_count), default=0, help="of the fleet's randomness; default: 0"
    )
    parser.add_argument(
        "--lenient", metavar="N", type=argument_type(_count), default=0, help="leave out up to N wrong rows"
    )
    parser.add_argument(
        "--check", action="store_true", help="run it in virtual time, and compare it with the trace; 3 if they differ"
    )
    return parser


def _read(options: argparse.Namespace) -> Trace:
    """The trace of a folder.

    :raises BadTrace: when it cannot be used.
    """
    tables, read = FORMATS[options.format]
    contents = tuple(_table(options.folder, names) for names in tables)
    problems = Problems(options.lenient)
    trace = read(contents, problems)
    if not trace.nodes:
        raise BadTrace(f"{contents[0][0]}: has no node with devices")
    if problems.rows:
        print(f"note: {problems.rows} wrong rows were left out", file=sys.stderr)
    return trace


def _table(folder: str, names: Sequence[str]) -> tuple[str, bytes]:
    """The path and the content of the first table that is there, gzip or not."""
    for path in (Path(folder, name + ending) for name in names for ending in ("", ".gz")):
        try:
            with path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise BadTrace(f"{path}: {plain_reason(error)}") from None
        return str(path), content
    raise BadTrace(f"{folder}: has no {' and no '.join(names)}, with or without .gz")


def _checked(path: str, trace: Trace, placement: Placement) -> list[Finding]:
    """The comparison of a run with its trace.

    :raises Refused: when the scenario cannot run.
    """
    loaded = load_scenario(path, os.environ)
    span = loaded.scenario.span_seconds
    # Nobody reads the pages of this run.
    rare = replace(loaded.scenario, scraping=replace(loaded.scenario.scraping, interval_seconds=2 * span))
    run, _ = make_run(replace(loaded, scenario=rare), 0.0)
    watcher = Watcher()
    names: dict[str, str] = {}
    with Progress(_PROGRAM, sys.stderr) as progress, restored_after_interrupt():
        for _ in run.instants():
            workloads = run.fleet.workloads.by_id
            known = len(watcher.seen)
            watcher.note(run.fleet.state.seconds, workloads)
            if len(watcher.seen) > known:
                names.update((each, workload.spec.name) for each, workload in workloads.items())
            progress.show(run.share_done)
    tick_seconds = run.fleet.spec.tick_seconds
    return compare(trace.jobs, watcher, names, tick_seconds, len(placement.without_place), placement.late)


def _tell(trace: Trace, placement: Placement, span_seconds: float) -> None:
    """Tell what was read, and what will be."""
    devices = sum(node.devices for node in trace.nodes)
    hours = sum(job.device_hours for job in trace.jobs)
    lines = [
        f"nodes: {len(trace.nodes)} with {devices} devices",
        f"jobs: {len(trace.jobs)} in {format_duration(span_seconds)}, {hours:.1f} device hours of those that end",
        *(f"left out: {count} {reason}" for reason, count in sorted(trace.left_out.items())),
        f"peak: {placement.peak_devices} devices taken at once",
    ]
    if placement.late:
        lines.append(f"waited for a place: {placement.late}")
    if placement.without_place:
        names = ", ".join(job.name for job in placement.without_place[:_NAMED])
        more = ", ..." if len(placement.without_place) > _NAMED else ""
        lines.append(f"without a place: {len(placement.without_place)}: {names}{more}")
    write_text(sys.stdout, "".join(f"{line}\n" for line in lines))


def _row(found: Finding) -> dict[str, str]:
    verdict = "met" if found.is_met else "MISSED"
    return {"WHAT": found.what, "TRACE": found.trace, "REPLAY": found.replay, "BOUND": found.bound, "VERDICT": verdict}


def _usage(text: str) -> tuple[float, float]:
    """Percent and fluctuation.

    :raises ValueError: for anything else.
    """
    words = text.split(":")
    try:
        load, fluctuation = float(words[0]), float(words[1]) if len(words) > 1 else 0.0
    except ValueError:
        load = -1.0
    if len(words) > 2 or not 0 <= load <= 100 or not 0 <= fluctuation <= min(load, 100 - load):
        raise ValueError(f"{text[:40]!r} is no PERCENT:FLUCTUATION within 0 to 100, as 60:20")
    return load, fluctuation


def _map(text: str) -> dict[str, str]:
    """Device types by models.

    :raises ValueError: for what is no pair, or names a model twice.
    """
    found: dict[str, str] = {}
    for pair in text.split(","):
        model, equals, device = (word.strip() for word in pair.partition("="))
        if not model or not equals or not device:
            raise ValueError(f"{pair[:40]!r} is no MODEL=DEVICE, as G2=h100")
        if model in found:
            raise ValueError(f"the model {model!r} is there twice")
        found[model] = device
    return found


def _count(text: str) -> int:
    """A whole number of 0 or more, of at most 18 digits.

    :raises ValueError: for anything else.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError(f"{text[:40]!r} is no whole number of 0 or more")
    return int(text)


def _length(text: str) -> float:
    """A duration above 0.

    :raises ValueError: for anything else.
    """
    found = parse_duration(text)
    if found <= 0:
        raise ValueError(f"{text[:40]!r} must be above 0")
    return found
