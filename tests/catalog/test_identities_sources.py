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


def test_neuron() -> None:
    """The sizes of the host are labels of the pool."""
    host = {"vcpu_count": "192", "system_memory_bytes": "2147483648000", "system_swap_bytes": "0"}
    pool = {
        "name": "p", "nodes": ["n"], "device": "h100", "devices-per-node": 2, "identity": "neuron",
        "labels": {**host, "region": "us-east-1"},
    }  # fmt: skip
    work = [{"name": "train", "devices": "*/0", "profile": "100:0:0"}]
    text = json.dumps({"fleet": {"pools": [pool]}, "workloads": {"listen": [], "base": work}})
    configuration = load(None, Files(environ={}), text=text)
    fleet, identity = Fleet(configuration.fleet), configuration.identities["p"]
    fleet.advance()
    page = Page(LabelCache(identity, DeviceSource.of(fleet, identity)), fleet.roster.nodes).render(fleet.shown).decode()
    assert helps(page) == NEURON
    assert 'system_vcpu_count{instance_id="n",instance_name="",region="us-east-1"} 192.0\n' in page


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
