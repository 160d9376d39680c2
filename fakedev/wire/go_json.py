"""JSON as Go's encoder writes it, as far as the original programs' messages need it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal

_TEXTS = json.JSONEncoder(ensure_ascii=False)  # json.dumps would make one for each text
_PLAIN_DIGITS_BELOW = 1e21
_PLAIN_DIGITS_FROM = 1e-6


def go_text(text: str) -> str:
    """A text in its quotes; not escaped is what need not be."""
    return _TEXTS.encode(text)


def go_number(number: float) -> str:
    """The shortest decimal number that reads as this one; with an exponent only below 1e-6 and from 1e21 on."""
    digits, exponent_mark, exponent = repr(float(number)).partition("e")
    if not exponent_mark:
        return digits.removesuffix(".0")
    if _PLAIN_DIGITS_FROM <= abs(number) < _PLAIN_DIGITS_BELOW:
        return format(Decimal(f"{digits}e{exponent}"), "f")
    sign, size = exponent[0], exponent[1:].lstrip("0")
    return f"{digits}e{sign}{size}"


def go_object(fields: Iterable[tuple[str, str]]) -> str:
    """An object, indented by tabs.

    :param fields: names and values; the values are JSON already.
    """
    return "{\n" + ",\n".join([f'\t"{name}": {value}' for name, value in fields]) + "\n}"


def go_texts(texts: Iterable[str]) -> str:
    """A list of texts, as the value of a field."""
    entries = ",\n".join(["\t\t" + go_text(text) for text in texts])
    return f"[\n{entries}\n\t]" if entries else "[]"
