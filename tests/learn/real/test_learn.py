"""A fleet is learnt from what a real Prometheus has scraped."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_twisted

from fakedev.config.load import load
from fakedev.schema.files import Files
from tests.support.programs.processes import StartAsync, console, run
from tests.support.programs.scraped import scraped_fleet

pytestmark = pytest.mark.real

#: A family that no catalog has.
IDENTITY = """
name: own
based-on: dcgm@4.8.2
also:
- {name: own_speed, type: gauge, help: speed, format: go-whole, random: {quantiles: [1000, 5000], lasts: 5s}}
"""


@pytest.mark.slow
@pytest.mark.requires_program("prometheus")
@pytest_twisted.ensureDeferred
async def test_series_of_a_prometheus(start_async: StartAsync, tmp_path: Path) -> None:
    """Nodes, boards, the job that holds two of them all the time, and a family of one's own, with its pace."""
    (tmp_path / "own.yaml").write_text(IDENTITY)
    server = await scraped_fleet(start_async, tmp_path, "dgx-1/*", identity=str(tmp_path / "own.yaml"), times=20)
    output, kept = tmp_path / "fleet.yaml", tmp_path / "kept"
    command = (*console("fakedev"), "learn", "--prometheus", f"http://{server}", "--for", "1m", "--step", "1s")
    done = await run(
        start_async, *command, "--match", '{job="dcgm"}', "--output", str(output), "--resume", str(kept)
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    fleet = load(str(output), Files(environ={})).fleet
    assert [node.name for pool in fleet.pools for node in pool.nodes] == ["node-1", "node-2"]
    assert {pool.device_type.name for pool in fleet.pools} == {"a100-sxm4-40gb"}
    assert fleet.cluster is None
    (work,) = fleet.base
    assert (work.name, work.namespace, work.devices) == ("work-1", "team-1", ("node-2/0", "node-2/1"))
    assert "dgx" not in output.read_text()
    assert "queries: 1 of /api/v1/metadata, " in done.stderr
    assert "fitted to their history, that work and faults do not move: own_speed" in done.stderr
    identity = output.with_name("fleet-identity.yaml")
    assert "random:\n    quantiles: [1" in identity.read_text()
    # Again, without the server: all answers are in the folder.
    again = await run(
        start_async, *console("fakedev"), "learn", "--prometheus", "http://127.0.0.1:1", "--for", "1m", "--step", "1s",
        "--match", '{job="dcgm"}', "--output", str(tmp_path / "again.yaml"), "--resume", str(kept),
    )  # fmt: skip
    assert again.exit_code == 0, again.stderr
    assert "queries: none" in again.stderr
    text = output.read_text().replace("fleet-identity", "again-identity")
    assert (tmp_path / "again.yaml").read_text() == text
    refused = await run(start_async, *command, "--match", "up", "--output", str(tmp_path / "other.yaml"))
    assert refused.exit_code == 2
    assert "is not in braces" in refused.stderr
