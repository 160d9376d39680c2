"""Rule files, and what their rules need."""

from __future__ import annotations

import pytest

from fakedev.scenario.rules.alert_rules import Needs, RecordingRule, labels_of, metrics_of, seconds_of
from fakedev.scenario.rules.rule_files import read_rules
from fakedev.schema.places import ConfigurationError

RULES = """
groups:
  - name: g
    rules:
      - {record: "gpu:hot:max5m", expr: "max_over_time(temp[5m])"}
      - {alert: Hot, expr: 'gpu:hot:max5m{node="a"} > 85', for: 1h30m, annotations: {x: y}}
      - {alert: Codes, expr: "xid_errors == 46 or xid_errors offset 1d > 1000"}
"""


@pytest.mark.parametrize(
    ("expression", "metrics"),
    [
        ("a > 1 and on(node) b", {"a", "b"}),
        ('sum by (x, y) (rate(a{b="c{}"}[5m])) / ignoring(z) group_left(q) d', {"a", "d"}),
        ('{__name__="a"} unless up == bool 0', {"a", "up"}),
        ("absent(a) # b\n or inf", {"a"}),
        ("avg_over_time((a % 256 >= bool 128)[1h:1m])", {"a"}),
        ("a offset 5m > 1e9", {"a"}),
    ],
)
def test_metrics(expression: str, metrics: set[str]) -> None:
    """Neither functions nor labels, texts, durations or words of PromQL."""
    assert metrics_of(expression) == metrics


def test_durations() -> None:
    assert [seconds_of(each) for each in ("1h30m", "1w", "250ms", "")] == [5400, 604800, 0.25, 0]


def test_a_file() -> None:
    """Recorded series are followed; alerts can be told apart."""
    rules = read_rules(RULES, "r.yml")
    hot, codes = rules.alerts
    assert (hot.metrics, hot.labels, hot.for_seconds, hot.window_seconds) == ({"temp"}, {"node"}, 5400, 300)
    assert (codes.codes, codes.window_seconds) == ({46}, 86400)
    assert hot.codes == frozenset()
    labels = [rule.get("labels") for rule in rules.numbered_trees[0]["rules"]]
    assert labels == [None, {"fakedev_rule": "0"}, {"fakedev_rule": "1"}]
    (group,) = rules.groups
    assert group.rules == (RecordingRule("gpu:hot:max5m", "max_over_time(temp[5m])", {}, "r.yml:5"), hot, codes)
    assert rules.trees[0]["rules"][1]["annotations"] == {"x": "y"}
    assert read_rules("kind: PrometheusRule\nspec:" + RULES.replace("\n", "\n  "), "r.yml").alerts == rules.alerts


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1", "r.yml: is no rule file"),
        ("groups: []", "r.yml: has no alert rule"),
        ("groups:\n  - name: g", "r.yml:2: a group needs a name and a list of rules"),
        ("groups:\n  - name: g\n    rules:\n      - {alert: A}", "r.yml:4: a rule needs expr"),
        ("groups: [{name: g, rules: [{alert: A, expr: a, labels: b}]}]", "r.yml:1: the labels"),
        ("groups: [{name: g, limit: x, rules: [{alert: A, expr: a}]}]", "r.yml:1: the limit"),
        ("groups: [{name: g, interval: {}, rules: [{alert: A, expr: a}]}]", "r.yml:1: interval of a group"),
        ("groups: [{name: {}, rules: [{alert: A, expr: a}]}]", "r.yml:1: a group needs a name"),
        ("groups: [{name: g, rules: [{alert: A, expr: a, annotations: {a: [1]}}]}]", "r.yml:1: the annotations"),
        ("groups: [{name: , rules: [{alert: A, expr: a}]}]", "r.yml:1: a group needs a name"),
        ("groups: [{name: g, rules: [{alert: A, expr: 'a[1111y]'}]}]", "r.yml:1: expr: 1111y is too long"),
        (f"groups: [{{name: g, rules: [{{alert: A, expr: a offset {'1' * 400}w}}]}}]", "r.yml:1: expr: 1{40} is too"),
        ("groups: [{name: g, rules: [{alert: A, expr: a, for: 999999999d}]}]", "r.yml:1: for: 999999999d is too long"),
        ("groups: [{name: g, interval: 999999999d, rules: [{alert: A, expr: a}]}]", "r.yml:1: interval: 999999999d"),
        (f"groups: [{{name: g, limit: {'1' * 5000}, rules: [{{alert: A, expr: a}}]}}]", "r.yml:1: the limit of a"),
        ("groups: [", "r.yml:2: is not YAML"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        read_rules(text, "r.yml")


def test_a_group() -> None:
    """Its interval, offset, limit and labels; what its alerts are to find."""
    rules = read_rules(
        "groups: [{name: g, interval: 1m, query_offset: 30s, limit: 5, labels: {team: a, x: y}, rules: ["
        "{alert: A, expr: up == 0, labels: {x: z}, annotations: {fakedev_expects: 'xid  code=79, fan'}},"
        "{alert: B, expr: up == 0, annotations: {fakedev_expects: none}}]}]",
        "r.yml",
    )
    (group,) = rules.groups
    assert (group.interval_seconds, group.offset_seconds, group.limit) == (60, 30, 5)
    first, second = rules.alerts
    assert (first.expects, second.expects) == (("xid code=79", "fan"), ())
    assert (first.own_labels, second.own_labels) == ({"team": "a", "x": "z"}, {"team": "a", "x": "y"})


@pytest.mark.parametrize(
    ("expression", "labels"),
    [
        ('a{b="c", d=~"e.*"} > 1', {"b", "d"}),
        ('a{b="", c=~".*", d=~"x|", e!="f", g!~"h"}', set()),
        ('{__name__="a", b="}"} # {c="d"}', {"b"}),
    ],
)
def test_labels(expression: str, labels: set[str]) -> None:
    """Only those that a series must have to match."""
    assert labels_of(expression) == labels


@pytest.mark.parametrize(
    ("expression", "missing"),
    [
        ("a > 1", ()),
        ("gone > 1", ("gone",)),
        ("gone > 1 or a > 2", ()),
        ("(gone > 1 or lost > 2)", ("gone", "lost")),
        ("((gone > 1) or (a))", ()),
        ("(gone > 1) or (lost)", ("gone", "lost")),
        ("a unless gone", ()),
        ("a unless on(x) gone and b", ("b",)),
        ("a unless gone or lost", ()),
        ("absent(gone)", ()),
        ("a and absent_over_time(gone[5m]) and lost", ("lost",)),
        ("sum(gone or a)", ("gone",)),
        ("recorded > 1", ("gone",)),
        ("other > 1", ()),
        ("round", ("round",)),
        ('a{x="1"}', ("x",)),
        ('a{instance="1"} or gone', ()),
        ('a{instance=" or "}', ()),
        ("a # or\n and gone", ("gone",)),
        ("a > (", ()),
        ("absent(", ()),
    ],
)
def test_missing(expression: str, missing: tuple[str, ...]) -> None:
    """One side of ``or`` is enough; what must be absent is not needed."""
    recorded = {"recorded": "gone * 2", "other": "a", "round": "round + a"}
    needs = Needs(lambda name: name == "a", lambda name: name == "instance", recorded)
    assert needs.missing_of(expression) == missing


@pytest.mark.slow
def test_missing_of_many() -> None:
    """Long chains, all ways through a net of recorded series, and deep parentheses take linear time."""
    chain = {f"r{number}": f"r{number + 1}" for number in range(5000)} | {"r5000": "gone"}
    net = {f"{side}{number}": f"x{number + 1} + y{number + 1}" for side in "xy" for number in range(200)}
    net |= {"x200": "a", "y200": "a"}
    needs = Needs(lambda name: name == "a", lambda name: True, chain | net)
    assert needs.missing_of("r0") == ("gone",)
    assert needs.missing_of("x0 > y0") == ()
    assert needs.missing_of("(" * 100_000 + "gone" + ")" * 100_000) == ("gone",)
    assert needs.missing_of("(" * 100_000) == ()
