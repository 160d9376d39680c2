"""An alert rule from one evaluation to the next: pending, firing, kept firing. As Prometheus's rule manager does it.

Source: rules/alerting.go of Prometheus 2.42.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

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
