"""Objects ComputeDomain: nodes of racks join them with the claims of their pods, and leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakedev.kubernetes.domains.compute_domain import ComputeDomain, Member, status_of_domain
from tests.kubernetes.followed.test_node_service import LISTEN, NodeProgram
from tests.kubernetes.followed.test_racks import CLIQUE, RACKS
from tests.support.kube.api_server import pod
from tests.support.kube.followed import CLAIMS, FollowedCluster, followed, slices_of

DOMAINS, TEMPLATES = "computedomains", "resourceclaimtemplates"
DRIVER = "compute-domain.nvidia.com"
LABEL = "resource.nvidia.com/computeDomain"
UID = "5f3a"


MORE = ", resources: dra, compute-domains: true"


def with_domain(found: FollowedCluster) -> FollowedCluster:
    """A domain of two nodes is made."""
    spec = {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "channel-0"}}}
    metadata = {"name": "train", "namespace": "default", "uid": UID}
    found.add(
        {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "metadata": metadata, "spec": spec}, 2
    )
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> FollowedCluster:
    """Two racks, and a domain of two nodes."""
    return with_domain(followed(tmp_path, "t-0", "t-1", "t-20", text=RACKS, more=MORE))


def uid(cluster: FollowedCluster) -> str:
    return str(cluster.api.get(DOMAINS, "train")["metadata"]["uid"])


def join(cluster: FollowedCluster, node: str, ticks: int = 3) -> None:
    """A pod on a node with a channel, as the scheduler leaves it."""
    (template,) = cluster.api.items(TEMPLATES)
    item = pod(f"on-{node}", node)
    item["spec"]["resourceClaims"] = [{"name": "channel", "resourceClaimName": f"of-{node}"}]
    item["spec"]["containers"][0]["resources"] = {"claims": [{"name": "channel"}]}
    stored = cluster.api.add(item)
    cluster.api.add({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": f"of-{node}", "namespace": "default"}, "spec": template["spec"]["spec"],
    })  # fmt: skip
    result = {"request": "channel", "driver": DRIVER, "pool": node, "device": "channel-0"}
    config = [{"source": "FromClaim", **each} for each in template["spec"]["spec"]["devices"]["config"]]
    reserved = {"resource": "pods", "name": stored["metadata"]["name"], "uid": stored["metadata"]["uid"]}
    allocation = {"devices": {"results": [result], "config": config}}
    cluster.modify(CLAIMS, f"of-{node}", {"status": {"allocation": allocation, "reservedFor": [reserved]}}, ticks)


def status(cluster: FollowedCluster) -> dict[str, Any]:
    return dict(cluster.api.get(DOMAINS, "train")["status"])


def nodes(cluster: FollowedCluster) -> dict[str, tuple[int, str]]:
    """Index and status of each node of the domain."""
    return {node["name"]: (node["index"], node["status"]) for node in status(cluster).get("nodes", ())}


def test_what_a_domain_makes(cluster: FollowedCluster) -> None:
    """Nodes offer a channel and a daemon; the template of the claims names the domain and goes with it."""
    (channels,) = [each["spec"] for each in slices_of(cluster, "t-0") if each["spec"]["driver"] == DRIVER]
    assert [(each["name"], each["attributes"]) for each in channels["devices"]] == [
        ("channel-0", {"type": {"string": "channel"}, "id": {"int": 0}}),
        ("daemon-0", {"type": {"string": "daemon"}, "id": {"int": 0}}),
    ]  # fmt: skip
    (template,) = cluster.api.items(TEMPLATES)
    assert template["metadata"]["name"] == "channel-0"
    assert [owner["uid"] for owner in template["metadata"]["ownerReferences"]] == [uid(cluster)]
    (config,) = template["spec"]["spec"]["devices"]["config"]
    assert config["opaque"]["driver"] == DRIVER
    assert config["opaque"]["parameters"] == {
        "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainChannelConfig", "domainID": uid(cluster),
        "allocationMode": "Single",
    }  # fmt: skip
    assert status(cluster)["status"] == "NotReady"


def test_nodes_join_and_leave(cluster: FollowedCluster) -> None:
    """A domain is ready with its number of nodes; other racks have other cliques, where indices begin anew."""
    join(cluster, "t-1")
    assert (nodes(cluster), status(cluster)["status"]) == ({"t-1": (0, "Ready")}, "NotReady")
    assert cluster.node("t-1")["metadata"]["labels"][LABEL] == uid(cluster)
    join(cluster, "t-0")
    join(cluster, "t-20")
    assert nodes(cluster) == {"t-0": (1, "Ready"), "t-1": (0, "Ready"), "t-20": (0, "Ready")}
    assert status(cluster)["status"] == "Ready"
    cliques = {node["name"]: node["cliqueID"] for node in status(cluster)["nodes"]}
    assert cliques == {name: cluster.node(name)["metadata"]["labels"][CLIQUE] for name in cliques}
    cluster.remove("pods", "on-t-1", ticks=0)
    cluster.remove(CLAIMS, "of-t-1", ticks=3)
    assert nodes(cluster) == {"t-0": (1, "Ready"), "t-20": (0, "Ready")}
    assert LABEL not in cluster.node("t-1")["metadata"]["labels"]


def test_a_daemon_that_is_down(cluster: FollowedCluster) -> None:
    """The fault imex-down shows in the status, and goes."""
    join(cluster, "t-0")
    join(cluster, "t-1")
    (fault,) = cluster.say("fault imex-down devices=t-1/*", ticks=2)
    assert nodes(cluster) == {"t-0": (0, "Ready"), "t-1": (1, "NotReady")}
    assert status(cluster)["status"] == "NotReady"
    cluster.say("clear all", ticks=30)
    assert status(cluster)["status"] == "Ready", fault


def test_a_restart_changes_nothing(cluster: FollowedCluster) -> None:
    """Nodes keep label and index, and nothing is written."""
    join(cluster, "t-1")
    join(cluster, "t-0")
    before, requests = status(cluster), cluster.api.requests.copy()
    cluster.start_again()
    cluster.tick(3)
    assert status(cluster) == before
    written = {(verb, resource) for verb, resource, _ in cluster.api.requests_since(requests)}
    assert not written & {("patch", "computedomains/status"), ("patch", "nodes/status")}


def test_a_node_with_a_kubelet(tmp_path: Path) -> None:
    """It offers channels when its kubelet has taken their plugin; pods wait for the IMEX daemon."""
    cluster = with_domain(followed(tmp_path, "t-0", has_kubelet=True, text=RACKS, more=f"{LISTEN}{MORE}"))
    program = NodeProgram(cluster.node_client())
    view = program.ask("attach", node="t-0")["view"]
    assert view["channels"] == [{"id": "channel-0"}, {"id": "daemon-0"}]
    assert slices_of(cluster, "t-0") == []
    program.ask("registered", resources=["gpu.nvidia.com", DRIVER])
    cluster.tick(2)
    assert {each["spec"]["driver"] for each in slices_of(cluster, "t-0")} == {"gpu.nvidia.com", DRIVER}
    cluster.say("fault imex-down devices=t-0/*", ticks=2)
    join(cluster, "t-0")
    claim = {"namespace": "default", "claim": "of-t-0", "uid": cluster.api.get(CLAIMS, "of-t-0")["metadata"]["uid"]}
    refused = program.ask("prepare", **claim)
    assert refused["error"]["message"] == "claim: the IMEX daemon of the node is not ready yet"
    cluster.say("clear all", ticks=30)
    assert program.ask("prepare", **claim)["devices"] == [{"request": "channel", "pool": "t-0", "device": "channel-0"}]


def test_the_first_free_index_is_taken() -> None:
    domain = ComputeDomain("ml", "train", UID, "channel", nodes=[{"name": "b", "cliqueID": "c.0", "index": 1}])
    made = status_of_domain(domain, [Member(name, "", "c.0") for name in "abc"])
    assert {node["name"]: node["index"] for node in made["nodes"]} == {"a": 0, "b": 1, "c": 2}
    assert made["status"] == "Ready"
