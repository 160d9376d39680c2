"""``fakedev status``: what a running service does, in some lines or as JSON, from its live stream."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from http.client import HTTPException
from typing import Any, Final, TypeVar

from fakedev.base.console import write_text
from fakedev.base.errors import first_names, plain_reason
from fakedev.commands.reach import JSON, CannotAsk, Reached, reach, service_options, unreachable, write_json
from fakedev.schema.options import command
from fakedev.web.paths import STREAM

#: Devices of a condition that a line names, and faults with a line of their own.
_MAX_NAMED: Final = 8
_MAX_FAULTS: Final = 5
#: The numbers of a frame as JSON has them.
_JSON_KEYS: Final = {
    "usage": "usage-percent", "memory": "memory-mib", "clock": "clock-mhz", "power": "power-watts",
    "limit": "limit-watts", "temperature": "temperature-celsius",
}  # fmt: skip
#: Maximum bytes of an event: with 50,000 devices it has 5 MiB.
_MOST_BYTES: Final = 32 * 2**20
Outcome = TypeVar("Outcome")


@command("fakedev status", "Shows what a running service does.", *service_options(), JSON)
def status(options: Namespace) -> int:
    """Print what a running service does; 1 when it is not healthy."""
    outline, frame = look_once(options)
    if options.json:
        write_json(understood(lambda: summary(outline, frame)))
    else:
        lines = understood(lambda: summary_lines(outline, frame))
        write_text(sys.stdout, "".join(f"{line}\n" for line in lines))
    return 1 if frame["trouble"] else 0


def look_once(options: Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outline and a frame of the service that the options name."""
    with closing(events_of(reach(options, os.environ))) as events:
        return next(events), next(events)


def summary(outline: Mapping[str, Any], frame: Mapping[str, Any]) -> dict[str, Any]:
    """The same as :func:`summary_lines`, as a value for JSON."""
    usage, power, temperature = frame["fleet"]
    keys = ("id", "kind", "scope", "where", "remaining-seconds")
    conditions = [outline["health"][condition] for condition in frame["health"]]
    return {
        "version": outline["version"],
        "healthy": not frame["trouble"],
        "trouble": frame["trouble"] or "",
        "tick": frame["tick"],
        "seconds": frame["seconds"],
        "speed": frame["speed"],
        "device-count": len(conditions),
        "conditions": {name: conditions.count(name) for name in outline["health"]},
        "usage_ratio": usage,
        "power_watts": power,
        "temperature_celsius": temperature,
        "workloads": frame["workloads"],
        "faults": [dict(zip(keys, row, strict=True)) for row in frame["faults"]],
        "fault-count": frame["fault-count"],
        "faults-waiting": frame["faults-waiting"],
        "scenario": frame.get("scenario"),
        "queues": [row[0] for row in frame.get("queues", ())],
    }


def device_values(outline: Mapping[str, Any], frame: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of the screen, as values for JSON: those that a device does not have are missing."""
    names = device_names(outline)
    absent = [-1] * len(names)
    return [
        {
            "device": device,
            "condition": outline["health"][frame["health"][place]],
            **{key: frame[name][place] for name, key in _JSON_KEYS.items() if frame.get(name, absent)[place] >= 0},
            "held-by": frame["held"][place] if "held" in frame else [],
            "faults": frame["device-faults"][place] if "device-faults" in frame else [],
            "workloads": frame["work"][place][1:] if "work" in frame else [],
        }
        for place, device in enumerate(names)
    ]


def summary_lines(outline: Mapping[str, Any], frame: Mapping[str, Any]) -> list[str]:
    """A service in some lines.

    :param outline, frame: as in the events ``fleet`` and ``tick`` of the live stream.
    """
    usage, power, temperature = frame["fleet"]
    conditions = [outline["health"][condition] for condition in frame["health"]]
    counts = [_troubled(outline, conditions, each) for each in outline["health"][1:] if each in conditions]
    pool_numbers = [number for _, number in outline["nodes"]]
    pools = [f"{pool_numbers.count(number)} x {pool[2]} {pool[1]}" for number, pool in enumerate(outline["pools"])]
    lines = [
        f"fakedev {outline['version']}, simulated: {', '.join(pools)}",
        f"health     {frame['trouble'] or 'good'}",
        f"clock      {frame['seconds']:g} s, tick {frame['tick']}, {_pace(frame)}",
        f"devices    {len(frame['usage'])}: {', '.join(counts) or 'all well'}",
        f"fleet      usage {_shown(usage and usage * 100, '%')}, power {_shown(power, 'W')}, "
        f"hottest {_shown(temperature, 'C')}",
        f"workloads  {frame['workloads']}",
        *fault_lines(frame),
    ]
    if "scenario" in frame:
        lines.append(f"scenario   {_course(frame['scenario'], frame['seconds'])}")
    for name, waiting, running, idle, busy, *_, state in frame.get("queues", ()):
        counts_of_queue = f"{waiting} waiting, {running} running, workers {idle} idle, {busy} busy"
        lines.append(f"queue      {name}: {'' if state == 'open' else f'{state}, '}{counts_of_queue}")
    for name, _, outstanding, rate, successes, failed in frame.get("load", ()):
        lines.append(f"load       {name}: {rate:g}/s, {outstanding} outstanding, {successes} good, {failed} failed")
    return lines


def device_names(outline: Mapping[str, Any]) -> list[str]:
    """The names of all devices, in the order of the arrays of frames."""
    return [f"{name}/{index}" for name, pool in outline["nodes"] for index in range(outline["pools"][pool][2])]


def _troubled(outline: Mapping[str, Any], conditions: Sequence[str], condition: str) -> str:
    """How many devices have a condition, and which: the names of the first ones."""
    found = [name for name, each in zip(device_names(outline), conditions, strict=True) if each == condition]
    return f"{len(found)} {condition} ({first_names(found, _MAX_NAMED)})"


def fault_lines(frame: Mapping[str, Any]) -> list[str]:
    """A line for each of the first active faults."""
    rows, count, waiting = frame["faults"], frame["fault-count"], frame["faults-waiting"]
    if not count:
        return [f"faults     none active{f', {waiting} not begun yet' if waiting else ''}"]
    lines = []
    for fault_id, kind, scope, where, left in rows[:_MAX_FAULTS]:
        page = "the page of " if scope == "page" else ""
        until = "" if left is None else f", for {left:.0f} s more"
        lines.append(f"fault      {fault_id} {kind} on {page}{where}{until}")
    more = count - len(lines)
    lines += [f"           and {more} more: fakedev faults --active"] if more else []
    return lines + ([f"           and {waiting} not begun yet"] if waiting else [])


def _course(scenario: Mapping[str, Any], seconds: float) -> str:
    """How far a scenario is, and what is next."""
    name, span, following = scenario["name"], scenario["span-seconds"], scenario["next"]
    counts = f"{scenario['played']} of {scenario['total']} played"
    if scenario["is-over"]:
        return f"{name}: over since {span:g} s, {counts}"
    coming = f"next at {following[0]:g} s: {following[1]}" if following else "nothing more to come"
    return f"{name}: {seconds:g} of {span:g} s ({100 * seconds // span:g} %), {counts}, {coming}"


def _pace(frame: Mapping[str, Any]) -> str:
    """How the clock moves."""
    if frame["advance"]:
        first, target = frame["advance"]
        return f"advancing to tick {target}, {100 * (frame['tick'] - first) // (target - first)} % done"
    return f"speed {frame['speed']:g}" if frame["speed"] else "paused"


def events_of(service: Reached) -> Generator[dict[str, Any]]:
    """The values of the events of the live stream, which has a frame each second.

    :raises CannotAsk: when the service ends the stream, is silent, or sends very much without an event.
    """
    left = _MOST_BYTES
    with service.open(STREAM.template) as response:
        try:
            while line := response.readline(left + 1):
                left -= len(line)
                if left < 0:
                    raise CannotAsk(f"the service has sent {_MOST_BYTES // 2**20} MiB without an event: is it fakedev?")
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))
                    left = _MOST_BYTES
        except TimeoutError as error:
            raise unreachable(service.address, error) from None
        except (OSError, ValueError, RecursionError, HTTPException) as error:
            raise CannotAsk(f"the service does not answer any more: {plain_reason(error)}") from None
    raise CannotAsk("the service has ended the connection")


def understood(work: Callable[[], Outcome]) -> Outcome:
    """What is made of events.

    :raises CannotAsk: when they do not come from fakedev.
    """
    try:
        return work()
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise CannotAsk("the service does not answer as fakedev does: is it one of another version?") from None


def _shown(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:.1f} {unit}"
