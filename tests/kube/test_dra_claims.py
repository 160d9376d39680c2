"""Which container has which device by resource claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fakedev.kube.dra_claims import Claim, ClaimedDevices, claimed_devices, read_claim, with_labels
from fakedev.kube.dra_devices import dra_devices
from fakedev.kube.pods import ClaimUse, Pod, read_pod
from fakedev.spec.fleet import Activity, WorkloadSpec
from tests.support.dra_nodes import node_devices

NODE = node_devices("device: h100, devices-per-node: 4, devices: [{index: 3, mig: [1g.10gb, 3g.40gb]}]")
SLOTS = {device.name: device.slot for device in dra_devices(NODE)}
INSTANCE = "gpu-3-mig-1g10gb-19-0"


def pod(containers: Mapping[str, list[Any]], uid: str = "u1", **status: Any) -> Pod:
    """A pod on the node: its containers, each with its claims, of claims ``c`` and ``d``, which are named alike."""
    return read_pod({
        "metadata": {"namespace": "ml", "name": "train", "uid": uid},
        "spec": {
            "nodeName": "dgx-0",
            "resourceClaims": [{"name": name, "resourceClaimName": name} for name in ("c", "d")],
            "containers": [
                {"name": name, "resources": {"claims": claims}} for name, claims in containers.items()
            ],
        },
        "status": status,
    })  # fmt: skip


def claim(*results: dict[str, Any] | str, name: str = "c", pods: tuple[str, ...] = ("u1",)) -> Claim:
    """A claim with results: ``REQUEST=DEVICE``, or whole ones."""
    found = []
    for each in results:
        request, _, device = each.partition("=") if isinstance(each, str) else ("", "", "")
        found.append(
            each
            if isinstance(each, dict)
            else {"request": request, "driver": "gpu.nvidia.com", "pool": "dgx-0", "device": device}
        )
    return read_claim({
        "metadata": {"namespace": "ml", "name": name},
        "status": {
            "allocation": {"devices": {"results": found}},
            "reservedFor": [{"resource": "pods", "name": f"pod-{uid}", "uid": uid} for uid in pods],
        },
    })  # fmt: skip


def claimed(of: Pod, *claims: Claim) -> ClaimedDevices:
    """What the pod has."""
    return claimed_devices(of, "dgx-0", dra_devices(NODE), {(each.namespace, each.name): each for each in claims})


def names(found: ClaimedDevices) -> dict[str, list[str]]:
    """The names of the devices of each container."""
    by_slot = {slot: name for name, slot in SLOTS.items()}
    return {container: [by_slot[slot] for slot in slots] for container, slots in found.slots.items()}


class TestWhoHasWhat:
    """Containers and devices."""

    def test_a_claim_of_several_devices(self) -> None:
        """All of them, in the order of the results."""
        found = claimed(pod({"main": [{"name": "c"}]}), claim("r=gpu-2", "r=gpu-0"))
        assert names(found) == {"main": ["gpu-2", "gpu-0"]}
        assert found.slots["main"][0].word("dgx-0") == "dgx-0/2"
        assert (found.problems, found.is_waiting) == ((), False)

    def test_single_requests(self) -> None:
        """Each container has the device of its request; one with alternatives is named by its first part."""
        of = pod({
            "a": [{"name": "c", "request": "one"}], "b": [{"name": "c", "request": "two"}],
            "all": [{"name": "c"}], "none": [],
        })  # fmt: skip
        found = claimed(of, claim("one=gpu-0", f"two/small={INSTANCE}"))
        assert names(found) == {"a": ["gpu-0"], "b": [INSTANCE], "all": ["gpu-0", INSTANCE]}

    def test_several_claims(self) -> None:
        """In the order of the container's claims; a device that two of them have is there once, by the first."""
        of = pod({"main": [{"name": "d"}, {"name": "c"}]})
        found = claimed(of, claim("r=gpu-0", "r=gpu-1"), claim("r=gpu-1", name="d"))
        assert names(found) == {"main": ["gpu-1", "gpu-0"]}
        assert found.labels["main"][SLOTS["gpu-1"]]["dra_claim_name"] == "d"

    def test_pods_share_a_claim(self) -> None:
        """Each that it is reserved for has the device; another one waits."""
        shared = claim("r=gpu-0", pods=("u1", "u2"))
        of = {"main": [{"name": "c"}]}
        for uid, has in (("u1", {"main": ["gpu-0"]}), ("u2", {"main": ["gpu-0"]}), ("u3", {})):
            found = claimed(pod(of, uid), shared)
            assert (names(found), found.is_waiting) == (has, not has)

    def test_a_claim_that_is_not_ready(self) -> None:
        """Not known, or not allocated."""
        of = pod({"main": [{"name": "c"}]})
        assert claimed(of) == ClaimedDevices(is_waiting=True)
        assert claimed(of, claim()) == ClaimedDevices(is_waiting=True)

    def test_administrators_take_nothing(self) -> None:
        """A result with admin access is for supervision; other drivers are not ours."""
        admin = {"request": "r", "driver": "gpu.nvidia.com", "pool": "dgx-0", "device": "gpu-0", "adminAccess": True}
        other = {"request": "r", "driver": "net.example.com", "pool": "dgx-0", "device": "gpu-0"}
        assert claimed(pod({"main": [{"name": "c"}]}), claim(admin, other)) == ClaimedDevices()

    def test_devices_that_the_node_does_not_have(self) -> None:
        """Each is told once, and the others are there."""
        elsewhere = {"request": "r", "driver": "gpu.nvidia.com", "pool": "dgx-7", "device": "gpu-0"}
        found = claimed(pod({"a": [{"name": "c"}], "b": [{"name": "c"}]}), claim("r=gpu-9", elsewhere, "r=gpu-1"))
        assert names(found) == {"a": ["gpu-1"], "b": ["gpu-1"]}
        assert found.problems == (
            "claim ml/c: no device dgx-0/gpu-9 on dgx-0", "claim ml/c: no device dgx-7/gpu-0 on dgx-0",
        )  # fmt: skip


class TestPods:
    """What is read of a pod."""

    def test_a_claim_from_a_template(self) -> None:
        """Its name is in the pod's status."""
        of = pod({"main": [{"name": "c"}]}, resourceClaimStatuses=[{"name": "c", "resourceClaimName": "train-c-x7x2k"}])
        assert names(claimed(of, claim("r=gpu-0", name="train-c-x7x2k"))) == {"main": ["gpu-0"]}

    def test_an_extended_resource(self) -> None:
        """The scheduler's claim satisfies ``nvidia.com/gpu``: the status says which container has which request."""
        limits = {"limits": {"nvidia.com/gpu": "1", "example.com/other": "2"}}
        of = read_pod({
            "metadata": {"namespace": "ml", "name": "train", "uid": "u1"},
            "spec": {
                "nodeName": "dgx-0",
                "initContainers": [{"name": "first", "resources": limits}],
                "containers": [{"name": "main", "resources": limits}, {"name": "side"}],
            },
            "status": {
                "extendedResourceClaimStatus": {
                    "resourceClaimName": "train-extended-resources-4f2",
                    "requestMappings": [
                        {
                            "containerName": name,
                            "resourceName": "nvidia.com/gpu",
                            "requestName": f"container-{place}-request-0",
                        }
                        for place, name in enumerate(("first", "main"))
                    ],
                }
            },
        })  # fmt: skip
        assert [each.claims for each in of.containers] == [
            (ClaimUse("", "container-0-request-0"),), (ClaimUse("", "container-1-request-0"),), (),
        ]  # fmt: skip
        assert [each.wants for each in of.containers] == [{"example.com/other": 2}, {"example.com/other": 2}, {}]
        made = claim("container-0-request-0=gpu-0", "container-1-request-0=gpu-2", name="train-extended-resources-4f2")
        assert names(claimed(of, made)) == {"first": ["gpu-0"], "main": ["gpu-2"]}


class TestLabels:
    """What dcgm-exporter says of claimed devices."""

    def test_a_board_and_an_instance(self) -> None:
        """An instance has its profile and UUID too."""
        labels = claimed(pod({"main": [{"name": "c"}]}), claim("r=gpu-0", f"r={INSTANCE}")).labels["main"]
        common = {
            "dra_claim_name": "c", "dra_claim_namespace": "ml", "dra_driver_name": "gpu.nvidia.com",
            "dra_pool_name": "dgx-0",
        }  # fmt: skip
        assert labels[SLOTS["gpu-0"]] == {**common, "dra_device_name": "gpu-0"}
        assert labels[SLOTS[INSTANCE]] == {
            **common, "dra_device_name": INSTANCE, "dra_mig_profile": "1g.10gb",
            "dra_mig_device_uuid": SLOTS[INSTANCE].id,
        }  # fmt: skip

    def test_workloads(self) -> None:
        """One for each claimed device, for labels are of a whole workload; other devices stay together."""
        labels = claimed(pod({"main": [{"name": "c"}]}), claim("r=gpu-0", "r=gpu-2")).labels["main"]
        words = ("dgx-0/0", "dgx-0/1", "dgx-0/2")
        whole = WorkloadSpec("ml/train/main", words, (Activity(90),), labels=(("pod_uid", "u1"),))
        split = with_labels(whole, "dgx-0", labels)
        assert [each.devices for each in split] == [("dgx-0/1",), ("dgx-0/0",), ("dgx-0/2",)]
        assert {each.name for each in split} == {"ml/train/main"}
        assert [dict(each.labels).get("dra_device_name") for each in split] == [None, "gpu-0", "gpu-2"]
        assert all(dict(each.labels)["pod_uid"] == "u1" for each in split)
        assert with_labels(whole, "dgx-0", {}) == (whole,)
