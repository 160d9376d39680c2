"""Faults that are tried, and their series as promtool reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakedev.commands.alert_rules import board_of
from fakedev.commands.main import main
from fakedev.fleet.spec.fault_kinds import KINDS, Scope, fault_from_fields
from fakedev.fleet.spec.fleet_spec import MetricName
from fakedev.scenario.rules.alert_rules import selectors_of, thresholds_of
from fakedev.scenario.rules.promtool_tests import series_values
from fakedev.scenario.rules.thresholds import Threshold, beyond_thresholds
from fakedev.scenario.rules.trials import BEGIN_SECONDS, Trial, all_trials, board_limits, scrape
from tests.support.paths import ROOT


def test_all_kinds_are_tried() -> None:
    """Each that pages can show, with words that a fault takes."""
    trials = all_trials([46, 79], 200)
    assert {trial.kind for trial in trials} == {""} | {
        kind.name for kind in KINDS.values() if kind.scope is not Scope.CLUSTER and not kind.needs_racks
    }
    for trial in trials:
        if trial.kind:
            fault_from_fields({**trial.fields, "devices": ["a/0"]})
    codes = [trial.values["code"] for trial in trials if trial.kind == "xid" and not trial.every_seconds]
    assert sorted(codes) == sorted(set(codes)) and 46 in codes
    assert Trial(kind="xid", values={"code": 46}, every_seconds=60).words == "xid code=46 every=1m"
    assert [trial.words for trial in trials if trial.place == "on all boards"] == ["frozen", "lost"]
    (flapping,) = (trial for trial in trials if trial.flaps)
    assert flapping.words == "link-down probability=0.5 every=15s"


@pytest.mark.parametrize(
    ("metric", "operator", "number", "words"),
    [
        ("temp", ">", 90, ["overheat celsius=93"]),
        ("temp", ">=", 200, []),  # no board gets so hot
        ("power", "<", 300, ["power-cap watts=291"]),
        ("clock", "<", 1e9, ["clock-lock megahertz=970"]),  # in hertz
        ("scrape_duration_seconds", ">", 5, ["slow-page seconds=6"]),
        ("collection", ">", 5, ["slow-page seconds=6"]),
        ("else", ">", 5, []),
    ],
)
def test_beyond_a_threshold(metric: str, operator: str, number: float, words: list[str]) -> None:
    """The parameter that sets what a rule compares gets a value beyond the rule's number."""
    names = {
        "temp": MetricName("temperature_celsius"), "power": MetricName("power_watts"),
        "clock": MetricName("core_frequency_mhz", 1e6), "else": MetricName("usage_ratio"),
        "collection": MetricName("late_seconds"),
    }  # fmt: skip
    found = list(beyond_thresholds([Threshold(frozenset([metric]), operator, number)], names))
    assert [f"{kind} {name}={value:g}" for kind, name, value in found] == words
    for kind, name, value in found:
        fault_from_fields({"kind": kind, name: value, "devices": ["a/0"]})


def test_thresholds() -> None:
    """Numbers on the right of comparisons, not of texts, windows or other operators."""
    assert thresholds_of('a{x=">5"} > 90 and b[5m] <= bool -1.5e3 or c == 2 * 3') == [
        (">", 90.0), ("<=", -1500.0), ("==", 2.0),
    ]  # fmt: skip
    assert board_limits("h100").startswith("h100: slowdown at 87, by hardware at 89, shutdown at 95 degrees")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("identity", "board"),
    [("xpumd", "max-1550"), ("collectd", "max-1550"), ("xpumanager", "max-1550"), ("dcgm@3.3.5", "h100"),
     ("dcgm-fake", "v100"), ("run-ai", "h100"), ("gaudi", "gaudi-3"), ("amd-device-metrics", "mi300x"),
     ("nvidia-gpu-exporter@1-nvml", "h100"), ("etc/alert-rules/dcgm-identity.yaml", "h100"),
     ("etc/own/identity.yaml", "h100"), ("etc/amd-device-metrics/labels-1.2.yaml", "mi300x"),
     ("etc/amd-device-metrics/labels-1.3.yaml", "mi300x")],
)  # fmt: skip
def test_boards(identity: str, board: str) -> None:
    """Without --device the boards are those of the identity's vendor, also for an identity that is based on another."""
    assert board_of(str(ROOT / identity) if "/" in identity else identity) == board


@pytest.mark.slow
def test_a_board_by_what_is_shown(tmp_path: Path) -> None:
    """An identity that names no board is tried on four."""
    path = tmp_path / "own.yaml"
    tile = 'level: tile, quantity: usage_ratio, labels: [{name: tile, value: "{tile}"}]'
    family = f"{{name: a, type: gauge, help: A., format: go, {tile}}}"
    path.write_text(f'{{name: own, labels: [{{name: gpu, value: "{{index}}"}}], families: [{family}]}}')
    assert board_of(str(path)) == "max-1550"


@pytest.mark.slow
def test_series() -> None:
    """A fault begins in time, on the first board of its node; failed scrapes have no series."""
    heard: list[float] = []
    found = {
        each.trial.words: each
        for each in scrape("dcgm", "h100", [], {"DCGM_FI_DEV_XID_ERRORS"}, {"job": "x"}, 330, heard.append)
        if not each.trial.board
    }
    (name,) = [each for each in found["lost"].series if not each.startswith("up")]
    assert 'gpu="0"' in name and 'job="x"' in name and 'instance="trial-' in name
    assert found["lost"].series[name] == [(number, "79") for number in (21, 22)]
    up = found["node-down"].series
    assert [value for samples in up.values() for _, value in samples] == ["1"] * 21 + ["0"] * 2
    assert BEGIN_SECONDS == 300
    assert heard == sorted(heard) and heard[-1] == 1
    assert "a busy board" in found


@pytest.mark.slow
def test_boards_that_rules_select() -> None:
    """Each fault is tried alone on the first board, and on the first one of each selector."""
    selectors = [selectors_of(each)[0] for each in ('a{gpu!="0"}', 'a{device=~"nvidia[45]",gpu!="4"}', 'a{job="x"}')]
    metrics = {"DCGM_FI_DEV_XID_ERRORS"}
    found = scrape("dcgm", "h100", [], metrics, {}, 330, lambda _: None, selectors=selectors)
    lost = {each.trial.board: each.series for each in found if each.trial.words == "lost"}
    assert sorted(lost) == [-1, 0, 1, 5]
    all_boards = [text for text in lost.pop(-1) if text.startswith("DCGM_FI_DEV_XID_ERRORS{")]
    assert len(all_boards) == 6
    for board, series in lost.items():
        shown = [text for text in series if text.startswith("DCGM_FI_DEV_XID_ERRORS{")]
        assert [f'gpu="{board}"' in text for text in shown] == [True]
    assert [each.trial.board for each in found if not each.trial.kind] == [0] * 5


@pytest.mark.slow
def test_metrics_that_rules_compare() -> None:
    """Faults of series are tried on one metric, too, on boards with little and with much work."""
    metrics = {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"}
    found = scrape("dcgm", "h100", [], metrics, {}, 330, lambda _: None, {"DCGM_FI_DEV_GPU_TEMP", "unknown"})
    alone = [each for each in found if each.trial.metric]
    assert {each.trial.metric for each in alone} == {"DCGM_FI_DEV_GPU_TEMP"}
    assert {each.trial.kind for each in alone} == {kind.name for kind in KINDS.values() if kind.takes_metric}
    assert {each.trial.place for each in alone} == {"", "on a full board"}
    for each in alone:
        if each.trial.kind == "absent":
            found_last = {text: samples[-1][0] for text, samples in each.series.items() if 'gpu="0"' in text}
            last = {text.partition("{")[0]: number for text, number in found_last.items()}
            assert last == {"DCGM_FI_DEV_GPU_TEMP": 20, "DCGM_FI_DEV_POWER_USAGE": 22}


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        ([(0, "1"), (1, "1"), (2, "2")], "1+0x1 2 stale"),
        ([(2, "NaN"), (3, "NaN")], "_ _ NaN NaN"),
        ([(0, "1"), (3, "1")], "1 stale _ 1"),
        ([], "_ _ _ _"),
    ],
)
def test_values(samples: list[tuple[int, str]], text: str) -> None:
    """What a scrape lacks is stale once, then missing."""
    assert " ".join(series_values(samples, 3)) == text


def test_without_promtool(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence, and 1; the file's own faults come first, with 2."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["faults", "--for", "etc/alert-rules/xpumd.yml"]) == 1
    assert "promtool is needed" in capfd.readouterr().err
    assert main(["faults", "--for", "etc/nothing.yml"]) == 2
    assert "etc/nothing.yml" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--identity", "dcgm"], "go with --for"),
        (["--for", "x", "--active"], "exclude each other"),
        (["--for", "x", "--label", "=a"], "no NAME=VALUE"),
    ],
)
def test_options(arguments: list[str], text: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["faults", *arguments])
    assert text in capfd.readouterr().err
