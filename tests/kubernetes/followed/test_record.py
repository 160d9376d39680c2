"""The record of a run with a cluster: nodes, pods, faults and a reload are events, and replay without the cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakedev.commands.main import main
from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, LABEL, POOLS, FollowedCluster

#: After the reload: fewer devices for each node, with another driver, and another pool.
AFTER = POOLS.replace("devices-per-node: 8", "devices-per-node: 4, driver: 580.95.05").replace(
    "pools: [", "pools: [{{name: t4, nodes: cluster, device: t4, devices-per-node: 2, identity: dcgm@4.8.2}}, "
)


class Run:
    """A run whose page is kept at each tick."""

    def __init__(self, folder: Path) -> None:
        self.record = folder / "run.jsonl"
        self.cluster = FollowedCluster(folder, record=str(self.record))
        self.pages: dict[int, bytes] = {}

    def tick(self, count: int = 1) -> None:
        """Let ticks pass, and keep the page of each."""
        for _ in range(count):
            self.cluster.tick(1)
            self.pages[self.cluster.app.fleet.state.tick] = self.cluster.get("/metrics").body

    def whole(self) -> None:
        """All that can happen, and the end."""
        cluster, api = self.cluster, self.cluster.api
        api.add(node("a", {LABEL: "h100"}))
        cluster.start()
        self.tick(2)
        api.add(pod("train", "a", {GPU: "2"}, phase="Pending"))
        api.add(pod("serve", "b", {GPU: "3"}, annotations={"run.ai/simulated-gpu-utilization": "10-30"}))
        self.tick(2)
        api.add(node("b", {LABEL: "h100"}))
        api.modify("pods", "train", {"status": {"phase": "Running"}}, "default")
        self.tick(3)
        cluster.say("fault lost devices=a/0", "fault plugin-down devices=b/* duration=3")
        self.tick(3)
        cluster.say("clear all")
        api.remove("nodes", "b")
        self.tick(3)
        api.add(node("c", {LABEL: "t4"}))
        cluster.ask_reload(AFTER)
        api.add(node("b", {LABEL: "h100"}))
        self.tick(4)
        api.modify("nodes", "b", {"metadata": {"labels": {LABEL: "t4"}}})
        api.remove("pods", "train", "default")
        self.tick(4)
        cluster.stop()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Such a run, which is over."""
    found = Run(tmp_path)
    found.whole()
    return found


@pytest.mark.slow
def test_it_replays_to_the_same_pages(run: Run, tmp_path: Path) -> None:
    """Byte for byte, at each tick, without cluster and kubeconfig."""
    (tmp_path / "kubeconfig").unlink()
    folder = tmp_path / "pages"
    span = ["--for", f"{max(run.pages)}s", "--every", "1s"]
    assert main(["render", "--events", str(run.record), *span, "--output", str(folder)]) == 0
    assert len(run.pages) > 20
    assert len(set(run.pages.values())) > 15
    for tick, page in run.pages.items():
        assert (folder / f"{tick}.prom").read_bytes() == page, tick
    # The run had what it was made for.
    whole = b"".join(run.pages.values())
    assert all(words in whole for words in (b'pod="train"', b'pod="serve"', b"Tesla T4", b'Hostname="c"'))


@pytest.mark.slow
def test_the_same_cluster_gives_the_same_record(run: Run, tmp_path: Path) -> None:
    """Nothing in it depends on the machine, or on the order of what the server happened to send."""
    (tmp_path / "again").mkdir()
    again = Run(tmp_path / "again")
    again.whole()
    records = [_events(each.record) for each in (run, again)]
    assert records[0] == records[1]
    assert {each["event"] for each in records[0]} >= {"nodes", "start", "stop", "fault", "reload"}


def _events(path: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    # A reload has the path of the run's kubeconfig, and each line a checksum.
    return [{key: value for key, value in line.items() if key not in ("source", "crc32")} for line in lines]
