"""Releases of an exporter in one file: which one a version means, and what each prints."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fakedev.config.sample_page import sample_page
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.samples import Sample, read_page
from fakedev.exporters.settings.catalog import Catalog
from fakedev.exporters.settings.identities import Release, Releases, chosen_release, releases_in
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import Files
from fakedev.schema.places import Place, Report
from tests.support.configurations import loaded, pool, problems

PLACE = Place("x")
RELEASES = Releases(
    "b", (Release("a", ("3.0.4-3.0.0", "4.4.0-4.0.0")), Release("b", ("4.4.1-4.4.0", "4.5.0-4.8.0")), Release("m", ()))
)


def resolved(version: str) -> tuple[str | None, str]:
    """The title of a version of dcgm, and what is said about it."""
    report = Report()
    found = Catalog(Files(environ={}), report).identity(f"dcgm@{version}", PLACE)
    said = [problem.text for problem in report.sorted_problems()] or report.notes
    return found.identity.title if found else None, "".join(said)


@pytest.mark.parametrize(
    ("version", "name", "remark"),
    [
        ("b", "b", ""),
        ("m", "m", ""),
        ("3.0.4-3.0.0", "a", ""),
        ("4.4.0-4.0.0", "a", "4.4.0-4.0.0 has the same page as release a, by which it is shown"),
        ("4.4-4", "a", "4.4.0-4.0.0 has the same page as release a, by which it is shown"),
        ("4.4.1", "b", ""),
        ("4.8.0", "b", "4.5.0-4.8.0 has the same page as release b, by which it is shown"),
        ("4.8", "b", "4.5.0-4.8.0 has the same page as release b, by which it is shown"),
        ("4.4.0", "a", "taken as 4.4.0-4.0.0; it may also be 4.4.1-4.4.0: give the pair"),
        ("4.4.0.1", "a", "no release 4.4.0.1 is known; this is the page of the release below it, 4.4.0-4.0.0"),
        ("4.7.9", "b", "no release 4.7.9 is known; this is the page of the release below it, 4.4.1-4.4.0"),
        ("4.4.0-4.1.0", "a", "no release 4.4.0-4.1.0 is known; this is the page of the release below it, 4.4.0-4.0.0"),
    ],
)
def test_a_version(version: str, name: str, remark: str) -> None:
    """The name of a release, a pair, either half of it; in between the release below, with a remark."""
    assert chosen_release(version, RELEASES) == (name, remark)


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("2.9", "the first release that is known is 3.0.4-3.0.0"),
        ("9.9", "the last release that is known is 4.5.0-4.8.0"),
        ("4.6.0-4.8.1", "the last release that is known is 4.5.0-4.8.0"),
        ("4.x", "'4.x' is no version"),
        ("4-5-6", "'4-5-6' is no version"),
        ("٤.٤", "'٤.٤' is no version"),
        ("4" * 60, f"'{'4' * 40}' is no version"),
        ("", "'' is no version"),
    ],
)
def test_what_is_no_version(version: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        chosen_release(version, RELEASES)


def test_releases_of_the_catalog() -> None:
    """Their pairs ascend in both halves, and each release, pair and DCGM version can be named."""
    text = Files(environ={}).peek_catalog("identities", "dcgm.yaml")
    releases = releases_in(text)
    assert releases is not None
    pairs = [tuple(tuple(map(int, half.split("."))) for half in pair.split("-")) for each in releases.every
             for pair in each.pairs]
    assert all(before[0] <= after[0] and before[1] <= after[1] for before, after in pairwise(pairs))
    assert len(set(pairs)) == len(pairs)
    for release in releases.every:
        assert resolved(release.name) == (f"dcgm@{release.name}", "")
        for place, pair in enumerate(release.pairs):
            same = f"x: dcgm@{pair}: {pair} has the same page as release {release.name}, by which it is shown"
            assert resolved(pair) == (f"dcgm@{release.name}", same if place else "")
            assert resolved(pair.partition("-")[0])[0] is not None


def test_in_a_configuration() -> None:
    """A version in between is noted at its line; one below the first release is an error that names the first."""
    found = loaded(pool(identity="dcgm@4.2.1"))
    assert found.identities["a"].title == "dcgm@4.0"
    assert [note for note in found.notes if "no release 4.2.1 is known" in note]
    said = problems(pool(identity="dcgm@1.7"))[0]
    assert "dcgm@1.7" in said and "2.0.13-2.1.0" in said


def test_a_file_based_on_a_release() -> None:
    """A user's counters on top of a release have its labels, its order and its rows of XIDs."""
    own = "name: own\nbased-on: dcgm@3.3.5\ncounters: |\n  DCGM_FI_DEV_XID_ERRORS, gauge, Last.\n"
    identity = loaded(pool(identity="own.yaml"), {"own.yaml": own}).identities["a"]
    (family,) = identity.families
    assert [(row.quantity, row.where, row.labels) for row in family.rows] == [("xid", (), ())]


def test_a_variant_that_a_field_has_not() -> None:
    """An error with the line, and what there is."""
    row = "DCGM_FI_DEV_XID_ERRORS, gauge, L."
    own = f"name: own\nbased-on: dcgm\nvariants: {{DCGM_FI_DEV_XID_ERRORS: plan}}\ncounters: |\n  {row}\n"
    said = problems(pool(identity="own.yaml"), {"own.yaml": own})
    assert said == ["own.yaml:3: variants: DCGM_FI_DEV_XID_ERRORS has no variant 'plan'; did you mean 'plain'?"]


def rows(version: str, family: str, device: str = "h100", **facts: str) -> tuple[Sample, ...]:
    """The rows of a family on the sample page of a release."""
    found = read_page(sample_page(f"dcgm@{version}", device, facts=facts)[1]).families.get(family)
    return found.samples if found else ()


def label(sample: Sample, name: str) -> Any:
    return dict(sample.labels).get(name)


@pytest.mark.parametrize(
    ("version", "driver", "expected"),
    [
        ("3.2.5", "550.163.01", (None, None)),
        ("3.3.6", "550.163.01", ("0", "Unknown Error")),
        ("4.0", "550.163.01", None),
        ("4.5.2-4.8.1", "580.65.06", ("0", "No Error")),
        ("4.8.2", "580.95.05", ("0", "No Error")),
        ("4.8.3", "580.105.08", None),
        ("main", "580.64.99", None),
    ],
)
def test_a_row_of_xid_0(version: str, driver: str, expected: tuple[str | None, str | None] | None) -> None:
    """Of a healthy board: in old releases always, in others with the drivers that have it."""
    found = rows(version, "DCGM_FI_DEV_XID_ERRORS", driver_version=driver)
    assert [sample.number for sample in found] == ([] if expected is None else ["0", "0"])
    assert {(label(each, "err_code"), label(each, "err_msg")) for each in found} == ({expected} - {None})


@pytest.mark.parametrize(("version", "has_uid"), [("4.3.1", False), ("4.4.2", True), ("4.8.1", True), ("4.8.2", False)])
def test_pod_uid(version: str, has_uid: bool) -> None:
    """It is on the rows with a pod, empty, from 4.4.0-4.5.0 to 4.5.2-4.8.1; never on others."""
    free, busy = rows(version, "DCGM_FI_DEV_GPU_TEMP")
    assert label(busy, "pod") == "train-0"
    assert (label(free, "pod_uid"), label(busy, "pod_uid")) == (None, "" if has_uid else None)


@pytest.mark.parametrize(
    ("device", "driver", "expected"),
    [
        ("l4", "525.60.13", ["0", "0"]), ("t4", "580.95.05", ["0", "0"]), ("a10", "580.105.08", []),
        ("l40s", "595.58.03", []), ("h100", "580.105.08", ["0", "0"]), ("h100", "550.163.01", ["0", "0"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", ["3.0", "4.8.3"])
def test_links_that_the_driver_shows(version: str, device: str, driver: str, expected: list[str]) -> None:
    """A board without links has a row of 0 up to 580.95; one with links always has its own, once."""
    found = rows(version, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", device, driver_version=driver)
    assert [sample.number for sample in found] == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "old", "new"), [("t4", [], ["0", "0"]), ("p100", [], ["0", "0"]), ("l40s", ["0", "0"], ["0", "0"])]
)
def test_memory_without_a_sensor(device: str, old: list[str], new: list[str]) -> None:
    """DCGM 3 has a row of 0 only for boards since Ampere, DCGM 4 for all."""
    for version, expected in (("3.0", old), ("3.3.6", old), ("3.3.9", old), ("4.0", new), ("4.8.3", new)):
        assert [sample.number for sample in rows(version, "DCGM_FI_DEV_MEMORY_TEMP", device)] == expected
    assert all(int(sample.number) > 0 for sample in rows("3.0", "DCGM_FI_DEV_MEMORY_TEMP", "v100"))


@pytest.mark.parametrize(
    ("device", "has_profiling", "has_energy"),
    [("p100", False, False), ("v100", True, True), ("t4", True, True), ("rtx-4000-ada", True, True),
     ("rtx-4090", False, True), ("b200", True, True)],
)  # fmt: skip
@pytest.mark.parametrize("version", ["3.0", "4.8.3"])
def test_what_an_architecture_can_show(version: str, device: str, has_profiling: bool, has_energy: bool) -> None:
    """Profiling metrics from Volta on, of GeForce boards from Blackwell on; the counter of energy from Volta on."""
    page = read_page(sample_page(f"dcgm@{version}", device)[1])
    assert any(name.startswith("DCGM_FI_PROF_") for name in page.families) == has_profiling
    assert ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" in page.families) == has_energy
    assert "DCGM_FI_DEV_POWER_USAGE" in page.families


def test_the_order_of_rows() -> None:
    """From 4.8.3 on boards by UUID, whole ones before instances; before in the order of the boards."""
    uuids = [f"{first}0000000-0000-4000-8000-000000000000" for first in "9a1"]
    boards: list[dict[str, object]] = [{"index": index, "uuid": uuid} for index, uuid in enumerate(uuids)]
    boards[1]["mig"] = ["3g.40gb", "3g.40gb"]
    for version, expected in (("4.8.2", ["0", "1.1", "1.2", "2"]), ("4.8.3", ["2", "0", "1.1", "1.2"])):
        keys = {"device": "a100-80gb", "nodes": "1", "devices_per_node": "3", "identity": f"dcgm@{version}"}
        configuration = loaded(pool(**keys, devices=json.dumps(boards)))
        fleet = Fleet(configuration.fleet)
        identity = configuration.identities["a"]
        text = Page(LabelCache(identity, DeviceSource.of(fleet, identity)), fleet.roster.shown).render(fleet.state)
        families = read_page(text.decode()).families
        for name in ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"):
            labels = [dict(sample.labels) for sample in families[name].samples]
            found = [".".join(filter(None, (each["gpu"], each.get("GPU_I_ID")))) for each in labels]
            assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("family", ["DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"])
@pytest.mark.parametrize("version", ["3.3.9", "4.5.2-4.8.1", "4.8.2"])
def test_what_a_board_does_not_have(version: str, family: str) -> None:
    """A board without a sensor of the memory, or without links, shows 0; one with them shows its own number."""
    assert [sample.number for sample in rows(version, family, "l40s")] == ["0", "0"]
    assert all(int(sample.number) >= 0 for sample in rows(version, family))
    assert int(rows(version, "DCGM_FI_DEV_MEMORY_TEMP")[1].number) > 30


@pytest.mark.slow
def test_what_changed_when() -> None:
    """Labels, texts and families of releases, as the facts have them."""
    pages = {version: read_page(sample_page(f"dcgm@{version}", "h100")[1])
             for version in ("3.2.5", "3.3.6", "3.3.9", "4.2.0", "4.3.1", "main", "4.8.3")}

    def names(version: str) -> tuple[str, ...]:
        return pages[version].families["DCGM_FI_DEV_GPU_TEMP"].samples[0].label_names

    assert ["pci_bus_id" in names(each) for each in ("3.2.5", "3.3.6", "3.3.9", "4.2.0")] == [False, False, True, True]
    assert [page for page in pages if "hostname" in names(page)] == ["main", "4.8.3"]
    texts = {version: page.families["DCGM_FI_DEV_FB_FREE"].help for version, page in pages.items()}
    assert [each for each, text in texts.items() if text == "Frame buffer memory free (in MB)."] == [
        "3.2.5", "3.3.6", "3.3.9"]
    assert [each for each, page in pages.items() if "DCGM_FI_DEV_FB_RESERVED" in page.families] == [
        "4.3.1", "main", "4.8.3"]
    assert [each for each, page in pages.items() if list(page.families) == sorted(page.families)] == ["4.8.3"]


#: Of 4.9.0, in the order of the page: after DCGM_FI_DEV_ and DCGM_FI_PROF_.
PAGE_OF_4_9 = (
    "BOARD_POWER_WATTS DEC_UTIL_RATIO ENC_UTIL_RATIO FB_CAPACITY_BYTES FB_FREE_BYTES FB_RESERVED_BYTES FB_USED_BYTES "
    "GPU_ENERGY_JOULES_TOTAL GPU_TEMP_CELSIUS GPU_UTIL_RATIO MEMORY_CLOCK_HERTZ MEMORY_TEMP_CELSIUS MEMORY_UTIL_RATIO "
    "NVLINK_THROUGHPUT_BYTES_PER_SECOND PCIE_REPLAY_TOTAL ROW_REMAP_CORRECTABLE_TOTAL ROW_REMAP_FAILED "
    "ROW_REMAP_UNCORRECTABLE_TOTAL SM_CLOCK_HERTZ VGPU_LICENSE_STATUS XID_ERROR",
    "DRAM_UTIL_RATIO GR_ENGINE_UTIL_RATIO PCIE_RX_BYTES PCIE_TX_BYTES TENSOR_UTIL_RATIO",
)


@pytest.mark.slow
def test_the_page_of_4_9() -> None:
    """Its 26 families by name, its labels in their order, and its numbers in base units as its writer writes them."""
    driver = {"driver_version": "580.95.05"}  # with it, healthy boards have a row of XIDs
    page, before = (read_page(sample_page(f"dcgm@{each}", "h100", facts=driver)[1]) for each in ("4.9.0", "4.8.4"))
    assert list(page.families) == [
        f"DCGM_FI_{kind}_{name}"
        for kind, names in zip(("DEV", "PROF"), PAGE_OF_4_9, strict=True)
        for name in names.split()
    ]
    assert len(page.families.keys() & before.families.keys()) == 3
    labels = "gpu UUID pci_bus_id device modelName hostname DCGM_FI_SYSTEM_DRIVER_VERSION container namespace pod"
    busy = {}
    for name, family in page.families.items():
        (row,) = [sample for sample in family.samples if "pod" in sample.label_names]
        own = (*labels.split(), "err_code", "err_msg") if name.endswith("XID_ERROR") else labels.split()
        assert sorted(row.label_names[7:]) == list(row.label_names[7:]) and set(row.label_names) == set(own)
        assert row.label_names[:7] == tuple(labels.split()[:7])
        # Six decimals first, then the shortest text, with an exponent from a million on and below 0.0001.
        assert row.number == _shortest(round(float(row.number), 6))
        busy[name.removeprefix("DCGM_FI_DEV_")] = row.number
    assert (busy["SM_CLOCK_HERTZ"], busy["FB_CAPACITY_BYTES"]) == ("1.98e+09", "8.5520809984e+10")
    assert 0 < float(busy["GPU_UTIL_RATIO"]) <= 1
    # DCGM's sum of KiB/s: before by 1000, now in bytes.
    old = before.families["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"].samples[1].number
    assert float(busy["NVLINK_THROUGHPUT_BYTES_PER_SECOND"]) / 1_024_000 == pytest.approx(float(old), abs=1)


def _shortest(value: float) -> str:
    """A number as Go writes it with %g and the fewest digits."""
    digits = next(text for text in (f"{value:.{places}e}" for places in range(17)) if float(text) == value)
    exponent = int(digits.partition("e")[2])
    return digits if value and not -4 <= exponent < 6 else repr(value).removesuffix(".0")


@pytest.mark.parametrize(
    ("version", "field", "low", "high"),
    [("4.8.3", "DCGM_FI_DEV_GPU_UTIL_RATIO", 2, 100), ("4.9.0", "DCGM_FI_DEV_GPU_UTIL_RATIO", 0.02, 1),
     ("4.9.0", "DCGM_FI_DEV_GPU_UTIL", 2, 100), ("4.8.4", "DCGM_FI_DEV_FB_USED_RATIO", 0.01, 1)],
)  # fmt: skip
def test_names_of_a_counters_file(tmp_path: Path, version: str, field: str, low: float, high: float) -> None:
    """Old and new names; GPU_UTIL_RATIO is a name of the field in percent in DCGM 4.6, and one of its own in 4.7."""
    own = tmp_path / "own.yaml"
    own.write_text(f"name: own\nbased-on: dcgm@{version}\ncounters: |\n  {field}, gauge, U.\n")
    _, busy = read_page(sample_page(str(own), "h100")[1]).families[field].samples
    assert low <= float(busy.number) <= high


@pytest.mark.parametrize(("version", "said"), [("4.8.2", "no field"), ("4.8.4", "")])
def test_names_that_came_later(tmp_path: Path, version: str, said: str) -> None:
    """A name of DCGM 4.6 is none in 4.5."""
    own = f"name: own\nbased-on: dcgm@{version}\ncounters: |\n  DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL, counter, E.\n"
    found = problems(pool(identity="own.yaml"), {"own.yaml": own}) if said else []
    assert [said in each for each in found] == [True] * len(found)
    if not said:
        assert loaded(pool(identity="own.yaml"), {"own.yaml": own}).identities["a"].families
