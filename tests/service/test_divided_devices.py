"""Divided devices over the ports and the API of the whole application."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.application import MemoryApplication, application

CONFIGURATION = """
fleet:
  speed: 0
  exact-sensors: true
  pools:
    - {name: p, nodes: [a], device: a100, devices-per-node: 2, mig: [3g.20gb, 1g.5gb], devices: [{index: 1, mig: []}]}
web: ["127.0.0.1:9400"]
workloads: {listen: ["127.0.0.1:4499"]}
"""


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    """An application with a first device that is divided in two, and a second that is not."""
    with application(CONFIGURATION) as running:
        yield running


def test_devices(app: MemoryApplication) -> None:
    """A device lists its parts; a part tells of itself and of its device."""
    assert app.json("/api/v1/devices/a/0")["parts"] == ["a/0/0", "a/0/1"]
    assert "parts" not in app.json("/api/v1/devices/a/1")
    part = app.json("/api/v1/devices/a/0/1")
    assert (part["part"], part["device"]) == ("a/0/1", "a/0")
    assert part["facts"]["mig_profile"] == "1g.5gb"
    assert part["quantities"]["memory_total_bytes"] == 4864 * 2**20
    assert part["quantities"]["power_watts"] == app.json("/api/v1/devices/a/0")["quantities"]["power_watts"]
    assert [each["metric"] for each in part["explained"]][:2] == ["usage_ratio", "core_frequency_mhz"]
    assert (part["health"], part["workloads"]) == ("well", [])
    for path in ("a/0/2", "a/1/0", "a/0/x", "a/0/1/0"):
        assert app.get(f"/api/v1/devices/{path}").status == 404


def test_parts_of_a_device(app: MemoryApplication) -> None:
    """All of them together: identity, health and workloads; a device that is whole has none."""
    peer = app.connect()
    peer.say("run one devices=a/0/1 profile=40:0:0 use=memory:1GiB:0:0 pod=q detach")
    peer.say("fault lost devices=a/0/0", "advance 1s")
    found = app.json("/api/v1/devices/a/0/parts")
    first, second = found["parts"]
    assert (found["tick"], first["part"], second["part"]) == (1, "a/0/0", "a/0/1")
    assert (first["health"], second["health"]) == ("lost", "well")
    assert (first["quantities"], first["workloads"]) == ({"lost": 1}, [])
    assert second["workloads"] == [{"id": "w1", "name": "one"}]
    assert (second["facts"]["mig_id"], second["facts"]["pod"]) == ("7", "q")
    of_one = app.json("/api/v1/devices/a/0/1")
    assert second["quantities"].items() <= of_one["quantities"].items()
    assert (second["quantities"]["usage_ratio"], second["quantities"]["memory_used_bytes"]) == (0.4, 2**30)
    assert app.json("/api/v1/devices/a/0")["workloads"] == second["workloads"]
    assert app.json("/api/v1/devices/a/1/parts")["parts"] == []
    assert app.get("/api/v1/devices/a/0/parts/1").status == 404


def test_words_and_json(app: MemoryApplication) -> None:
    """A part is named in words, in JSON and in the original's own JSON, and seen in the lines of that part."""
    assert app.connect().say("run one devices=a/0/1 profile=40:0:0 detach") == ["ok w1"]
    request = {"op": "run", "name": "two", "devices": ["a/0/*"], "profile": "20:0:0", "detach": True, "pod": "q"}
    assert json.loads(app.connect().say(json.dumps(request))[0])["workload"] == "w2"
    assert app.connect().say("advance 1s")[-1] == "ok tick 1 seconds 1"
    page = app.get("/nodes/a/metrics").body.decode().splitlines()
    lines = [line for line in page if line.startswith("DCGM_FI_PROF_GR_ENGINE_ACTIVE{")]
    assert [float(line.rpartition(" ")[2]) for line in lines] == [0.19912, 0.59736, 0]
    assert ['pod="q"' in line for line in lines] == [True, True, False]
    assert ["GPU_I_ID" in line for line in lines] == [True, True, False]
    series = app.get("/workloads/metrics").body.decode()
    assert 'device="0/1"' in series


def test_explained(app: MemoryApplication) -> None:
    """A part can be asked after; several at once cannot."""
    peer = app.connect()
    assert peer.say("explain a/0/1 usage") == ["ok 1 lines", "usage_ratio 0: no work"]
    assert peer.say("explain a/0/*")[0].startswith("error bad-argument device: 'a/0/*' names 2 devices")
    assert peer.say("fault inlet devices=a/0/1")[0] == (
        "error bad-argument inlet affects the whole device, and a/0/1 is a part: name a/0"
    )
