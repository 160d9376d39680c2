"""``fakedev completion SHELL``: prints what makes a shell complete fakedev's subcommands, options and values.

The shell asks fakedev for each completion, and fakedev reads its own help, so that nothing is declared twice. Values
are the names of things in the running service, if one answers at once.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from http.client import HTTPException
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from fakedev.base.console import write_text
from fakedev.schema.options import Failed, Operand, Parser, command
from fakedev.web import paths
from fakedev.web.paths import WebPath

if TYPE_CHECKING:
    from fakedev.commands.reach import Reached

#: What the scripts give before the words of the line.
WORDS: Final = "words"
#: For each shell, its script; it also completes files.
SCRIPTS: Final = {
    "bash": r"""
_fakedev() {
    mapfile -t COMPREPLY < <(compgen -W "$(fakedev completion words "${COMP_WORDS[@]:1:COMP_CWORD-1}")" -- "$2")
}
complete -o default -F _fakedev fakedev
""",
    "zsh": r"""
#compdef fakedev
_fakedev() {
    local -a found
    found=(${(f)"$(fakedev completion words "${(@)words[2,CURRENT-1]}")"})
    compadd -a found
    _files
}
compdef _fakedev fakedev
""",
    "fish": r"""
complete -c fakedev -a '(fakedev completion words (commandline -opc)[2..])'
""",
}
#: How long a service may take for an answer, and how many things of a kind it lists.
_PATIENCE_SECONDS: Final = 0.2
_MOST: Final = 200
#: What the operands of a command name, one after the other.
_OPERANDS: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    **dict.fromkeys(
        ("why", "explain"), (("devices", "nodes", "workloads", "faults", "queues", "metrics"), ("metrics",))
    ),
    "show": (("workloads",),),
    "stop": (("workloads",),),
    "clear": (("faults",),),
}
#: What keys name, KEY=NAME, and the commands that take them.
_KEYS: Final = {"devices": "devices", "node": "nodes", "metric": "metrics"}
_WITH_KEYS: Final = ("fault", "run", "journal")
#: What goes wrong with answers that are not fakedev's.
_UNUSABLE: Final = (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError)
_OPTION: Final = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*+")
_NAME: Final = re.compile(r"(?m)^  ([a-z][\w-]*+) ")
_LIST: Final = re.compile(r"(?m)^(Each subcommand|[A-Z][\w ]++:$)")


def completion(arguments: Sequence[str]) -> int:
    """Print a script, or the words that may follow others.

    :returns: 0.
    """
    if arguments[:1] == [WORDS]:
        from fakedev.commands.main import main  # noqa: PLC0415 - it imports this module

        words = [*words_after(arguments[1:], main), *values_after(arguments[1:])]
        write_text(sys.stdout, "".join(f"{word}\n" for word in words))
        return 0
    return _script(arguments)


@command(
    "fakedev completion",
    "Prints a script. bash: source <(fakedev completion bash). zsh: the same. fish: fakedev completion fish | source.",
    Operand("shell", "SHELL", ", ".join(SCRIPTS), choices=tuple(SCRIPTS)),
)
def _script(options: Namespace) -> None:
    write_text(sys.stdout, SCRIPTS[options.shell].lstrip("\n"), is_document=True)


def words_after(words: Sequence[str], main: Callable[[Sequence[str]], int]) -> list[str]:
    """The subcommands and options that may follow some words, by the help of fakedev.

    :param words: of the command line, after ``fakedev``.
    :param main: runs fakedev; it is asked for help only.
    """
    subcommands: list[str] = []
    for word in words:
        if word.startswith("-"):
            break
        subcommands.append(word)
    while True:
        text = _help(subcommands, main)
        if text or not subcommands:
            break
        subcommands.pop()  # an argument, as a file
    names = _NAME.findall(text) if subcommands == list(words) and _LIST.search(text) else []
    return list(dict.fromkeys([*names, *_options(text)]))


def values_after(words: Sequence[str]) -> list[str]:
    """The names of things that may follow some words; none if no service answers at once."""
    from fakedev.commands.reach import reach, service_options  # noqa: PLC0415 - scripts are printed without it
    from fakedev.fleet.spec.fault_kinds import KINDS  # noqa: PLC0415
    from fakedev.runtime.running_services import running_services  # noqa: PLC0415

    if words[-1:] == ["--service"]:
        return [service.name for service in running_services(os.environ)[0] if not service.stale]
    parser = Parser("fakedev", *service_options(), description=None)
    operands = [word for before, word in pairwise(words) if not (word.startswith("-") or parser.options.get(before))]
    kinds, prefixes = _wanted(words[:1], operands)
    if not kinds or parser.options.get(words[-1]):
        return []
    found = [*KINDS] if list(words) == ["fault"] else []
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), suppress(SystemExit, Failed, *_UNUSABLE):
        service = reach(parser.parse_known_args(list(words[1:]))[0], os.environ)
        for kind, prefix in zip(kinds, prefixes, strict=True):
            found += [f"{prefix}{name}" for name in _names(service, kind)]
    return found


def _wanted(command: Sequence[str], operands: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The kinds of things that may follow, and what is before the name of each."""
    if operands[-1:] == ["="]:  # bash has KEY=VALUE as three words
        kinds = [_KEYS[key] for key in operands[-2:-1] if key in _KEYS]
        return kinds, [""] * len(kinds)
    plain = [kinds for name in command for kinds in _OPERANDS.get(name, ())[len(operands) :][:1]]
    keyed = [key for name in command if name in _WITH_KEYS for key in _KEYS]
    every = [kind for kinds in plain for kind in kinds]
    return [*every, *(_KEYS[key] for key in keyed)], [*[""] * len(every), *(f"{key}=" for key in keyed)]


def _names(service: Reached, kind: str) -> Iterable[str]:
    """The names of things of a kind in a service."""

    def answer(path: WebPath) -> list[dict[str, Any]]:
        with service.open(f"{path.at()}?limit={_MOST}", _PATIENCE_SECONDS) as response:
            listed: list[dict[str, Any]] = json.load(response)[path.template.rpartition("/")[2]]
            return listed

    if kind in ("workloads", "faults", "queues"):
        described = answer({"workloads": paths.WORKLOADS, "faults": paths.FAULTS, "queues": paths.QUEUES}[kind])
        names = [row[key] for row in described for key in ("queue", "id", "name") if key in row]
        return [*dict.fromkeys(names)]
    nodes = answer(paths.NODES)
    if kind == "metrics":
        with service.open(nodes[0]["metrics"], _PATIENCE_SECONDS) as page:
            return [line.split()[2].decode() for line in page if line.startswith(b"# TYPE ")]
    if kind == "devices":
        return [f"{node['node']}/{index}" for node in nodes for index in range(node["devices"])]
    return [node["node"] for node in nodes]


def _help(subcommands: Sequence[str], main: Callable[[Sequence[str]], int]) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(io.StringIO()), suppress(SystemExit):
        main([*subcommands, "--help"])
    return printed.getvalue()


def _options(text: str) -> Iterable[str]:
    """The options of a help: they begin its lines."""
    for line in text.splitlines():
        if line.startswith("  -"):
            yield from _OPTION.findall(line.split("   ")[0])
