"""The library, asked by NVIDIA's bindings while the service runs in memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from fakedev.fleet.spec.device_types import attributes_of
from fakedev.nvml.records import UNANSWERED_BYTES
from fakedev.nvml.shell_environment import unanswered_calls
from tests.support.application import MemoryApplication, application
from tests.support.driver.nvml import bindings, boards, error_of, number_of
from tests.support.reloads import reload

pytestmark = pytest.mark.slow

#: A family of the exporter's page, the call that gives its value, and the factor from that to the family's unit.
_SAME = [
    ("nvidia_smi_power_draw_watts", "nvmlDeviceGetPowerUsage", (), 1e-3, 0.005),
    ("nvidia_smi_enforced_power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", (), 1e-3, 0.005),
    ("nvidia_smi_power_default_limit_watts", "nvmlDeviceGetPowerManagementDefaultLimit", (), 1e-3, 0.005),
    ("nvidia_smi_energy_joules_total", "nvmlDeviceGetTotalEnergyConsumption", (), 1e-3, 0.0005),
    ("nvidia_smi_temperature_gpu", "nvmlDeviceGetTemperature", (0,), 1, 0),
    ("nvidia_smi_clocks_current_graphics_clock_hz", "nvmlDeviceGetClockInfo", (0,), 1e6, 0),
    ("nvidia_smi_clocks_current_memory_clock_hz", "nvmlDeviceGetClockInfo", (2,), 1e6, 0),
    ("nvidia_smi_clocks_current_video_clock_hz", "nvmlDeviceGetClockInfo", (3,), 1e6, 0),
    ("nvidia_smi_clocks_max_graphics_clock_hz", "nvmlDeviceGetMaxClockInfo", (0,), 1e6, 0),
    ("nvidia_smi_clocks_event_reasons_active", "nvmlDeviceGetCurrentClocksEventReasons", (), 1, 0),
    ("nvidia_smi_clocks_event_reasons_supported", "nvmlDeviceGetSupportedClocksEventReasons", (), 1, 0),
    ("nvidia_smi_pstate", "nvmlDeviceGetPerformanceState", (), 1, 0),
    ("nvidia_smi_pcie_link_gen_current", "nvmlDeviceGetCurrPcieLinkGeneration", (), 1, 0),
    ("nvidia_smi_pcie_link_width_max", "nvmlDeviceGetMaxPcieLinkWidth", (), 1, 0),
    ("nvidia_smi_persistence_mode", "nvmlDeviceGetPersistenceMode", (), 1, 0),
    ("nvidia_smi_compute_mode", "nvmlDeviceGetComputeMode", (), 1, 0),
    ("nvidia_smi_display_active", "nvmlDeviceGetDisplayActive", (), 1, 0),
    ("nvidia_smi_index", "nvmlDeviceGetIndex", (), 1, 0),
    ("nvidia_smi_pcie_throughput_tx_bytes_per_second", "nvmlDeviceGetPcieThroughput", (0,), 1024, 512),
    ("nvidia_smi_pcie_throughput_rx_bytes_per_second", "nvmlDeviceGetPcieThroughput", (1,), 1024, 512),
    ("nvidia_smi_ecc_errors_corrected_volatile_total", "nvmlDeviceGetTotalEccErrors", (0, 0), 1, 0),
    ("nvidia_smi_ecc_errors_uncorrected_aggregate_dram", "nvmlDeviceGetMemoryErrorCounter", (1, 1, 2), 1, 0),
    ("nvidia_smi_ecc_errors_uncorrected_aggregate_sram", "nvmlDeviceGetMemoryErrorCounter", (1, 1, 7), 1, 0),
    ("nvidia_smi_temperature_gpu_tlimit", "nvmlDeviceGetMarginTemperature", (), 1, 0),
]


def _values(app: MemoryApplication, family: str) -> dict[str, float]:
    found = {}
    for line in app.get("/metrics").body.decode().splitlines():
        if line.startswith(family + "{"):
            found[line.partition('uuid="')[2].partition('"')[0]] = float(line.rsplit(" ", 1)[1])
    return found


def _handles(pynvml: Any) -> list[Any]:
    return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]


def _check_same(app: MemoryApplication, pynvml: Any) -> None:
    handles = _handles(pynvml)
    for family, function, arguments, factor, tolerance in _SAME:
        values = _values(app, family)
        assert len(values) == len(handles), family
        for handle in handles:
            uuid = pynvml.nvmlDeviceGetUUID(handle).removeprefix("GPU-")
            given = getattr(pynvml, function)(handle, *arguments) * factor
            assert abs(given - values[uuid]) <= tolerance + 1e-9, (family, given, values[uuid])
    memory = {name: _values(app, f"nvidia_smi_memory_{name}_bytes") for name in ("total", "used", "free", "reserved")}
    usage = _values(app, "nvidia_smi_utilization_gpu_ratio"), _values(app, "nvidia_smi_utilization_memory_ratio")
    for handle in handles:
        uuid = pynvml.nvmlDeviceGetUUID(handle).removeprefix("GPU-")
        both = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        assert {name: getattr(both, name) for name in memory} == {name: each[uuid] for name, each in memory.items()}
        plain = pynvml.nvmlDeviceGetMemoryInfo(handle)
        assert (plain.used, plain.free) == (both.used + both.reserved, both.free)
        rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
        assert (rates.gpu, rates.memory) == tuple(round(each[uuid] * 100) for each in usage)


def test_values_of_the_page(app: MemoryApplication, pynvml: Any) -> None:
    """What tools read is what the page of the same tick shows; also with faults."""
    reasons = []
    for line in ("power-cap devices=dgx-0/0 watts=300", "fan devices=dgx-0/0", "ecc-double devices=dgx-0/1"):
        app.tick(5)
        _check_same(app, pynvml)
        assert app.connect().say(f"fault {line}")[0].startswith("ok"), line
        app.tick(20)
        _check_same(app, pynvml)
        reasons.append(pynvml.nvmlDeviceGetCurrentClocksEventReasons(_handles(pynvml)[0]))
    assert reasons[0] & 0x4  # the power cap
    assert pynvml.nvmlDeviceGetMemoryErrorCounter(_handles(pynvml)[1], 1, 0, 2) > 0


def test_initialisation_is_counted(pynvml: Any) -> None:
    """1 before the first and after the last; all handles stay valid in between."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlInitWithFlags(1)
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetName(handle) == "NVIDIA H100 80GB HBM3"
    pynvml.nvmlShutdown()
    assert error_of(pynvml, "nvmlDeviceGetName", handle) == 1
    assert error_of(pynvml, "nvmlDeviceGetCount") == 1
    assert error_of(pynvml, "nvmlShutdown") == 1


def test_no_service(file: Path) -> None:
    """9 without a file, from the end of the service on, and with a node that the file does not have."""
    with bindings(file) as pynvml:
        assert error_of(pynvml, "nvmlInit") == 9
        with application(boards(file)) as app:
            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByIndex(0)
            app.stop()
            assert not file.exists()
            assert error_of(pynvml, "nvmlDeviceGetName", handle) == 9
            assert error_of(pynvml, "nvmlDeviceGetCount") == 9
    with application(boards(file)), bindings(file, node="dgx-9") as pynvml:
        assert error_of(pynvml, "nvmlInit") == 9


def test_several_nodes(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A process sees the node of FAKEDEV_NODE; without it the error lists some."""
    text = boards(file).replace("nodes: [dgx-0]", "nodes: 7")
    with application(text):
        with bindings(file) as pynvml:
            assert error_of(pynvml, "nvmlInit") == 9
            assert "set FAKEDEV_NODE to one of dgx-0, dgx-1, dgx-2, dgx-3, dgx-4, ..." in capfd.readouterr().err
        uuids = set()
        for node in ("dgx-0", "dgx-6"):
            with bindings(file, node) as pynvml:
                pynvml.nvmlInit()
                uuids |= {pynvml.nvmlDeviceGetUUID(handle) for handle in _handles(pynvml)}
        assert len(uuids) == 16


def test_lost_board(app: MemoryApplication, pynvml: Any) -> None:
    """15 from each call and from the handle by index, and back with the same handle."""
    handle, other = _handles(pynvml)[:2]
    client = app.connect()
    fault = client.say("fault lost devices=dgx-0/0")[0].split()[1]
    app.tick(2)
    for function in ("nvmlDeviceGetName", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetComputeRunningProcesses"):
        assert error_of(pynvml, function, handle) == 15, function
    assert error_of(pynvml, "nvmlDeviceGetHandleByIndex", 0) == 15
    assert error_of(pynvml, "nvmlDeviceGetName", other) == 0
    assert client.say(f"clear {fault}")[0].startswith("ok")
    app.tick(2)
    assert error_of(pynvml, "nvmlDeviceGetPowerUsage", handle) == 0


def test_waiting_for_xids(app: MemoryApplication, pynvml: Any) -> None:
    """A waiting program gets the XIDs of its boards, in order, and uses no time of the processor."""
    handles = _handles(pynvml)
    waiting = pynvml.nvmlEventSetCreate()
    for handle in handles[:2]:
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, waiting)
    assert error_of(pynvml, "nvmlEventSetWait_v2", waiting, 0) == 10
    for board, code in ((0, 31), (5, 63), (1, 94)):
        assert app.connect().say(f"fault xid code={code} devices=dgx-0/{board}")[0].startswith("ok")
        app.tick(2)
    events = [pynvml.nvmlEventSetWait_v2(waiting, 1000) for _ in range(2)]
    assert [(event.eventType, event.eventData) for event in events] == [(8, 31), (8, 94)]
    assert [number_of(event.device) for event in events] == list(map(number_of, handles[:2]))
    began = time.process_time()
    assert error_of(pynvml, "nvmlEventSetWait_v2", waiting, 300) == 10
    assert time.process_time() - began < 0.15
    pynvml.nvmlEventSetFree(waiting)


def test_instances(file: Path) -> None:
    """MIG instances are devices with ids and memory; the board's usage is not supported."""
    text = boards(file, more="mig: [3g.40gb, 1g.10gb]")
    with application(text) as app, bindings(file) as pynvml:
        app.tick(3)
        pynvml.nvmlInit()
        board = pynvml.nvmlDeviceGetHandleByIndex(1)
        assert pynvml.nvmlDeviceGetMigMode(board) == [1, 1]
        assert pynvml.nvmlDeviceGetMaxMigDeviceCount(board) == 7
        assert error_of(pynvml, "nvmlDeviceGetUtilizationRates", board) == 3
        assert error_of(pynvml, "nvmlDeviceGetMigDeviceHandleByIndex", board, 2) == 6
        parts = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(board, index) for index in range(2)]
        assert [pynvml.nvmlDeviceIsMigDeviceHandle(each).value for each in (board, *parts)] == [0, 1, 1]
        infos = {
            line.partition('mig_uuid="')[2].partition('"')[0]: line.partition('gpu_instance_id="')[2].partition('"')[0]
            for line in app.get("/metrics").body.decode().splitlines()
            if line.startswith("nvidia_smi_mig_info{")
        }
        totals = []
        for part in parts:
            uuid = pynvml.nvmlDeviceGetUUID(part)
            assert uuid.startswith("MIG-")
            assert str(pynvml.nvmlDeviceGetGpuInstanceId(part)) == infos[uuid.removeprefix("MIG-")]
            assert pynvml.nvmlDeviceGetComputeInstanceId(part) == 0
            assert number_of(pynvml.nvmlDeviceGetHandleByUUID(uuid)) == number_of(part)
            assert number_of(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)) == number_of(board)
            totals.append(pynvml.nvmlDeviceGetMemoryInfo(part).total >> 20)
            (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(part)
            assert process.gpuInstanceId == pynvml.nvmlDeviceGetGpuInstanceId(part)
        assert totals == [40448, 9984]
        assert len(pynvml.nvmlDeviceGetComputeRunningProcesses(board)) == 2
        attributes = pynvml.nvmlDeviceGetAttributes(parts[0])
        assert (attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount) == (3, 3)
        known = attributes_of({"pci_device_id": "0x2330"}, "3g.40gb")
        assert known is not None
        assert attributes.multiprocessorCount == known.multiprocessors == 60
        shared = ("CopyEngine", "Decoder", "Encoder", "Jpeg", "Ofa")
        assert tuple(getattr(attributes, f"shared{name}Count") for name in shared) == known[1:]
        for handle in (board, parts[0]):
            for name in ("nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessesUtilizationInfo"):
                assert error_of(pynvml, name, handle, 0) == 3


def test_processes(app: MemoryApplication, pynvml: Any) -> None:
    """A workload is a process with its name, a pid that cannot be, and its share of the board."""
    app.tick(3)
    busy, _, idle = _handles(pynvml)[:3]
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(idle) == []
    (process,) = pynvml.nvmlDeviceGetComputeRunningProcesses(busy)
    assert process.pid > 4_194_303
    assert pynvml.nvmlSystemGetProcessName(process.pid) == "train"
    (page,) = [
        float(line.rsplit(" ", 1)[1])
        for line in app.get("/metrics").body.decode().splitlines()
        if line.startswith("nvidia_smi_compute_app_used_memory_bytes{")
        and pynvml.nvmlDeviceGetUUID(busy).removeprefix("GPU-") in line
    ]
    assert process.usedGpuMemory == page
    (sample,) = pynvml.nvmlDeviceGetProcessUtilization(busy, 0)
    assert sample.smUtil == pynvml.nvmlDeviceGetUtilizationRates(busy).gpu
    assert error_of(pynvml, "nvmlDeviceGetProcessUtilization", busy, sample.timeStamp) == 6
    later = max(time.time_ns() // 1000, sample.timeStamp) + 600_000_000
    assert error_of(pynvml, "nvmlDeviceGetProcessUtilization", busy, later) == 6
    for number in range(70):
        app.connect().say(f"run w{number} devices=dgx-0/2 profile=1:0:0 detach")
    app.tick(2)
    assert len(pynvml.nvmlDeviceGetComputeRunningProcesses(idle)) == 64


def test_common_ancestors(file: Path) -> None:
    """Two boards of a DGX A100 are below one PCIe switch, the next two in another NUMA node."""
    with application(boards(file).replace("device: h100", "device: a100")), bindings(file) as pynvml:
        pynvml.nvmlInit()
        first, *others = _handles(pynvml)[:3]
        levels = [pynvml.nvmlDeviceGetTopologyCommonAncestor(first, other) for other in (first, *others)]
        assert levels == [pynvml.NVML_TOPOLOGY_INTERNAL, pynvml.NVML_TOPOLOGY_MULTIPLE, pynvml.NVML_TOPOLOGY_SYSTEM]


def test_what_cannot_be(pynvml: Any) -> None:
    """Versions of structures, handles and arguments are checked; setters say no permission."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert error_of(pynvml, "nvmlDeviceGetMemoryInfo", handle, 0x01000028) == 25
    assert error_of(pynvml, "nvmlDeviceGetHandleByIndex", 8) == 2
    for wrong in (0, 1, 0x46440000, 0x4644000000000000, 2**64 - 1):
        made_up = pynvml.c_nvmlDevice_t.from_buffer_copy(wrong.to_bytes(8, "little"))
        assert error_of(pynvml, "nvmlDeviceGetName", made_up) == 2
    assert error_of(pynvml, "nvmlDeviceGetTemperature", handle, 1) == 2
    assert error_of(pynvml, "nvmlDeviceGetFanSpeed", handle) == 3
    assert error_of(pynvml, "nvmlDeviceSetPowerManagementLimit", handle, 300_000) == 4
    assert error_of(pynvml, "nvmlDeviceGetTopologyNearestGpus", handle, 50) == 3
    assert number_of(pynvml.nvmlDeviceGetHandleByPciBusId("0000:1b:00.0")) == number_of(handle)
    assert error_of(pynvml, "nvmlDeviceGetHandleByUUID", "GPU-0") == 6


def test_a_reload_keeps_handles(file: Path) -> None:
    """More boards need another file, which readers open by themselves."""
    text = boards(file)
    with application(text) as app, bindings(file) as pynvml:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        uuid = pynvml.nvmlDeviceGetUUID(handle)
        inode = file.stat().st_ino
        assert reload(app, text.replace("device: h100", "device: h100, devices-per-node: 4")).status == 200
        app.tick()
        assert file.stat().st_ino != inode
        assert pynvml.nvmlDeviceGetUUID(handle) == uuid
        assert pynvml.nvmlDeviceGetCount() == 4


def test_settings(pynvml: Any) -> None:
    """Without setters in the configuration there is no permission; a wrong limit is an invalid argument."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert error_of(pynvml, "nvmlDeviceSetPowerManagementLimit", handle, 100_000) == 2
    assert error_of(pynvml, "nvmlDeviceSetGpuLockedClocks", handle, 900, 300) == 2
    assert error_of(pynvml, "nvmlDeviceSetGpuLockedClocks", handle, 300, 900) == 4
    assert error_of(pynvml, "nvmlDeviceSetPersistenceMode", handle, 1) == 0
    assert error_of(pynvml, "nvmlDeviceSetPersistenceMode", handle, 0) == 4


def test_calls_without_an_answer(pynvml: Any, file: Path) -> None:
    """Each is noted once for a process, with its program, up to a size; without a file nothing is."""
    library = pynvml.nvmlLib
    notes = file.with_name("nvml.map.unanswered")
    pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
    assert unanswered_calls(str(file)) == {}
    for name in ("nvmlInternalGetExportTable", "nvmlVgpuInstanceGetUUID", "nvmlInternalGetExportTable"):
        assert getattr(library, name)() == 3
    found = unanswered_calls(str(file))
    assert list(found) == ["nvmlInternalGetExportTable", "nvmlVgpuInstanceGetUUID"]
    assert {len(programs) for programs in found.values()} == {1}
    assert notes.read_bytes().count(b"\n") == 2
    notes.write_bytes(b"x" * UNANSWERED_BYTES)
    assert library.nvmlVgpuInstanceGetVmID() == 3
    assert len(notes.read_bytes()) == UNANSWERED_BYTES
