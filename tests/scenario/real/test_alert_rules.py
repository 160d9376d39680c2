"""The rules of etc/alert-rules: by promtool with their own durations, and by a real Prometheus that scrapes us."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import pytest_twisted

from fakedev.commands.main import main
from fakedev.scenario.rules.alert_rules import seconds_of
from tests.exporters.real.test_prometheus import asked, prometheus
from tests.support.documents import alert_rules
from tests.support.programs.asynchronous import eventually, serve
from tests.support.programs.processes import StartAsync

pytestmark = pytest.mark.real

#: The clock is so many times as fast, and ``for`` and windows are so many times as short.
FACTOR = 30
#: Wall seconds until all have fired, and until all have cleared: the longest ``for`` and window, and a slow machine.
PATIENCE = 180


@pytest.mark.slow
@pytest.mark.requires_program("promtool")
def test_the_command(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The fault of each rule, or the reason why there is none."""
    rules = tmp_path / "r.yml"
    rules.write_text(
        "groups:\n- name: g\n  rules:\n"
        '  - {alert: Hot, expr: "DCGM_FI_DEV_GPU_TEMP >= 90", for: 2m}\n'
        '  - {alert: Code, expr: "DCGM_FI_DEV_XID_ERRORS == 46"}\n'
        '  - {alert: Busy, expr: "DCGM_FI_DEV_GPU_UTIL > 50"}\n'
        '  - {alert: Unknown, expr: "no_such_metric > 50"}\n'
        '  - {alert: Elsewhere, expr: "DCGM_FI_DEV_GPU_TEMP{cluster=\'x\'} > 80"}\n'
        '  - {alert: Late, expr: "DCGM_FI_DEV_GPU_TEMP > 1000", for: 3h}\n'
        '  - {alert: Other, expr: "DCGM_FI_DEV_GPU_TEMP{job=\'dcgm\'} > 80"}\n'
    )
    assert main(["faults", "--for", str(rules), "--device", "h100", "--json"]) == 0
    hot, code, busy, unknown, elsewhere, late, other = json.loads(capfd.readouterr().out)
    assert hot["faults"][0]["fault"] == "overheat"
    assert 120 < hot["faults"][0]["after-seconds"] < 400
    assert [each["fault"] for each in code["faults"]] == ["xid code=46", "xid code=46 every=1m"]
    assert busy["reason"] == "no fault is needed: a busy board, a full board makes it fire"
    assert other["reason"] == (
        'no series has job="dcgm": job is fakedev; give it with --label NAME=VALUE, if a scrape adds it'
    )
    assert unknown["reason"] == "no_such_metric: on no page of dcgm with h100"
    assert "requires the label cluster" in elsewhere["reason"]
    assert late["reason"] == "not tried: it waits for 3h, more than 2h"
    rules.write_text('groups: [{name: g, rules: [{alert: A, expr: "a >"}]}]')
    assert main(["faults", "--for", str(rules)]) == 2
    assert "parse" in capfd.readouterr().err


@pytest.mark.long
@pytest.mark.requires_program("promtool")
def test_the_document() -> None:
    document = alert_rules.PAGE.read_text(encoding="utf-8")
    assert alert_rules.with_tables(document) == document


def shorter(text: str) -> str:
    """A duration of PromQL, divided by the factor."""
    return f"{round(1000 * seconds_of(text) / FACTOR)}ms"


def shortened(rules: str) -> str:
    rules = re.sub(r"for: (\w+)", lambda found: f"for: {shorter(found[1])}", rules)
    return re.sub(r"\[(\w+)\]", lambda found: f"[{shorter(found[1])}]", rules)


@pytest.mark.long
@pytest.mark.requires_program("prometheus")
@pytest.mark.parametrize("file", alert_rules.PAGES)
@pytest_twisted.ensureDeferred
async def test_fired_and_cleared(start_async: StartAsync, tmp_path: Path, file: str) -> None:
    """Each rule that a fault makes fire does so on the node with that fault, and on no healthy one; then it clears."""
    expected = {f"n{number}": row for number, row in enumerate(alert_rules.rows(file)) if row.fault}
    assert len(expected) > 2
    nodes, (identity, board) = ["well", *expected], alert_rules.PAGES[file]
    work = "profile: '88:8:60', repeat: 0, metrics: {memory: 40%}"
    base = ", ".join(f"{{name: w{node}, devices: {node}/*, {work}}}" for node in nodes)
    service = await serve(
        start_async, tmp_path, fleet=f"""\
version: 1
fleet:
  tick: 5s
  speed: {FACTOR}
  pools: [{{name: p, nodes: [{', '.join(nodes)}], device: {board}, devices-per-node: 2, identity: "{identity}"}}]
""", base=f", base: [{base}]",
    )  # fmt: skip
    (tmp_path / "rules.yml").write_text(shortened((alert_rules.FOLDER / file).read_text(encoding="utf-8")))
    where = await prometheus(
        start_async, tmp_path, f"""
  - job_name: gpus
    http_sd_configs: [{{url: "http://{service.web[0]}/sd", refresh_interval: 1s}}]
rule_files: [{tmp_path}/rules.yml]
""", shorter("15s"),
    )  # fmt: skip
    await eventually(lambda: asked(where, f"count(up == 1) == {len(nodes)}"), "all nodes are up", PATIENCE)
    for node, row in expected.items():
        kind, *values = row.fault.split()
        given = {name: float(value) if value.replace(".", "").isdigit() else value
                 for name, _, value in (value.partition("=") for value in values)}  # fmt: skip
        answer = await service.fetch("/api/v1/faults", {"kind": kind, "devices": f"{node}/0", **given})
        assert answer.status in (200, 201), (row, answer)
    missing = set(expected.values())

    async def firing() -> set[tuple[str, str]]:
        found = await asked(where, 'ALERTS{alertstate="firing"}')
        return {(each["metric"].get("instance", "").partition(":")[0] or each["metric"].get("Hostname", ""),
                 each["metric"]["alertname"]) for each in found}  # fmt: skip

    async def have_fired() -> bool:
        now = await firing()
        assert not [alert for node, alert in now if node == "well"]
        missing.difference_update(row for node, row in list(expected.items()) if (node, row.alert) in now)
        return not missing

    try:
        await eventually(have_fired, "all rules fire", PATIENCE)
    except pytest.fail.Exception:
        pytest.fail(f"still not firing: {sorted(missing)}")
    assert (await service.fetch("/api/v1/faults", method="DELETE")).status in (200, 204)
    assert (await service.fetch("/api/v1/faults", {"kind": "reset", "devices": "all"})).status in (200, 201)

    async def have_cleared() -> bool:
        now = await firing()
        fired = [row.alert for node, row in expected.items() if (node, row.alert) in now]
        return set(fired) <= alert_rules.STAYS

    await eventually(have_cleared, "all rules clear", PATIENCE)
    stays = {row.alert for row in expected.values()} & alert_rules.STAYS
    assert {alert for _, alert in await firing()} >= stays
