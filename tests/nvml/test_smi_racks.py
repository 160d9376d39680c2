"""nvidia-smi on a compute tray of a rack: its place, its fabric, and the power of its modules."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.application import application
from tests.support.driver.nvidia_smi import Command
from tests.support.driver.nvml import bindings
from tests.support.driver.report_elements import captures, differences, forms_of

_FLEET = """
version: 1
fleet:
  pools: [{{name: nvl, nodes: 18, device: gb200, racks: nvl72}}]
web: []
workloads: {{listen: []}}
nvml: {{file: {file}}}
faults:
  - {{kind: switch-tray, devices: [nvl-3/0], tray: 2, start: 5s}}
"""
_POOL = "{{fleet: {{pools: [{pool}]}}, web: [], workloads: {{listen: []}}, nvml: {{file: {file}}}}}"


def test_a_compute_tray(tmp_path: Path) -> None:
    file = tmp_path / "nvml.map"
    with application(_FLEET.format(file=file)) as app:
        smi = Command(file)
        smi.environ["FAKEDEV_NODE"] = "nvl-4"

        def shown(*fields: str) -> list[str]:
            return smi.rows(",".join(fields), form="csv,noheader,nounits")[0]

        place = shown("platform.slot_number", "platform.tray_index", "platform.host_id", "platform.module_id")
        assert place == ["14", "4", "1", "2"]
        serial, cluster, clique = shown("platform.chassis_serial_number", "fabric.clusterUuid", "fabric.cliqueId")
        assert len(serial) == 13 and len(cluster) == 36 and clique == "0"
        assert shown("fabric.state", "fabric.status") == ["Completed", "Success"]
        health = ("fabric.health.summary", "fabric.health.bandwidth", "fabric.health.route_unhealthy")
        assert shown(*health) == ["Healthy", "Full", "False"]
        boards = [float(row[0]) for row in smi.rows("power.draw.instant", form="csv,noheader,nounits")]
        assert smi("nvlink", "-s", "-i", "0").splitlines()[1] == "\t Link 0: 53.125 GB/s"
        chips = smi("c2c", "-s", "-i", "0").splitlines()
        assert len(chips) == 6 and chips[1] == "\t C2C Link 0: 44.712 GB/s"
        module = float(shown("module.power.draw.instant")[0])
        assert module == pytest.approx(boards[0] + boards[1] + 143, abs=15)
        app.tick(8)
        assert shown(*health) == ["Unhealthy", "Degraded", "True"]


@pytest.mark.parametrize(
    ("device", "known"),
    # The captured GB200 belongs to a virtual machine, which does not see the configuration of the fabric.
    [("gb200", {"fabric/health/incorrect_configuration"}), ("gb300", set())],
)
def test_the_elements_of_a_tray_are_those_of_captures(tmp_path: Path, device: str, known: set[str]) -> None:
    """A pool of gb200-nvl72 alone is a rack; each board has the elements of a capture, in the same form."""
    capture = next(capture for capture in captures() if capture.device.startswith(device))
    file = tmp_path / "nvml.map"
    pool = f"{{name: nvl, device: {device}-nvl72, driver: {capture.driver}}}"
    with application(_POOL.format(pool=pool, file=file)) as app:
        app.tick(2)
        smi = Command(file)
        smi.environ["FAKEDEV_NODE"] = "nvl-17"
        boards = ElementTree.fromstring(smi("-q", "-x")).findall("gpu")
    assert [board.findtext("platformInfo/module_id") for board in boards] == ["2", "1", "4", "3"]
    for board in boards:
        assert differences(capture.forms, forms_of(board)).keys() == known


def test_power_smoothing_with_its_settings(tmp_path: Path) -> None:
    """Captures refuse it (above); where racks have it on, NVML and nvidia-smi answer."""
    file = tmp_path / "nvml.map"
    racks = "{kind: nvl72, ramp-up: 100, ramp-down: 50, smoothing-floor: 62.5, smoothing-hold: 5}"
    pool = f"{{name: nvl, nodes: 1, device: gb200, racks: {racks}, driver: 595.71.05}}"
    with application(_POOL.format(pool=pool, file=file)) as app, bindings(file) as nvml:
        app.tick(2)
        smi = Command(file)
        section = smi("-q", "-d", "POWER_SMOOTHING", "-i", "0")
        board = ElementTree.fromstring(smi("-q", "-x")).findall("gpu")[0]
        names = ("enabled", "tmp_ceil", "tmp_floor", "curr_profile.percent_tmp_floor", "curr_profile.ramp_up_rate")
        row = smi.rows(",".join(f"power_smoothing.{name}" for name in names), form="csv,noheader")[0]
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        numbers = (*range(251, 265), 268)
        fields = nvml.nvmlDeviceGetFieldValues(handle, list(numbers))
        other = nvml.nvmlDeviceGetFieldValues(handle, [(261, 1)])[0]
        capabilities = nvml.c_nvmlDeviceCapabilities_v1_t()
        assert nvml.nvmlDeviceGetCapabilities(handle, nvml.byref(capabilities)) == nvml.NVML_SUCCESS
        assert capabilities.capMask & nvml.NVML_DEV_CAP_EGM == 0
    assert row == ["Yes", "1200.00 W", "750.00 W", "62.50 %", "100000 mW/s"]
    assert "Ramp Down Hysteresis" in section and ": 5000 ms" in section
    assert board.findtext("power_smoothing/curr_profile/ramp_down_rate") == "50000 mW/s"
    values = {
        field.fieldId: field.value.dVal if field.valueType == nvml.NVML_VALUE_TYPE_DOUBLE else field.value.uiVal
        for field in fields if field.nvmlReturn == nvml.NVML_SUCCESS
    }  # fmt: skip
    assert values == {
        251: 1, 252: 2, 253: 1, 254: 1200, 255: 750, 256: 100.0, 257: 0.0, 259: 5, 260: 62.5, 261: 100_000,
        262: 50_000, 263: 5000, 264: 0, 268: 0xFFFFFFFF,
    }  # fmt: skip
    assert other.nvmlReturn == nvml.NVML_ERROR_NOT_SUPPORTED  # the other presets are empty


def test_the_matrix_of_a_tray_is_that_of_a_capture(tmp_path: Path) -> None:
    """Boards are NUMA nodes of the system, and have spare ones for instances (sgl-project/sglang#11208)."""
    file = tmp_path / "nvml.map"
    with application(_FLEET.format(file=file)):
        smi = Command(file)
        smi.environ["FAKEDEV_NODE"] = "nvl-4"
        rows = [line.split() for line in smi("topo", "-m").splitlines()[1:5]]
    assert [row[5:] for row in rows] == [
        ["0-71", "0,3-9,11-17", "2"], ["0-71", "0,3-9,11-17", "10"],
        ["72-143", "1,19-25,27-33", "18"], ["72-143", "1,19-25,27-33", "26"],
    ]  # fmt: skip
    for index, row in enumerate(rows):
        assert row[1:5] == ["X" if index == other else "NV18" for other in range(4)]
