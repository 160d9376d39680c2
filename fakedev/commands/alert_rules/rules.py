"""Reads the rule files of Prometheus: as Prometheus loads them, or as a PrometheusRule of a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fakedev.config.schema.documents import read_document
from fakedev.config.schema.nodes import Listing, Node, Place, Report, Scalar, Table
from fakedev.spec.units import parse_duration

#: The most alert rules of a file that are tried.
MAX_ALERTS: Final = 500
#: The label by which an alert rule is found again among the alerts.
RULE_LABEL: Final = "fakedev_rule"
_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?+|\'(?:[^\'\\]|\\.)*+\'?+|`[^`]*+`?+')
_COMMENT: Final = re.compile(r"#[^\n]*+")
_MATCHERS: Final = re.compile(r"\{[^{}]*+\}")
_MATCHER: Final = re.compile(r"(?<!\w)([a-zA-Z_]\w*+)\s*+(?:=~|=(?!~))")
_NAMED: Final = re.compile(r"__name__\s*+=\s*+[\"']([a-zA-Z_:][\w:]*+)[\"']")
_WINDOW: Final = re.compile(r"\[([^\[\]:]*+)(?::[^\[\]]*+)?\]")
_OFFSET: Final = re.compile(r"(?<!\w)offset\s++-?([\w.]++)")
_LABELS: Final = re.compile(r"(?<!\w)(?:by|without|on|ignoring|group_left|group_right)\s*+\([^()]*+\)", re.IGNORECASE)
_WORD: Final = re.compile(r"(?<![\w:.])([a-zA-Z_:][\w:]*+)(?!\s*+\()")
_NO_METRICS: Final = frozenset(
    ("and", "or", "unless", "bool", "by", "without", "on", "ignoring", "group_left", "group_right", "offset", "atan2",
     "inf", "nan"),
)  # fmt: skip
_CODE: Final = re.compile(r"(?<![\w.])([1-9]\d{0,2})(?![\w.\]])")
_WEEKS_AND_YEARS: Final = {"w": 7 * 86400.0, "y": 365 * 86400.0}


@dataclass(frozen=True)
class AlertRule:
    """An alert rule.

    :ivar number: its place among the alert rules of its file, from 0.
    :ivar for_seconds, keeps_seconds: its ``for`` and ``keep_firing_for``.
    :ivar window_seconds: how far its expression looks back at most; of recorded series that it uses, too.
    :ivar metrics: the metrics that it needs, those of recorded series in their place.
    :ivar labels: the labels that its matchers require.
    """

    number: int
    name: str
    expression: str
    for_seconds: float
    keeps_seconds: float
    window_seconds: float
    metrics: frozenset[str]
    labels: frozenset[str]

    @property
    def codes(self) -> frozenset[int]:
        """The numbers in it that can be error codes, if it is about error codes."""
        about_codes = "xid" in self.expression.lower()
        return frozenset(int(code) for code in _CODE.findall(self.expression)) if about_codes else frozenset()


@dataclass(frozen=True)
class RuleFile:
    """The rules of a file.

    :ivar groups: as JSON for promtool: each alert with its number as a label, and without annotations.
    :ivar takes_all: whether an expression may select any metric by its name as a label.
    """

    alerts: tuple[AlertRule, ...]
    groups: Sequence[Mapping[str, Any]]
    takes_all: bool

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that any alert needs."""
        return frozenset().union(*(alert.metrics for alert in self.alerts))


def read_rules(text: str, file: str) -> RuleFile:
    """The rules of a file.

    :param file: its name, as problems shall show it.
    :raises ConfigurationError: for what is no rule file, with each place.
    """
    report = Report()
    tree = read_document(text, file, report)
    report.raise_if_any()
    assert tree is not None
    groups = list(_groups(tree, file, report))
    report.raise_if_any()
    rules = [rule for group in groups for rule in group["rules"]]
    recorded = {rule["record"]: rule["expr"] for rule in rules if "record" in rule}
    alerts: list[AlertRule] = []
    for rule in rules:
        if "alert" in rule:
            number = len(alerts)
            alerts.append(_alert(number, rule, recorded))
            rule["labels"] = {**rule.get("labels", {}), RULE_LABEL: str(number)}
            rule.pop("annotations", None)
    if not alerts:
        report.problem(Place(file), "has no alert rule: each is an item of groups[].rules with the keys alert and expr")
    if len(alerts) > MAX_ALERTS:
        report.problem(Place(file), f"has {len(alerts)} alert rules: at most {MAX_ALERTS} are tried, split the file")
    report.raise_if_any()
    return RuleFile(tuple(alerts), groups, any("__name__" in rule["expr"] for rule in rules))


def seconds_of(text: str) -> float:
    """The seconds of a duration of PromQL; 0 for a text that is none, which promtool refuses.

    PromQL has weeks and years, too.
    """
    total = 0.0
    for number, unit in re.findall(r"(?<!\d)(\d++)(ms|[smhdwy])", text):
        total += int(number) * _WEEKS_AND_YEARS[unit] if unit in "wy" else parse_duration(number + unit)
    return total


def metrics_of(expression: str) -> frozenset[str]:
    """The names of the metrics that an expression selects."""
    named = frozenset(name for found in _MATCHERS.findall(expression) for name in _NAMED.findall(found))
    plain = _COMMENT.sub("", _TEXT.sub("", expression))
    for each in (_MATCHERS, _WINDOW, _OFFSET, _LABELS):
        plain = each.sub(" ", plain)
    return named | {word for word in _WORD.findall(plain) if word.lower() not in _NO_METRICS}


def _alert(number: int, rule: Mapping[str, Any], recorded: Mapping[str, str]) -> AlertRule:
    expressions = list(_with_recorded(rule["expr"], recorded))
    metrics = frozenset().union(*map(metrics_of, expressions)) - set(recorded)
    plain = [_TEXT.sub('""', each) for each in expressions]
    labels = {name for each in plain for found in _MATCHERS.findall(each) for name in _MATCHER.findall(found)}
    windows = [seconds_of(found) for each in plain for found in (*_WINDOW.findall(each), *_OFFSET.findall(each))]
    return AlertRule(
        number, rule["alert"], rule["expr"], seconds_of(rule.get("for", "")),
        seconds_of(rule.get("keep_firing_for", "")), max(windows, default=0.0), metrics,
        frozenset(labels - {"__name__"}),
    )  # fmt: skip


def _with_recorded(expression: str, recorded: Mapping[str, str]) -> Iterator[str]:
    """The expression, and those of the recorded series that it uses, each once."""
    found, waiting = set(), [expression]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            yield each
            waiting += [recorded[name] for name in metrics_of(each) if name in recorded]


def _groups(tree: Node, file: str, report: Report) -> Iterator[dict[str, Any]]:
    """The groups with their rules, as JSON."""
    if isinstance(tree, Table) and isinstance(spec := tree.get("spec"), Table):
        tree = spec
    groups = tree.get("groups") if isinstance(tree, Table) else None
    if not isinstance(groups, Listing):
        report.problem(Place(file), "is no rule file: it needs a list groups, at the top or in a PrometheusRule's spec")
        return
    for group in groups.items:
        rules = group.get("rules") if isinstance(group, Table) else None
        if not isinstance(group, Table) or not isinstance(rules, Listing):
            report.problem(group.place, "a group needs a name and a list of rules")
            continue
        found = _plain(group)
        for rule, place in zip(found["rules"], (each.place for each in rules.items), strict=True):
            for problem in _problems(rule):
                report.problem(place, problem)
        yield found


def _problems(rule: object) -> Iterable[str]:
    if not isinstance(rule, dict) or not isinstance(rule.get("expr"), str) or not ({"alert", "record"} & set(rule)):
        return ["a rule needs expr, and alert or record"]
    if not isinstance(rule.get("labels", {}), dict):
        return ["the labels of a rule are names with texts"]
    return [f"{key} is a text" for key in ("alert", "record", "for", "keep_firing_for") if key in rule
            and not isinstance(rule[key], str)]  # fmt: skip


def _plain(node: Node) -> Any:
    """A node as JSON; all scalars are texts, but for the numbers that promtool wants as such."""
    if isinstance(node, Table):
        return {
            key.text: int(value.text) if key.text == "limit" and isinstance(value, Scalar) and value.text.isdigit()
            else _plain(value)
            for key, value in node.entries
            if not getattr(value, "is_null", False)
        }  # fmt: skip
    if isinstance(node, Listing):
        return [_plain(each) for each in node.items]
    return node.text
