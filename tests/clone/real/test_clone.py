"""A clone of what a real Prometheus has scraped."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_twisted

from fakedev.config.load import load
from fakedev.schema.files import Files
from tests.support.programs.processes import StartAsync, console, run
from tests.support.programs.scraped import scraped_fleet

pytestmark = pytest.mark.real


@pytest.mark.slow
@pytest.mark.requires_program("prometheus")
@pytest_twisted.ensureDeferred
async def test_a_clone_of_series(start_async: StartAsync, tmp_path: Path) -> None:
    """Nodes, boards and pods are those that were scraped; the release cannot be told from series alone."""
    server = await scraped_fleet(start_async, tmp_path, "dgx-1/0")
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
