"""Facts from labels: the templates of an identity's labels read backwards."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

from fakedev.exposition.identity import LabelSpec

#: A template with one fact: the text before it, the fact, how it is changed, the text after it.
_ONE_FACT: Final = re.compile(r"([^{}]*+)\{(\w++)(?:\|(\w++))?+\}([^{}]*+)")


def _number_before(text: str) -> str:
    """The number before a whole number: exporters may count from 1."""
    return str(int(text) - 1) if text.isdecimal() and int(text) else ""


#: How changes of facts are undone; the others cannot be.
_UNDONE: Final[Mapping[str, Callable[[str], str]]] = {
    "": str,
    "upper": str.lower,
    "lower": str,
    "next": _number_before,
}


@lru_cache(maxsize=1024)
def _reader(template: str) -> tuple[str, str, Callable[[str], str], str] | None:
    """What is before the fact of a template, the fact, how its change is undone, and what is after it."""
    found = _ONE_FACT.fullmatch(template)
    if found is None or (found[3] or "") not in _UNDONE:
        return None
    return found[1], found[2], _UNDONE[found[3] or ""], found[4]


def unescaped(value: str) -> str:
    """A label value of a page without the text format's escapes."""
    if "\\" not in value:
        return value
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value)


def facts_of(labels: Mapping[str, str], specs: Iterable[LabelSpec]) -> dict[str, str]:
    """The facts that labels show.

    :param labels: of a line, not escaped.
    :param specs: the labels of the identity; those whose template has several facts, or a change that loses something,
        show none.
    """
    facts: dict[str, str] = {}
    for spec in specs:
        reader = _reader(spec.value)
        value = labels.get(spec.name)
        if reader is None or not value or spec.texts:
            continue
        before, fact, undone, after = reader
        if value.startswith(before) and value.endswith(after) and len(value) > len(before) + len(after):
            text = undone(value[len(before) : len(value) - len(after)])
            if text:
                facts.setdefault(fact, text)
    return facts
