"""Alert rules and recording rules as values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from fakedev.scenario.promql import metrics_of

_CODE: Final = re.compile(r"(?<![\w.])([1-9]\d{0,2})(?![\w.\]])")
#: In the place of a metric: any may be selected.
ANY_METRIC: Final = ""


@dataclass(frozen=True)
class AlertRule:
    """An alert rule.

    :ivar number: its place among the alert rules of its file, from 0.
    :ivar for_seconds, keeps_seconds: its ``for`` and ``keep_firing_for``.
    :ivar window_seconds: how far its expression looks back at most; of recorded series that it uses, too.
    :ivar metrics: the metrics that it needs, those of recorded series in their place.
    :ivar labels: the labels that its matchers require.
    :ivar own_labels: the labels that it gives to its alerts.
    :ivar expects: the words of its annotation ``fakedev_expects``; None without one.
    :ivar place: its file and line, for messages.
    """

    number: int
    name: str
    expression: str
    for_seconds: float
    keeps_seconds: float
    window_seconds: float
    metrics: frozenset[str]
    labels: frozenset[str]
    own_labels: Mapping[str, str] = field(default_factory=dict)
    expects: tuple[str, ...] | None = None
    place: str = field(default="", compare=False)

    @property
    def codes(self) -> frozenset[int]:
        """The numbers in it that can be error codes, if it is about error codes."""
        about_codes = "xid" in self.expression.lower()
        return frozenset(int(code) for code in _CODE.findall(self.expression)) if about_codes else frozenset()


@dataclass(frozen=True)
class RecordingRule:
    """A recording rule.

    :ivar name: the metric that it records.
    """

    name: str
    expression: str
    own_labels: Mapping[str, str] = field(default_factory=dict)
    place: str = field(default="", compare=False)


@dataclass(frozen=True)
class RuleGroup:
    """A group of rules, which are evaluated one after the other.

    :ivar interval_seconds: 0: the interval that is usual.
    :ivar offset_seconds: its rules see the values of so long ago.
    :ivar limit: more series than this are an error; 0: no limit.
    """

    name: str
    rules: tuple[AlertRule | RecordingRule, ...]
    interval_seconds: float = 0.0
    offset_seconds: float = 0.0
    limit: int = 0


def used_metrics(group: RuleGroup) -> frozenset[str]:
    """The metrics that the rules of a group select; with ANY_METRIC if the name may be matched as a label."""
    used = frozenset().union(*(metrics_of(rule.expression) for rule in group.rules))
    return used | {ANY_METRIC} if any("__name__" in rule.expression for rule in group.rules) else used


def evaluation_order(groups: Sequence[RuleGroup]) -> tuple[list[int], list[int]]:
    """The places of groups, each after those whose recorded series it uses; otherwise in their order.

    :returns: and the places of groups that had to begin although that was not possible: they use each other.
    """
    recorded = [{rule.name for rule in each.rules if isinstance(rule, RecordingRule)} for each in groups]
    uses = [used_metrics(each) for each in groups]
    ordered: list[int] = []
    in_circles: list[int] = []
    waiting = list(range(len(groups)))
    while waiting:
        free = (
            each for each in waiting if not any(recorded[other] & uses[each] for other in waiting if other != each)
        )
        chosen = next(free, None)
        if chosen is None:
            chosen = waiting[0]
            in_circles.append(chosen)
        waiting.remove(chosen)
        ordered.append(chosen)
    return ordered, in_circles
