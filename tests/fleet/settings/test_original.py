"""The original exporter's JSON: read as its own server reads it, and held to what can be shown."""

# ruff: noqa: E501 - the tables hold whole messages
from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.exporters.identity import FamilySpec, LabelSpec, NumberFormat, RowSpec
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import Range
from fakedev.fleet.spec.workload_spec import FOREVER, Activity
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError
from tests.support.configurations import loaded, pool, problems
from tests.support.fleet.fleets import advance, start
from tests.support.paths import DATA, ORIGINALS

needs_originals = pytest.mark.skipif(not ORIGINALS.is_dir(), reason="the original's own JSON files are not at hand")

DEVICE: dict[str, Any] = json.loads((DATA / "original-device.json").read_text())
DEVICES: dict[str, Any] = json.loads((DATA / "original-devices.json").read_text())
IDENTITY: dict[str, Any] = json.loads((DATA / "original-identity.json").read_text())
WORKLOAD: dict[str, Any] = json.loads((DATA / "original-workload.json").read_text())
TEXT = pool(device="dev.json", devices="list.json", devices_per_node="2", identity="id.json")


def files(**changed: Mapping[str, object] | str) -> dict[str, str]:
    """The four files with some replaced: dev, list, id, wl."""
    found = {"dev": DEVICE, "list": DEVICES, "id": IDENTITY, "wl": WORKLOAD} | changed
    return {
        f"{name}.json": text if isinstance(text, str) else json.dumps(text, indent="\t") for name, text in found.items()
    }


def of_data(extra: str = "") -> Configuration:
    text = pool(device="original-device.json", devices="original-devices.json", identity="original-identity.json")
    return load(str(DATA / "f.yaml"), Files(), text=text + extra)


def test_device_type_has_what_the_file_names() -> None:
    """Ranges under our names, the memory's size, usage added, other metrics as they are, no error counters."""
    found = of_data().fleet.pools[0].device_type
    assert found.name == "original-device"
    assert found.ranges == {
        "core_frequency_mhz": Range(400, 2050),
        "memory_used_bytes": Range(2097152, 14939062272),
        "power_watts": Range(0, 120),
        "fan": Range(600, 4200),
        "usage_ratio": Range(0, 1),
    }
    assert (found.memory_total_bytes, found.counts_errors) == (14939062272, False)
    assert found.facts == {"pciid": "0x56c0", "name": "Small Accelerator [0x56c0]"}


def test_device_list_gives_the_count_and_the_labels() -> None:
    found = of_data().fleet.pools[0]
    assert found.devices_per_node == 3
    assert found.devices[1].facts == {"file": "card6", "addr": "0000:5b:00.0"}


def test_identity_with_type_and_help() -> None:
    """Labels sorted by their mapped names, empty names as they are, TYPE and HELP from the catalog or made."""
    identity = of_data().identities["a"]
    assert identity.labels == (
        LabelSpec("bdf", "{addr}", True),
        LabelSpec("dev_file", "{file}", True),
        LabelSpec("pciid", "{pciid}", True),
    )
    labels = (LabelSpec("location", "gpu"), LabelSpec("type", "actual"))
    known, power, fan, memory = identity.families
    assert known.help == "Avg (GPU) frequency (in MHz), per GPU tile"
    assert (known.kind, known.number, known.rows) == (
        "gauge",
        NumberFormat.GO,
        (RowSpec("core_frequency_mhz", labels=labels),),
    )
    assert power == FamilySpec(
        "acme_power_watts", "gauge", "Power drawn by the board", NumberFormat.GO, (RowSpec("power_watts"),)
    )
    assert fan == FamilySpec("acme_fan_turns_total", "counter", "Fan of the device", NumberFormat.GO, (RowSpec("fan"),))
    assert (memory.name, memory.rows) == ("memory", (RowSpec("memory_used_bytes"),))


def test_labels_that_are_left_out_are_noted() -> None:
    assert of_data().notes == (
        f"{DATA}/original-device.json:4: the label 'name' is left out: original-identity does not show it",
    )


def test_workload_repeats_for_ever_and_stays_where_it_is_put() -> None:
    """A missing Repeat is for ever, a missing number 0; the entry's own keys win over the file."""
    extra = "workloads: {listen: [], base: [original-workload.json, {file: original-workload.json, name: x, devices: odd, repeat: 3}]}"
    text = pool(device="dg1", identity="collectd").replace("workloads: {listen: []}\n", extra)
    first, second = load(str(DATA / "f.yaml"), Files(), text=text).fleet.base
    assert (first.name, first.devices, first.repeat) == ("two-steps", ("all",), 0)
    assert tuple(first.activities) == (Activity(30, 4, 20), Activity(60, 0, FOREVER))
    assert (second.name, second.devices, second.repeat) == ("x", ("odd",), 3)


def test_names_in_any_letter_case() -> None:
    """Keys of the format match in any letter case; labels and metrics are the user's own names."""
    upper = (
        json.dumps(DEVICE)
        .replace("DeviceLabels", "DEVICELABELS")
        .replace('"Min"', '"min"')
        .replace("MetricLimits", "metriclimits")
    )
    assert loaded(TEXT, files(dev=upper)).fleet == loaded(TEXT, files()).fleet


def test_unknown_keys_are_noted() -> None:
    notes = loaded(TEXT, files(dev=DEVICE | {"MetricLimit": {}})).notes
    assert notes[0] == "/conf/dev.json:23: unknown key 'MetricLimit' is not used; did you mean 'MetricLimits'?"


def test_a_dollar_and_a_brace_are_just_that() -> None:
    found = loaded(TEXT, files(dev=DEVICE | {"DeviceLabels": {"pciid": "${X} $$"}}))
    assert found.fleet.pools[0].device_type.facts == {"pciid": "${X} $$"}


LIMITS: dict[str, Any] = DEVICE["MetricLimits"]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"dev": "{\n}"}, "dev.json:1: MetricLimits names no metric: give it at least one, with Min and Max"),
        ({"dev": "[]"}, "dev.json:1: a device type is a mapping with name, facts, memory and ranges"),
        ({"dev": '{"MetricLimits": 3}'}, 'dev.json:1: MetricLimits: must be a mapping of metrics to {"Min": ..., "Max": ...}, not \'3\''),
        ({"dev": '{"MetricLimits": {\n"power": 3}}'}, "dev.json:2: MetricLimits.power: must be a mapping of Min, Max, not '3'"),
        ({"dev": '{"MetricLimits": {"power": {\n"Min": "3"}}}'}, "dev.json:2: MetricLimits.power.Min: must be a number, not '3'"),
        ({"dev": DEVICE | {"MetricLimits": LIMITS | {"fan": {"Min": 3, "Max": 2}}}}, "dev.json:18: MetricLimits.fan: Min 3 is over Max 2"),
        ({"dev": DEVICE | {"MetricLimits": LIMITS | {"power": {"Min": 5}}}}, "dev.json:15: MetricLimits.power: Min 5 is over Max 0"),
        ({"dev": DEVICE | {"MetricLimits": LIMITS | {"power_watts": {}}}}, "dev.json:22: MetricLimits.power_watts: is there twice, under two names"),
        ({"dev": '{"DeviceLabels": {\n"name": 3}, "MetricLimits": {"fan": {}}}'}, "dev.json:2: DeviceLabels.name: must be a text in quotes, not '3'"),
        ({"dev": IDENTITY}, "dev.json:1: is the original's identity, where its device type is expected"),
        ({"dev": '{"MetricLimits": {"fan": {"Max": 1e999}}}'}, "dev.json:1: 1e999 is too large for a number"),
        ({"dev": '{"MetricLimits": {"fan": {"Max": NaN}}}'}, "dev.json:1: NaN is not JSON: a text goes in quotes, a number is written as 1.5e3"),
        ({"list": {"DeviceLabels": DEVICES["DeviceLabels"][:1]}}, "f.yaml:1: 2 devices are requested, and the list list.json has 1: request fewer, or list more"),
        ({"list": {"DeviceLabels": [{"file": "card0"}, {"file": "card0"}]}}, "list.json:7: DeviceLabels: the file 'card0' is there twice (first in line 4)"),
        ({"list": {"DeviceLabels": {}}}, "list.json:1: is the original's device type, where its device list is expected"),
        ({"id": IDENTITY | {"DeviceLabelMap": {"adr": "x"}}}, "id.json:3: DeviceLabelMap.adr: no device of pool a has the label 'adr'; did you mean 'addr'?"),
        ({"id": IDENTITY | {"DeviceLabelMap": {"addr": "a b"}}}, "id.json:3: 'a b' is no label name: letters, digits and _ only, no digit and no __ first"),
        ({"id": IDENTITY | {"DeviceLabelMap": {"addr": "x", "file": "x"}}}, "id.json:4: two labels are mapped to 'x': give them names that differ"),
        ({"id": IDENTITY | {"MetricMap": {"frequency": "f", "temperature": "t"}}}, "id.json:9: MetricMap: dev of pool a has no 'temperature_celsius'; it has "
            "core_frequency_max_mhz, core_frequency_mhz, core_frequency_min_mhz, created_seconds, energy_joules, engine_active_ratio, fan, memory_free_bytes, memory_reserved_bytes, memory_total_bytes, memory_usable_bytes, memory_used_bytes, memory_used_ratio, power_instant_watts, power_watts, usage_ratio"),
        ({"id": IDENTITY | {"MetricMap": {"frequency": "f g"}}}, "id.json:8: MetricMap.frequency: 'f g' is no metric name: letters, digits, _ and : only, no digit first"),
        ({"id": IDENTITY | {"MetricMap": {}}}, "id.json:7: MetricMap names no metric: give it at least one"),
        ({"id": IDENTITY | {"MetricLabels": {"powr": {"a": "b"}}}}, "id.json:14: MetricLabels.powr: the metric is not in MetricMap; did you mean 'power'?"),
        ({"id": IDENTITY | {"MetricLabels": {"power": {"a": "{b}"}}}}, "id.json:15: MetricLabels.power.a: a brace cannot be shown in a label: remove it"),
        ({"id": IDENTITY | {"MetricMap": {"power": "x", "fan": "x"}, "MetricLabels": {}}}, "id.json:7: x: two rows have the same labels: give them a label that differs"),
        ({"id": IDENTITY | {"MetricLabels": {"power": {"bdf": "b"}}}}, "id.json:7: acme_power_watts: the label 'bdf' is given 2 times on a line: remove one"),
        ({"wl": WORKLOAD | {"Profile": []}}, "wl.json:3: profile: a profile needs at least one activity"),
        ({"wl": WORKLOAD | {"Profile": [{"Load": 101}]}}, "wl.json:3: profile: activity 1: load 101 is not within 0 to 100"),
        ({"wl": WORKLOAD | {"Profile": [{"Load": 98, "Fluctuation": 5}]}}, "wl.json:3: profile: activity 1: load 98 + fluctuation 5 is over 100"),
        ({"wl": WORKLOAD | {"Profile": [{"Load": 9, "Seconds": -1}]}}, "wl.json:3: profile: activity 1: -1 seconds is not within 0 to 1e+10"),
        ({"wl": WORKLOAD | {"Devices": ["card5"]}}, "wl.json:13: devices: no device 'card5'; did you mean card6?"),
        ({"wl": WORKLOAD | {"Repeat": -1}}, "wl.json:13: Repeat: -1 is not within 0 to 9007199254740992"),
        ({"wl": "{"}, "wl.json:1: is not complete: it ends in the middle of its JSON value"),
    ],
)  # fmt: skip
def test_problem(changed: Mapping[str, Mapping[str, object] | str], expected: str) -> None:
    text = TEXT.replace("listen: []", "listen: [], base: [wl.json]")
    assert expected in problems(text, files(**changed))


def test_a_file_without_faults_has_no_problem() -> None:
    assert problems(TEXT.replace("listen: []", "listen: [], base: [wl.json]"), files()) == []


def test_built_in_identities_work_on_the_originals_devices_and_the_other_way_round() -> None:
    """addr, file, pciid and name mean our longer names, and the longer names mean them."""
    identity = {key: value for key, value in IDENTITY.items() if key != "MetricLabels"} | {"MetricMap": {"power": "p"}}
    assert problems(pool(device="h100", identity="id.json"), files(id=identity)) == []
    assert problems(TEXT.replace("id.json", "collectd"), files()) == []


@needs_originals
@pytest.mark.parametrize("identity", ["collectd", "xpu-manager"])
@pytest.mark.parametrize("count", [1, 2, 128])
def test_the_originals_own_files(identity: str, count: int) -> None:
    text = pool(
        device="dg1-4905.json", devices="devlist.json", devices_per_node=str(count), identity=f"{identity}.json"
    ).replace(
        "listen: []", "listen: [], base: [load-10.json, load-10-exact.json, load-40-loop-60s.json, load-50-30s.json]"
    )
    found = load(str(ORIGINALS / "f.yaml"), Files(), text=text)
    prefix = {"collectd": "collectd_gpu_sysman_", "xpu-manager": "xpum_"}[identity]
    assert [family.name.removeprefix(prefix) for family in found.identities["a"].families] == [
        "frequency_mhz",
        "memory_used_bytes",
        "power_watts",
        "temperature_celsius",
    ]
    assert [label.name for label in found.identities["a"].labels] == ["dev_file", "pci_bdf", "pci_dev"]
    assert [workload.repeat for workload in found.fleet.base] == [0, 0, 0, 1]
    assert found.fleet.pools[0].devices_per_node == count


@needs_originals
def test_more_devices_than_the_original_lists() -> None:
    text = pool(device="dg1-4905.json", devices="devlist.json", devices_per_node="129", identity="collectd.json")
    path = str(ORIGINALS / "f.yaml")
    assert problems_of(path, text) == [
        f"{path}:1: 129 devices are requested, and the list devlist.json has 128: request fewer, or list more"
    ]


def problems_of(path: str, text: str) -> list[str]:
    try:
        load(path, Files(), text=text)
    except ConfigurationError as error:
        return str(error).splitlines()
    return []


RANGES = {"frequency": (300, 1300), "power": (50, 250), "temperature": (30, 80), "memory": (0, 1000)}


class TestRelations:
    shown = ("core_frequency_mhz", "power_watts", "temperature_celsius", "memory_used_bytes")

    def after_a_minute(self, **pool_keys: str) -> list[float]:
        """Its quantities after a minute of two workloads at 30 %, of which one is memory-bound."""
        limits = {name: {"Min": low, "Max": high} for name, (low, high) in RANGES.items()}
        device = json.dumps({"DeviceLabels": {"pciid": "0x1", "name": "Small"}, "MetricLimits": limits})
        spec = loaded(pool(device="dev.json", labels="{driver_version: x}", **pool_keys), {"dev.json": device}).fleet
        fleet = Fleet(replace(spec, exact_sensors=True))
        for kind in ("compute", "memory") if pool_keys else ("compute", "compute"):
            start(fleet, "card0", "30:0:0", kind=kind)
        advance(fleet, 60)
        return [round(float(getattr(fleet, name)[0]), 3) for name in self.shown]

    def test_the_direct_rule(self) -> None:
        """Every metric is at 60 % of its way at once, as the original's."""
        assert self.after_a_minute() == [low + 0.6 * (high - low) for low, high in RANGES.values()]

    def test_relations_that_are_configured(self) -> None:
        """The pool's: work raises the clock in full, power tells the kinds apart, heat lags, memory is held."""
        found = self.after_a_minute(dynamics="{power-limit-watts: 300, thermal-seconds: 60}")
        watts = 50 + 200 * (0.06 + 0.94 * (0.3 + 0.35 * 0.3))
        celsius = 30 + 50 * (watts - 50) / 200 * (1 - math.exp(-1))
        assert found == [1300, pytest.approx(watts, abs=1e-3), pytest.approx(celsius, abs=1e-3), 600]
