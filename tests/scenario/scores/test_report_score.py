"""Scores as text, JSON, JUnit's XML and HTML; the file for promtool; what pages can have."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from fakedev.scenario.rules.alert_rules import Pending
from fakedev.scenario.rules.promtool_tests import InputSeries, promtool_tests
from fakedev.scenario.rules.rule_files import read_rules
from fakedev.scenario.samples.series import Scraped, Series
from fakedev.scenario.scores.coverage import Coverage
from fakedev.scenario.scores.score import RuleRun, Score, score
from fakedev.scenario.scores.score_report import (
    Finding,
    judge,
    junit,
    notes,
    parse_requirement,
    rule_rows,
    score_html,
    score_values,
    span_text,
)
from fakedev.scenario.truth import Cause, Truth
from tests.scenario.scores.test_score import TRUTH, firing, labels_of_nodes, rule, words
from tests.support.configurations import loaded
from tests.support.fleet.fleets import make_fleet

HOSTILE = '<b>&"\'\x1b[31m\n]]>'


def sample() -> tuple[Score, list[Finding]]:
    """A score of rules of all sorts, with hostile texts, and expectations of it."""
    runs = [
        RuleRun(rule("Hot"), "r.yml", "g", 15, (firing(675, 1170, 0), firing(1275, None, 0)), words("fan"),
                pendings=(Pending((("alertname", "Hot"),), 30, 60),)),
        RuleRun(rule("Late"), "r.yml", "g", 60, (firing(3000, 3600, 1, x=HOSTILE),), words("xid", "fan")),
        RuleRun(rule("Blind", wait=0), "r.yml", "g", 15, (), words("xid"), lacks=("metric", HOSTILE)),
        RuleRun(rule(HOSTILE), "r.yml", HOSTILE, 15, (), words("fan"), problem=HOSTILE, notes=(HOSTILE,)),
        RuleRun(rule("Never"), "r.yml", "g", 15, (), words("inlet")),
        RuleRun(rule("Quiet"), "r.yml", "g", 15, (), ()),
        RuleRun(rule("Unsaid"), "r.yml", "g", 15, (firing(700, 760, 0),), None),
    ]  # fmt: skip
    found = score(runs, TRUTH, labels_of_nodes(), 3600, 15)
    return found, judge([parse_requirement(each) for each in ("recall>=0.9", "blind==0", "Hot: detect<=2m")], found)


def test_text() -> None:
    """A row for each rule; what no rule saw."""
    found, _ = sample()
    rows = {row["ALERT"]: row for row in rule_rows(found)}
    assert rows["Hot"]["RECALL"] == "1.00 (1/1)"
    assert (rows["Hot"]["FOUND AFTER"], rows["Hot"]["CLEARS AFTER"], rows["Hot"]["TIMES"]) == ("75 s", "never", "2")
    assert rows["Hot"]["OF IT"] == "for 1m, scrape 15s, evaluation 15s"
    assert rows["Late"]["REMARK"].startswith("missed fan (hot) on n-0/0, 10m to 22m and 1 more")
    assert rows["Never"]["REMARK"].startswith("never tried")
    assert rows["Unsaid"]["REMARK"].endswith("fired during fan")
    said = list(notes(found))
    assert said[1:] == ["1 fault that no rule saw:", "  xid code=79 on n-0/1, 30m to 40m"]


@pytest.mark.parametrize(
    ("begin", "end", "text"),
    [(0, None, "0s to the end"), (3040, 90061.5, "50m40s to 1d1h1m1.5s"), (86400, 86400, "1d to 1d")],
)
def test_times(begin: float, end: float | None, text: str) -> None:
    assert span_text(begin, end) == text


def test_json() -> None:
    """All figures; what never clears is null, because JSON has no infinity."""
    found, findings = sample()
    values = json.loads(json.dumps(score_values(found, findings), allow_nan=False))
    hot, late, *_ = values["rules"]
    assert hot["clear-seconds"] == {"median": None, "worst": None}
    assert [each["false"] for each in hot["firings"]] == [False, False]
    assert [each["false"] for each in late["firings"]] == [True]
    assert values["silent"][0]["what"] == "xid code=79"
    assert [each["met"] for each in values["expectations"] if each["text"] == "blind==0"] == [False]


def test_junit() -> None:
    """Failures, errors and skipped rules; texts are escaped."""
    suite = ElementTree.fromstring(junit(*sample(), "week").encode())
    cases = {case.get("name"): [each.tag for each in case] for case in suite}
    assert cases["Hot"] == []
    assert cases["Late"] == ["failure"]
    assert cases["Never"] == ["skipped"]
    assert cases["blind==0"] == ["failure"]
    assert suite.get("failures") == str(sum("failure" in tags for tags in cases.values()))


class Tags(HTMLParser):
    """The tags of a page; each must be closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html() -> None:
    """One page that loads nothing; hostile texts are no tags."""
    text = score_html(*sample(), HOSTILE)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert {"b", "script", "img", "link"}.isdisjoint(tags.seen)
    assert "default-src 'none'" in text and "http" not in text.replace("http-equiv", "")
    assert "\x1b" not in text
    for kind in ("cause", "effect", "true", "false", "pending", "window", "missed"):
        assert f'<rect class="{kind}" x="' in text.partition('<div class="timeline"')[2]


@pytest.mark.slow
def test_html_of_many() -> None:
    """Thousands of short intervals are as many bars as can be told apart."""
    causes = tuple(Cause(f"f{n}", "fan", "", ("n-0/0",), 7.0 * n, 7.0 * n + 3, {}) for n in range(80_000))
    text = score_html(score([], Truth(causes), labels_of_nodes(), 7.0 * 80_000, 15), [], "week")
    assert 1 <= text.count('<rect class="cause" x="') < 1000
    assert "and 79999 more near it" in text


def test_html_of_nothing() -> None:
    text = score_html(score([], Truth(), labels_of_nodes(), 60, 15), [], "none")
    assert "<svg" in text


def test_promtool_file() -> None:
    """Samples of the metrics that are needed; the state of alerts at each change and just before."""
    inputs = InputSeries({"a"})
    series, other = Series("a", {"x": "1"}), Series("b", {})
    inputs.add(0, Scraped([series, other], [b"1", b"1"]))
    inputs.add(1, Scraped([series], [b"1"], [other]))
    inputs.add(2, Scraped([], [], [series]))
    inputs.add(9, Scraped([series], [b"2"]))
    file = read_rules("groups: [{name: g, rules: [{alert: Hot, expr: a}]}]", "r.yml")
    labels = (("alertname", "Hot"), ("x", 'q"'))
    run = RuleRun(
        file.alerts[0], "r.yml", "g", 30, (firing(60, 90, wait=30, x='q"'),), (), pendings=(Pending(labels, 30, 60),)
    )
    failing = RuleRun(rule("Fails"), "r.yml", "g", 30, (firing(60, 90),), (), problem="bad")
    tree = json.loads(promtool_tests("r.yml", file.groups, "week", inputs, [run, failing], 15_000, 30_000))
    (test,) = tree["tests"]
    assert test["input_series"] == [{"series": 'a{x="1"}', "values": "1+0x1 stale _x6 2"}]
    found = {each["eval_time"]: each["exp_samples"] for each in test["promql_expr_test"]}
    assert {time: [each["labels"] for each in samples] for time, samples in found.items()} == {
        "0ms": [],
        "30000ms": ['ALERTS{alertname="Hot", alertstate="pending", x="q\\""}'],
        "60000ms": ['ALERTS{alertname="Hot", alertstate="firing", x="q\\""}'],
        "90000ms": [],
        "120000ms": [],
    }
    assert (tree["evaluation_interval"], test["interval"]) == ("30000ms", "15000ms")


def test_coverage() -> None:
    """Metrics and labels that were seen, that a fault can bring, or that rules make; others are lacking."""

    pool = {"name": "p", "device": "h100", "identity": "dcgm"}
    text = json.dumps({"fleet": {"epoch": "0", "pools": [pool]}, "web": [], "workloads": {"listen": []}})
    configuration = loaded(text)
    coverage = Coverage()
    coverage.see(0, [Series("up", {"job": "fakedev", "instance": "a"})])
    coverage.add(configuration.identities.values(), make_fleet(*configuration.fleet.pools).state)
    rules = read_rules(
        "groups: [{name: g, rules: ["
        "{alert: Seen, expr: 'up{job=\"x\"} == 0'},"
        "{alert: WithFault, expr: 'DCGM_FI_DEV_XID_ERRORS{pod!=\"a\", gpu=\"1\"} > 0'},"
        "{record: own, expr: 'max(DCGM_FI_DEV_GPU_TEMP)', labels: {team: a}},"
        "{alert: Own, expr: 'own{team=\"a\"} > 1 and on() ALERTS{alertname=\"x\"}'},"
        "{alert: Blind, expr: 'DCGM_FI_DEV_POWER_VIOLATION > 0'},"
        "{alert: Elsewhere, expr: 'up{cluster=\"a\"} == 0'}]}]",
        "r.yml",
    )
    coverage.add_rules(rules.groups)
    needs = coverage.needs(rules.recorded)
    lacks = {alert.name: needs.missing_of(alert.expression) for alert in rules.alerts}
    assert lacks == {
        "Seen": (), "WithFault": (), "Own": (), "Blind": ("DCGM_FI_DEV_POWER_VIOLATION",), "Elsewhere": ("cluster",),
    }  # fmt: skip
