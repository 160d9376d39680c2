"""ResourceSlices of nodes: their form, taints, and what is sent when something changes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import kubernetes_validate
import pytest

from fakedev.kube.dra_devices import MAX_TEXT
from fakedev.kube.dra_slices import MADE_BY, SliceChanges, changes, device_classes, resource_slices, taint_of
from tests.support.dra_nodes import node_devices

#: The version of the API whose schema is taken; the first with resource.k8s.io/v1 is 1.34.
VERSION = "1.36"
MANY = "device: h100, devices-per-node: 16, mig: [" + "1g.10gb, " * 7 + "]"
POOLS = ["device: h100", "device: t4", "device: v100", MANY, "device: h200, mig: [3g.71gb, 2g.35gb, 1g.18gb]"]


def stored(items: list[dict[str, Any]], revision: int = 1) -> list[dict[str, Any]]:
    """Slices as the API server gives them back: with a resourceVersion, and the time of each taint."""
    found = deepcopy(items)
    for item in found:
        item["metadata"] |= {"resourceVersion": str(revision), "uid": "c0ffee", "generation": 1}
        for device in item["spec"]["devices"]:
            for taint in device.get("taints", ()):
                taint.setdefault("timeAdded", "2026-01-01T00:00:00Z")
    return found


class TestForm:
    """What the API server must accept."""

    @pytest.mark.parametrize("keys", POOLS)
    @pytest.mark.parametrize("reason", ["", "XID 79", "lost", "unmonitored"])
    def test_the_schema(self, keys: str, reason: str) -> None:
        """Every slice fits the published schema, with any taint, and the limits that are not in it."""
        devices = node_devices(keys)
        unhealthy = {f"GPU-{devices.boards[0]['uuid']}": reason} if reason else {}
        slices = resource_slices(devices, unhealthy, node_uid="6a0f")
        names = [each["name"] for item in slices for each in item["spec"]["devices"]]
        assert len(names) == len(set(names)) > 0
        for item in slices:
            kubernetes_validate.validate(item, VERSION, strict=True)
            assert len(item["spec"]["devices"]) <= 64
            for device in item["spec"]["devices"]:
                assert len(device["attributes"]) + len(device["capacity"]) <= 32
                assert len(device["name"]) <= 63
                texts = [text for value in device["attributes"].values() for text in value.values()]
                assert all(len(str(text)) <= MAX_TEXT for text in texts)

    def test_the_classes(self) -> None:
        """Those of NVIDIA's chart; only one may satisfy an extended resource."""
        for item in device_classes():
            kubernetes_validate.validate(item, VERSION, strict=True)
        assert [(each["metadata"]["name"], each["spec"].get("extendedResourceName")) for each in device_classes()] == [
            ("gpu.nvidia.com", "nvidia.com/gpu"), ("mig.nvidia.com", None),
        ]  # fmt: skip

    def test_a_node(self) -> None:
        """Its pool has its name, and it owns the slice, which is deleted with it."""
        (item,) = resource_slices(node_devices(), node_uid="6a0f")
        assert item["metadata"] == {
            "name": "dgx-0-gpu.nvidia.com-0",
            "labels": dict(MADE_BY),
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "dgx-0", "uid": "6a0f", "controller": True}
            ],
        }
        devices = item["spec"].pop("devices")
        assert [each["name"] for each in devices] == [f"gpu-{index}" for index in range(8)]
        assert item["spec"] == {
            "driver": "gpu.nvidia.com",
            "nodeName": "dgx-0",
            "pool": {"name": "dgx-0", "generation": 1, "resourceSliceCount": 1},
        }

    def test_many_devices(self) -> None:
        """Two slices, each with the number of both, and never more because a device gets a taint."""
        devices = node_devices(MANY)
        for unhealthy in ({}, {f"MIG-{devices.parts[3][2]['part_uuid']}": "XID 48"}):
            slices = resource_slices(devices, unhealthy)
            assert [len(item["spec"]["devices"]) for item in slices] == [64, 48]
            assert {item["spec"]["pool"]["resourceSliceCount"] for item in slices} == {2}

    def test_long_names_of_nodes(self) -> None:
        """Names of objects stay within 253 characters, and differ as those of nodes do."""
        found = {
            resource_slices(node_devices(node="n" * 240 + end))[0]["metadata"]["name"] for end in ("a", "b")
        }  # fmt: skip
        assert len(found) == 2
        assert max(map(len, found)) <= 253

    def test_other_vendors(self) -> None:
        """They have no slices of this driver."""
        assert resource_slices(node_devices("device: mi300x")) == []


class TestTaints:
    """Unhealthy devices."""

    @pytest.mark.parametrize(
        ("reason", "taint"),
        [
            ("XID 79", {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}),
            ("lost", {"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}),
            ("hangs", {"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}),
            ("unmonitored", {"key": "gpu.nvidia.com/unmonitored", "effect": "None"}),
        ],
    )
    def test_reasons(self, reason: str, taint: dict[str, str]) -> None:
        """A key for each kind of trouble, with the code of an error."""
        assert taint_of(reason) == taint

    def test_which_devices(self) -> None:
        """The one that is named; of a divided board that is named, all instances."""
        devices = node_devices("device: h100, devices-per-node: 2, mig: [3g.40gb, 1g.10gb]")
        instance = f"MIG-{devices.parts[0][1]['part_uuid']}"
        board = f"GPU-{devices.boards[1]['uuid']}"
        for unhealthy, tainted in (({}, []), ({instance: "XID 48"}, [1]), ({board: "lost"}, [2, 3])):
            (item,) = resource_slices(devices, unhealthy)
            assert [place for place, each in enumerate(item["spec"]["devices"]) if "taints" in each] == tainted


class TestChanges:
    """What is sent to the API server."""

    devices = node_devices(MANY)

    @property
    def struck(self) -> dict[str, str]:
        """The first instance has had an error."""
        return {f"MIG-{self.devices.parts[0][0]['part_uuid']}": "XID 79"}

    def test_a_new_node(self) -> None:
        """All slices are made, in the first generation."""
        wanted = resource_slices(self.devices)
        assert changes(wanted, []) == SliceChanges(create=tuple(wanted))

    @pytest.mark.parametrize("is_struck", [False, True])
    def test_nothing_changed(self, is_struck: bool) -> None:
        """Nothing is sent, though the API server has added fields and the generation is not the first."""
        wanted = resource_slices(self.devices, self.struck if is_struck else {})
        present = stored(wanted)
        for item in present:
            item["spec"]["pool"]["generation"] = 7
        assert not changes(wanted, present)

    def test_a_fault(self) -> None:
        """All slices of the pool go into the next generation, so that nobody sees a mixture."""
        present = stored(resource_slices(self.devices), revision=5)
        found = changes(resource_slices(self.devices, self.struck), present)
        assert (found.create, found.delete) == ((), ())
        assert [each["spec"]["pool"]["generation"] for each in found.replace] == [2, 2]
        assert [each["metadata"]["resourceVersion"] for each in found.replace] == ["5", "5"]
        assert found.replace[0]["spec"]["devices"][0]["taints"][0]["value"] == "79"
        cleared = changes(resource_slices(self.devices), stored(list(found.replace)))
        assert [each["spec"]["pool"]["generation"] for each in cleared.replace] == [3, 3]
        assert all("taints" not in each for item in cleared.replace for each in item["spec"]["devices"])

    def test_a_taint_keeps_its_time(self) -> None:
        """Evictions count from it; a new taint has none yet."""
        present = stored(resource_slices(self.devices, self.struck))
        other = f"MIG-{self.devices.parts[0][1]['part_uuid']}"
        (first, _) = changes(resource_slices(self.devices, {**self.struck, other: "lost"}), present).replace
        assert [each["taints"][0].get("timeAdded") for each in first["spec"]["devices"][:2]] == [
            "2026-01-01T00:00:00Z", None,
        ]  # fmt: skip

    def test_fewer_devices(self) -> None:
        """The slices that are left are replaced, with their new number; the rest is deleted."""
        present = stored(resource_slices(self.devices))
        found = changes(resource_slices(node_devices("device: h100")), present)
        assert [each["spec"]["pool"] for each in found.replace] == [
            {"name": "dgx-0", "generation": 2, "resourceSliceCount": 1}
        ]
        assert (found.create, found.delete) == ((), ("dgx-0-gpu.nvidia.com-1",))

    def test_a_slice_is_missing(self) -> None:
        """Somebody has deleted one: it is made again, in the generation of the others."""
        wanted = resource_slices(self.devices)
        found = changes(wanted, stored(wanted)[1:])
        assert [each["metadata"]["name"] for each in found.create] == ["dgx-0-gpu.nvidia.com-0"]
        assert {each["spec"]["pool"]["generation"] for each in (*found.create, *found.replace)} == {2}

    def test_two_generations(self) -> None:
        """An interrupted change is done again."""
        wanted = resource_slices(self.devices)
        present = stored(wanted)
        present[0]["spec"]["pool"]["generation"] = 2
        assert {each["spec"]["pool"]["generation"] for each in changes(wanted, present).replace} == {3}

    def test_a_node_that_is_gone(self) -> None:
        """Its slices are deleted."""
        present = stored(resource_slices(self.devices))
        assert changes([], present).delete == ("dgx-0-gpu.nvidia.com-0", "dgx-0-gpu.nvidia.com-1")

    def test_a_real_driver(self) -> None:
        """What fakedev did not make is left alone."""
        present = stored(resource_slices(self.devices))
        for item in present:
            del item["metadata"]["labels"]
        assert not changes([], present)
