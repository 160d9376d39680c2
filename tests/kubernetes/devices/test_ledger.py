"""The ledger of a node: nothing twice, all or nothing, everything back, by whatever mechanism; and its record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.spec.offers import MigStrategy
from fakedev.kubernetes.devices.dra import dra_devices
from fakedev.kubernetes.devices.node_ledger import NodeLedger, NotEnough, PodSlots, recorded_ids, recorded_text
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
        found = NodeLedger(PLAIN).admit(pod(container("a", 2), container("b", 1), container("log", 0)), ())
        assert indices(found) == {"a": [0, 1], "b": [2]}

    def test_init_containers_lend(self) -> None:
        found = NodeLedger(PLAIN).admit(pod(init("load", 2), init("check", 3), container("main", 4)), ())
        assert indices(found) == {"load": [0, 1], "check": [0, 1, 2], "main": [0, 1, 2, 3]}

    def test_init_container_has_more(self) -> None:
        found = NodeLedger(PLAIN).admit(pod(init("load", 3), container("a", 1), container("b", 1)), ())
        assert indices(found) == {"load": [0, 1, 2], "a": [0], "b": [1]}

    def test_sidecars_keep(self) -> None:
        """What a sidecar has is used by nobody else, also if an init container had it before."""
        found = NodeLedger(PLAIN).admit(
            pod(init("load", 2), sidecar("proxy", 1), init("check", 2), container("main", 2)), ()
        )
        assert indices(found) == {"load": [0, 1], "proxy": [0], "check": [1, 2], "main": [1, 2]}

    def test_instances(self) -> None:
        wants = {"nvidia.com/mig-1g.5gb": 1, "nvidia.com/mig-3g.20gb": 1}
        found = NodeLedger(MIXED).admit(pod(Container("main", ContainerKind.MAIN, wants)), ())
        assert {slot.resource for slot in found["main"]} == set(wants)

    def test_replicas(self) -> None:
        ledger = NodeLedger(SHARED)
        boards = [indices(ledger.admit(pod(name=str(number)), ()))["main"] for number in range(6)]
        assert boards == [[0], [1], [0], [1], [0], [1]]

    @pytest.mark.parametrize(
        ("device", "resource", "other"),
        [
            ("h100", GPU, "rdma/hca"),
            ("h100", GPU, "nvidia.com/hostdev"),
            ("h100", GPU, "nvidia.com/gpumem"),
            ("mi300x", "amd.com/gpu", "amd.com/nic"),
            ("max-1550", "gpu.intel.com/i915", "gpu.intel.com/millicores"),
        ],
    )
    def test_resources_of_others(self, device: str, resource: str, other: str) -> None:
        wants = {other: 4, resource: 1}
        found = NodeLedger(node(device)).admit(pod(Container("main", ContainerKind.MAIN, wants)), ())
        assert indices(found) == {"main": [0]}


class TestRefusal:
    def test_words(self) -> None:
        ledger = NodeLedger(PLAIN)
        with pytest.raises(NotEnough) as caught:
            ledger.admit(pod(container("a", 6), container("b", 3)), ())
        assert str(caught.value) == "container b wants 3 of nvidia.com/gpu, and node dgx-0 has 2 free and healthy"
        assert free_count(ledger) == 8
        assert not ledger.slots_of("uid-train")

    def test_unhealthy(self) -> None:
        ledger = NodeLedger(PLAIN)
        unhealthy = {slot.device_id: "XID 79" for slot in PLAIN.slots[:2]}
        assert indices(ledger.admit(pod(container("a", 6)), unhealthy)) == {"a": [2, 3, 4, 5, 6, 7]}
        with pytest.raises(NotEnough, match="has 0 free"):
            ledger.admit(pod(name="other"), unhealthy)

    def test_unhealthy_replicas(self) -> None:
        ledger = NodeLedger(SHARED)
        assert free_count(ledger, {SHARED.slots[0].device_id}) == 3

    def test_missing_resource(self) -> None:
        with pytest.raises(NotEnough, match=r"wants 1 of nvidia\.com/gpu, and node dgx-0 has 0"):
            NodeLedger(MIXED).admit(pod(), ())

    @pytest.mark.parametrize("resource", ["nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"])
    def test_other_gpus(self, resource: str) -> None:
        with pytest.raises(NotEnough, match=resource):
            NodeLedger(PLAIN).admit(pod(container("main", 1, resource=resource)), ())


class TestAdopted:
    def test_replaces(self) -> None:
        ledger = NodeLedger(PLAIN)
        ledger.admit(pod(), ())
        assert ledger.adopt(pod(), {"main": [PLAIN.slots[5].id]}) == ((), ())
        assert indices(ledger.slots_of("uid-train")) == {"main": [5]}
        assert free_count(ledger) == 7
        assert indices(ledger.admit(pod(), ())) == {"main": [5]}, "the pod is known"

    def test_any_order(self) -> None:
        """Slots are in the order of boards, each once, however the kubelet lists them: so the work stays the same."""
        ledger = NodeLedger(PLAIN)
        ids = [PLAIN.slots[index].id for index in (6, 1, 3, 1)]
        ledger.adopt(pod(), {"main": ids})
        assert indices(ledger.slots_of("uid-train")) == {"main": [1, 3, 6]}

    def test_unknown_ids(self) -> None:
        ledger = NodeLedger(PLAIN)
        assert ledger.adopt(pod(), {"main": ["GPU-other", PLAIN.slots[0].id]}) == (("GPU-other",), ())
        assert indices(ledger.slots_of("uid-train")) == {"main": [0]}

    def test_device_of_replicas(self) -> None:
        """The id of a shared device, as a claim names it, takes all its replicas."""
        ledger = NodeLedger(SHARED)
        ledger.adopt(pod(), {"main": [SHARED.slots[0].device_id]})
        assert free_count(ledger) == 3

    def test_of_another_pod(self) -> None:
        """Two pods of a list never have one device: the first keeps it, and the answer names it."""
        ledger, ids = NodeLedger(PLAIN), [slot.id for slot in PLAIN.slots]
        ledger.adopt(pod(), {"main": ids[:2]})
        (grant,) = ledger.adopt(pod(name="other"), {"main": ids[1:3]})[1]
        assert (grant.holder, grant.slot.id) == ("uid-train", ids[1])
        assert indices(ledger.slots_of("uid-other")) == {"main": [2]}


class TestRestored:
    def test_what_was_recorded(self) -> None:
        """The text of the annotation brings exactly these devices back, in another process too."""
        one, other = NodeLedger(PLAIN), NodeLedger(PLAIN)
        one.admit(pod(name="first"), ())
        one.admit(pod(container("main", 2)), ())
        text = recorded_text(one.ids_of("uid-train"))
        assert other.restore(pod(container("main", 2)), recorded_ids(text))
        assert indices(other.slots_of("uid-train")) == {"main": [1, 2]}

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"main": 1}', '{"main": [1]}', '{"main": ["GPU-x"]}', "[" * 9999])
    def test_no_record(self, text: str) -> None:
        ledger = NodeLedger(PLAIN)
        assert not ledger.restore(pod(), recorded_ids(text))
        assert list(ledger) == []

    def test_what_does_not_fit(self) -> None:
        """Another number, one twice, one that somebody holds: nothing is given."""
        ledger, ids = NodeLedger(PLAIN), [slot.id for slot in PLAIN.slots]
        ledger.admit(pod(name="first"), ())
        for recorded in (ids[1:2], ids[1:4], [ids[1], ids[1]], ids[:2]):
            assert not ledger.restore(pod(container("main", 2)), {"main": recorded})
        assert ledger.restore(pod(container("main", 2)), {"main": ids[1:3]})


class TestClaims:
    def test_a_board_is_given_once(self) -> None:
        """Whatever mechanism asks: 8 boards are for 8 pods, not for 8 and 8."""
        ledger = NodeLedger(PLAIN)
        devices = {dra_device.name: dra_device.slot for dra_device in dra_devices(PLAIN)}
        for index in range(0, 8, 2):
            assert ledger.claim(f"claim ml/c{index}", [devices[f"gpu-{index}"]]) is None
        assert free_count(ledger) == 4
        ledger.admit(pod(container("main", 4)), ())
        assert indices(ledger.slots_of("uid-train")) == {"main": [1, 3, 5, 7]}
        blocking = ledger.claim("claim ml/late", [devices["gpu-1"]])
        assert blocking is not None
        assert blocking.holder == "uid-train"
        assert "claim ml/late" not in {grant.holder for grant in ledger}

    def test_all_or_nothing(self) -> None:
        ledger, slots = NodeLedger(PLAIN), [dra_device.slot for dra_device in dra_devices(PLAIN)]
        ledger.admit(pod(), ())
        assert ledger.claim("claim ml/c", slots[:2]) is not None
        assert free_count(ledger) == 7

    def test_parts_and_replicas(self) -> None:
        """A claim of a whole board excludes its instances and its replicas; one of an instance the whole board."""
        shared = NodeLedger(SHARED)
        shared.claim("claim ml/c", [dra_devices(SHARED)[0].slot])
        assert free_count(shared) == 3
        divided = node("a100", 1, "3g.20gb", "1g.5gb", strategy=MigStrategy.NONE)
        ledger = NodeLedger(divided)
        ledger.claim("claim ml/c", [dra_devices(divided)[1].slot])
        assert free_count(ledger) == 0
        ledger.unclaim("claim ml/c")
        assert free_count(ledger) == 1


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
    ledger, again = NodeLedger(PLAIN), NodeLedger(PLAIN)
    for number, spec in enumerate(specs):
        one = made(number, spec)
        before = free_count(ledger, unhealthy)
        try:
            given_slots = ledger.admit(one, unhealthy)
        except NotEnough as refusal:
            assert refusal.free < refusal.wanted
            assert free_count(ledger, unhealthy) == before
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
            for each_ledger in (ledger, again):
                each_ledger.release(one.uid)
            assert free_count(ledger, unhealthy) == before
    uids = [f"uid-{number}" for number in range(len(specs))]
    held = [{slot.id for slots in ledger.slots_of(uid).values() for slot in slots} for uid in uids]
    assert len(set().union(*held)) == sum(map(len, held))
    for uid in uids:
        ledger.release(uid)
    assert free_count(ledger) == 8


def check_apart(one: Pod, given_slots: PodSlots) -> None:
    """Sidecars and main containers run together: none of their devices is another's; nor a later init container's."""
    running: set[str] = set()
    for each in one.containers:
        own = {slot.id for slot in given_slots.get(each.name, ())}
        assert not own & running
        if each.kind is not ContainerKind.INIT:
            running |= own
