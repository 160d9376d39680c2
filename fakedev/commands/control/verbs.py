"""``fakedev run``, ``stop``, ``fault``, ...: the verbs of the workload port as commands, with the same words."""

from __future__ import annotations

import os
import sys
import textwrap
from argparse import ArgumentTypeError
from collections.abc import Sequence
from typing import Final

from fakedev.commands.console import Progress, write_text
from fakedev.commands.control.connection import (
    CannotAsk,
    add_address,
    ask_in_words,
    given_tls,
    given_token,
    service_address,
)
from fakedev.commands.parser import Parser
from fakedev.commands.workload.socket import Stopped, StopSignals
from fakedev.config.peer_address import WORKLOAD_SOCKET
from fakedev.wire.fleet_verbs import WORKLOAD_GRAMMAR
from fakedev.wire.words import quote_word

#: Subcommands and their verbs.
VERBS: Final = {
    "run": "run",
    "workloads": "list",
    "show": "show",
    "stop": "stop",
    "fault": "fault",
    "clear": "clear",
    "explain": "explain",
    "journal": "journal",
    "advance": "advance",
    "speed": "speed",
    "reset": "reset",
}


def summary_of(command: str) -> str:
    """What a subcommand does, in some words."""
    summary = WORKLOAD_GRAMMAR.find(VERBS[command]).summary.rstrip(".")
    return summary[:1].lower() + summary[1:]


def _word(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentTypeError(f"{text!r} is not UTF-8") from None
    return text


def relay(command: str, arguments: Sequence[str], verb: str = "") -> int:
    """Send a verb to a running service, and print its answer.

    :param verb: of the workload port; that of the command when empty.
    :returns: 0; 1 when no service answers or it refuses; 2 when the words cannot be used; 130 after Ctrl-C.
    """
    verb = verb or VERBS[command]
    found, lines = WORKLOAD_GRAMMAR.find(verb), WORKLOAD_GRAMMAR.help_lines(verb)
    usage = f"fakedev {command} [--socket ADDRESS] {found.usage.partition(' ')[2]}"
    parser = Parser(
        f"fakedev {command}",
        usage=textwrap.fill(usage, subsequent_indent="    ", break_on_hyphens=False),
        description="\n".join(lines[lines.index(f"  {found.summary}") :]),
        is_formatted=True,
    )
    add_address(parser, WORKLOAD_SOCKET)
    parser.add_argument(
        "words", nargs="*", metavar="WORD", type=_word, help="the words of the verb, as on the workload port"
    )
    options = parser.parse_args(arguments)
    words = [verb, *options.words]
    if verb == "run" and "detach" not in words:
        words.append("detach")  # it would end with this command
    with StopSignals() as stop, Progress(f"fakedev {command}", sys.stderr) as progress:
        try:
            address = service_address(options.socket, WORKLOAD_SOCKET, os.environ, given_tls(options))
            line = " ".join(quote_word(word) for word in words)
            for answer in ask_in_words(address, line, stop, given_token(options), progress.show):
                progress.clear()
                write_text(sys.stdout, f"{answer}\n")
        except CannotAsk as error:
            progress.clear()
            print(f"fakedev {command}: {error}", file=sys.stderr)
            return error.code
        except Stopped as stopped:
            return 130 if str(stopped) == "SIGINT" else 143
    return 0
