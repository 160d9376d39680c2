"""The reconciliation of a cluster, against a plain model: whatever order things come in, the end is the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.events import Where
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.offers import KubernetesSettings, Resources
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.kubernetes.cluster import Cluster
from fakedev.kubernetes.devices.dra import DRIVER, Claim, Result, dra_devices
from fakedev.kubernetes.devices.health import NodeHealth
from fakedev.kubernetes.devices.node_ledger import Mechanism
from fakedev.kubernetes.nodes.node_view import Allocation
from fakedev.kubernetes.pods import ClaimUse, Container, ContainerKind, Pod
from fakedev.kubernetes.workloads.pod_record import WorkKey
from tests.kubernetes.objects import GPU, free_count, pool

NODES = ("n0", "n1")
PODS = ("p0", "p1", "p2", "p3", "p4")
LABEL = "fakedev/pool"
SPEC = FleetSpec(
    (
        replace(pool("h100", 4), name="four", nodes=(), has_cluster_nodes=True),
        replace(pool("t4", 2), name="two", nodes=(), has_cluster_nodes=True),
    )
)
COUNTS = {"four": 4, "two": 2}
SETTINGS = KubernetesSettings(resources=Resources.BOTH)

_names = st.sampled_from(PODS)
_nodes = st.sampled_from(NODES)
_phases = st.sampled_from(("Pending", "Running", "Running", "Succeeded"))
_pod = st.tuples(st.just("pod"), _names, _nodes, st.integers(1, 3), _phases, st.booleans())
#: What happens at the API; what is missed is seen only in the next list, as when a watch has ended.
_happenings = st.one_of(
    st.tuples(st.just("node"), _nodes, st.sampled_from(("four", "four", "two", "unknown", ""))),
    st.tuples(st.just("node_gone"), _nodes),
    _pod,
    st.tuples(st.just("phase"), _names, _phases),
    st.tuples(st.just("pod_gone"), _names),
    st.tuples(st.just("claim"), _names, st.integers(0, 3)),
    st.tuples(st.just("claim_gone"), _names),
    st.tuples(st.just("health"), _nodes, st.sets(st.integers(0, 3), max_size=2)),
    st.tuples(st.just("ended"), _names, st.integers(0, 1)),
    st.tuples(st.just("tick")),
    st.tuples(st.just("lists")),
    st.tuples(st.just("watch_ends")),
)
#: Pods, then some of all.
_histories = st.builds(
    list.__add__, st.lists(_pod, min_size=4, max_size=8), st.lists(_happenings, min_size=8, max_size=30)
)


class Api:
    """The objects of the cluster, with what follows them: a fleet that has the nodes of the last tick."""

    def __init__(self) -> None:
        self.cluster = Cluster(SETTINGS, SPEC)
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, Pod] = {}
        self.claims: dict[str, Claim] = {}
        self.is_watched = True
        self.fleet: dict[str, Where] = {}
        self.running: dict[WorkKey, WorkloadSpec] = {}
        self._version = 0
        for name in NODES:
            self.node(name, "four")
        self.tick()

    # -- what happens -----------------------------------------------------------------------------

    def node(self, name: str, label: str) -> None:
        """A node is new, or has another label."""
        self._version += 1
        uid = self.nodes[name]["metadata"]["uid"] if name in self.nodes else f"uid-{self._version}"
        annotations = {"kwok.x-k8s.io/node": "fake"}
        metadata = {"name": name, "uid": uid, "resourceVersion": str(self._version), "annotations": annotations}
        self.nodes[name] = {"metadata": {**metadata, "labels": {LABEL: label} if label else {}}}
        if self.is_watched:
            self.cluster.node_changed(self.nodes[name])

    def node_gone(self, name: str) -> None:
        """A node is deleted."""
        if self.nodes.pop(name, None) is not None and self.is_watched:
            self.cluster.node_deleted(name)

    def pod(self, name: str, node: str, count: int, phase: str, claims: bool) -> None:
        """A pod is bound, or another one of its name."""
        self._version += 1
        uses = (ClaimUse("c"),) if claims else ()
        container = Container("main", ContainerKind.MAIN, {GPU: count}, uses)
        of_claim = {"c": name} if claims else {}
        started = f"2026-11-22T10:{self._version // 60:02}:{self._version % 60:02}Z"
        made = Pod("ml", name, f"uid-{self._version}", node, phase, (container,), {}, {}, False, of_claim, started)
        self._changed(made)

    def phase(self, name: str, phase: str) -> None:
        """A pod runs, or is over; what is over stays so."""
        if name in self.pods and not self.pods[name].is_over:
            self._changed(replace(self.pods[name], phase=phase))

    def _changed(self, pod: Pod) -> None:
        self.pods[pod.name] = pod
        if self.is_watched:
            self.cluster.pods.put(pod)

    def pod_gone(self, name: str) -> None:
        """A pod is deleted."""
        if self.pods.pop(name, None) is not None and self.is_watched:
            self.cluster.pods.remove("ml", name)

    def claim(self, name: str, place: int) -> None:
        """A device of the pod's node is allocated to its claim."""
        known = self.pods.get(name)
        node = None if known is None else self.cluster.nodes.get(known.node)
        if known is not None and node is not None and place < len(node.devices.boards):
            device = dra_devices(node.devices)[place].name
            result = Result("gpu", DRIVER, known.node, device)
            self.claims[name] = Claim("ml", name, (result,), frozenset((known.uid,)))
            if self.is_watched:
                self.cluster.pods.put_claim(self.claims[name])

    def claim_gone(self, name: str) -> None:
        """A claim is deleted."""
        if self.claims.pop(name, None) is not None and self.is_watched:
            self.cluster.pods.remove_claim("ml", name)

    def health(self, name: str, places: set[int]) -> None:
        """Some devices of a node are unhealthy, and the others are not."""
        node = self.cluster.nodes.get(name)
        if node is not None:
            unhealthy = {slot.device_id: "XID 79" for slot in node.devices.slots if slot.index in places}
            self.cluster.health_changed(name, NodeHealth(unhealthy))

    def ended(self, name: str, code: int) -> None:
        """Some work of a pod ends by itself."""
        for key in [key for key in self.running if key[1] == name][:1]:
            del self.running[key]
            self.cluster.pods.ended(key, code)

    def tick(self) -> None:
        """The fleet has the nodes that it was to have; work is passed on before and after."""
        self._turn()
        nodes = self.cluster.nodes
        self.fleet = dict(nodes.pools_of_nodes)
        nodes.join_again([name for name in nodes.replaced if name not in self.fleet])
        self._turn()

    def lists(self) -> None:
        """Watches begin anew, with lists."""
        self.is_watched = True
        pods = self.cluster.pods
        for steps in (
            self.cluster.list_nodes(self.nodes.values()), pods.list_pods(reversed(self.pods.values())),
            pods.list_claims(self.claims.values()),
        ):  # fmt: skip
            list(steps)

    def watch_ends(self) -> None:
        """What happens now is seen in the next list."""
        self.is_watched = False

    # -- what follows -----------------------------------------------------------------------------

    def _turn(self) -> None:
        self.cluster.take_joined()
        while True:
            for change in self.cluster.pods.take_work(lambda node, where: self.fleet.get(node) == where, 3):
                if change.spec is None:
                    self.running.pop(change.key, None)
                else:
                    assert change.key not in self.running, "begun twice"
                    self.running[change.key] = change.spec
            if not self.cluster.pods.has_more_work:
                return

    def settle(self) -> None:
        """All is known, and passed on."""
        self.lists()
        self.tick()
        self.tick()

    @property
    def simulated(self) -> dict[str, Where]:
        """The nodes that are to be simulated, by the model."""
        labels = {name: item["metadata"]["labels"].get(LABEL, "") for name, item in self.nodes.items()}
        return {name: (label, ()) for name, label in labels.items() if label in COUNTS}

    def wants(self, node: str) -> list[Pod]:
        """The pods of a node that want devices now."""
        return [pod for pod in self.pods.values() if pod.node == node and not pod.is_over]


def slots_of(api: Api, pod: Pod) -> list[str]:
    """The ids of the devices that a node gave to a pod."""
    node = api.cluster.nodes.get(pod.node)
    assert node is not None
    return [slot.id for slots in node.ledger.slots_of(pod.uid).values() for slot in slots]


@given(_histories)
def test_the_end_is_that_of_the_final_objects(happenings: list[tuple[Any, ...]]) -> None:
    api = Api()
    for word, *arguments in happenings:
        getattr(api, word)(*arguments)
    api.settle()
    assert dict(api.cluster.nodes.pools_of_nodes) == api.simulated == api.fleet
    assert set(api.cluster.nodes.problems) == {
        name for name, item in api.nodes.items() if item["metadata"]["labels"].get(LABEL) == "unknown"
    }
    for name, (of_pool, _) in api.simulated.items():
        check_devices(api, name, COUNTS[of_pool])
    there = {pod.name for pod in api.pods.values() if not pod.is_over and pod.node in api.simulated}
    assert {key[1] for key in api.running} <= there


def claimed_count(api: Api, name: str) -> int:
    """The number of a node's devices that claims have."""
    node = api.cluster.nodes.get(name)
    assert node is not None
    return len({grant.slot.device_id for grant in node.ledger if grant.by is Mechanism.CLAIM})


def check_devices(api: Api, name: str, count: int) -> None:
    """No device of a node is given twice; a pod has all that it wants, or there is too little for it."""
    node = api.cluster.nodes.get(name)
    assert node is not None
    given = {pod.name: slots_of(api, pod) for pod in api.wants(name)}
    every = [each for ids in given.values() for each in ids]
    assert len(every) == len(set(every))
    claimed = claimed_count(api, name)
    assert free_count(node.ledger) == count - len(every) - claimed, "devices of pods that are gone"
    for pod in api.wants(name):
        wanted = pod.containers[0].wants[GPU]
        unhealthy = () if pod.phase == "Running" else node.health.unhealthy.keys()
        assert len(given[pod.name]) == wanted or free_count(node.ledger, unhealthy) < wanted
    if sum(pod.containers[0].wants[GPU] for pod in api.wants(name)) <= count - claimed:
        assert all(given[pod.name] for pod in api.wants(name) if pod.phase == "Running")


@given(_histories)
def test_a_fakedev_that_begins_then_does_the_same(happenings: list[tuple[Any, ...]]) -> None:
    """Where nobody lacks devices, which are all well and where no work has ended: the same pieces of work."""
    api = Api()
    for word, *arguments in happenings:
        if word not in ("health", "ended"):
            getattr(api, word)(*arguments)
    api.settle()
    fresh = Api()
    fresh.nodes, fresh.pods, fresh.claims = api.nodes, api.pods, api.claims
    fresh.settle()
    assert fresh.fleet == api.fleet
    for name, (of_pool, _) in api.simulated.items():
        claimed = max(claimed_count(each, name) for each in (api, fresh))
        if sum(pod.containers[0].wants[GPU] for pod in api.wants(name)) <= COUNTS[of_pool] - claimed:
            sizes = [
                {pod.name: len(slots_of(each, pod)) for pod in each.wants(name)} for each in (api, fresh)
            ]
            assert sizes[0] == sizes[1]
            loads = [
                {spec.pod: spec.activities for spec in each.running.values() if spec.node == name}
                for each in (api, fresh)
            ]
            assert loads[0] == loads[1]


@given(_histories)
def test_a_list_of_what_is_known_changes_nothing(happenings: list[tuple[Any, ...]]) -> None:
    api = Api()
    for word, *arguments in happenings:
        getattr(api, word)(*arguments)
    api.settle()
    before = dict(api.running)
    api.cluster.take_reports()
    api.settle()
    assert api.running == before
    assert api.cluster.take_reports() == []


def test_an_event_that_an_answer_has_overtaken() -> None:
    """The answer to a patch may come before the event of an earlier change: what is known does not go back."""
    api = Api()
    earlier = api.nodes["n0"]
    api.node("n0", "two")
    api.cluster.node_changed(earlier)
    assert api.cluster.nodes.pools_of_nodes["n0"] == ("two", ())
    list(api.cluster.list_nodes([earlier, api.nodes["n1"]]))  # a list is as the server has it now
    assert api.cluster.nodes.pools_of_nodes["n0"] == ("four", ())


def test_a_node_that_was_made_again() -> None:
    """Another node of the same name has its own labels and Events, and its pods have devices there."""
    api = Api()
    api.pod("p0", "n0", 2, "Running", False)
    api.tick()
    del api.nodes["n0"]
    api.node("n0", "four")
    assert api.cluster.take_joined() == ["n0"]
    node = api.cluster.nodes.get("n0")
    assert node is not None
    assert node.uid == api.nodes["n0"]["metadata"]["uid"]
    assert len(slots_of(api, api.pods["p0"])) == 2


def with_a_pod(**fields: Any) -> tuple[Cluster, Pod]:
    """A cluster with a node that has a kubelet, and a pod on it."""
    cluster = Cluster(SETTINGS, SPEC)
    cluster.node_changed({"metadata": {"name": "n0", "uid": "u", "labels": {LABEL: "four"}}})
    containers = (Container("main", ContainerKind.MAIN, {GPU: 3}, fields.pop("uses", ())),)
    pod = Pod("ml", "p0", "uid", "n0", "Running", containers, {}, {}, **fields)
    cluster.pods.put(pod)
    return cluster, pod


def test_slices_wait_for_the_driver() -> None:
    """Without it pods would be bound and hang; those that are there stay until the kubelet deletes them."""
    cluster, _ = with_a_pod()
    cluster.take_joined()
    assert cluster.take_slices(10) == [("n0", None)]
    cluster.nodes.registered("n0", ["gpu.nvidia.com"])
    ((_, slices),) = cluster.take_slices(10)
    assert slices
    cluster.nodes.registered("n0", ())
    assert cluster.take_slices(10) == [("n0", None)]


def test_nodes_of_another_fakedev() -> None:
    """A pool that we do not have is a mistake, unless another fakedev simulates the node."""
    cluster = Cluster(SETTINGS, SPEC)
    for name, noted in (("mine", {}), ("of-another", {"fakedev/wrote": '{"labels":{"a":"b"}}'})):
        metadata = {"name": name, "labels": {LABEL: "fuor", "a": "b"}, "annotations": noted}
        cluster.node_changed({"metadata": metadata})
    assert [take_report.name for take_report in cluster.take_reports()] == ["mine"]


def test_an_untouched_pod_works_on() -> None:
    """A kubelet that lists the devices of a pod in another order, or one twice, changes nothing of its work."""
    cluster, _ = with_a_pod()
    (node,) = cluster.nodes
    ids = [slot.id for slot in node.devices.slots]
    found = []
    for order in ((3, 0, 2), (0, 2, 3), (2, 3, 0, 2)):
        cluster.pods.reported("n0", [Allocation("ml", "p0", "main", GPU, tuple(ids[place] for place in order))])
        found.append(cluster.pods.take_work(lambda *_: True, 10))
    assert [change.spec.devices for change in found[0] if change.spec] == [("n0/0", "n0/2", "n0/3")]
    assert found[1:] == [[], []]


def test_work_that_is_refused_or_over() -> None:
    """What the fleet refuses is reported once, and begins when it is tried again; what is over idles."""
    cluster, pod = with_a_pod()
    (node,) = cluster.nodes
    cluster.pods.reported("n0", [Allocation("ml", "p0", "main", GPU, (node.devices.slots[0].id,))])
    key = ("ml", "p0", "main")
    for _ in range(2):
        assert [change.key for change in cluster.pods.take_work(lambda *_: True, 10)] == [key]
        cluster.pods.refused(key, "no room")
        cluster.pods.again("ml", "p0")
    assert [(take_report.reason, take_report.message) for take_report in cluster.take_reports()] == [
        ("NotSimulated", "container main: no room")
    ]
    cluster.pods.take_work(lambda *_: True, 10)
    assert cluster.pods.ended(key, 0) == 0.0
    ((_, idle),) = [(each.key, each.spec) for each in cluster.pods.take_work(lambda *_: True, 10)]
    assert idle is not None
    assert idle.activities.highest == 0.0
    cluster.pods.put(replace(pod, labels={"a": "b"}))  # it may say something else now
    begins = [each.spec for each in cluster.pods.take_work(lambda *_: True, 10) if each.spec is not None]
    assert [spec.activities.highest > 0 for spec in begins] == [True]


def test_a_claim_that_a_list_does_not_have() -> None:
    """It was deleted while nobody watched: its pod has its device no more."""
    cluster, pod = with_a_pod(uses=(ClaimUse("c"),), claims={"c": "claim"})
    (node,) = cluster.nodes
    result = Result("gpu", DRIVER, "n0", dra_devices(node.devices)[2].name)
    cluster.pods.put_claim(Claim("ml", "claim", (result,), frozenset((pod.uid,))))
    assert [each.spec.devices for each in cluster.pods.take_work(lambda *_: True, 10) if each.spec] == [("n0/2",)]
    list(cluster.pods.list_claims([]))
    assert [each.spec for each in cluster.pods.take_work(lambda *_: True, 10)] == [None]
