"""Values as answers in words show them."""

from __future__ import annotations

from fakedev.wire.words import quote_word

#: Characters of one value in a line of many.
LONGEST_SHOWN = 400


def shown_value(value: object) -> str:
    """A value as one word."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{key}:{shown_value(each)}" for key, each in value.items())
    return quote_word(str(value)) if isinstance(value, str) else str(value)


def shortened(text: str) -> str:
    """A text of a line of many, cut where it is long."""
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."


def cut(lines: list[str], total: int) -> list[str]:
    """The lines, and how many more there would be."""
    return lines if len(lines) == total else [*lines, f"... and {total - len(lines)} more"]
