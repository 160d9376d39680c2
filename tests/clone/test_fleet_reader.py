"""Nodes, devices, instances and owners from pages."""

from __future__ import annotations

from fakedev.clone.fleet_reader import FleetReader, ObservedNode, Owner
from fakedev.clone.scraped import PageGroup, SourcePage
from fakedev.exporters.samples import read_page
from tests.support.identities import loaded

UUID = "00000000-0000-0000-0000-00000000000"


def line(family: str, value: str, index: int, node: str = "n", more: str = "") -> str:
    return (
        f'{family}{{gpu="{index}",UUID="GPU-{UUID}{index}",device="nvidia{index}",modelName="NVIDIA H100 80GB HBM3",'
        f'{more}Hostname="{node}"}} {value}\n'
    )


def nodes_of(*texts: str, identity: str = "dcgm@4.8.2") -> tuple[ObservedNode, ...]:
    pages = tuple(SourcePage(f"page-{number}", read_page(text)) for number, text in enumerate(texts))
    return FleetReader(loaded(identity)).read(PageGroup(pages))


def test_devices_of_a_node() -> None:
    """By index; values in the quantity's own unit."""
    text = line("DCGM_FI_DEV_GPU_UTIL", "75", 1) + line("DCGM_FI_DEV_GPU_UTIL", "5", 0)
    text += line("DCGM_FI_DEV_FB_USED", "2", 1)
    (node,) = nodes_of(text)
    assert node.name == "n"
    assert [device.index for device in node.devices] == [0, 1]
    assert node.devices[1].unit.facts == {"uuid": f"{UUID}1", "product_name": "NVIDIA H100 80GB HBM3"}
    assert node.devices[1].unit.values == {"usage_ratio": 0.75, "memory_used_bytes": 2 * 2**20}


def test_pages_of_several_nodes() -> None:
    both = nodes_of(line("DCGM_FI_DEV_GPU_UTIL", "5", 0, "a"), line("DCGM_FI_DEV_GPU_UTIL", "5", 0, "b"))
    assert [node.name for node in both] == ["a", "b"]
    one = nodes_of(line("DCGM_FI_DEV_GPU_UTIL", "5", 0, "a") + line("DCGM_FI_DEV_GPU_UTIL", "5", 0, "b"))
    assert one == both


def test_a_node_without_a_name_has_that_of_its_page() -> None:
    """As of an exporter that shows no host."""
    (node,) = nodes_of(line("DCGM_FI_DEV_GPU_UTIL", "5", 0, ""))
    assert node.name == "page-0"


def test_a_page_with_tiles_only() -> None:
    """A device is as busy as its tiles on average; a tile without a number does not count."""
    text = "".join(
        f'neuron_core_utilization_avg{{neuron_device_index="1",neuroncore="{core}"}} {percent}\n'
        for core, percent in ((4, "75"), (5, "25"), (6, "NaN"))
    )
    (node,) = nodes_of(text, identity="neuron-observer@0.2")
    assert [(device.index, device.unit.values) for device in node.devices] == [(1, {"usage_ratio": 0.5})]


def test_instances_and_their_pods() -> None:
    """In order of their ids; each has its own owner and values."""
    text = line("DCGM_FI_DEV_FB_USED", "3", 0, more='GPU_I_PROFILE="1g.10gb",GPU_I_ID="13",pod="p",namespace="ml",')
    text += line("DCGM_FI_DEV_FB_USED", "4", 0, more='GPU_I_PROFILE="3g.40gb",GPU_I_ID="2",')
    (node,) = nodes_of(text)
    first, second = node.devices[0].parts
    assert (first.facts["mig_profile"], first.owner) == ("3g.40gb", Owner())
    assert (second.facts["mig_profile"], second.owner) == ("1g.10gb", Owner("p", "ml"))
    assert second.values == {"memory_used_bytes": 3 * 2**20}


def test_lines_of_no_device_are_of_none() -> None:
    assert nodes_of("go_goroutines 7\n") == ()
