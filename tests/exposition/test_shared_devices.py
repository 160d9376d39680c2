"""Devices that several pods share, on pages: the first pod's rows, or rows for each."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.task import Clock

from fakedev.net.web.page_cache import Pages
from fakedev.sim.fleet import Fleet
from tests.support.configurations import loaded
from tests.support.fleets import start, stop

CONFIGURATION = """
fleet:
  epoch: 1700000000
  pools: [{{name: p, nodes: [a, b], device: {device}, devices-per-node: 2, identity: own.yaml}}]
web: []
workloads: {{listen: []}}
"""


class Scene:
    """Two nodes of two devices in an identity that shows pods, and what its pages say of pods."""

    def __init__(self, shared: str, based_on: str = "dcgm", device: str = "h100") -> None:
        own = f"name: own\nbased-on: {based_on}\nshared-devices: {shared}\n"
        configuration = loaded(CONFIGURATION.format(device=device), {"own.yaml": own})
        self.fleet = Fleet(configuration.fleet)
        self.pages = Pages(self.fleet, configuration.identities, Clock())

    def samples(self, family: str) -> list[tuple[Mapping[str, str], float]]:
        """Labels and value of each series of a family, as the parser reads the page of the whole fleet."""
        text = bytes(self.pages.fleet_page().response().body).decode()
        return [
            (sample.labels, sample.value)
            for each in text_string_to_metric_families(text)
            for sample in each.samples
            if sample.name == family
        ]

    def pods(self, family: str = "DCGM_FI_DEV_GPU_UTIL", pod: str = "pod") -> list[str]:
        """The pod of each row of the family, in the order of the page."""
        return [labels.get(pod, "") for labels, _ in self.samples(family)]


def test_the_first_on_it() -> None:
    """As dcgm-exporter maps a device to one pod: as many rows as there are devices, for any pods that share them."""
    scene = Scene("first")
    for pod in ("one", "two", "three"):
        start(scene.fleet, "a/0", pod=pod)
    scene.fleet.advance()
    assert scene.pods() == ["one", "", "", ""]
    stop(scene.fleet, "w1")
    scene.fleet.advance()
    assert scene.pods() == ["two", "", "", ""]


def test_rows_for_each() -> None:
    """Rows with the device's values for every container on it, one after the other; a free device keeps its row."""
    scene = Scene("each")
    for pod, devices in (("one", "a/0"), ("two", "a/0,b/1"), ("three", "a/0")):
        start(scene.fleet, devices, "20:0:0", pod=pod)
    scene.fleet.advance()
    assert scene.pods() == ["one", "two", "three", "", "", "two"]
    assert [value for _, value in scene.samples("DCGM_FI_DEV_GPU_UTIL")] == [60, 60, 60, 0, 0, 20]
    stop(scene.fleet, "w2")
    scene.fleet.advance()
    assert scene.pods() == ["one", "three", "", "", ""]


def test_one_container_has_its_series_once() -> None:
    """Though several of its workloads are on the device."""
    scene = Scene("each")
    for _ in range(3):
        start(scene.fleet, "a/0", pod="one", namespace="n", container="c")
    scene.fleet.advance()
    assert scene.pods() == ["one", "", "", ""]


def test_lines_sorted_as_text() -> None:
    """In xpumanager's layout too: each series once, in order."""
    scene = Scene("each", "xpumanager", "flex-170")
    for pod in ("zebra", "ape"):
        start(scene.fleet, "a/0", pod=pod)
    scene.fleet.advance()
    assert scene.pods("xpum_power_watts", "kube_pod") == ["ape", "zebra", "", "", ""]


def test_pages_of_nodes() -> None:
    """They show what the fleet's page shows, kept or new."""
    scene = Scene("each")
    nodes = scene.fleet.roster.nodes
    for step in range(4):
        start(scene.fleet, "a/0,b/0", pod=f"pod-{step}")
        scene.fleet.advance()
        whole = bytes(scene.pages.fleet_page().response().body).splitlines()
        parts = [bytes(scene.pages.node_page(node).response().body).splitlines() for node in nodes]
        assert sorted(line for part in parts for line in part if line[:1] != b"#") == sorted(
            line for line in whole if line[:1] != b"#"
        )
