"""Grammars of line ports as tables; parsing and help are made from them."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fakedev.wire.arguments import Argument
from fakedev.wire.errors import ProtocolError

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
    lines += [f"  {name:{width}}  {summary}" for name, summary in named]
    lines += [f"  {note}" for note in verb.notes]
    if verb.aliases:
        lines.append(f"  also: {', '.join(verb.aliases)}")
    lines += [f"  answer: {answer}" for answer in verb.answers]
    return lines
