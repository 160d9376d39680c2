"""Grammars of line ports as tables; parsing and help are made from them.

The arguments that verbs take: their kinds, and how a text or a JSON value becomes one.

What may be said on every line port.
"""

from __future__ import annotations

import difflib
import enum
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from fakedev.wire.errors import ProtocolError
from fakedev.wire.strict_json import kind_of

_WHOLE: Final = re.compile(r"-?[0-9]{1,30}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class Kind(enum.Enum):
    """What an argument is made of. What its text means is for the rules to say."""

    TEXT = "a text"
    LIST = "a list of texts"  # commas between them in words
    WORDS = "a list of texts without NUL"  # all words that are left; those of a command
    SERIES = "a text, a list or an object"  # passed on as it is, as a profile
    DURATION = "a duration, as 90s or 5m"  # also a plain number: of seconds
    WHOLE = "a whole number"
    NUMBER = "a finite number"
    MAPPING = "names, each with a finite number or a size"  # in words NAME:NUMBER, repeated
    SERIES_MAPPING = "names, each with a text, a number or a list"  # in words NAME:TEXT, repeated


_ONLY_TEXTS: Final = {str}
_PLAIN_TYPES: Final[dict[Kind, frozenset[type]]] = {
    Kind.TEXT: frozenset({str}),
    Kind.SERIES: frozenset({str, list, dict}),
    Kind.DURATION: frozenset({str}),
    Kind.WHOLE: frozenset({int}),
}


@dataclass(frozen=True)
class Argument:
    """An argument of a verb.

    :param shown: what stands for its value in a usage line, as ``N``.
    :param word: its name in words, where it differs from that in JSON (``limit`` for ``limits``).
    """

    name: str
    kind: Kind
    shown: str
    summary: str = ""
    required: bool = False
    word: str = ""

    @property
    def plain_types(self) -> frozenset[type]:
        """Types of JSON values that fit and stay as they are, whatever they hold."""
        return _PLAIN_TYPES.get(self.kind, frozenset())

    @property
    def said(self) -> str:
        """Its name in words."""
        return self.word or self.name


def from_text(argument: Argument, text: str, earlier: object = None) -> object:
    """The value of an argument said in words.

    :param earlier: the value that the same argument got before in this message.
    :raises ProtocolError: ``bad-argument``, naming the argument.
    """
    name = argument.said
    if argument.kind is Kind.MAPPING:
        return _with_number(name, text, earlier)
    if argument.kind is Kind.SERIES_MAPPING:
        return _with_text(name, text, earlier)
    if earlier is not None:
        raise ProtocolError("bad-argument", f"{name}: given twice")
    match argument.kind:
        case Kind.LIST:
            return text.split(",")
        case Kind.WHOLE:
            if not _WHOLE.fullmatch(text):
                raise _wrong(argument, name, repr(text[:100]))
            return int(text)
        case Kind.NUMBER:
            return _number(name, text)
        case Kind.DURATION if _NUMBER.fullmatch(text):
            return _number(name, text)
    return text


def from_words(argument: Argument, words: list[str]) -> object:
    """The value of the argument that takes all words that are left.

    :raises ProtocolError: ``bad-argument``, naming the argument.
    """
    if argument.kind is not Kind.WORDS:
        return from_text(argument, " ".join(words))
    for place, word in enumerate(words):
        if "\0" in word:
            raise ProtocolError("bad-argument", f"{argument.said}[{place}]: holds a NUL, which no command can be given")
    return words


def from_json(argument: Argument, value: object) -> object:
    """The value of an argument given as JSON.

    :raises ProtocolError: ``bad-argument``, naming the argument.
    """
    match argument.kind:
        case Kind.WORDS:
            fits = isinstance(value, list) and {*map(type, value)} <= _ONLY_TEXTS and "\0" not in "".join(value)
        case Kind.TEXT:
            fits = isinstance(value, str)
        case Kind.LIST:
            if isinstance(value, str):
                return value.split(",")
            fits = isinstance(value, list) and {*map(type, value)} <= _ONLY_TEXTS
        case Kind.SERIES:
            fits = isinstance(value, str | list | dict)
        case Kind.DURATION:
            fits = isinstance(value, str) or _is_number(value)
        case Kind.WHOLE:
            fits = isinstance(value, int) and not isinstance(value, bool)
        case Kind.NUMBER:
            fits = _is_number(value)
        case Kind.MAPPING | Kind.SERIES_MAPPING:
            return _checked_mapping(argument, value)
    if not fits:
        raise _wrong(argument, argument.name, kind_of(value))
    return value


def _checked_mapping(argument: Argument, value: object) -> object:
    if not isinstance(value, dict):
        raise _wrong(argument, argument.name, kind_of(value))
    types = str if argument.kind is Kind.MAPPING else str | list
    for key, entry in value.items():
        if not isinstance(entry, types) and not _is_number(entry):
            expected = argument.kind.value.removeprefix("names, each with ")
            text = f"{argument.name}: {key[:100]!r} must have {expected}, not {kind_of(entry)}"
            raise ProtocolError("bad-argument", text)
    return value


def _wrong(argument: Argument, name: str, found: str) -> ProtocolError:
    return ProtocolError("bad-argument", f"{name}: must be {argument.kind.value}, not {found}")


def _with_number(name: str, text: str, earlier: object) -> dict[str, object]:
    key, colon, number = text.rpartition(":")
    if not colon or not key:
        raise ProtocolError("bad-argument", f"{name}: {text[:100]!r} is not NAME:NUMBER")
    # What is no number is a size, or wrong: that is for the rules to say.
    return _with_entry(name, key, _number(name, number) if _NUMBER.fullmatch(number) else number, earlier)


def _with_text(name: str, text: str, earlier: object) -> dict[str, object]:
    key, _, rest = text.partition(":")
    if not key or not rest:
        raise ProtocolError("bad-argument", f"{name}: {text[:100]!r} is not NAME:PROFILE")
    return _with_entry(name, key, rest, earlier)


def _with_entry(name: str, key: str, value: object, earlier: object) -> dict[str, object]:
    entries = dict(earlier) if isinstance(earlier, dict) else {}
    if key in entries:
        raise ProtocolError("bad-argument", f"{name}: {key[:100]!r} is given twice")
    entries[key] = value
    return entries


def _number(name: str, text: str) -> float:
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise ProtocolError("bad-argument", f"{name}: {text[:100]!r} is no finite number")
    return number


def _is_number(value: object) -> bool:
    """Whether it is a number that a float can hold; true and false are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False

_WIDTH = 100


@dataclass(slots=True)
class Request:
    """A message that was understood.

    :param verb: the verb's own name, whichever alias was used.
    :param arguments: what was given, by name; flags that were said are True.
    :param id: what the peer wants the answer to carry; JSON lines only.
    """

    verb: str
    arguments: Mapping[str, object]
    id: str | int | None = None


@dataclass(frozen=True)
class Flag:
    """A word that is said or not; true or false in JSON."""

    name: str
    summary: str = ""


@dataclass(frozen=True)
class Verb:
    """One thing that a peer may ask for.

    :param positionals: arguments that words may give by place, in this order.
    :param rest: the argument that takes all words after those; after ``--`` words are taken as they are.
    :param options: arguments that words give as ``name=value``.
    :param answers: what it is answered, each a line of its help.
    :param notes: what else is to be said, each a line of its help.
    """

    name: str
    summary: str
    positionals: Sequence[Argument] = ()
    options: Sequence[Argument] = ()
    flags: Sequence[Flag] = ()
    aliases: Sequence[str] = ()
    answers: Sequence[str] = ()
    notes: Sequence[str] = ()
    rest: Argument | None = None

    @cached_property
    def arguments(self) -> Sequence[Argument]:
        """All arguments, those with a place first."""
        return (*self.positionals, *((self.rest,) if self.rest else ()), *self.options)

    @cached_property
    def arguments_by_name(self) -> Mapping[str, Argument]:
        """All arguments, by the names that they have in JSON."""
        return {argument.name: argument for argument in self.arguments}

    @cached_property
    def plain_types_by_name(self) -> Mapping[str, frozenset[type]]:
        """Of the arguments: types of JSON values that fit and stay as they are, whatever they hold."""
        return {argument.name: argument.plain_types for argument in self.arguments}

    @cached_property
    def flag_names(self) -> frozenset[str]:
        """The names of the flags."""
        return frozenset(flag.name for flag in self.flags)

    def said(self, name: str) -> str:
        """The name in words of the argument that JSON calls ``name``."""
        argument = self.arguments_by_name.get(name)
        return argument.said if argument else name

    @cached_property
    def usage(self) -> str:
        """Its form in words."""
        parts = [self.name]
        parts += [a.shown if a.required else f"[{a.shown}]" for a in self.positionals]
        parts += [f"[{self.rest.shown}...]"] if self.rest else []
        parts += [f"{a.said}={a.shown}" if a.required else f"[{a.said}={a.shown}]" for a in self.options]
        return " ".join(parts + [f"[{flag.name}]" for flag in self.flags])

    @cached_property
    def _required_names(self) -> frozenset[str]:
        return frozenset(argument.name for argument in self.arguments if argument.required)

    def checked(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments, when none is missing.

        :raises ProtocolError: ``bad-argument``, naming the missing argument and the usage.
        """
        if self._required_names <= arguments.keys():
            return arguments
        missing = next(argument for argument in self.arguments if argument.required and argument.name not in arguments)
        raise ProtocolError("bad-argument", f"{missing.said}: missing; usage: {self.usage}")


class Grammar:
    """The verbs that a port knows."""

    def __init__(self, verbs: Sequence[Verb]) -> None:
        self._verbs = tuple(verbs)
        self._by_name = {name: verb for verb in verbs for name in (verb.name, *verb.aliases)}

    def find(self, name: str) -> Verb:
        """The verb of this name or alias.

        :raises ProtocolError: ``unknown-verb``, with the nearest one.
        """
        verb = self._by_name.get(name)
        if verb is None:
            hint = did_you_mean(name, self._by_name) or "; help lists the verbs"
            raise ProtocolError("unknown-verb", f"no verb {name[:100]!r}{hint}")
        return verb

    def help_lines(self, name: str = "") -> list[str]:
        """What a peer may say: all verbs, or all about one.

        :raises ProtocolError: ``unknown-verb``.
        """
        if name:
            return _explanation(self.find(name))
        usages = {verb.name: textwrap.shorten(verb.usage, _WIDTH // 2, placeholder=" ...") for verb in self._verbs}
        width = max(len(usage) for usage in usages.values())
        return [f"{usages[verb.name]:{width}}  {verb.summary}" for verb in self._verbs]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint at the known word that is nearest; empty when none is near."""
    near = difflib.get_close_matches(word[:100].lower(), list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def _explanation(verb: Verb) -> list[str]:
    lines = [*textwrap.wrap(verb.usage, _WIDTH, subsequent_indent="    ", break_on_hyphens=False), f"  {verb.summary}"]
    named = [(a.said if a in verb.options else a.shown, a.summary) for a in verb.arguments]
    named += [(flag.name, flag.summary) for flag in verb.flags]
    width = max((len(name) for name, _ in named), default=0)
    indent = " " * (width + 4)
    for name, summary in named:
        first = f"  {name:{width}}  "
        lines += textwrap.wrap(
            summary, _WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
        ) or [first.rstrip()]
    lines += [f"  {note}" for note in verb.notes]
    if verb.aliases:
        lines.append(f"  also: {', '.join(verb.aliases)}")
    lines += [f"  answer: {answer}" for answer in verb.answers]
    return lines

EVERYWHERE: Final = (
    Verb(
        "help",
        "What can be said here, or all about one verb.",
        positionals=[Argument("verb", Kind.TEXT, "VERB", "a verb")],
        answers=["ok N lines"],
    ),
    Verb("quit", "Close this connection.", answers=["ok"]),
)
