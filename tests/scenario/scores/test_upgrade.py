"""What an upgrade of an exporter makes of expressions, and the recording rules for the old names."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakedev.exporters.counterparts import renamed
from fakedev.scenario.scores.upgrade import bridge, changes, rewritten, rewritten_groups
from tests.support.identities import loaded

NAMES = renamed(loaded("dcgm@4.8.2"), loaded("dcgm@4.9.0"))


def test_another_vendor() -> None:
    """A metric that the new vendor's boards have comes before those of its older boards; an index is an index."""
    dcgm, amd = loaded("dcgm@4.8.2"), loaded("amd-device-metrics")
    shown = ("gpu_junction_temperature", "gpu_package_power", "gpu_power_usage", "gpu_used_vram")
    names = renamed(dcgm, amd, shown)
    assert names.families["DCGM_FI_DEV_GPU_TEMP"] == ("gpu_junction_temperature", 1.0, "")
    assert names.families["DCGM_FI_DEV_POWER_USAGE"].name == "gpu_power_usage"
    assert names.families["DCGM_FI_DEV_FB_USED"] == ("gpu_used_vram", 1.0, "")
    assert renamed(dcgm, amd).families["DCGM_FI_DEV_GPU_TEMP"][0] == "gpu_edge_temperature"
    assert names.labels["gpu"] == "gpu_id"


def test_rows_of_a_family_with_several() -> None:
    """The counterpart is selected by its own labels, few of them; also in the recording rules for the old names."""
    names = renamed(loaded("dcgm@4.8.2"), loaded("amd-device-metrics"))
    for before, after in (
        ("DCGM_FI_DEV_MEM_CLOCK / 2", 'gpu_clock{clock_type="memory"} / 2'),
        ('DCGM_FI_DEV_SM_CLOCK{gpu="0"}', 'gpu_clock{clock_index="0",clock_type="system",gpu_id="0"}'),
    ):
        assert rewritten(before, names) == after
    assert changes("DCGM_FI_DEV_MEM_CLOCK", names) == ['DCGM_FI_DEV_MEM_CLOCK is gpu_clock{clock_type="memory"}']
    (rule,) = bridge(names, frozenset({"DCGM_FI_DEV_MEM_CLOCK"}))["rules"]
    assert 'gpu_clock{clock_type="memory"}' in rule["expr"]


def test_several_with_one_counterpart() -> None:
    """AMD's boards have several temperatures and kinds of power, those of dcgm one of each."""
    names = renamed(loaded("amd-device-metrics"), loaded("dcgm@4.8.2"))
    for name in ("gpu_edge_temperature", "gpu_junction_temperature"):
        assert names.families[name].name == "DCGM_FI_DEV_GPU_TEMP"
    assert names.families["gpu_energy_consumed"] == ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 0.001, "")
    assert "gpu_health" in names.lost_families


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DCGM_FI_DEV_GPU_TEMP > 80", "DCGM_FI_DEV_GPU_TEMP_CELSIUS > 80"),
        ("DCGM_FI_DEV_GPU_UTIL > 90", "(DCGM_FI_DEV_GPU_UTIL_RATIO * 100) > 90"),
        ("sum(DCGM_FI_DEV_FB_USED)", "sum(DCGM_FI_DEV_FB_USED_BYTES / 1048576)"),
        (
            'DCGM_FI_DEV_FB_USED{gpu=~"[01]", Hostname!="a"} offset 5m / 1024',
            '(DCGM_FI_DEV_FB_USED_BYTES{gpu=~"[01]", hostname!="a"} offset 5m / 1048576) / 1024',
        ),
        # What a function makes of a window has the new unit, not the window.
        (
            "avg by (Hostname, gpu) (rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[5m])) / 1000",
            "avg by (hostname, gpu) (rate(DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL[5m]) * 1000) / 1000",
        ),
        ("quantile_over_time(0.9, DCGM_FI_DEV_SM_CLOCK[5m]) < 300",
         "(quantile_over_time(0.9, DCGM_FI_DEV_SM_CLOCK_HERTZ[5m]) / 1000000) < 300"),
        ("max_over_time(DCGM_FI_DEV_SM_CLOCK[5m:1m]) < 300",
         "max_over_time((DCGM_FI_DEV_SM_CLOCK_HERTZ / 1000000)[5m:1m]) < 300"),
        # These do not depend on the unit; absent() would lose its labels.
        ('absent(DCGM_FI_DEV_FB_USED{job="x"})', 'absent(DCGM_FI_DEV_FB_USED_BYTES{job="x"})'),
        ("count by (gpu) (DCGM_FI_DEV_FB_USED) < 8", "count by (gpu) (DCGM_FI_DEV_FB_USED_BYTES) < 8"),
        ("changes(DCGM_FI_DEV_SM_CLOCK[5m]) > 3", "changes(DCGM_FI_DEV_SM_CLOCK_HERTZ[5m]) > 3"),
        ("count(DCGM_FI_DEV_FB_USED > 1024)", "count((DCGM_FI_DEV_FB_USED_BYTES / 1048576) > 1024)"),
        ("label_values(DCGM_FI_DEV_GPU_TEMP, Hostname)", "label_values(DCGM_FI_DEV_GPU_TEMP_CELSIUS, hostname)"),
        ("label_values(DCGM_FI_DEV_FB_USED, gpu)", "label_values(DCGM_FI_DEV_FB_USED_BYTES, gpu)"),
        # Names in texts and comments are no names.
        ('up{job="DCGM_FI_DEV_FB_USED"} # DCGM_FI_DEV_FB_FREE', 'up{job="DCGM_FI_DEV_FB_USED"} # DCGM_FI_DEV_FB_FREE'),
        ("x * on(gpu) group_left(DCGM_FI_DRIVER_VERSION) DCGM_FI_DEV_GPU_TEMP",
         "x * on(gpu) group_left(DCGM_FI_SYSTEM_DRIVER_VERSION) DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
    ],
)  # fmt: skip
def test_rewritten(before: str, after: str) -> None:
    """Only names and units change; what is rewritten stays as it is when it is rewritten again."""
    assert rewritten(before, NAMES) == after
    assert rewritten(after, NAMES) == after


def test_in_words() -> None:
    """Each metric and label that is called otherwise, and by how much values differ; nothing of what stays."""
    assert changes('DCGM_FI_DEV_FB_USED{Hostname="a"} + DCGM_FI_PROF_PCIE_TX_BYTES', NAMES) == [
        "DCGM_FI_DEV_FB_USED is DCGM_FI_DEV_FB_USED_BYTES, 1048576 times as large", "label Hostname is hostname",
    ]  # fmt: skip
    assert changes("avg by (gpu) (DCGM_FI_PROF_PCIE_TX_BYTES)", NAMES) == []


def test_without_a_counterpart() -> None:
    """To another vendor's page: what it does not have is gone."""
    names = renamed(loaded("dcgm@4.8.2"), loaded("xpumanager@1.3"))
    assert "DCGM_FI_DEV_VGPU_LICENSE_STATUS" in names.lost_families
    assert changes('DCGM_FI_DEV_VGPU_LICENSE_STATUS{GPU_I_ID="1"}', names) == [
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS is gone", "label GPU_I_ID is gone",
    ]  # fmt: skip


def test_the_same_name_with_another_unit(tmp_path: Path) -> None:
    """DCGM 4.6 shows field 203 as GPU_UTIL_RATIO too, in percent; from 4.7 on that is another field, of 0 to 1."""
    field = "DCGM_FI_DEV_GPU_UTIL_RATIO"
    for version in ("4.8.4", "4.9.0"):
        own = f"name: own\nbased-on: dcgm@{version}\ncounters: |\n  {field}, gauge, U.\n"
        (tmp_path / f"{version}.yaml").write_text(own)
    old, new = (loaded(str(tmp_path / f"{version}.yaml")) for version in ("4.8.4", "4.9.0"))
    names = renamed(old, new)
    assert names.families == {field: (field, 0.01, "")}
    assert rewritten(f"{field} > 90", names) == f"({field} * 100) > 90"
    assert bridge(names, frozenset([field]))["rules"] == []


def test_bridge() -> None:
    """Recording rules have the old names, units and labels; only for what is used."""
    (rule,) = bridge(NAMES, frozenset(["DCGM_FI_DEV_FB_USED", "up"]))["rules"]
    assert rule["record"] == "DCGM_FI_DEV_FB_USED"
    assert rule["expr"] == (
        'label_replace(label_replace(DCGM_FI_DEV_FB_USED_BYTES / 1048576, "Hostname", "$1", "hostname", "(.+)"), '
        '"DCGM_FI_DRIVER_VERSION", "$1", "DCGM_FI_SYSTEM_DRIVER_VERSION", "(.+)")'
    )


def test_a_rule_file() -> None:
    """Labels that annotations show have their new names."""
    rule = {"alert": "Hot", "expr": "DCGM_FI_DEV_GPU_TEMP > 80", "annotations": {"summary": "{{ $labels.Hostname }}"}}
    assert rewritten_groups([{"name": "g", "rules": [rule]}], NAMES) == [
        {"name": "g", "rules": [{**rule, "expr": "DCGM_FI_DEV_GPU_TEMP_CELSIUS > 80",
                                 "annotations": {"summary": "{{ $labels.hostname }}"}}]}
    ]  # fmt: skip
