"""Patches of nodes: only what changes, only what is ours, and everything back."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.kube.node_status import (
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
    """Labels and resources."""

    def test_one_patch(self) -> None:
        """One request has all; quantities are texts."""
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
        """A device that becomes unhealthy costs its quantity and the note of it."""
        item = after(node(), WANTED)
        patches = node_patches(item, NodeWanted(WANTED.labels, {GPU: 8}, {GPU: 6}))
        assert patches.status is not None
        assert patches.status["status"] == {"allocatable": {GPU: "6"}}
        assert list(patches.status["metadata"]) == ["annotations"]

    def test_removes(self) -> None:
        """What is not wanted any more is removed by null."""
        item = after(node(), WANTED)
        patches = node_patches(item, NodeWanted({}, {"nvidia.com/mig-1g.5gb": 7}, {}))
        assert patches.status is not None
        assert patches.status["metadata"]["labels"] == {"nvidia.com/gpu.count": None}
        assert patches.status["status"]["capacity"] == {"nvidia.com/mig-1g.5gb": "7", GPU: None}

    def test_large_number(self) -> None:
        """The API server shortens it."""
        item = after(node(), NodeWanted(capacity={GPU: 2000}))
        item["status"]["capacity"][GPU] = "2k"
        assert not node_patches(item, NodeWanted(capacity={GPU: 2000}))

    def test_clean(self) -> None:
        """Everything goes, and nothing else."""
        item = node(kwok=True, labels={"zone": "a"})
        item["spec"]["taints"] = [{"key": "other", "effect": "NoSchedule"}]
        wanted = NodeWanted(WANTED.labels, {GPU: 8}, {GPU: 7}, (DOWN_TAINT,), DOWN, {"note": "ours"})
        cleaned = without_ours(after(item, wanted))
        assert ready_of(cleaned) == ("True", "KubeletReady")
        for each in (item, cleaned):
            del each["metadata"]["resourceVersion"], each["status"]["conditions"]
        assert cleaned == item

    def test_nothing_to_clean(self) -> None:
        """A node that was never ours."""
        assert not clean_patches(node(labels={"nvidia.com/gpu.count": "8"}))


class TestOthers:
    """What others have written."""

    def test_left_alone(self) -> None:
        """It stays, and is told."""
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
        """What is there already is not ours, and stays when all else is cleaned."""
        item = after(node(labels={"nvidia.com/gpu.count": "8"}), WANTED)
        assert without_ours(item)["metadata"]["labels"] == {"nvidia.com/gpu.count": "8"}

    def test_changed_since(self) -> None:
        """What others have changed is theirs from then on."""
        item = after(node(), WANTED)
        item["metadata"]["labels"]["nvidia.com/gpu.count"] = "5"
        patches = node_patches(item, WANTED)
        assert len(patches.conflicts) == 1
        assert patched(item, patches)["metadata"]["labels"] == {"nvidia.com/gpu.count": "5"}
        assert without_ours(item)["metadata"]["labels"] == {"nvidia.com/gpu.count": "5"}

    def test_removed_since(self) -> None:
        """What others have removed comes again."""
        item = after(node(), WANTED)
        del item["metadata"]["labels"]["nvidia.com/gpu.count"]
        assert after(item, WANTED)["metadata"]["labels"] == {"nvidia.com/gpu.count": "8"}

    def test_many_conflicts(self) -> None:
        """Not all are told."""
        labels = {str(number): "other" for number in range(20)}
        assert len(node_patches(node(labels=labels), NodeWanted(dict.fromkeys(labels, "ours"))).conflicts) == 5

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "3", '{"labels": 3, "taints": [3, ["a"], ["a", 1]], "ready": 1}', "[" * 100_000]
    )
    def test_damaged_note(self, text: str) -> None:
        """A note that cannot be read says nothing."""
        item = node(annotations={WROTE: text})
        assert after(item, WANTED)["status"]["capacity"] == {"cpu": "4", GPU: "8"}


class TestTaints:
    """Taints, in a patch of their own."""

    def test_beside_others(self) -> None:
        """Others' taints stay, also those that come in between."""
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
        """A patch of the status does not repeat them."""
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
    """The condition of nodes that are down."""

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
        """Where something makes it Ready again, that is left, until it changes again."""
        wanted = NodeWanted(ready=DOWN)
        item = after(node(kwok=True), wanted)
        item["status"]["conditions"][-1]["status"] = "True"
        assert not node_patches(item, wanted)
        other = after(item, NodeWanted(ready=NOT_READY))
        assert ready_of(other) == ("False", "KubeletNotReady")
        assert ready_of(after(other, NodeWanted())) == ("True", "KubeletReady")

    def test_of_others(self) -> None:
        """A node that others have found not to be Ready is not made Ready."""
        item = node(status={"conditions": [{"type": "Ready", "status": "False"}]})
        assert not node_patches(item, NodeWanted())
        assert not clean_patches(item)

    def test_without_kwok(self) -> None:
        """Only KWOK's nodes get its annotation."""
        assert list(after(node(), NodeWanted(ready=DOWN))["metadata"]["annotations"]) == [WROTE]


class TestNew:
    """Nodes that KWOK has not filled yet."""

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


@given(VALUES, WANTS, st.booleans())
def test_what_always_holds(labels: dict[str, str], every: list[NodeWanted], kwok: bool) -> None:
    """After any changes each node is steady, and after cleaning it is as it was."""
    first = node(kwok=kwok, labels=labels)
    item = first
    for wanted in every:
        item = after(item, wanted)
        for key, value in wanted.labels.items():
            assert item["metadata"]["labels"][key] == labels.get(key, value)
        assert {key: str(count) for key, count in wanted.capacity.items()}.items() <= item["status"]["capacity"].items()
    cleaned = without_ours(item)
    assert ready_of(cleaned)[0] == "True"
    assert cleaned["metadata"]["labels"] == labels
    assert cleaned["metadata"]["annotations"] == first["metadata"]["annotations"]
    assert {**cleaned["status"], "conditions": 0} == {**first["status"], "conditions": 0}
    assert not cleaned["spec"].get("taints")
