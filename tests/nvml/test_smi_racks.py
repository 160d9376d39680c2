"""nvidia-smi on a compute tray of a rack: its place, its fabric, and the power of its modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.application import application
from tests.support.driver.nvidia_smi import Command

_FLEET = """
version: 1
fleet:
  pools: [{{name: nvl, nodes: 18, device: gb200, racks: nvl72}}]
web: []
workloads: {{listen: []}}
nvml: {{file: {file}}}
faults:
  - {{kind: switch-tray, devices: [nvl-3/0], tray: 2, start: 5s}}
"""


def test_a_compute_tray(tmp_path: Path) -> None:
    file = tmp_path / "nvml.map"
    with application(_FLEET.format(file=file)) as app:
        smi = Command(file)
        smi.environ["FAKEDEV_NODE"] = "nvl-4"

        def shown(*fields: str) -> list[str]:
            return smi.rows(",".join(fields), form="csv,noheader,nounits")[0]

        place = shown("platform.slot_number", "platform.tray_index", "platform.host_id", "platform.module_id")
        assert place == ["14", "4", "1", "2"]
        serial, cluster, clique = shown("platform.chassis_serial_number", "fabric.clusterUuid", "fabric.cliqueId")
        assert len(serial) == 13 and len(cluster) == 36 and clique == "0"
        assert shown("fabric.state", "fabric.status") == ["Completed", "Success"]
        health = ("fabric.health.summary", "fabric.health.bandwidth", "fabric.health.route_unhealthy")
        assert shown(*health) == ["Healthy", "Full", "False"]
        boards = [float(row[0]) for row in smi.rows("power.draw.instant", form="csv,noheader,nounits")]
        module = float(shown("module.power.draw.instant")[0])
        assert module == pytest.approx(boards[0] + boards[1] + 143, abs=15)
        app.tick(8)
        assert shown(*health) == ["Unhealthy", "Degraded", "True"]
