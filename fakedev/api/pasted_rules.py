"""The expressions of alert rules that were pasted, with their line ends or, from a field of one line, without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from fakedev.schema.places import Listing, Node, Report, Scalar, Table
from fakedev.schema.reader import read_document

#: Longer texts are not read as YAML, which takes some microseconds for each character.
_MAX_CHARACTERS: Final = 8000
_HAS_RULE: Final = re.compile(r"(?:^|[\s{,])[\"']?expr[\"']?:")
#: In a text that lost its line ends, and is no YAML any more.
_RULE: Final = re.compile(
    r"(?:^|\s)expr:\s*+(?:[|>]-?\s)?+(.+?)(?=\s(?:for|labels|annotations|keep_firing_for):|\s- (?:alert|record):|$)",
    re.DOTALL,
)


def expressions_of(text: str) -> list[str]:
    """The expressions of the rules of a text, as a file of rules is read; empty if it has no rule."""
    if not _HAS_RULE.search(text):
        return []
    if "\n" not in text:
        text = text.replace("\\n", "\n")  # as a shell leaves it in quotes
    tree = read_document(text, "", Report()) if len(text) <= _MAX_CHARACTERS else None
    found = list(_expressions(tree)) if tree is not None else list(map(_unquoted, _RULE.findall(text)))
    return [each.strip() for each in found]


def _expressions(node: Node) -> Iterator[str]:
    if isinstance(node, Scalar):
        return
    if isinstance(node, Table) and isinstance(expression := node.get("expr"), Scalar):
        yield expression.text
    for child in node.items if isinstance(node, Listing) else (each for _, each in node.entries):
        yield from _expressions(child)


def _unquoted(text: str) -> str:
    """Without the quotes around it."""
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[0] == text[-1] else text
