"""Patches of nodes: only what changes, only what is ours, and everything back."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.kubernetes.nodes.node_status import (
    DOWN,
    DOWN_TAINT,
    KWOK_NODE,
    NOT_READY,
    WROTE,
    NodePatches,
    NodeWanted,
    Taint,
    clean_patches,
    node_patches,
)
from tests.support.kube.store import merged

GPU = "nvidia.com/gpu"
WANTED = NodeWanted({"nvidia.com/gpu.count": "8"}, {GPU: 8}, {GPU: 7})


def node(*, kwok: bool = False, status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A node of the API that is Ready and has processors."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    pressure = {"type": "DiskPressure", "status": "False"}
    own = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}, "conditions": [pressure, ready]} | (status or {})
    annotations = {KWOK_NODE: "fake"} if kwok else {}
    whole = {"name": "n", "resourceVersion": "5", "annotations": annotations, **metadata}
    return {"metadata": whole, "spec": {}, "status": own}


def patched(item: dict[str, Any], patches: NodePatches) -> dict[str, Any]:
    """The node after both patches: the one of the node leaves its status alone, the other one its spec."""
    result = deepcopy(item)
    if patches.spec is not None:
        assert "status" not in patches.spec
        assert patches.spec["metadata"]["resourceVersion"] == item["metadata"]["resourceVersion"]
        result = merged(result, patches.spec)
        result["metadata"]["resourceVersion"] += "1"
    if patches.status is not None:
        assert "spec" not in patches.status
        result = merged(result, patches.status)
    return result


def after(item: dict[str, Any], wanted: NodeWanted) -> dict[str, Any]:
    """The node as it is wanted; then nothing more changes."""
    result = patched(item, node_patches(item, wanted))
    assert not node_patches(result, wanted), "steady"
    return result


def without_ours(item: dict[str, Any]) -> dict[str, Any]:
    """The node after cleaning."""
    result = patched(item, clean_patches(item))
    assert not clean_patches(result)
    return result


def ready_of(item: dict[str, Any]) -> tuple[str, str]:
    """Status and reason of its condition Ready."""
    (found,) = [each for each in item["status"]["conditions"] if each["type"] == "Ready"]
    return found["status"], found["reason"]


class TestPatches:
    def test_one_patch(self) -> None:
        patches = node_patches(node(), WANTED)
        assert patches.spec is None
        assert patches.status is not None
        wrote = patches.status["metadata"].pop("annotations").pop(WROTE)
        assert patches.status == {
            "metadata": {"labels": {"nvidia.com/gpu.count": "8"}},
            "status": {"capacity": {GPU: "8"}, "allocatable": {GPU: "7"}},
        }
        assert json.loads(wrote)["capacity"] == {GPU: "8"}

    def test_only_changes(self) -> None:
        item = after(node(), WANTED)
        patches = node_patches(item, NodeWanted(WANTED.labels, {GPU: 8}, {GPU: 6}))
        assert patches.status is not None
        assert patches.status["status"] == {"allocatable": {GPU: "6"}}
        assert list(patches.status["metadata"]) == ["annotations"]

    def test_removes(self) -> None:
        item = after(node(), WANTED)
        patches = node_patches(item, NodeWanted({}, {"nvidia.com/mig-1g.5gb": 7}, {}))
        assert patches.status is not None
        assert patches.status["metadata"]["labels"] == {"nvidia.com/gpu.count": None}
        assert patches.status["status"]["capacity"] == {"nvidia.com/mig-1g.5gb": "7", GPU: None}

    def test_large_number(self) -> None:
        item = after(node(), NodeWanted(capacity={GPU: 2000}))
        item["status"]["capacity"][GPU] = "2k"
        assert not node_patches(item, NodeWanted(capacity={GPU: 2000}))

    def test_clean(self) -> None:
        item = node(kwok=True, labels={"zone": "a"})
        item["spec"]["taints"] = [{"key": "other", "effect": "NoSchedule"}]
        wanted = NodeWanted(WANTED.labels, {GPU: 8}, {GPU: 7}, (DOWN_TAINT,), DOWN, {"note": "ours"})
        cleaned = without_ours(after(item, wanted))
        assert ready_of(cleaned) == ("True", "KubeletReady")
        for each in (item, cleaned):
            del each["metadata"]["resourceVersion"], each["status"]["conditions"]
        assert cleaned == item

    def test_nothing_to_clean(self) -> None:
        assert not clean_patches(node(labels={"nvidia.com/gpu.count": "8"}))


class TestOthers:
    def test_left_alone(self) -> None:
        item = node(labels={"nvidia.com/gpu.count": "4"}, status={"capacity": {GPU: "4"}, "allocatable": {GPU: "4"}})
        patches = node_patches(item, WANTED)
        assert not patches
        assert patches.conflicts == (
            "label nvidia.com/gpu.count is '4' and not '8': left, as others wrote it",
            "capacity nvidia.com/gpu is '4' and not '8': left, as others wrote it",
            "allocatable nvidia.com/gpu is '4' and not '7': left, as others wrote it",
        )
        assert not clean_patches(item)

    def test_the_same_value(self) -> None:
        item = after(node(labels={"nvidia.com/gpu.count": "8"}), WANTED)
        assert without_ours(item)["metadata"]["labels"] == {"nvidia.com/gpu.count": "8"}

    @pytest.mark.parametrize("healthy", [8, 7])
    def test_a_number_that_is_there(self, healthy: int) -> None:
        """Of devices, in the manifest of a node: it is taken over, falls with a device, and comes back at the end."""
        numbers = {"cpu": "4", GPU: "8"}
        item = node(kwok=True, status={"capacity": numbers, "allocatable": numbers})
        taken = after(item, NodeWanted(capacity={GPU: 8}, allocatable={GPU: healthy}))
        assert taken["status"]["allocatable"] == {"cpu": "4", GPU: str(healthy)}
        for count in (8, 7, 5):
            taken = after(taken, NodeWanted(capacity={GPU: 8}, allocatable={GPU: count}))
            assert taken["status"]["allocatable"][GPU] == str(count)
            assert taken["status"]["capacity"] == numbers
        assert without_ours(taken)["status"]["allocatable"] == numbers
        assert after(taken, NodeWanted())["status"]["allocatable"] == numbers

    def test_a_number_alone(self) -> None:
        """A node that has nothing but devices is not one that KWOK fills."""
        numbers = {GPU: "8"}
        item = after(node(kwok=True, status={"capacity": numbers, "allocatable": numbers}), WANTED)
        assert not node_patches(item, WANTED).is_waiting

    def test_a_number_that_others_change(self) -> None:
        item = after(node(), WANTED)
        for _ in range(2):
            item["status"]["allocatable"][GPU] = "8"
            patches = node_patches(item, WANTED)
            assert patches.conflicts == ("allocatable nvidia.com/gpu is '8' and not '7': left, as others wrote it",)
            item = patched(item, patches)
            assert item["status"]["allocatable"][GPU] == "8"

    def test_changed_since(self) -> None:
        item = after(node(), WANTED)
        item["metadata"]["labels"]["nvidia.com/gpu.count"] = "5"
        patches = node_patches(item, WANTED)
        assert len(patches.conflicts) == 1
        assert patched(item, patches)["metadata"]["labels"] == {"nvidia.com/gpu.count": "5"}
        assert without_ours(item)["metadata"]["labels"] == {"nvidia.com/gpu.count": "5"}

    def test_removed_since(self) -> None:
        item = after(node(), WANTED)
        del item["metadata"]["labels"]["nvidia.com/gpu.count"]
        assert after(item, WANTED)["metadata"]["labels"] == {"nvidia.com/gpu.count": "8"}

    def test_many_conflicts(self) -> None:
        labels = {str(number): "other" for number in range(20)}
        assert len(node_patches(node(labels=labels), NodeWanted(dict.fromkeys(labels, "ours"))).conflicts) == 5

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "3", '{"labels": 3, "taints": [3, ["a"], ["a", 1]], "ready": 1}', "[" * 100_000]
    )
    def test_damaged_note(self, text: str) -> None:
        item = node(annotations={WROTE: text})
        assert after(item, WANTED)["status"]["capacity"] == {"cpu": "4", GPU: "8"}


class TestTaints:
    def test_beside_others(self) -> None:
        other = {"key": "other", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
        item = node()
        item["spec"]["taints"] = [other]
        item = after(item, NodeWanted(taints=(Taint("ours", "NoExecute", "x"),)))
        assert item["spec"]["taints"] == [other, {"key": "ours", "effect": "NoExecute", "value": "x"}]
        item["spec"]["taints"].append({"key": "late", "effect": "NoExecute"})
        assert not node_patches(item, NodeWanted(taints=(Taint("ours", "NoExecute", "x"),))), "the order is no matter"
        item = after(item, NodeWanted())
        assert [each["key"] for each in item["spec"]["taints"]] == ["other", "late"]

    def test_only_when_they_change(self) -> None:
        item = after(node(), NodeWanted(taints=(DOWN_TAINT,)))
        patches = node_patches(item, NodeWanted(WANTED.labels, taints=(DOWN_TAINT,)))
        assert patches.spec is None
        assert without_ours(after(item, NodeWanted(WANTED.labels, taints=(DOWN_TAINT,))))["spec"] == {}

    def test_first_patch_alone(self) -> None:
        """If the second patch fails, nothing of it is taken for written."""
        item = after(node(), WANTED)
        fewer = NodeWanted(WANTED.labels, {GPU: 8}, {GPU: 3}, (DOWN_TAINT,))
        half = patched(item, NodePatches(node_patches(item, fewer).spec))
        again = node_patches(half, fewer)
        assert (again.spec, again.conflicts) == (None, ())
        assert after(half, fewer)["status"]["allocatable"][GPU] == "3"


class TestReady:
    def test_down_and_up(self) -> None:
        """KWOK is told to leave the status alone; other conditions stay; afterwards all is as before."""
        item = after(node(kwok=True), WANTED)
        down = after(item, NodeWanted(WANTED.labels, {GPU: 8}, {GPU: 7}, ready=DOWN))
        assert ready_of(down) == ("Unknown", "NodeStatusUnknown")
        assert down["metadata"]["annotations"]["kwok.x-k8s.io/status"] == "custom"
        assert len(down["status"]["conditions"]) == 2
        up = after(down, WANTED)
        assert ready_of(up) == ("True", "KubeletReady")
        assert up["metadata"] == item["metadata"]

    def test_does_not_compete(self) -> None:
        wanted = NodeWanted(ready=DOWN)
        item = after(node(kwok=True), wanted)
        item["status"]["conditions"][-1]["status"] = "True"
        assert not node_patches(item, wanted)
        other = after(item, NodeWanted(ready=NOT_READY))
        assert ready_of(other) == ("False", "KubeletNotReady")
        assert ready_of(after(other, NodeWanted())) == ("True", "KubeletReady")

    def test_of_others(self) -> None:
        item = node(status={"conditions": [{"type": "Ready", "status": "False"}]})
        assert not node_patches(item, NodeWanted())
        assert not clean_patches(item)

    def test_without_kwok(self) -> None:
        assert list(after(node(), NodeWanted(ready=DOWN))["metadata"]["annotations"]) == [WROTE]


class TestNew:
    def test_waits(self) -> None:
        """Nothing is written: KWOK would give it no processors any more."""
        patches = node_patches(node(kwok=True, status={"allocatable": {}}), WANTED)
        assert (bool(patches), patches.is_waiting) == (False, True)
        assert not node_patches(node(kwok=True), WANTED).is_waiting

    def test_others_do_not_wait(self) -> None:
        """Nodes without KWOK, and nodes for which no resource is wanted."""
        assert node_patches({"metadata": {"name": "n"}}, WANTED)
        assert node_patches(node(kwok=True, status={"allocatable": {}}), NodeWanted(WANTED.labels))


KEYS = st.sampled_from("abcd")
VALUES = st.dictionaries(KEYS, st.sampled_from("xyz"))
NUMBERS = st.dictionaries(KEYS, st.integers(0, 3))
READYS = st.sampled_from([None, DOWN, NOT_READY])
TAINTS = st.lists(st.builds(Taint, KEYS, st.just("NoSchedule")), max_size=2, unique=True).map(tuple)


WANTS = st.lists(st.builds(NodeWanted, VALUES, NUMBERS, NUMBERS, TAINTS, READYS, VALUES), max_size=4)


@given(VALUES, st.sets(KEYS), WANTS, st.booleans())
def test_what_always_holds(labels: dict[str, str], preset: set[str], every: list[NodeWanted], kwok: bool) -> None:
    """After any changes each node is steady, and after cleaning it is as it was, with the numbers of its manifest."""
    numbers = {"cpu": "4"} | {key: str(each.capacity[key]) for each in every[:1] for key in preset & {*each.capacity}}
    first = node(kwok=kwok, labels=labels, status={"capacity": numbers, "allocatable": dict(numbers)})
    item = first
    for wanted in every:
        item = after(item, wanted)
        for key, value in wanted.labels.items():
            assert item["metadata"]["labels"][key] == labels.get(key, value)
        # A number of the manifest is back when it was not wanted for a while, and is not taken over a second time.
        sure = {key: str(count) for key, count in wanted.capacity.items() if wanted is every[0] or key not in numbers}
        assert sure.items() <= item["status"]["capacity"].items()
    cleaned = without_ours(item)
    assert ready_of(cleaned)[0] == "True"
    assert cleaned["metadata"]["labels"] == labels
    assert cleaned["metadata"]["annotations"] == first["metadata"]["annotations"]
    assert {**cleaned["status"], "conditions": 0} == {**first["status"], "conditions": 0}
    assert not cleaned["spec"].get("taints")
