"""``fakedev replay``: reads and places a trace; then it plays it live, writes it, or compares it in virtual time."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fakedev.app.replay import NoDevice, Replay, devices_of, scenario_of, serve
from fakedev.commands.console import Progress, table, tell_notes, write_text
from fakedev.commands.replay.folder import TraceFolder
from fakedev.commands.replay.head import head_lines
from fakedev.commands.replay.options import parse
from fakedev.commands.replay.report_html import report_html
from fakedev.commands.scenario.from_record import scenario_lines
from fakedev.config.schema.files import MAX_BYTES
from fakedev.scenario.entries import Run
from fakedev.scenario.from_record import timeline_of
from fakedev.sim.events import Stamped, StartWorkload
from fakedev.spec.os_errors import plain_reason
from fakedev.spec.units import format_duration
from fakedev.traces.compare import Comparison, compare
from fakedev.traces.formats import FORMATS
from fakedev.traces.measure import measure
from fakedev.traces.problems import Lenience, TraceProblems
from fakedev.traces.replay import Plan, plan_of, scaled, with_nodes
from fakedev.traces.trace import Window, within
from fakedev.traces.usage import Like

_PROGRAM: Final = "fakedev replay"
#: The time over which --scale spreads the copies of a job.
_SCALE_SECONDS: Final = 3600.0
_TOO_LARGE: Final = (
    f"the scenario would be larger than the {MAX_BYTES // 2**20} MiB that a file may have: give a shorter --for, or "
    "serve it without --output"
)
_VERDICTS: Final = {True: "met", False: "MISSED", None: "told"}


def replay(arguments: Sequence[str]) -> int:
    """Replay a trace.

    :returns: 0; 1 when a file cannot be written; 2 when the options or the trace cannot be used; 3 when a bound of the
        report is missed.
    :raises ConfigurationError: when its nodes cannot be those of a fleet.
    """
    options = parse(arguments)
    lenience = Lenience(options.lenient)
    try:
        plan, devices, span_seconds = _plan(options, lenience)
    except TraceProblems as problems:
        print(problems, file=sys.stderr)
        return 2
    except (ValueError, NoDevice) as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return 2
    write_text(sys.stdout, "".join(f"{line}\n" for line in head_lines(plan, devices, lenience, span_seconds)))
    sys.stdout.flush()
    if options.check:
        return 0
    fleet = {"tick": format_duration(options.tick), "speed": options.speed, "seed": options.seed}
    made = scenario_of(plan, options.format, devices, fleet, options.set, span_seconds)
    tell_notes(made.scenario.notes)
    try:
        if options.output:
            text = "".join(_scenario(made, options.set))
            if len(text.encode()) > MAX_BYTES:
                print(f"{_PROGRAM}: --output: {_TOO_LARGE}", file=sys.stderr)
                return 2
            Path(options.output).write_text(text, encoding="utf-8")
        if options.report:
            return _report(plan, made, options.report)
    except OSError as error:
        print(f"{_PROGRAM}: {error.filename}: {plain_reason(error)}", file=sys.stderr)
        return 1
    if not options.output:
        serve(made, options.record or "", options.ready_file or "")
    return 0


def _plan(options: argparse.Namespace, lenience: Lenience) -> tuple[Plan, dict[str, str], float]:
    """The trace with its places, the device types of its models, and how long the replay is.

    :raises ValueError: when it cannot be replayed.
    """
    kind = FORMATS[options.format]
    begin, span = getattr(options, "from"), getattr(options, "for")
    window = Window(begin, math.inf if span is None else begin + span)
    folder = TraceFolder(options.folder, lenience, window)
    if options.variant is not None and kind.read_variant is not None:
        trace = kind.read_variant(folder, options.variant)
    else:
        trace = kind.read(folder)
    trace = within(trace, window)
    if not trace.jobs:
        raise ValueError(f"{options.folder}: no job runs in that time")
    known = {model: device for model, device in kind.devices.items() if model in trace.models}
    devices = devices_of(trace, known | options.map, options.device)
    trace = scaled(trace, options.scale, _SCALE_SECONDS)
    if options.nodes is not None:
        trace = with_nodes(trace, options.nodes)
    usage = options.usage._replace(seed=options.seed) if isinstance(options.usage, Like) else options.usage
    plan = plan_of(trace, options.place, usage)
    if not plan.placement.placed:
        raise ValueError(f"{options.folder}: no job finds a place on the nodes")
    span = span or max(each.end_seconds for each in plan.placement.placed) + options.tick
    return plan, devices, max(span, options.tick)


def _scenario(made: Replay, overrides: Sequence[str]) -> list[str]:
    """The lines of the replay as a scenario file."""
    scenario = made.scenario.scenario
    tick_seconds = made.scenario.configurations[0].configuration.fleet.tick_seconds
    events = [
        Stamped(int(round(each.seconds / tick_seconds, 9)), number, StartWorkload(each.action.workload))
        for number, each in enumerate(scenario.occurrences, 1)
        if isinstance(each.action, Run) and each.seconds < scenario.span_seconds
    ]
    keys = {
        "for": format_duration(max(1.0, scenario.span_seconds)),
        "scrape": format_duration(scenario.scraping.interval_seconds),
    }
    lines = scenario_lines(keys, overrides, made.configuration, list(timeline_of(events, tick_seconds, {})))
    return [f"# Made by {_PROGRAM}, of a trace of the format {scenario.name}.\n", *lines]


def _report(plan: Plan, made: Replay, path: str) -> int:
    """Replay in virtual time, compare, and write the page; 3 when a bound is missed."""
    span_seconds = made.scenario.scenario.span_seconds
    configuration = made.scenario.configurations[0].configuration
    watched = [each.job.name for each in plan.placement.placed if each.job.series]
    with Progress(_PROGRAM, sys.stderr) as progress:
        measured = measure(configuration.fleet, plan.occurrences, span_seconds, watched, progress.show)
    comparisons = compare(plan, measured, span_seconds)
    write_text(sys.stdout, table([_row(each) for each in comparisons]))
    for name, problem in list(measured.refused.items())[:10]:
        print(f"note: {name}: not possible: {problem}", file=sys.stderr)
    Path(path).write_text(report_html(made.scenario.scenario.name, plan, measured, comparisons), encoding="utf-8")
    return 3 if any(each.is_met is False for each in comparisons) else 0


def _row(comparison: Comparison) -> dict[str, str]:
    return {
        "WHAT": comparison.what,
        "TRACE": comparison.trace,
        "REPLAY": comparison.replay,
        "BOUND": comparison.bound,
        "VERDICT": _VERDICTS[comparison.is_met],
    }
