"""Configurations of the benchmarks: fleets of several sizes, in two identities."""

from __future__ import annotations

import json
from pathlib import Path

#: A pod on every device, so that every line has all its labels.
_EVERYWHERE = '{name: train, devices: all, profile: "60:20:0", pod: train-0, namespace: research, container: main}'


def dcgm(devices: int, web: str = '"127.0.0.1:0"', speed: float = 1.0) -> str:
    """Nodes of 8 H100s, shown as by dcgm-exporter with pod labels."""
    return f"""
version: 1
fleet:
  speed: {speed}
  pools: [{{name: dgx, nodes: {devices // 8}, device: h100, devices-per-node: 8, identity: dcgm}}]
web: [{web}]
workloads:
  listen: ["{{folder}}/workload.sock"]
  base: [{_EVERYWHERE}]
log: {{level: warn}}
"""


def original(devices: int, folder: Path) -> str:
    """4 metrics in the JSON of the original exporter: device type, identity and device list; nodes of 1000 at most."""
    nodes = -(-devices // 1000)
    files = {
        "type.json": {
            "DeviceLabels": {"pciid": "0x4905", "name": "A device for benchmarks [0x4905]"},
            "MetricLimits": {
                "frequency": {"Min": 300, "Max": 1650},
                "memory": {"Min": 1048576, "Max": 4007657472},
                "power": {"Min": 3, "Max": 35},
                "temperature": {"Min": 20, "Max": 90},
            },
        },
        "identity.json": {
            "DeviceLabelMap": {"pciid": "pci_dev", "addr": "pci_bdf", "file": "dev_file"}
            | ({"node": "node"} if nodes > 1 else {}),
            "MetricMap": {
                "frequency": "bench_frequency_mhz",
                "memory": "bench_memory_used_bytes",
                "power": "bench_power_watts",
                "temperature": "bench_temperature_celsius",
            },
            "MetricLabels": {"frequency": {"location": "gpu", "type": "actual"}, "temperature": {"location": "gpu"}},
        },
        "devices.json": {
            "DeviceLabels": [
                {"file": f"card{n}", "addr": f"{n >> 16:04x}:{n >> 8 & 255:02x}:{n & 255:02x}.0"}
                for n in range(devices // nodes)
            ]
        },
        "load.json": {"Name": "bench", "Profile": [{"Load": 20, "Fluctuation": 10}]},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent="\t"))
    return f"""
version: 1
fleet:
  pools:
    - name: bench
      nodes: {nodes}
      device: {folder}/type.json
      devices: {folder}/devices.json
      devices-per-node: {devices // nodes}
      identity: {folder}/identity.json
web: ["127.0.0.1:0"]
workloads:
  listen: ["{{folder}}/workload.sock"]
  base: [{{file: {folder}/load.json, devices: all}}]
log: {{level: warn}}
"""


def bare_workload(number: int, devices: int) -> bytes:
    """What the original's client sends for a workload that stays until it is stopped."""
    content = {
        "Name": f"bench-{number}",
        "Repeat": 0,
        "Profile": [{"Load": 10, "Fluctuation": 5, "Seconds": 300}, {"Load": 5, "Fluctuation": 0, "Seconds": 5}],
        "Devices": [f"card{number % devices}"],
        "Limits": None,
    }
    return json.dumps(content, indent="\t").encode()
