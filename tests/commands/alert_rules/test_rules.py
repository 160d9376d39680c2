"""Rule files, and what their rules need."""

from __future__ import annotations

import pytest

from fakedev.commands.alert_rules.rules import metrics_of, read_rules, seconds_of
from fakedev.config.schema.nodes import ConfigurationError

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
    """With weeks and years."""
    assert [seconds_of(each) for each in ("1h30m", "1w", "250ms", "")] == [5400, 604800, 0.25, 0]


def test_a_file() -> None:
    """Recorded series are followed; alerts can be told apart."""
    rules = read_rules(RULES, "r.yml")
    hot, codes = rules.alerts
    assert (hot.metrics, hot.labels, hot.for_seconds, hot.window_seconds) == ({"temp"}, {"node"}, 5400, 300)
    assert (codes.codes, codes.window_seconds) == ({46}, 86400)
    assert hot.codes == frozenset()
    labels = [rule.get("labels") for rule in rules.groups[0]["rules"]]
    assert labels == [None, {"fakedev_rule": "0"}, {"fakedev_rule": "1"}]
    assert read_rules("kind: PrometheusRule\nspec:" + RULES.replace("\n", "\n  "), "r.yml").alerts == rules.alerts


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1", "r.yml: is no rule file"),
        ("groups: []", "r.yml: has no alert rule"),
        ("groups:\n  - name: g", "r.yml:2: a group needs a name and a list of rules"),
        ("groups:\n  - name: g\n    rules:\n      - {alert: A}", "r.yml:4: a rule needs expr"),
        ("groups: [{name: g, rules: [{alert: A, expr: a, labels: b}]}]", "r.yml:1: the labels"),
        ("groups: [", "r.yml:2: is not YAML"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    """With its place."""
    with pytest.raises(ConfigurationError, match=problem):
        read_rules(text, "r.yml")
