"""Label and field selectors of lists and watches, as the API server in memory understands them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Item = dict[str, Any]
_SET = re.compile(r"\s*([^\s!=,()]+)\s+(in|notin)\s+\(([^)]*)\)\s*")
#: Those of nodes and pods, and of Events, as ``kubectl describe`` asks for them.
_FIELDS = frozenset((
    "metadata.name", "metadata.namespace", "spec.nodeName", "status.phase", "reason", "type",
    "involvedObject.kind", "involvedObject.name", "involvedObject.namespace", "involvedObject.uid",
))  # fmt: skip
_SEPARATOR = re.compile(r",(?![^(]*\))")


def selection(label_selector: str, field_selector: str) -> Callable[[Item], bool]:
    """Whether an object is selected by both.

    :raises ValueError: for a field that cannot be selected.
    """
    labels = [_label_test(part) for part in _SEPARATOR.split(label_selector) if part.strip()]
    fields = [_field_test(part) for part in field_selector.split(",") if part.strip()]

    def selects(item: Item) -> bool:
        held = item["metadata"].get("labels") or {}
        return all(test(held) for test in labels) and all(test(item) for test in fields)

    return selects


def _label_test(text: str) -> Callable[[dict[str, str]], bool]:
    if of_set := _SET.fullmatch(text):
        name, word = of_set[1], of_set[2]
        values = {value.strip() for value in of_set[3].split(",")}
        return lambda labels: (labels.get(name) in values) == (word == "in")
    text = text.strip()
    if "!=" in text:
        name, _, value = text.partition("!=")
        return lambda labels: labels.get(name.strip()) != value.strip()
    if "=" in text:
        name, _, value = text.replace("==", "=").partition("=")
        return lambda labels: labels.get(name.strip()) == value.strip()
    if text.startswith("!"):
        return lambda labels: text[1:].strip() not in labels
    return lambda labels: text in labels


def _field_test(text: str) -> Callable[[Item], bool]:
    is_equal = "!=" not in text
    path, _, value = text.replace("!=", "=").replace("==", "=").partition("=")
    if path not in _FIELDS:
        raise ValueError(f"field label not supported: {path}")

    def selects(item: Item) -> bool:
        found: Any = item
        for part in path.split("."):
            found = found.get(part, {}) if isinstance(found, dict) else {}
        return ((found or "") == value) == is_equal

    return selects
