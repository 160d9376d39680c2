"""Resource claims, in memory: the devices that they give to pods, and what pages show of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fakedev.kubernetes.pods import DEVICES
from tests.support.kube.api_server import pod
from tests.support.kube.followed import CLAIMS, DRIVER, GPU, SLICES, FollowedCluster, followed, generation, slices_of

DRA = ", resources: dra"


@pytest.fixture
def cluster(tmp_path: Path) -> FollowedCluster:
    """A node whose devices are offered by slices alone; the application runs."""
    return followed(tmp_path, "a", more=DRA)


def add_claim(
    cluster: FollowedCluster, name: str, devices: dict[str, str], *pods: dict[str, Any]
) -> None:  # fmt: skip
    """A claim that the scheduler has allocated and reserved.

    :param devices: of the node's pool, by request.
    :param pods: as the API has them.
    """
    results = [
        {"request": request, "driver": DRIVER, "pool": "a", "device": device} for request, device in devices.items()
    ]
    reserved = [
        {"resource": "pods", "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]} for each in pods
    ]
    metadata = {"name": name, "namespace": "default"}
    cluster.api.add({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": {}})
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    cluster.api.modify(CLAIMS, name, {"status": status})


def claiming(name: str, claim: str, *containers: str, request: str = "") -> dict[str, Any]:
    """A running pod whose containers use a claim.

    :param containers: their names; none: ``main``.
    :param request: the only one that they use; empty: all.
    """
    item = pod(name, "a")
    use = {"name": "gpus", **({"request": request} if request else {})}
    item["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimName": claim}]
    item["spec"]["containers"] = [
        {"name": container, "image": "busybox", "resources": {"claims": [use]}} for container in containers or ("main",)
    ]
    return item


def rows(cluster: FollowedCluster, **labels: str) -> list[dict[str, str]]:
    """The labels of the rows of the utilization that have a pod, and these labels."""
    found = []
    for text in re.findall(r"^DCGM_FI_(?:DEV_GPU_UTIL|PROF_GR_ENGINE_ACTIVE)\{(.*)\}", cluster.page("a"), re.MULTILINE):
        row = dict(re.findall(r'(\w+)="([^"]*)"', text))
        if row.get("pod") and labels.items() <= row.items():
            found.append(row)
    return found


def shown(cluster: FollowedCluster, **labels: str) -> set[tuple[str, str, str]]:
    """GPU, pod and container of these rows."""
    return {(row["gpu"], row["pod"], row["container"]) for row in rows(cluster, **labels)}


def test_limits_without_a_device_plugin(cluster: FollowedCluster) -> None:
    """No plugin gives a pod anything, and an Event says so; what one gave it before, its annotation has."""
    board = cluster.rows("a")[3]["UUID"]
    cluster.add(pod("without", "a", {GPU: "1"}), ticks=2)
    cluster.add(pod("before", "a", {GPU: "1"}, annotations={DEVICES: f'{{"main": ["{board}"]}}'}), ticks=2)
    assert cluster.held("a") == {("before", "main"): [board]}
    assert cluster.reasons("without") == ["UnexpectedAdmissionError"]


def test_a_claim(cluster: FollowedCluster) -> None:
    """The pod is on the device of its claim, with the labels of dcgm-exporter, and works there; then it is gone."""
    item = cluster.add(claiming("train", "train-gpu"), ticks=2)
    assert shown(cluster) == set()
    add_claim(cluster, "train-gpu", {"gpu": "gpu-5"}, item)
    cluster.tick(3)
    (row, *_) = rows(cluster)
    assert (row["gpu"], row["pod"], row["namespace"], row["container"]) == ("5", "train", "default", "main")
    assert {name: text for name, text in row.items() if name.startswith("dra_")} == {
        "dra_claim_name": "train-gpu", "dra_claim_namespace": "default", "dra_driver_name": DRIVER,
        "dra_pool_name": "a", "dra_device_name": "gpu-5",
    }  # fmt: skip
    first = cluster.app.fleet.roster.node("a").first  # type: ignore[union-attr]
    assert 0.8 <= cluster.app.fleet.usage_ratio[first + 5] <= 1.0
    cluster.remove(CLAIMS, "train-gpu", ticks=2)
    assert shown(cluster) == set()


def test_a_device_that_is_not_there(cluster: FollowedCluster) -> None:
    item = cluster.api.add(claiming("train", "old"))
    add_claim(cluster, "old", {"gpu": "gpu-99"}, item)
    cluster.tick(3)
    (event,) = cluster.api.items("events")
    assert (event["reason"], event["involvedObject"]["name"]) == ("UnknownDevice", "train")
    assert "gpu-99" in event["message"]


def test_instances(tmp_path: Path) -> None:
    """MIG devices: slices name profile and memory slices; pages show the claim at the instance."""
    cluster = followed(tmp_path, "a", more=DRA, pool=", mig: [1g.10gb, 2g.20gb]")
    devices = {each["name"]: each for each in slices_of(cluster)[0]["spec"]["devices"]}
    assert len(devices) == 16
    (name,) = [device for device in devices if device.startswith("gpu-0-mig-2g20gb-14-")]
    assert devices[name]["attributes"]["type"]["string"] == "mig"
    item = cluster.api.add(claiming("train", "slice"))
    add_claim(cluster, "slice", {"gpu": name}, item)
    cluster.tick(3)
    (row, *_) = rows(cluster)
    assert (row["GPU_I_PROFILE"], row["dra_device_name"], row["dra_mig_profile"]) == ("2g.20gb", name, "2g.20gb")
    assert row["dra_mig_device_uuid"] == devices[name]["attributes"]["uuid"]["string"]


def test_fakedev_is_started_again(cluster: FollowedCluster) -> None:
    """Slices that are there already are not written; claims give their pods the same devices."""
    item = cluster.api.add(claiming("train", "train-gpu"))
    add_claim(cluster, "train-gpu", {"gpu": "gpu-5"}, item)
    cluster.tick(3)
    before = cluster.api.requests.copy()
    cluster.start_again()
    cluster.tick(4)
    assert shown(cluster) == {("5", "train", "main")}
    requested = {verb for verb, resource, _ in cluster.api.requests_since(before) if resource == SLICES}
    assert requested == {"list", "watch"}
    assert generation(cluster) == 1


def test_a_claimed_device_that_fails(tmp_path: Path) -> None:
    """The pod is evicted, where that is configured: it has the device by its claim."""
    cluster = followed(tmp_path, "a", more=DRA + ", pods: {struck: evict}")
    item = cluster.api.add(claiming("train", "train-gpu"))
    add_claim(cluster, "train-gpu", {"gpu": "gpu-5"}, item)
    cluster.tick(3)
    cluster.say("fault xid code=79 devices=a/5", ticks=3)
    assert cluster.api.requests["create", "pods/eviction", 201] == 1


MPS = {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "10Gi"}}
SLICES_OF_TIME = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}


def configured(cluster: FollowedCluster, name: str, devices: dict[str, str], *configs: tuple[list[str], Any]) -> None:
    """A running pod with a claim whose requests have parameters for the driver, as NVIDIA's examples have them."""
    item = cluster.api.add(claiming(name, name))
    add_claim(cluster, name, devices, item)
    claim = cluster.api.get(CLAIMS, name, "default")
    opaque = [
        {
            "source": "FromClaim", "requests": requests,
            "opaque": {"driver": DRIVER, "parameters": {"apiVersion": "resource.nvidia.com/v1beta1", **parameters}},
        }
        for requests, parameters in configs
    ]  # fmt: skip
    allocation = claim["status"]["allocation"]
    allocation["devices"]["config"] = opaque
    cluster.modify(CLAIMS, name, {"status": {"allocation": allocation}}, ticks=6)


def test_shared_by_mps_and_by_time(cluster: FollowedCluster) -> None:
    """MPS bounds how busy the engines get, and the memory; time slices bound nothing. Each request has its own."""
    configured(
        cluster, "both", {"ts-gpu": "gpu-0", "mps-gpu": "gpu-1"},
        (["ts-gpu"], {"kind": "GpuConfig", "sharing": SLICES_OF_TIME}),
        (["mps-gpu"], {"kind": "GpuConfig", "sharing": MPS}),
    )  # fmt: skip
    assert cluster.events("both") == []
    power = [float(row["value"]) for row in cluster.rows("a", "DCGM_FI_DEV_POWER_USAGE")[:2]]
    memory = [float(row["value"]) for row in cluster.rows("a", "DCGM_FI_DEV_FB_USED")[:2]]
    usage = [float(row["value"]) for row in cluster.rows("a")[:2]]
    assert usage[1] > 75
    assert memory[0] > 15_000
    assert 10_000 < memory[1] < 11_000
    assert power[1] < power[0] - 50
    spec = [each.spec for each in cluster.app.fleet.workloads.by_id.values()]
    found = {each.devices: [one.percent for one in each.intensities] for each in spec}
    assert found == {("a/0",): [], ("a/1",): [50.0]}


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"kind": "GpuConfig", "sharing": {**MPS, "strategy": "MPSS"}}, "sharing.strategy: must be TimeSlicing or MPS"),
        ({"kind": "GpuConfig", "share": {}}, "parameters.share: unknown; did you mean sharing?"),
        ({"kind": "MigDeviceConfig"}, "parameters.kind: must be GpuConfig"),
        (
            {"kind": "GpuConfig", "sharing": {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 101}}},
            "mpsConfig.defaultActiveThreadPercentage: must be a whole number from 0 to 100",
        ),
        (
            {"kind": "GpuConfig", "sharing": {**MPS, "timeSlicingConfig": {}}},
            "sharing.timeSlicingConfig: cannot be used with the strategy MPS",
        ),
    ],
)
def test_parameters_that_the_driver_refuses(cluster: FollowedCluster, parameters: Any, text: str) -> None:
    """The pod has no device, and an Event at it says what is wrong, as where a kubelet prepares the claim."""
    configured(cluster, "train", {"gpu": "gpu-0"}, (["gpu"], parameters))
    ((_, reason, message),) = cluster.events("train")
    assert (reason, message) == ("FailedPrepareDynamicResources", f"claim default/train: {text}")
    assert shown(cluster) == set()
