"""The labels of GPU feature discovery, of the GPU operator and of AMD's node labeller."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.spec.fleet_spec import DeviceSpec
from fakedev.fleet.spec.offers import MigStrategy
from fakedev.kubernetes.devices.dra import dra_devices
from fakedev.kubernetes.devices.offered_devices import NodeDevices
from fakedev.kubernetes.nodes.node_labels import family, node_labels, product_value
from fakedev.kubernetes.runai.operator import node_topology
from tests.kubernetes.objects import node, node_of, pool, typed
from tests.support.fleet.divided_devices import parts_of

NOW = 1_700_000_000.5
VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
KEY = re.compile(r"(?:nvidia|(?:beta\.)?amd)\.com/[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def of(devices: NodeDevices, *ends: str) -> list[str | None]:
    """Some labels of a node, without the domain."""
    labels = node_labels(devices, NOW)
    return [labels.get(f"nvidia.com/{end}") for end in ends]


def gpu(devices: NodeDevices, resource: str = "gpu") -> list[str | None]:
    """Product, count, replicas, strategy of sharing and memory of a resource."""
    ends = ("product", "count", "replicas", "sharing-strategy", "memory")
    return of(devices, *(f"{resource}.{end}" for end in ends))


def test_eight_h100() -> None:
    expected = {
        "gfd.timestamp": "1700000000",
        "gpu.product": "NVIDIA-H100-80GB-HBM3",
        "gpu.count": "8",
        "gpu.memory": "81559",
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
        "gpu.family": "hopper",
        "gpu.compute.major": "9",
        "gpu.compute.minor": "0",
        "gpu.mode": "compute",
        "gpu.machine": "DGX-H100",
        "gpu.present": "true",
        "mig.capable": "true",
        "mps.capable": "false",
        "vgpu.present": "false",
        "cuda.driver-version.major": "550",
        "cuda.driver-version.minor": "163",
        "cuda.driver-version.revision": "01",
        "cuda.driver-version.full": "550.163.01",
        "cuda.runtime-version.major": "12",
        "cuda.runtime-version.minor": "4",
        "cuda.runtime-version.full": "12.4",
        "cuda.driver.major": "550",
        "cuda.driver.minor": "163",
        "cuda.driver.rev": "01",
        "cuda.runtime.major": "12",
        "cuda.runtime.minor": "4",
    }
    deployed = (
        "container-toolkit", "dcgm", "dcgm-exporter", "device-plugin", "driver", "gpu-feature-discovery", "mig-manager",
        "node-status-exporter", "operator-validator",
    )  # fmt: skip
    expected |= {f"gpu.deploy.{each}": "true" for each in deployed}
    assert node_labels(node("h100"), NOW) == {f"nvidia.com/{name}": value for name, value in expected.items()}


def test_sharing() -> None:
    """Shared boards say so in their name, unless the resource is renamed."""
    assert gpu(node("t4", 2, replicas=4)) == ["Tesla-T4-SHARED", "2", "4", "time-slicing", "15360"]
    assert gpu(node("t4", 2, replicas=4, is_renamed=True)) == ["Tesla-T4", "2", "4", "time-slicing", "15360"]
    assert of(node("t4", 2), "mig.capable", "gpu.deploy.mig-manager", "mig.strategy") == ["false", None, None]


class TestSingle:
    def test_instances(self) -> None:
        devices = node("a100", 2, "3g.20gb", "3g.20gb", strategy=MigStrategy.SINGLE)
        assert gpu(devices) == ["NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", "4", "1", "none", "19968"]
        engines = [f"gpu.engines.{each}" for each in ("copy", "decoder", "encoder", "jpeg", "ofa")]
        assert of(devices, "mig.strategy", "gpu.multiprocessors") == ["single", "42"]
        assert of(devices, "gpu.slices.gi", "gpu.slices.ci") == ["3", "3"]
        assert of(devices, *engines) == ["3", "2", "0", "0", "0"]
        assert of(devices, "gpu.family", "mig.config.state") == ["ampere", "success"]

    def test_shared(self) -> None:
        devices = node("a100", 1, "7g.40gb", strategy=MigStrategy.SINGLE, replicas=2)
        assert gpu(devices) == ["NVIDIA-A100-SXM4-40GB-MIG-7g.40gb-SHARED", "1", "2", "time-slicing", "40192"]

    def test_without_mig(self) -> None:
        devices = node("a100", 2, strategy=MigStrategy.SINGLE)
        assert gpu(devices) == ["NVIDIA-A100-SXM4-40GB", "2", "1", "none", "40960"]
        assert of(devices, "mig.strategy") == ["single"]

    @pytest.mark.parametrize("parts", [("3g.20gb", "1g.5gb"), ("1g.5gb", "1g.5gb+me")])
    def test_invalid(self, parts: tuple[str, ...]) -> None:
        devices = node("a100", 2, *parts, strategy=MigStrategy.SINGLE)
        assert gpu(devices) == ["NVIDIA-A100-SXM4-40GB-MIG-INVALID", "0", "0", "none", "0"]
        assert of(devices, "gpu.slices.gi", "gpu.multiprocessors") == [None, None]

    def test_empty(self) -> None:
        devices = node_of(pool(typed("a100", mig_mode="1"), 2, strategy=MigStrategy.SINGLE))
        assert gpu(devices)[:2] == ["NVIDIA-A100-SXM4-40GB-MIG-INVALID", "0"]


class TestMixed:
    def test_profiles(self) -> None:
        """Labels for each profile; the boards themselves are offered 0 times."""
        devices = node("a100", 2, "3g.20gb", "1g.5gb", "1g.5gb+me", strategy=MigStrategy.MIXED)
        model = "NVIDIA-A100-SXM4-40GB"
        assert gpu(devices) == [model, "2", "0", "none", "40960"]
        assert gpu(devices, "mig-3g.20gb") == [f"{model}-MIG-3g.20gb", "2", "1", "none", "19968"]
        assert gpu(devices, "mig-1g.5gb") == [f"{model}-MIG-1g.5gb", "2", "1", "none", "4864"]
        assert gpu(devices, "mig-1g.5gb.me") == [f"{model}-MIG-1g.5gb.me", "2", "1", "none", "4864"]
        assert of(devices, "mig-1g.5gb.me.engines.jpeg", "mig-1g.5gb.engines.jpeg") == ["1", "0"]

    def test_some_whole(self) -> None:
        divided = {0: DeviceSpec(0, parts=parts_of("7g.40gb"))}
        devices = node_of(pool("a100", 2, strategy=MigStrategy.MIXED, devices=divided))
        assert gpu(devices) == ["NVIDIA-A100-SXM4-40GB", "2", "1", "none", "40960"]
        assert of(devices, "mig-7g.40gb.count", "mig-7g.40gb.multiprocessors") == ["1", "98"]

    def test_unknown_board(self) -> None:
        """Without a source there are no engines; slices follow from the profile's name."""
        devices = node_of(pool(typed("a100", pci_device_id="0x9999"), 1, "3g.20gb", strategy=MigStrategy.MIXED))
        assert of(devices, "mig-3g.20gb.multiprocessors", "mig-3g.20gb.engines.copy") == [None, None]
        assert of(devices, "mig-3g.20gb.slices.gi", "mig-3g.20gb.memory") == ["3", "19968"]


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ("6.1", "pascal"), ("7.0", "volta"), ("7.5", "turing"), ("8.0", "ampere"), ("8.6", "ampere"),
        ("8.9", "ada-lovelace"), ("9.0", "hopper"), ("10.0", "blackwell"), ("12.0", "blackwell"), ("13.0", "rubin"),
        ("11.0", "undefined"), ("", "undefined"), ("9", "undefined"),
    ],
)  # fmt: skip
def test_family(capability: str, name: str) -> None:
    assert family(capability) == name


def test_what_is_unknown() -> None:
    """Facts that are missing or odd have no labels; a server that is too small for the node is not its machine."""
    plain = node_of(pool(typed("h100", driver_version="r550", cuda_version="twelve", compute_cap=""), 9))
    names = ("cuda.driver.major", "cuda.runtime.major", "gpu.family", "gpu.compute.major", "gpu.machine")
    assert of(plain, *names) == [None, None, None, None, "unknown"]
    short = node_of(pool(typed("h100", driver_version="550.54")))
    assert of(short, "cuda.driver.rev", "cuda.driver-version.full") == ["", "550.54"]
    assert of(node_of(pool(typed("h100", pci_sub_class="0"))), "gpu.mode") == ["graphics"]
    assert of(node_of(pool(typed("h100", pci_base_class="12"))), "gpu.mode") == ["unknown"]


def test_clique() -> None:
    """Where a fabric has a UUID that is not all zeros, and all boards have the same."""
    uuid = "a2221497-dbce-4964-8826-684c3694fd45"
    assert of(node("h100"), "gpu.clique") == [None]
    assert of(node_of(pool(typed("h100", fabric_cluster_uuid=uuid))), "gpu.clique") == [f"{uuid}.0"]
    assert of(node_of(pool(typed("h100", fabric_cluster_uuid="0" * 8 + "-0000"))), "gpu.clique") == [None]
    other = {3: DeviceSpec(3, facts={"fabric_clique_id": "7"})}
    assert of(node_of(pool(typed("h100", fabric_cluster_uuid=uuid), devices=other)), "gpu.clique") == [None]


def test_a_driver_of_the_pool() -> None:
    """The driver decides the versions in labels, attributes of DRA and the operator's topology, with its CUDA."""
    versions = ("cuda.driver-version.full", "cuda.driver.rev", "cuda.runtime-version.full", "cuda.runtime.major")
    boards = node_of(replace(pool("h100"), facts={"driver_version": "418.87.01"}))
    assert of(boards, *versions) == ["418.87.01", "01", "10.1", "10"]
    attributes, topology = dra_devices(boards)[0].attributes, node_topology(boards, {})
    assert attributes["driverVersion"] == {"version": "418.87.1"}
    assert attributes["cudaDriverVersion"] == {"version": "10.1.0"}
    assert (topology["driverVersion"], topology["cudaVersion"]) == ("418.87.01", "10.1")


def test_amd() -> None:
    """The labels of AMD's node labeller; boards that differ are counted under both prefixes."""
    mixed = replace(pool("amd-mi300x", 3), facts={"driver_version": "6.14.5"})
    same = {
        "amd.com/gpu.driver-version": "6.14.5", "amd.com/gpu.device-id": "74a1", "amd.com/gpu.vram": "192G",
        "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "beta.amd.com/gpu.device-id": "74a1",
        "beta.amd.com/gpu.device-id.74a1": "3", "beta.amd.com/gpu.vram": "192G", "beta.amd.com/gpu.vram.192G": "3",
        "beta.amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
        "beta.amd.com/gpu.product-name.AMD_Instinct_MI300X_OAM": "3",
    }  # fmt: skip
    assert node_labels(node_of(mixed), NOW) == same
    other = {1: DeviceSpec(1, facts={"pci_device_id": "0x74a5"})}
    found = node_labels(node_of(replace(mixed, devices=other)), NOW)
    assert {name: value for name, value in found.items() if "device-id" in name} == {
        f"{prefix}amd.com/gpu.device-id.{value}": count
        for prefix in ("", "beta.") for value, count in (("74a1", "2"), ("74a5", "1"))
    }  # fmt: skip


def test_other_vendors() -> None:
    assert node_labels(node("intel-max-1550", 2), NOW) == {}


@given(st.text(max_size=90), st.lists(st.sampled_from(["MIG", "1g.10gb.me", "SHARED", "INVALID"]), max_size=3))
def test_values_are_valid(model: str, marks: list[str]) -> None:
    value = product_value(model, *marks)
    assert VALUE.fullmatch(value)
    assert value.endswith("-".join(marks))


@pytest.mark.parametrize(
    "devices",
    [
        node("h100"),
        node("a100", 2, "3g.20gb", "1g.5gb+me", strategy=MigStrategy.MIXED),
        node_of(pool(typed("mi300x", product_name="AMD (TM) " * 9, driver_version="6.12.", pci_device_id="?"), 2)),
    ],
)
def test_all_are_valid(devices: NodeDevices) -> None:
    for key, value in node_labels(devices, NOW).items():
        assert KEY.fullmatch(key), key
        assert VALUE.fullmatch(value), key
