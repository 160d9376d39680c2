"""Durations and sizes as people write them, to plain numbers. Imports no NumPy: small commands use it."""

from __future__ import annotations

import math
import re
from typing import Final

_DURATION_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE_UNITS: Final = {
    "": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
#: Longer texts are no duration: looking for its parts in one would take time that grows with the square.
_MAX_CHARACTERS: Final = 64
LONGEST_SECONDS: Final = 1e10  # some 300 years: beyond it a float loses the milliseconds


def parse_duration(text: str) -> float:
    """Seconds of ``250ms``, ``1.5s``, ``1h30m`` or ``0``.

    :raises ValueError: with a text that says what would be right.
    """
    stripped = text.strip()
    if stripped == "0":
        return 0.0
    parts = _PART.findall(stripped) if len(stripped) <= _MAX_CHARACTERS else []
    if not parts or "".join(number + unit for number, unit in parts) != stripped:
        raise ValueError(f"{text!r} is no duration: give a number with ms, s, m, h or d, as 250ms or 1h30m")
    seconds = sum(float(number) * _DURATION_UNITS[unit] for number, unit in parts)
    if seconds > LONGEST_SECONDS:
        raise ValueError(f"{text!r} is too long: at most {LONGEST_SECONDS:.0f} seconds")
    return seconds


def format_duration(seconds: float) -> str:
    """A duration as :func:`parse_duration` reads it: the largest unit that keeps it whole."""
    milliseconds = round(seconds * 1000)
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0"


def parse_size(text: str) -> int:
    """Bytes of ``512MiB``, ``80GB`` or ``1024``.

    :raises ValueError: with a text that says what would be right.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or match[2] not in _SIZE_UNITS:
        raise ValueError(f"{text!r} is no size: give bytes, or a number with kB, MB, GB, KiB, MiB, GiB or TiB")
    size = float(match[1]) * _SIZE_UNITS[match[2]]
    if not math.isfinite(size) or size > 2**60:
        raise ValueError(f"{text!r} is too large: at most 1 EiB")
    return round(size)
