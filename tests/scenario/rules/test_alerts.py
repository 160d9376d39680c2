"""Alerts from one evaluation to the next, against the rule manager's own steps written down plainly."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.scenario.rules.alert_rules import AlertState, AlertStates, Firing

A, B = (("x", "a"),), (("x", "b"),)


@dataclass
class Plain:
    """One alert as rules/alerting.go of Prometheus has it."""

    active: int
    state: str = "pending"
    kept_since: int = -1
    fired: int = -1


def plain_states(steps: list[set[int]], wait: int, keep: int) -> list[dict[int, str]]:
    """The states of each alert at each step, as the rule manager's Eval finds them."""
    known: dict[int, Plain] = {}
    shown = []
    for now, present in enumerate(steps):
        for each in present:
            if each not in known or known[each].state == "inactive":
                known[each] = Plain(now)
        now_shown = {}
        for each, alert in list(known.items()):
            if each not in present:
                keeps = False
                if alert.state == "firing" and keep > 0:
                    alert.kept_since = now if alert.kept_since < 0 else alert.kept_since
                    keeps = now - alert.kept_since < keep
                if alert.state == "pending":
                    del known[each]
                if alert.state != "inactive" and not keeps:
                    alert.state = "inactive"
                if not keeps:
                    continue
            else:
                alert.kept_since = -1
            if alert.state == "pending" and now - alert.active >= wait:
                alert.state = "firing"
            now_shown[each] = alert.state
        shown.append(now_shown)
    return shown


@given(st.lists(st.sets(st.integers(0, 2)), max_size=40), st.integers(0, 4), st.integers(0, 4))
def test_as_the_rule_manager(steps: list[set[int]], wait: int, keep: int) -> None:
    """The same states at each evaluation; the firings are their intervals."""
    states = AlertStates(wait * 0.1, keep * 0.1)
    labels = [(("x", str(number)),) for number in range(3)]
    shown = []
    for now, present in enumerate(steps):
        found = states.evaluate(now * 0.1, [labels[each] for each in present])
        shown.append({labels.index(each): state.value for each, state in found.items()})
        assert states.is_idle == (not found)
    assert shown == plain_states(steps, wait, keep)
    firing = {(each, now) for now, found in enumerate(shown) for each, state in found.items() if state == "firing"}
    covered = []
    for each in states.all_firings():
        begin = round(each.begin_seconds * 10)
        end = len(steps) if each.end_seconds is None else round(each.end_seconds * 10)
        covered += [(labels.index(each.labels), now) for now in range(begin, end)]
        assert each.active_seconds <= each.begin_seconds
    assert sorted(covered) == sorted(firing)
    pending = {(each, now) for now, found in enumerate(shown) for each, state in found.items() if state == "pending"}
    waited = [
        (labels.index(each.labels), now)
        for each in states.all_pendings()
        for now in range(
            round(each.begin_seconds * 10), len(steps) if each.end_seconds is None else round(each.end_seconds * 10)
        )
    ]
    assert sorted(waited) == sorted(pending)


def test_firings() -> None:
    """They begin after ``for``, go on for ``keep_firing_for``; a gap of a pending alert begins it again."""
    states = AlertStates(60, 30)
    for number in range(20):
        seconds = 15.0 * number
        present = [A] if 45 <= seconds <= 150 and seconds != 75 else []
        found = states.evaluate(seconds, present)
        assert found.get(A) is {True: AlertState.PENDING, False: None}[45 <= seconds < 150 and seconds != 75] or (
            150 <= seconds < 195 and found[A] is AlertState.FIRING
        )
    assert states.all_firings() == (Firing(A, 90, 150, 195),)


def test_to_the_end() -> None:
    """What fires at the end has no end; the order is that of time, then of labels."""
    states = AlertStates()
    states.evaluate(0, [])
    states.evaluate(15, [B, A])
    states.evaluate(30, [B])
    assert states.all_firings() == (Firing(A, 15, 15, 30), Firing(B, 15, 15, None))


@pytest.mark.parametrize("step", [0.1, 0.3, 15.0, 0.001])
def test_fractions(step: float) -> None:
    """Sums of fractions of a second are as exact as Prometheus's milliseconds."""
    states = AlertStates(for_seconds=3 * step)
    found = [states.evaluate(number * step, [A])[A] for number in range(1, 5)]
    assert found == [AlertState.PENDING] * 3 + [AlertState.FIRING]
