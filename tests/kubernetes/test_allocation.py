"""Which container has which device: nothing twice, all or nothing, everything back; and which free ones it gets."""

from __future__ import annotations

import time
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.spec.offers import MigStrategy
from fakedev.kubernetes.allocation import NodeAllocation, NotEnough, PodSlots, preferred, scores
from fakedev.kubernetes.offered_devices import NodeDevices, Slot
from fakedev.kubernetes.pods import Container, ContainerKind, Pod
from tests.kubernetes.objects import GPU, container, free_count, init, node, pod, sidecar

PLAIN = node("h100")
MIXED = node("a100", 2, "3g.20gb", "1g.5gb", "1g.5gb", strategy=MigStrategy.MIXED)
SHARED = node("t4", 2, replicas=3)


def indices(slots: PodSlots) -> dict[str, list[int]]:
    """The boards of each container."""
    return {name: [slot.index for slot in found] for name, found in slots.items()}


class TestContainers:
    def test_apart(self) -> None:
        found = NodeAllocation(PLAIN).admit(pod(container("a", 2), container("b", 1), container("log", 0)), ())
        assert indices(found) == {"a": [0, 1], "b": [2]}

    def test_init_containers_lend(self) -> None:
        found = NodeAllocation(PLAIN).admit(pod(init("load", 2), init("check", 3), container("main", 4)), ())
        assert indices(found) == {"load": [0, 1], "check": [0, 1, 2], "main": [0, 1, 2, 3]}

    def test_init_container_has_more(self) -> None:
        found = NodeAllocation(PLAIN).admit(pod(init("load", 3), container("a", 1), container("b", 1)), ())
        assert indices(found) == {"load": [0, 1, 2], "a": [0], "b": [1]}

    def test_sidecars_keep(self) -> None:
        """What a sidecar has is used by nobody else, also if an init container had it before."""
        found = NodeAllocation(PLAIN).admit(
            pod(init("load", 2), sidecar("proxy", 1), init("check", 2), container("main", 2)), ()
        )
        assert indices(found) == {"load": [0, 1], "proxy": [0], "check": [1, 2], "main": [1, 2]}

    def test_instances(self) -> None:
        wants = {"nvidia.com/mig-1g.5gb": 1, "nvidia.com/mig-3g.20gb": 1}
        found = NodeAllocation(MIXED).admit(pod(Container("main", ContainerKind.MAIN, wants)), ())
        assert {slot.resource for slot in found["main"]} == set(wants)

    def test_replicas(self) -> None:
        allocation = NodeAllocation(SHARED)
        boards = [indices(allocation.admit(pod(name=str(number)), ()))["main"] for number in range(6)]
        assert boards == [[0], [1], [0], [1], [0], [1]]

    @pytest.mark.parametrize(
        ("device", "resource", "other"),
        [
            ("h100", GPU, "rdma/hca"),
            ("h100", GPU, "nvidia.com/hostdev"),
            ("h100", GPU, "nvidia.com/gpumem"),
            ("mi300x", "amd.com/gpu", "amd.com/nic"),
            ("max-1550", "gpu.intel.com/xe", "gpu.intel.com/millicores"),
        ],
    )
    def test_resources_of_others(self, device: str, resource: str, other: str) -> None:
        wants = {other: 4, resource: 1}
        found = NodeAllocation(node(device)).admit(pod(Container("main", ContainerKind.MAIN, wants)), ())
        assert indices(found) == {"main": [0]}


class TestRefusal:
    def test_words(self) -> None:
        allocation = NodeAllocation(PLAIN)
        with pytest.raises(NotEnough) as caught:
            allocation.admit(pod(container("a", 6), container("b", 3)), ())
        assert str(caught.value) == "container b wants 3 of nvidia.com/gpu, and node dgx-0 has 2 free and healthy"
        assert free_count(allocation) == 8
        assert not allocation.slots_of("uid-train")

    def test_unhealthy(self) -> None:
        allocation = NodeAllocation(PLAIN)
        unhealthy = {slot.device_id: "XID 79" for slot in PLAIN.slots[:2]}
        assert indices(allocation.admit(pod(container("a", 6)), unhealthy)) == {"a": [2, 3, 4, 5, 6, 7]}
        with pytest.raises(NotEnough, match="has 0 free"):
            allocation.admit(pod(name="other"), unhealthy)

    def test_unhealthy_replicas(self) -> None:
        allocation = NodeAllocation(SHARED)
        assert free_count(allocation, {SHARED.slots[0].device_id}) == 3

    def test_missing_resource(self) -> None:
        with pytest.raises(NotEnough, match=r"wants 1 of nvidia\.com/gpu, and node dgx-0 has 0"):
            NodeAllocation(MIXED).admit(pod(), ())

    @pytest.mark.parametrize("resource", ["nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"])
    def test_other_gpus(self, resource: str) -> None:
        with pytest.raises(NotEnough, match=resource):
            NodeAllocation(PLAIN).admit(pod(container("main", 1, resource=resource)), ())


class TestAdopted:
    def test_replaces(self) -> None:
        allocation = NodeAllocation(PLAIN)
        allocation.admit(pod(), ())
        assert allocation.adopt("uid-train", {"main": [PLAIN.slots[5].id]}) == ()
        assert indices(allocation.slots_of("uid-train")) == {"main": [5]}
        assert free_count(allocation) == 7
        assert indices(allocation.admit(pod(), ())) == {"main": [5]}, "the pod is known"

    def test_any_order(self) -> None:
        """Slots are in the order of boards, each once, however the kubelet lists them: so the work stays the same."""
        allocation = NodeAllocation(PLAIN)
        ids = [PLAIN.slots[index].id for index in (6, 1, 3, 1)]
        allocation.adopt("u", {"main": ids})
        assert indices(allocation.slots_of("u")) == {"main": [1, 3, 6]}

    def test_unknown_ids(self) -> None:
        allocation = NodeAllocation(PLAIN)
        assert allocation.adopt("u", {"main": ["GPU-other", PLAIN.slots[0].id]}) == ("GPU-other",)
        assert indices(allocation.slots_of("u")) == {"main": [0]}

    def test_device_of_replicas(self) -> None:
        """The id of a shared device, as a claim names it, takes all its replicas."""
        allocation = NodeAllocation(SHARED)
        allocation.adopt("u", {"main": [SHARED.slots[0].device_id]})
        assert free_count(allocation) == 3

    def test_shared_claim(self) -> None:
        allocation, one = NodeAllocation(PLAIN), PLAIN.slots[0].id
        allocation.adopt("u", {"main": [one]})
        allocation.adopt("v", {"main": [one]})
        assert free_count(allocation) == 7
        allocation.release("u")
        assert free_count(allocation) == 7
        allocation.release("v")
        assert free_count(allocation) == 8


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
        before = free_count(allocation, unhealthy)
        try:
            given_slots = allocation.admit(one, unhealthy)
        except NotEnough as refusal:
            assert refusal.free < refusal.wanted
            assert free_count(allocation, unhealthy) == before
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
            assert free_count(allocation, unhealthy) == before
    uids = [f"uid-{number}" for number in range(len(specs))]
    held = [{slot.id for slots in allocation.slots_of(uid).values() for slot in slots} for uid in uids]
    assert len(set().union(*held)) == sum(map(len, held))
    for uid in uids:
        allocation.release(uid)
    assert free_count(allocation) == 8


def check_apart(one: Pod, given_slots: PodSlots) -> None:
    """Sidecars and main containers run together: none of their devices is another's; nor a later init container's."""
    running: set[str] = set()
    for each in one.containers:
        own = {slot.id for slot in given_slots.get(each.name, ())}
        assert not own & running
        if each.kind is not ContainerKind.INIT:
            running |= own


NODES = {
    "h100": node("h100"),
    "v100": node("v100"),
    "t4": node("t4"),
    "shared": node("t4", 4, replicas=3),
    "mig": node("a100", 2, "3g.20gb", "1g.5gb", "1g.5gb", strategy=MigStrategy.SINGLE),
    "mixed": node("a100", 2, "2g.10gb", "2g.10gb", "2g.10gb", strategy=MigStrategy.MIXED),
}


def chosen(devices: NodeDevices, count: int, free: list[int] | None = None, must: tuple[int, ...] = ()) -> list[int]:
    """The indices of the boards that are preferred."""
    slots = devices.slots
    available = [slots[index] for index in (range(len(slots)) if free is None else free)]
    return [slot.index for slot in preferred(devices, available, [slots[index] for index in must], count)]


class TestBoards:
    def test_links_first(self) -> None:
        """On a DGX-1 board 0 has two links to 3 and 4, one to 1 and 2; 3 is on its NUMA node."""
        devices = NODES["v100"]
        assert chosen(devices, 2) == [0, 3]
        assert chosen(devices, 2, [0, 4, 5]) == [0, 4]
        assert chosen(devices, 2, [0, 1, 6]) == [0, 1]

    def test_must(self) -> None:
        assert chosen(NODES["v100"], 2, must=(6,)) == [5, 6]
        assert chosen(NODES["v100"], 1, must=(6,)) == [6]

    def test_switches_then_numa_node(self) -> None:
        devices = NODES["h100"]
        assert chosen(devices, 4, [0, 2, 4, 5, 6, 7]) == [4, 5, 6, 7]
        assert chosen(devices, 2, [3, 4, 5]) == [4, 5]
        assert chosen(devices, 2, [0, 4]) == [0, 4]

    def test_leaves_pairs_together(self) -> None:
        assert chosen(NODES["h100"], 1, [3, 4, 5, 6]) == [3]
        assert chosen(NODES["h100"], 1, [1, 2, 3, 7]) == [7]

    def test_order(self) -> None:
        assert chosen(NODES["t4"], 3, [7, 5, 1, 2]) == [1, 2, 5]

    def test_too_few(self) -> None:
        assert chosen(NODES["t4"], 5, [1, 2]) == [1, 2]
        assert chosen(NODES["t4"], 0) == []

    def test_is_the_best(self) -> None:
        devices = NODES["v100"]
        of = scores(devices)

        def inside(boards: tuple[int, ...]) -> int:
            return sum(of[one][other] for one, other in combinations(boards, 2))

        for count in range(2, 8):
            assert inside(tuple(chosen(devices, count))) == max(map(inside, combinations(range(8), count)))

    @pytest.mark.parametrize("count", [16, 64])
    def test_many_boards(self, count: int) -> None:
        devices = node("h100", count)
        begin = time.process_time()
        assert len(set(chosen(devices, count // 2))) == count // 2
        assert time.process_time() - begin < 0.5


class TestShared:
    def test_least_shared(self) -> None:
        devices = NODES["shared"]
        available = [slot for slot in devices.slots if slot.id not in {devices.slots[0].id, devices.slots[3].id}]
        assert [slot.index for slot in preferred(devices, available, (), 1)] == [2]
        assert [slot.index for slot in preferred(devices, available, (), 2)] == [2, 3]
        assert [slot.index for slot in preferred(devices, available, (), 4)] == [0, 1, 2, 3]

    def test_must_counts(self) -> None:
        devices = NODES["shared"]
        assert [slot.index for slot in preferred(devices, devices.slots, devices.slots[:1], 3)] == [0, 1, 2]

    def test_instances(self) -> None:
        devices = NODES["mixed"]
        found = preferred(devices, devices.slots, (), 4)
        assert [(slot.index, slot.part) for slot in found] == [(0, 0), (0, 1), (0, 2), (1, 0)]


@given(st.sampled_from(sorted(NODES)), st.data())
def test_what_always_holds_of_a_choice(name: str, data: st.DataObject) -> None:
    """As many as wanted or as there are, each once, with those that must be there; the order given is no matter."""
    devices = NODES[name]
    slots = st.lists(st.sampled_from(devices.slots), unique_by=lambda slot: slot.id) if devices.slots else st.just([])
    available, must = data.draw(slots), data.draw(slots)
    count = data.draw(st.integers(0, 10))
    found = preferred(devices, available, must, count)
    ids = [slot.id for slot in found]
    everything: dict[str, Slot] = {slot.id: slot for slot in (*available, *must)}
    assert len(set(ids)) == len(ids) == max(len(must), min(count, len(everything)))
    assert {slot.id for slot in must} <= set(ids) <= set(everything)
    assert preferred(devices, list(reversed(available)), must, count) == found
