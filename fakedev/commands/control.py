"""``fakedev run``, ``stop``, ``fault``, ...: the verbs of the workload port as commands.

The commands have the same words as the port. They become requests in JSON of a workload port, or of the API.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import textwrap
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from operator import itemgetter
from typing import Any, BinaryIO, Final, NamedTuple

from fakedev.base.console import Progress, restored_after_interrupt, write_text
from fakedev.client.calls import Clock
from fakedev.client.fleet_client import Fleet
from fakedev.client.http import FleetError, RequestRefused, connected
from fakedev.commands.reach import (
    ANSWER_SECONDS,
    JSON,
    CannotAsk,
    Reached,
    reach,
    refused_words,
    service_options,
    unreachable,
    write_json,
)
from fakedev.commands.status import understood
from fakedev.fleet import answers
from fakedev.fleet.verbs import WORKLOAD_GRAMMAR
from fakedev.lines.grammar import ProtocolError, Request
from fakedev.lines.words import parse_words, quote_word
from fakedev.schema.options import Operand, Parser
from fakedev.schema.peer_addresses import Address

#: Of an answer, which is one line.
_MAX_LINE: Final = 2**26


def ask_port(
    address: Address, request: Mapping[str, object], token: str = "", show: Callable[[float], None] = lambda _: None,
    kind: str = "workload port of fakedev",
) -> dict[str, Any]:
    """Send a request to a line port; the answer, without ``ok``.

    :param token: of the address, if it asks for one.
    :param show: called while the clock advances, with how much of that is done, from 0 to 1.
    :param kind: of port, for the error about an answer of something else.
    :raises CannotAsk: when the service refuses, does not answer, or leaves.
    """  # fmt: skip
    auth = json.dumps({"op": "auth", "token": token}) + "\n" if token else ""
    try:
        with connected(address, ANSWER_SECONDS) as connection, connection.makefile("rb") as file:
            # What ends this program early resets the connection: a plain close would say that it still reads.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(f"{auth}{json.dumps(request)}\n".encode())
            lines = _lines(file)
            if auth and not (first := next(lines)).startswith('{"ok":true'):
                lines = chain([first], lines)
            for line in lines:
                if line.startswith("error "):  # from a service without room, which does not wait for the request
                    code, _, reason = line.removeprefix("error ").partition(" ")
                    raise refused_words(code, reason or code)
                try:
                    answer = json.loads(line)
                    if answer.get("event") == "advancing":
                        show(answer["percent"] / 100)
                        continue
                    if not answer.pop("ok"):
                        raise refused_words(answer["error"]["code"], answer["error"]["message"])
                except (ValueError, AttributeError, LookupError, TypeError, RecursionError):
                    break
                return dict(answer)
    except OSError as error:
        raise unreachable(address, error) from None
    raise CannotAsk(f"{address}: this is no {kind}; it says {line[:200]!r}")


def _lines(file: BinaryIO) -> Iterator[str]:
    while (line := file.readline(_MAX_LINE)).endswith(b"\n"):
        yield line.removesuffix(b"\n").decode("utf-8", "replace")
    raise CannotAsk("the service closed the connection before it had answered")


def _advanced(clock: Mapping[str, Any]) -> Iterator[str]:
    if "text" in clock:
        yield clock["text"]
        return
    end = clock.get("stopped-before-tick")
    yield f"tick {clock['tick']} seconds {clock['seconds']:g}{f' stopped before tick {end}' if end else ''}"


def _advance(fleet: Fleet, duration: str | float) -> dict[str, Any]:
    if duration == "stop":
        text = "stopped" if fleet.stop_advance() else "nothing to stop"
        return {"text": text, **_described(fleet.clock())}
    return _described(fleet.advance(duration))


def _described(clock: Clock) -> dict[str, Any]:
    return {name.replace("_", "-"): value for name, value in asdict(clock).items() if value is not None}


def _device_line(described: Mapping[str, Any]) -> str:
    values = {name: described["quantities"].get(name) for name in answers.DEVICE_QUANTITIES}
    shown = {name: round(value, 6) for name, value in values.items() if value is not None}
    return answers.device_line({"device": described["device"], "type": described["type"], **shown})


def _device_of_port(described: Mapping[str, Any]) -> dict[str, Any]:
    """A device as the API describes it, with the quantities that a workload port has."""
    facts = {key: described[key] for key in ("device", "type")}
    return facts | {"quantities": {name: value for name, value in described.items() if name not in facts}}


def _workload(fleet: Fleet, workload: str) -> Mapping[str, Any]:
    """A workload; else the last that ended with that id or name."""
    try:
        return fleet.workload(workload)
    except RequestRefused as unknown:
        ended = [each for each in fleet.ended_workloads(search=workload) if workload in (each["id"], each["name"])]
        if not ended:
            raise unknown from None
        return ended[0]


def _journal(
    fleet: Fleet, count: int | None = None, kind: Sequence[str] = (), devices: Sequence[str] = (), since: str = ""
) -> list[dict[str, Any]]:
    limit = count or answers.default_entries(since)
    return fleet.journal(",".join(kind), ",".join(devices), since=since, limit=limit)[::-1]


def _each(line: Callable[[Mapping[str, Any]], str]) -> Callable[[Any], Iterable[str]]:
    return lambda described: map(line, described)


class Answer(NamedTuple):
    """The answer to a verb: as a value that JSON has, and as lines.

    :ivar ask: the value, from the API; its parameters are the arguments of the verb.
    :ivar lines: what a workload port answers in words.
    :ivar of_port: the value, from what a workload port answers in JSON.
    """

    ask: Callable[..., Any]
    lines: Callable[[Any], Iterable[str]]
    of_port: Callable[[dict[str, Any]], Any] = lambda answer: answer


#: The answers to the verbs with a command.
ANSWERS: Final[Mapping[str, Answer]] = {
    "run": Answer(
        lambda fleet, detach=True, **fields: fleet.run(**fields), lambda workload: [workload["id"]],
        lambda answer: {"id": answer["workload"]},
    ),
    "list": Answer(lambda fleet: fleet.workloads(), _each(answers.workload_line), itemgetter("workloads")),
    "show": Answer(_workload, answers.field_lines, itemgetter("workload")),
    "stop": Answer(
        lambda fleet, workload: {"stopped": fleet.stop(workload)}, lambda ended: [f"stopped {len(ended['stopped'])}"],
    ),
    "fault": Answer(
        lambda fleet, **fields: fleet.fault(**fields), lambda fault: [fault["id"]],
        lambda answer: {"id": answer["fault"]},
    ),
    "faults": Answer(lambda fleet: fleet.faults(), _each(answers.fault_line), itemgetter("faults")),
    "ended": Answer(lambda fleet: fleet.ended_workloads(), _each(answers.ended_line), itemgetter("ended")),
    "past-faults": Answer(
        lambda fleet: fleet.past_faults(), _each(answers.past_fault_line), itemgetter("past-faults"),
    ),
    "clear": Answer(
        lambda fleet, fault: {"cleared": fleet.clear(None if fault == "all" else fault)},
        lambda ended: [f"cleared {len(ended['cleared'])}"],
    ),
    "devices": Answer(
        lambda fleet: fleet.devices(), _each(_device_line),
        lambda answer: [*map(_device_of_port, answer["devices"])],
    ),
    "explain": Answer(
        lambda fleet, device, metric="": fleet.why(device, metric), itemgetter("lines"),
        lambda answer: {
            "of": answer["device"], "kind": "device", "name": answer["device"], "tick": answer["tick"],
            "lines": [*map(answers.explanation_line, answer["explanations"])], "explanations": answer["explanations"],
        },
    ),
    "journal": Answer(_journal, _each(answers.journal_line), itemgetter("journal")),
    "advance": Answer(_advance, _advanced),
    "speed": Answer(
        lambda fleet, speed: _described(fleet.speed(speed)), lambda clock: [f"speed {clock['speed']:g}"],
    ),
    "reset": Answer(lambda fleet: {"tick": fleet.reset()}, lambda began: [f"tick {began['tick']}"]),
}  # fmt: skip
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
    found = WORKLOAD_GRAMMAR.find(verb)
    lines = [line for line in WORKLOAD_GRAMMAR.help_lines(verb) if line != f"  also: {command}"]
    usage = f"fakedev {command} [--url URL | --service NAME | --socket ADDRESS] {found.usage.partition(' ')[2]}"
    parser = Parser(
        f"fakedev {command}",
        *service_options(takes_port=True),
        JSON,
        Operand("words", "WORD", "the arguments, as on the workload port", parse=utf8_word, count="*"),
        usage=textwrap.fill(usage, subsequent_indent="    ", break_on_hyphens=False),
        description="\n".join(lines[lines.index(f"  {found.summary}") :]),
        is_formatted=True,
    )
    options = parser.parse_args(arguments)
    words = [verb, *options.words]
    if verb == "run" and "detach" not in words:
        words.append("detach")  # it would end with this command
    if verb == "journal" and not any(word.startswith("kind=") for word in words):
        words.append("kind=-throttled_power")  # boards under load reach the limit again and again
    send(command, words, options)
    return 0


def send(command: str, words: Sequence[str], options: Namespace) -> None:
    """Send a verb with its arguments to a running service, and print its answer.

    :param options: as :func:`~fakedev.commands.reach.service_options` declares them, and ``json``.
    :raises CannotAsk: when no service answers, it refuses, or the words cannot be used.
    """
    line = " ".join(quote_word(word) for word in words)
    answer = ANSWERS[words[0]]
    with restored_after_interrupt(), Progress(f"fakedev {command}", sys.stderr) as progress:
        service = reach(options, os.environ)
        try:
            value = _value(answer, parse_words(line.encode(), WORKLOAD_GRAMMAR), service, progress.show)
        except ProtocolError as error:
            raise refused_words(error.code, str(error)) from None
        except FleetError as error:
            raise service.failed(error) from None
        progress.clear()
    if options.json:
        write_json(value)
    else:
        write_text(sys.stdout, "".join(f"{text}\n" for text in understood(lambda: [*answer.lines(value)])))


def _value(answer: Answer, request: Request, service: Reached, show: Callable[[float], None]) -> Any:
    """The value of an answer, over HTTP or by a workload port."""
    if service.port is None:
        return answer.ask(service.fleet(), **request.arguments)
    found = ask_port(service.port, {"op": request.verb, **request.arguments}, service.token, show)
    return understood(lambda: answer.of_port(found))
