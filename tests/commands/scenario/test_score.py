"""``fakedev scenario score`` and ``tests``: options, rule files, and what ends them before a Prometheus is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakedev.commands.main import main
from fakedev.scenario.scores.score_start import load_rules
from tests.support.scenarios import loaded, written

TIMELINE = """
  - {at: 1m, as: hot, fault: {kind: fan, devices: dgx-0/1, duration: 3m}}
"""
RULES = """groups:
- name: g
  rules:
  - {alert: Hot, expr: DCGM_FI_DEV_GPU_TEMP > 80, annotations: {fakedev_expects: "hot, inlet"}}
  - {alert: Xid, expr: DCGM_FI_DEV_XID_ERRORS > 0, annotations: {fakedev_expects: none}}
  - {alert: Other, expr: up == 0}
"""


def named(expects: str) -> str:
    return f"{TIMELINE}\nrules: [{{file: r.yml, expects: {expects}}}]"


def test_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the scenario, or other files; the scenario's words go before annotations."""
    monkeypatch.chdir(tmp_path)
    Path("r.yml").write_text(RULES)
    rules = load_rules(loaded(tmp_path, named("{Hot: fan, Other: [xid code=79]}")), [])
    (file,) = rules.files
    assert file.file == "r.yml"
    expected = [rules.expected("r.yml", rule) for rule in file.alerts]
    assert [each if each is None else [word.text for word in each] for each in expected] == [
        ["fan"], [], ["xid code=79"],
    ]  # fmt: skip
    rules = load_rules(loaded(tmp_path, TIMELINE), [str(tmp_path / "r.yml")])
    (file,) = rules.files
    expected = [rules.expected(file.file, rule) for rule in file.alerts]
    assert [each if each is None else [word.text for word in each] for each in expected] == [["hot", "inlet"], [], None]


@pytest.mark.parametrize(
    ("expects", "rules", "arguments", "problem"),
    [
        ("{Hott: fan}", RULES, [], "expects: r.yml has no alert Hott; did you mean Hot?"),
        ("{}", RULES.replace("inlet", "inlett"), [], "r.yml:4: Hot: 'inlett' is neither a kind of fault"),
        ("{}", RULES, ["--expect", "recal>=1"], "no figure 'recal'; did you mean recall?"),
        ("{}", RULES, ["--expect", "Hott: recall>=1"], "no rule has the alert 'Hott'; did you mean Hot?"),
        ("{}", RULES, ["--rules", "none.yml"], "none.yml: no such file"),
        ("{}", "groups: []", [], "r.yml: has no alert rule"),
    ],
)
def test_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], expects: str, rules: str,
    arguments: list[str], problem: str,
) -> None:  # fmt: skip
    """With the place and what is near; exit 2."""
    monkeypatch.chdir(tmp_path)
    Path("r.yml").write_text(rules)
    file = written(tmp_path, named(expects))
    try:
        assert main(["scenario", "score", file, *arguments]) == 2
    except SystemExit as ended:
        assert ended.code == 2
    assert problem in capfd.readouterr().err


def test_without_rules(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "score", written(tmp_path, TIMELINE)]) == 2
    assert "give --rules FILE" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["score", "tests"])
def test_without_prometheus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.yml").write_text(RULES)
    monkeypatch.setenv("PATH", "/nowhere")
    file = written(tmp_path, named("{}"))
    assert main(["scenario", command, file]) == 1
    assert "Prometheus is needed, and it is not on the PATH" in capfd.readouterr().err
    assert main(["scenario", command, file, "--prometheus", "/nowhere/p"]) == 1
    assert "/nowhere/p is no program that can be started" in capfd.readouterr().err


def test_tests_of_several_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """promtool evaluates all groups of a test at the same interval, and knows no offsets: exit 2."""
    monkeypatch.chdir(tmp_path)
    Path("r.yml").write_text(
        "groups:\n- {name: a, interval: 1m, query_offset: 1m, rules: [{alert: A, expr: up}]}\n"
        "- {name: b, rules: [{alert: B, expr: up}]}\n"
    )
    assert main(["scenario", "tests", written(tmp_path, named("{}"))]) == 2
    problem = capfd.readouterr().err
    assert "different intervals (a 1m, b 15s)" in problem and "the group a has query_offset" in problem


@pytest.mark.real
@pytest.mark.requires_program("promtool")
def test_promtool_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In its words, with the place in the file; exit 2."""
    monkeypatch.chdir(tmp_path)
    Path("r.yml").write_text(RULES.replace("up == 0", "up =="))
    assert main(["scenario", "score", written(tmp_path, named("{}"))]) == 2
    assert "\nr.yml:6: could not parse expression: " in capfd.readouterr().err
