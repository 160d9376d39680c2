"""The addresses of a service that a test has started."""

from __future__ import annotations

from pathlib import Path

from fakedev.testing.served_fleet import on_free_ports
from tests.support.configurations import loaded

EVERYTHING = """
version: 1
fleet: {pools: [{name: p, nodes: [a], device: h100, devices-per-node: 2, identity: dcgm}]}
web:
  - {listen: "127.0.0.1:9401", serve: metrics}
  - {listen: "/run/x.sock", token: long-enough}
  - {per-node: "127.64.0.0/16:9400"}
workloads: {listen: ["*:9500", "/run/y.sock"]}
queues: {names: [sleep], listen-clients: ["127.0.0.1:9997"], listen-backends: ["127.0.0.1:9998"]}
journal: {file: /var/log/journal.jsonl}
nvml: {file: /run/nvml.map}
"""


def test_all_addresses_are_free_ports(tmp_path: Path) -> None:
    """Only the addresses of nodes stay; there is one more for the test; files are not written, but that for NVML."""
    given = loaded(EVERYTHING.replace("*:9500", "127.0.0.1:9500"))
    moved = on_free_ports(given, tmp_path)
    assert [each.listen.display for each in moved.web] == [
        "127.0.0.1:0", "127.0.0.1:0", given.web[2].listen.display, "127.0.0.1:0",
    ]  # fmt: skip
    assert [(each.serve, each.token) for each in moved.web[:2]] == [("metrics", None), ("all", "long-enough")]
    assert (moved.web[-1].serve, moved.web[-1].token) == ("all", None)
    assert moved.queues is not None
    others = (*moved.workloads.listen, *moved.queues.clients, *moved.queues.backends)
    assert {(other.listen.host, other.listen.port) for other in others} == {("127.0.0.1", 0)}
    assert moved.journal is None
    assert moved.nvml is not None
    assert moved.nvml.file == str(tmp_path / "nvml.map")
    assert moved.fleet == given.fleet
