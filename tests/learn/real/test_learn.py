"""A fleet is learnt from what a real Prometheus has scraped."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_twisted

from fakedev.config.load import load
from fakedev.schema.files import Files
from tests.exporters.real.test_prometheus import asked, prometheus
from tests.support.programs.asynchronous import eventually, serve
from tests.support.programs.processes import StartAsync, console, run

pytestmark = pytest.mark.real

FLEET = """
fleet:
  pools: [{name: dgx, nodes: 2, device: a100, devices-per-node: 2, identity: dcgm@4.8.2}]
"""
WORK = ', base: [{name: train, devices: "dgx-1/*", profile: "60:0:0", pod: train-0, namespace: ml, container: main}]'


@pytest.mark.slow
@pytest.mark.requires_program("prometheus")
@pytest_twisted.ensureDeferred
async def test_series_of_a_prometheus(start_async: StartAsync, tmp_path: Path) -> None:
    """Nodes, boards and the job that holds two of them all the time; a selector that is none is refused."""
    service = await serve(start_async, tmp_path, fleet=FLEET, base=WORK)
    server = await prometheus(start_async, tmp_path, f"""
  - job_name: dcgm
    honor_labels: false
    static_configs: [{{targets: ["{service.web[0]}"]}}]
""")  # fmt: skip

    async def is_scraped() -> bool:
        return len(await asked(server, "count_over_time(DCGM_FI_DEV_GPU_UTIL[1m]) > 3")) == 4

    await eventually(is_scraped, "all devices are scraped several times")
    output = tmp_path / "fleet.yaml"
    command = (*console("fakedev"), "learn", "--prometheus", f"http://{server}", "--for", "1m", "--step", "1s")
    done = await run(start_async, *command, "--match", '{job="dcgm"}', "--output", str(output))
    assert done.exit_code == 0, done.stderr
    fleet = load(str(output), Files(environ={})).fleet
    assert [node.name for pool in fleet.pools for node in pool.nodes] == ["node-1", "node-2"]
    assert {pool.device_type.name for pool in fleet.pools} == {"a100-sxm4-40gb"}
    assert fleet.cluster is None
    (work,) = fleet.base
    assert (work.name, work.namespace, work.devices) == ("work-1", "team-1", ("node-2/0", "node-2/1"))
    assert "dgx" not in output.read_text()
    refused = await run(start_async, *command, "--match", "up", "--output", str(tmp_path / "other.yaml"))
    assert refused.exit_code == 2
    assert "is not in braces" in refused.stderr
