"""A service that is up loads no module in a step of the reactor: one takes some 20 ms, and holds all peers."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

from tests.support.paths import ROOT

#: Pages, a workload on all devices, faults and reloads; what it prints are the modules that this has loaded.
_PROGRAM = dedent('''
    import sys
    from importlib import import_module
    from fakedev.service.service import LOADED_LATER
    from tests.support.application import application

    text = """
    fleet:
      pools: [{name: p, nodes: 2, device: h100, devices-per-node: 8, identity: dcgm}]
    web: ["127.0.0.1:9400"]
    workloads: {listen: [{listen: "127.0.0.1:9500", allow: [workloads, faults]}],
                base: [{name: t, devices: all, profile: "50:5:0"}]}
    queues: {names: [q], listen-clients: ["127.0.0.1:9997"], listen-backends: ["127.0.0.1:9999"]}
    """
    with application(text) as app:
        for name in (*LOADED_LATER, "fakedev.api.why"):  # which threads load
            import_module(name)
        before = set(sys.modules)
        app.tick(2)
        for path in ("/metrics", "/nodes/p-0/metrics", "/workloads/metrics", "/queues/metrics", "/-/metrics", "/sd",
                     "/health", "/api/v1/devices", "/api/v1/nodes", "/api/v1/journal", "/api/v1/why?metric=power"):
            assert app.get(path).status in (200, 400), path
        peer = app.connect()
        for line in ("run x devices=all profile=50:0:0", "fault kind=xid code=79 devices=p-0/*",
                 "fault kind=lost devices=p-1/0"):
            said = peer.say(line)
            assert any(each.startswith("ok") for each in said), said
            app.tick(2)
        for nodes in (3, 2):
            app.text = text.replace("nodes: 2", f"nodes: {nodes}")
            app.http().send(b"POST /-/reload HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 0\\r\\n\\r\\n")
            app.tick(2)
            assert len(app.fleet.spec.pools[0].nodes) == nodes
        print(*sorted(set(sys.modules) - before))
''')


@pytest.mark.slow
def test_steps_load_no_module() -> None:
    """What a service needs after its start is loaded already, or loaded in a thread."""
    run = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.strip()) == (0, ""), run.stdout + run.stderr
