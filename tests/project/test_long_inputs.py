"""Texts of peers and users cost time that grows with their length, not with its square.

Each text below is as long as a message may be, and took a minute or more with expressions that backtrack.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from fakedev.exposition.captured import read_page
from fakedev.spec.shards import parse_shard
from fakedev.spec.units import parse_duration, parse_seconds, parse_size
from fakedev.wire.errors import ProtocolError
from fakedev.wire.fleet_verbs import WORKLOAD_GRAMMAR
from fakedev.wire.words import parse_words

_LENGTH = 65_000
_DIGITS = "1" * _LENGTH
#: Far more than linear time takes on a slow machine, and far less than quadratic time takes on a fast one.
_MAX_SECONDS = 5.0


def _words(text: str) -> None:
    parse_words(text.encode(), WORKLOAD_GRAMMAR)


def _page(line: str) -> None:
    read_page(line + "\n")


CASES: list[tuple[Callable[[str], object], str]] = [
    (_words, f"advance {_DIGITS}x"),
    (_words, f"advance {_DIGITS}.{_DIGITS}x"),
    (_words, f"run a devices=all profile=100 limit=power:{_DIGITS}x"),
    (parse_seconds, _DIGITS + "x"),
    (parse_seconds, _DIGITS + "e" + _DIGITS + "x"),
    (parse_duration, _DIGITS + "x"),
    (parse_size, _DIGITS + " " * _LENGTH + "!"),
    (parse_shard, _DIGITS),
    (_page, "m{" + "a" * _LENGTH + "} 1"),
    (_page, 'm{a="' + "\\\\" * _LENGTH + "} 1"),
    (_page, 'm{a="b"' * 8000 + " 1"),
]


@pytest.mark.parametrize(("parse", "text"), CASES, ids=[f"{parse.__name__}-{text[:24]}" for parse, text in CASES])
def test_long_texts_take_linear_time(parse: Callable[[str], object], text: str) -> None:
    """They are accepted or refused at once."""
    began = time.process_time()
    with contextlib.suppress(ValueError, ProtocolError):
        parse(text)
    assert time.process_time() - began < _MAX_SECONDS
