"""Evaluation by range queries, with a server in memory that knows which series an expression has when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from twisted.internet.defer import Deferred

from fakedev.scenario.rules.prometheus import QueryError, Result
from fakedev.scenario.rules.rule_files import read_rules
from fakedev.scenario.samples.series import Series
from fakedev.scenario.scores.evaluation import Evaluation, Points

EPOCH_MS = 1_700_000_000_000


@dataclass
class Memory:
    """A server that answers each expression with what it was given.

    :ivar present: of an expression: seconds to the series that it has then, each a text of labels.
    :ivar failing: seconds at which an expression fails; at 0 the expression itself is wrong.
    :ivar asked: expression, first and last second, and step of each query.
    """

    present: Mapping[str, Mapping[int, list[dict[str, str]]]] = field(default_factory=dict)
    failing: Mapping[str, set[int]] = field(default_factory=dict)
    asked: list[tuple[str, float, float, float]] = field(default_factory=list)
    stored: list[tuple[str, list[tuple[float, str | None]]]] = field(default_factory=list)

    async def query_range(self, expression: str, begin_ms: int, end_ms: int, step_ms: int) -> list[Result]:
        begin, end = begin_ms - EPOCH_MS, end_ms - EPOCH_MS
        self.asked.append((expression, begin / 1000, end / 1000, step_ms / 1000))
        instants = range(begin, end + 1, step_ms)
        fails = self.failing.get(expression, set())
        if fails & {ms // 1000 for ms in instants} or -1 in fails:
            raise QueryError("it fails", is_wrong_expression=-1 in fails)
        found: dict[tuple[tuple[str, str], ...], list[tuple[int, str]]] = {}
        for ms in instants:
            for labels in self.present.get(expression, {}).get(ms // 1000, []):
                found.setdefault(tuple(labels.items()), []).append((EPOCH_MS + ms, "1"))
        return [Result(dict(labels), points) for labels, points in found.items()]

    async def write(self, points: Mapping[Series, Points]) -> None:
        for series, point in points.items():
            self.stored.append((series.text.decode(), [((ms - EPOCH_MS) / 1000, value) for ms, value in point]))


def evaluation(server: Memory, groups: str) -> Evaluation:
    rules = read_rules(f"groups:\n{groups}", "r.yml")
    return Evaluation(server.query_range, server.write, [("r.yml", group) for group in rules.groups], EPOCH_MS, 15)


def run(made: Evaluation, *ends: float) -> None:
    for end in ends:
        done = Deferred.fromCoroutine(made.evaluate(end))
        assert done.called
        failures: list[object] = []
        done.addErrback(failures.append)
        assert not failures, failures


def firings(made: Evaluation) -> dict[str, list[tuple[float, float | None]]]:
    """When each alert fired."""
    return {
        state.rule.name: [(firing.begin_seconds, firing.end_seconds) for firing in state.states.all_firings()]
        for group in made.groups
        for state in group.rules
    }


def at(begin: int, end: int, **labels: str) -> dict[int, list[dict[str, str]]]:
    """A series from a second to another, included."""
    return {second: [labels] for second in range(begin, end + 1, 15)}


def test_steps() -> None:
    """States are carried over from step to step; each instant is asked once, at the group's own interval."""
    server = Memory({"a": at(30, 300, x="1"), "b": at(0, 3600)})
    made = evaluation(server, """
    - {name: g, rules: [{alert: A, expr: a, for: 2m}]}
    - {name: h, interval: 1m, rules: [{alert: B, expr: b, for: 90s}]}
    """)  # fmt: skip
    run(made, 100, 200, 200, 400)
    assert firings(made) == {"A": [(150, 315)], "B": [(120, None)]}
    assert [each[1:] for each in server.asked if each[0] == "a"] == [(0, 90, 15), (105, 195, 15), (210, 390, 15)]
    assert [each[1:] for each in server.asked if each[0] == "b"] == [(0, 60, 60), (120, 180, 60), (240, 360, 60)]
    assert server.stored == []


def test_offset() -> None:
    """A group that sees the past: results are those of earlier instants."""
    server = Memory({"a": at(0, 60)})
    made = evaluation(server, "- {name: g, query_offset: 30s, rules: [{alert: A, expr: a}]}")
    run(made, 300)
    assert firings(made) == {"A": [(30, 105)]}


def test_recorded() -> None:
    """Results are stored with the rule's labels before what needs them is asked; a marker where they end."""
    server = Memory({"a": at(15, 30, __name__="raw", x="1", y="2")})
    made = evaluation(server, """
    - {name: uses, rules: [{alert: A, expr: "new > 0"}]}
    - {name: records, rules: [{record: new, expr: a, labels: {x: z, y: ""}}]}
    """)  # fmt: skip
    run(made, 60)
    assert server.stored == [('new{x="z"}', [(15, "1"), (30, "1"), (45, None)])]
    assert [each[0] for each in server.asked] == ["a", "new > 0"]


def test_later_in_the_group() -> None:
    """What is recorded after a rule is seen by it at the next instant, not before: each instant by itself."""
    server = Memory()
    made = evaluation(server, '- {name: g, rules: [{alert: A, expr: "new > 0"}, {record: new, expr: a}]}')
    run(made, 30)
    assert [each[:2] for each in server.asked] == [
        (expression, second) for second in (0, 15, 30) for expression in ("new > 0", "a")
    ]


def test_circles() -> None:
    """Groups that use each other are evaluated, and that is told."""
    made = evaluation(Memory(), """
    - {name: g, rules: [{record: a, expr: b}, {alert: A, expr: a}]}
    - {name: h, rules: [{record: b, expr: a}]}
    """)  # fmt: skip
    run(made, 15)
    assert ["one step late" in " ".join(state.notes) for group in made.groups for state in group.rules] == [
        True, True, False,
    ]  # fmt: skip


def test_alerts_are_stored() -> None:
    """If a rule uses them: with their states, since when, and markers."""
    server = Memory({"a": at(15, 45, x="1")})
    made = evaluation(server, "- {name: g, rules: [{alert: A, expr: a, for: 15s}, {alert: B, expr: ALERTS == 1}]}")
    run(made, 60)
    stored = dict(server.stored)
    assert stored['ALERTS{alertname="A",alertstate="pending",x="1"}'] == [(15, "1"), (30, None)]
    assert stored['ALERTS{alertname="A",alertstate="firing",x="1"}'] == [(30, "1"), (45, "1"), (60, None)]
    since = f"{EPOCH_MS // 1000 + 15}"
    assert stored['ALERTS_FOR_STATE{alertname="A",x="1"}'] == [(15, since), (30, since), (45, since), (60, None)]


def test_wrong_expression() -> None:
    """It is asked once; the others go on."""
    server = Memory({"b": at(0, 60)}, {"a": {-1}})
    made = evaluation(server, "- {name: g, rules: [{alert: A, expr: a}, {alert: B, expr: b}]}")
    run(made, 30, 60)
    assert firings(made) == {"A": [], "B": [(0, None)]}
    assert made.groups[0].rules[0].problem == "it fails"
    assert [each[0] for each in server.asked].count("a") == 1


def test_expression_that_fails_at_times() -> None:
    """At these instants nothing changes, as in a rule manager; the others are asked one by one."""
    server = Memory({"a": at(0, 90)}, {"a": {30, 105}})
    made = evaluation(server, "- {name: g, rules: [{alert: A, expr: a, for: 45s}]}")
    run(made, 60, 150)
    assert firings(made) == {"A": [(45, 120)]}
    assert made.groups[0].rules[0].problem == "it fails"


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("{alert: A, expr: a}", "same labelset after applying alert labels"),
        ("{record: n, expr: a}, {alert: B, expr: b}", "same labelset after applying rule labels"),
    ],
)
def test_doubles(rule: str, problem: str) -> None:
    """Two results that differ in their names alone are refused."""
    server = Memory({"a": {0: [{"__name__": "x"}, {"__name__": "y"}], 15: [{"__name__": "x"}]}})
    made = evaluation(server, f"- {{name: g, rules: [{rule}]}}")
    run(made, 15)
    assert problem in made.groups[0].rules[0].problem


def test_limits() -> None:
    """More alerts than the limit clear all; more series are not stored."""
    server = Memory({"a": {0: [{"x": "1"}], 15: [{"x": "1"}, {"x": "2"}], 30: [{"x": "1"}]}})
    made = evaluation(server, "- {name: g, limit: 1, rules: [{alert: A, expr: a}, {record: n, expr: a}]}")
    run(made, 30)
    assert firings(made)["A"] == [(0, 15), (30, None)]
    assert [state.problem for state in made.groups[0].rules] == [
        "exceeded limit of 1 with 2 alerts", "exceeded limit of 1 with 2 series",
    ]  # fmt: skip
    assert dict(server.stored)['n{x="1"}'] == [(0, "1"), (30, "1")]


def test_templates() -> None:
    """Those of labels are filled in; others are told."""
    server = Memory({"a": at(0, 0, x="1")})
    labels = "{board: 'no {{ $labels.x }}{{$labels.z}}', value: '{{ $value }}'}"
    made = evaluation(server, f"- {{name: g, rules: [{{alert: A, expr: a, labels: {labels}}}]}}")
    run(made, 0)
    (state,) = made.groups[0].rules
    (firing,) = state.states.all_firings()
    assert dict(firing.labels) == {"alertname": "A", "board": "no 1", "value": "{{ $value }}", "x": "1"}
    assert state.notes == ["the template '{{ $value }}' of a label is not filled in"]
