"""What an upgrade of an exporter does to PromQL: expressions with the new names and units, and recording rules.

The text of an expression is changed where it names a series or a label; all else stays as it is written. Values are
brought back to the old unit, so that the numbers with which an expression compares stay right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final

from fakedev.exporters.counterparts import Counterpart, Renamed
from fakedev.scenario.rules.alert_rules import LABEL_LISTS, closing_of, labels_of, masked, metrics_of

#: Functions and aggregations whose result does not depend on the unit; Grafana's label_values takes only a selector.
_UNSCALED: Final = frozenset((
    "absent", "absent_over_time", "changes", "count", "count_over_time", "group", "label_values", "present_over_time",
    "resets", "sgn", "timestamp",
))  # fmt: skip
#: What may follow the name of a selector: matchers, then a window, or when it is evaluated.
_MATCHERS: Final = re.compile(r"\s*+\{[^{}]*+\}")
_BRACES: Final = re.compile(r"\{[^{}]*+\}")
_RANGE: Final = re.compile(r"\s*+\[[^\[\]:]*+\]")
_MODIFIERS: Final = re.compile(r"(?:\s*+(?:offset\s++-?[\w.]++|@\s*+(?:[\d.]++|(?:start|end)\(\))))++")
_SPACE: Final = re.compile(r"\s*+")
_FUNCTION: Final = re.compile(r"(?<!\w)(\w++)\s*+(?:(?:by|without)\s*+\([^()]*+\)\s*+)?$")
_NAME: Final = re.compile(r"(?<![\w:.$])[a-zA-Z_:][\w:]*+(?!\s*+\()")
_LABEL: Final = re.compile(r"(?<![\w.])[a-zA-Z_]\w*+(?=\s*+(?:[=!]|$))")
_WORD: Final = re.compile(r"\w++")
#: The label whose values a variable of Grafana has.
_LABEL_VALUES: Final = re.compile(r"(?<=,)\s*+\w++\s*+(?=\)$)")
_SHOWN_LABEL: Final = re.compile(r"\$labels\.(\w++)")
#: The group of recording rules that give new series their old names.
_BRIDGE: Final = "fakedev-old-names"


def rewritten(expression: str, names: Renamed) -> str:
    """An expression that selects the new series, with labels by their new names and values in their old units."""
    text = _with_labels(expression, names.labels)
    # From the last one on; parentheses may be put before those that are left, but no names.
    for number in reversed(range(len(_NAME.findall(masked(text))))):
        plain = masked(text)
        found = list(_NAME.finditer(plain))[number]
        if found[0] in names.families and plain.rfind("{", 0, found.start()) <= plain.rfind("}", 0, found.start()):
            text = _with_name(text, found.start(), found.end(), names.families[found[0]])
    return text


def changes(expression: str, names: Renamed) -> list[str]:
    """What becomes of the metrics and labels that an expression names, each in words; empty for nothing."""
    metrics, labels = sorted(metrics_of(expression)), sorted(labels_of(expression) | _listed(expression))
    families = {name: names.families[name] for name in metrics if name in names.families}
    return [
        *(f"{name} is {new.selector}" + (f", {in_words(new.factor)}" if new.factor != 1.0 else "")
          for name, new in families.items()),
        *(f"{name} is gone" for name in metrics if name in names.lost_families),
        *(f"label {name} is {names.labels[name]}" for name in labels if name in names.labels),
        *(f"label {name} is gone" for name in labels if name in names.lost_labels),
    ]  # fmt: skip


def bridge(names: Renamed, used: frozenset[str]) -> dict[str, Any]:
    """A group of recording rules by which series also have their old names, labels and units.

    :param used: the old names that are needed.
    """
    rules = []
    for name, new in names.families.items():
        expression = f"{new.selector}{_back(new.factor)}"
        for old_label, label in names.labels.items():
            expression = f'label_replace({expression}, "{old_label}", "$1", "{label}", "(.+)")'
        if name in used and name != new.name:
            rules.append({"record": name, "expr": expression})
    return {"name": _BRIDGE, "rules": rules}


def rewritten_groups(groups: Iterable[Mapping[str, Any]], names: Renamed) -> list[dict[str, Any]]:
    """Groups of a rule file with their expressions, and the labels that annotations show, as they are called now."""

    def annotation(text: str) -> str:
        return _SHOWN_LABEL.sub(lambda found: f"$labels.{names.labels.get(found[1], found[1])}", text)

    return [
        {
            **group,
            "rules": [
                {
                    **rule,
                    "expr": rewritten(rule["expr"], names),
                    **{
                        key: {name: annotation(text) for name, text in rule[key].items()}
                        for key in ("labels", "annotations")
                        if key in rule
                    },
                }
                for rule in group["rules"]
            ],
        }
        for group in groups
    ]


def _with_labels(expression: str, labels: Mapping[str, str]) -> str:
    """An expression with other names of labels, in matchers and in lists of labels."""
    plain = masked(expression)
    matchers = ((found, _LABEL) for found in _BRACES.finditer(plain))
    patterns = (LABEL_LISTS, _LABEL_VALUES) if plain.startswith("label_values(") else (LABEL_LISTS,)
    lists = ((found, _WORD) for pattern in patterns for found in pattern.finditer(plain))
    places = {
        (found.start() + word.start(), found.start() + word.end())
        for found, pattern in chain(matchers, lists)
        for word in pattern.finditer(found[0])
        if word[0] in labels
    }
    for begin, end in sorted(places, reverse=True):
        expression = expression[:begin] + labels[expression[begin:end]] + expression[end:]
    return expression


def _with_name(text: str, begin: int, end: int, new: Counterpart) -> str:
    """A text with another name of a series, and its values in the old unit.

    :param begin, end: of the old name.
    """
    plain = masked(text)
    after = _end(_MATCHERS, plain, end)
    closing = closing_of(plain)
    opening = max((place for place, closes in closing.items() if place < begin < closes), default=-1)
    function = _FUNCTION.search(plain, 0, opening) if opening >= 0 else None
    # Of a comparison in the same parentheses the result depends on it.
    is_argument = plain.startswith((")", ","), _end(_SPACE, plain, _end(_MODIFIERS, plain, _end(_RANGE, plain, after))))
    is_scaled = new.factor != 1.0 and not (is_argument and function and function[1].lower() in _UNSCALED)
    matchers = text[end:after].strip()[1:-1].strip()
    matchers = ",".join(filter(None, (new.matchers, matchers)))
    series = f"{new.name}{{{matchers}}}" if new.matchers else new.name + text[end:after]
    if is_scaled and _RANGE.match(plain, after):
        # Only what a function makes of a range is a number.
        first, last = (function.start(), closing[opening] + 1) if function else (begin, after)
        series = text[first:begin] + series + text[after:last]
    else:
        first, last = begin, _end(_MODIFIERS, plain, after)
        series += text[after:last]
    if is_scaled:
        is_alone = text[:first].rstrip().endswith("(") and text[last:].lstrip().startswith(")")
        series = f"{series}{_back(new.factor)}" if is_alone else f"({series}{_back(new.factor)})"
    return text[:first] + series + text[last:]


def _end(pattern: re.Pattern[str], text: str, begin: int) -> int:
    """The end of what follows a place, if it is there."""
    found = pattern.match(text, begin)
    return found.end() if found else begin


def _listed(expression: str) -> frozenset[str]:
    """The labels of groupings and matchings."""
    return frozenset(word for found in LABEL_LISTS.findall(masked(expression)) for word in _WORD.findall(found)[1:])


def _back(factor: float) -> str:
    """The operation from new values to old ones."""
    if factor == 1.0:
        return ""
    return f" / {_number(factor)}" if factor > 1 else f" * {_number(1 / factor)}"


def in_words(factor: float) -> str:
    """How values have changed."""
    return f"{_number(factor)} times as large" if factor > 1 else f"divided by {_number(1 / factor)}"


def _number(factor: float) -> str:
    rounded = round(factor, 9)
    return f"{rounded:.0f}" if rounded == int(rounded) else f"{rounded:.9g}"
