"""Checks of JSON text without parsing it, so that the text may be invalid or incomplete."""

from __future__ import annotations

import json
import re
from typing import Final

# Possessive, and an unclosed string extends to the end of the text: hostile text costs linear time.
_TOKEN: Final = re.compile(rb'"((?:[^"\\]++|\\.?)*+)"?+[ \t\r\n]*+(:?)|([{\[])|[}\]]', re.DOTALL)


def has_top_level_key(text: bytes, key: str) -> bool:
    """Whether an object, complete or not, has this key at its top level, in this letter case."""
    if key.encode() not in text and b"\\" not in text:
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[1] is not None:
            if depth == 1 and token[2] and _unescaped(token[1]) == key:
                return True
        else:
            depth += 1 if token[3] else -1
    return False


def is_deeper_than(text: bytes, levels: int) -> bool:
    """Whether objects and arrays are nested in more than ``levels`` levels."""
    if text.count(b"{") + text.count(b"[") <= levels:
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[1] is None:
            depth += 1 if token[3] else -1
            if depth > levels:
                return True
    return False


def _unescaped(key: bytes) -> str:
    """A key as a parser would read it; empty if it is invalid."""
    text = key.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return ""
