"""What a reload replaces is freed without the collector, which leaves out objects that have stayed for long."""

from __future__ import annotations

import gc

import pytest

from tests.support.application import application
from tests.support.reloads import reload

FLEET = """
fleet:
  seed: 7
  cluster: research
  pools:
    - {{name: dgx, nodes: {nodes}, device: h100, identity: dcgm}}
    - {{name: mig, nodes: 2, device: a100, identity: dcgm, mig: [3g.20gb, 2g.10gb]}}
    - {{name: amd, nodes: 2, device: mi300x, identity: amd-device-metrics}}
    - {{name: intel, nodes: 2, device: max-1550, identity: xpumanager}}
    - {{name: rack, device: gb200-nvl72}}
    - {{name: cheap, nodes: 2, device: l40s, identity: nvidia-gpu-exporter@1-nvml}}
faults: [{{kind: frozen, devices: "dgx-0/*"}}, {{kind: link-down, devices: "dgx-1/1", link: 3}}]
web: ["127.0.0.1:9400"]
workloads: {{listen: ["127.0.0.1:9401"], base: [{{name: b, devices: "dgx-0/[0-3]", profile: training}}]}}
queues: {{names: [media], listen-clients: ["127.0.0.1:9402"], listen-backends: ["127.0.0.1:9403"]}}
"""
PAGES = ("/metrics", "/nodes/dgx-1/metrics", "/workloads/metrics", "/-/metrics")


@pytest.mark.slow
def test_nothing_waits_for_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the old fleet nor its pages: cycles among them would stay for good."""
    monkeypatch.setattr(gc, "callbacks", [])  # of programs that other tests have started: they hide objects
    with application(FLEET.format(nodes=3)) as app:
        for path in PAGES:
            app.get(path)
        app.connect().say("run w1 devices=dgx-2/2 profile=1:0:0 detach")
        app.tick(3)
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            assert reload(app, FLEET.format(nodes=4)).status == 200
            app.tick(3)
            for path in PAGES:
                app.get(path)
            gc.collect()
            ours = {type(each).__qualname__ for each in gc.garbage if type(each).__module__.startswith("fakedev.")}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert ours == set()
