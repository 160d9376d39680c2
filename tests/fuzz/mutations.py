"""Changes of an input that are known to hurt programs that read."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Final

#: A little more than a message of a line port, or a body of the API, may have.
MAX_BYTES: Final = 66_000

_NUMBERS: Final = (
    b"0", b"-0", b"-1", b"1e999", b"-1e999", b"1e-999", b".5", b"5.", b"+1", b"1_000", b"0x10", b"007", b"nan", b"inf",
    b"-Infinity", b"1.5", b"100000", b"65536", b"2147483648", b"4294967296", b"9223372036854775808",
    b"18446744073709551616", b"1e308", b"1e15", b"0.1e1", b"\xd9\xa1\xd9\xa2", b"\xef\xbc\x91", b"1" * 400, b"1:30",
    b"\xc2\xb2", b"1,5", b"1e", b"--1", b"1" * 4400,
)  # fmt: skip
_VALUES: Final = (
    b"null", b"true", b"~", b"[]", b"{}", b'""', b"''", b"[null]", b'{"": 1}', b"[[]]", b"yes", b"!!binary x", b"*a",
    b"&a [*a]", b"<<: x", b"${X}", b"${", b"$$", b"|", b">-", b"all", b"none", b"- x", b"? x", b"!!python/object:x y",
)  # fmt: skip
_SIGNS: Final = (
    b"\0", b"\x01", b"\x7f", b"\x85", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80\xa8",
    b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\xcc\x81", b"\xf0\x9f\x98\x80", b"\xc4\xb0", b"\xc3\x9f", b"\\ud800",
    b"\\u0000", b"\\", b'"', b"'", b"`", b"\t", b"\r", b"\n", b"\r\n", b"\n\n", b"\r\r\n", b"\x0b", b"\x0c", b"\x1b[2J",
    b"%", b"%s", b"%00", b"{", b"}", b"[", b"]", b"(", b")", b":", b"::", b",", b",,", b"=", b"/", b"//", b"../", b"*",
    b"?", b"#", b"-", b"--", b"<", b">", b"&", b";", b"|", b"~", b"@", b" ", b"  ", b"\x16\x03\x01",
)  # fmt: skip
_OPENERS: Final = (b"[", b'{"a":', b"(", b"{", b"- ", b'["', b"ramp(", b"!", b"\\", b'"\\"', b"<!--", b"a: ")
_NUMBER: Final = re.compile(rb"[0-9]+(?:\.[0-9]+)?")
_WORD: Final = re.compile(rb"[A-Za-z][A-Za-z0-9_-]*")
_FIELD: Final = re.compile(rb'"[^"\n]{0,60}"\s?:\s?[^,{}\[\]\n]{1,60}|[^\n,]{1,80}\n|[^\s,]{1,60}')


class Mutator:
    """Makes inputs from others.

    :param words: what the target knows: verbs, keys, names.
    """

    def __init__(self, chance: random.Random, words: Sequence[bytes] = (), max_bytes: int = MAX_BYTES) -> None:
        self._chance = chance
        self._max_bytes = max_bytes
        self._words = tuple(words) or (b"x",)
        self._ways: tuple[Callable[[bytes], bytes], ...] = (
            self._number, self._number, self._value, self._word, self._sign, self._sign, self._delete, self._repeat,
            self._double, self._nest, self._swap, self._cut, self._ends, self._bits, self._letters, self._long,
        )  # fmt: skip

    def changed(self, data: bytes, other: bytes) -> bytes:
        """An input with some changes; now and then its beginning goes before the end of another one."""
        if self._chance.random() < 0.1:
            data = data[: self._place(data)] + other[self._place(other) :]
        for _ in range(1 + min(int(self._chance.expovariate(0.8)), 6)):
            data = self._chance.choice(self._ways)(data)[: self._max_bytes]
        return data

    def _place(self, data: bytes) -> int:
        return self._chance.randint(0, len(data))

    def _found(self, pattern: re.Pattern[bytes], data: bytes) -> tuple[int, int]:
        """One of the pattern's matches, near a random place."""
        start = self._place(data)
        match = pattern.search(data, start) or pattern.search(data)
        return match.span() if match else (start, start)

    def _into(self, data: bytes, span: tuple[int, int], new: bytes) -> bytes:
        return data[: span[0]] + new + data[span[1] :]

    def _number(self, data: bytes) -> bytes:
        return self._into(data, self._found(_NUMBER, data), self._chance.choice(_NUMBERS))

    def _value(self, data: bytes) -> bytes:
        begin, end = self._found(_FIELD, data)
        colon = data.find(b":", begin, end)
        return self._into(data, (colon + 1 if colon > 0 else begin, end), b" " + self._chance.choice(_VALUES))

    def _word(self, data: bytes) -> bytes:
        place = self._place(data)
        span = self._found(_WORD, data) if self._chance.random() < 0.7 else (place, place)
        return self._into(data, span, self._chance.choice(self._words))

    def _sign(self, data: bytes) -> bytes:
        place = self._place(data)
        return self._into(data, (place, place), self._chance.choice(_SIGNS))

    def _delete(self, data: bytes) -> bytes:
        place = self._place(data)
        return data[:place] + data[place + self._chance.choice((1, 1, 2, 5, 20, 200)) :]

    def _repeat(self, data: bytes) -> bytes:
        place = self._place(data)
        part = data[place : place + self._chance.choice((1, 1, 2, 5, 20, 200))]
        return self._into(data, (place, place), part * self._chance.choice((1, 2, 10, 100, 3000)))

    def _double(self, data: bytes) -> bytes:
        begin, end = self._found(_FIELD, data)
        return self._into(data, (end, end), self._chance.choice((b"", b", ", b"\n")) + data[begin:end])

    def _nest(self, data: bytes) -> bytes:
        place = self._place(data)
        opener = self._chance.choice(_OPENERS)
        return self._into(data, (place, place), opener * self._chance.choice((1, 3, 30, 100, 1000, 10_000)))

    def _swap(self, data: bytes) -> bytes:
        one, other = sorted((self._found(_FIELD, data), self._found(_FIELD, data)))
        if one[1] > other[0]:
            return data
        return data[: one[0]] + data[slice(*other)] + data[one[1] : other[0]] + data[slice(*one)] + data[other[1] :]

    def _cut(self, data: bytes) -> bytes:
        return data[: self._place(data)] if self._chance.random() < 0.5 else data[self._place(data) :]

    def _ends(self, data: bytes) -> bytes:
        ends = (b"\r\n", b"\r", b"\n\n", b"\n ", b"", b"\0\n", b"\n\t", b"\x85")
        return data.replace(b"\n", self._chance.choice(ends))

    def _bits(self, data: bytes) -> bytes:
        place = self._place(data)
        return data[:place] + bytes([self._chance.randrange(256)]) + data[place + 1 :]

    def _letters(self, data: bytes) -> bytes:
        begin, end = self._found(_WORD, data)
        change = self._chance.choice((bytes.upper, bytes.lower, bytes.title))
        return self._into(data, (begin, end), change(data[begin:end]))

    def _long(self, data: bytes) -> bytes:
        begin, end = self._found(_WORD, data)
        part = self._chance.choice((data[begin:end], *_SIGNS, b"a", b"1", b" "))
        length = self._chance.choice((300, 5000, 65_000, 140_000))
        return self._into(data, (begin, end), part * (length // max(1, len(part))))
