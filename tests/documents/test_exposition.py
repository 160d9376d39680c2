"""The documents say of quantities and of the series of workloads what the program has."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from fakedev.config.load import load
from fakedev.exporters.identity import UNITS, NumberFormat
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.settings.catalog import Catalog
from fakedev.exporters.sources import DeviceSource
from fakedev.exporters.workload_page import WORKLOAD_SERIES
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError, Place, Report
from tests.support.documents.configuration import HOW, IDENTITIES, current_identities
from tests.support.identities import TITLES
from tests.support.paths import DOCUMENTS

COMMON = {label.name for label in WORKLOAD_SERIES.labels}


def table(document: str, head: str) -> list[str]:
    """The rows of a table that begins with a certain line."""
    lines = iter((DOCUMENTS / document).read_text(encoding="utf-8").splitlines())
    assert head in lines, head
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(line)
    return rows


def test_quantities() -> None:
    """All that identities may show, as the program lists it."""
    assert len(table("identities.md", "| quantity | what |")) > 50
    assert IDENTITIES.read_text(encoding="utf-8") == current_identities(), f"{IDENTITIES} {HOW}"


def test_identities() -> None:
    """The document lists those of the catalog, and the releases of dcgm-exporter."""
    rows = [row for row in table("identities.md", "| identity | stands for |") if "`dcgm`" not in row]
    rows += table("identities.md", "| name | versions | what it changed |")
    assert sorted(row.split("`")[1] for row in rows) == sorted(TITLES)


def test_units_and_formats() -> None:
    """All are named."""
    text = (DOCUMENTS / "identities.md").read_text(encoding="utf-8")
    units = text[text.index("\nUnits are ") :].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", units)) == set(UNITS)
    formats = text[text.index("\nFormats are ") :].partition("\n\n")[0]
    assert {kind.value for kind in NumberFormat} <= set(re.findall(r"`([\w-]+)`", formats))


def test_quirks() -> None:
    """Name, words and issue of each in the catalog."""
    catalog = Catalog(Files(environ={}), Report())
    quirks = {quirk.name: quirk for title in TITLES for quirk in catalog.identity(title, Place("test")).quirks}
    rows = table("identities.md", "| quirk | what is seen | issue |")
    assert rows == [f"| `{name}` | {quirk.doc} | {quirk.issue} |" for name, quirk in quirks.items()]


def test_ones_own() -> None:
    """The identity that the document writes out needs no code: its page is the one that is shown, but for numbers."""
    section = (DOCUMENTS / "identities.md").read_text(encoding="utf-8").partition("## Your own identity\n")[2]
    identity, _, rest = section.partition("\nAn H100 ")
    shown = [line.strip() for line in rest.partition("\nOr take ")[0].splitlines() if line.startswith("    ")]
    text = """
        fleet: {pools: [{name: p, nodes: [node-1], device: h100, devices-per-node: 1, identity: /shop.yaml}]}
        workloads: {listen: [], base: [{name: a, devices: all, profile: "100:0:0", pod: train-0}]}
    """
    configuration = load(None, Files(environ={}, made={"/shop.yaml": dedent(identity)}), text=dedent(text))
    fleet, found = Fleet(configuration.fleet), configuration.identities["p"]
    labels = LabelCache(found, DeviceSource(fleet, found.shared_devices))
    page = Page(labels, fleet.roster.nodes).render(fleet.state).decode()

    def plain(lines: list[str]) -> list[str]:
        return [line if line.startswith("#") else line.rpartition(" ")[0] for line in lines]

    assert plain(page.splitlines()) == plain(shown)


def test_tour() -> None:
    """The lines shown are those that are rendered; the mistake is reported as shown."""
    text = (DOCUMENTS / "identities.md").read_text(encoding="utf-8").partition("## A tour with your own files")[2]
    shown = re.findall(r"^    (#.*|\w+\{.*)$", text, re.MULTILINE)
    folder = DOCUMENTS.parent / "etc" / "own"
    configuration = load(str(folder / "fakedev.yaml"), Files(environ={}))
    fleet = Fleet(configuration.fleet)
    labels = LabelCache(configuration.identities["acme"], DeviceSource(fleet))
    page = Page(labels, fleet.roster.nodes).render(fleet.state)
    assert len(shown) == 4
    assert set(shown) <= set(page.decode().splitlines())
    wrong = (folder / "counters.csv").read_text(encoding="utf-8").replace("GPU_TEMP,", "GPU_TMP,")
    made = {str(folder / "counters.csv"): wrong}
    with pytest.raises(ConfigurationError) as error:
        load(str(folder / "fakedev.yaml"), Files(environ={}, made=made))
    said = re.findall(r"^    etc/own/(.*)$", text, re.MULTILINE)
    assert [line.partition("etc/own/")[2] for line in str(error.value).splitlines()] == said


def test_series_of_workloads() -> None:
    """Each family with its labels beside the common ones, and its help text."""
    expected = []
    for family in WORKLOAD_SERIES.families:
        labels = dict.fromkeys(label.name for row in family.rows for label in row.labels)
        said = ", ".join(f"`{name}`" for name in labels) or "-"
        expected.append(f"| `{family.name.removeprefix('fakedev_workload_')}` | {said} | {family.help} |")
    assert table("workloads.md", "| `fakedev_workload_...` | more labels | what |") == expected


def test_common_labels() -> None:
    """The document names them."""
    text = (DOCUMENTS / "workloads.md").read_text(encoding="utf-8").partition("| `fakedev_workload_...` |")[0]
    assert all(f"`{name}`" in text for name in COMMON)
