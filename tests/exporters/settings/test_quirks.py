"""Quirks of exporters by name, and which pod owns a shared device."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fakedev.config.load import load
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.settings.catalog import Catalog
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError, Place, Report
from tests.support.identities import TITLES


def page(folder: Path, quirks: str, more: str = "", pods: tuple[str, ...] = ("train-0",)) -> str:
    """The page of a GPU that pods share, in an identity with quirks."""
    (folder / "mine.yaml").write_text(f"name: mine\nbased-on: dcgm@4.8.2\nquirks: [{quirks}]\n")
    workload = "{{name: {0}, devices: all, profile: '20:0:0', pod: {0}, namespace: ml, container: main}}"
    base = ", ".join(workload.format(name) for name in pods)
    pool = f"name: p, nodes: [n], device: h100, devices-per-node: 1, identity: {folder}/mine.yaml{more}"
    text = f"fleet: {{pools: [{{{pool}}}]}}\nweb: []\nworkloads: {{listen: [], base: [{base}]}}"
    configuration = load(None, Files(environ={}), text=text)
    fleet = Fleet(configuration.fleet)
    fleet.advance()
    identity = configuration.identities["p"]
    face = LabelCache(identity, DeviceSource(fleet, identity.shared_devices))
    return Page(face, fleet.roster.nodes).render(fleet.state).decode()


def labels(text: str) -> str:
    """From the host on, the labels of the first line."""
    match = re.search(r'.ostname="n".*\}', text)
    assert match
    return match[0]


@pytest.mark.parametrize(
    ("quirks", "expected"),
    [
        ("", 'Hostname="n",DCGM_FI_DRIVER_VERSION="550.163.01",container="main",namespace="ml",pod="train-0"}'),
        ("labels.empty", 'Hostname="n",DCGM_FI_DRIVER_VERSION="550.163.01",container="",namespace="",pod=""}'),
        ("labels.missing", 'Hostname="n",DCGM_FI_DRIVER_VERSION="550.163.01"}'),
        (
            "labels.exported, hostname.lower",
            'hostname="n",DCGM_FI_DRIVER_VERSION="550.163.01",'
            'exported_container="main",exported_namespace="ml",exported_pod="train-0"}',
        ),
    ],
)
def test_quirks(tmp_path: Path, quirks: str, expected: str) -> None:
    """Each changes what its issue tells, and nothing else."""
    assert labels(page(tmp_path, quirks)) == expected


def test_no_such_quirk(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        page(tmp_path, "labels.emtpy")
    expected = "mine.yaml:3: quirks: no quirk 'labels.emtpy' is known of this identity; did you mean 'labels.empty'?"
    assert expected in str(error.value)


def test_no_such_optional_label(tmp_path: Path) -> None:
    """``show-labels`` turns on what the exporter's configuration can turn on."""
    text = "name: mine\nbased-on: amd-device-metrics@1\nshow-labels: [gpu_uiud, gpu_uuid]\n"
    (tmp_path / "mine.yaml").write_text(text)
    report = Report()
    found = Catalog(Files(environ={}), report).identity(str(tmp_path / "mine.yaml"), Place("test"))
    assert found is not None and "gpu_uuid" in [label.name for label in found.identity.labels]
    (problem,) = report.sorted_problems()
    assert "mine.yaml:3" in str(problem) and "'gpu_uiud'" in str(problem) and "gpu_uuid" in str(problem)


def test_each_quirk_names_its_issue() -> None:
    report = Report()
    catalog = Catalog(Files(environ={}), report)
    found = [quirk for title in TITLES for quirk in catalog.identity(title, Place("test")).quirks]
    assert found
    for quirk in found:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", quirk.issue)
        assert quirk.doc.endswith(".")


def test_attribution(tmp_path: Path) -> None:
    """Of two pods on a GPU the exporter shows the first; an honest page shows none; a single pod is always shown."""
    pods = ("first", "second")
    vendors, honest = (page(tmp_path, "", more, pods) for more in (", attribution: as-vendor", ", attribution: honest"))
    assert re.findall(r'DCGM_FI_DEV_GPU_UTIL\{.*pod="(\w+)"', vendors) == ["first"]
    assert labels(honest) == 'Hostname="n",DCGM_FI_DRIVER_VERSION="550.163.01",container="main",namespace="ml"}'
    assert labels(page(tmp_path, "", ", attribution: honest")) == labels(page(tmp_path, ""))
