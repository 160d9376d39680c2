"""Alert rules that were pasted, with their line ends or, from a field of one line, without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from fakedev.schema.places import ConfigurationError, Listing, Node, Report, Scalar, Table
from fakedev.schema.reader import read_document

#: Longer texts are not read as YAML, which takes some microseconds for each character.
_MAX_CHARACTERS: Final = 8000
_HAS_RULE: Final = re.compile(r"(?:^|[\s{,])[\"']?expr[\"']?:")
#: In a text that lost its line ends, and is no YAML any more.
_RULE: Final = re.compile(
    r"(?:^|\s)expr:\s*+(?:[|>]-?\s)?+(.+?)(?=\s(?:for|labels|annotations|keep_firing_for):|\s- (?:alert|record):|$)",
    re.DOTALL,
)


_ALERT: Final = re.compile(r"(?:^|\s)(?:alert|record):\s*+(\S++)")
_FOR: Final = re.compile(r"\sfor:\s*+(\S++)")


class PastedRule(NamedTuple):
    """A rule.

    :ivar alert: its name; empty without one.
    :ivar wait: its ``for``; empty without one.
    """

    expression: str
    alert: str = ""
    wait: str = ""


def rules_of(text: str) -> list[PastedRule]:
    """The rules of a text, as a file of rules is read; empty if it has no rule."""
    if not _HAS_RULE.search(text):
        return []
    if "\n" not in text:
        text = text.replace("\\n", "\n")  # as a shell leaves it in quotes
    tree = None
    with suppress(ConfigurationError):  # too many mistakes to go on
        tree = read_document(text, "", Report()) if len(text) <= _MAX_CHARACTERS else None
    return list(_in_tree(tree) if tree is not None else _in_line(text))


def _in_tree(node: Node) -> Iterator[PastedRule]:
    if isinstance(node, Scalar):
        return
    if isinstance(node, Table):
        texts = {key: each.text for key in ("expr", "alert", "for") if isinstance(each := node.get(key), Scalar)}
        if "expr" in texts:
            yield PastedRule(texts["expr"].strip(), texts.get("alert", ""), texts.get("for", ""))
    for child in node.items if isinstance(node, Listing) else (child for _, child in node.entries):
        yield from _in_tree(child)


def _in_line(text: str) -> Iterator[PastedRule]:
    """The rules of a text that is no YAML: each key is looked for between the expressions before and after it."""
    found = list(_RULE.finditer(text))
    ends = [0, *(match.end() for match in found)]
    begins = [*(match.start() for match in found), len(text)]
    for number, match in enumerate(found):
        names = _ALERT.findall(text[ends[number] : match.start()])
        wait = _FOR.search(text[match.end() : begins[number + 1]])
        yield PastedRule(_unquoted(match[1]), _unquoted(names[-1]) if names else "", wait[1] if wait else "")


def _unquoted(text: str) -> str:
    """Without the quotes around it."""
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[0] == text[-1] else text
