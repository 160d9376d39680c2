"""A service that keeps its state and follows a cluster: nodes and counters go on, pods come from the cluster."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.commands.main import main
from tests.support.application import SMALL, application
from tests.support.examples import examples
from tests.support.kube.api_server import node, pod
from tests.support.kube.followed import GPU, LABEL, POOLS, FollowedCluster

#: A device of a node.
Device = tuple[str, int]


class Kept:
    """A cluster that is followed by services with a state, one after the other, with a record of all.

    :param more: further keys of the cluster.
    :ivar pages: the page of each tick.
    """

    def __init__(self, folder: Path, more: str = "") -> None:
        self.folder = folder
        self.record = folder / "run.jsonl"
        self.cluster = FollowedCluster(
            folder, more=more, text=f"{POOLS}state: {folder}/state\n", record=str(self.record)
        )
        self.pages: dict[int, bytes] = {}
        self._energies: dict[Device, float] = {}

    def tick(self, count: int = 1) -> None:
        """Let ticks pass: no counter of a node that stays falls, and no pod is there twice."""
        for _ in range(count):
            self.cluster.tick(1)
            fleet = self.cluster.app.fleet
            names = [each.spec.pod for each in fleet.workloads.by_id.values()]
            assert len(names) == len(set(names)), names
            self.look()

    def look(self) -> None:
        """Look at the fleet."""
        fleet = self.cluster.app.fleet
        page = self.cluster.get("/metrics").body
        assert self.pages.setdefault(fleet.state.tick, page) == page
        now = dict(zip(self.devices(), fleet.energy_joules.tolist(), strict=True))
        for device in now.keys() & self._energies.keys():
            assert now[device] >= self._energies[device], device
        self._energies = now

    def devices(self) -> list[Device]:
        """The devices of the fleet, in its order."""
        pools = self.cluster.app.fleet.spec.pools
        return [(each.name, at) for pool in pools for each in pool.nodes for at in range(pool.devices_per_node)]

    def forget(self, name: str) -> None:
        """A node leaves: one of this name that joins later is a new one."""
        self._energies = {device: joules for device, joules in self._energies.items() if device[0] != name}

    def restart(self, *, is_killed: bool) -> None:
        """The service ends, in order or not, and the next one starts; nothing has changed before its first tick."""
        if is_killed:
            with TemporaryDirectory() as copy:
                shutil.copytree(self.folder, copy, dirs_exist_ok=True)
                self.cluster.stop()
                for name in ("state", "run.jsonl"):
                    gone, kept = self.folder / name, Path(copy) / name
                    if gone.is_dir():
                        shutil.rmtree(gone)
                        shutil.copytree(kept, gone)
                    else:
                        shutil.copy(kept, gone)
        else:
            self.cluster.stop()
        self.cluster.start()
        self.look()

    def pods(self) -> set[str]:
        """The names of pods that have devices on a page, and do their work."""
        names = {name for each in self.nodes() for name, _ in self.cluster.held(each)}
        assert len(self.cluster.app.fleet.workloads.by_id) == len(names)
        return names

    def nodes(self) -> list[str]:
        """The nodes of the fleet."""
        return [each.name for pool in self.cluster.app.fleet.spec.pools for each in pool.nodes]

    def check_record(self) -> None:
        """The record, run again without any cluster, has every page."""
        pages = self.folder / "pages"
        span = ("--for", f"{max(self.pages)}s", "--every", "1s", "--output", str(pages))
        assert main(["render", "--events", str(self.record), *span]) == 0
        for tick, page in self.pages.items():
            assert (pages / f"{tick}.prom").read_bytes() == page, tick


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_restart(tmp_path: Path, is_killed: bool) -> None:
    """Meanwhile one pod and one node have gone, and others have come; a pod that stayed has its devices again."""
    kept = Kept(tmp_path)
    cluster, api = kept.cluster, kept.cluster.api
    for name in ("a", "b"):
        api.add(node(name, {LABEL: "h100"}))
    for name, where, second in (("stays", "a", 1), ("goes", "a", 2), ("lost", "b", 3)):
        api.add(pod(name, where, {GPU: "2"}))
        api.modify("pods", name, {"status": {"startTime": f"2026-11-22T10:00:0{second}Z"}}, "default")
    cluster.start()
    kept.tick(10)
    held = cluster.held("a")["stays", "main"]
    tick, holder = cluster.app.fleet.state.tick, holder_of(cluster)
    api.remove("pods", "goes", "default")
    api.remove("nodes", "b")
    api.remove("pods", "lost", "default")
    kept.restart(is_killed=is_killed)
    assert cluster.app.fleet.state.tick == tick
    api.add(node("c", {LABEL: "h100"}))
    api.add(pod("new", "c", {GPU: "1"}))
    kept.tick(5)
    assert (kept.nodes(), kept.pods()) == (["a", "c"], {"stays", "new"})
    assert cluster.held("a") == {("stays", "main"): held}
    # It need not wait until the lease of the one before is free.
    assert holder_of(cluster) == holder
    kept.check_record()


def holder_of(cluster: FollowedCluster) -> str:
    """Who holds the lease."""
    (lease,) = cluster.api.items("leases")
    return str(lease["spec"]["holderIdentity"])


#: Not node-down: it closes the page, and its boards return as after a reset.
FAULTS = (
    "power-cap devices=a/0 watts=200", "lost devices=a/1", "link-down devices=b/0", "xid code=48 devices=all",
    "plugin-down devices=a/0 duration=2", "kubelet-restart devices=b/0",
)  # fmt: skip
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("node", "pod", "gone", "left")), st.sampled_from("abc")),
        st.tuples(st.just("tick"), st.sampled_from("123")),
        st.tuples(st.sampled_from(("stopped", "killed")), st.just("")),
        st.tuples(st.just("fault"), st.sampled_from(FAULTS)),
    ),
    min_size=4, max_size=14,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=examples(30), deadline=None)
@given(STEPS)
def test_whatever_happens(steps: list[tuple[str, str]]) -> None:
    """In the end the fleet has the nodes and the pods of the cluster, each pod once; its record has the whole."""
    with TemporaryDirectory() as folder:
        kept = Kept(Path(folder))
        api = kept.cluster.api
        nodes, pods = set[str](), set[str]()
        kept.cluster.start()
        for what, word in steps:
            if what == "node" and word not in nodes:
                nodes.add(word)
                api.add(node(word, {LABEL: "h100"}))
            elif what == "pod" and word not in pods:
                pods.add(word)
                api.add(pod(word, word, {GPU: "2"}))
            elif what == "gone" and word in pods:
                pods.remove(word)
                api.remove("pods", word, "default")
            elif what == "left" and word in nodes:
                nodes.remove(word)
                api.remove("nodes", word)
                kept.tick(3)
                kept.forget(word)
            elif what in ("stopped", "killed"):
                kept.restart(is_killed=what == "killed")
            elif what == "fault":
                kept.cluster.say(f"fault {word}")
            elif what == "tick":
                kept.tick(int(word))
        kept.restart(is_killed=False)
        kept.tick(5)
        assert kept.nodes() == sorted(nodes)
        assert kept.pods() == pods & nodes
        kept.check_record()


@pytest.mark.slow
def test_what_a_plugin_has_seen(tmp_path: Path) -> None:
    """A device whose XID was from before the start of its plugin stays healthy, one with another XID stays unhealthy.

    With the recovery of the vendor's plugin both show their XIDs, and only the plugin knows which counts.
    """
    kept = Kept(tmp_path, ", recovery: vendor")
    cluster = kept.cluster
    cluster.api.add(node("a", {LABEL: "h100"}))
    cluster.start()
    kept.tick(3)
    cluster.say("fault xid code=48 devices=a/0")
    kept.tick(3)
    cluster.say("fault plugin-down devices=a/0 duration=2")
    kept.tick(6)
    assert cluster.counts("a") == ("8", "8")
    cluster.say("fault xid code=48 devices=a/1")
    kept.tick(3)
    cluster.say("fault reset devices=a/1")
    kept.forget("a")  # the counters of a device that is reset begin again
    kept.tick(3)
    for is_killed in (True, False):
        kept.restart(is_killed=is_killed)
        kept.tick(3)
        assert cluster.counts("a") == ("8", "7")


@pytest.mark.slow
def test_a_health_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next service does not start, and says why; without a cluster it does, and forgets it."""
    kept = Kept(tmp_path)
    kept.cluster.api.add(node("a", {LABEL: "h100"}))
    kept.cluster.start()
    kept.tick(3)
    kept.cluster.stop()
    file = tmp_path / "state" / "cluster-health"
    file.write_text("{}")
    with pytest.raises(SystemExit) as ended:
        kept.cluster.start()
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        f"fakedev: the state cannot be used: {file}: it is damaged: restore it, "
        f"or lose what it has: rm {file}\n"
    )
    alone = f"{SMALL}state: {tmp_path}/alone\n"
    with application(alone):
        pass
    (tmp_path / "alone" / "cluster-health").write_text("{}")
    with application(alone):
        assert not (tmp_path / "alone" / "cluster-health").exists()


def test_a_node_that_left(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    cluster = kept.cluster
    cluster.api.add(node("a", {LABEL: "h100"}))
    cluster.start()
    kept.tick(3)
    cluster.say("fault lost devices=a/0 duration=3")
    kept.tick(2)
    assert cluster.counts("a") == ("8", "7")
    events = cluster.events("a")
    cluster.api.remove("nodes", "a")
    kept.restart(is_killed=True)
    kept.tick(3)
    assert kept.nodes() == []
    kept.forget("a")
    cluster.api.add(node("a", {LABEL: "h100"}))
    kept.tick(3)
    assert cluster.counts("a") == ("8", "8")
    assert cluster.events("a") == events


@pytest.mark.slow
def test_a_fault(tmp_path: Path) -> None:
    """A device that is lost stays so: its node has one less all the time, and is not told of it again."""
    kept = Kept(tmp_path)
    cluster = kept.cluster
    cluster.api.add(node("a", {LABEL: "h100"}))
    cluster.start()
    kept.tick(3)
    cluster.say("fault lost devices=a/0")
    kept.tick(3)
    assert cluster.counts("a") == ("8", "7")
    events, requests = cluster.events("a"), cluster.api.requests.copy()
    kept.restart(is_killed=True)
    kept.tick(5)
    assert cluster.counts("a") == ("8", "7")
    assert ("patch", "nodes/status", 200) not in cluster.api.requests_since(requests)
    assert cluster.events("a") == events
    cluster.say("clear all")
    cluster.tick(3)  # its counters begin again
    assert cluster.counts("a") == ("8", "8")
