"""The score of alert rules."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.config.load import load
from fakedev.fleet.entities.roster import Roster
from fakedev.scenario.rules.alert_rules import AlertRule, Firing
from fakedev.scenario.rules.expected import Word, read_word
from fakedev.scenario.samples.scrapes import Target
from fakedev.scenario.scores.score import DeviceLabels, RuleRun, RuleScore, Score, Verdict, score
from fakedev.scenario.scores.score_report import judge, parse_requirement
from fakedev.scenario.truth import Cause, Effect, Truth
from fakedev.schema.files import Files

FAN = Cause("f1", "fan", "hot", ("n-0/0",), 600, 1320, {})
XID = Cause("f2", "xid", "", ("n-0/1",), 1800, 2400, {"code": 79})
LOST = Effect("lost", 0, ("n-0/1",), 1800, 2410, ("f2",))
TRUTH = Truth((FAN, XID), (Effect("throttled_thermal", 0, ("n-0/0",), 700, 1350, ("f1",)), LOST))


@cache
def labels_of_nodes() -> DeviceLabels:
    """The labels of two boards on each of n-0 and n-1, as dcgm-exporter shows them."""
    pool = {"name": "n", "nodes": 2, "node-name": "n-{}", "device": "h100", "devices-per-node": 2, "identity": "dcgm"}
    text = json.dumps({"fleet": {"epoch": "0", "pools": [pool]}, "web": [], "workloads": {"listen": []}})
    configuration = load(None, Files(environ=os.environ), text=text)
    labels = DeviceLabels()
    targets = [Target(node, {"job": "fakedev", "instance": f"{node}:9400"}) for node in ("n-0", "n-1")]
    labels.add(Roster(configuration.fleet.pools), configuration.fleet.seed, configuration.identities, targets)
    return labels


def rule(name: str = "Rule", wait: float = 60, window: float = 0, keep: float = 0) -> AlertRule:
    return AlertRule(0, name, "x > 1", wait, keep, window, frozenset("x"), frozenset())


def words(*texts: str) -> tuple[Word, ...]:
    """What a rule is to find; entries are called ``hot``."""
    return tuple(read_word(text, ["hot"]) for text in texts)


def firing(begin: float, end: float | None, gpu: int | None = None, wait: float = 60, **labels: str) -> Firing:
    """A firing for a board of n-0, or for the whole fleet."""
    if gpu is not None:
        labels |= {"gpu": str(gpu), "Hostname": "n-0"}
    return Firing(tuple(sorted({"alertname": "Rule", **labels}.items())), begin - wait, begin, end)


def scored(
    firings: Sequence[Firing], expects: tuple[Word, ...] | None, truth: Truth = TRUTH, **of_rule: float
) -> RuleScore:
    run = RuleRun(rule(**of_rule), "r.yml", "g", 15, tuple(firings), expects)  # type: ignore[arg-type]
    return score([run], truth, labels_of_nodes(), 3600, 15).rules[0]


def test_the_figures() -> None:
    """A fan is found after 75 s, twice; the alert clears with it."""
    found = scored([firing(675, 1170, 0), firing(1275, 1335, 0), firing(3000, 3015, 0)], words("fan"))
    assert (found.precision, found.recall) == (2 / 3, 1)
    assert found.detect == (75, 75)
    assert found.clear == (15, 15)
    assert found.most_times == 2
    assert found.false_firings == (firing(3000, 3015, 0),)
    assert found.verdict is Verdict.SCORED


@pytest.mark.parametrize(
    ("texts", "incidents"),
    [
        (["fan"], ["fan (hot)"]),
        (["hot"], ["fan (hot)"]),
        (["fan", "hot", "throttled_thermal"], ["fan (hot)"]),
        (["throttled_thermal"], ["throttled_thermal"]),
        (["xid code=79"], ["xid code=79"]),
        (["xid code=13"], []),
        (["xid", "fan"], ["fan (hot)", "xid code=79"]),
        (["lost"], ["lost"]),
        (["lost", "xid"], ["xid code=79"]),
        (["inlet"], []),
    ],
)
def test_words(texts: list[str], incidents: list[str]) -> None:
    """Kinds with values, effects that no expected fault brought, entries; each incident once."""
    assert [incident.incident.what for incident in scored([], words(*texts)).incidents] == incidents


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fann", "'fann' is neither a kind of fault, nor an effect.*; did you mean fan?"),
        ("xid kode=79", "takes no 'kode'; did you mean code?"),
        ("xid code=x", "'x' is no number"),
        ("hung a=1", "hung takes no 'a': it takes no values"),
        ("hot code=1", "'hot' is neither"),
    ],
)
def test_unknown_words(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_word(text, ["hot"])


@pytest.mark.parametrize(
    ("at", "of_rule", "is_true"),
    [
        (1380, {}, True),  # the effect to 1350, a scrape and an evaluation
        (1381, {}, False),
        (1681, {"window": 300}, False),
        (1680, {"window": 300}, True),
        (1500, {"keep": 120}, True),
        (600, {}, True),
    ],
)
def test_grace(at: float, of_rule: dict[str, float], is_true: bool) -> None:
    """What follows from a fault is no false alarm: to the end of its effects, and what it takes to see that."""
    found = scored([firing(at, at + 15, 0, wait=0)], words("fan"), **of_rule)
    assert found.precision == is_true
    assert found.recall == is_true


def test_devices() -> None:
    """An alert of another board is a false one; one without such labels, or with the node's alone, is not."""
    assert scored([firing(675, 1170, 1)], words("fan")).precision == 0
    assert scored([firing(675, 1170)], words("fan")).precision == 1
    assert scored([firing(675, 1170, Hostname="n-0")], words("fan")).precision == 1
    assert scored([firing(675, 1170, Hostname="n-1")], words("fan")).precision == 0
    assert scored([firing(675, 1170, instance="n-1:9400")], words("fan")).precision == 0


def test_a_warning_of_a_moment() -> None:
    """An alert that fired until work ended has warned of it; one that ended when a fault began has not."""
    ends = Truth((), (Effect("over_limit", 1, ("n-0/0",), 600, 600, (), "leak"),))
    found = scored([firing(540, 600, 0)], words("over_limit"), ends)
    assert (found.precision, found.recall, found.detect) == (1, 1, (0, 0))
    assert scored([firing(540, 585, 0)], words("over_limit"), ends).recall == 0
    assert scored([firing(540, 600, 0)], words("fan")).recall == 0


def test_boards_of_a_node_that_is_down() -> None:
    """They are not lost, the node is; a board that a fault of its own has switched off is."""
    down = Cause("f1", "node-down", "", ("n-0/0", "n-0/1"), 600, 900, {})
    heat = Cause("f2", "overheat", "", ("n-1/0",), 600, 900, {})
    effects = (Effect("lost", 0, down.devices, 600, 900, ("f1",)), Effect("lost", 0, heat.devices, 650, 900, ("f2",)))
    incidents = scored([], words("lost"), Truth((down, heat), effects)).incidents
    assert [incident.incident.devices for incident in incidents] == [("n-1/0",)]
    (incident,) = scored([], words("lost", "node-down"), Truth((down,), effects[:1])).incidents
    assert incident.incident.what == "node-down"


def test_incidents_of_several_devices() -> None:
    """They are as many as the alerts tell apart."""
    truth = Truth((Cause("f", "fan", "", ("n-0/0", "n-0/1/2", "n-1/0"), 600, 900, {}),))
    by_board = scored([firing(660, 900, 0), firing(660, 930, 1)], words("fan"), truth)
    assert (len(by_board.incidents), by_board.recall) == (3, 2 / 3)
    by_node = scored([firing(660, 900, Hostname="n-0")], words("fan"), truth)
    assert (len(by_node.incidents), by_node.recall) == (2, 1 / 2)
    plain = scored([firing(660, 900)], words("fan"), truth)
    assert (len(plain.incidents), plain.recall) == (1, 1)
    down = Truth((Cause("f", "node-down", "", ("n-1",), 600, 900, {}),))
    assert scored([firing(660, 900, Hostname="n-1")], words("node-down"), down).recall == 1
    assert scored([firing(660, 900, Hostname="n-0")], words("node-down"), down).recall == 0


def test_open_ends() -> None:
    """A fault that lasts has no time to clear; an alert that fires to the end of the run never clears."""
    truth = Truth((Cause("f", "fan", "", ("n-0/0",), 600, None, {}),))
    assert scored([firing(660, None, 0)], words("fan"), truth).clear is None
    assert scored([firing(675, None, 0)], words("fan")).clear == (math.inf, math.inf)
    assert scored([firing(100, 700, 0)], words("fan")).detect == (0, 0)
    assert scored([firing(675, 1170, 0)], words("fan")).clear == (-150, -150)


def test_verdicts() -> None:
    """Beside figures: must not fire, nothing said, blind, failed, never tried."""
    assert scored([], ()).verdict is Verdict.MUST_NOT_FIRE
    fired = scored([firing(675, 1170, 0)], ())
    assert (fired.precision, fired.recall, len(fired.false_firings)) == (0, None, 1)
    unsaid = scored([firing(675, 1170, 0), firing(3000, 3030, 0)], None)
    assert unsaid.verdict is Verdict.NOT_EXPECTED
    assert (unsaid.precision, unsaid.recall, unsaid.detect) == (0.5, None, None)
    assert [incident.incident.what for incident in unsaid.incidents] == ["fan (hot)"]
    assert scored([], words("inlet")).verdict is Verdict.NEVER_TRIED
    for changed, verdict in (({"lacks": ("y",)}, Verdict.BLIND), ({"problem": "bad"}, Verdict.FAILED)):
        run = RuleRun(rule(), "r.yml", "g", 15, (), words("fan"), **changed)  # type: ignore[arg-type]
        (only,) = score([run], TRUTH, labels_of_nodes(), 3600, 15).rules
        assert (only.verdict, only.recall) == (verdict, 0)


def test_silent() -> None:
    """What no rule saw that is to find it; rules of which nothing is said see whatever they overlap."""

    def silent(*runs: tuple[Sequence[Firing], tuple[Word, ...] | None]) -> list[str]:
        made = [RuleRun(rule(), "r.yml", "g", 15, tuple(each), expects) for each, expects in runs]
        return [each.what for each in score(made, TRUTH, labels_of_nodes(), 3600, 15).silent]

    assert silent() == ["fan (hot)", "xid code=79"]
    assert silent(([firing(675, 1170, 0)], words("fan"))) == ["xid code=79"]
    assert silent(([firing(675, 1170, 0)], words("xid"))) == ["fan (hot)", "xid code=79"]
    assert silent(([firing(675, 1170, 0)], None)) == ["xid code=79"]
    assert silent(([firing(675, 1170, 0)], ())) == ["fan (hot)", "xid code=79"]
    assert silent(([firing(1900, 2400, 1)], words("lost"))) == ["fan (hot)"]


def test_repeated_faults() -> None:
    """Each time is an incident; effects belong to the time before them."""
    every = [Cause("f", "fan", "", ("n-0/0",), 600.0 * n, 600.0 * n + 60, {}) for n in (1, 2, 3)]
    effect = Effect("throttled_thermal", 0, ("n-0/0",), 1230, 1500, ("f",))
    found = scored([firing(1515, 1530, 0, wait=0)], words("fan"), Truth(tuple(every), (effect,)))
    assert [incident.is_found for incident in found.incidents] == [False, True, False]


times = st.integers(0, 60).map(lambda number: number * 15.0)
devices = st.sampled_from(["n-0/0", "n-0/1", "n-1/0", "n-1/1"])


@st.composite
def truths(draw: st.DrawFn) -> Truth:
    causes = [
        Cause(f"f{number}", draw(st.sampled_from(["fan", "inlet", "xid"])), "", (draw(devices),), begin,
              draw(st.none() | st.just(begin + draw(times))), {"code": 79.0})
        for number, begin in enumerate(draw(st.lists(times, max_size=6)))
    ]  # fmt: skip
    effects = [
        Effect("lost", 0, cause.devices, cause.begin_seconds, draw(st.none() | st.just(cause.begin_seconds + 30)),
               (cause.fault_id,))
        for cause in causes
        if draw(st.booleans())
    ]  # fmt: skip
    return Truth(tuple(causes), tuple(effects))


@st.composite
def firings(draw: st.DrawFn) -> Firing:
    """A firing of a board, a node or the fleet."""
    begin = draw(times)
    end = draw(st.none() | st.just(begin + 15 + draw(times)))
    return firing(begin, end, draw(st.none() | st.integers(0, 1)), draw(st.sampled_from([0.0, 60.0])))


EXPECTED = st.none() | st.sampled_from([(), words("fan"), words("fan", "xid"), words("lost"), words("lost", "xid")])


@given(truths(), st.lists(st.tuples(st.lists(firings(), max_size=6), EXPECTED), max_size=3), st.integers(0, 1000))
def test_the_order_does_not_matter(
    truth: Truth, rules: list[tuple[list[Firing], tuple[Word, ...] | None]], seed: int
) -> None:
    """Neither of firings, nor of faults and effects, nor of rules and words."""
    random = Random(seed)

    def shuffled(items: Iterable[Any]) -> list[Any]:
        given = list(items)
        return random.sample(given, len(given))

    def run(mix: bool) -> Score:
        order: Callable[[Iterable[Any]], list[Any]] = shuffled if mix else list
        made = [
            RuleRun(rule(f"R{number}"), "r.yml", "g", 15, tuple(order(each)),
                    None if expects is None else tuple(order(expects)))
            for number, (each, expects) in enumerate(rules)
        ]  # fmt: skip
        changed = Truth(tuple(order(truth.causes)), tuple(order(truth.effects)))
        return score(order(made), changed, labels_of_nodes(), 3600, 15)

    def figures(of: Score) -> list[object]:
        of_rules = [
            (each.run.rule.name, each.verdict, each.precision, each.recall, each.detect, each.clear, each.most_times,
             sorted(each.false_firings, key=repr), sorted(each.incident.what for each in each.found))
            for each in of.rules
        ]  # fmt: skip
        return [sorted(of_rules), sorted(map(repr, (each.what for each in of.silent)))]

    assert figures(run(False)) == figures(run(True))


@given(truths(), st.lists(firings(), max_size=8), EXPECTED)
def test_sums(truth: Truth, every: list[Firing], expects: tuple[Word, ...] | None) -> None:
    """True and false firings are all; found and missed incidents are all; another firing never lowers recall."""
    found = scored(every, expects, truth)
    true = {id(one) for incident in found.incidents for one in incident.firings}
    assert len(true) + len(found.false_firings) == len(every)
    assert (found.precision is None) == (not every)
    assert found.recall is None or found.recall == len(found.found) / len(found.incidents)
    assert len(found.seen) <= len(truth.causes)
    if every and found.recall is not None and expects:
        fewer = scored(every[1:], expects, truth)
        told = {one.labels for one in every}
        if {one.labels for one in every[1:]} == told:
            assert fewer.recall is not None and fewer.recall <= found.recall
    for each in found.found:
        assert each.detect_seconds >= 0 and each.times >= 1


@pytest.mark.parametrize(
    ("text", "results"),
    [
        ("recall>=0.9", [("Hot", 1.0, True), ("Xid", 0.0, False)]),
        ("recall >= 0%", [("Hot", 1.0, True), ("Xid", 0.0, True)]),
        ("Hot: detect<=1m", [("Hot", 75.0, False)]),
        ("Hot:detect.median<=75s", [("Hot", 75.0, True)]),
        ("Xid: detect<=2m", [("Xid", None, False)]),
        ("clear<=0", [("Hot", -150.0, True)]),
        ("silent==1", [("", 1, True)]),
        ("blind==1", [("", 0, False)]),
        ("times<2", [("Hot", 1.0, True), ("Xid", 0.0, True)]),
        ("Other: false<1", [("Other", 1.0, False)]),
        ("precision>0.5", [("Hot", 1.0, True)]),
    ],
)
def test_requirements(text: str, results: list[tuple[str, float | None, bool]]) -> None:
    """Of all rules that have the figure, or of one; what cannot be measured is not met."""
    runs = [
        RuleRun(rule("Hot"), "r.yml", "g", 15, (firing(675, 1170, 0),), words("fan")),
        RuleRun(rule("Xid"), "r.yml", "g", 15, (), words("xid")),
        RuleRun(rule("Other"), "r.yml", "g", 15, (firing(3000, 3030, 0),), None),
    ]
    found = judge([parse_requirement(text)], score(runs, TRUTH, labels_of_nodes(), 3600, 15))
    assert [(each.rule, each.measured, each.is_met) for each in found] == results


def test_requirements_without_rules() -> None:
    """A figure that no rule has is not met."""
    (found,) = judge([parse_requirement("recall>=0")], score([], TRUTH, labels_of_nodes(), 3600, 15))
    assert (found.rule, found.measured, found.is_met) == ("", None, False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("recall", "is no requirement: give FIGURE>=BOUND"),
        ("recal>=1", "no figure 'recal'; did you mean recall?"),
        ("recall>=2", "recall is a number from 0 to 1"),
        ("detect<=fast", "'fast' is not a duration"),
        ("recall>=x", "'x' is not a number"),
        ("Hot: blind==0", "leave out 'Hot'"),
        ("recall>=nan", "a number from 0 to 1"),
    ],
)
def test_bad_requirements(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_requirement(text)


def test_labels_of_devices() -> None:
    """The identity's labels tell devices and nodes apart; labels of pods, of the rule and constants do not."""
    labels = labels_of_nodes()
    assert isinstance(labels, DeviceLabels)
    assert labels.devices((("gpu", "1"), ("Hostname", "n-0"), ("pod", "a"))) == {"n-0/1"}
    assert labels.devices((("gpu", "1"),)) == {"n-0/1", "n-1/1"}
    assert labels.devices((("gpu", "1"), ("instance", "n-1:9400"))) == {"n-1/1"}
    assert labels.devices((("exported_instance", "n-1:9400"),)) == {"n-1/0", "n-1/1"}
    assert labels.devices((("severity", "page"), ("job", "fakedev"))) is None
    assert labels.devices((("modelName", "NVIDIA H100 80GB HBM3"),)) is None
    assert labels.owners(["n-0/1/3", "n-1"]) == {"n-0/1", "n-1/0", "n-1/1"}
