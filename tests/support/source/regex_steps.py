"""Counts the steps of a regular expression: a plain backtracking matcher over Python's own parse tree.

Python's matcher has no counter, and clocks depend on the machine. This one tries the same things in the same order:
alternatives from left to right, greedy repeats from the longest, lazy ones from the shortest; possessive repeats and
atomic groups keep their first way. What it counts grows with the text as Python's time does.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from re import _constants as sre  # type: ignore[attr-defined]  # the parse tree has no public interface
from re import _parser  # type: ignore[attr-defined]
from typing import Any

#: A repeat without end: each expression with a smaller maximum costs a constant at each position.
_MANY = 50
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_DIGIT: str.isdecimal,
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_WORD: lambda sign: sign.isalnum() or sign == "_",
}
_NEGATED = {
    sre.CATEGORY_NOT_DIGIT: sre.CATEGORY_DIGIT,
    sre.CATEGORY_NOT_SPACE: sre.CATEGORY_SPACE,
    sre.CATEGORY_NOT_WORD: sre.CATEGORY_WORD,
}
_SINGLE = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN, sre.CATEGORY, sre.RANGE)
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)

Tree = Sequence[tuple[Any, Any]]


@cache
def _parsed(pattern: re.Pattern[Any]) -> Tree:
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return list(_parser.parse(text, pattern.flags & ~re.UNICODE & ~re.DEBUG))


class StepCounter:
    """Matches one expression, and counts.

    :ivar steps: characters compared and alternatives tried since the beginning.
    """

    def __init__(self, pattern: re.Pattern[Any], most: int) -> None:
        self.tree = _parsed(pattern)
        self._all_signs = bool(pattern.flags & re.DOTALL)
        self._lines = bool(pattern.flags & re.MULTILINE)
        self._ignore_case = bool(pattern.flags & re.IGNORECASE)
        self._most = most
        self._groups: dict[int, str] = {}
        self.steps = 0

    def fullmatch(self, text: str) -> bool:
        """As Python's."""
        return any(end == len(text) for end in self._match(self.tree, 0, text, 0))

    def match(self, text: str) -> bool:
        """As Python's."""
        return next(self._match(self.tree, 0, text, 0), None) is not None

    def find_all(self, text: str) -> int:
        """The number of matches that ``findall`` gives."""
        found = at = 0
        while at <= len(text):
            end = next(self._match(self.tree, 0, text, at), None)
            found += end is not None
            at = at + 1 if end is None or end == at else end
        return found

    def fits(self, op: Any, value: Any, sign: str) -> bool:
        """Whether a node for one character fits it."""
        if self._ignore_case and sign != sign.lower():
            return self.fits(op, value, sign.lower())
        if op is sre.LITERAL:
            return ord(sign) == value
        if op is sre.NOT_LITERAL:
            return ord(sign) != value
        if op is sre.ANY:
            return self._all_signs or sign != "\n"
        if op is sre.RANGE:
            return bool(value[0] <= ord(sign) <= value[1])
        if op is sre.CATEGORY:
            return not _CATEGORIES[_NEGATED[value]](sign) if value in _NEGATED else _CATEGORIES[value](sign)
        negated = value[0][0] is sre.NEGATE
        return any(self.fits(*item, sign) for item in value[negated:]) != negated

    def _count(self) -> None:
        self.steps += 1
        if self.steps > self._most:
            raise TooManySteps

    def _match(self, tree: Tree, place: int, text: str, at: int) -> Iterator[int]:
        """Each end that the rest of a sequence can have, in the order of Python's attempts."""
        if place == len(tree):
            yield at
            return
        for end in self._ends(*tree[place], text, at):
            yield from self._match(tree, place + 1, text, end)

    def _ends(self, op: Any, value: Any, text: str, at: int) -> Iterator[int]:
        self._count()
        if op in _SINGLE:
            if at < len(text) and self.fits(op, value, text[at]):
                yield at + 1
        elif op in _REPEATS:
            low, high, body = value
            ways = self._repeated(op, low, high, list(body), text, at)
            yield from itertools.islice(ways, 1) if op is sre.POSSESSIVE_REPEAT else ways
        elif op is sre.BRANCH:
            for branch in value[1]:
                yield from self._match(list(branch), 0, text, at)
        elif op is sre.SUBPATTERN:
            for end in self._match(list(value[3]), 0, text, at):
                self._groups[value[0]] = text[at:end]
                yield end
        elif op is sre.ATOMIC_GROUP:
            yield from itertools.islice(self._match(list(value), 0, text, at), 1)
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            yield from [at] * (self._looks(value, text, at) == (op is sre.ASSERT))
        elif op is sre.AT:
            yield from [at] * self._stands(value, text, at)
        elif op is sre.GROUPREF:
            group = self._groups.get(value, "")
            yield from [at + len(group)] * text.startswith(group, at)
        else:
            raise NotImplementedError(f"{op}: tell this matcher what it does")

    def _repeated(self, op: Any, low: int, high: int, body: Tree, text: str, at: int) -> Iterator[int]:
        if len(body) == 1 and body[0][0] in _SINGLE:
            end = at
            while end < len(text) and end - at < high and self.fits(*body[0], text[end]):
                self._count()
                end += 1
            ends = range(at + low, end + 1) if op is sre.MIN_REPEAT else range(end, at + low - 1, -1)
            for each in ends:
                self._count()
                yield each
            return
        yield from self._more(op is sre.MIN_REPEAT, low, high, body, text, at)

    def _more(self, is_lazy: bool, low: int, high: int, body: Tree, text: str, at: int) -> Iterator[int]:
        if low <= 0 and is_lazy:
            yield at
        if high > 0:
            for end in self._match(body, 0, text, at):
                if end > at or low > 0:
                    yield from self._more(is_lazy, low - 1, high - 1, body, text, end)
        if low <= 0 and not is_lazy:
            yield at

    def _looks(self, value: Any, text: str, at: int) -> bool:
        direction, body = value
        if direction > 0:
            return next(self._match(list(body), 0, text, at), None) is not None
        width = body.getwidth()[0]
        return at >= width and at in self._match(list(body), 0, text, at - width)

    def _stands(self, where: Any, text: str, at: int) -> bool:
        if where in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
            return at == 0 or (self._lines and text[at - 1] == "\n")
        if where in (sre.AT_END, sre.AT_END_STRING):
            return at == len(text) or (self._lines and text[at] == "\n") or text[at:] == "\n"
        if where == sre.AT_BOUNDARY:
            is_word = _CATEGORIES[sre.CATEGORY_WORD]
            return is_word(text[max(at - 1, 0) : at]) != is_word(text[at : at + 1])
        raise NotImplementedError(f"{where}: tell this matcher what it does")


class TooManySteps(Exception):
    """A matcher has made as many steps as it may."""


def signs(counter: StepCounter) -> str:
    """A character for each set that the expression tells apart, and one that it does not know."""
    nodes = list(_single_nodes(counter.tree))
    candidates = "\N{ARABIC-INDIC DIGIT ONE}\N{GREEK SMALL LETTER ALPHA}"
    candidates = "a1 .,:-_/=\"'\\{}()[]<>%#+*$\n\tZsmeExX0|@!~\0\x7f" + candidates
    candidates += "".join(chr(value) for op, value in nodes if op is sre.LITERAL)
    chosen: dict[tuple[bool, ...], str] = {}
    for sign in candidates:
        chosen.setdefault(tuple(counter.fits(op, value, sign) for op, value in nodes), sign)
    return "".join(chosen.values())


def beginnings(tree: Tree, counter: StepCounter, alphabet: str) -> Iterator[tuple[str, Tree]]:
    """Each repeat without end, with a text that leads to it."""
    before = ""
    for op, value in tree:
        if op in _REPEATS:
            if value[1] >= _MANY:
                yield before, list(value[2])
            yield from ((before + text, body) for text, body in beginnings(list(value[2]), counter, alphabet))
        elif op is sre.BRANCH:
            for branch in value[1]:
                yield from ((before + text, body) for text, body in beginnings(list(branch), counter, alphabet))
        elif op in (sre.SUBPATTERN, sre.ATOMIC_GROUP):
            body = list(value[3] if op is sre.SUBPATTERN else value)
            yield from ((before + text, inner) for text, inner in beginnings(body, counter, alphabet))
        before += sample([(op, value)], counter, alphabet)


def sample(tree: Tree, counter: StepCounter, alphabet: str) -> str:
    """A short text that a tree matches; optional parts are left out."""
    made = ""
    for op, value in tree:
        if op in _SINGLE:
            made += next((sign for sign in alphabet if counter.fits(op, value, sign)), "")
        elif op in _REPEATS:
            made += sample(list(value[2]), counter, alphabet) * value[0]
        elif op is sre.BRANCH:
            made += sample(list(value[1][0]), counter, alphabet)
        elif op in (sre.SUBPATTERN, sre.ATOMIC_GROUP):
            made += sample(list(value[3] if op is sre.SUBPATTERN else value), counter, alphabet)
    return made


def _single_nodes(tree: Tree) -> Iterator[tuple[Any, Any]]:
    for op, value in tree:
        if op is sre.IN or op in _SINGLE:
            yield op, value
        elif op in _REPEATS:
            yield from _single_nodes(list(value[2]))
        elif op is sre.BRANCH:
            for branch in value[1]:
                yield from _single_nodes(list(branch))
        elif op is sre.SUBPATTERN:
            yield from _single_nodes(list(value[3]))
        elif op is sre.ATOMIC_GROUP:
            yield from _single_nodes(list(value))
        elif op in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _single_nodes(list(value[1]))


def hostile_texts(counter: StepCounter, length: int) -> Iterator[str]:
    """Long texts of characters that the expression knows, with a beginning that fits and an end that does not."""
    alphabet = signs(counter)
    starts = {"": [""]}
    for text, body in beginnings(counter.tree, counter, alphabet):
        starts.setdefault(text, []).append(sample(body, counter, alphabet))
    pairs = [*alphabet, *("".join(pair) for pair in itertools.permutations(alphabet[:8], 2))]
    for start, samples in starts.items():
        for pump in dict.fromkeys([*samples, *(each + start for each in samples), *pairs]):
            if pump:
                for end in ("", *alphabet[:10]):
                    yield start + (pump * length)[:length] + end
