"""The grammar of a line port: a table of verbs and arguments, and protocol errors. Parsing and help follow from it."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from fakedev.base.errors import did_you_mean, shortened

#: The codes of errors in all line protocols.
CODES: Final = (
    "unknown-verb", "bad-argument", "unknown-name", "too-long", "full", "limit", "denied", "busy", "internal",
)  # fmt: skip


def error_in_words(line: bytes) -> tuple[str, str]:
    """Code and text of an answer in words that begins with ``error``.

    Clients of JSON lines receive such an answer if there are too many connections: the server does not know the format
    yet.
    """
    code, _, text = line.decode("utf-8", "replace").removeprefix("error ").strip().partition(" ")
    return code, text


class ProtocolError(Exception):
    """An error that answers a message.

    :param code: one of CODES.
    :param text: what is wrong and what would be right. It begins with the name of the argument, if there is one.
    :param fatal: whether the framing is lost, so that the connection must be closed after the answer.
    :param request_id: the id of the request, if it could be read.
    """

    def __init__(self, code: str, text: str, fatal: bool = False, request_id: str | int | None = None) -> None:
        if code not in CODES:
            raise ValueError(f"{code!r} is not one of the codes: {', '.join(CODES)}")
        self.code = code
        self.text = shortened(text)
        super().__init__(self.text)
        self.fatal = fatal
        self.request_id = request_id


_HELP_WIDTH: Final = 100


#: Integers of this size and more do not fit into a float.
_TOO_LARGE: Final = 2**1024 - 2**969
_NUMBERS: Final = frozenset({int, float})
_TEXTS: Final = frozenset({str})


class Kind(enum.Enum):
    """The type of an argument; error texts quote ``text``. The rules decide what its value means.

    :ivar text: what the value must be.
    :ivar types: of its value in JSON.
    :ivar entries: the types of what its lists and objects hold; empty: anything.
    :ivar plain_types: the ``types`` that need no further check of the value.
    """

    TEXT = "a text", _TEXTS
    LIST = "a list of texts", {list}, _TEXTS  # commas between them in words
    WORDS = "a list of texts without NUL", {list}, _TEXTS  # all remaining words, for a command
    SERIES = "a text, a list or an object", {str, list, dict}  # passed on unchanged, as a profile
    DURATION = "a duration, as 90s or 5m", _NUMBERS | _TEXTS  # also a plain number of seconds
    WHOLE = "a whole number", {int}
    NUMBER = "a finite number", _NUMBERS
    # In words NAME:NUMBER or NAME:TEXT, repeated:
    MAPPING = "names, each with a finite number or a size", {dict}, _NUMBERS | _TEXTS
    SERIES_MAPPING = "names, each with a text, a number or a list", {dict}, _NUMBERS | _TEXTS | {list}
    TEXT_MAPPING = "names, each with a text", {dict}, _TEXTS

    def __init__(self, text: str, types: Set[type], entries: Set[type] = frozenset()) -> None:
        self.text = text
        self.types = types
        self.entries = entries
        self.plain_types = frozenset() if entries else types - {int} if float in types else types


def has_type(value: object, types: Set[type]) -> bool:
    """Whether a value has one of these types. An integer that no float holds is none where floats are good."""
    kind = type(value)
    return kind in types and not (kind is int and float in types and abs(value) >= _TOO_LARGE)  # type: ignore[arg-type]


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
        return self.word or self.name

    def refused(self, name: str, found: str) -> ProtocolError:
        """The error for a value of another kind.

        :param name: of the argument, in the format of the message.
        """
        return ProtocolError("bad-argument", f"{name}: must be {self.kind.text}, not {found}")


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
    def plain_types_by_name(self) -> Mapping[str, Set[type]]:
        """Types of JSON values that are valid and stay unchanged, whatever their content, by the arguments' names."""
        return {argument.name: argument.kind.plain_types for argument in self.arguments}

    @cached_property
    def flag_names(self) -> frozenset[str]:
        return frozenset(flag.name for flag in self.flags)

    def name_in_words(self, name: str) -> str:
        """The name in words of the argument with this name in JSON."""
        argument = self.arguments_by_name.get(name)
        return argument.name_in_words if argument else name

    @cached_property
    def usage(self) -> str:
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
