"""``fakedev status``: what a running service does, in some lines; and ``fakedev top``: the same, live."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException, HTTPResponse
from typing import Any, Final

from fakedev.commands.console import restored_after_interrupt, write_text
from fakedev.commands.control.connection import (
    CannotAsk,
    HttpService,
    add_address,
    given_authorization,
    given_tls,
    service_address,
)
from fakedev.commands.control.screen import Terminal, screen
from fakedev.commands.parser import Parser
from fakedev.config.peer_address import HTTP_SOCKET
from fakedev.spec.os_errors import plain_reason
from fakedev.spec.web_paths import STREAM

#: The stream has a frame each second: without one for so long, the service does not answer.
_SILENCE_SECONDS: Final = 3.0


def _service(command: str, what: str, arguments: Sequence[str]) -> HttpService:
    parser = Parser(f"fakedev {command}", description=what)
    add_address(parser, HTTP_SOCKET)
    options = parser.parse_args(arguments)
    address = service_address(options.url, HTTP_SOCKET, os.environ, given_tls(options))
    return HttpService(address, given_authorization(options), _SILENCE_SECONDS)


def status(arguments: Sequence[str]) -> int:
    """Print what a running service does.

    :returns: 0; 1 when it does not answer or is not healthy; 2 when options cannot be used.
    """
    try:
        service = _service("status", "Shows what a running service does.", arguments)
        with service.open(STREAM.template) as response:
            events = _events(response)
            outline, frame = next(events), next(events)
    except CannotAsk as error:
        print(f"fakedev status: {error}", file=sys.stderr)
        return error.code
    write_text(sys.stdout, "".join(f"{line}\n" for line in summary_lines(outline, frame)))
    return 1 if frame["trouble"] else 0


def summary_lines(outline: Mapping[str, Any], frame: Mapping[str, Any]) -> list[str]:
    """A service in some lines.

    :param outline, frame: as in the events ``fleet`` and ``tick`` of the live stream.
    """
    usage, power, temperature = frame["fleet"]
    conditions = [outline["health"][each] for each in frame["health"]]
    counts = [f"{conditions.count(each)} {each}" for each in outline["health"][1:] if each in conditions]
    pools = [f"{nodes} x {pool[2]} {pool[1]}" for pool, nodes in _pools(outline)]
    lines = [
        f"fakedev {outline['version']}, simulated: {', '.join(pools)}",
        f"health     {frame['trouble'] or 'good'}",
        f"clock      {frame['seconds']:g} s, tick {frame['tick']}, {_pace(frame)}",
        f"devices    {len(frame['usage'])}: {', '.join(counts) or 'all well'}",
        f"fleet      usage {_shown(usage and usage * 100, '%')}, power {_shown(power, 'W')}, "
        f"hottest {_shown(temperature, 'C')}",
        f"workloads  {frame['workloads']}",
    ]
    if "scenario" in frame:
        lines.append(f"scenario   {_course(frame['scenario'], frame['seconds'])}")
    for name, waiting, running, idle, busy, *_ in frame.get("queues", ()):
        lines.append(f"queue      {name}: {waiting} waiting, {running} running, workers {idle} idle, {busy} busy")
    for name, _, outstanding, rate, successes, failed in frame.get("load", ()):
        lines.append(f"load       {name}: {rate:g}/s, {outstanding} outstanding, {successes} good, {failed} failed")
    return lines


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


def top(arguments: Sequence[str]) -> int:
    """Show a running service live, until ``q`` or Ctrl-C.

    :returns: 0; 1 when it does not answer, or ends; 2 when options cannot be used, or this is no terminal; 130.
    """
    try:
        what = "Shows a running service live. Keys: q quits, arrows scroll, t shows only devices in trouble."
        service = _service("top", what, arguments)
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise CannotAsk("this is no terminal; fakedev status prints the same once", 2)
        with (
            service.open(STREAM.template) as response,
            restored_after_interrupt(),
            Terminal(sys.stdin.fileno(), sys.stdout) as terminal,
        ):
            return _show(response, terminal)
    except CannotAsk as error:
        print(f"fakedev top: {error}", file=sys.stderr)
        return error.code


def _show(response: HTTPResponse, terminal: Terminal) -> int:
    outline: Mapping[str, Any] = {}
    for event in _events(response):
        if "nodes" in event:
            outline = event
            continue
        lines = [*summary_lines(outline, event), ""]
        if not terminal.show(lambda size, view: screen(lines, outline, event, size, view)):  # noqa: B023
            return 0
    return 1


def _events(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    """The values of the events of the live stream.

    :raises CannotAsk: when the service ends the stream.
    """
    try:
        for line in response:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))
    except (OSError, ValueError, HTTPException) as error:
        raise CannotAsk(f"the service does not answer any more: {plain_reason(error)}") from None
    raise CannotAsk("the service has ended the connection")


def _pools(outline: Mapping[str, Any]) -> list[tuple[list[Any], int]]:
    nodes = [pool for _, pool in outline["nodes"]]
    return [(pool, nodes.count(number)) for number, pool in enumerate(outline["pools"])]


def _shown(value: float | None, unit: str) -> str:
    return "unknown" if value is None else f"{value:.1f} {unit}"
