"""``fakedev run``, ``stop``, ``fault``, ...: the verbs of the workload port as commands.

The commands have the same words as the port. They go to a workload port as they are, or become requests of the API.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
import textwrap
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final

from fakedev.base.console import Progress, restored_after_interrupt, write_text
from fakedev.base.errors import printable
from fakedev.client.fleet_client import Fleet
from fakedev.client.http import FleetError, RequestRefused, connected
from fakedev.commands.reach import CannotAsk, reach, service_options, unreachable
from fakedev.fleet import answers
from fakedev.fleet.verbs import WORKLOAD_GRAMMAR
from fakedev.lines.grammar import ProtocolError
from fakedev.lines.words import parse_words, quote_word
from fakedev.schema.options import Operand, Parser
from fakedev.schema.peer_addresses import Address

_PATIENCE_SECONDS: Final = 30.0
_MAX_LINE: Final = 2**20
#: The event that tells how far an advance is.
_PROGRESS: Final = re.compile(r"advancing ([0-9]{1,3}(?:\.[0-9])?) ")
#: Codes of errors for which the words are at fault.
_WRONG_WORDS: Final = ("bad-argument", "unknown-verb", "unknown-name")


def ask_in_words(
    address: Address, line: str, token: str = "", show: Callable[[float], None] = lambda _: None
) -> Iterator[str]:
    """Send one line to a workload port; the lines of the answer.

    :param token: of the address, if it asks for one.
    :param show: called while the clock advances, with how much of that is done, from 0 to 1.
    :raises CannotAsk: when the service refuses, does not answer, or leaves.
    """
    try:
        with connected(address, _PATIENCE_SECONDS) as connection, connection.makefile("rb") as file:
            # What ends this program early resets the connection: a plain close would say that it still reads.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            auth = f"auth {quote_word(token)}\n" if token else ""
            connection.sendall(f"{auth}{line}\n".encode())
            lines = _lines(file)
            first = next(lines)
            if token and first.startswith("ok"):
                first = next(lines)
            while event := _PROGRESS.match(first):
                show(float(event[1]) / 100)
                first = next(lines)
            status, _, text = first.partition(" ")
            if status == "error":
                code, _, reason = text.partition(" ")
                raise CannotAsk(reason or code, 2 if code in _WRONG_WORDS else 1)
            if status != "ok":
                raise CannotAsk(f"{address}: this is no workload port of fakedev; it says {first[:200]!r}")
            count = text.removesuffix(" lines")
            if not (text.endswith(" lines") and count.isdigit()):
                yield text
                return
            for _ in range(int(count)):
                yield next(lines)
    except OSError as error:
        raise unreachable(address, error) from None


def _lines(file: BinaryIO) -> Iterator[str]:
    while (line := file.readline(_MAX_LINE)).endswith(b"\n"):
        yield line.removesuffix(b"\n").decode("utf-8", "replace")
    raise CannotAsk("the service closed the connection before it had answered")


def _advanced(fleet: Fleet, duration: str | float) -> str:
    if duration == "stop":
        return "stopped" if fleet.stop_advance() else "nothing to stop"
    clock = fleet.advance(duration)
    end = f" stopped before tick {clock.stopped_before_tick}" if clock.stopped_before_tick else ""
    return f"tick {clock.tick} seconds {clock.seconds:g}{end}"


def _device_line(described: Mapping[str, Any]) -> str:
    values = {name: described["quantities"].get(name) for name in answers.DEVICE_QUANTITIES}
    shown = {name: round(value, 6) for name, value in values.items() if value is not None}
    return answers.device_line({"device": described["device"], "type": described["type"], **shown})


def _workload(fleet: Fleet, word: str) -> Mapping[str, Any]:
    """A workload; else the last that ended with that id or name."""
    try:
        return fleet.workload(word)
    except RequestRefused as unknown:
        ended = [each for each in fleet.ended_workloads(search=word) if word in (each["id"], each["name"])]
        if not ended:
            raise unknown from None
        return ended[0]


#: What a workload port would answer to a verb with arguments, from the API.
OVER_HTTP: Final[Mapping[str, Callable[..., Iterable[str]]]] = {
    "run": lambda fleet, detach=True, **fields: [fleet.run(**fields)["id"]],
    "list": lambda fleet: map(answers.workload_line, fleet.workloads()),
    "show": lambda fleet, workload: answers.field_lines(_workload(fleet, workload)),
    "stop": lambda fleet, workload: [f"stopped {len(fleet.stop(workload))}"],
    "fault": lambda fleet, **fields: [fleet.fault(**fields)["id"]],
    "faults": lambda fleet: map(answers.fault_line, fleet.faults()),
    "ended": lambda fleet: map(answers.ended_line, fleet.ended_workloads()),
    "past-faults": lambda fleet: map(answers.past_fault_line, fleet.past_faults()),
    "clear": lambda fleet, fault: [f"cleared {len(fleet.clear(None if fault == 'all' else fault))}"],
    "devices": lambda fleet: map(_device_line, fleet.devices()),
    "explain": lambda fleet, device, metric="": map(answers.explanation_line, fleet.explain(device, metric)),
    "journal": lambda fleet, count=None, kind=(), devices=(), since="": map(
        answers.journal_line,
        reversed(fleet.journal(
            ",".join(kind), ",".join(devices), since=since, limit=count or answers.default_entries(since),
        )),
    ),
    "advance": lambda fleet, duration: [_advanced(fleet, duration)],
    "speed": lambda fleet, speed: [f"speed {fleet.speed(speed).speed:g}"],
    "reset": lambda fleet: [f"tick {fleet.reset()}"],
}
#: Subcommands and their verbs.
VERBS: Final = {
    "run": "run",
    "workloads": "list",
    "ended": "ended",
    "show": "show",
    "stop": "stop",
    "fault": "fault",
    "clear": "clear",
    "past-faults": "past-faults",
    "journal": "journal",
    "advance": "advance",
    "speed": "speed",
    "reset": "reset",
}


def summary_of(command: str) -> str:
    """What a subcommand does, in some words."""
    summary = WORKLOAD_GRAMMAR.find(VERBS[command]).summary.rstrip(".")
    return summary[:1].lower() + summary[1:]


def utf8_word(text: str) -> str:
    """A word of the command line.

    :raises ValueError: when it is not UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} is not UTF-8") from None
    return text


def relay(command: str, arguments: Sequence[str]) -> int:
    """Run a command that is a verb; see :func:`send`."""
    verb = VERBS[command]
    found, lines = WORKLOAD_GRAMMAR.find(verb), WORKLOAD_GRAMMAR.help_lines(verb)
    usage = f"fakedev {command} [--url URL | --service NAME | --socket ADDRESS] {found.usage.partition(' ')[2]}"
    parser = Parser(
        f"fakedev {command}",
        *service_options(takes_port=True),
        Operand("words", "WORD", "the words of the verb, as on the workload port", parse=utf8_word, count="*"),
        usage=textwrap.fill(usage, subsequent_indent="    ", break_on_hyphens=False),
        description="\n".join(lines[lines.index(f"  {found.summary}") :]),
        is_formatted=True,
    )
    options = parser.parse_args(arguments)
    words = [verb, *options.words]
    if verb == "run" and "detach" not in words:
        words.append("detach")  # it would end with this command
    send(command, words, options)
    return 0


def send(command: str, words: Sequence[str], options: Namespace) -> None:
    """Send a verb with its arguments to a running service, and print its answer.

    :param options: as :func:`~fakedev.commands.reach.service_options` declares them.
    :raises CannotAsk: when no service answers, it refuses, or the words cannot be used.
    """
    line = " ".join(quote_word(word) for word in words)
    try:
        with restored_after_interrupt(), Progress(f"fakedev {command}", sys.stderr) as progress:
            service = reach(options, os.environ)
            if service.port is not None:
                answer: Iterable[str] = ask_in_words(service.port, line, service.token, progress.show)
            else:
                request = parse_words(line.encode(), WORKLOAD_GRAMMAR)
                fleet = Fleet(service.url, service.token, _PATIENCE_SECONDS, **service.access)
                answer = OVER_HTTP[request.verb](fleet, **request.arguments)
            for text in answer:
                progress.clear()
                write_text(sys.stdout, f"{printable(text)}\n")
    except (ProtocolError, FleetError) as error:
        raise CannotAsk(str(error), 2 if getattr(error, "code", "") in _WRONG_WORDS else 1) from None
