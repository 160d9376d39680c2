"""Devices that several pods share, on pages: the first pod's rows, or rows for each."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.task import Clock

from fakedev.exporters.cache import Pages
from fakedev.fleet.fleet import Fleet
from tests.support.configurations import loaded
from tests.support.fleet.fleets import start, stop

CONFIGURATION = """
fleet:
  epoch: 1700000000
  pools: [{{name: p, nodes: [a, b], device: {device}, devices-per-node: 2, identity: own.yaml, {mig}}}]
web: []
workloads: {{listen: []}}
"""


class Scene:
    """Two nodes of two devices in an identity that shows pods, and what its pages say of pods."""

    def __init__(self, shared: str, based_on: str = "dcgm", device: str = "h100", mig: str = "devices: []") -> None:
        own = f"name: own\nbased-on: {based_on}\nshared-devices: {shared}\n"
        configuration = loaded(CONFIGURATION.format(device=device, mig=mig), {"own.yaml": own})
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

    def pods(self, family: str = "DCGM_FI_DEV_GPU_TEMP", pod: str = "pod") -> list[str]:
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
    scene = Scene("each", "dcgm@4.5.2-4.8.1")
    for pod, devices in (("one", "a/0"), ("two", "a/0,b/1"), ("three", "a/0")):
        start(scene.fleet, devices, "20:0:0", pod=pod)
    scene.fleet.advance()
    assert scene.pods() == ["one", "two", "three", "", "", "two"]
    assert [value for _, value in scene.samples("DCGM_FI_DEV_GPU_UTIL")] == [60, 60, 60, 0, 0, 20]
    stop(scene.fleet, "w2")
    scene.fleet.advance()
    assert scene.pods() == ["one", "three", "", "", ""]


def test_values_of_pods() -> None:
    """From 4.5.3-4.8.2 on a row of the device, and one for each container with the sum of its work, and pod_uid."""
    scene = Scene("each", "dcgm@4.8.2")
    memory = {"metrics": {"memory": "2GiB"}}
    start(scene.fleet, "a/0", "60:0:0", pod="one", labels={"pod_uid": "u-1"}, **memory)
    start(scene.fleet, "a/[0-1]", "10:0:0", pod="two", **memory)
    start(scene.fleet, "a/0", "10:0:0", pod="two", **memory)
    scene.fleet.advance()

    def rows(family: str) -> list[tuple[str, str | None, float]]:
        found = scene.samples(family)
        return [(each.get("pod", ""), each.get("pod_uid"), value) for each, value in found if each["Hostname"] == "a"]

    assert rows("DCGM_FI_DEV_GPU_UTIL") == [
        ("", None, 80), ("one", "u-1", 60), ("two", "", 20), ("", None, 10), ("two", "", 10),
    ]  # fmt: skip
    assert rows("DCGM_FI_DEV_FB_USED") == [
        ("", None, 6144), ("one", "u-1", 2048), ("two", "", 4096), ("", None, 2048), ("two", "", 2048),
    ]  # fmt: skip
    assert [pod for pod, _, _ in rows("DCGM_FI_DEV_GPU_TEMP")] == ["one", "two", "two"]
    assert scene.pods("DCGM_FI_DEV_GPU_UTIL")[5:] == ["", ""]


def test_values_of_pods_on_instances() -> None:
    """Each instance as a board: a row without pod, and one for each container with its memory there."""
    scene = Scene("each", "dcgm@4.8.2", mig="devices: [{index: 0, mig: [3g.40gb, 2g.20gb]}]")
    memory = {"metrics": {"memory": "2GiB"}}
    start(scene.fleet, "a/0/1", "60:0:0", pod="one", **memory)
    start(scene.fleet, "a/0/0", "60:0:0", pod="two", **memory)
    start(scene.fleet, "a/0/[0-1]", "10:0:0", pod="one", **memory)
    start(scene.fleet, "a/0/1", "10:0:0", pod="two", **memory)
    start(scene.fleet, "a/1", "30:0:0", pod="one", **memory)
    start(scene.fleet, "a/1", "10:0:0", pod="two", **memory)
    scene.fleet.advance()

    def rows(family: str) -> list[tuple[str, str, str, float]]:
        return [(each["gpu"], each.get("GPU_I_PROFILE", ""), each.get("pod", ""), value)
                for each, value in scene.samples(family) if each["Hostname"] == "a"]  # fmt: skip

    (held_0,), (held_1,) = ([value for gpu, profile, pod, value in rows("DCGM_FI_DEV_FB_USED")
                             if profile == name and not pod] for name in ("3g.40gb", "2g.20gb"))  # fmt: skip
    assert (held_0, held_1) == (2 * 2048, 3 * 2048)
    assert rows("DCGM_FI_DEV_FB_USED") == [
        ("0", "3g.40gb", "", held_0), ("0", "3g.40gb", "two", 2048), ("0", "3g.40gb", "one", 2048),
        ("0", "2g.20gb", "", held_1), ("0", "2g.20gb", "one", 4096), ("0", "2g.20gb", "two", 2048),
        ("1", "", "", 4096), ("1", "", "one", 2048), ("1", "", "two", 2048),
    ]  # fmt: skip
    assert rows("DCGM_FI_DEV_GPU_UTIL") == [("1", "", "", 40), ("1", "", "one", 30), ("1", "", "two", 10)]
    node = scene.fleet.roster.nodes[0]
    page = bytes(scene.pages.node_page(node).response().body)
    assert page.count(b"DCGM_FI_DEV_FB_USED{") == 9


def test_shares_of_devices() -> None:
    """A container keeps the number of its share; where a device is not shared there is none, unless the pool shares."""
    scene = Scene("each")

    def shares() -> list[tuple[str, str | None]]:
        found = scene.samples("DCGM_FI_DEV_GPU_TEMP")
        return [(each["pod"], each.get("vgpu")) for each, _ in found if "pod" in each]

    for pod in ("one", "two", "three"):
        start(scene.fleet, "a/0", pod=pod)
    start(scene.fleet, "a/1", pod="alone")
    scene.fleet.advance()
    assert shares() == [("one", "0"), ("two", "1"), ("three", "2"), ("alone", None)]
    stop(scene.fleet, "w1")
    scene.fleet.advance()
    assert shares()[:2] == [("two", "1"), ("three", "2")]
    start(scene.fleet, "a/0", pod="four")
    scene.fleet.advance()
    assert shares()[:3] == [("two", "1"), ("three", "2"), ("four", "0")]
    for workload in ("w2", "w3", "w6"):
        stop(scene.fleet, workload)
    start(scene.fleet, "a/0", pod="five")
    scene.fleet.advance()
    assert shares() == [("five", None), ("alone", None)]
    old = Scene("each", "dcgm@3.3.9")
    start(old.fleet, "a/0", pod="one")
    start(old.fleet, "a/0", pod="two")
    old.fleet.advance()
    assert not any("vgpu" in labels for labels, _ in old.samples("DCGM_FI_DEV_GPU_TEMP"))
    only_first = Scene("first")
    start(only_first.fleet, "a/0", pod="one")
    start(only_first.fleet, "a/0", pod="two")
    only_first.fleet.advance()
    assert not any("vgpu" in labels for labels, _ in only_first.samples("DCGM_FI_DEV_GPU_TEMP"))


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
