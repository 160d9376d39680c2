"""What the built-in identities show of faults, work and divided boards: the rows that alert rules read."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from fakedev.config.sample_page import sample_page
from tests.support.identities import loaded
from tests.support.paths import GOLDEN

needs_golden = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"the reference texts are not at hand ({GOLDEN})")

#: The sample page has two boards: the first is idle, the second works.
IDLE, BUSY = "*/0", "*/1"


class Sample:
    """A sample page, by the rows of its families."""

    def __init__(self, identity: str, device: str, *faults: dict[str, object], instances: Sequence[str] = ()) -> None:
        self._page = sample_page(identity, device, instances, faults)[1]

    def has(self, family: str) -> bool:
        """Whether the page has a family."""
        return f"# TYPE {family} " in self._page

    def rows(self, family: str, *labels: str) -> list[float]:
        """The numbers of a family's rows that have some labels, in their order.

        :param labels: as ``name="value"``.
        """
        lines = re.findall(rf"^{family}(?:\{{.*\}})? .*$", self._page, re.MULTILINE)
        return [float(line.split()[-1]) for line in lines if all(label in line for label in labels)]


class TestNvidiaGpuExporter:
    """nvidia-gpu-exporter@1 and @1-nvml."""

    @pytest.mark.slow
    @pytest.mark.parametrize(("version", "code"), [("1", "command_exit_code"), ("1-nvml", "nvml_return_code")])
    def test_a_collection_that_fails(self, version: str, code: str) -> None:
        """While a board is lost, and no longer."""
        lost = {"kind": "lost", "devices": IDLE, "start": "1m"}
        for fault, number, success in ((lost, 15, 0), ({**lost, "duration": "30s"}, 0, 1)):
            page = Sample(f"nvidia-gpu-exporter@{version}", "h100", fault)
            assert page.rows(f"nvidia_smi_{code}") == [number]
            assert page.rows("nvidia_smi_last_collect_success") == [success]
            assert page.rows("nvidia_smi_compute_apps_last_collect_success") == [success]
            assert page.has("nvidia_smi_last_collect_success_timestamp_seconds") == bool(success)

    @pytest.mark.slow
    def test_a_collection_that_is_slow(self) -> None:
        """A late page was collected slowly; the time of the exporter's documents otherwise."""
        late = {"kind": "slow-page", "devices": IDLE, "seconds": 6}
        for fault, seconds in ((late, 6), ({**late, "duration": "30s"}, 0.055694458)):
            page = Sample("nvidia-gpu-exporter@1", "h100", fault)
            assert page.rows("nvidia_smi_last_collect_duration_seconds") == [seconds]

    @pytest.mark.parametrize(
        ("fault", "actions"),
        [
            ({}, [0, 0]),
            ({"kind": "hang", "devices": BUSY, "start": "1m"}, [0, 1]),
            ({"kind": "ecc-double", "devices": IDLE, "start": "1m", "count": 1}, [4, 0]),
        ],
    )
    def test_recovery_action(self, fault: dict[str, object], actions: list[float]) -> None:
        """A board that hangs wants a reset; one with a row to remap, to be drained and reset."""
        page = Sample("nvidia-gpu-exporter@1", "h100", *([fault] if fault else []))
        assert page.rows("nvidia_smi_gpu_recovery_action") == actions

    def test_places_of_errors(self) -> None:
        """Where a row has been remapped, the counts of banks are left out: which bank it was is not simulated."""
        fault = {"kind": "ecc-double", "devices": IDLE, "start": "1m", "count": 1}
        page = Sample("nvidia-gpu-exporter@1", "h100", fault)
        assert page.rows("nvidia_smi_remapped_rows_uncorrectable") == [1, 0]
        assert page.rows("nvidia_smi_remapped_rows_histogram_max") == [2560]
        assert page.rows("nvidia_smi_ecc_errors_uncorrected_aggregate_sram_l2") == [0, 0]

    @pytest.mark.slow
    def test_pages_or_rows(self) -> None:
        """Boards before Ampere retire pages; no board of these has a fan of its own."""
        for device, pages, rows in (("t4", True, False), ("h100", False, True)):
            page = Sample("nvidia-gpu-exporter@1", device)
            assert page.has("nvidia_smi_retired_pages_pending") == pages
            assert page.has("nvidia_smi_remapped_rows_pending") == rows
            assert not page.has("nvidia_smi_fan_speed_ratio")

    @pytest.mark.slow
    def test_a_divided_board(self) -> None:
        """It has no usage and no counts of remapped rows, but the mode; NVML shows its instances."""
        page = Sample("nvidia-gpu-exporter@1-nvml", "h200", instances=("1g.18gb", "3g.71gb"))
        assert not page.has("nvidia_smi_remapped_rows_correctable")
        assert not page.has("nvidia_smi_utilization_gpu_ratio")
        assert page.rows("nvidia_smi_remapped_rows_histogram_max") == [3072, 3072]
        assert page.rows("nvidia_smi_mig_mode_current") == [1, 1]
        assert page.rows("nvidia_smi_mig_info", 'profile="3g.71gb"') == [1, 1]
        assert len(page.rows("nvidia_smi_mig_memory_used_bytes", 'gpu_instance_id="7"')) == 2

    @pytest.mark.slow
    def test_collections(self) -> None:
        """The page says once how it was collected; the backends in different words."""
        smi, nvml = Sample("nvidia-gpu-exporter@1", "h100"), Sample("nvidia-gpu-exporter@1-nvml", "h100")
        for page in (smi, nvml):
            assert page.rows("nvidia_smi_last_collect_success") == [1]
            assert page.rows("nvidia_smi_last_collect_success_timestamp_seconds") == [1_700_000_120]
            assert page.rows("nvidia_smi_compute_apps") == [0, 1]
        assert (smi.has("nvidia_smi_command_exit_code"), smi.has("nvidia_smi_nvml_return_code")) == (True, False)
        assert (nvml.has("nvidia_smi_command_exit_code"), nvml.has("nvidia_smi_nvml_return_code")) == (False, True)

    @pytest.mark.slow
    @pytest.mark.parametrize("instances", [(), ("1g.10gb", "1g.10gb")])
    def test_xids(self, instances: Sequence[str]) -> None:
        """Counted by code, with the wall time of the last one, once for each board, also for a lost one."""
        errors = [{"kind": "xid", "code": 13, "devices": BUSY, "start": start} for start in ("10s", "90s")]
        lost = {"kind": "xid", "code": 79, "devices": IDLE, "start": "1m"}
        page = Sample("nvidia-gpu-exporter@1-nvml", "h100", *errors, lost, instances=instances)
        assert page.rows("nvidia_smi_xid_errors_total") == [1, 2]
        assert page.rows("nvidia_smi_xid_last_timestamp_seconds", 'xid="79"') == [1_700_000_061]
        assert page.rows("nvidia_smi_xid_last_timestamp_seconds", 'xid="13"') == [1_700_000_091]


#: A board of the generation before MI300X.
MI250X = """
name: mi250x
facts: {product_name: MI250X, vendor: AMD, pci_device_id: "0x7408", driver_version: "6.12.12", architecture: cdna2,
        memory_type: HBM, card_model: "102-D65201"}
memory: {total: 128GiB, reserved: 0MiB, page: 2MiB}
ranges: {usage_ratio: [0, 1], memory_used_bytes: [0MiB, 100GiB], core_frequency_mhz: [500, 1700],
         power_watts: [90, 560], temperature_celsius: [35, 60], pcie_tx_bytes_per_second: [0, 1000],
         pcie_rx_bytes_per_second: [0, 1000]}
"""


class TestAmd:
    """amd-device-metrics@1."""

    @pytest.mark.slow
    @needs_golden
    def test_families_are_those_of_the_platform(self, tmp_path: Path) -> None:
        """On MI3xx and MI2xx just those that AMD's matrix names, but for those that are not covered."""
        (tmp_path / "mi250x.yaml").write_text(MI250X)
        text = (GOLDEN / "amd-device-metrics-exporter.platforms.csv").read_text(encoding="utf-8")
        matrix = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
        known = {row["name"] for row in matrix}
        identity = loaded("amd-device-metrics@1")
        left_out = {name for text in identity.not_covered for name in text.partition(": ")[0].split(", ")}
        for column, device, boards in (("MI3xx", "mi300x", 132), ("MI2xx", f"{tmp_path}/mi250x.yaml", 103)):
            page = Sample("amd-device-metrics@1", device)
            has = {family.name for family in identity.families if page.has(family.name)}
            wanted = {row["name"] for row in matrix if row[column] == row["baremetal"] == "1"}
            assert len(wanted) == boards
            assert has & known <= wanted
            if device == "mi300x":
                assert wanted - has - left_out == {"gpu_afid_errors"}  # shown once there is an error

    @pytest.mark.slow
    def test_activity(self) -> None:
        """What dashboards use: for each die the share of the board."""
        page = Sample("amd-device-metrics@1", "mi300x")
        assert page.rows("gpu_gfx_busy_instantaneous", 'gpu_id="1"') == [100] * 8
        assert page.rows("gpu_gfx_busy_instantaneous", 'gpu_id="0"') == [0] * 8
        assert page.rows("gpu_nodes_total") == [2]

    @pytest.mark.slow
    def test_partitions(self) -> None:
        """A board in mode CPX is eight devices: each shows its own work, the first one what is the board's."""
        page = Sample("amd-device-metrics@1", "mi300x", instances=("cpx",) * 8)
        for number in range(8, 16):
            mine = f'gpu_compute_partition_type="cpx",gpu_id="{number}",'
            assert page.rows("gpu_gfx_busy_instantaneous", mine) == [100]
            assert page.rows("gpu_total_vram", mine) == [24576]
            assert (page.rows("gpu_package_power", mine)[0] > 0) == (number == 8)
            assert len(page.rows("gpu_junction_temperature", mine)) == (number == 8)

    def test_violations(self) -> None:
        """A power limit: the accumulator of PPT counts the milliseconds, and its share is that of the last tick."""
        cap = {"kind": "power-cap", "watts": 400, "devices": BUSY, "start": "1m"}
        page = Sample("amd-device-metrics@1", "mi300x", cap)
        idle, busy = page.rows("gpu_violation_ppt_residency_accumulated")
        assert idle == 0
        assert 50_000 < busy <= 60_000
        assert page.rows("gpu_violation_current_accumulated_counter") == [120_000, 120_000]
        assert page.rows("gpu_violation_ppt_residency_percentage") == [0, 100]
        assert page.rows("gpu_violation_low_utilization_percentage", 'xcc_index="3"') == [100, 0]
        assert page.rows("gpu_violation_gfx_clock_below_host_limit_total_percentage", 'xcc_index="3"') == [100, 100]

    def test_a_link_that_repeats(self) -> None:
        """A board repeats what the other end has refused."""
        page = Sample("amd-device-metrics@1", "mi300x", {"kind": "pcie-replays", "devices": IDLE, "start": "1m"})
        replays = page.rows("pcie_replay_count")
        assert replays[0] > 0
        assert page.rows("pcie_nack_received_count") == replays
        assert page.rows("pcie_recovery_count") == [0]

    def test_health(self) -> None:
        """An error that could not be corrected makes a board unhealthy; it is counted in its block and in the total."""
        page = Sample("amd-device-metrics@1", "mi300x", {"kind": "ecc-double", "devices": IDLE, "count": 1})
        assert page.rows("gpu_health") == [0, 1]
        for block, count in (("total", 1), ("umc", 1), ("gfx", 0), ("bif", 0)):
            assert page.rows(f"gpu_ecc_uncorrect_{block}") == [count, 0]


class TestNeuron:
    """neuron@1: a runtime for each workload on a device."""

    def test_runtimes(self) -> None:
        """They have rows while they run, for the core that they have."""
        page = Sample("neuron@1", "h100")
        assert page.rows("neuroncore_utilization_ratio", 'neuroncore="1"') == [1]
        assert len(page.rows("neuroncore_utilization_ratio")) == 1
        assert page.rows("neuron_runtime_memory_used_bytes", 'memory_location="neuron_device"') == [19818 * 2**20]
        assert page.rows("neuron_hardware_info", 'neuron_device_count="2"') == [1]
        assert page.rows("instance_info", 'instance_id="node-1"') == [1]
        assert not page.has("system_vcpu_count")

    @pytest.mark.slow
    def test_errors(self) -> None:
        """Work that runs has had those that were corrected; another one of its device ends it, and is counted there."""
        page = Sample("neuron@1", "h100")
        assert page.rows("execution_errors_total") == [0] * 6
        page = Sample("neuron@1", "h100", {"kind": "ecc-single", "devices": BUSY, "start": "1m", "count": 7})
        assert page.rows("execution_errors_total", 'error_type="transient"') == [7]
        assert sum(page.rows("execution_errors_total")) == 7
        page = Sample("neuron@1", "h100", {"kind": "ecc-double", "devices": BUSY, "start": "1m", "count": 2})
        assert not page.has("execution_errors_total")
        assert page.rows("hardware_ecc_events_total", 'event_type="mem_ecc_uncorrected"') == [0, 2]

    @pytest.mark.slow
    def test_executions(self) -> None:
        """As many as fit into the time; fewer, and longer ones, where the clock is lower; none while a device hangs."""
        page = Sample("neuron@1", "h100")
        (p50,) = page.rows("execution_latency_seconds", 'percentile="p50"')
        (completed,) = page.rows("execution_status_total", 'status_type="completed"')
        assert p50 == 0.0033064
        assert completed == pytest.approx(120 / p50, rel=1e-3)
        slow = Sample("neuron@1", "h100", {"kind": "power-cap", "watts": 300, "devices": BUSY, "start": "0s"})
        (longer,) = slow.rows("execution_latency_seconds", 'percentile="p50"')
        (fewer,) = slow.rows("execution_status_total", 'status_type="completed"')
        assert longer > p50 * 1.2
        assert fewer == pytest.approx(120 / longer, rel=0.05)
        hung = Sample("neuron@1", "h100", {"kind": "hang", "devices": BUSY, "start": "1m"})
        assert hung.rows("execution_status_total", 'status_type="completed"') == pytest.approx([60 / p50], rel=1e-3)
        assert hung.rows("execution_status_total", 'status_type="timed_out"') == [2]

    def test_memory(self) -> None:
        """What it is used for adds up to what the runtime has."""
        page = Sample("neuron@1", "h100")
        (whole,) = page.rows("neuron_runtime_memory_used_bytes", 'memory_location="neuron_device"')
        parts = ("constants", "model_code", "model_shared_scratchpad", "runtime_memory", "tensors")
        shares = [page.rows(f"neuroncore_memory_usage_{part}", 'memory_location="None"')[0] for part in parts]
        assert sum(shares) == pytest.approx(whole, abs=2)
        assert page.rows("system_memory_used_bytes") == page.rows("neuron_runtime_memory_used_bytes", 'on="host"')
        assert not page.has("neuron_runtime_vcpu_usage_ratio")


class TestXpumd:
    """xpumd@2."""

    @pytest.mark.slow
    def test_throttling(self) -> None:
        """A reason has rows while it holds and afterwards, and the board is not ok."""
        page = Sample("xpumd@2", "flex-170", {"kind": "power-cap", "watts": 100, "devices": BUSY, "start": "1m"})
        assert page.rows("hw_frequency_throttle_status", 'reason="ave_pwr_cap"') == [1]
        assert page.rows("hw_status", 'hw_type="frequency"', 'hw_state="ok"') == [1, 0]
        assert page.rows("hw_status", 'hw_state="throttled"') == [1]
        over = {"kind": "power-cap", "watts": 100, "devices": BUSY, "start": "10s", "duration": "30s"}
        page = Sample("xpumd@2", "flex-170", over)
        assert page.rows("hw_frequency_throttle_status", 'reason="ave_pwr_cap"') == [0]
        assert page.rows("hw_status", 'hw_type="frequency"', 'hw_state="ok"') == [1, 1]
        assert page.rows("hw_status", 'hw_state="throttled"') == [0]

    @pytest.mark.slow
    def test_health(self) -> None:
        """A board that hangs needs a reset; errors of memory are counted."""
        hang = {"kind": "hang", "devices": IDLE, "start": "1m"}
        page = Sample("xpumd@2", "max-1550", hang, {"kind": "ecc-double", "devices": BUSY, "count": 2})
        assert page.rows("hw_status", 'hw_state="reset_needed"') == [1, 0]
        assert page.rows("hw_status", 'hw_type="gpu"', 'hw_state="ok"') == [0, 1]
        assert page.rows("hw_errors_total", 'error_category="memory_errors"') == [0, 2]
        assert page.rows("hw_gpu_info", 'pci_device_id="0bd5"', 'com_intel_subdevice_count="2"') == [1, 1]
