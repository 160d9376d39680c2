"""Nodes with kubelets, in memory: what their fakedev-node is told by the node port, and what its reports change."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fakedev.kubernetes.nodes.node_port import NodePortFactory
from fakedev.kubernetes.nodes.node_view import slot_from
from fakedev.nvml.records import BOARD, NODE, SLOT, head_of
from tests.support.application import LineClient
from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, LABEL, POOLS, FollowedCluster, followed
from tests.support.wire.tls_clients import CERTIFICATE, KEY, Client

LISTEN = ", listen: ['127.0.0.1:9401']"


@pytest.fixture
def cluster(tmp_path: Path) -> FollowedCluster:
    """A cluster with one node that has a kubelet; the application has a node port."""
    return followed(tmp_path, "worker", has_kubelet=True, more=LISTEN)


class NodeProgram:
    """What fakedev-node says at the node port."""

    def __init__(self, client: LineClient) -> None:
        self.client = client
        self.answer = self.client.ask(op="attach", id=1, node="worker")
        self.view: Any = self.answer.get("view")
        self.ask("restarted")

    def ask(self, verb: str, **arguments: object) -> Any:
        """A request; its answer. The view is the latest one."""
        self.client.send(json.dumps({"op": verb, "id": 2, **arguments}).encode() + b"\n")
        told = self.hear()
        (answer,) = [each for each in told if "event" not in each]
        return answer

    def hear(self) -> list[Any]:
        """What came since; the view is the latest one."""
        told: list[Any] = self.client.told()
        self.view = next((each["view"] for each in reversed(told) if "view" in each), self.view)
        return told

    @property
    def ids(self) -> list[str]:
        """The GPUs of the view, in the order of their index."""
        return [slot["id"] for slot in self.view["resources"][GPU]]

    @property
    def unhealthy(self) -> dict[int, str]:
        """The reasons of unhealthy GPUs, by their index."""
        slots = enumerate(self.view["resources"][GPU])
        return {index: slot["unhealthy"] for index, slot in slots if "unhealthy" in slot}

    def report(self, *held: tuple[str, str, list[str]], **more: object) -> None:
        """PodResources says: these containers have these devices."""
        listed = [
            {"namespace": "default", "pod": pod, "container": container, "resource": GPU, "ids": ids, **more}
            for pod, container, ids in held
        ]
        assert self.ask("report", allocations=listed)["ok"]


def attached(cluster: FollowedCluster) -> NodeProgram:
    """A fakedev-node that is connected."""
    return NodeProgram(cluster.node_client())


def holders(cluster: FollowedCluster) -> dict[str, tuple[str, str]]:
    """Pod and container of each GPU that has one, by its UUID."""
    pattern = r'^DCGM_FI_DEV_GPU_UTIL\{.*UUID="([^"]+)".*container="([^"]*)".*pod="([^"]*)"'
    found = re.findall(pattern, cluster.page("worker"), re.MULTILINE)
    return {uuid: (pod, container) for uuid, container, pod in found if pod}


def two_containers(name: str) -> dict[str, Any]:
    """A running pod whose two containers want a GPU each."""
    item = pod(name, "worker", {GPU: "1"})
    (main,) = item["spec"]["containers"]
    item["spec"]["containers"] = [main, {**main, "name": "second"}]
    return item


def reasons(cluster: FollowedCluster) -> list[str]:
    """The reasons of all Events."""
    return [event["reason"] for event in cluster.api.items("events")]


def test_labels_are_written_and_capacity_is_not(cluster: FollowedCluster) -> None:
    """The kubelet counts the devices of its node; the labels of GPU feature discovery are fakedev's."""
    item = cluster.node("worker")
    assert item["metadata"]["labels"]["nvidia.com/gpu.count"] == "8"
    assert not [name for name in {**item["status"]["capacity"], **item["status"]["allocatable"]} if "nvidia" in name]


def test_the_view_has_the_devices_of_the_page(cluster: FollowedCluster) -> None:
    shown = re.findall(r'^DCGM_FI_DEV_GPU_TEMP\{.*UUID="([^"]+)"', cluster.page("worker"), re.MULTILINE)
    assert attached(cluster).ids == shown
    assert len(shown) == 8


def test_a_pod_is_where_the_kubelet_put_it(cluster: FollowedCluster) -> None:
    """Two containers have the devices that PodResources names, whichever would be the first free ones."""
    program = attached(cluster)
    ids = program.ids
    cluster.add(two_containers("train"), ticks=2)
    assert holders(cluster) == {}
    program.report(("train", "main", [ids[6]]), ("train", "second", [ids[2]]))
    cluster.tick(2)
    assert holders(cluster) == {ids[6]: ("train", "main"), ids[2]: ("train", "second")}
    cluster.remove("pods", "train", ticks=2)
    assert holders(cluster) == {}


def test_a_report_may_come_before_its_pod(cluster: FollowedCluster) -> None:
    """The kubelet knows a pod before the watch tells of it; the report counts once the pod is known."""
    program = attached(cluster)
    program.report(("train", "main", [program.ids[5]]))
    cluster.add(pod("train", "worker", {GPU: "1"}), ticks=2)
    assert holders(cluster) == {program.ids[5]: ("train", "main")}
    program.report()
    cluster.tick(2)
    assert holders(cluster) == {}


def test_allocations_stay_while_the_program_is_away(cluster: FollowedCluster) -> None:
    """fakedev-node is started again: what was reported counts until its next report."""
    program = attached(cluster)
    program.report(("train", "main", [program.ids[1]]))
    cluster.add(pod("train", "worker", {GPU: "1"}), ticks=2)
    program.client.leave()
    cluster.tick(2)
    assert holders(cluster) == {program.ids[1]: ("train", "main")}


def test_a_device_that_the_node_lacks_is_told_at_the_pod(cluster: FollowedCluster) -> None:
    """As after a change of the pool: an Event at the pod, once; its other devices count."""
    program = attached(cluster)
    cluster.api.add(pod("train", "worker", {GPU: "2"}))
    for _ in range(2):
        program.report(("train", "main", [program.ids[0], "GPU-gone"]))
        cluster.tick(2)
    assert holders(cluster) == {program.ids[0]: ("train", "main")}
    (event,) = [each for each in cluster.api.items("events") if each["reason"] == "UnknownDevice"]
    assert "GPU-gone" in event["message"]


def test_a_fault_changes_the_view(cluster: FollowedCluster) -> None:
    """The device is unhealthy with its reason in the tick of the fault, and healthy again when it is cleared."""
    program = attached(cluster)
    cluster.say("fault xid code=79 devices=worker/3", ticks=2)
    program.hear()
    assert program.unhealthy == {3: "XID 79"}
    cluster.say("clear all", ticks=2)
    (changed,) = program.hear()
    assert (changed["event"], program.unhealthy) == ("changed", {})
    assert {"DeviceUnhealthy", "DeviceHealthy"} <= {*reasons(cluster)}


def test_the_recovery_of_the_vendor(tmp_path: Path) -> None:
    cluster = followed(tmp_path, "worker", has_kubelet=True, more=f"{LISTEN}, recovery: vendor")
    program = attached(cluster)
    cluster.say("fault xid code=79 devices=worker/3", ticks=2)
    cluster.say("clear all", ticks=3)
    program.hear()
    assert program.unhealthy == {3: "XID 79"}
    program.ask("restarted")
    cluster.tick(1)
    program.hear()
    assert program.unhealthy == {}


@pytest.mark.parametrize(
    ("fault", "events"),
    [("plugin-down", {"DevicePluginDown", "DevicePluginUp"}), ("kubelet-restart", {"KubeletRestarted"})],
)
def test_faults_of_plugins(cluster: FollowedCluster, fault: str, events: set[str]) -> None:
    """The plugins stop while it lasts, and register anew. Pods keep their devices."""
    program = attached(cluster)
    program.report(("train", "main", [program.ids[1]]))
    cluster.add(pod("train", "worker", {GPU: "1"}), ticks=2)
    cluster.say(f"fault {fault} devices=worker/*", ticks=2)
    program.hear()
    assert program.view["plugin-down"] is True
    cluster.say("clear all", ticks=2)
    program.hear()
    assert "plugin-down" not in program.view
    assert holders(cluster) == {program.ids[1]: ("train", "main")}
    assert events <= {*reasons(cluster)}


def test_claims_in_a_report(tmp_path: Path) -> None:
    """PodResources shows devices of claims too: they are known by the claims, and no unknown ids."""
    cluster = followed(tmp_path, "worker", has_kubelet=True, more=f"{LISTEN}, resources: both")
    program = attached(cluster)
    assert program.view["driver"] == "gpu.nvidia.com"
    cluster.api.add(pod("train", "worker", {GPU: "1"}))
    claimed = {"namespace": "default", "pod": "train", "container": "main", "resource": "gpu.nvidia.com"}
    listed = [{**claimed, "ids": ["gpu-5"], "claim": "train-gpu", "pool": "worker"}]
    listed += [{**claimed, "resource": GPU, "ids": [program.ids[0]]}]
    assert program.ask("report", allocations=listed)["ok"]
    cluster.tick(2)
    assert holders(cluster) == {program.ids[0]: ("train", "main")}
    assert reasons(cluster) == []


def allocated_claim(cluster: FollowedCluster, name: str, device: str) -> None:
    """A claim in namespace ml, to which the scheduler gives a device of the node."""
    metadata = {"name": name, "namespace": "ml"}
    cluster.api.add({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": {}})
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "worker", "device": device}
    status = {"allocation": {"devices": {"results": [result]}}}
    cluster.api.modify("resourceclaims", name, {"status": status}, "ml")
    cluster.tick(2)


def test_a_board_is_reserved_once(tmp_path: Path) -> None:
    """For containers that a kubelet starts, or for a claim: who asks first, also before PodResources shows the pod."""
    cluster = followed(tmp_path, "worker", has_kubelet=True, more=f"{LISTEN}, resources: both")
    program = attached(cluster)
    assert program.ask("reserve", ids=program.ids[:1])["error"]["code"] == "busy"  # nothing is reported yet
    program.report()
    allocated_claim(cluster, "claim0", "gpu-0")
    assert program.ask("reserve", ids=program.ids[1:2])["ok"]
    allocated_claim(cluster, "claim1", "gpu-1")
    assert program.ask("reserve", ids=program.ids[:1])["error"]["code"] == "busy"
    assert program.ask("prefer", resource=GPU, count=1, available=program.ids[:3])["ids"] != program.ids[:1]

    def prepare(claim: str) -> Any:
        uid = cluster.api.get("resourceclaims", claim, "ml")["metadata"]["uid"]
        return program.ask("prepare", namespace="ml", claim=claim, uid=uid)

    assert prepare("claim0")["ok"]
    assert prepare("claim1")["error"]["code"] == "busy"
    assert program.ask("report", allocations=[], starting=[program.ids[1]])["ok"]
    assert prepare("claim1")["error"]["code"] == "busy"
    program.report()  # the pod was never started
    assert prepare("claim1")["ok"]


def test_a_claim_is_prepared(tmp_path: Path) -> None:
    """With the devices that it has of this node, once its allocation is known; never with those of another claim."""
    cluster = followed(tmp_path, "worker", has_kubelet=True, more=f"{LISTEN}, resources: dra")
    program = attached(cluster)
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "worker", "device": "gpu-2"}
    others = [{**result, "driver": "other.example"}, {**result, "pool": "elsewhere"}]
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
             "metadata": {"name": "train-gpu", "namespace": "ml"}, "spec": {}}  # fmt: skip
    uid = cluster.api.add(claim)["metadata"]["uid"]

    def prepare(uid: str) -> Any:
        cluster.tick(1)
        return program.ask("prepare", namespace="ml", claim="train-gpu", uid=uid)

    assert prepare(uid)["error"]["code"] == "unknown-name"
    status: dict[str, Any] = {"allocation": {"devices": {"results": [*others, result]}}}
    cluster.api.modify("resourceclaims", "train-gpu", {"status": status}, "ml")
    (device,) = prepare(uid)["devices"]
    assert device.pop("id") == [row["UUID"] for row in cluster.rows("worker")][2]
    assert device == {"request": "gpu", "pool": "worker", "device": "gpu-2"}
    assert prepare("of-an-older-claim")["error"] == {
        "code": "unknown-name", "message": "claim: no ml/train-gpu with uid of-an-older-claim is allocated on worker",
    }  # fmt: skip
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "MIG"}}
    opaque = {"source": "FromClaim", "opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}
    status["allocation"]["devices"]["config"] = [opaque]
    cluster.api.modify("resourceclaims", "train-gpu", {"status": status}, "ml")
    wrong = prepare(uid)["error"]
    assert wrong == {"code": "bad-argument", "message": "claim: sharing.strategy: must be TimeSlicing or MPS"}


def test_preferred_devices(cluster: FollowedCluster) -> None:
    program = attached(cluster)
    ids = program.ids
    answer = program.ask("prefer", resource=GPU, count=2, available=ids[4:], must=ids[7:])
    assert sorted(answer["ids"], key=ids.index) == [ids[4], ids[7]]
    refused = program.ask("prefer", resource=GPU, count=1, available=["GPU-other"])
    assert refused["error"]["code"] == "unknown-name"


def test_a_node_that_is_not_simulated(cluster: FollowedCluster) -> None:
    cluster.api.add(node("other", has_kubelet=True))
    cluster.add(node("wrong", {LABEL: "h1000"}, has_kubelet=True), ticks=2)
    client = cluster.node_client()
    (refused,) = client.say("attach other")
    text = "node 'other' is not simulated: no node of the cluster with this name has the label"
    assert refused == f"error unknown-name {text}"
    (refused,) = client.say("attach wrong")
    assert "there is no pool 'h1000' with nodes: cluster; did you mean h100?" in refused
    cluster.modify("nodes", "other", {"metadata": {"labels": {LABEL: "h100"}}}, ticks=2)
    assert client.say("attach other")[0] == "ok 9 lines"


def test_a_node_that_loses_its_label(cluster: FollowedCluster) -> None:
    """It offers nothing any more; fakedev-node stays connected. With the label the pods' devices come back."""
    program = attached(cluster)
    (first, *_) = program.ids
    program.report(("train", "main", [first]))
    cluster.add(pod("train", "worker", {GPU: "1"}), ticks=2)
    cluster.modify("nodes", "worker", {"metadata": {"labels": {LABEL: None}}}, ticks=2)
    program.hear()
    assert program.view == {"node": "worker", "resources": {}}
    cluster.modify("nodes", "worker", {"metadata": {"labels": {LABEL: "h100"}}}, ticks=3)
    program.hear()
    assert len(program.ids) == 8
    assert holders(cluster) == {first: ("train", "main")}


def test_how_many_are_connected_and_registered(cluster: FollowedCluster) -> None:
    def counts() -> list[str]:
        page = cluster.app.get("/-/metrics").body.decode()
        return re.findall(r"^fakedev_kubernetes_(?:attached|registered) (.*)$", page, re.MULTILINE)

    assert counts() == ["0.0", "0.0"]
    program = attached(cluster)
    assert counts() == ["1.0", "0.0"]
    program.ask("registered", resources=[GPU])
    assert counts() == ["1.0", "1.0"]
    program.client.leave()
    assert counts() == ["0.0", "0.0"]


def test_two_programs_at_one_node(cluster: FollowedCluster) -> None:
    old, new = attached(cluster), attached(cluster)
    cluster.api.add(pod("train", "worker", {GPU: "1"}))
    old.report(("train", "main", [old.ids[0]]))
    new.report(("train", "main", [new.ids[4]]))
    cluster.say("fault xid code=79 devices=worker/3", ticks=2)
    for program in (old, new):
        program.hear()
        assert program.unhealthy == {3: "XID 79"}
    old.client.leave()
    cluster.tick(2)
    assert holders(cluster) == {new.ids[4]: ("train", "main")}
    assert "fakedev_kubernetes_attached 1.0" in cluster.app.get("/-/metrics").body.decode()


def test_a_reload_gives_the_node_other_devices(cluster: FollowedCluster) -> None:
    """Another number of GPUs in the pool: fakedev-node is told, and pods keep those that are still there."""
    program = attached(cluster)
    ids = program.ids
    cluster.api.add(pod("train", "worker", {GPU: "2"}))
    program.report(("train", "main", [ids[1], ids[7]]))
    cluster.tick(2)
    assert cluster.reload(POOLS.replace("devices-per-node: 8", "devices-per-node: 4")).status == 200
    cluster.tick(3)
    program.hear()
    assert program.ids == ids[:4]
    assert holders(cluster) == {ids[1]: ("train", "main")}
    assert cluster.node("worker")["metadata"]["labels"]["nvidia.com/gpu.count"] == "4"


def test_the_boards_of_a_node(cluster: FollowedCluster) -> None:
    """A slot of the present tick, with the names and the state of the node's boards; with each tick another one."""
    program, ticks = attached(cluster), []
    for _ in range(2):
        counts, content = slot_from(program.ask("boards"))
        places = head_of(counts)
        assert (counts.nodes, counts.boards) == (1, len(program.ids))
        assert NODE.unpack(content, int(places["nodes_in_slot"]))["name"] == "worker"
        first = int(places["boards_in_slot"])
        shown = [BOARD.unpack(content, first + place * BOARD.size) for place in range(counts.boards)]
        assert [each["uuid"] for each in shown] == program.ids
        ticks.append(SLOT.unpack(content)["tick"])
        cluster.tick()
    assert ticks[1] == int(ticks[0]) + 1


def test_tls(tmp_path: Path) -> None:
    """The port has it as all line ports: of the configuration, and a reload with another one changes it."""
    (tmp_path / "cert.pem").write_text(CERTIFICATE)
    (tmp_path / "key.pem").write_text(KEY)
    keys = f"tls_server_config: {{{{cert_file: {tmp_path}/cert.pem, key_file: {tmp_path}/key.pem}}}}"
    text = POOLS.replace("{more}", f", listen: [{{{{listen: '127.0.0.1:9401', {keys}}}}}]")
    cluster = followed(tmp_path, "worker", has_kubelet=True, text=text)
    (port,) = cluster.app.factories(NodePortFactory)
    assert Client(port, cluster.reactor).ask(b"attach worker\nquit\n").startswith(b"ok 9 lines\nplugin=up")
    assert cluster.reload(text.replace(f", {keys}", "")).status == 200
    assert not port.is_tls
