"""Requests in words, the format for people and netcat."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Final

from fakedev.base.errors import did_you_mean
from fakedev.lines.grammar import Argument, Grammar, Kind, ProtocolError, Request, Verb

_PLAIN: Final = re.compile(r"[^ \t\r\n]+")
# All quantifiers are possessive, so that hostile lines cost linear time.
_WORD: Final = re.compile(r"""(?:[^ \t\r\n'"\\]++|'[^']*+'|"(?:[^"\\]++|\\.)*+"|\\.)++""", re.DOTALL)
_WHOLE_WORDS: Final = re.compile(r"""(?:[^'"\\]++|'[^']*+'|"(?:[^"\\]++|\\.)*+"|\\.)*+""", re.DOTALL)
_QUOTED: Final = re.compile(r"""'([^']*+)'|"((?:[^"\\]++|\\.)*+)"|\\(.)""", re.DOTALL)
_ESCAPE: Final = re.compile(r'\\(["\\])')
_OPTION: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)=(.*)", re.DOTALL)
_WHOLE: Final = re.compile(r"-?[0-9]{1,30}")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
#: What follows the name in an entry of a mapping.
_FORMS: Final = {Kind.MAPPING: "NUMBER", Kind.SERIES_MAPPING: "PROFILE", Kind.TEXT_MAPPING: "TEXT"}
_NEEDS_QUOTES: Final = re.compile(r"""[\s'"\\]|^$""")


def parse_words(line: bytes, grammar: Grammar) -> Request:
    """Parse a request. The line is not blank and has no LF.

    :raises ProtocolError: ``unknown-verb`` or ``bad-argument``, naming the argument.
    """
    try:
        words = split_words(line.removesuffix(b"\r").decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ProtocolError("bad-argument", f"not UTF-8 at byte {error.start + 1}") from None
    if not words:
        raise ProtocolError("unknown-verb", "no verb; help lists the verbs")
    verb = grammar.find(words[0])
    return Request(verb.name, verb.checked(_arguments(verb, words[1:])))


def split_words(text: str) -> list[str]:
    """The words of a line, with quotes removed as in a shell.

    :raises ProtocolError: ``bad-argument`` for a quote that is not closed.
    """
    if "'" not in text and '"' not in text and "\\" not in text:
        return _PLAIN.findall(text)
    whole = _WHOLE_WORDS.match(text)
    if whole is not None and whole.end() < len(text):
        fault = "a backslash ends the line" if text[whole.end()] == "\\" else "a quote is not closed"
        raise ProtocolError("bad-argument", f"{fault}, at character {whole.end() + 1}")
    return [_QUOTED.sub(_unquoted, word) for word in _WORD.findall(text)]


def _unquoted(quoted: re.Match[str]) -> str:
    single, double, escaped = quoted.groups()
    if double is None:
        return single or escaped or ""
    return _ESCAPE.sub(r"\1", double) if "\\" in double else double


def quote_word(text: str) -> str:
    """A text as one word, in quotes if necessary."""
    if not _NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _arguments(verb: Verb, words: list[str]) -> dict[str, object]:
    if verb.is_secret:
        if len(words) != len(verb.positionals):
            raise verb.misused
        return {argument.name: word for argument, word in zip(verb.positionals, words, strict=True)}
    by_word = {name: each for each in (*verb.positionals, *verb.options) for name in (each.name, each.name_in_words)}
    flags = verb.flag_names
    found: dict[str, object] = {}
    rest: list[str] = []
    for position, word in enumerate(words):
        if word == "--" and verb.rest:
            rest += words[position + 1 :]
            break
        if rest and "=" not in word:  # there may be thousands
            rest.append(word)
            continue
        option = _OPTION.fullmatch(word)
        if option is None:
            place = None if rest else next((a for a in verb.positionals if a.name not in found), None)
            if place is not None:
                found[place.name] = _value(place, word)
            elif verb.rest:
                rest.append(word)
            elif word in flags and word not in found:
                found[word] = True
            else:
                raise _unexpected(verb, word, found)
            continue
        argument = by_word.get(option[1])
        if argument is None:
            raise _unknown_option(verb, option[1], is_flag=option[1] in flags)
        found[argument.name] = _value(argument, option[2], found.get(argument.name))
    if rest and verb.rest:
        found[verb.rest.name] = _value_of_rest(verb.rest, rest)
    return found


def _value(argument: Argument, text: str, earlier: object = None) -> object:
    """The value of an argument: what JSON would hold. The rules decide what texts mean.

    :param earlier: the value from an earlier occurrence in the same message.
    """
    name = argument.name_in_words
    if argument.kind in _FORMS:
        return _with_entry(argument, text, earlier)
    if earlier is not None:
        raise ProtocolError("bad-argument", f"{name}: given twice")
    match argument.kind:
        case Kind.LIST:
            return text.split(",")
        case Kind.WHOLE:
            if not _WHOLE.fullmatch(text):
                raise argument.refused(name, repr(text[:100]))
            return int(text)
        case Kind.NUMBER:
            return _number(name, text)
        case Kind.DURATION if _NUMBER.fullmatch(text):
            return _number(name, text)
    return text


def _value_of_rest(argument: Argument, words: list[str]) -> object:
    """The value of the argument that takes all remaining words."""
    if argument.kind is not Kind.WORDS:
        return _value(argument, " ".join(words))
    for place, word in enumerate(words):
        if "\0" in word:
            raise ProtocolError(
                "bad-argument", f"{argument.name_in_words}[{place}]: contains a NUL, which a command cannot receive"
            )
    return words


def _with_entry(argument: Argument, text: str, earlier: object) -> dict[str, object]:
    name, has_number = argument.name_in_words, argument.kind is Kind.MAPPING
    key, _, rest = text.rpartition(":") if has_number else text.partition(":")
    if not key or not (rest or has_number):
        raise ProtocolError("bad-argument", f"{name}: {text[:100]!r} is not NAME:{_FORMS[argument.kind]}")
    # A text that is not a number is a size, or wrong: the rules decide.
    value = _number(name, rest) if has_number and _NUMBER.fullmatch(rest) else rest
    entries = earlier if isinstance(earlier, dict) else {}
    if key in entries:
        raise ProtocolError("bad-argument", f"{name}: {key[:100]!r} is given twice")
    entries[key] = value
    return entries


def _number(name: str, text: str) -> float:
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise ProtocolError("bad-argument", f"{name}: {text[:100]!r} is not a finite number")
    return number


def _unexpected(verb: Verb, word: str, found: Collection[str]) -> ProtocolError:
    if word in found:
        return ProtocolError("bad-argument", f"{word}: given twice")
    if not (verb.arguments or verb.flags):
        # Its usage would be its name alone, which is another one as a command of the shell.
        return ProtocolError("bad-argument", f"unexpected {word[:100]!r}: the command takes no arguments")
    known = [flag.name for flag in verb.flags] + [f"{a.name_in_words}=" for a in verb.options]
    lists = [a.name_in_words for a in verb.options if a.kind is Kind.LIST and a.name not in found]
    hint = did_you_mean(word, known, f"; did you mean {lists[0]}=...?" if lists else f"; usage: {verb.usage}")
    return ProtocolError("bad-argument", f"unexpected {word[:100]!r}{hint}")


def _unknown_option(verb: Verb, name: str, *, is_flag: bool) -> ProtocolError:
    if is_flag:
        return ProtocolError("bad-argument", f"{name}: takes no value")
    hint = did_you_mean(name, [a.name_in_words for a in (*verb.positionals, *verb.options)])
    if verb.rest:
        hint += f"; to give it as {verb.rest.metavar}, write -- first"
    return ProtocolError("bad-argument", f"{name[:100]}: not an argument of {verb.name}{hint}")
