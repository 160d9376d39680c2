"""Scores with a real Prometheus: alerts as promtool finds them, the hour of four faults, and all that ends it early."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.task import deferLater

from fakedev.scenario.rules.alert_rules import AlertRule
from fakedev.scenario.rules.prometheus import Prometheus, PrometheusError, QueryError, prometheus_path
from fakedev.scenario.rules.promtool_tests import InputSeries
from fakedev.scenario.rules.rule_files import RuleFile, read_rules
from fakedev.scenario.scores.evaluation import ScoreRun
from tests.support.documents.snippets import page_commands
from tests.support.paths import DOCUMENTS
from tests.support.programs.browser import Browser
from tests.support.programs.processes import AsyncProgram, StartAsync, console, require_program
from tests.support.scenarios import loaded, started, written

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.requires_program("prometheus")]

FLEET = """
config:
  fleet:
    seed: 7
    epoch: "2026-11-22T00:00:00Z"
    pools: [{name: dgx, nodes: %d, node-name: "dgx-{}", device: h100, devices-per-node: %d, identity: dcgm}]
"""
HOUR = "{for: 1h, scrape: 15s}"
#: Two nodes of two boards with trouble of all sorts, the last ones at the end.
TROUBLE = """
  - {at: 0s, run: {name: llm, devices: "dgx-[0-1]/*", profile: training, pod: llm-0}}
  - {at: 5m, fault: {kind: fan, devices: dgx-0/1, duration: 12m}}
  - {at: 10m, fault: {kind: lost, devices: dgx-1/0, duration: 100s, every: 4m}}
  - {at: 22m, fault: {kind: node-down, node: dgx-1, duration: 5m}}
  - {at: 32m, fault: {kind: reset, devices: dgx-1/1}}
  - {at: 35m, fault: {kind: xid, code: 43, devices: dgx-0/0, duration: 3m}}
  - {at: 40m, fault: {kind: absent, node: dgx-0, metric: DCGM_FI_DEV_POWER_USAGE, duration: 6m}}
  - {at: 50m, fault: {kind: nan, devices: dgx-0/1, metric: DCGM_FI_DEV_GPU_TEMP, duration: 4m}}
  - {at: 58m, fault: {kind: node-down, node: dgx-0}}
"""
RULES = """
groups:
- name: alerts that use what others record
  rules:
  - {alert: Recorded, expr: "node:temp:max > 75", for: 30s}
  - {alert: RecordedAverage, expr: "avg_over_time(node:temp:max[2m]) > 75", for: 30s, keep_firing_for: 2m}
  - {alert: RecordedGone, expr: "absent(node:temp:max{Hostname='dgx-1'})", for: 15s}
- name: records
  rules:
  - {alert: Early, expr: "node:late:min < 60"}
  - {record: "node:temp:max", expr: "max by (Hostname) (DCGM_FI_DEV_GPU_TEMP)", labels: {of: temperature}}
  - {record: "node:late:min", expr: "min by (Hostname) (node:temp:max)"}
- name: alerts
  rules:
  - {alert: Hot, expr: "DCGM_FI_DEV_GPU_TEMP > 78", for: 1m}
  - {alert: Kept, expr: "DCGM_FI_DEV_GPU_TEMP > 78", for: 1m, keep_firing_for: 90s, labels: {a: "{{ $labels.gpu }}"}}
  - {alert: Down, expr: "up == 0"}
  - {alert: DownLong, expr: "up == 0", for: 2m}
  - {alert: DownOften, expr: "sum_over_time((1 - up)[10m:15s]) > 3", for: 15s}
  - {alert: Missing, expr: "count by (Hostname) (DCGM_FI_DEV_GPU_TEMP) < 2", for: 1m, keep_firing_for: 1m}
  - {alert: Energy, expr: "rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[2m]) > 300000", for: 45s}
  - {alert: Reset, expr: "resets(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[5m]) > 0"}
  - {alert: NoPower, expr: "absent(DCGM_FI_DEV_POWER_USAGE{Hostname='dgx-0'})", for: 1m}
  - {alert: Xid, expr: "DCGM_FI_DEV_XID_ERRORS > 0"}
  - {alert: XidWithout, expr: "DCGM_FI_DEV_XID_ERRORS > 0 unless on (Hostname, gpu) DCGM_FI_DEV_GPU_TEMP > 78"}
  - {alert: Every, expr: "sum by (Hostname) (DCGM_FI_DEV_GPU_UTIL) >= 0"}
  - {alert: OfAlerts, expr: "count(ALERTS{alertstate='firing', alertname=~'Hot|Missing'}) > 0", for: 30s}
- name: limited
  limit: 1
  rules:
  - {record: "one:util", expr: "max(DCGM_FI_DEV_GPU_UTIL)"}
  - {alert: Idle, expr: "one:util < 5", for: 15s}
"""


async def played(scenario_run: ScoreRun) -> None:
    """Run a scenario to its end, and stop its Prometheus."""
    try:
        await scenario_run.run_to_end()
    finally:
        await scenario_run.prometheus.stop()


def checks(scored: ScoreRun, rules: RuleFile) -> list[dict[str, object]]:
    """What promtool is to find at each evaluation, of all alerts."""
    found = []
    for state in (state for group in scored.evaluated for state in group.rules if isinstance(state.rule, AlertRule)):
        assert not state.problem and not state.notes, (state.rule.name, state.problem, state.notes)
        spans = [("pending", each.labels, each.begin_seconds, each.end_seconds) for each in state.states.all_pendings()]
        spans += [("firing", each.labels, each.begin_seconds, each.end_seconds) for each in state.states.all_firings()]
        for seconds in range(0, 3600, 15):
            shown = [
                {**dict(labels), "alertstate": of} for of, labels, begin, end in spans
                if begin <= seconds and (end is None or seconds < end)
            ]  # fmt: skip
            samples = [
                {"labels": "ALERTS{" + ", ".join(f"{name}={json.dumps(text)}" for name, text in each.items()) + "}",
                 "value": 1}
                for each in shown
            ]  # fmt: skip
            expression = f'ALERTS{{alertname="{state.rule.name}"}}'
            found.append({"expr": expression, "eval_time": f"{seconds}s", "exp_samples": samples})
    assert len(found) == 240 * len(rules.alerts)
    return found


@pytest.mark.requires_program("promtool")
@pytest_twisted.ensureDeferred
async def test_as_promtool(tmp_path: Path) -> None:
    """At each evaluation the same alerts, pending and firing, as promtool finds in the same samples."""
    (tmp_path / "rules.yml").write_text(RULES)
    rules = read_rules(RULES, "rules.yml")
    run = started(loaded(tmp_path, TROUBLE, head=HOUR, fleet=FLEET % (2, 2)))
    prometheus = Prometheus(reactor, require_program("prometheus"))
    inputs = InputSeries(None)
    groups = [("rules.yml", group) for group in rules.groups]
    scored = ScoreRun(run, prometheus, groups, reactor, lambda share: None, inputs.add)
    await played(scored)
    states = {state.rule.name: state.states for group in scored.evaluated for state in group.rules}
    quiet = [name for name, state in states.items() if name in {rule.name for rule in rules.alerts}
             and not state.all_firings()]  # fmt: skip
    assert quiet == [], "rules that never fire show nothing"
    tests = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "15s",
        "group_eval_order": [group.group.name for group in scored.evaluated],
        "tests": [{"interval": "15s", "input_series": inputs.values(), "promql_expr_test": checks(scored, rules)}],
    }
    (tmp_path / "tests.json").write_text(json.dumps(tests))
    done = subprocess.run(
        ["promtool", "test", "rules", "tests.json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[:3000]


#: The hour of four faults: a fan, XID 79, a double-bit error, a power brake of 40 s.
FOUR = """
  - {at: 0s, run: {name: llm, devices: "dgx-0/[0-7]", profile: training, pod: llm-0}}
  - {at: 10m, as: hot, fault: {kind: fan, devices: dgx-0/1, duration: 12m}}
  - {at: 30m, as: gone, fault: {kind: xid, code: 79, devices: dgx-0/1, duration: 10m}}
  - {at: 40m, as: ecc, fault: {kind: ecc-double, devices: dgx-0/2}}
  - {at: 50m, as: brake, fault: {kind: power-brake, devices: dgx-0/0, duration: 40s}}
rules:
  - file: four.yml
    expects:
      Hot: fan
      Xid: xid code=79
      Missing: lost
      Slow: [fan, brake]
      PowerViolation: power-brake
      DoubleBit: [ecc-double]
      Inlet: inlet
      Fails: fan
"""
FOUR_RULES = """
groups:
- name: four
  rules:
  - {alert: Hot, expr: "DCGM_FI_DEV_GPU_TEMP > 80", for: 1m}
  - {alert: Xid, expr: "DCGM_FI_DEV_XID_ERRORS == 79"}
  - {alert: Missing, expr: "count by (Hostname) (DCGM_FI_DEV_GPU_TEMP) < 8", for: 1m}
  - {alert: Slow, expr: "DCGM_FI_DEV_SM_CLOCK < 1500 and DCGM_FI_DEV_GPU_UTIL > 40", for: 1m}
  - {alert: PowerViolation, expr: "rate(DCGM_FI_DEV_POWER_VIOLATION[5m]) > 0"}
  - {alert: DoubleBit, expr: "increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[5m]) > 0"}
  - {alert: Inlet, expr: "DCGM_FI_DEV_GPU_TEMP > 200"}
  - {alert: Fails, expr: "DCGM_FI_DEV_GPU_TEMP * on (Hostname) DCGM_FI_DEV_GPU_UTIL > 0"}
  - {alert: Quiet, expr: "DCGM_FI_DEV_GPU_TEMP > 200", annotations: {fakedev_expects: none}}
  - {alert: Unsaid, expr: "DCGM_FI_DEV_GPU_TEMP > 80"}
"""


def score(start_async: StartAsync, folder: Path, *arguments: str, command: str = "score") -> AsyncProgram:
    """``fakedev scenario score`` on the hour of four faults; its temporary files are in the folder."""
    (folder / "four.yml").write_text(FOUR_RULES)
    (folder / "tmp").mkdir(exist_ok=True)
    file = written(folder, FOUR, head=HOUR, fleet=FLEET % (1, 8))
    words = [*console("fakedev"), "scenario", command, file, *arguments]
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "PYTHONPATH": os.getcwd()}
    return start_async(words, environment=environment, folder=folder)


@pytest_twisted.ensureDeferred
async def test_four_faults(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """The figures of the hour, to the second; the files; nothing is left."""
    files = ["--junit", "score.xml", "--html", "score.html"]
    program = score(start_async, tmp_path, "--json", *files, "--expect", "Hot: recall==1", "--expect", "recall>=0.9")
    assert await program.wait() == 3, program.stderr
    values = json.loads(program.stdout)
    rules = {rule["alert"]: rule for rule in values["rules"]}

    def fired(name: str) -> list[tuple[float, float]]:
        """From the first evaluation at which it fired to the last one."""
        return [(each["from"], each["to"] - 15) for each in rules[name]["firings"]]

    # A lost board is seen at once, and to the last scrape; its XID at the first one.
    assert fired("Xid") == [(1815, 2400)]
    assert fired("Missing") == [(1875, 2400)]
    for name, detect in (("Xid", 15), ("Missing", 75)):
        rule = rules[name]
        assert (rule["precision"], rule["recall"], rule["detect-seconds"]["worst"]) == (1, 1, detect)
        assert rule["clear-seconds"] == {"median": 15, "worst": 15}
    # The board cools down while it throttles: the alert fires twice for one fan.
    assert fired("Hot") == [(735, 1110), (1215, 1320)]
    hot = rules["Hot"]
    assert (hot["precision"], hot["recall"], hot["most-firings-for-one-incident"]) == (1, 1, 2)
    assert hot["detect-seconds"] == {"median": 135, "worst": 135}
    assert {each["labels"]["gpu"] for each in hot["firings"]} == {"1"}
    slow = rules["Slow"]
    assert fired("Slow") == [(825, 885), (1035, 1095), (1215, 1215)]
    assert (slow["precision"], slow["recall"]) == (1, 0.5)
    assert [each["found"] for each in slow["incidents"]] == [True, False]
    verdicts = {name: rule["verdict"] for name, rule in rules.items()}
    assert [name for name, verdict in verdicts.items() if verdict == "blind"] == ["PowerViolation", "DoubleBit"]
    assert rules["PowerViolation"]["recall"] == 0
    assert verdicts["Inlet"] == "never tried"
    assert verdicts["Fails"] == "failed" and "many-to-many" in rules["Fails"]["remark"]
    assert (verdicts["Quiet"], verdicts["Unsaid"]) == ("must not fire", "without expectation")
    assert [each["what"] for each in values["silent"]] == ["ecc-double (ecc)", "power-brake (brake)"]
    results = {(each["text"], each["alert"]): each["met"] for each in values["expectations"]}
    assert results["Hot: recall==1", "Hot"] and not results["recall>=0.9", "Slow"]
    suite = ElementTree.parse(tmp_path / "score.xml").getroot()
    assert (suite.get("tests"), suite.get("errors"), suite.get("skipped")) == ("10", "0", "1")
    assert list((tmp_path / "tmp").iterdir()) == []
    await browser.open((tmp_path / "score.html").as_uri())
    await browser.until("document.readyState == 'complete' && document.querySelectorAll('rect.true').length > 5")
    assert "power-brake" in await browser.value("document.body.textContent")
    assert await browser.value("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.requires_program("promtool")
@pytest_twisted.ensureDeferred
async def test_tests(start_async: StartAsync, tmp_path: Path) -> None:
    """The file passes promtool as it is, and fails with other rules."""
    program = score(start_async, tmp_path, "--output", "tests.yml", command="tests")
    assert await program.wait() == 0, program.stderr
    assert "four.yml:12: Fails is left out" in program.stderr
    # promtool does not go on with a rule that fails.
    rules = "\n".join(line for line in FOUR_RULES.splitlines() if "Fails" not in line)

    def passes(text: str) -> bool:
        (tmp_path / "four.yml").write_text(text)
        command = ["promtool", "test", "rules", "tests.yml"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        return done.returncode == 0

    assert passes(rules)
    assert not passes(rules.replace("for: 1m", "for: 90s"))
    assert not passes(rules.replace("> 80", "> 86"))


@pytest.mark.long
@pytest.mark.requires_program("promtool")
@pytest_twisted.ensureDeferred
async def test_the_document(start_async: StartAsync, tmp_path: Path) -> None:
    """doc/scenarios.md: its files, and its commands with what they print."""
    text = (DOCUMENTS / "scenarios.md").read_text(encoding="utf-8")
    for name in ("hour.yaml", "hour.rules.yml"):
        (block,) = re.findall(rf"^    # {name}\n((?:    .*\n)+)", text, re.MULTILINE)
        (tmp_path / name).write_text(textwrap.dedent(block))
    scored, tests, promtool = page_commands("scenarios.md", "Scores of alert rules")
    program = start_async([*console("fakedev"), *shlex.split(scored.text)[1:]], folder=tmp_path)
    assert await program.wait() == 3, program.stderr
    assert [line for line in program.stdout.splitlines() if line] == scored.shown
    assert "<svg" in (tmp_path / "score.html").read_text()
    program = start_async([*console("fakedev"), *shlex.split(tests.text)[1:]], folder=tmp_path)
    assert await program.wait() == 0, program.stderr
    done = subprocess.run(shlex.split(promtool.text), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest_twisted.ensureDeferred
async def test_interrupted(start_async: StartAsync, tmp_path: Path) -> None:
    """^C ends it with 130, Prometheus with it, and removes its folder."""
    program = score(start_async, tmp_path)
    folder = tmp_path / "tmp"
    while not list(folder.glob("fakedev-prometheus-*/data")):
        assert program.exit_code is None, program.stderr
        await _turn()
    assert await program.stop(signal.SIGINT) == 130
    assert list(folder.iterdir()) == []


@pytest_twisted.ensureDeferred
async def test_prometheus_dies(tmp_path: Path) -> None:
    """What it said last is told; its folder is removed."""
    run = started(loaded(tmp_path, TROUBLE, head=HOUR, fleet=FLEET % (2, 2)))
    prometheus = Prometheus(reactor, require_program("prometheus"))
    shares: list[float] = []

    def done(share: float) -> None:
        shares.append(share)
        if len(shares) == 100:
            os.kill(prometheus.process_id, signal.SIGKILL)

    groups = [("r.yml", group) for group in read_rules(RULES, "r.yml").groups]
    # Its last words are what it said last, which differs.
    with pytest.raises(PrometheusError, match=r"^Prometheus has died: ts="):
        await ScoreRun(run, prometheus, groups, reactor, done).run_to_end()
    folder = prometheus.folder
    assert os.path.isdir(folder)
    await prometheus.stop()
    assert not os.path.exists(folder)


@pytest_twisted.ensureDeferred
async def test_prometheus_does_not_start(tmp_path: Path) -> None:
    """Its last words, and no folder is left."""
    program = tmp_path / "prometheus"
    program.write_text("#!/bin/sh\necho 'level=info msg=begun'\necho 'level=error err=\"no luck\"' >&2\nexit 1\n")
    program.chmod(0o755)
    prometheus = Prometheus(reactor, prometheus_path(str(program)))
    with pytest.raises(PrometheusError, match=r'^Prometheus does not start: level=error err="no luck"$'):
        await prometheus.start()
    folder = prometheus.folder
    await prometheus.stop()
    assert folder and not os.path.exists(folder)


@pytest_twisted.ensureDeferred
async def test_answers(tmp_path: Path) -> None:
    """Wrong expressions, expressions that fail, samples that are refused: in Prometheus's words."""
    prometheus = Prometheus(reactor, require_program("prometheus"))
    try:
        await prometheus.start()
        with pytest.raises(QueryError, match="parse error: unexpected end of input") as caught:
            await prometheus.query_range("up >", 0, 15000, 15000)
        assert caught.value.is_wrong_expression
        (result,) = await prometheus.query_range("vector(2)", 1_700_000_000_000, 1_700_000_000_500, 250)
        assert result.points == [(1_700_000_000_000, "2"), (1_700_000_000_250, "2"), (1_700_000_000_500, "2")]
        with pytest.raises(PrometheusError, match=r"^Prometheus refuses samples with 4"):
            await prometheus.write(b"nothing")
    finally:
        await prometheus.stop()


async def _turn() -> None:
    await deferLater(reactor, 0.01)
