"""``fakedev scale-test``: measures how the throughput grows when backends and load are doubled."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from fakedev.base.console import Progress, write_text
from fakedev.schema.go_flags import parse_number, parse_seconds, token_file
from fakedev.schema.options import Operand, Option, Parser
from fakedev.schema.peer_addresses import NO_FILES, TLS_OPTIONS, ClientTls, parse_address, with_tls
from fakedev.tester.plan import ClosedLoad, Plan
from fakedev.tester.scaling import scaling_of, scaling_text, scaling_values, verdicts

_PROGRAM: Final = "fakedev scale-test"
#: The exit code when a doubling has brought less than required.
NOT_MET: Final = 3
_MAX_BACKENDS: Final = 1 << 20


def _count(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) <= 9 and least <= int(text) <= _MAX_BACKENDS):
            raise ValueError(f"{text[:20]!r} is no whole number from {least} to {_MAX_BACKENDS}")
        return int(text)

    return parse


def _words(text: str) -> tuple[str, ...]:
    words = tuple(shlex.split(text))
    if not words:
        raise ValueError("must be a command")
    return words


def _option(name: str, kind: str, default: Any, text: str, parse: Callable[[str], Any] | None = None) -> Option:
    return Option(name, kind, text if default in (None, ()) else f"{text}; default {default}", default, parse)


_OPTIONS: Final = (
    _option("faddr", "HOST:PORT|PATH", parse_address("localhost:9997"), "where the frontend's clients connect",
            parse_address),
    _option("name", "QUEUE", "sleep", "queue that requests are put into"),
    _option("limit", "DURATION", 0.0, "run-time limit of each request; 0: none", parse_seconds),
    Option("protocol", "", "protocol of the frontend; default json", "json", choices=("json", "bare")),
    _option("token-file", "FILE", None, "file with the token of the frontend; needs --protocol json", token_file),
    *(_option(name, "FILE", None, text) for name, text in TLS_OPTIONS.items()),
    _option("most", "N", 8, "double from 1 to this many backends", _count(2)),
    _option("per-backend", "N", 1, "parallel requests for each backend", _count(1)),
    _option("start", "COMMAND", (), "command that starts one backend; stopped at the end", _words),
    _option("scale", "COMMAND", (), "command that sets the number of backends to {n}, e.g. kubectl scale ... "
            "--replicas={n}", _words),
    _option("wait", "DURATION", 120.0, "how long to wait for all backends to connect to the frontend", parse_seconds),
    _option("settle", "DURATION", 3.0, "time under load before each measurement", parse_seconds),
    _option("measure", "DURATION", 20.0, "how long each step is measured", parse_seconds),
    _option("speed-up", "NUMBER", 1.5, "required speed-up of each doubling; else exit 3", parse_number),
    Option("json", "", "print JSON instead of text"),
    Operand("words", "ARGUMENT", "the arguments of each request, after all options", count=argparse.REMAINDER),
)  # fmt: skip


def scale_test(arguments: Sequence[str]) -> int:
    """Run the test.

    :returns: 0; 1 when the test failed; 3 when a doubling brought less than required, or requests failed; 130.
    """
    parser = _parser()
    options = parser.parse_args(with_two_dashes(arguments, parser))
    _check(parser, options)
    from fakedev.tester.part import ScaleOrder, run_scale_test  # noqa: PLC0415 - a usage error does not need Twisted

    progress = Progress(_PROGRAM, sys.stderr)

    def tell(text: str) -> None:
        progress.clear()
        write_text(sys.stderr, f"{_PROGRAM}: {text}\n")

    ended = run_scale_test(
        ScaleOrder(
            options.most, options.per_backend, options.settle, options.measure, plan=_plan(options),
            start=options.start, scale=options.scale, wait_seconds=options.wait, tell=tell, done=progress.show,
        )
    )  # fmt: skip
    progress.clear()
    if ended.problem:
        tell(ended.problem)
        return 128 + signal.SIGINT if ended.signal_name == "SIGINT" else 1
    scaling = scaling_of(ended.steps)
    if options.json:
        write_text(sys.stdout, json.dumps(scaling_values(scaling, options.speed_up), indent=2) + "\n")
    else:
        write_text(sys.stdout, scaling_text(scaling, options.speed_up))
    return NOT_MET if verdicts(scaling, options.speed_up) else 0


def _parser() -> Parser:
    return Parser(
        _PROGRAM, *_OPTIONS,
        description="Doubles the backends of a queue and the load, and measures the throughput.",
        epilog="Options may also have one dash, as in the original programs.",
    )  # fmt: skip


def with_two_dashes(arguments: Sequence[str], parser: Parser) -> list[str]:
    """The arguments with the options as the parser has them: up to the first word that is none, one dash is enough."""
    rest, changed = list(arguments), []
    while rest and len(rest[0]) > 1 and rest[0].startswith("-") and rest[0] != "--":
        name, equals, _ = rest[0].lstrip("-").partition("=")
        option = rest.pop(0)
        changed.append(option if option.startswith("--") or f"--{name}" not in parser.options else f"-{option}")
        if not equals and parser.options.get(f"--{name}") and rest:
            # Joined, a value may begin with a dash.
            changed[-1] += f"={rest.pop(0)}"
    return changed + rest


def _check(parser: Parser, options: argparse.Namespace) -> None:
    """End with 2 and a line when options do not go together."""
    if options.start and options.scale:
        parser.error("--start and --scale: give one of them")
    if not options.measure:
        parser.error("--measure: must be above 0")
    if options.token_file and options.protocol != "json":
        parser.error("--token-file: needs --protocol json, because bare JSON cannot give a token")
    try:
        options.faddr = with_tls(
            options.faddr, ClientTls(options.ca_file or "", options.cert_file or "", options.key_file or "")
        )
    except ValueError as error:
        parser.error(f"--{error}" if "go together" in str(error) else f"--faddr: {error}")
    if not options.name:
        parser.error("--name: must name a queue")


def _plan(options: argparse.Namespace) -> Plan:
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    return Plan(
        options.name, options.name, ClosedLoad(0, options.most * options.per_backend), options.faddr.shown,
        tuple(words), options.limit, options.protocol == "json", options.token_file or "",
        options.faddr.tls or NO_FILES,
    )  # fmt: skip
