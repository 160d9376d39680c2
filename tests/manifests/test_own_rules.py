"""The alert rules for fakedev itself: each fires for its own series, and none for a service that is well."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fakedev.scenario.rules.promtool import run_promtool
from tests.support.application import SMALL, application
from tests.support.paths import ROOT

RULES = ROOT / "etc" / "prometheus" / "fakedev.rules.yml"
#: For each alert: series, with their values in each of 20 minutes, that it must fire for.
FIRES = {
    "FakedevDown": {'up{job="fakedev"}': "0x19"},
    "FakedevTicksFail": {"fakedev_tick_failures_total": "0+1x19"},
    "FakedevTicksMissed": {"fakedev_ticks_missed_total": "0+10x19"},
    "FakedevClockSet": {"fakedev_clock_shift_seconds": "-3600x19"},
    "FakedevReactorHeld": {"fakedev_reactor_delay_max_seconds": "0.25x19"},
    "FakedevReloadFailed": {"fakedev_config_last_reload_successful": "0x19"},
    "FakedevFileFailed": {'fakedev_file_failed{file="journal"}': "1x19"},
    "FakedevQueueLogFailed": {'fakedev_queue_log_failed{queue="media"}': "1x19"},
    "FakedevLimitNear": {
        'fakedev_limit_used{limit="workloads"}': "95x19", 'fakedev_limit_allowed{limit="workloads"}': "100x19",
    },
    "FakedevOutOfFiles": {
        'process_open_fds{job="fakedev"}': "1000x19", 'process_max_fds{job="fakedev"}': "1024x19",
    },
    "FakedevJournalLate": {"fakedev_journal_waiting": "60000x19"},
    "FakedevPortFull": {'fakedev_line_connections_closed_total{port="workloads", reason="full"}': "0+1x19"},
    "FakedevHttpDrops": {'fakedev_http_connections_dropped_total{reason="unread"}': "0+1x19"},
    "FakedevAcceptsPostponed": {"fakedev_accepts_postponed_total": "0+1x19"},
}  # fmt: skip
#: Series of Prometheus itself, and those that a service without a file or a process of its own lacks.
OF_OTHERS = {"up", "fakedev_file_failed", "fakedev_queue_log_failed"}


def alerts() -> list[str]:
    """The names of all alerts of the file."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]


def minutes(alert: str, series: dict[str, str]) -> dict[str, object]:
    """A test of promtool: with these series the alert fires in the 15th minute, and no other does."""
    labels = f'{{alertname="{alert}"}}'
    return {
        "name": alert,
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "15m",
                "exp_samples": [{"labels": labels, "value": 1}] if alert else [],
            }
        ],
    }


def test_each_alert_is_tried() -> None:
    """A new alert needs its series here."""
    assert list(FIRES) == alerts()


def test_the_series_are_there() -> None:
    """A service shows each series that the rules read."""
    with application(SMALL) as app:
        page = app.get("/-/metrics").body.decode()
    names = {name.partition("{")[0] for series in FIRES.values() for name in series}
    assert [name for name in sorted(names - OF_OTHERS) if f"\n{name}" not in page] == []


@pytest.mark.real
@pytest.mark.requires_program("promtool")
def test_alerts_fire(tmp_path: Path) -> None:
    """Each for its own series alone; none for those of a service that is well."""
    well = {name: "0x19" for series in FIRES.values() for name in series if name.endswith("_total")}
    tests = [minutes(alert, series) for alert, series in FIRES.items()] + [minutes("", well)]
    text = yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests})
    (tmp_path / "test.yml").write_text(text)
    code, said = run_promtool(str(tmp_path), "test", "rules", "test.yml")
    assert code == 0, said
