"""Nodes of a cluster in racks: their places are the numbers at the end of their names."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.kube.api_server import node
from tests.support.kube.followed import LABEL, POOLS, FollowedCluster, followed

RACKS = POOLS.replace("name: h100, nodes: cluster, device: h100, devices-per-node: 8", "name: h100, nodes: cluster, "
                      "device: gb200-nvl72")  # fmt: skip
CLIQUE = "nvidia.com/gpu.clique"


def cliques(cluster: FollowedCluster, *names: str) -> list[str]:
    return [cluster.node(name)["metadata"]["labels"].get(CLIQUE, "") for name in names]


def test_racks(tmp_path: Path) -> None:
    """Nodes 0 to 17 are a rack; those that come later change no place of others."""
    cluster = followed(tmp_path, "t-0", "t-17", "t-18", text=RACKS)
    first, last, other = cliques(cluster, "t-0", "t-17", "t-18")
    assert first == last != other
    assert first.endswith(".0")
    cluster.add(node("t-3", {LABEL: "h100"}), ticks=3)
    assert cliques(cluster, "t-0", "t-3", "t-18") == [first, first, other]
    racks = json.loads(cluster.get("/api/v1/racks").body)["racks"]
    assert [(rack["rack"], rack["nodes"], rack["devices"]) for rack in racks] == [
        ("h100-rack-0", 3, 12), ("h100-rack-1", 1, 4),
    ]  # fmt: skip
    trays = json.loads(cluster.get("/api/v1/racks/h100-rack-0").body)["trays"]
    assert [tray["node"] for tray in trays] == ["t-17", "t-3", "t-0"]


def test_a_place_for_each_node(tmp_path: Path) -> None:
    """A node without a number, and a second one with the same, are refused; a place that becomes free is taken."""
    cluster = followed(tmp_path, "t-0", "tray", "u-0", text=RACKS)
    assert cliques(cluster, "tray", "u-0") == ["", ""]
    ((_, reason, text),) = cluster.events("tray")
    assert (reason, text) == (
        "NotSimulated", "pool h100: its name ends with no number, its place in the racks: name it tray-0",
    )  # fmt: skip
    ((_, _, text),) = cluster.events("u-0")
    assert text == "pool h100: t-0 has the place 0 in the racks already: rename one of them"
    cluster.remove("nodes", "t-0", ticks=3)
    assert cliques(cluster, "u-0")[0].endswith(".0")
