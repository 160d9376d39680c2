"""The topology of a running fleet as fake-gpu-operator describes it: parts, shared GPUs, memory that nobody states."""

from __future__ import annotations

from typing import Any

from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.kube.topology import Topology
from fakedev.net.fleet.operator_topology import OperatorTopology, utilization_of
from fakedev.sim.fleet import Fleet
from fakedev.spec.fleet import Activities
from fakedev.spec.profiles import parse_profile

FLEET = """
fleet:
  pools:
    - {name: p, nodes: [a, b], device: a100-80gb, devices-per-node: 2, identity: dcgm}
    - {name: m, nodes: [c], device: a100-80gb, devices-per-node: 1, identity: dcgm, mig: [3g.40gb, 1g.10gb]}
web: []
workloads:
  listen: []
  base:
    - {name: one, devices: a/0, profile: "30:10:0", metrics: {memory: 1000MiB}, pod: one, namespace: n, container: c}
    - {name: two, devices: "a/[0-1]", profile: "50:0:0", pod: two, namespace: n, container: c}
    - {name: nobody, devices: a/1, profile: "50:0:0"}
    - {name: part, devices: c/0/1, profile: "90:0:0", metrics: {memory: 10%}, pod: part, namespace: n, container: c}
"""


def fleet_of(text: str = FLEET) -> Fleet:
    """A fleet whose workloads run."""
    fleet = Fleet(load(None, Files(environ={}), text=text).fleet)
    fleet.advance()
    return fleet


def gpus(fleet: Fleet, node: str) -> list[Any]:
    """The GPUs of a node."""
    found = fleet.roster.node(node)
    assert found is not None
    return list(OperatorTopology(fleet, lambda spec: f"uid-{spec.pod}").node(found)["gpus"])


def test_pods_that_share() -> None:
    """Each pod has its entry; the first one owns the GPU; work without a pod is nobody's."""
    first, second = gpus(fleet_of(), "a")
    assert first["status"]["allocatedBy"] == {"namespace": "n", "pod": "one", "container": "c"}
    usage = first["status"]["podGpuUsageStatus"]
    assert {uid: each["utilization"] for uid, each in usage.items()} == {
        "uid-one": {"min": 20, "max": 40},
        "uid-two": {"min": 50, "max": 50},
    }
    assert list(second["status"]["podGpuUsageStatus"]) == ["uid-two"]


def test_memory() -> None:
    """What a pod states; what is left of the used memory for those that state none."""
    fleet = fleet_of()
    used = float(fleet.memory_used_bytes[0]) / 2**20
    usage = gpus(fleet, "a")[0]["status"]["podGpuUsageStatus"]
    assert usage["uid-one"]["fbUsed"] == 1000
    assert usage["uid-two"]["fbUsed"] == round(used - 1000) > 0


def test_parts_and_free_nodes() -> None:
    """Work on an instance is on its GPU; a node without work has nobody."""
    fleet = fleet_of()
    (gpu,) = gpus(fleet, "c")
    assert gpu["status"]["allocatedBy"]["pod"] == "part"
    assert gpu["status"]["podGpuUsageStatus"]["uid-part"]["fbUsed"] == 8192
    assert all(gpu["status"]["podGpuUsageStatus"] == {} for gpu in gpus(fleet, "b"))


def test_one_pool() -> None:
    """An address that shows one pool has that pool only."""
    topology = OperatorTopology(fleet_of())
    topology.follow(Topology(label_key="my/pool"), is_on=True)
    assert list(topology.cluster()["nodePools"]) == ["p", "m"]
    assert list(topology.cluster("m")["nodePools"]) == ["m"]
    assert topology.cluster()["nodePoolLabelKey"] == "my/pool"


def test_utilization() -> None:
    """The lowest and the highest load of a profile, within 0 to 100."""
    assert utilization_of(Activities(parse_profile("80:20:10,20:0:5"))) == (20.0, 100.0)
    assert utilization_of(Activities(parse_profile("10:10:0"))) == (0.0, 20.0)
    assert utilization_of(Activities(parse_profile("sine(50,40,60):5"))) == (5.0, 95.0)
