"""A clone of what a real Prometheus has scraped."""

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
WORK = ', base: [{name: train, devices: dgx-1/0, profile: "60:0:0", pod: train-0, namespace: ml, container: main}]'


@pytest.mark.slow
@pytest.mark.requires_program("prometheus")
@pytest_twisted.ensureDeferred
async def test_a_clone_of_series(start_async: StartAsync, tmp_path: Path) -> None:
    """Nodes, boards and pods are those that were scraped; the release cannot be told from series alone."""
    service = await serve(start_async, tmp_path, fleet=FLEET, base=WORK)
    server = await prometheus(start_async, tmp_path, f"""
  - job_name: dcgm
    honor_labels: false
    static_configs: [{{targets: ["{service.web[0]}"]}}]
""")  # fmt: skip

    async def is_scraped() -> bool:
        return len(await asked(server, "DCGM_FI_DEV_GPU_UTIL")) == 4

    await eventually(is_scraped, "all devices are scraped")
    output = tmp_path / "fleet.yaml"
    done = await run(
        start_async, *console("fakedev"), "clone", "--prometheus", f"http://{server}", "--match", '{job="dcgm"}',
        "--output", str(output), "--min", "99",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    configuration = load(str(output), Files(environ={}))
    assert [node.name for pool in configuration.fleet.pools for node in pool.nodes] == ["dgx-0", "dgx-1"]
    assert {pool.device_type.name for pool in configuration.fleet.pools} == {"a100-sxm4-40gb"}
    assert [(work.devices, work.pod) for work in configuration.fleet.base] == [(("dgx-1/0",), "train-0")]
    refused = await run(
        start_async, *console("fakedev"), "clone", "--prometheus", f"http://{server}", "--match", "{job=",
    )  # fmt: skip
    assert refused.exit_code == 2
    assert "parse error" in refused.stderr
