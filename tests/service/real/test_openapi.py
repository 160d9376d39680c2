"""The OpenAPI description of the API, used by programs that others have written."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.paths import DATA
from tests.support.programs.asynchronous import serve
from tests.support.programs.npm import install
from tests.support.programs.processes import StartAsync, console

pytestmark = pytest.mark.real

#: A fleet that has something for each path of the API: parts, links, a queue, a plan, and a scenario.
EVERYTHING = """
scenario: {for: 1h, seed: 7}
config:
  fleet:
    seed: 1
    speed: 0
    pools: [{name: p, nodes: [a, b], device: h100, devices-per-node: 2, mig: [1g.10gb]}]
  web: ["127.0.0.1:0"]
  workloads: {listen: ["127.0.0.1:0"]}
  queues: {names: {gpu: {}}, listen-clients: ["127.0.0.1:0"], listen-backends: ["127.0.0.1:0"]}
  tester: {plans: [{queue: gpu, name: users, parallel: 1}]}
timeline:
  - {at: 5m, fault: {kind: fan, devices: a/0}}
"""
#: Two programs of npm and a library, each of a version that these tests were written with.
_PACKAGES = ("openapi-typescript@7.13.0", "typescript@5.9.3", "openapi-fetch@0.17.0", "@types/node@20.19.0")
#: Requests by chance for each operation, beside the examples and the bounds.
_REQUESTS = 12


@pytest.mark.long
@pytest_twisted.ensureDeferred
async def test_the_service_is_what_it_describes(start_async: StartAsync, short_folder: Path) -> None:
    """schemathesis sends some 2,000 requests, good and bad ones, always the same.

    No answer is an error of the server; each has a status, a type and a content that the description names; bodies
    that it forbids are refused; methods that it does not name get 405.
    """
    scenario, ready = short_folder / "scenario.yaml", short_folder / "ready.json"
    scenario.write_text(EVERYTHING)
    service = start_async([*console("fakedev"), "serve", "--scenario", str(scenario), "--ready-file", str(ready)])
    address = json.loads(await service.wait_for_file(ready))["web"][0]
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(DATA / "schemathesis.toml"), "run"]
    how = ["--generation-deterministic", "--max-examples", str(_REQUESTS), "--continue-on-failure", "--no-color"]
    done = start_async([*command, f"http://{address}/api/v1/openapi.json", *how], folder=short_folder)
    assert await done.wait() == 0, done.stdout
    assert "Traceback" not in service.stderr
    assert await service.stop() == 0


@pytest.mark.long
@pytest_twisted.ensureDeferred
async def test_types_for_typescript(start_async: StartAsync, short_folder: Path) -> None:
    """openapi-typescript makes types; a program that uses four operations compiles strictly, runs, and is answered."""
    programs = await install(start_async, short_folder, *_PACKAGES)
    service = await serve(start_async, short_folder, "--set", "fleet.speed=0")
    url = f"http://{service.web[0]}"
    shutil.copy(DATA / "openapi_client.ts", short_folder / "program.ts")
    for command in (
        [str(programs / "openapi-typescript"), f"{url}/api/v1/openapi.json", "-o", "fakedev.d.ts"],
        [str(programs / "tsc"), "--strict", "--target", "es2022", "--module", "nodenext", "program.ts"],
    ):
        done = start_async(command, folder=short_folder)
        assert await done.wait() == 0, done.stdout + done.stderr
    program = start_async(["node", "program.js", url], folder=short_folder)
    assert await program.wait() == 0, program.stderr
    told = json.loads(program.stdout)
    assert told == {"id": told["id"], "tick": 60, "device": "a/1", "hasPower": True, "code": "unknown-name"}
    assert (await service.get_json(f"/api/v1/workloads/{told['id']}"))["name"] == "train"
