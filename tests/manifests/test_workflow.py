"""The workflow for kind, as far as it can be checked without a forge: its form, its scripts, what it names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from tests.support.paths import ROOT

FILE = ROOT / ".github" / "workflows" / "kind.yml"
TEXT = FILE.read_text(encoding="utf-8")
WORKFLOW: dict[Any, Any] = yaml.safe_load(TEXT)
STEPS = [(name, step) for name, job in WORKFLOW["jobs"].items() for step in job["steps"]]
SCRIPTS = [(f"{name}: {step['name']}", step["run"]) for name, step in STEPS if "run" in step]


def test_its_form() -> None:
    """As YAML, and the keys that each job needs; it may only read, and ends by itself."""
    settings = YamlLintConfig("extends: relaxed\nrules: {line-length: {max: 140}}")
    assert [str(problem) for problem in linter.run(TEXT, settings)] == []
    assert set(WORKFLOW) == {"name", True, "permissions", "concurrency", "env", "jobs"}  # YAML 1.1 reads `on` as true
    assert WORKFLOW["permissions"] == {"contents": "read"}
    for job in WORKFLOW["jobs"].values():
        assert job["timeout-minutes"] <= 30
        assert job["runs-on"] == "ubuntu-24.04"
    for _, step in STEPS:
        assert ("run" in step) != ("uses" in step)
        assert "uses" not in step or re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"])


@pytest.mark.parametrize(("name", "script"), SCRIPTS, ids=[name for name, _ in SCRIPTS])
def test_a_script_is_one_that_bash_reads(name: str, script: str) -> None:
    """And all files of the checkout that it names are there."""
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    paths = re.findall(r"(?:etc|tests|doc)/[\w./-]+", script)
    assert [path for path in paths if not Path(ROOT, path).exists()] == []
    assert "${{" not in script  # text of a pull request must not become a part of a script


def test_it_gives_the_tests_a_cluster() -> None:
    """The variable of the tests is the file of the cluster that was created, and the tests are run."""
    path = WORKFLOW["env"]["FAKEDEV_TEST_KUBECONFIG"]
    created = [step["with"] for _, step in STEPS if step.get("uses", "").startswith("helm/kind-action")]
    assert [each["kubeconfig"] for each in created] == [path, path] == [WORKFLOW["env"]["KUBECONFIG"]] * 2
    scripts = "\n".join(script for _, script in SCRIPTS)
    assert "pytest -rsfE tests/kubernetes/cluster\n" in f"{scripts}\n"
    assert "pytest -rsfE tests/kubernetes/cluster/test_kubelets.py\n" in f"{scripts}\n"


def test_the_token_is_made_as_the_document_says() -> None:
    """The same commands, so that they are tried."""
    page = (ROOT / "doc" / "kubernetes.md").read_text(encoding="utf-8")
    (script,) = [script for name, script in SCRIPTS if "mock-kubelets" in name]
    for command in script.splitlines():
        assert f"    $ {command}\n" in page
