"""`fakedev serve --topology FILE` as doc/fake-gpu-operator.md shows it, with a file that changes while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_twisted

from tests.support.paths import ROOT
from tests.support.programs.asynchronous import AsyncService, eventually, ready
from tests.support.programs.processes import StartAsync, console

pytestmark = pytest.mark.real

#: The addresses are free ones; the test runs beside others.
FREE = ("--set", "web=['127.0.0.1:0']", "--set", "workloads.listen=[]")


async def utilization(service: AsyncService, uuid: str) -> str:
    """What a GPU shows; empty while there is no such GPU."""
    page = (await service.fetch("/metrics")).body.decode()
    rows = [row for row in page.splitlines() if row.startswith("DCGM_FI_DEV_GPU_UTIL{") and uuid in row]
    return rows[0].rsplit(" ", 1)[1] if rows else ""


@pytest_twisted.ensureDeferred
async def test_the_page(start_async: StartAsync, tmp_path: Path) -> None:
    """The example serves the GPUs that it names; a change of the file shows without a restart; a mistake does not."""
    page = (ROOT / "doc" / "fake-gpu-operator.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    (command,) = [line.split("$ .venv/bin/fakedev ")[1] for line in page.splitlines() if "$ .venv/bin/fakedev" in line]
    path, file = tmp_path / "topology.yml", tmp_path / "ready.json"
    path.write_text(example)
    program = start_async(
        [*console("fakedev"), *command.split(), *FREE, "--ready-file", str(file)], folder=tmp_path
    )
    service = await ready(program, file)
    uuid = "GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1"
    assert await utilization(service, uuid) == "10"
    assert (await service.get_json("/topology/nodes/node-a"))["gpuProduct"] == "Tesla-K80"

    async def shows_55() -> bool:
        return await utilization(service, uuid) == "55"

    path.write_text(example.replace("utilization: 10", "utilization: 55"))
    await eventually(shows_55, "the changed file shows")
    path.write_text(example.replace("gpuCount: 8", "gpuCount: many"))
    said = f"{path}:6: nodePools.a100.gpuCount: must be a whole number"
    await eventually(lambda: said in program.stderr, "the mistake is in the log")
    assert await utilization(service, uuid) == "55"
