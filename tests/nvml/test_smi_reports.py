"""The reports, monitors and matrices of the simulated nvidia-smi."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fakedev.nvml.smi.main import SUBCOMMANDS
from tests.support.application import MemoryApplication
from tests.support.driver.nvidia_smi import Command, command
from tests.support.driver.nvml import bindings, boards
from tests.support.driver.report_elements import captures, differences, our_reports
from tests.support.reloads import reload


def _values(report: str) -> dict[str, str]:
    """The values of a text by the path of their labels."""
    found: dict[str, str] = {}
    path: list[str] = []
    for line in report.splitlines():
        label, colon, value = line[:55], line[55:57], line[57:]
        depth = (len(label) - len(label.lstrip())) // 4
        del path[depth:]
        path.append(label.strip())
        if colon == ": ":
            found["/".join(path[1:])] = value
    return found


def test_report(app: MemoryApplication, smi: Command) -> None:
    """All values begin at one column, and those that have a field are those of the field."""
    app.tick(30)
    text = smi("-q", "-i", "0")
    assert "==============NVSMI LOG==============" in text
    assert re.search(r"^Attached GPUs {42}: 8$", text, re.MULTILINE)
    report = _values(text)
    for path, field in (
        ("Product Name", "name"),
        ("MIG Mode/Current", "mig.mode.current"),
        ("PCI/GPU Link Info/PCIe Generation/Current", "pcie.link.gen.current"),
        ("Clocks Event Reasons/HW Slowdown/HW Thermal Slowdown", "clocks_event_reasons.hw_thermal_slowdown"),
        ("FB Memory Usage/Used", "memory.used"),
        ("Utilization/GPU", "utilization.gpu"),
        ("ECC Errors/Volatile/DRAM Correctable", "ecc.errors.corrected.volatile.dram"),
        ("GPU Power Readings/Average Power Draw", "power.draw"),
        ("GPU Power Readings/Min Power Limit", "power.min_limit"),
        ("Clocks/SM", "clocks.sm"),
        ("Fabric/State", "fabric.state"),
    ):
        assert report[path] == smi.rows(field, form="csv,noheader")[0][0], path
    assert report["PCI/GPU Link Info/Link Width/Max"] == "16x"
    assert report["Remapped Rows/Bank Remap Availability Histogram/Max"] == "2560 bank(s)"
    assert report["Applications Clocks/Graphics"] == "1980 MHz"
    assert (report["Processes/Process ID"], report["Processes/Process ID/Type"]) == (
        smi("--query-compute-apps=pid", "--format=csv,noheader", "-i", "0").strip(), "C",
    )  # fmt: skip
    margin, now = int(report["Temperature/GPU T.Limit Temp"][:-2]), int(smi.rows("temperature.gpu")[0][0])
    assert margin + now == 87
    assert report["Temperature/GPU Slowdown T.Limit Temp"] == "-2 C"
    assert _values(smi("-q", "-i", "7"))["Processes"] == "None"


def test_sections(smi: Command) -> None:
    """-d shows only these; the clocks that can be set are shown only so."""
    text = smi("-q", "-d", "power,Supported_Clocks", "-i", "0")
    top = [line.strip() for line in text.splitlines() if re.match(r"    \S", line)]
    assert top == ["GPU Power Readings", "GPU Memory Power Readings", "Module Power Readings", "Supported Clocks"]
    assert re.search(r"^        Memory +: 2619 MHz\n            Graphics +: 1980 MHz$", text, re.MULTILINE)
    assert "Supported Clocks" not in smi("-q", "-i", "0")


def test_xml(app: MemoryApplication, smi: Command) -> None:
    """With a comment that all is simulated; hostile names of workloads stay text."""
    line = '{"op":"run","id":1,"name":"a<&>b","devices":["dgx-0/2"],"profile":[[50,5,0]],"repeat":0}'
    assert '"error"' not in app.connect().say(line)[0]
    app.tick(30)
    text = smi("-q", "-x")
    assert '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">' in text
    assert re.search("<!-- .*simulated by fakedev.* -->", text)
    log = ElementTree.fromstring(text)
    gpus = log.findall("gpu")
    assert (log.findtext("attached_gpus"), len(gpus)) == ("8", 8)
    rows = smi.rows("pci.bus_id", "uuid", "power.draw", "memory.used", "utilization.gpu", form="csv,noheader")
    for gpu, row in zip(gpus, rows, strict=True):
        assert [gpu.get("id"), *(gpu.findtext(path) for path in (
            "uuid", "gpu_power_readings/average_power_draw", "fb_memory_usage/used", "utilization/gpu_util",
        ))] == row  # fmt: skip
    assert gpus[0].findtext("pci/pci_device_id") == "233010DE"
    assert gpus[0].findtext("processes/process_info/process_name") == "train"
    assert gpus[2].findtext("processes/process_info/process_name") == "a<&>b"
    assert (gpus[0].findtext("mig_devices") or "").strip() == "None"


#: Another capture of an H100, with driver 590, has all of these.
_OF_590 = {f"platformInfo/{name}" for name in (
    "chassis_serial_number", "slot_number", "tray_index", "host_id", "peer_type", "gpu_fabric_guid",
)}  # fmt: skip


def test_elements_are_those_of_captures(tmp_path: Path) -> None:
    """Seven boards, with drivers from 570 to 595: each element is there, N/A as there, and of the same form."""
    wanted = captures()
    assert len(wanted) == 7
    for capture, ours in zip(wanted, our_reports(tmp_path, wanted), strict=True):
        known = _OF_590 if capture.device == "h100-sxm5-80gb" else set()
        assert differences(capture.forms, ours).keys() == known, capture.device


def test_report_of_instances(tmp_path: Path) -> None:
    """Each instance with its numbers and memory, in both forms."""
    with command(tmp_path, more="mig: [3g.40gb, 1g.10gb]") as (app, smi):
        app.tick(5)
        text = smi("-q", "-i", "0")
        assert text.count("    MIG Device\n") == 2
        devices = ElementTree.fromstring(smi("-q", "-x")).findall("gpu/mig_devices/mig_device")
        assert len(devices) == 16
        assert re.fullmatch(r"\d+ MiB", devices[0].findtext("fb_memory_usage/total") or "")
        shown = {path: devices[0].findtext(path) for path in (
            "device_attributes/shared/multiprocessor_count", "ecc_error_count/volatile_count/sram_uncorrectable",
            "bar1_memory_usage/total",
        )}  # fmt: skip
        assert [*shown.values()] == ["60", "0", "65535 MiB"]
        lines = smi("dmon", "-c", "1", "-s", "u", "-i", "0").splitlines()
        assert lines[2].split() == ["0", *"------"]


def test_monitors(app: MemoryApplication, smi: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Titles once, then a line for each board or process and tick; the widths are those that people know."""
    app.tick(30)
    monkeypatch.setattr("fakedev.nvml.smi.main.time.sleep", lambda seconds: app.tick(1))
    first, second, *rows = smi("dmon", "-c", "3", "-i", "0,1").splitlines()
    assert first == "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk "
    assert second == "# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz "
    assert [row.split()[0] for row in rows] == ["0", "1"] * 3
    assert {len(row) for row in rows} == {len(first)}
    assert rows[-1].split()[4] == smi.rows("utilization.gpu")[1][0]
    first, second, *rows = smi("pmon", "-c", "1", "-i", "1,7").splitlines()
    assert first == "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command "
    assert second == "# Idx           #    C/G      %      %      %      %      %      %    name "
    assert re.fullmatch(r"    1    \d{7}     C +\d+ +\d+      0      0      -      -    train {10}", rows[0])
    assert rows[1] == "    7          -     -      -      -      -      -      -      -    -              "
    assert smi("pmon", "-c", "1", "-i", "1", "-s", "m").splitlines()[0].split()[4:6] == ["fb", "ccpm"]
    assert smi("dmon", "-c", "1", "-s", "met", "-i", "1").splitlines()[0].split()[2:] == [
        "fb", "bar1", "ccpm", "sbecc", "dbecc", "pci", "rxpci", "txpci",
    ]  # fmt: skip


def test_connections(app: MemoryApplication, smi: Command) -> None:
    """The matrix of a server with switches, and the state of each link; one that is down counts no more."""
    head, first, *_ = smi("topo", "-m").splitlines()
    assert head.split("\t") == ["", *(f"GPU{number}" for number in range(8)), "CPU Affinity", "NUMA Affinity",
                                "GPU NUMA ID"]  # fmt: skip
    assert first.split("\t")[:10] == ["GPU0", " X ", *["NV18"] * 7, "0-55,112-167"]
    links = smi("nvlink", "-s", "-i", "0").splitlines()
    assert len(links) == 19
    assert links[-1] == "\t Link 17: 26.562 GB/s"
    assert app.connect().say("fault link-down devices=dgx-0/0 link=3")[0].startswith("ok")
    app.tick(1)
    assert smi("nvlink", "-s", "-i", "0").splitlines()[4] == "\t Link 3: <inactive>"
    assert smi("topo", "-m").splitlines()[1].split("\t")[2] == "NV17"
    assert smi("c2c", "-s").splitlines() == ["No Devices support C2C."]
    for arguments in (("topo",), ("nvlink",), ("c2c",), ("dmon", "-s", "pv")):
        assert "not supported by the simulation" in smi(*arguments)
        assert smi.code == 3


def test_help_of_subcommands(smi: Command) -> None:
    """Each is in the help of the command with its sentence, and lists its options."""
    for name in SUBCOMMANDS:
        lines = smi(name, "-h").splitlines()
        assert lines[2] == f"nvidia-smi {name} [OPTION1 [ARG1]] ..."
        assert f"    {name:<38} {lines[4].strip()}\n" in smi("-h")
        assert lines[6].split() == ["-h,", "--help", "Print", "this", "text."]


def test_versions_of_drivers(tmp_path: Path) -> None:
    """From branch 610 on they are KMD and CUDA UMD versions (a capture of 610.57.04); a reload changes the driver."""
    with command(tmp_path, more="driver: 610.57.04") as (app, smi):
        app.tick()
        assert smi().splitlines()[2] == (
            "| NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |"
        )
        assert smi("--version").splitlines()[:6] == [
            "NVIDIA-SMI version  : 610.57.04",
            "NVML version        : 610.57",
            'DRIVER version      : Deprecated, see "KMD version" instead',
            'CUDA version        : Deprecated, see "CUDA UMD version" instead',
            "KMD version         : 610.57.04",
            "CUDA UMD version    : 13.3",
        ]
        deprecated = "[Deprecated; will be removed in CUDA 14.0. Use {} Version instead]"
        assert smi("-q").splitlines()[4:9] == [
            f"Driver Version {' ' * 40}: 610.57.04 {deprecated.format('KMD')}",
            f"CUDA Version {' ' * 42}: 13.3 {deprecated.format('CUDA UMD')}",
            f"KMD Version {' ' * 43}: 610.57.04",
            f"CUDA UMD Version {' ' * 38}: 13.3",
            "",
        ]
        assert reload(app, boards(tmp_path / "nvml.map", more="driver: 595.71.05")).status == 200
        app.tick()
        assert "Driver Version: 595.71.05      CUDA Version: 13.2 " in smi()
        assert smi("--version").splitlines()[2:4] == ["DRIVER version      : 595.71.05", "CUDA Version        : 13.2"]
        with bindings(tmp_path / "nvml.map") as nvml:
            nvml.nvmlInit()
            assert (nvml.nvmlSystemGetDriverVersion(), nvml.nvmlSystemGetCudaDriverVersion()) == ("595.71.05", 13020)
            assert nvml.nvmlSystemGetNVMLVersion() == "13.595.71.05"
