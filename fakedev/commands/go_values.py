"""Values of command-line options, read as Go's flag package reads them."""

from __future__ import annotations

import math
import re
from typing import Final

_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_PLAIN_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_OLD_OCTAL: Final = re.compile(r"([+-]?)0(_?[0-7])+")
_WHOLE: Final = re.compile(r"[+-]?[0-9a-zA-Z_]+", re.ASCII)


def parse_boolean(text: str) -> bool:
    """True or False, in the spellings that Go takes."""
    if text not in _BOOLEANS:
        raise ValueError(f"{text!r} is neither true nor false")
    return _BOOLEANS[text]


def parse_integer(text: str) -> int:
    """A 64-bit whole number; 0x, 0o, 0b, a leading 0 (octal) and _ between digits as in Go."""
    value = _whole(text)
    if value is None or not -(2**63) <= value < 2**63:
        raise ValueError(f"{text!r} is no whole number")
    return value


def parse_unsigned(text: str) -> int:
    """A 64-bit whole number from 0 up, without a sign."""
    value = _whole(text)
    if value is None or text[0] in "+-" or value >= 2**64:
        raise ValueError(f"{text!r} is no whole number from 0 up")
    return value


def parse_number(text: str) -> float:
    """A finite decimal number."""
    value = float(text) if _PLAIN_NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is no finite number")
    return value


def _whole(text: str) -> int | None:
    if not _WHOLE.fullmatch(text):
        return None
    try:
        return int(text, 8 if _OLD_OCTAL.fullmatch(text) else 0)
    except ValueError:
        return None
