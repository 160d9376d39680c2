"""The racks of the API: sums of trays, the fabric's health, and switches that all cliques share."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.application import MemoryApplication, application

_FLEET = """
version: 1
fleet:
  seed: 3
  pools:
    - {name: nvl, nodes: 36, device: gb200-nvl72, racks: {kind: nvl72, partition: 36, power-limit: 132000}}
    - {name: dgx, nodes: 2, device: h100, racks: air}
web: ["127.0.0.1:9400"]
workloads: {listen: [], base: [{name: work, devices: "nvl-*/*", profile: "90:0:0", metrics: {fabric-tx: 40%}}]}
faults:
  - {kind: switch-tray, devices: nvl-20/0, tray: 2, start: 5s}
  - {kind: coolant-leak, devices: nvl-0/0, start: 5s}
  - {kind: imex-down, devices: nvl-1/0, start: 5s}
"""


def _get(app: MemoryApplication, path: str) -> Any:
    answer = app.get(path)
    return json.loads(answer.body)


def test_racks_and_one_of_them() -> None:
    with application(_FLEET) as app:
        app.tick(20)
        racks = {each["rack"]: each for each in _get(app, "/api/v1/racks")["racks"]}
        assert list(racks) == ["nvl-rack-0", "nvl-rack-1", "dgx-rack-0"]
        well, broken, air = racks.values()
        assert (well["healthy"], well["limited"], well["unhealthy"]) == (72, 0, 0)
        assert broken["unhealthy"] == 72 and air["healthy"] is None and air["flow-litres-per-minute"] is None
        assert well["power-limit-watts"] == 132_000 and air["power-limit-watts"] is None
        first = _get(app, "/api/v1/racks/nvl-rack-0")
        trays = first["trays"]
        assert [tray["slot"] for tray in trays] == list(range(27, 9, -1)) and trays[-1]["node"] == "nvl-0"
        assert [tray["leak"] for tray in trays] == [False] * 17 + [True]
        assert [tray["imex-daemon-status"] for tray in trays][-2:] == [7, 5]
        modules = sum(cpu["module-power-watts"] for tray in trays for cpu in tray["cpus"])
        assert first["power-watts"] == pytest.approx(modules + 9 * 800, rel=0.01)
        assert {board["clique"] for tray in trays for board in tray["devices"]} == {"0", "1"}
        second = _get(app, "/api/v1/racks/nvl-rack-1")
        switches = {each["switch"]: each for tray in second["switch-trays"] for each in tray["switches"]}
        assert [number for number, switch in switches.items() if switch["links-up"] < switch["links"]] == [4, 5]
        assert switches[4]["links-up"] == 0 and switches[4]["tx-bytes-per-second"] == 0
        assert switches[0]["links"] == 72 and switches[0]["tx-bytes-per-second"] > 0
        assert _get(app, "/api/v1/racks?search=nvl&sort=-unhealthy&limit=1")["racks"][0]["rack"] == "nvl-rack-1"


def test_a_rack_that_there_is_not() -> None:
    with application(_FLEET) as app:
        answer = app.get("/api/v1/racks/nvl-rack-9")
        assert answer.status == 404 and b"no rack is named 'nvl-rack-9': the first is nvl-rack-0" in answer.body
