"""Alert rules and recording rules: the rules themselves, the states of alerts, and the names in PromQL expressions.

An alert goes from one evaluation to the next: pending, firing, kept firing, as Prometheus's rule manager does it.
Source: rules/alerting.go of Prometheus 2.42.

PromQL: the metrics, labels and time ranges that expressions name are read from their text, without a whole parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from fakedev.base.groups import grouped

#: The labels of a series, sorted by name.
LabelSet = tuple[tuple[str, str], ...]


class AlertState(Enum):
    """The states that an alert shows in the series ALERTS."""

    PENDING = "pending"
    FIRING = "firing"


@dataclass(frozen=True)
class Firing:
    """A time during which an alert fired.

    :ivar active_seconds: when its expression had a result first.
    :ivar begin_seconds: the first evaluation at which it fired.
    :ivar end_seconds: the first evaluation at which it no longer did; None: it fires at the end.
    """

    labels: LabelSet
    active_seconds: float
    begin_seconds: float
    end_seconds: float | None


@dataclass(frozen=True)
class Pending:
    """A time during which an alert was pending.

    :ivar end_seconds: when it fired, or the first evaluation at which its expression had no result; None: never.
    """

    labels: LabelSet
    begin_seconds: float
    end_seconds: float | None


@dataclass
class _Alert:
    active_seconds: float
    #: Since when it fires; None while it is pending.
    begin_seconds: float | None = None
    #: Since when it is only kept firing; None while its expression has a result.
    kept_since_seconds: float | None = None

    @property
    def state(self) -> AlertState:
        return AlertState.PENDING if self.begin_seconds is None else AlertState.FIRING


@dataclass
class AlertStates:
    """The alerts of one rule.

    :param for_seconds, keeps_seconds: its ``for`` and ``keep_firing_for``.
    :ivar firings, pendings: those that have ended.
    """

    for_seconds: float = 0.0
    keeps_seconds: float = 0.0
    firings: list[Firing] = field(default_factory=list, init=False)
    pendings: list[Pending] = field(default_factory=list, init=False)
    _alerts: dict[LabelSet, _Alert] = field(default_factory=dict, init=False)
    #: Results with which nothing changes, because all of them fire already; and the states then.
    _steady: tuple[Sequence[LabelSet], Mapping[LabelSet, AlertState]] | None = field(default=None, init=False)

    def evaluate(self, seconds: float, present: Sequence[LabelSet]) -> Mapping[LabelSet, AlertState]:
        """The alerts after an evaluation, with their states.

        :param seconds: since the start, later than at the evaluation before.
        :param present: the results of the expression.
        """
        if self._steady is not None and self._steady[0] == present:
            return self._steady[1]
        for labels in present:
            self._alerts.setdefault(labels, _Alert(seconds)).kept_since_seconds = None
        found = set(present)
        for labels, alert in list(self._alerts.items()):
            if labels not in found and not self._is_kept(alert, seconds):
                del self._alerts[labels]
                self._end(labels, alert, seconds)
            elif alert.begin_seconds is None and _is_over(alert.active_seconds, self.for_seconds, seconds):
                alert.begin_seconds = seconds
                if seconds > alert.active_seconds:
                    self.pendings.append(Pending(labels, alert.active_seconds, seconds))
        shown = {labels: alert.state for labels, alert in self._alerts.items()}
        is_steady = found.issuperset(shown) and AlertState.PENDING not in shown.values()
        self._steady = (present, shown) if is_steady else None
        return shown

    def clear(self, seconds: float) -> None:
        """Forget all alerts, as at an evaluation with more of them than the limit of the group."""
        for labels, alert in self._alerts.items():
            if seconds not in (alert.active_seconds, alert.begin_seconds):
                self._end(labels, alert, seconds)
        self._alerts.clear()
        self._steady = None

    def active_since(self, labels: LabelSet) -> float:
        """When the expression of an alert that is pending or firing had a result first."""
        return self._alerts[labels].active_seconds

    @property
    def is_idle(self) -> bool:
        """Whether no alert is pending or firing: evaluations without results change nothing."""
        return not self._alerts

    def all_firings(self) -> tuple[Firing, ...]:
        """All firings in order of their beginning, also those that have not ended."""
        open_ones = [
            Firing(labels, alert.active_seconds, alert.begin_seconds, None)
            for labels, alert in self._alerts.items()
            if alert.begin_seconds is not None
        ]
        return tuple(sorted([*self.firings, *open_ones], key=lambda each: (each.begin_seconds, each.labels)))

    def all_pendings(self) -> tuple[Pending, ...]:
        """All times during which alerts were pending, also those that have not ended."""
        open_ones = [
            Pending(labels, alert.active_seconds, None)
            for labels, alert in self._alerts.items()
            if alert.begin_seconds is None
        ]
        return tuple(sorted([*self.pendings, *open_ones], key=lambda each: (each.begin_seconds, each.labels)))

    def _end(self, labels: LabelSet, alert: _Alert, seconds: float) -> None:
        if alert.begin_seconds is None:
            self.pendings.append(Pending(labels, alert.active_seconds, seconds))
        else:
            self.firings.append(Firing(labels, alert.active_seconds, alert.begin_seconds, seconds))

    def _is_kept(self, alert: _Alert, seconds: float) -> bool:
        if alert.begin_seconds is None or not self.keeps_seconds:
            return False
        if alert.kept_since_seconds is None:
            alert.kept_since_seconds = seconds
        return not _is_over(alert.kept_since_seconds, self.keeps_seconds, seconds)


def _is_over(begin: float, length: float, now: float) -> bool:
    """Whether a time is over; exact to the millisecond, which sums of fractions are not."""
    return round(1000 * (now - begin)) >= round(1000 * length)


_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?+|\'(?:[^\'\\]|\\.)*+\'?+|`[^`]*+`?+')
_COMMENT: Final = re.compile(r"#[^\n]*+")
_TEXT_OR_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?+|\'(?:[^\'\\]|\\.)*+\'?+|`[^`]*+`?+|#[^\n]*+')
_PARENTHESIS: Final = re.compile(r"[()]")
_MATCHERS: Final = re.compile(r"\{[^{}]*+\}")
_MATCHER: Final = re.compile(r"(?<!\w)([a-zA-Z_]\w*+)\s*+(=~|=(?!~))\s*+(\"[^\"]*+\"|'[^']*+'|`[^`]*+`)")
_ANY_MATCHER: Final = re.compile(
    r"(?<!\w)([a-zA-Z_]\w*+)\s*+(=~|!~|!=|=)\s*+(\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|`[^`]*+`)"
)
_NAMED: Final = re.compile(r"__name__\s*+=\s*+[\"']([a-zA-Z_:][\w:]*+)[\"']")
_ESCAPED: Final = re.compile(r"\\(.)")
_WINDOW: Final = re.compile(r"\[([^\[\]:]*+)(?::[^\[\]]*+)?\]")
_OFFSET: Final = re.compile(r"(?<!\w)offset\s++-?([\w.]++)")
#: The labels of a grouping or a matching of vectors.
LABEL_LISTS: Final = re.compile(
    r"(?<!\w)(?:by|without|on|ignoring|group_left|group_right)\s*+\([^()]*+\)", re.IGNORECASE
)
_WORD: Final = re.compile(r"(?<![\w:.])([a-zA-Z_:][\w:]*+)(?!\s*+\()")
_NO_METRICS: Final = frozenset(
    ("and", "or", "unless", "bool", "by", "without", "on", "ignoring", "group_left", "group_right", "offset", "atan2",
     "inf", "nan"),
)  # fmt: skip
_THRESHOLD: Final = re.compile(r"(>=|<=|==|!=|>|<)\s*+(?:bool\s++)?([+-]?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?)(?![\w.])")
_UNIT_SECONDS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
#: Prometheus counts durations in nanoseconds of 63 bits.
_LONGEST_SECONDS: Final = (2**63 - 1) / 1e9
_TOKEN: Final = re.compile(r"[\w:.]++|[()\[\]{}]")
_SETS: Final = ("and", "or", "unless")
_ABSENT: Final = ("absent", "absent_over_time")


class Matcher(NamedTuple):
    """A matcher of a selector: ``gpu!="0"``.

    :ivar kind: ``=``, ``!=``, ``=~`` or ``!~``.
    """

    label: str
    kind: str
    text: str

    def matches(self, value: str) -> bool:
        """Whether it selects a value of its label; an expression that cannot be compiled selects none."""
        if not self.kind.endswith("~"):
            return (value == self.text) is (self.kind == "=")
        try:
            return bool(re.fullmatch(self.text, value)) is (self.kind == "=~")
        except re.error:
            return False


def seconds_of(text: str) -> float:
    """The seconds of a duration of PromQL; 0 for a text that is none, which promtool refuses.

    :raises ValueError: for a duration that Prometheus cannot hold.
    """
    parts = re.findall(r"(?<!\d)(\d++)(ms|[smhdwy])", text)
    total = sum((float(number) * _UNIT_SECONDS[unit] for number, unit in parts), 0.0)
    if total > _LONGEST_SECONDS:
        raise ValueError(f"{text[:40]} is too long: Prometheus accepts durations of at most 292 years")
    return total


def metrics_of(expression: str) -> frozenset[str]:
    """The names of the metrics that an expression selects."""
    named = frozenset(name for found in _MATCHERS.findall(expression) for name in _NAMED.findall(found))
    plain = _COMMENT.sub("", _TEXT.sub("", expression))
    for pattern in (_MATCHERS, _WINDOW, _OFFSET, LABEL_LISTS):
        plain = pattern.sub(" ", plain)
    return named | {word for word in _WORD.findall(plain) if word.lower() not in _NO_METRICS}


def labels_of(expression: str) -> frozenset[str]:
    """The labels that the matchers of an expression require: those that also match a missing label are left out."""
    found = set()
    for braces in _braces(expression):
        for name, kind, quoted in _MATCHER.findall(braces):
            value = quoted[1:-1]
            takes_none = not value or (kind == "=~" and (value in (".*", "()") or "|" in (value[0], value[-1])))
            if not takes_none:
                found.add(name)
    return frozenset(found - {"__name__"})


def selectors_of(expression: str) -> list[tuple[Matcher, ...]]:
    """The matchers of each selector of an expression that has some."""
    found = []
    for braces in _braces(expression):
        matchers = [Matcher(name, kind, _unquoted(quoted)) for name, kind, quoted in _ANY_MATCHER.findall(braces)]
        if matchers:
            found.append(tuple(matchers))
    return found


def thresholds_of(expression: str) -> list[tuple[str, float]]:
    """The comparisons with numbers in an expression: the operator, and the number on its right."""
    found = _THRESHOLD.findall(masked(expression))
    return [(operator, float(number)) for operator, number in dict.fromkeys(found)]


def _unquoted(quoted: str) -> str:
    return quoted[1:-1] if quoted[0] == "`" else _ESCAPED.sub(r"\1", quoted[1:-1])


def window_of(expression: str) -> float:
    """How many seconds an expression looks back at most.

    :raises ValueError: for a duration that Prometheus cannot hold.
    """
    plain = _TEXT.sub('""', expression)
    return max((seconds_of(text) for text in (*_WINDOW.findall(plain), *_OFFSET.findall(plain))), default=0.0)


class Needs:
    """What expressions need to have any result.

    One side of ``or`` is enough; what follows ``unless`` and what is in ``absent()`` is not needed.

    :param recorded: expressions of recorded series, by their name.
    """

    def __init__(
        self, has_metric: Callable[[str], bool], has_label: Callable[[str], bool], recorded: Mapping[str, str]
    ) -> None:
        self._has_metric = has_metric
        self._has_label = has_label
        self._recorded = recorded
        self._sides = {name: self._read(expression) for name, expression in recorded.items()}
        users = grouped(
            (used, name)
            for name, sides in self._sides.items()
            for used in frozenset().union(*(side.recorded for side in sides))
        )
        #: The recorded series that can be there.
        self._there: set[str] = set()
        waiting = list(recorded)
        while waiting:
            name = waiting.pop()
            if name not in self._there and self._can_be(self._sides[name]):
                self._there.add(name)
                waiting += users.get(name, ())

    def missing_of(self, expression: str) -> tuple[str, ...]:
        """Metrics and labels that must exist for a result but do not, sorted; empty if a result is possible."""
        sides = self._read(expression)
        if self._can_be(sides):
            return ()
        missing: set[str] = set()
        followed: set[str] = set()
        waiting = [sides]
        while waiting:
            for side in waiting.pop():
                missing |= side.missing
                new = side.recorded - self._there - followed
                followed |= new
                waiting += [self._sides[name] for name in new]
        # Recorded series that only use each other have no other missing input.
        return tuple(sorted(missing or followed))

    def _read(self, expression: str) -> list[_Side]:
        found = []
        for one in _alternatives(expression):
            metrics = metrics_of(one)
            recorded = metrics & self._recorded.keys()
            missing = {name for name in metrics - recorded if not self._has_metric(name)}
            missing |= {name for name in labels_of(one) if not self._has_label(name)}
            found.append(_Side(frozenset(missing), frozenset(recorded)))
        return found

    def _can_be(self, sides: Sequence[_Side]) -> bool:
        return any(not side.missing and side.recorded <= self._there for side in sides)


class _Side(NamedTuple):
    """What one side of ``or`` needs: metrics and labels that are missing, and recorded series."""

    missing: frozenset[str]
    recorded: frozenset[str]


def _braces(expression: str) -> Iterator[str]:
    """The texts between braces, also those with braces in quoted texts."""
    plain, end = masked(expression), 0
    while (begin := plain.find("{", end)) >= 0 and (end := plain.find("}", begin)) >= 0:
        yield expression[begin + 1 : end]


def masked(expression: str) -> str:
    """An expression with other signs in place of texts and comments; all places stay the same."""
    return _TEXT_OR_COMMENT.sub(lambda found: (" " if found[0][0] == "#" else "~") * len(found[0]), expression)


def _alternatives(expression: str) -> list[str]:
    """The sides of ``or`` at the top, each without what it does not need."""
    plain = masked(expression)
    closing = closing_of(plain)
    first, last = _bare(plain, 0, len(plain))
    while closing.get(first, -2) == last - 1:
        first, last = _bare(plain, first + 1, last - 1)
    plain, expression = plain[:last], expression[:last]
    sides, kept, begin, depth, is_needed = [], [], first, 0, True
    skip_to = first
    for token in _TOKEN.finditer(plain, first):
        if token.start() < skip_to:
            continue
        word = token[0].lower()
        if word in "([{":
            depth += 1
        elif word in ")]}":
            depth -= 1
        elif word in _ABSENT and (opening := plain.find("(", token.end())) >= 0:
            skip_to = closing.get(opening, len(plain)) + 1
            kept += [expression[begin : token.start()] if is_needed else "", " 1 "]
            begin = skip_to
        elif depth == 0 and word in _SETS:
            kept.append(expression[begin : token.start()] if is_needed else "")
            begin = token.end()
            is_needed = word != "unless"
            if word == "or":
                sides.append(" ".join(kept))
                kept = []
            else:
                kept.append(" and ")
    kept.append(expression[begin:] if is_needed else "")
    return [*sides, " ".join(kept)]


def _bare(plain: str, begin: int, end: int) -> tuple[int, int]:
    """The ends of a part of a text without the white space around it."""
    while begin < end and plain[begin].isspace():
        begin += 1
    while begin < end and plain[end - 1].isspace():
        end -= 1
    return begin, end


def closing_of(plain: str) -> dict[int, int]:
    """The places of opening parentheses in a masked expression, each with the place of that which closes it."""
    found: dict[int, int] = {}
    waiting: list[int] = []
    for match in _PARENTHESIS.finditer(plain):
        if match[0] == "(":
            waiting.append(match.start())
        elif waiting:
            found[waiting.pop()] = match.start()
    return found


_CODE: Final = re.compile(r"(?<![\w.])([1-9]\d{0,2})(?![\w.\]])")
#: In the place of a metric: any may be selected.
ANY_METRIC: Final = ""


@dataclass(frozen=True)
class AlertRule:
    """An alert rule.

    :ivar number: its place among the alert rules of its file, from 0.
    :ivar for_seconds, keeps_seconds: its ``for`` and ``keep_firing_for``.
    :ivar window_seconds: how far its expression looks back at most; of recorded series that it uses, too.
    :ivar metrics: the metrics that it needs; recorded series are replaced by their own metrics.
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
    :ivar offset_seconds: its rules see values of this age.
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
    recorded = [{rule.name for rule in group.rules if isinstance(rule, RecordingRule)} for group in groups]
    uses = [used_metrics(group) for group in groups]
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
