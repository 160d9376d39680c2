"""Requests in words, the format for people and netcat."""

from __future__ import annotations

import re
from typing import Final

from fakedev.wire.argument_values import from_text, from_words
from fakedev.wire.errors import ProtocolError
from fakedev.wire.grammar import Grammar, Request, Verb, did_you_mean

_PLAIN: Final = re.compile(r"[^ \t\r\n]+")
# Possessive, so that hostile lines cost linear time.
_PIECE: Final = re.compile(
    r"""(?P<plain>[^ \t\r\n'"\\]++)|(?P<gap>[ \t\r\n]++)"""
    r"""|'(?P<single>[^']*+)'|"(?P<double>(?:[^"\\]++|\\.)*+)"|\\(?P<one>.)""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r'\\(["\\])')
_OPTION: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)=(.*)", re.DOTALL)
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
    words: list[str] = []
    pieces: list[str] = []
    position = 0
    while position < len(text):
        piece = _PIECE.match(text, position)
        if piece is None:
            fault = "a backslash ends the line" if text[position] == "\\" else "a quote is not closed"
            raise ProtocolError("bad-argument", f"{fault}, at character {position + 1}")
        if piece["gap"] is None:
            pieces.append(_ESCAPE.sub(r"\1", piece["double"]) if piece["double"] is not None else _inner(piece))
        elif pieces:
            words.append("".join(pieces))
            pieces = []
        position = piece.end()
    return [*words, "".join(pieces)] if pieces else words


def quote_word(text: str) -> str:
    """A text as one word, in quotes if necessary."""
    if not _NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _inner(piece: re.Match[str]) -> str:
    return next((piece[name] for name in ("plain", "single", "one") if piece[name] is not None), "")


def _arguments(verb: Verb, words: list[str]) -> dict[str, object]:
    by_word = {argument.name_in_words: argument for argument in (*verb.positionals, *verb.options)}
    flags = verb.flag_names
    found: dict[str, object] = {}
    rest: list[str] = []
    for position, word in enumerate(words):
        if word == "--" and verb.rest:
            rest += words[position + 1 :]
            break
        option = _OPTION.fullmatch(word)
        if option is None:
            place = next((a for a in verb.positionals if a.name not in found), None)
            if place is not None:
                found[place.name] = from_text(place, word)
            elif verb.rest:
                rest.append(word)
            elif word in flags and word not in found:
                found[word] = True
            else:
                raise _unexpected(verb, word, already=word in found)
            continue
        argument = by_word.get(option[1])
        if argument is None:
            raise _unknown_option(verb, option[1], is_flag=option[1] in flags)
        found[argument.name] = from_text(argument, option[2], found.get(argument.name))
    if rest and verb.rest:
        found[verb.rest.name] = from_words(verb.rest, rest)
    return found


def _unexpected(verb: Verb, word: str, *, already: bool) -> ProtocolError:
    if already:
        return ProtocolError("bad-argument", f"{word}: given twice")
    known = [flag.name for flag in verb.flags] + [f"{a.name_in_words}=" for a in verb.options]
    hint = did_you_mean(word, known)
    return ProtocolError("bad-argument", f"unexpected {word[:100]!r}{hint or f'; usage: {verb.usage}'}")


def _unknown_option(verb: Verb, name: str, *, is_flag: bool) -> ProtocolError:
    if is_flag:
        return ProtocolError("bad-argument", f"{name}: takes no value")
    hint = did_you_mean(name, [a.name_in_words for a in (*verb.positionals, *verb.options)])
    if verb.rest:
        hint += f"; to give it as {verb.rest.metavar}, write -- first"
    return ProtocolError("bad-argument", f"{name[:100]}: not an argument of {verb.name}{hint}")
