"""Device types and identities in YAML: the catalog's and a user's own."""

# ruff: noqa: E501 - the tables hold whole messages
from __future__ import annotations

from dataclasses import replace

import pytest

from fakedev.exporters import checks
from fakedev.exporters.identity import LabelSpec, NumberFormat, PageLayout, RowSpec
from fakedev.exporters.settings.catalog import Catalog
from fakedev.exporters.settings.families import LEVELS
from fakedev.fleet.devices.relations import Relations
from fakedev.fleet.spec.device_types import Range
from fakedev.fleet.spec.quantities import DIRECT_QUANTITIES
from fakedev.schema.files import Files
from fakedev.schema.places import Place, Report
from tests.support.configurations import loaded, pool, problems

DEVICE = """\
name: acme
facts: {product_name: Acme One, driver_version: "1.0"}
memory: {total: 16GiB, reserved: 1GiB, page: 64KiB}
ranges:
  usage_ratio: [0, 1]
  power: [10, 75.5]
  memory_used_bytes: [0MiB, 15360MiB]
  warp: [1, 9]
"""
IDENTITY = """\
name: acme
version: "2"
labels: [{name: gpu, value: "{index}"}, {name: host, value: "{node}"}]
families:
- {name: acme_power, type: gauge, help: Power., quantity: power, format: fixed6}
- name: acme_warp
  type: untyped
  help: Warp.
  format: go
  rows:
  - {quantity: warp, unit: percent, labels: [{name: kind, value: "{product_name|upper}"}]}
  - {quantity: warp, level: part, labels: [{name: kind, value: x}]}
"""
OURS = 'name: ours\nbased-on: base.yaml\nlabels: [{name: card, value: "{node}-{index}"}]\n'
TEXT = pool(device="dev.yaml", identity="id.yaml")


def test_everything_in_the_catalog_is_good() -> None:
    report = Report()
    catalog = Catalog(Files(), report)
    names, identities = catalog.device_names(), catalog.identity_names()
    assert {"h100", "h100-sxm5-80gb", "dg1"} <= set(names)
    assert {"dcgm", "dcgm@4.8.2", "xpumanager@1.3", "collectd@6"} <= set(identities)
    assert all(catalog.device(name, Place("x")) for name in names)
    assert all(catalog.identity(name, Place("x")) for name in identities)
    assert (report.sorted_problems(), report.notes) == ((), ())


def test_names_aliases_and_versions() -> None:
    catalog = Catalog(Files(), Report())
    place = Place("x")
    alias, name = catalog.device("h100", place), catalog.device("h100-sxm5-80gb", place)
    assert alias is not None
    assert alias == name
    bare = catalog.identity("dcgm", place)
    assert bare is not None
    assert bare.identity.title == "dcgm@4.8.2"


def test_the_own_catalog_is_read_once() -> None:
    """Two catalogs share what they load from the package, and both remember every file that it came from."""
    place, found = Place("x"), []
    for _ in range(2):
        files = Files()
        found.append((Catalog(files, Report()).identity("dcgm@4.8.2", place), files.texts))
    assert found[0][0] is found[1][0]
    assert found[0][1] == found[1][1]
    of_catalog = [name.removeprefix("catalog:") for name in found[0][1]]
    assert of_catalog == ["identities/dcgm.yaml", "fields/dcgm.yaml"]


def test_a_recorded_catalog_is_read_from_the_record() -> None:
    """A record's file of the catalog may differ from the package's, and a loaded one does not hide it."""
    place, files = Place("x"), Files()
    own = Catalog(files, Report()).device("dg1", place)
    (name, text), = files.texts.items()
    recorded = Catalog(Files({name: text.replace("power", "warp")}), Report()).device("dg1", place)
    assert own is not None
    assert recorded is not None
    assert recorded.type.ranges.keys() - own.type.ranges.keys()


def test_own_device_type() -> None:
    found = loaded(TEXT, {"dev.yaml": DEVICE, "id.yaml": IDENTITY}).fleet.pools[0].device_type
    assert found.ranges == {
        "usage_ratio": Range(0, 1),
        "power_watts": Range(10, 75.5),
        "memory_used_bytes": Range(0, 15360 * 2**20),
        "warp": Range(1, 9),
    }
    assert (found.memory_total_bytes, found.memory_reserved_bytes, found.memory_page_bytes) == (2**34, 2**30, 2**16)
    assert found.counts_errors


def test_own_identity() -> None:
    identity = loaded(TEXT, {"dev.yaml": DEVICE, "id.yaml": IDENTITY}).identities["a"]
    assert (identity.title, identity.layout, identity.openmetrics) == ("acme@2", PageLayout.FAMILIES, False)
    power, warp = identity.families
    assert (power.kind, power.number, power.rows) == ("gauge", NumberFormat.FIXED6, (RowSpec("power_watts"),))
    assert warp.rows == (
        RowSpec("warp", "percent", (LabelSpec("kind", "{product_name|upper}"),)),
        RowSpec("warp", "same", (LabelSpec("kind", "x"),), "part"),
    )


def test_an_identity_based_on_another() -> None:
    """Keys that are not given have the values of the base; a given key replaces the whole value of the base."""
    own = "name: ours\nbased-on: dcgm\ntimestamps: true\n"
    base = Catalog(Files(), Report()).identity("dcgm", Place("x"))
    assert base is not None
    found = loaded(pool(device="h100", identity="own.yaml"), {"own.yaml": own}).identities["a"]
    assert found == replace(base.identity, name="ours", version="", versions=(), timestamps=True)


def test_labels_for_the_families_of_another() -> None:
    """They must go with each other: a row of the other may have the label already."""
    found = loaded(TEXT, {"dev.yaml": DEVICE, "id.yaml": OURS, "base.yaml": IDENTITY}).identities["a"]
    assert [label.name for label in found.labels] == ["card"]
    assert [family.name for family in found.families] == ["acme_power", "acme_warp"]
    files = {"dev.yaml": DEVICE, "base.yaml": IDENTITY, "id.yaml": OURS.replace("card", "kind")}
    assert "id.yaml:1: acme_warp: the label 'kind' is given 2 times on a line: remove one" in problems(TEXT, files)


def test_families_without_names() -> None:
    identity = IDENTITY.replace("name: acme_power, ", "").replace("- name: acme_warp\n ", "-")
    found = problems(TEXT, {"dev.yaml": DEVICE, "id.yaml": identity})
    assert [line.partition(": ")[2] for line in found] == [
        f"families.{number}: 'name' is missing: Name of the family." for number in (0, 1)
    ]


def test_a_variable_in_ones_own_file() -> None:
    device = DEVICE.replace("Acme One", '"${MODEL:-Acme Two}"')
    found = loaded(TEXT, {"dev.yaml": device, "id.yaml": IDENTITY}, {"MODEL": "Acme Three"})
    assert found.fleet.pools[0].device_type.facts["product_name"] == "Acme Three"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("power: [10, 75.5]", "power: [80, 75]", "dev.yaml:6: ranges: power_watts: 80 at load 0 is over 75 at load 100: the smaller number comes first"),
        ("power: [10, 75.5]", "power: [-1, 75]", "dev.yaml:6: ranges: power_watts: -1 is below 0"),
        ("usage_ratio: [0, 1]", "usage_ratio: [0, 100]", "dev.yaml:5: ranges: usage_ratio: 0 to 100 is not within 0 to 1"),
        ("power: [10, 75.5]", "power: [1, 2, 3]", "dev.yaml:6: ranges: power: must be two numbers, at load 0 and at load 100, as [3, 35]"),
        ("power: [10, 75.5]", "power: 3", "dev.yaml:6: ranges.power: must be a list of two numbers, not '3': put [ ] around it"),
        ("power: [10, 75.5]", "power: [a, 3]", "dev.yaml:6: ranges.power.0: 'a' is no size: give bytes, or a number with kB, MB, GB, KiB, MiB, GiB or TiB"),
        ("power:", "energy_joules:", "dev.yaml:6: ranges: energy_joules: is computed and has no range; "
            f"ranges are for {', '.join(DIRECT_QUANTITIES)} or names of your own"),
        ("warp:", "warp-9:", "dev.yaml:8: ranges: 'warp-9' is no name of a quantity: letters, digits and _ only, no digit first"),
        ("15360MiB", "15361MiB", "dev.yaml:5: ranges: memory_used_bytes goes to 16107175936, and total less reserved is 16106127360"),
        ("reserved: 1GiB", "reserved: 17GiB", "dev.yaml:3: memory: reserved 18253611008 is over total 17179869184"),
        ("name: acme", "nam: acme", "dev.yaml:1: unknown key 'nam'; did you mean 'name'?"),
        ("name: acme", "connections: {links: 3}\nname: acme", "dev.yaml:1: connections.links: must be a mapping of count, layout, switches, peers, not '3'"),
        ("name: acme", "connections: {pcie: x}\nname: acme", "dev.yaml:1: connections.pcie: must be a mapping of generation, width, idle-generation, not 'x'"),
        ("driver_version", "node", "dev.yaml:2: facts: the label 'node' is computed and cannot be given"),
    ],
)  # fmt: skip
def test_device_problem(old: str, new: str, expected: str) -> None:
    assert old in DEVICE
    assert expected in problems(TEXT, {"dev.yaml": DEVICE.replace(old, new, 1), "id.yaml": IDENTITY})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("type: gauge", "type: gage", "id.yaml:5: families.0.type: must be one of gauge, counter, untyped, not 'gage'; did you mean gauge?"),
        ("format: fixed6", "format: fixed", "id.yaml:5: families.0.format: must be one of int, fixed6, go, go-whole, go-fixed2, go-fixed6, python, python-whole, digits15, not 'fixed'; did you mean fixed6?"),
        ("unit: percent", "unit: per cent", "id.yaml:11: families.1.rows.0.unit: there is no 'per cent'; did you mean percent?"),
        ("name: acme_power", "name: 1power", "id.yaml:5: '1power' is no metric name: letters, digits, _ and : only, no digit first"),
        ("name: gpu", "name: __gpu", "id.yaml:3: '__gpu' is no label name: letters, digits and _ only, no digit and no __ first"),
        ("name: host", "name: gpu", "id.yaml:3: labels: 'gpu' is given 2 times: remove one"),
        ("{index}", "{index", "id.yaml:3: '{index' has a brace that is no {fact}"),
        ("{product_name|upper}", "{product_name|title}", "id.yaml:11: {product_name|title}: 'title' is none of upper, lower, dashed, number, next, hex4, sha1_6, nvml, brand, cuda_number, compute_number"),
        ("name: acme_warp", "name: acme_power", "id.yaml:5: families: 'acme_power' is there 2 times: put its rows into one"),
        ("quantity: power,", "", "id.yaml:5: acme_power: give either quantity, or constant, or fact, or random, or rows"),
        ("level: part, labels: [{name: kind, value: x}]", 'labels: [{name: kind, value: "{product_name|upper}"}]', "id.yaml:6: acme_warp: two rows have the same labels: give them a label that differs"),
        ("name: kind", "name: host", "id.yaml:6: acme_warp: the label 'host' is given 2 times on a line: remove one"),
        ("level: part", "level: chip", f"id.yaml:12: level: 'chip' is none of {', '.join(LEVELS)}"),
        ("quantity: power,", "quantity: powr,", "id.yaml:5: acme_power: unknown quantity 'powr'; did you mean 'power'?"),
        ("quantity: power,", "quantity: flux,", "id.yaml:5: acme_power: unknown quantity 'flux': not computed, and in no range of a device type"),
        ("quantity: power,", "quantity: power, plus: [powr],", "id.yaml:5: acme_power: unknown quantity 'powr'; did you mean 'power'?"),
        ("quantity: power,", "quantity: power, per: powr,", "id.yaml:5: acme_power: unknown quantity 'powr'; did you mean 'power'?"),
        ("quantity: power,", "quantity: power, where: [powr],", "id.yaml:5: acme_power: unknown quantity 'powr'; did you mean 'power'?"),
        ("quantity: power,", "quantity: power, unless: [memory, powr],", "id.yaml:5: acme_power: unknown quantity 'powr'; did you mean 'power'?"),
        ("name: gpu,", "name: gpu, texts: [one],", "id.yaml:3: labels.0.texts: must be a mapping of names to texts, not a list"),
        ("version:", "shared-devices: all\nversion:", "id.yaml:2: shared-devices: must be one of first, each, nobody, not 'all'"),
        ("version:", "based-on: dcmg\nversion:", "id.yaml:2: no identity 'dcmg'; did you mean 'dcgm'? fakedev identities lists all; a file of your own is named by its path"),
        ("version:", "based-on: id.yaml\nversion:", "id.yaml:2: the identity 'id.yaml' is based on itself"),
        ("families:", "x-families:", "id.yaml:1: families is missing: give the metric families, or counters, or based-on: another identity"),
        ("version:", "leading-labels: 3\nversion:", "id.yaml:2: leading-labels: there are only 2 labels"),
        ("version:", "content-type: text\nversion:", "id.yaml:2: content-type: 'text' is no Content-Type, as text/plain; version=0.0.4"),
        ("{node}", "{rack}", "f.yaml:1: acme@2 shows the fact 'rack' in its label host, and the devices of pool a (acme) lack it: add it to the pool, as labels: {rack: ...}"),
    ],
)  # fmt: skip
def test_identity_problem(old: str, new: str, expected: str) -> None:
    assert old in IDENTITY
    assert expected in problems(TEXT, {"dev.yaml": DEVICE, "id.yaml": IDENTITY.replace(old, new, 1)})


def test_what_devices_have_is_found_only_for_unknown_quantities(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes milliseconds for each pool, and an identity of the catalog has only known ones."""
    found: list[object] = []
    monkeypatch.setattr(checks, "Relations", lambda *given: found.append(given) or Relations(*given))
    loaded(pool(device="h100", identity="dcgm"))
    assert not found
    loaded(TEXT, {"dev.yaml": DEVICE, "id.yaml": IDENTITY})  # warp is in the ranges of this device alone
    assert len(found) == 1


def test_a_known_quantity_that_no_device_has_is_absent_not_wrong() -> None:
    """An identity may show more than a device has: those families are left out of the page."""
    identity = IDENTITY.replace("quantity: power,", "quantity: temperature,")
    assert problems(TEXT, {"dev.yaml": DEVICE, "id.yaml": identity}) == []


def test_facts_of_the_pool_of_nodes_and_of_devices_count() -> None:
    identity = IDENTITY.replace("{node}", "{rack}")
    files = {
        "dev.yaml": DEVICE,
        "id.yaml": identity,
        "n.csv": "name,labels\nx,rack=1\n",
        "m.csv": "name,labels\nx,rack=1\ny,\n",
    }
    assert problems(pool(device="dev.yaml", identity="id.yaml", labels="{rack: r1}"), files) == []
    assert problems(pool(device="dev.yaml", identity="id.yaml", nodes="n.csv"), files) == []
    assert len(problems(pool(device="dev.yaml", identity="id.yaml", nodes="m.csv"), files)) == 1
    one = pool(device="dev.yaml", identity="id.yaml", devices_per_node="1", devices="[{index: 0, labels: {rack: a}}]")
    assert problems(one, files) == []
    assert len(problems(one.replace("per-node: 1", "per-node: 2"), files)) == 1


def test_a_name_near_a_known_quantity_is_noted() -> None:
    device = DEVICE.replace("warp:", "power_wats:")
    found = loaded(
        pool(device="dev.yaml", identity="id.yaml"),
        {"dev.yaml": device, "id.yaml": IDENTITY.replace("warp,", "power_wats,")},
    )
    assert found.notes == (
        "/conf/dev.yaml:8: ranges: 'power_wats' is taken as a quantity of your own; did you mean 'power_watts'?",
    )
