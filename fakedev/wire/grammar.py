"""The grammar of a line port as a table of verbs and their arguments. Parsing and help follow from it."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from fakedev.spec.errors import did_you_mean
from fakedev.wire.errors import ProtocolError

_HELP_WIDTH: Final = 100


class Kind(enum.Enum):
    """The type of an argument; error texts quote the value. The rules decide what its text means."""

    TEXT = "a text"
    LIST = "a list of texts"  # commas between them in words
    WORDS = "a list of texts without NUL"  # all remaining words, for a command
    SERIES = "a text, a list or an object"  # passed on unchanged, as a profile
    DURATION = "a duration, as 90s or 5m"  # also a plain number of seconds
    WHOLE = "a whole number"
    NUMBER = "a finite number"
    MAPPING = "names, each with a finite number or a size"  # in words NAME:NUMBER, repeated
    SERIES_MAPPING = "names, each with a text, a number or a list"  # in words NAME:TEXT, repeated
    TEXT_MAPPING = "names, each with a text"  # in words NAME:TEXT, repeated


_PLAIN_TYPES: Final[dict[Kind, frozenset[type]]] = {
    Kind.TEXT: frozenset({str}),
    Kind.SERIES: frozenset({str, list, dict}),
    Kind.DURATION: frozenset({str}),
    Kind.WHOLE: frozenset({int}),
}


@dataclass(frozen=True)
class Argument:
    """An argument of a verb.

    :param metavar: the placeholder for its value in a usage line, as ``N``.
    :param word: its name in words, if it differs from that in JSON (``limit`` for ``limits``); either is good in both.
    """

    name: str
    kind: Kind
    metavar: str
    summary: str = ""
    required: bool = False
    word: str = ""

    @property
    def name_in_words(self) -> str:
        """Its name in words, which may differ from that in JSON."""
        return self.word or self.name

    def refused(self, name: str, found: str) -> ProtocolError:
        """The error for a value of another kind.

        :param name: of the argument, in the format of the message.
        """
        return ProtocolError("bad-argument", f"{name}: must be {self.kind.value}, not {found}")


@dataclass(slots=True)
class Request:
    """A parsed message.

    :param verb: the name of the verb; never an alias.
    :param arguments: the given arguments by name; given flags are True.
    :param id: the answer carries it; JSON lines only.
    """

    verb: str
    arguments: Mapping[str, object]
    id: str | int | None = None


@dataclass(frozen=True)
class Flag:
    """A word that is present or absent; true or false in JSON."""

    name: str
    summary: str = ""


@dataclass(frozen=True)
class Verb:
    """A command of a port.

    :param positionals: arguments that words may give by position, in this order.
    :param rest: the argument that takes all words after those; words after ``--`` are taken literally.
    :param options: arguments that words give as ``name=value``.
    :param answers: its answers, each a line of its help.
    :param notes: further lines of its help.
    :param is_secret: its only argument must not be shown: no error quotes a message with this verb, and no log has it.
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
    is_secret: bool = False

    @cached_property
    def arguments(self) -> Sequence[Argument]:
        """All arguments, positional ones first."""
        return (*self.positionals, *((self.rest,) if self.rest else ()), *self.options)

    @cached_property
    def arguments_by_name(self) -> Mapping[str, Argument]:
        """All arguments, by their names in JSON."""
        return {argument.name: argument for argument in self.arguments}

    @cached_property
    def other_names(self) -> Mapping[str, str]:
        """The names in words that differ from those in JSON, with the latter: both are good in both."""
        return {argument.word: argument.name for argument in self.arguments if argument.word}

    @cached_property
    def plain_types_by_name(self) -> Mapping[str, frozenset[type]]:
        """Types of JSON values that are valid and stay unchanged, whatever their content, by the arguments' names."""
        return {argument.name: _PLAIN_TYPES.get(argument.kind, frozenset()) for argument in self.arguments}

    @cached_property
    def flag_names(self) -> frozenset[str]:
        """The names of the flags."""
        return frozenset(flag.name for flag in self.flags)

    def name_in_words(self, name: str) -> str:
        """The name in words of the argument with this name in JSON."""
        argument = self.arguments_by_name.get(name)
        return argument.name_in_words if argument else name

    @cached_property
    def usage(self) -> str:
        """Its form in words."""
        parts = [self.name]
        parts += [a.metavar if a.required else f"[{a.metavar}]" for a in self.positionals]
        parts += [f"[{self.rest.metavar}...]"] if self.rest else []
        parts += [
            f"{a.name_in_words}={a.metavar}" if a.required else f"[{a.name_in_words}={a.metavar}]" for a in self.options
        ]
        return " ".join(parts + [f"[{flag.name}]" for flag in self.flags])

    @cached_property
    def _required_names(self) -> frozenset[str]:
        return frozenset(argument.name for argument in self.arguments if argument.required)

    def checked(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments, if none is missing.

        :raises ProtocolError: ``bad-argument``, naming the missing argument and the usage.
        """
        if self._required_names <= arguments.keys():
            return arguments
        missing = next(argument for argument in self.arguments if argument.required and argument.name not in arguments)
        raise ProtocolError("bad-argument", f"{missing.name_in_words}: missing; usage: {self.usage}")

    @property
    def misused(self) -> ProtocolError:
        """The error for wrong arguments that does not quote them."""
        return ProtocolError("bad-argument", f"usage: {self.usage}")


class Grammar:
    """The verbs of a port."""

    def __init__(self, verbs: Sequence[Verb]) -> None:
        self._verbs = tuple(verbs)
        self._by_name = {name: verb for verb in verbs for name in (verb.name, *verb.aliases)}

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def find(self, name: str) -> Verb:
        """The verb of this name or alias.

        :raises ProtocolError: ``unknown-verb``, with the nearest one.
        """
        verb = self._by_name.get(name)
        if verb is None:
            hint = did_you_mean(name, self._by_name, "; help lists the verbs")
            raise ProtocolError("unknown-verb", f"no verb {name[:100]!r}{hint}")
        return verb

    def help_lines(self, name: str = "") -> list[str]:
        """The help text: a line for each verb, or all lines about one.

        :raises ProtocolError: ``unknown-verb``.
        """
        if name:
            return _explanation(self.find(name))
        usages = {verb.name: textwrap.shorten(verb.usage, _HELP_WIDTH // 2, placeholder=" ...") for verb in self._verbs}
        width = max(len(usage) for usage in usages.values())
        return [f"{usages[verb.name]:{width}}  {verb.summary}" for verb in self._verbs]


def _explanation(verb: Verb) -> list[str]:
    lines = [
        *textwrap.wrap(verb.usage, _HELP_WIDTH, subsequent_indent="    ", break_on_hyphens=False),
        f"  {verb.summary}",
    ]
    named = [(a.name_in_words if a in verb.options else a.metavar, a.summary) for a in verb.arguments]
    named += [(flag.name, flag.summary) for flag in verb.flags]
    width = max((len(name) for name, _ in named), default=0)
    indent = " " * (width + 4)
    for name, summary in named:
        first = f"  {name:{width}}  "
        lines += textwrap.wrap(
            summary, _HELP_WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False
        ) or [first.rstrip()]
    lines += [f"  {note}" for note in verb.notes]
    if verb.aliases:
        lines.append(f"  also: {', '.join(verb.aliases)}")
    lines += [f"  answer: {answer}" for answer in verb.answers]
    return lines


#: The verbs of all line ports.
SHARED_VERBS: Final = (
    Verb(
        "help",
        "List the verbs, or explain one.",
        positionals=[Argument("verb", Kind.TEXT, "VERB", "a verb")],
        answers=["ok N lines"],
    ),
    Verb(
        "auth",
        "Give the token of this port, first of all.",
        positionals=[Argument("token", Kind.TEXT, "TOKEN", "one of the tokens of its address", required=True)],
        answers=["ok"],
        is_secret=True,
    ),
    Verb("quit", "Close this connection.", answers=["ok"]),
)
