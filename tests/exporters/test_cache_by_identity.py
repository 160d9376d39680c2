"""Pages by what an identity says: OpenMetrics, rows that require another quantity, identities that are equal."""

from __future__ import annotations

import re

from prometheus_client.openmetrics.parser import text_string_to_metric_families
from twisted.internet.task import Clock

from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.exporters.cache import Pages
from fakedev.exporters.sources import by_identity
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import Files

IDENTITY = """
name: own
version: "1"
openmetrics: {openmetrics}
timestamps: true
labels: [{{name: gpu, value: "{{index}}"}}]
families:
  - {{name: own_energy_joules_total, type: counter, help: Energy., quantity: energy_joules, format: go}}
  - {{name: own_replays, type: counter, help: Replays., quantity: pcie_replays, format: go}}
  - {{name: own_celsius, type: gauge, help: Heat., quantity: temperature_celsius, format: go}}
  - name: own_created
    type: gauge
    help: Created.
    quantity: created_seconds
    requires: memory_temperature_celsius
    format: go
"""


def pages(tmp_path, openmetrics: str = "true", devices: tuple[str, ...] = ("h100",)) -> Pages:
    """The pages of a pool for each device type, shown as the identity above."""
    identity = tmp_path / "own.yaml"
    identity.write_text(IDENTITY.format(openmetrics=openmetrics))
    pools = ", ".join(
        f"{{name: {name}, nodes: 1, device: {name}, devices-per-node: 2, identity: {identity}}}" for name in devices
    )
    text = f"fleet: {{epoch: 1700000000, pools: [{pools}]}}\nweb: []\nworkloads: {{listen: []}}"
    configuration: Configuration = load(None, Files(environ={}), text=text)
    return Pages(Fleet(configuration.fleet), configuration.identities, Clock())


def test_a_page_as_openmetrics(tmp_path):
    """Counters are declared without _total, or as unknown without it; times are seconds; the end is marked."""
    page = pages(tmp_path).fleet_page().as_openmetrics
    assert page is not None
    response = page.response()
    text = bytes(response.body).decode()
    assert response.content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")
    kinds = {family.name: family.type for family in text_string_to_metric_families(text)}
    assert kinds.pop("own_energy_joules") == "counter"
    assert kinds.pop("own_replays") == "unknown"
    assert kinds == {"own_celsius": "gauge", "own_created": "gauge"}
    assert re.search(r'^own_celsius\{gpu="0"\} [23][0-9][.0-9]* 1700000000\.000$', text, re.MULTILINE)


def test_text_stays_text(tmp_path):
    """The same page as text 0.0.4 declares families by their full names, with times in milliseconds."""
    text = bytes(pages(tmp_path).fleet_page().response().body).decode()
    assert "# TYPE own_energy_joules_total counter\n" in text
    assert re.search(r'^own_celsius\{gpu="0"\} [23][0-9][.0-9]* 1700000000000$', text, re.MULTILINE)
    assert "# EOF" not in text


def test_an_exporter_that_does_not_negotiate(tmp_path):
    assert pages(tmp_path, openmetrics="false").fleet_page().as_openmetrics is None


def test_a_row_that_requires_a_quantity(tmp_path):
    """It is there for boards with a memory sensor, and for no others, though all have the quantity it shows."""
    both = pages(tmp_path, devices=("h100",))
    assert b"own_created{" in bytes(both.fleet_page().response().body)
    without = pages(tmp_path, devices=("t4",))
    assert b"own_created" not in bytes(without.fleet_page().response().body)


def test_equal_identities_share_their_families(tmp_path):
    """Two files that say the same are one identity: each family is on the fleet's page once, in service and render."""
    texts = []
    for name in ("one.yaml", "two.yaml"):
        path = tmp_path / name
        path.write_text(IDENTITY.format(openmetrics="false").replace('"{index}"', '"{node}-{index}"'))
        texts.append(f"{{name: {path.stem}, nodes: 1, device: h100, devices-per-node: 2, identity: {path}}}")
    text = f"fleet: {{epoch: 1700000000, pools: [{', '.join(texts)}]}}\nweb: ['127.0.0.1:0']\nworkloads: {{listen: []}}"
    configuration = load(None, Files(environ={}), text=text)
    fleet = Fleet(configuration.fleet)
    assert configuration.identities["one"] is not configuration.identities["two"]
    page = bytes(Pages(fleet, configuration.identities, Clock()).fleet_page().response().body)
    assert page.count(b"# TYPE own_celsius ") == 1
    assert page.count(b"own_celsius{") == 4
    assert len(by_identity(fleet.roster.nodes, configuration.identities)) == 1
