"""Which container has which device: nothing twice, all or nothing, everything back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.kube.allocation import NodeAllocation, NotEnough, PodSlots
from fakedev.kube.pods import Container, ContainerKind, Pod
from fakedev.spec.kubernetes import MigStrategy
from tests.kube.objects import GPU, container, init, node, pod, sidecar

PLAIN = node("h100")
MIXED = node("a100", 2, "3g.20gb", "1g.5gb", "1g.5gb", strategy=MigStrategy.MIXED)
SHARED = node("t4", 2, replicas=3)


def indices(slots: PodSlots) -> dict[str, list[int]]:
    """The boards of each container."""
    return {name: [slot.index for slot in found] for name, found in slots.items()}


class TestContainers:
    """The containers of one pod."""

    def test_apart(self) -> None:
        """Several containers have different devices; one that wants none has none."""
        found = NodeAllocation(PLAIN).admit(pod(container("a", 2), container("b", 1), container("log", 0)), ())
        assert indices(found) == {"a": [0, 1], "b": [2]}

    def test_init_containers_lend(self) -> None:
        """Their devices are used again by later ones, and by the main containers."""
        found = NodeAllocation(PLAIN).admit(pod(init("load", 2), init("check", 3), container("main", 4)), ())
        assert indices(found) == {"load": [0, 1], "check": [0, 1, 2], "main": [0, 1, 2, 3]}

    def test_init_container_has_more(self) -> None:
        """The main containers share what it had."""
        found = NodeAllocation(PLAIN).admit(pod(init("load", 3), container("a", 1), container("b", 1)), ())
        assert indices(found) == {"load": [0, 1, 2], "a": [0], "b": [1]}

    def test_sidecars_keep(self) -> None:
        """What a sidecar has is used by nobody else, also if an init container had it before."""
        found = NodeAllocation(PLAIN).admit(
            pod(init("load", 2), sidecar("proxy", 1), init("check", 2), container("main", 2)), ()
        )
        assert indices(found) == {"load": [0, 1], "proxy": [0], "check": [1, 2], "main": [1, 2]}

    def test_instances(self) -> None:
        """Profiles are resources of their own."""
        wants = {"nvidia.com/mig-1g.5gb": 1, "nvidia.com/mig-3g.20gb": 1}
        found = NodeAllocation(MIXED).admit(pod(Container("main", ContainerKind.MAIN, wants)), ())
        assert {slot.resource for slot in found["main"]} == set(wants)

    def test_replicas(self) -> None:
        """Pods share boards, the least shared first."""
        allocation = NodeAllocation(SHARED)
        boards = [indices(allocation.admit(pod(name=str(number)), ()))["main"] for number in range(6)]
        assert boards == [[0], [1], [0], [1], [0], [1]]

    def test_resources_of_others(self) -> None:
        """Those of other domains are left to others."""
        wants = {GPU: 1, "rdma/hca": 4}
        found = NodeAllocation(PLAIN).admit(pod(Container("main", ContainerKind.MAIN, wants)), ())
        assert indices(found) == {"main": [0]}


class TestRefusal:
    """A node that has not enough."""

    def test_words(self) -> None:
        """Container, resource and both numbers are told; the pod has nothing."""
        allocation = NodeAllocation(PLAIN)
        with pytest.raises(NotEnough) as caught:
            allocation.admit(pod(container("a", 6), container("b", 3)), ())
        assert str(caught.value) == "container b wants 3 of nvidia.com/gpu, and node dgx-0 has 2 free and healthy"
        assert allocation.free_count(GPU) == 8
        assert not allocation.slots_of("uid-train")

    def test_unhealthy(self) -> None:
        """Unhealthy devices are not given."""
        allocation = NodeAllocation(PLAIN)
        unhealthy = {slot.device_id: "XID 79" for slot in PLAIN.slots[:2]}
        assert indices(allocation.admit(pod(container("a", 6)), unhealthy)) == {"a": [2, 3, 4, 5, 6, 7]}
        with pytest.raises(NotEnough, match="has 0 free"):
            allocation.admit(pod(name="other"), unhealthy)

    def test_unhealthy_replicas(self) -> None:
        """A device is unhealthy with all its replicas."""
        allocation = NodeAllocation(SHARED)
        assert allocation.free_count(GPU, {SHARED.slots[0].device_id}) == 3

    def test_missing_resource(self) -> None:
        """A GPU on a node that has only instances."""
        with pytest.raises(NotEnough, match=r"wants 1 of nvidia\.com/gpu, and node dgx-0 has 0"):
            NodeAllocation(MIXED).admit(pod(), ())


class TestAdopted:
    """What a kubelet or a claim says."""

    def test_replaces(self) -> None:
        """It counts in place of what was known."""
        allocation = NodeAllocation(PLAIN)
        allocation.admit(pod(), ())
        assert allocation.adopt("uid-train", {"main": [PLAIN.slots[5].id]}) == ()
        assert indices(allocation.slots_of("uid-train")) == {"main": [5]}
        assert allocation.free_count(GPU) == 7
        assert indices(allocation.admit(pod(), ())) == {"main": [5]}, "the pod is known"

    def test_unknown_ids(self) -> None:
        """Ids that the node does not have are told."""
        allocation = NodeAllocation(PLAIN)
        assert allocation.adopt("u", {"main": ["GPU-other", PLAIN.slots[0].id]}) == ("GPU-other",)
        assert indices(allocation.slots_of("u")) == {"main": [0]}

    def test_device_of_replicas(self) -> None:
        """The id of a shared device, as a claim names it, takes all its replicas."""
        allocation = NodeAllocation(SHARED)
        allocation.adopt("u", {"main": [SHARED.slots[0].device_id]})
        assert allocation.free_count(GPU) == 3

    def test_shared_claim(self) -> None:
        """Two pods may have one device by a claim; it is free when both are gone."""
        allocation, one = NodeAllocation(PLAIN), PLAIN.slots[0].id
        allocation.adopt("u", {"main": [one]})
        allocation.adopt("v", {"main": [one]})
        assert allocation.pods_on([one]) == ["u", "v"]
        allocation.release("u")
        assert allocation.free_count(GPU) == 7
        allocation.release("v")
        assert allocation.free_count(GPU) == 8
        assert not allocation.uids


COUNTS = st.integers(0, 4)
CONTAINERS = st.lists(st.tuples(st.sampled_from(ContainerKind), COUNTS), min_size=1, max_size=5)


def made(number: int, spec: list[tuple[ContainerKind, int]]) -> Pod:
    """A pod with such containers: init containers and sidecars first."""
    ordered = sorted(spec, key=lambda each: each[0] is ContainerKind.MAIN)
    return pod(*(container(f"c{place}", count, kind) for place, (kind, count) in enumerate(ordered)), name=str(number))


@given(st.lists(CONTAINERS, max_size=6), st.sets(st.integers(0, 7), max_size=4), st.sets(st.integers(0, 5)))
def test_what_always_holds(specs: list[list[tuple[ContainerKind, int]]], sick: set[int], leaving: set[int]) -> None:
    """No slot is given to two pods, or to two containers that run at once; each container has what it wants."""
    unhealthy = {PLAIN.slots[index].device_id for index in sick}
    allocation, again = NodeAllocation(PLAIN), NodeAllocation(PLAIN)
    for number, spec in enumerate(specs):
        one = made(number, spec)
        before = allocation.free_count(GPU, unhealthy)
        try:
            given_slots = allocation.admit(one, unhealthy)
        except NotEnough as refusal:
            assert refusal.free < refusal.wanted
            assert allocation.free_count(GPU, unhealthy) == before
            with pytest.raises(NotEnough):
                again.admit(one, unhealthy)
            continue
        assert given_slots == again.admit(one, unhealthy), "the same pods have the same devices"
        for each in one.containers:
            own = given_slots.get(each.name, ())
            assert len({slot.id for slot in own}) == len(own) == each.wants.get(GPU, 0)
            assert not unhealthy & {slot.device_id for slot in own}
        check_apart(one, given_slots)
        if number in leaving:
            for each_allocation in (allocation, again):
                each_allocation.release(one.uid)
            assert allocation.free_count(GPU, unhealthy) == before
    held = [{slot.id for slots in allocation.slots_of(uid).values() for slot in slots} for uid in allocation.uids]
    assert len(set().union(*held)) == sum(map(len, held))
    for uid in list(allocation.uids):
        allocation.release(uid)
    assert allocation.free_count(GPU) == 8


def check_apart(one: Pod, given_slots: PodSlots) -> None:
    """Sidecars and main containers run together: none of their devices is another's; nor a later init container's."""
    running: set[str] = set()
    for each in one.containers:
        own = {slot.id for slot in given_slots.get(each.name, ())}
        assert not own & running
        if each.kind is not ContainerKind.INIT:
            running |= own
