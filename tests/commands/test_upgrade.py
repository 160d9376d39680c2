"""``fakedev upgrade`` with what needs no promtool: dashboards and queries, and what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fakedev.commands.main import main

UPGRADE = ["upgrade", "--from", "dcgm@4.8.2", "--to", "dcgm@4.9.0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dashboards", "nothere.json"], "nothere.json: no such file"),
        (["--dashboards", "bad.json"], "bad.json:1: is not complete"),
        (["--dashboards", "good.json", "--output", "good.json"], "good.json: cannot be written: there is something"),
        (["--dashboards", "good.json", "--from", "page.txt"], "page.txt: there is no metric in it"),
        (["--rules", "good.json"], "good.json: is no rule file"),
        (["--rules", "bad.json", "--to", "dcgm@9"], "--to: no identity 'dcgm@9': the last release that is known is"),
    ],
)
def test_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str],
    said: str,
) -> None:  # fmt: skip
    """One line with the place and the reason; exit code 2."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "good.json").write_text("{}")
    (tmp_path / "page.txt").write_text("\n")
    assert main([*UPGRADE, *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [([], "give --rules or --dashboards"), (["--dashboards", "a", "--scenario", "b"], "--scenario goes with --rules")],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([*UPGRADE, *arguments])
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_no_expression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The recording rules for all old names are written all the same."""
    (tmp_path / "board.json").write_text("{}")
    output = tmp_path / "new" / "folder"
    assert main([*UPGRADE, "--dashboards", str(tmp_path), "--output", str(output)]) == 0
    assert capsys.readouterr().out == "no expression was found\n"
    (group,) = yaml.safe_load((output / "old-names.yml").read_text())["groups"]
    assert group["rules"] == []
    assert sorted(path.name for path in output.iterdir()) == ["old-names.yml", "report.html", "report.md"]
