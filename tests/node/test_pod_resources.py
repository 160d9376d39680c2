"""The kubelet's answer becomes allocations."""

from __future__ import annotations

from fakedev.kubernetes.nodes.node_view import Allocation
from fakedev.node.kubelet import POD_RESOURCES
from fakedev.node.pod_resources import allocations_of
from tests.support.kube.node_service import GPU


def test_containers_of_a_pod_stay_apart() -> None:
    """An entry for each device becomes one allocation of each resource; other resources are left out."""
    answer = POD_RESOURCES.messages["ListPodResourcesResponse"]()
    pod = answer.pod_resources.add(name="train", namespace="ns")
    main = pod.containers.add(name="main")
    for resource, device in ((GPU, "GPU-1"), ("other.com/nic", "n0"), (GPU, "GPU-0"), ("nvidia.com/mig-1g", "MIG-1")):
        main.devices.add(resource_name=resource, device_ids=[device])
    pod.containers.add(name="sidecar").devices.add(resource_name=GPU, device_ids=["GPU-2"])
    answer.pod_resources.add(name="web", namespace="ns").containers.add(name="main")
    assert list(allocations_of(answer, {GPU, "nvidia.com/mig-1g"})) == [
        Allocation("ns", "train", "main", GPU, ("GPU-0", "GPU-1")),
        Allocation("ns", "train", "main", "nvidia.com/mig-1g", ("MIG-1",)),
        Allocation("ns", "train", "sidecar", GPU, ("GPU-2",)),
    ]


def test_claims() -> None:
    answer = POD_RESOURCES.messages["ListPodResourcesResponse"]()
    container = answer.pod_resources.add(name="train", namespace="ns").containers.add(name="main")
    dynamic = container.dynamic_resources.add(claim_name="claim", claim_namespace="ns")
    for device in ("gpu-0", "gpu-1"):
        dynamic.claim_resources.add(driver_name="gpu.nvidia.com", pool_name="a", device_name=device)
    dynamic.claim_resources.add(driver_name="other", pool_name="a", device_name="x")
    assert list(allocations_of(answer, {"gpu.nvidia.com"})) == [
        Allocation("ns", "train", "main", "gpu.nvidia.com", ("gpu-0", "gpu-1"), "claim", "a")
    ]


def test_the_order_of_the_kubelet_does_not_matter() -> None:
    """It lists devices in changing order, and once for each NUMA node: the allocations stay the same."""
    answers = []
    for entries in (["d", "b", "a", "b", "c"], ["a", "c", "b", "d", "d"]):
        answer = POD_RESOURCES.messages["ListPodResourcesResponse"]()
        container = answer.pod_resources.add(name="train", namespace="ns").containers.add(name="main")
        for entry in entries:
            container.devices.add(resource_name="x/b" if entry == "d" else "x/a", device_ids=[entry])
        dynamic = container.dynamic_resources.add(claim_name="claim", claim_namespace="ns")
        for entry in entries:
            dynamic.claim_resources.add(driver_name="driver", pool_name="a", device_name=entry)
        answers.append(list(allocations_of(answer, {"x/a", "x/b", "driver"})))
    assert answers[0] == answers[1]
    assert [each.ids for each in answers[0]] == [("a", "b", "c", "d"), ("a", "b", "c"), ("d",)]


def test_very_many_devices_of_a_container() -> None:
    answer = POD_RESOURCES.messages["ListPodResourcesResponse"]()
    container = answer.pod_resources.add(name="p", namespace="n").containers.add(name="c")
    ids = [f"GPU-{number:04}" for number in range(1001)]
    for each in ids:
        container.devices.add(resource_name=GPU, device_ids=[each])
    found = list(allocations_of(answer, {GPU}))
    assert [len(each.ids) for each in found] == [500, 500, 1]
    assert [device for each in found for device in each.ids] == ids
