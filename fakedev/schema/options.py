"""The options of the subcommands, declared once, and how a subcommand runs: wrong usage, failures, exit codes.

Apart from the console, because drop-ins must start fast without argparse.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from fakedev import __version__
from fakedev.base.console import write_text
from fakedev.base.errors import CannotWrite, did_you_mean, plain_reason, shortened
from fakedev.base.units import NEGATIVE


class _TakesArguments(Protocol):
    """A parser of argparse, or a group of one."""

    def add_argument(self, *names: str, **attributes: Any) -> Any: ...


@dataclass(frozen=True)
class Option:
    """An option of a command.

    :param kind: the placeholder of its value in the help; empty for choices, and for an option without a value.
    :param parse: text to value; raises ValueError for a text that cannot be used. A default that is a text is parsed.
    :param value: the name of its value; empty: the option's name, with underscores.
    :param is_repeated: the value is a list, with an item for each time that the option is given.
    :param choices: the only texts.
    :param count: how many arguments the value has, as argparse's ``nargs``.
    :param assigns: the option may be repeated, and each argument stands for what this returns: an assignment to a
        value of the configuration, KEY=VALUE. It raises ValueError for an argument that cannot be used.
    """

    name: str
    kind: str
    help: str
    default: Any = None
    parse: Callable[[str], Any] | None = None
    value: str = ""
    short: str = ""
    is_required: bool = False
    is_repeated: bool = False
    choices: tuple[str, ...] = ()
    count: str = ""
    assigns: Callable[[str], str] | None = None

    def add_to(self, parser: _TakesArguments) -> None:
        names = [f"--{self.name}", *([f"-{self.short}"] if self.short else [])]
        if not self.kind and not self.choices:
            parser.add_argument(*names, action="store_true", help=self.help)
            return
        arguments = self._arguments()
        if self.is_repeated or self.assigns is not None:
            arguments |= {"action": "extend" if self.count else "append", "default": self.default or []}
        value = "set" if self.assigns is not None else self.value or self.name.replace("-", "_")
        parser.add_argument(*names, dest=value, required=self.is_required, **arguments)

    def _arguments(self) -> dict[str, Any]:
        """What argparse takes of all arguments that have a value."""
        arguments: dict[str, Any] = {"metavar": self.kind or None, "help": self.help, "default": self.default}
        parse = self.assigns or self.parse
        arguments |= {"type": argument_type(parse)} if parse is not None else {}
        arguments |= {"nargs": self.count} if self.count else {}
        return arguments | ({"choices": self.choices} if self.choices else {})


class Operand(Option):
    """A positional argument; it is named after its value."""

    def add_to(self, parser: _TakesArguments) -> None:
        parser.add_argument(self.name, **self._arguments())


@dataclass(frozen=True)
class OnlyOne:
    """Options that exclude each other."""

    options: tuple[Option, ...]
    is_required: bool = False

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Declare them to a parser."""
        group = parser.add_mutually_exclusive_group(required=self.is_required)
        for option in self.options:
            option.add_to(group)


class Parser(argparse.ArgumentParser):
    """The options of a subcommand: ``--help``, ``--version`` and no abbreviations, everywhere.

    :param program: as the user types it, ``fakedev sd``.
    :param is_formatted: whether the description keeps its lines.
    """

    def __init__(
        self, program: str, *options: Option | OnlyOne, description: str | None, is_formatted: bool = False,
        **others: Any,
    ) -> None:  # fmt: skip
        if is_formatted:
            others["formatter_class"] = argparse.RawDescriptionHelpFormatter
        super().__init__(program, description=description, allow_abbrev=False, **others)
        # Also a negative duration, -5m, is a value, so that an error says what is wrong with it, and no unknown option.
        self._negative_number_matcher = NEGATIVE
        self.add_argument("--version", action="version", version=f"fakedev {__version__}", help="print the version")
        for option in options:
            option.add_to(self)

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


def argument_type(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A ``type`` of argparse that shows the text of a ValueError, which argparse itself does not."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


def percentage(text: str) -> float:
    """The value of an option that is a percentage.

    :raises ValueError: for another text.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 100:
        raise ValueError(f"{text!r} is no percentage from 0 to 100")
    return value


class WrongUsage(Exception):
    """The options of a command do not go together; the text begins with the one at fault."""


class Failed(Exception):
    """A command cannot do what it should.

    :ivar code: the exit code.
    """

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


def write_file(path: str | Path, text: str) -> None:
    """Write a file that an option names.

    :raises Failed: naming it, when it cannot be written.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failed(f"{path}: {plain_reason(error)}") from None


#: A subcommand, which takes its arguments and returns its exit code.
Subcommand = Callable[[Sequence[str]], int]


def command(
    program: str, description: str | None, *options: Option | OnlyOne,
    failures: Mapping[type[Exception], int] = MappingProxyType({}), shown: str = "", is_formatted: bool = False,
) -> Callable[[Callable[[argparse.Namespace], int | None]], Subcommand]:
    """Makes a subcommand of a function of the values of its options; it returns its exit code, or None for 0.

    :param program: as the user types it, ``fakedev sd``.
    :param failures: the exit codes after errors besides Failed and CannotWrite; their texts are printed.
    :param shown: the name before these texts; empty: the program.
    :param is_formatted: whether the description keeps its lines.
    """  # fmt: skip
    known: tuple[type[Exception], ...] = (Failed, CannotWrite, *failures)

    def decorated(function: Callable[[argparse.Namespace], int | None]) -> Subcommand:
        @wraps(function)
        def run(arguments: Sequence[str]) -> int:
            parser = Parser(program, *options, description=description, is_formatted=is_formatted)
            values = parser.parse_args(list(arguments))
            try:
                return function(values) or 0
            except WrongUsage as error:
                parser.error(str(error))
                raise
            except known as error:
                write_text(sys.stderr, f"{shown or program}: {error}\n")
                if isinstance(error, Failed):
                    return error.code
                return next((code for kind, code in failures.items() if isinstance(error, kind)), 1)

        return run

    return decorated


def unknown_subcommand(program: str, name: str, known: Collection[str]) -> int:
    """Say that there is no such subcommand, and which there are; its exit code."""
    hint = did_you_mean(name, known, f"; there are {', '.join(known)}")
    write_text(sys.stderr, f"{program}: {shortened(f'no subcommand {name!r}{hint}')}\n")
    return 2


def run_subcommand(
    program: str, subcommands: Mapping[str, tuple[str, str]], arguments: Sequence[str], *, joint: str = ", "
) -> int:
    """Run a subcommand of a subcommand; its exit code.

    :param program: as the user types it, ``fakedev scenario``.
    :param subcommands: module and function of each, which is only imported when it runs, and its line of help.
    :param joint: between the names in an error.
    """  # fmt: skip
    if not arguments or arguments[0].startswith("-"):
        width = max(map(len, subcommands))
        lines = (f"  {name:{width}}  {text}" for name, (_, text) in subcommands.items())
        description = "\n".join(["Each subcommand has --help:", *lines])
        usage = f"{program} SUBCOMMAND [OPTIONS]"
        parser = Parser(program, usage=usage, description=description, is_formatted=True)
        parser.parse_args(list(arguments))
        parser.error(f"give a subcommand: {joint.join(subcommands)}")
    name, *rest = arguments
    if name not in subcommands:
        return unknown_subcommand(program, name, subcommands)
    return imported(subcommands[name][0])(rest)


def imported(target: str) -> Subcommand:
    """The subcommand of a module and a function, as ``fakedev.commands.kube:plan``."""
    module, _, function = target.partition(":")
    subcommand: Subcommand = getattr(import_module(module), function)
    return subcommand
