"""Placement: which free devices a container gets."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.spec.offers import MigStrategy
from fakedev.kubernetes.devices.allocation import preferred, scores
from fakedev.kubernetes.devices.offered_devices import NodeDevices, Slot
from tests.kubernetes.objects import node

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
        assert len(set(chosen(devices, count // 2))) == count // 2


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
