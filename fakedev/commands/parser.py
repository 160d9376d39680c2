"""The parser of the subcommands' options; apart from the console, because drop-ins must start fast without argparse."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from fakedev import __version__
from fakedev.spec.errors import did_you_mean, shortened


class Parser(argparse.ArgumentParser):
    """The options of a subcommand: ``--help``, ``--version`` and no abbreviations, everywhere.

    :param program: as the user types it, ``fakedev sd``.
    :param is_formatted: whether the description keeps its lines.
    """

    def __init__(self, program: str, *, description: str | None, is_formatted: bool = False, **options: Any) -> None:
        if is_formatted:
            options["formatter_class"] = argparse.RawDescriptionHelpFormatter
        super().__init__(program, description=description, allow_abbrev=False, **options)
        self.add_argument("--version", action="version", version=f"fakedev {__version__}", help="print the version")

    @property
    def options(self) -> Mapping[str, bool]:
        """All spellings of all options, and whether they take a value."""
        return {name: action.nargs != 0 for action in self._actions for name in action.option_strings}

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The values; an unknown option or a word too many is an error that names the nearest option."""
        self._given = list(sys.argv[1:] if args is None else args)
        values, rest = self.parse_known_args(self._given, namespace)
        self._refuse_unknown(rest)
        if rest:
            self.error(f"unexpected {rest[0]!r}")
        return values

    def _refuse_unknown(self, words: Iterable[str]) -> None:
        for word in words:
            name = word.partition("=")[0]
            if word.startswith("-") and name not in self.options:
                self.error(f"there is no option {name}{did_you_mean(name, self.options)}")

    def error(self, message: str) -> Any:
        """Print one line, and end with 2."""
        if message.startswith("the following arguments are required"):
            given, self._given = self._given, []
            self._refuse_unknown(given)  # probably the one that is missing
        plain = message.removeprefix("argument ").replace("ignored explicit argument", "takes no value, and not")
        self.exit(2, f"{self.prog}: {shortened(plain)}; --help lists the options\n")


def percentage(text: str) -> float:
    """The value of an option that is a percentage.

    :raises argparse.ArgumentTypeError: for another text.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage from 0 to 100")
    return value


def unknown_subcommand(program: str, name: str, known: Collection[str]) -> int:
    """Say that there is no such subcommand, and which there are; its exit code."""
    hint = did_you_mean(name, known, f"; there are {', '.join(known)}")
    print(f"{program}: {shortened(f'no subcommand {name!r}{hint}')}", file=sys.stderr)
    return 2


def run_subcommand(program: str, subcommands: Mapping[str, tuple[str, str]], arguments: Sequence[str]) -> int:
    """Run a subcommand of a subcommand; its exit code.

    :param program: as the user types it, ``fakedev scenario``.
    :param subcommands: module and function of each, which is only imported when it runs, and its line of help.
    """
    if not arguments or arguments[0].startswith("-"):
        lines = ["Each subcommand has --help:", *(f"  {name:9} {text}" for name, (_, text) in subcommands.items())]
        usage = f"{program} SUBCOMMAND [OPTIONS]"
        parser = Parser(program, usage=usage, description="\n".join(lines), is_formatted=True, add_help=True)
        parser.parse_args(list(arguments))
        parser.error(f"give a subcommand: {', '.join(subcommands)}")
    name, *rest = arguments
    if name not in subcommands:
        return unknown_subcommand(program, name, subcommands)
    module, _, function = subcommands[name][0].partition(":")
    found: Callable[[Sequence[str]], int] = getattr(import_module(module), function)
    return found(rest)
