"""Command-line options by the rules of Go's flag package, for the drop-in programs.

One dash or two; ``-x value`` or ``-x=value``; a boolean option has no value or takes ``=value``, never the next
argument; the first argument that is no option, or ``--``, ends the options; of an option given twice the last counts,
unless it was declared with :meth:`FlagSet.each`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, cast

from fakedev.base.console import write_text
from fakedev.base.errors import did_you_mean, printable, shortened
from fakedev.base.units import parse_duration
from fakedev.schema.peer_addresses import TLS_OPTIONS, Address, ClientTls, parse_address, with_tls

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_PLAIN_NUMBER: Final = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?", re.ASCII)
_OLD_OCTAL: Final = re.compile(r"([+-]?)0(_?[0-7])+")
_WHOLE: Final = re.compile(r"[+-]?[0-9a-zA-Z_]+", re.ASCII)


def parse_boolean(text: str) -> bool:
    """True or False, in the spellings that Go accepts."""
    if text not in _BOOLEANS:
        raise ValueError(f"{text!r} is neither true nor false")
    return _BOOLEANS[text]


def parse_integer(text: str) -> int:
    """A 64-bit whole number; 0x, 0o, 0b, a leading 0 (octal) and _ between digits as in Go."""
    value = _whole(text)
    if value is None or not -(2**63) <= value < 2**63:
        raise ValueError(f"{text!r} is no whole number")
    return value


def parse_unsigned(text: str) -> int:
    """A 64-bit whole number from 0 up, without a sign."""
    value = _whole(text)
    if value is None or text[0] in "+-" or value >= 2**64:
        raise ValueError(f"{text!r} is no whole number from 0 up")
    return value


def parse_number(text: str) -> float:
    """A finite decimal number."""
    value = float(text) if _PLAIN_NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is no finite number")
    return value


def parse_seconds(text: str) -> float:
    """A duration such as 5m, or plain seconds."""
    try:
        seconds = parse_number(text)
    except ValueError:
        return parse_duration(text)
    if seconds < 0 or math.copysign(1.0, seconds) < 0:
        raise ValueError(f"{text!r} is negative")
    return seconds


def address_with_tls(address: Address, values: Values, files: Mapping[str, Flag[str]]) -> Address:
    """The address with the files of TLS that were given.

    :param files: of :meth:`FlagSet.tls_files`.
    :raises FlagError: when they do not go together, or the address has no TLS.
    """
    try:
        return with_tls(address, ClientTls(*(values[flag] for flag in files.values())))
    except ValueError as error:
        raise FlagError(str(error)) from None


def token_file(path: str) -> str:
    """The path of a file with a token, which was read once."""
    from fakedev.schema.files import read_token  # noqa: PLC0415 - fakedev-workload must start fast

    read_token(path)
    return path


def _whole(text: str) -> int | None:
    if not _WHOLE.fullmatch(text):
        return None
    try:
        return int(text, 8 if _OLD_OCTAL.fullmatch(text) else 0)
    except ValueError:
        return None


def all_interfaces(address: str) -> str:
    """An address in the words of the configuration: Go's ``:9999`` means all interfaces."""
    return f"*{address}" if address.startswith(":") else address


class FlagError(Exception):
    """The arguments cannot be used; the text says why, in one line."""

    def __init__(self, text: str) -> None:
        super().__init__(shortened(printable(text)))


class HelpAsked(Exception):
    """``-h`` or ``-help`` was among the options."""


@dataclass(frozen=True, eq=False)
class Flag(Generic[T_co]):
    """One option, and the key of its value in :class:`Values`.

    :param kind: the placeholder of the value in the help; empty for a boolean option.
    :param parse: argument to value; raises ValueError with what is possible.
    :param repeated: whether the values of several occurrences are collected in a tuple.
    """

    name: str
    default: T_co
    kind: str
    text: str
    parse: Callable[[str], object]
    repeated: bool = False


class Values:
    """The values of the arguments: ``values[flag]`` is the option's value, or its default.

    :param operands: the arguments after the options.
    """

    def __init__(self, given: Mapping[str, object], operands: Sequence[str]) -> None:
        self._given = dict(given)
        self.operands = tuple(operands)

    def __getitem__(self, flag: Flag[T]) -> T:
        return cast(T, self._given.get(flag.name, flag.default))

    def given(self, flag: Flag[object]) -> bool:
        """Whether the option was among the arguments."""
        return flag.name in self._given


class FlagSet:
    """The options of one program.

    :param purpose: the purpose of the program, the first line of its help.
    :param operands: how the help shows the arguments after the options; empty when the program takes none, and then
        any is an error.
    """

    def __init__(self, program: str, purpose: str, operands: str = "") -> None:
        self.program = program
        self._purpose = purpose
        self._operands = operands
        self._flags: dict[str, Flag[object]] = {}

    def text(self, name: str, default: str, text: str, kind: str = "TEXT") -> Flag[str]:
        """An option that takes any text."""
        return self.value(name, default, text, kind, str)

    def boolean(self, name: str, text: str) -> Flag[bool]:
        """An option that is off until given."""
        return self.value(name, False, text, "", parse_boolean)

    def integer(self, name: str, default: int, text: str, kind: str = "N") -> Flag[int]:
        """An option that takes a whole number."""
        return self.value(name, default, text, kind, parse_integer)

    def unsigned(self, name: str, default: int, text: str, kind: str = "N") -> Flag[int]:
        """An option that takes a whole number from 0 up."""
        return self.value(name, default, text, kind, parse_unsigned)

    def number(self, name: str, default: float, text: str, kind: str = "NUMBER") -> Flag[float]:
        """An option that takes a finite decimal number."""
        return self.value(name, default, text, kind, parse_number)

    def seconds(self, name: str, default: float, text: str, kind: str = "SECONDS") -> Flag[float]:
        """An option that takes a duration, or plain seconds."""
        return self.value(name, default, text, kind, parse_seconds)

    def address(self, name: str, default: str, text: str, kind: str = "[tls://]HOST:PORT|PATH") -> Flag[Address]:
        """An option that takes the address of a server."""
        return self.value(name, parse_address(default), text, kind, parse_address)

    def token_file(self, text: str = "") -> Flag[str]:
        """The option of the file with the server's token; its value is the path, and the file was read once.

        :param text: follows the explanation.
        """
        return self.value("token-file", "", f"file with the token of the server{text}", "FILE", token_file)

    def tls_files(self, text: str = "") -> dict[str, Flag[str]]:
        """The options of TLS with a server; :func:`address_with_tls` takes their values.

        :param text: follows the explanations.
        """
        return {name: self.text(name, "", f"{help}{text}", "FILE") for name, help in TLS_OPTIONS.items()}

    def web_config_file(self, address: str) -> Flag[str]:
        """The option of a web configuration file, which the originals do not have.

        :param address: the option whose address it is for.
        """
        text = f"web configuration file of {address}: TLS, passwords (not in the original)"
        return self.text("web-config-file", "", text, "FILE")

    def choice(self, name: str, choices: Sequence[str], text: str, kind: str = "NAME") -> Flag[str]:
        """An option that takes one of some words; the first is the default."""

        def parse(word: str) -> str:
            if word not in choices:
                raise ValueError(f"{' or '.join(choices)}, not {word!r}")
            return word

        return self.value(name, choices[0], text, kind, parse)

    def value(self, name: str, default: T, text: str, kind: str, parse: Callable[[str], T]) -> Flag[T]:
        """An option with any type of value; ``parse`` refuses an argument by ValueError."""
        return self._add(Flag(name, default, kind, text, parse))

    def each(self, name: str, text: str, kind: str, parse: Callable[[str], T]) -> Flag[tuple[T, ...]]:
        """An option that may be repeated: its value is the tuple of all."""
        empty: tuple[T, ...] = ()
        return self._add(Flag(name, empty, kind, text, parse, repeated=True))

    def parse(self, arguments: Sequence[str] | None) -> Values:
        """The values of these arguments (without the program's name); None: the arguments of this process.

        :raises FlagError: naming the argument at fault.
        :raises HelpAsked: for ``-h`` or ``-help``.
        """
        given: dict[str, object] = {}
        rest = list(sys.argv[1:] if arguments is None else arguments)
        while rest and len(rest[0]) > 1 and rest[0].startswith("-"):
            argument = rest.pop(0)
            if argument == "--":
                break
            name, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
            flag = self._find(name, argument)
            if not equals and not flag.kind:
                value = "true"
            elif not equals:
                if not rest:
                    raise FlagError(f"-{name} needs a value: {flag.kind}")
                value = rest.pop(0)
            try:
                parsed = flag.parse(value)
            except ValueError as error:
                raise FlagError(f"-{name}: {error}") from None
            given[name] = (*cast("tuple[object, ...]", given.get(name, ())), parsed) if flag.repeated else parsed
        if rest and not self._operands:
            hint = f": options after it are not read, and a pattern needs quotes: {self.program} takes options only"
            raise FlagError(f"unexpected argument {rest[0]!r}{hint}")
        return Values(given, rest)

    @contextmanager
    def usage_errors_exit(self) -> Iterator[None]:
        """For :meth:`parse` and the checks after it: HelpAsked shows the help and exits 0, FlagError exits 2."""
        try:
            yield
        except HelpAsked:
            write_text(sys.stdout, self.help())
            raise SystemExit(0) from None
        except FlagError as error:
            write_text(sys.stderr, f"{self.program}: {error}\n{self.program} -help lists the options\n")
            raise SystemExit(2) from None

    def help(self) -> str:
        """The text of ``-help``: each option with the kind of its value, its meaning and its default."""
        usage = f"{self.program} [OPTIONS] {self._operands}".rstrip()
        lines = [f"{usage}: {self._purpose}", "", "Options (one dash or two, -x VALUE or -x=VALUE):"]
        for flag in sorted(self._flags.values(), key=lambda flag: flag.name):
            lines += [f"  -{flag.name} {flag.kind}".rstrip(), f"        {flag.text}{_default_text(flag)}"]
        return "\n".join([*lines, ""])

    def _add(self, flag: Flag[T]) -> Flag[T]:
        if flag.name in self._flags:
            raise ValueError(f"option -{flag.name} is declared twice")
        self._flags[flag.name] = flag
        return flag

    def _find(self, name: str, argument: str) -> Flag[object]:
        if not name or name.startswith("-"):
            raise FlagError(f"{argument!r} is no option")
        flag = self._flags.get(name)
        if flag is not None:
            return flag
        if name in ("h", "help"):
            raise HelpAsked
        raise FlagError(f"there is no option -{name}{did_you_mean(f'-{name}', [f'-{flag}' for flag in self._flags])}")


def _default_text(flag: Flag[object]) -> str:
    """`` (default x)``; empty for an empty default."""
    if flag.repeated:
        return " (may be repeated)"
    if flag.default in ("", False, None):
        return ""
    return f" (default {flag.default})"
