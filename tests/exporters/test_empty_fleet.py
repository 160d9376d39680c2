"""Pages of a fleet that has no nodes: as that of a cluster before its first node joins, and after the last one left."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from fakedev.exporters.cache import Pages
from fakedev.fleet.events import ChangeNodes
from fakedev.fleet.fleet import Fleet
from tests.support.configurations import loaded
from tests.support.fleet.faulty_fleets import inject
from tests.support.fleet.fleets import start

TEXT = """
fleet:
  pools: [{{name: gpu, nodes: cluster, device: {device}, devices-per-node: 2, identity: {identity}}}]
kubernetes: {{kubeconfig: config}}
"""


@pytest.mark.parametrize(
    ("device", "identity"),
    [
        *(("h100", each) for each in ("dcgm", "nvidia-gpu-exporter@1", "run-ai", "tpu", "neuron")),
        *(("intel-max-1550", each) for each in ("xpumanager", "xpumd", "collectd")),
        ("amd-mi300x", "amd-device-metrics@1"), ("intel-gaudi-3", "gaudi"),
    ],
)  # fmt: skip
def test_no_nodes(device: str, identity: str) -> None:
    """Each exporter's page of all nodes has no device, then those of the node that joined, then none again."""
    configuration = loaded(TEXT.format(device=device, identity=identity))
    fleet = Fleet(configuration.fleet)
    pages = Pages(fleet, configuration.identities, Clock())

    def page(joined: str = "", left: str = "") -> set[bytes]:
        fleet.apply(ChangeNodes(((joined, "gpu"),) if joined else (), (left,) if left else ()))
        fleet.advance()
        pages.follow(configuration.identities)
        response = pages.fleet_page().response()
        assert response.status == 200
        return {line.partition(b" ")[0] for line in bytes(response.body).splitlines() if not line.startswith(b"#")}

    empty = page()
    assert len(page(joined="a") - empty) > 2
    start(fleet, "a/*", "70:10:0")
    inject(fleet, kind="lost", devices="a/1")
    fleet.advance()
    assert page(left="a") == empty
