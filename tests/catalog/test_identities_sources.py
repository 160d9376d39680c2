"""Identities that follow the source of their exporter: names, help texts, labels and order, as the source has them."""

from __future__ import annotations

import json
import re

import pytest

from fakedev.config.load import load
from fakedev.config.sample_page import sample_page
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import Files
from tests.support.identities import TITLES
from tests.support.paths import ROOT

FAKE = [
    ("dcgm_gpu_temp", "DCGM_FI_DEV_GPU_TEMP", "GPU temperature in Celsius"),
    ("dcgm_power_usage", "DCGM_FI_DEV_POWER_USAGE", "Power usage in watts"),
    ("dcgm_gpu_utilization", "DCGM_FI_DEV_GPU_UTIL", "GPU utilization percentage"),
    ("dcgm_mem_copy_utilization", "DCGM_FI_DEV_MEM_COPY_UTIL", "Memory utilization percentage"),
    ("dcgm_sm_clock", "DCGM_FI_DEV_SM_CLOCK", "SM clock in MHz"),
    ("dcgm_mem_clock", "DCGM_FI_DEV_MEM_CLOCK", "Memory clock in MHz"),
    ("dcgm_fb_total", "DCGM_FI_DEV_FB_TOTAL", "Total framebuffer in MB"),
    ("dcgm_fb_used", "DCGM_FI_DEV_FB_USED", "Used framebuffer in MB"),
    ("dcgm_fb_free", "DCGM_FI_DEV_FB_FREE", "Free framebuffer in MB"),
]
TPU = {
    "duty_cycle": "Percent of time when the TPU was actively processing",
    "memory_bandwidth_utilization": "Memory bandwidth utilization of the TPU device",
    "memory_total": "Total memory available on the TPU in bytes",
    "memory_used": "Allocated TPU memory in bytes",
    "tensorcore_utilization": "Tensorcore percent utilization of the TPU device",
}
PER_NODE = {"memory_bandwidth_utilization", "tensorcore_utilization"}
NEURON = [
    ("execution_errors_total", "Execution errors total"),
    ("execution_errors_created", "Execution errors total"),
    ("execution_status_total", "Execution status total"),
    ("execution_status_created", "Execution status total"),
    ("execution_latency_seconds", "Execution latency in seconds"),
    ("neuron_runtime_memory_used_bytes", "Runtime memory used bytes"),
    *[
        (f"neuroncore_memory_usage_{what}", f"NeuronCore memory utilization for {what}")
        for what in ("constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors")
    ],
    ("neuron_runtime_vcpu_usage_ratio", "Runtime vCPU utilization ratio"),
    ("neuroncore_utilization_ratio", "NeuronCore utilization ratio"),
    ("system_memory_total_bytes", "System memory total_bytes bytes"),
    ("system_memory_used_bytes", "System memory used_bytes bytes"),
    ("system_swap_total_bytes", "System swap total_bytes bytes"),
    ("system_swap_used_bytes", "System swap used_bytes bytes"),
    ("hardware_ecc_events_total", "Hardware ecc events total"),
    ("hardware_ecc_events_created", "Hardware ecc events total"),
    ("system_vcpu_count", "System vCPU count"),
    ("system_vcpu_usage_ratio", "System CPU utilization ratio"),
    ("instance_info", "EC2 instance information"),
    ("neuron_hardware_info", "Neuron Hardware Information"),
]


def helps(page: str) -> list[tuple[str, str]]:
    """The families with their help texts, in the order of the page."""
    return re.findall(r"^# HELP (\S+) (.*)$", page, re.MULTILINE)


@pytest.mark.parametrize(("version", "place"), [("1", 0), ("2026.01", 1)])
def test_dcgm_fake(version: str, place: int) -> None:
    """All declarations first, then all rows sorted; whole numbers, as it makes up no others."""
    page = sample_page(f"dcgm-fake@{version}", "v100")[1]
    assert [name for name, _ in helps(page)[:7]] == [names[place] for names in FAKE[:7]]
    assert sorted(helps(page)) == sorted((names[place], names[2]) for names in FAKE)
    rows = [line for line in page.splitlines() if not line.startswith("#")]
    assert rows == sorted(rows)
    assert all(re.fullmatch(r"\d+\.0", row.split()[-1]) for row in rows)
    labels = {tuple(re.findall(r'(\w+)="', row)) for row in rows}
    more = ("Hostname", "UUID", "modelName", "pci_bus_id") if place else ()
    assert labels == {("gpu", "device", *more)}


def test_tpu() -> None:
    """A family of containers and one of nodes each."""
    texts = dict(helps(sample_page("tpu@1", "h100")[1]))
    for name, text in TPU.items():
        assert texts.pop(name) == text
        assert texts.pop(f"{name}_node") == (f"{text} per node" if name in PER_NODE else text)
    assert not texts


def neuron_page(device: str, *places: str) -> str:
    """The page of two devices with full load at some places."""
    host = {"vcpu_count": "192", "system_memory_bytes": "2147483648000", "system_swap_bytes": "0"}
    pool = {
        "name": "p", "nodes": ["n"], "device": device, "devices-per-node": 2, "identity": "neuron",
        "labels": {**host, "region": "us-east-1"},
    }  # fmt: skip
    work = [{"name": place, "devices": place, "profile": "100:0:0"} for place in places]
    text = json.dumps({"fleet": {"pools": [pool]}, "workloads": {"listen": [], "base": work}})
    configuration = load(None, Files(environ={}), text=text)
    fleet, identity = Fleet(configuration.fleet), configuration.identities["p"]
    fleet.advance()
    return Page(LabelCache(identity, DeviceSource.of(fleet, identity)), fleet.roster.nodes).render(fleet.shown).decode()


def test_neuron() -> None:
    """The sizes of the host are labels of the pool."""
    page = neuron_page("h100", "*/0")
    assert helps(page) == NEURON
    assert 'system_vcpu_count{instance_id="n",instance_name="",region="us-east-1"} 192.0\n' in page


def test_neuron_cores() -> None:
    """Work on a device is on each of its cores; cores are numbered over the devices, and may have several runtimes."""
    page = neuron_page("trainium2", "*/0", "*/1/2", "n/1/2")
    pattern = r'^neuroncore_utilization_ratio{.*neuroncore="(\d+)".*runtime_tag="(\d+)"} (.*)$'
    rows = re.findall(pattern, page, re.MULTILINE)
    assert [core for core, _, _ in rows] == ["0", "1", "2", "3", "6", "6"]
    assert [float(usage) for _, _, usage in rows] == pytest.approx([1, 1, 1, 1, 0.5, 0.5])
    assert len({runtime for _, runtime, _ in rows}) == 3
    assert 'neuron_device_count="2",neuron_device_memory_size="103079215104",neuroncore_per_device_count="4"' in page


@pytest.mark.parametrize(
    ("version", "labels"),
    [
        ("1.0", ["card_model", "gpu_uuid", "serial_number"]),
        ("1.1", ["card_model", "gpu_id", "hostname", "serial_number"]),
    ],
)
def test_the_first_releases_of_amd(version: str, labels: list[str]) -> None:
    """They have no labels of partitions and no texts of counters; nodes are counted without a label."""
    page = sample_page(f"amd-device-metrics@{version}", "mi300x")[1]
    (row, *_) = re.findall(r"^gpu_ecc_correct_total{(.*)}", page, re.MULTILINE)
    assert re.findall(r'(\w+)="', row) == labels
    texts = dict(helps(page))
    assert texts["gpu_ecc_correct_total"] == ""
    assert texts["gpu_package_power"] == "package power in Watts"
    assert "gpu_health" not in texts
    assert "\ngpu_nodes_total 2\n" in page


def test_ascend() -> None:
    """The number of chips has no label."""
    assert "\nmachine_npu_nums 2\n" in sample_page("ascend@1", "h100")[1]


@pytest.mark.parametrize("head", ["| identity | stands for |", "| identity | of its exporter's families |"])
def test_the_document_names_each(head: str) -> None:
    """What it stands for, and what of it is missing, and why."""
    text = (ROOT / "doc" / "identities.md").read_text(encoding="utf-8")
    table = text.partition(head)[2].partition("\n\n")[0]
    # The releases of dcgm-exporter are one identity, whose releases are in a table of their own.
    names = {title for title in TITLES if not title.startswith("dcgm@")} | {"dcgm@VERSION"}
    assert sorted(re.findall(r"`([\w.-]+@[\w.-]+)`", table)) == sorted(names)
