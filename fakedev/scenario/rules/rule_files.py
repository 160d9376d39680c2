"""Reads the rule files of Prometheus: as Prometheus loads them, or as a PrometheusRule of a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from fakedev.scenario.entries import NOTHING
from fakedev.scenario.rules.alert_rules import (
    AlertRule,
    RecordingRule,
    RuleGroup,
    evaluation_order,
    labels_of,
    metrics_of,
    seconds_of,
    window_of,
)
from fakedev.schema.places import Listing, Node, Place, Report, Scalar, Table
from fakedev.schema.reader import read_document

#: The most alert rules of a file that are tried.
MAX_ALERTS: Final = 500
#: The label by which an alert rule is found again among the alerts.
RULE_LABEL: Final = "fakedev_rule"
#: The annotation of an alert rule that says what it is to find.
EXPECTS: Final = "fakedev_expects"
#: One that promtool can hold, as a group's limit.
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,9}")
#: An action of Helm as the value of a key, or on a line of its own; block texts may have such lines, too.
_HELM: Final = re.compile(r"^[ \t\-]*+(?:[\w./-]++:[ \t]++)?\{\{", re.MULTILINE)


@dataclass(frozen=True)
class RuleFile:
    """The rules of a file.

    :ivar trees: its groups as JSON for promtool.
    :ivar takes_all: whether an expression may select any metric by its name as a label.
    """

    file: str
    alerts: tuple[AlertRule, ...]
    groups: tuple[RuleGroup, ...]
    trees: Sequence[Mapping[str, Any]]
    takes_all: bool

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that any alert needs."""
        return frozenset().union(*(alert.metrics for alert in self.alerts))

    @property
    def recorded(self) -> dict[str, str]:
        """The expressions of recording rules, by the metric that they record."""
        rules = [rule for group in self.groups for rule in group.rules]
        return {rule.name: rule.expression for rule in rules if isinstance(rule, RecordingRule)}

    @property
    def evaluation_order(self) -> list[str]:
        """The names of the groups, each after those whose recorded series it uses; first those that were added."""
        ordered = [self.groups[place].name for place in evaluation_order(self.groups)[0]]
        return [*(tree["name"] for tree in self.trees if tree["name"] not in ordered), *ordered]

    @property
    def numbered_trees(self) -> list[dict[str, Any]]:
        """The groups for promtool, each alert with its number as a label, and without annotations."""
        numbers = count()
        return [
            {**group, "rules": [_numbered(rule, numbers) if "alert" in rule else rule for rule in group["rules"]]}
            for group in self.trees
        ]


def read_plain(text: str, file: str, report: Report) -> Node | None:
    """A document of somebody else's; one that cannot be read because it is a template of Helm is called that."""
    own = Report()
    node = read_document(text, file, own)
    if own.sorted_problems() and (found := _HELM.search(text)):
        place = Place(file, text.count("\n", 0, found.start()) + 1)
        report.problem(place, "is a template of Helm: give the file that `helm template` makes of it")
        return None
    report.extend(own)
    return node


def read_rules(text: str, file: str, *, needs_alerts: bool = True) -> RuleFile:
    """The rules of a file.

    :param file: its name, as problems shall show it.
    :param needs_alerts: whether a file of recording rules only is a problem.
    :raises ConfigurationError: for what is no rule file, with each place.
    """
    report = Report()
    tree = read_plain(text, file, report)
    report.raise_if_any()
    assert tree is not None
    found = list(_groups(tree, file, report))
    report.raise_if_any()
    trees = [group for group, _ in found]
    recorded = {rule["record"]: rule["expr"] for group in trees for rule in group["rules"] if "record" in rule}
    numbers = count()
    groups = tuple(
        RuleGroup(
            group["name"],
            tuple(
                _rule(rule, group.get("labels", {}), place, numbers, recorded)
                for rule, place in zip(group["rules"], places, strict=True)
            ),
            seconds_of(group.get("interval", "")), seconds_of(group.get("query_offset", "")), group.get("limit", 0),
        )
        for group, places in found
    )  # fmt: skip
    alerts = tuple(rule for group in groups for rule in group.rules if isinstance(rule, AlertRule))
    if not alerts and needs_alerts:
        report.problem(Place(file), "has no alert rule: each is an item of groups[].rules with the keys alert and expr")
    if len(alerts) > MAX_ALERTS:
        report.problem(Place(file), f"has {len(alerts)} alert rules: at most {MAX_ALERTS} are tried, split the file")
    report.raise_if_any()
    takes_all = any("__name__" in rule.expression for group in groups for rule in group.rules)
    return RuleFile(file, alerts, groups, trees, takes_all)


def _numbered(rule: Mapping[str, Any], numbers: Iterator[int]) -> dict[str, Any]:
    labels = {**rule.get("labels", {}), RULE_LABEL: str(next(numbers))}
    return {key: value for key, value in rule.items() if key != "annotations"} | {"labels": labels}


def _rule(
    rule: Mapping[str, Any], labels: Mapping[str, str], place: Place, numbers: Iterator[int],
    recorded: Mapping[str, str],
) -> AlertRule | RecordingRule:
    """
    :param labels: of the whole group.
    :param recorded: the expressions of recorded series, by their name.
    """  # fmt: skip
    own_labels = {**labels, **rule.get("labels", {})}
    if "alert" not in rule:
        return RecordingRule(rule["record"], rule["expr"], own_labels, str(place))
    expressions = list(_with_recorded(rule["expr"], recorded))
    expects = rule.get("annotations", {}).get(EXPECTS)
    return AlertRule(
        next(numbers), rule["alert"], rule["expr"], seconds_of(rule.get("for", "")),
        seconds_of(rule.get("keep_firing_for", "")), max(map(window_of, expressions)),
        frozenset().union(*map(metrics_of, expressions)) - set(recorded),
        frozenset().union(*map(labels_of, expressions)), own_labels,
        None if expects is None else words_of(expects), str(place),
    )  # fmt: skip


def words_of(text: str) -> tuple[str, ...]:
    """The words that say what a rule is to find: ``fan, inlet``; none of ``none``."""
    words = tuple(word for part in text.split(",") if (word := " ".join(part.split())))
    return () if words == (NOTHING,) else words


def _with_recorded(expression: str, recorded: Mapping[str, str]) -> Iterator[str]:
    """The expression, and the expressions of the recorded series that it uses, each once."""
    found, waiting = set(), [expression]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            yield each
            waiting += [recorded[name] for name in metrics_of(each) if name in recorded]


def _groups(tree: Node, file: str, report: Report) -> Iterator[tuple[dict[str, Any], list[Place]]]:
    """The groups as JSON, with the places of their rules."""
    if isinstance(tree, Table) and isinstance(spec := tree.get("spec"), Table):
        tree = spec
    groups = tree.get("groups") if isinstance(tree, Table) else None
    if not isinstance(groups, Listing):
        report.problem(Place(file), "is no rule file: it needs a list groups, at the top or in a PrometheusRule's spec")
        return
    for group in groups.items:
        rules = group.get("rules") if isinstance(group, Table) else None
        name = group.get("name") if isinstance(group, Table) else None
        named = isinstance(name, Scalar) and not name.is_null
        if not isinstance(group, Table) or not isinstance(rules, Listing) or not named:
            report.problem(group.place, "a group needs a name and a list of rules")
            continue
        found = plain_tree(group)
        places = [item.place for item in rules.items]
        for problem in _problems_of_group(found):
            report.problem(group.place, problem)
        for rule, place in zip(found["rules"], places, strict=True):
            for problem in _problems(rule):
                report.problem(place, problem)
        yield found, places


def _problems_of_group(group: Mapping[str, Any]) -> list[str]:
    problems = [f"{key} of a group is a duration, as 1m" for key in ("interval", "query_offset")
                if not isinstance(group.get(key, ""), str)]  # fmt: skip
    problems += [] if problems else _too_long(group, ("interval", "query_offset"), seconds_of)
    if not _are_labels(group.get("labels", {})):
        problems.append("the labels of a group are names with texts")
    if not isinstance(group.get("limit", 0), int):
        problems.append("the limit of a group is a whole number")
    return problems


def _are_labels(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _problems(rule: object) -> Iterable[str]:
    if not isinstance(rule, dict) or not isinstance(rule.get("expr"), str) or not ({"alert", "record"} & set(rule)):
        return ["a rule needs expr, and alert or record"]
    for key in ("labels", "annotations"):
        if not _are_labels(rule.get(key, {})):
            return [f"the {key} of a rule are names with texts"]
    problems = [f"{key} is a text" for key in ("alert", "record", "for", "keep_firing_for")
                if not isinstance(rule.get(key, ""), str)]  # fmt: skip
    if problems:
        return problems
    return [*_too_long(rule, ("for", "keep_firing_for"), seconds_of), *_too_long(rule, ("expr",), window_of)]


def _too_long(tree: Mapping[str, Any], keys: Iterable[str], read: Callable[[str], float]) -> list[str]:
    """The durations of a rule or a group that Prometheus cannot hold."""
    problems = []
    for key in keys:
        try:
            read(tree.get(key, ""))
        except ValueError as error:
            problems.append(f"{key}: {error}")
    return problems


def plain_tree(node: Node) -> Any:
    """A node as JSON; all scalars are texts, but for the numbers that promtool wants as such."""
    if isinstance(node, Table):
        return {
            key.text: int(value.text)
            if key.text == "limit" and isinstance(value, Scalar) and _WHOLE_NUMBER.fullmatch(value.text)
            else plain_tree(value)
            for key, value in node.entries
            if not getattr(value, "is_null", False)
        }  # fmt: skip
    if isinstance(node, Listing):
        return [plain_tree(item) for item in node.items]
    return node.text
