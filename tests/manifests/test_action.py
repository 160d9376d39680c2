"""The GitHub Action, as far as it can be checked without a forge: its form, and its script, which is run."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from tests.support.paths import ROOT
from tests.support.programs.processes import clean_environment, console

TEXT = (ROOT / "action.yml").read_text(encoding="utf-8")
ACTION: dict[str, Any] = yaml.safe_load(TEXT)
INSTALL, SERVE = ACTION["runs"]["steps"]


def test_its_form() -> None:
    """As YAML, and each input and output of a step is declared."""
    settings = YamlLintConfig("extends: relaxed\nrules: {line-length: {max: 150}}")
    assert [str(problem) for problem in linter.run(TEXT, settings)] == []
    assert ACTION["runs"]["using"] == "composite"
    assert {value.split("inputs.")[1].split(" ")[0] for value in SERVE["env"].values()} == set(ACTION["inputs"])
    assert all(step["shell"] == "bash" for step in (INSTALL, SERVE))


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of a runner; programs that the step has left running end with the test."""
    programs = tmp_path / "fakedev" / "bin"
    programs.mkdir(parents=True)
    words = shlex.join(console("fakedev"))
    (programs / "fakedev").write_text(f'#!/bin/sh\necho $$ >> "{tmp_path}/pids"\nexec {words} "$@"\n')
    (programs / "fakedev").chmod(0o755)
    variables = {"CONFIG": "", "OPTIONS": "", "WAIT": "30", "GITHUB_OUTPUT": str(tmp_path / "output")}
    yield clean_environment(RUNNER_TEMP=str(tmp_path), **variables)
    for pid in (tmp_path / "pids").read_text().split():
        try:
            os.kill(int(pid), signal.SIGTERM)
        except ProcessLookupError:
            continue


def served(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the step, as a runner does."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", SERVE["run"]]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.real
@pytest.mark.slow
def test_a_fleet(runner: dict[str, str], tmp_path: Path) -> None:
    """It answers at the address of the outputs, after the step is over."""
    config = tmp_path / "f.yaml"
    config.write_text(
        "fleet: {pools: [{name: p, nodes: [a], device: h100, devices-per-node: 2, identity: dcgm}]}\n"
        "web: ['127.0.0.1:9400']\nworkloads: {listen: ['runtime:w.sock']}\n"
    )
    done = served({**runner, "CONFIG": str(config), "OPTIONS": "--set fleet.speed=0 --set fleet.seed=5"})
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert outputs["socket"] == str(tmp_path / "fakedev-run" / "w.sock")
    with urllib.request.urlopen(f"{outputs['url']}/metrics") as page:
        assert page.read().count(b"DCGM_FI_DEV_GPU_TEMP{") == 2


@pytest.mark.real
@pytest.mark.slow
def test_a_mistake(runner: dict[str, str], tmp_path: Path) -> None:
    """The step fails at once, and shows what fakedev says."""
    config = tmp_path / "f.yaml"
    config.write_text("flet: {}\n")
    done = served({**runner, "CONFIG": str(config)})
    assert done.returncode == 1
    assert "::error::fakedev is not ready" in done.stdout
    assert "f.yaml:1: unknown key 'flet'" in done.stdout
