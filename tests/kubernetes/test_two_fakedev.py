"""Two fakedev, one cluster: whoever leads, is killed, or comes back, each device is held once, and no pod moves.

A model of the API and of one kubelet; both mechanisms at once. Pods and claims ask for what somebody has already, as
schedulers and kubelets do that have not seen the last change. Records are lost with a killed process unless they were
sent; the kubelet's report may be older than what it has given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from fakedev.base.errors import Refused
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.offers import KubernetesSettings, Resources
from fakedev.kubernetes.cluster import Cluster
from fakedev.kubernetes.devices.dra import DRIVER, Claim, Result
from fakedev.kubernetes.devices.node_ledger import STARTING, ContainerIds, Grant, Mechanism, recorded_ids
from fakedev.kubernetes.nodes.node_view import Allocation
from fakedev.kubernetes.nodes.simulated_node import ClusterNode
from fakedev.kubernetes.pods import ClaimUse, Container, ContainerKind, Pod
from tests.kubernetes.objects import GPU, pool

COUNT = 4
FOUR = replace(pool("h100", COUNT), name="four", nodes=(), has_cluster_nodes=True)
#: After a reload: two boards more, so that the node is made anew; the first four are the same.
SIX = replace(FOUR, devices_per_node=6)
NODES = ("kwok", "kubelet")
NAMES = ("p0", "p1", "p2", "p3", "p4", "p5")
SETTINGS = KubernetesSettings(resources=Resources.BOTH)


class TwoFakedev(RuleBasedStateMachine):
    """The API, a kubelet, and the fakedev that leads."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, Pod] = {}
        self.claims: dict[str, Claim] = {}
        self.spec = FleetSpec((FOUR,))
        self.number = 0
        self.kept: dict[str, Any] = {}
        self.kubelet: dict[str, tuple[str, ...]] = {}  # UID to ids: what containers have by limits
        self.prepared: dict[str, frozenset[str]] = {}  # claim to ids: what containers have by claims
        self.listed: tuple[list[Allocation], list[str]] = ([], [])  # the last report, with what came after its list
        self.shown: dict[str, list[str]] = {}  # UID to the ids that pages have shown, and records have
        self.clusters = [self.made(), self.made()]
        self.lists()

    @property
    def leader(self) -> Cluster:
        """The one that writes."""
        return self.clusters[0]

    def made(self) -> Cluster:
        """A process that starts."""
        cluster = Cluster(SETTINGS, self.spec)
        cluster.pods.await_lists()
        return cluster

    def node(self, name: str) -> ClusterNode:
        """As the leader knows it."""
        found = self.leader.nodes.get(name)
        assert found is not None
        return found

    def lists(self, order: Sequence[int] = (0, 1, 2)) -> None:
        """The leader gets all lists, in some order, mixed with its turns."""
        annotations = {"kwok": {"kwok.x-k8s.io/node": "fake"}, "kubelet": {}}
        nodes = [
            {"metadata": {"name": name, "uid": name, "labels": {"fakedev/pool": "four"}, "annotations": noted}}
            for name, noted in annotations.items()
        ]
        pods = self.leader.pods
        steps: list[Iterable[None]] = [
            self.leader.list_nodes(nodes), pods.list_pods(list(self.pods.values())),
            pods.list_claims(list(self.claims.values())),
        ]  # fmt: skip
        for place in order:
            list(steps[place])
            self.leader.take_joined()
        self.prepare_claims()
        self.leader.pods.reported("kubelet", *self.listed)
        self.prepare_claims()

    def report(self) -> None:
        """The kubelet's whole list reaches the leader."""
        there = [pod for pod in self.pods.values() if pod.node == "kubelet" and not pod.is_over]
        self.kubelet = {uid: ids for uid, ids in self.kubelet.items() if uid in {pod.uid for pod in there}}
        found = [
            Allocation("ml", pod.name, "main", GPU, self.kubelet[pod.uid]) for pod in there if pod.uid in self.kubelet
        ]
        found += [Allocation("ml", name, "main", DRIVER, (), name, "kubelet") for name in self.prepared]
        self.listed = found, []
        self.leader.pods.reported("kubelet", *self.listed)
        assert STARTING not in {grant.holder for grant in self.node("kubelet").ledger}

    @rule()
    def prepare_claims(self) -> None:
        """The kubelet prepares all claims on its node for which the leader says that it may."""
        for name in self.claims:
            with suppress(Refused):
                devices = self.leader.pods.prepared("kubelet", "ml", name, name)
                self.prepared[name] = frozenset(device.id for device in devices)

    def changed(self, pod: Pod) -> None:
        """The API has a pod, and the leader hears of it."""
        self.pods[pod.name] = pod
        self.leader.pods.put(pod)

    # -- what happens ------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(NAMES), node=st.sampled_from(NODES), count=st.integers(0, 3), claims=st.booleans(),
        is_listed=st.booleans(),
    )  # fmt: skip
    def pod_is_bound(self, name: str, node: str, count: int, claims: bool, is_listed: bool) -> None:
        if name in self.pods or not (count or claims):
            return
        self.number += 1
        uses = (ClaimUse("c"),) if claims else ()
        main = Container("main", ContainerKind.MAIN, {GPU: count} if count else {}, uses)
        of_claim = {"c": name} if claims else {}
        pod = Pod("ml", name, f"uid-{self.number}", node, "Running", (main,), {}, {}, False, of_claim)
        if node == "kubelet" and count:
            # The kubelet chooses of what it has not given, and fails the pod when a claim has that.
            used = {each for ids in self.kubelet.values() for each in ids}
            ids = tuple(s.id for s in reversed(self.node(node).devices.slots) if s.id not in used)[:count]
            try:
                self.leader.pods.reserve(self.node(node), ids)
            except Refused:
                event("a pod is refused what a claim has")
                return
            if len(ids) < count:
                return
            self.kubelet[pod.uid] = ids
            self.listed[1].extend(ids)
        self.changed(pod)
        if is_listed:
            self.report()

    @rule(name=st.sampled_from(NAMES), node=st.sampled_from(NODES), places=st.sets(st.integers(0, 5), min_size=1))
    def claim_is_allocated(self, name: str, node: str, places: set[int]) -> None:
        """The scheduler gives a device to one claim only, and may not know yet what pods have."""
        devices = [f"gpu-{place}" for place in places if place < len(self.node(node).devices.boards)]
        taken = {(result.pool, result.device) for claim in self.claims.values() for result in claim.results}
        if name in self.claims or not devices or any((node, device) in taken for device in devices):
            return
        results = tuple(Result("r", DRIVER, node, device) for device in devices)
        users = frozenset(pod.uid for pod in self.pods.values() if pod.name == name)
        self.claims[name] = Claim("ml", name, results, users, name)
        self.leader.pods.put_claim(self.claims[name])

    @rule(name=st.sampled_from(NAMES))
    def claim_is_gone(self, name: str) -> None:
        if self.claims.pop(name, None) is not None:
            self.prepared.pop(name, None)
            self.leader.pods.remove_claim("ml", name)

    @rule(name=st.sampled_from(NAMES))
    def pod_is_gone(self, name: str) -> None:
        if self.pods.pop(name, None) is not None:
            self.leader.pods.remove("ml", name)
            self.report()

    @rule(name=st.sampled_from(NAMES))
    def pod_is_over(self, name: str) -> None:
        if name in self.pods:
            self.changed(replace(self.pods[name], phase="Succeeded"))
            self.report()

    @rule(most=st.integers(1, 3), is_answered=st.booleans())
    def records_are_written(self, most: int, is_answered: bool) -> None:
        """The API server has them; the answer may be lost, and the event may come late."""
        for pod, text in self.leader.pods.take_records(most):
            known = self.pods.get(pod.name)
            if known is not None and known.uid == pod.uid:
                self.pods[pod.name] = replace(known, devices=text)
                if is_answered:
                    self.leader.pods.put(self.pods[pod.name])
            self.leader.pods.recorded(pod, text, is_taken=is_answered)

    @rule(has_state=st.booleans(), order=st.permutations(range(3)))
    def leader_is_killed(self, has_state: bool, order: Sequence[int]) -> None:
        """It starts again; without a state it has what the API has."""
        event(f"killed, with a state: {has_state}")
        kept = dict(self.leader.pods.only_here)
        self.clusters[0] = self.made()
        if has_state:
            self.leader.nodes.remembered |= kept
        self.forget_unrecorded(kept if has_state else {})
        self.lists(order)

    @rule(is_killed=st.booleans(), order=st.permutations(range(3)))
    def other_takes_over(self, is_killed: bool, order: Sequence[int]) -> None:
        """The other one has slept since it led, or was never the leader."""
        event(f"taken over, killed: {is_killed}")
        if is_killed:
            self.clusters[0] = self.made()
        else:
            self.leader.pods.await_lists()
        self.clusters.reverse()
        self.leader.use(self.spec)
        self.forget_unrecorded()
        self.lists(order)

    @rule(order=st.permutations(range(3)))
    def api_comes_back(self, order: Sequence[int]) -> None:
        """The lease was kept: there are new lists only."""
        self.lists(order)

    @rule()
    def pools_are_reloaded(self) -> None:
        self.spec = FleetSpec((SIX if self.spec.pools[0] is FOUR else FOUR,))
        self.leader.use(self.spec)
        self.leader.take_joined()
        # A pod of a board that is gone gets another one.
        stay = {slot.id for slot in self.node("kwok").devices.slots[:COUNT]}
        self.shown = {uid: ids for uid, ids in self.shown.items() if stay.issuperset(ids)}
        self.kubelet.clear()  # as after a restart with other devices
        self.prepared.clear()
        self.report()

    def forget_unrecorded(self, kept: Mapping[str, ContainerIds] = MappingProxyType({})) -> None:
        """Only what the API has is known to the next one, and of other pods what its state has kept."""
        recorded = {pod.uid: recorded_ids(pod.devices) or kept.get(pod.uid, {}) for pod in self.pods.values()}
        self.shown = {uid: ids for uid, ids in self.shown.items() if recorded.get(uid, {}).get("main") == ids}

    # -- what always holds -------------------------------------------------------------------------

    @invariant()
    def each_device_is_held_once(self) -> None:
        for name in NODES:
            grants = list(self.node(name).ledger)
            by_board: dict[int, list[Grant]] = {}
            for grant in grants:
                by_board.setdefault(grant.slot.index, []).append(grant)
            for board in by_board.values():
                assert len({grant.holder for grant in board} - {STARTING}) <= 1, board
                assert len({grant.by for grant in board}) == 1, board
        event(f"most held at once: {max(len(list(self.node(name).ledger)) for name in NODES)}")

    @invariant()
    def no_two_containers_have_a_board(self) -> None:
        """Whatever is known of it: this is what programs in containers see."""
        had = [*self.kubelet.values(), *self.prepared.values()]
        assert max(Counter(each_id for ids in had for each_id in ids).values(), default=0) <= 1, had

    @invariant()
    def no_pod_moves(self) -> None:
        node = self.node("kwok")
        for pod in self.pods.values():
            ids = node.ledger.ids_of(pod.uid).get("main")
            if pod.node == "kwok" and not pod.is_over and ids:
                assert self.shown.setdefault(pod.uid, ids) == ids, pod
            elif not pod.is_over:
                assert pod.uid not in self.shown, "its devices are gone"

    @invariant()
    def nothing_leaks(self) -> None:
        uids = {pod.uid for pod in self.pods.values() if not pod.is_over}
        holders = uids | {claim.holder for claim in self.claims.values()}
        for name in NODES:
            node = self.node(name)
            assert {grant.holder for grant in node.ledger} <= holders | {STARTING}
            boards = len(node.devices.boards)
            held = Counter(grant.by for grant in node.ledger)
            plugin = [slot for slot in node.view().resources[GPU] if not slot.unhealthy]
            assert len(plugin) == boards - held[Mechanism.CLAIM], "the plugin offers what no claim has"
            if name == "kwok":
                devices = [each for piece in node.slices() or () for each in piece["spec"]["devices"]]
                free = [device for device in devices if not device.get("taints")]
                assert len(free) == boards - held[Mechanism.DEVICE_PLUGIN], "DRA offers what no pod has"

    @invariant()
    def who_waits_waits_for_something(self) -> None:
        """Nobody lacks what is free."""
        node = self.node("kwok")
        boards = len(node.devices.boards) - len({grant.slot.index for grant in node.ledger})
        for pod in self.pods.values():
            wants = pod.containers[0].wants.get(GPU, 0)
            if pod.node == "kwok" and not pod.is_over and wants:
                assert node.ledger.slots_of(pod.uid) or boards < wants
        for claim in self.claims.values():
            for name in NODES:
                on = self.node(name)
                slots = [on.dra_slots[device] for device in claim.devices_on(name) if device in on.dra_slots]
                others = [on.ledger.holder_of(slot, Mechanism.CLAIM, claim.holder) for slot in slots]
                holders = {grant.holder for grant in on.ledger}
                assert not slots or claim.holder in holders or any(others)


@pytest.mark.slow
@pytest.mark.hypothesis
def test_two_fakedev() -> None:
    run_state_machine_as_test(TwoFakedev)


def test_a_pod_stays_where_the_first_of_two_reloads_has_put_it() -> None:
    """Its annotation still names the boards that it had before; they are there again."""
    machine = TwoFakedev()
    machine.pools_are_reloaded()
    machine.pod_is_bound("p0", "kwok", 3, claims=False, is_listed=False)
    machine.pod_is_bound("p1", "kwok", 3, claims=False, is_listed=False)
    machine.records_are_written(2, is_answered=True)
    machine.pod_is_gone("p0")
    machine.pools_are_reloaded()
    machine.no_pod_moves()
    assert machine.shown["uid-2"] != list(recorded_ids(machine.pods["p1"].devices)["main"])
    machine.pools_are_reloaded()
    machine.no_pod_moves()
