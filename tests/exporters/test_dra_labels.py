"""The labels of dcgm-exporter for devices that pods have by a resource claim (Dynamic Resource Allocation)."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from fakedev.exporters.cache import Pages
from fakedev.fleet.fleet import Fleet
from tests.support.configurations import loaded
from tests.support.fleet.fleets import start

CLAIMED = {
    "dra_claim_name": "train-gpu-x7x2k", "dra_claim_namespace": "ml", "dra_device_name": "gpu-1",
    "dra_driver_name": "gpu.nvidia.com", "dra_pool_name": "dgx-0",
}  # fmt: skip
OF_INSTANCE = {"dra_mig_device_uuid": "MIG-4b1f", "dra_mig_profile": "1g.10gb"}


def rows(identity: str, labels: dict[str, str], word: str, keys: str = "") -> list[str]:
    """The labels after the host's of each row of a family, with one workload on a device."""
    text = f"""
fleet:
  epoch: 1700000000
  pools: [{{name: p, nodes: [dgx-0], device: h100, devices-per-node: 2, identity: {identity}{keys}}}]
web: []
workloads: {{listen: []}}
"""
    configuration = loaded(text, {})
    fleet = Fleet(configuration.fleet)
    start(fleet, word, pod="train-0", namespace="ml", container="main", labels=labels)
    fleet.advance()
    page = bytes(Pages(fleet, configuration.identities, Clock()).fleet_page().response().body).decode()
    found = [line for line in page.splitlines() if line.startswith("DCGM_FI_DEV_FB_USED{")]
    return [line.partition('="dgx-0"')[2].partition("}")[0].lstrip(",") for line in found]


@pytest.mark.parametrize("identity", ["dcgm@4.8.2", "dcgm@4.8.3"])
def test_a_claimed_device_among_others(identity: str) -> None:
    """They stand between the labels of the container and of the pod, by name; other devices have none of them."""
    # From 4.8.3 on rows are in the order of their labels.
    other, claimed = sorted(rows(identity, CLAIMED, "dgx-0/1"), key=len)
    driver = 'DCGM_FI_DRIVER_VERSION="550.163.01"'
    assert other == driver
    assert claimed == (
        f'{driver},container="main",dra_claim_name="train-gpu-x7x2k",dra_claim_namespace="ml",dra_device_name="gpu-1",'
        'dra_driver_name="gpu.nvidia.com",dra_pool_name="dgx-0",namespace="ml",pod="train-0"'
    )


def test_an_instance() -> None:
    """A claimed MIG device has its profile and its UUID too."""
    found = rows("dcgm@4.8.2", {**CLAIMED, **OF_INSTANCE}, "dgx-0/0/1", ", mig: [1g.10gb, 1g.10gb]")
    assert [row.count("dra_") for row in found] == [0, 7, 0, 0]
    assert ',dra_mig_device_uuid="MIG-4b1f",dra_mig_profile="1g.10gb",dra_pool_name="dgx-0",namespace=' in found[1]


def test_a_pod_without_a_claim() -> None:
    """Devices of the device plugin have the labels of before."""
    row = rows("dcgm@4.8.2", {}, "dgx-0/1")[1]
    assert row.endswith(',container="main",namespace="ml",pod="train-0"')
    assert "dra_" not in row
