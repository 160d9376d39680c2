"""``fakedev replay``: reads and places a trace; then it plays it live, writes it, or compares it in virtual time."""

from __future__ import annotations

import math
import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Final

from fakedev.base.console import Progress, table, tell_notes, write_text
from fakedev.base.errors import plain_reason
from fakedev.base.units import format_duration, parse_duration
from fakedev.commands.scenario.from_record import scenario_lines
from fakedev.config.options import serve_options
from fakedev.fleet.events import Stamped, StartWorkload
from fakedev.replay.compare import Comparison, compare, measure
from fakedev.replay.folder import TraceFolder, head_lines, memory_lines
from fakedev.replay.formats.formats import FORMATS
from fakedev.replay.placement import ORDERS, POLICIES
from fakedev.replay.report import report_html
from fakedev.replay.schedule import Plan, oversized, plan_of, scaled, with_nodes
from fakedev.replay.start import Replay, devices_of, scenario_of
from fakedev.replay.table_reader import Lenience, TraceProblems
from fakedev.replay.trace import Window, within
from fakedev.replay.usage import DISTRIBUTIONS, LIKE, Like, usage_of
from fakedev.replay.what_if import outcome, prices_of
from fakedev.scenario.entries import Run
from fakedev.scenario.from_record import timeline_of
from fakedev.schema.files import MAX_BYTES
from fakedev.schema.options import Failed, Operand, Option, Parser, WrongUsage, command

_PROGRAM: Final = "fakedev replay"
#: The time over which --scale spreads the copies of a job.
_SCALE_SECONDS: Final = 3600.0
_TOO_LARGE: Final = (
    f"the scenario would be larger than the {MAX_BYTES // 2**20} MiB that a file may have: give a shorter --for, or "
    "serve it without --output"
)
#: Ticks in a real second, where --tick does not say otherwise.
_TICKS_PER_SECOND: Final = 60
_VERDICTS: Final = {True: "met", False: "MISSED", None: "told"}


def _mapping(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in text.split(","):
        model, equals, device = (part.strip() for part in word.partition("="))
        if not (model and equals and device):
            raise ValueError(f"{word[:40]!r} is no MODEL=DEVICE, as P100=v100")
        if model in found:
            raise ValueError(f"the model {model!r} is there twice")
        found[model] = device
    return found


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 7):
        raise ValueError(f"{text[:40]!r} is no whole number below 10,000,000")
    return int(text)


def _count(text: str) -> int:
    if not _number(text):
        raise ValueError("must be 1 or more")
    return int(text)


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 10_000:
        raise ValueError(f"{text[:40]!r} is no speed: above 0, up to 10000")
    return value


def _tick(text: str) -> float:
    value = parse_duration(text)
    if value <= 0:
        raise ValueError("a tick takes some time")
    return value


#: What --what-if may change.
_CHANGEABLE: Final = (
    Option("map", "MODEL=DEVICE,...", "the device types of models", {}, _mapping),
    Option("device", "DEVICE", "the device type of all models that --map does not name"),
    Option("scale", "N", "repeat each job N times, spread evenly over an hour", 1, _count),
    Option("nodes", "N", "use the first N nodes, or repeat them until there are N", None, _count),
    Option("place", "", "how jobs without a node in the trace are placed", POLICIES[0], choices=POLICIES),
    Option("order", "", "which waiting job starts first: of those that have started in the trace, the first that fits "
           "(trace); of those that were submitted, the first that fits (arrival), only the first (strict), or by "
           "run time or number of devices", ORDERS[0], choices=ORDERS),
    Option(
        "usage", "P:F", "usage of jobs without one in the trace: percent, plus or minus; or like another trace: "
        f"{' or '.join(f'{LIKE}{name}' for name in DISTRIBUTIONS)}", None, usage_of,
    ),
    *serve_options("set"),
)  # fmt: skip


@command(
    _PROGRAM,
    "Replays a trace of a cluster on simulated devices. "
    f"{'; '.join(f'{name}: {form.words}' for name, form in FORMATS.items())}.",
    Operand("format", "FORMAT", ", ".join(FORMATS), choices=tuple(FORMATS)),
    Operand("folder", "DIR", "the folder with the files of the trace"),
    *_CHANGEABLE,
    Option("variant", "NAME", "which of openb's lists of pods, e.g. gpuspec33; default: default"),
    Option("from", "TIME", "begin at this time of the trace, e.g. 117d", 0.0, parse_duration, value="begin_seconds"),
    Option("for", "TIME", "how long a part to replay; default: to the end", None, parse_duration, value="span_seconds"),
    Option("seed", "N", "seed of the random numbers; default 0", 0, _number),
    Option("speed", "N", "simulated seconds per second; default 1", 1.0, _speed),
    Option("tick", "TIME", f"its length; default: {_TICKS_PER_SECOND} ticks per real second, at least 1s", None, _tick),
    Option("lenient", "N", "leave out up to N lines that cannot be used", 0, _number),
    Option("check", "", "only read and place it, and print the head"),
    Option("report", "FILE.html", "replay in virtual time, compare, and write trace and replay side by side"),
    Option("output", "FILE.yaml", "write the replay as a scenario"),
    Option(
        "what-if", "OPTIONS", "replay in virtual time, and again with other options, e.g. '--device h200 --nodes 40'; "
        f"possible: {', '.join(f'--{option.name}' for option in _CHANGEABLE)}; may be repeated", is_repeated=True,
    ),
    Option("prices", "BOARD_HOUR:KWH", "add costs to the table of --what-if, e.g. 2.50:0.30", None, prices_of),
    *serve_options("port", "shard", "web-config-file", "record", "ready-file"),
)  # fmt: skip
def replay(options: Namespace) -> int:
    """Replay a trace; the exit code is 3 when a bound of the report is missed.

    :raises ConfigurationError: when a fleet cannot have its nodes.
    """
    if options.variant is not None and FORMATS[options.format].read_variant is None:
        raise WrongUsage(f"--variant: the files of {options.format} have no variants")
    if options.tick is None:
        options.tick = max(1.0, options.speed / _TICKS_PER_SECOND)
    if options.prices is not None and not options.what_if:
        raise WrongUsage("--prices: only the table of --what-if has costs")
    try:
        if options.what_if:
            return _what_if(options)
        plan, made, head = _made(options)
    except TraceProblems as problems:
        write_text(sys.stderr, f"{problems}\n")
        return 2
    write_text(sys.stdout, "".join(f"{line}\n" for line in head))
    large = oversized(plan, made.scenario.configurations[0].configuration.fleet)
    write_text(sys.stdout, "".join(f"{line}\n" for line in memory_lines(large)))
    sys.stdout.flush()
    if options.check:
        return 0
    tell_notes(made.scenario.notes)
    try:
        if options.output:
            text = "".join(_scenario(made, options.set))
            if len(text.encode()) > MAX_BYTES:
                raise Failed(f"--output: {_TOO_LARGE}", 2)
            Path(options.output).write_text(text, encoding="utf-8")
        if options.report:
            return _report(plan, made, options.report)
    except OSError as error:
        raise Failed(f"{error.filename}: {plain_reason(error)}") from None
    if not options.output:
        serve(made, options.record or "", options.ready_file or "")
    return 0


def _made(options: Namespace) -> tuple[Plan, Replay, list[str]]:
    """The trace with its places, the replay, and what was read, in words.

    :raises Failed: when the trace cannot be replayed.
    """
    lenience = Lenience(options.lenient)
    try:
        plan, devices, span_seconds = _plan(options, lenience)
    except TraceProblems:
        raise
    except ValueError as error:
        raise Failed(str(error), 2) from None
    fleet = {"tick": format_duration(options.tick), "speed": options.speed, "seed": options.seed}
    made = scenario_of(plan, options.format, devices, fleet, options.set, span_seconds)
    return plan, made, list(head_lines(plan, devices, lenience, span_seconds))


def _what_if(options: Namespace) -> int:
    """Replay as the options say, and again with each --what-if; print a table."""
    for name in ("check", "report", "output"):
        if getattr(options, name):
            raise WrongUsage(f"--{name}: not with --what-if, which prints a table")
    variants = [("as given", options)]
    for text in options.what_if:
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise WrongUsage(f"--what-if: {text[:40]!r}: {error}") from None
        parser = Parser(f"{_PROGRAM} --what-if", *_CHANGEABLE, description=None)
        variants.append((text, parser.parse_args(words, copy(options))))
    rows = []
    with Progress(_PROGRAM, sys.stderr) as progress:
        for number, (name, chosen) in enumerate(variants):
            plan, made, _ = _made(chosen)
            span_seconds = made.scenario.scenario.span_seconds
            spec = made.scenario.configurations[0].configuration.fleet

            def show(share: float, before: int = number) -> None:
                progress.show((before + share) / len(variants))

            measured = measure(spec, plan.occurrences, span_seconds, (), show)
            rows.append(outcome(name, plan, measured, span_seconds, options.prices))
    write_text(sys.stdout, table(rows))
    return 0


def _plan(options: Namespace, lenience: Lenience) -> tuple[Plan, dict[str, str], float]:
    """The trace with its places, the device types of its models, and how long the replay is.

    :raises ValueError: when it cannot be replayed.
    """
    kind = FORMATS[options.format]
    begin, span = options.begin_seconds, options.span_seconds
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
    plan = plan_of(trace, options.place, usage, options.order)
    if not plan.placement.placed:
        raise ValueError(f"{options.folder}: no job finds a place on the nodes")
    span = span or max(placed.end_seconds for placed in plan.placement.placed) + options.tick
    return plan, devices, max(span, options.tick)


def _scenario(made: Replay, overrides: Sequence[str]) -> list[str]:
    """The lines of the replay as a scenario file."""
    scenario = made.scenario.scenario
    tick_seconds = made.scenario.configurations[0].configuration.fleet.tick_seconds
    events = [
        Stamped(int(round(occurrence.seconds / tick_seconds, 9)), number, StartWorkload(occurrence.action.workload))
        for number, occurrence in enumerate(scenario.occurrences, 1)
        if isinstance(occurrence.action, Run) and occurrence.seconds < scenario.span_seconds
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
    watched = [placed.job.name for placed in plan.placement.placed if placed.job.series]
    with Progress(_PROGRAM, sys.stderr) as progress:
        measured = measure(configuration.fleet, plan.occurrences, span_seconds, watched, progress.show)
    comparisons = compare(plan, measured, span_seconds)
    write_text(sys.stdout, table([_row(comparison) for comparison in comparisons]))
    for name, problem in list(measured.refused.items())[:10]:
        write_text(sys.stderr, f"note: {name}: not possible: {problem}\n")
    for name, shown in measured.jobs.items():
        if shown.code:
            write_text(sys.stderr, f"note: {name}: ended at {shown.end_seconds:g} s: {shown.text}\n")
    Path(path).write_text(report_html(made.scenario.scenario.name, plan, measured, comparisons), encoding="utf-8")
    return 3 if any(comparison.is_met is False for comparison in comparisons) else 0


def _row(comparison: Comparison) -> dict[str, str]:
    return {
        "WHAT": comparison.what,
        "TRACE": comparison.trace,
        "REPLAY": comparison.replay,
        "BOUND": comparison.bound,
        "VERDICT": _VERDICTS[comparison.is_met],
    }


def serve(replay: Replay, record: str, ready_file: str) -> None:
    """Play it in a service until a signal.

    :param record: the file for the events; empty for none.
    :param ready_file: the file for the real addresses; empty for none.
    """
    from fakedev.config.start import record_head  # noqa: PLC0415 - virtual time needs no Twisted
    from fakedev.service.program_run import Run  # noqa: PLC0415 - virtual time needs no Twisted
    from fakedev.service.service import run_program  # noqa: PLC0415

    configuration, files, _, overrides = replay.scenario.configurations[0]
    head = record_head(configuration, files, text=replay.configuration, overrides=overrides)
    run_program(configuration, Run(head, record, ready_file, scenario=replay.scenario))
