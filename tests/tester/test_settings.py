"""The section tester of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakedev.config.export import effective_text
from fakedev.config.load import load
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError
from fakedev.tester.plan import ClosedLoad, OpenLoad, Plan, Spacing
from fakedev.tester.settings import load_plans

PLANS = """
version: 1
fleet: {pools: [{name: p, nodes: 1, device: h100, identity: dcgm}]}
tester:
  plans:
    - {queue: sleep, arguments: ["0.5"], parallel: 4, most-parallel: 16, delay: 250ms, limit: 5s}
    - {name: night, queue: train, frontend: /run/f.sock, protocol: bare, rate: 20/s, arrivals: poisson, seed: 7}
"""


def plans_of(text: str) -> tuple[Plan, ...]:
    return load("f.yaml", Files(environ={}), text=text).plans


def test_plans() -> None:
    closed, opened = plans_of(PLANS)
    assert closed == Plan("sleep", "sleep", ClosedLoad(4, 16, 0.25), "localhost:9997", ("0.5",), 5.0, True)
    assert (opened.name, opened.queue, opened.frontend, opened.json_lines) == ("night", "train", "/run/f.sock", False)
    assert isinstance(opened.load, OpenLoad)
    assert (opened.load.spacing, opened.load.seed, opened.load.max_outstanding) == (Spacing.POISSON, 7, 10_000)


def test_limits_of_the_open_model() -> None:
    """The limits of requests under way and of arrivals that wait reach the plan."""
    plan = "{queue: a, rate: 20/s, most-outstanding: 5, most-waiting: 6}"
    (opened,) = plans_of(PLANS.partition("    - ")[0] + f"    [{plan}]\n")
    assert isinstance(opened.load, OpenLoad)
    assert (opened.load.max_outstanding, opened.load.max_waiting) == (5, 6)


@pytest.mark.parametrize(
    ("listen", "frontend"),
    [
        ("", "127.0.0.1:9997"),
        (", listen-clients: [9500]", "127.0.0.1:9500"),
        (", listen-clients: [{listen: '*:9500', open: true}]", "localhost:9500"),
        (", listen-clients: ['[::1]:9500']", "[::1]:9500"),
        (", listen-clients: [/run/q.sock, 9500]", "/run/q.sock"),
        (", listen-clients: ['tcp:9500:interface=127.0.0.1', 9501]", "127.0.0.1:9501"),
    ],
)
def test_its_own_queues(listen: str, frontend: str) -> None:
    """A plan that names no frontend puts its requests into the queues of the same file."""
    plans = "tester: {plans: [{queue: sleep}, {name: b, queue: sleep, frontend: other:1}]}"
    own, other = plans_of(f"{PLANS.partition('tester:')[0]}queues: {{names: [sleep]{listen}}}\n{plans}")
    assert (own.frontend, other.frontend) == (frontend, "other:1")


def test_there_need_be_none() -> None:
    assert plans_of(PLANS.partition("tester:")[0]) == ()


def test_the_effective_configuration_can_be_read_again() -> None:
    """What --print-config says of plans is a configuration with the same plans."""
    configuration = load("f.yaml", Files(environ={}), text=PLANS)
    again = plans_of(effective_text(configuration))
    assert [plan.name for plan in again] == ["sleep", "night"]
    assert again[0] == configuration.plans[0]


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ("{name: a}", "'queue' is missing"),
        ("{queue: a, paralel: 3}", "did you mean 'parallel'"),
        ("{queue: a, parallel: 9, most-parallel: 3}", "parallel: 9 is more than most-parallel, 3"),
        ("{queue: a, rate: 20/s, parallel: 3}", "parallel: is not for plans with a rate"),
        ("{queue: a, seed: 3}", "seed: is for plans with a rate"),
        ("{queue: a, rate: fast}", "rate: 'fast' is no rate"),
        ("{queue: a, rate: 'csv:absent.csv'}", "rate: absent.csv: no such file"),
        ("{queue: a, frontend: 'host:99999'}", "frontend: 'host:99999' is no socket"),
        ("{queue: a, name: a/b}", "'a/b' is no name of a plan"),
        ("{queue: a}, {queue: a}", "two plans are called 'a'"),
    ],
)
def test_what_is_wrong(plan: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        plans_of(PLANS.partition("    - ")[0] + f"    [{plan}]\n")
    (problem,) = raised.value.problems
    assert reason in problem.text
    assert problem.line == 6


def test_reports() -> None:
    """Relative to the configuration; their names say what they are."""
    text = PLANS + "  reports: [out.html, /tmp/out.json]\n"
    assert load("/etc/f.yaml", Files(environ={}), text=text).reports == ("/etc/out.html", "/tmp/out.json")
    for line, reason in (("  reports: [out.pdf]", "'out.pdf' does not end with .txt"), ("", "there are no plans")):
        bad = f"{PLANS}{line}\n" if line else PLANS.partition("  plans:")[0] + "  reports: [a.txt]\n"
        with pytest.raises(ConfigurationError, match=reason):
            load("f.yaml", Files(environ={}), text=bad)


def test_a_file_of_plans(tmp_path: Path) -> None:
    """With relative paths beginning at its folder."""
    (tmp_path / "rates.csv").write_text("seconds,rate\n0,5\n10,5\n")
    file = tmp_path / "plans.yaml"
    file.write_text("plans:\n- {queue: a, rate: csv:rates.csv}\n- {queue: b}\n")
    assert [plan.name for plan in load_plans(str(file), Files(environ={}))] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("plans: [{queue: a}]\nreports: [a.txt]", "are given here by -report FILE"),
        ("plans: []", "there are none"),
        ("plan: x", "unknown key"),
        ("[", "plans.yaml:2: is not YAML"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "plans.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=reason):
        load_plans(str(file), Files(environ={}))
    with pytest.raises(ConfigurationError, match="no such file"):
        load_plans(str(tmp_path / "absent.yaml"), Files(environ={}))
