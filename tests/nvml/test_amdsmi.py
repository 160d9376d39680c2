"""AMD's module amdsmi and its command amd-smi: their values are those of the page in the same tick."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fakedev.nvml.amd.amd_smi import run
from fakedev.nvml.amd.amdsmi import Handle, Library
from fakedev.nvml.amd.amdsmi_names import (
    NAMES,
    AmdSmiBdfFormatException,
    AmdSmiLibraryException,
    AmdSmiParameterException,
)
from fakedev.nvml.library import built_amdsmi
from tests.support.application import MemoryApplication, application

#: Two whole boards of which the first works, a divided one, a Radeon, an MI250X with its tiles, and NVIDIA's.
_FLEET = """
fleet:
  seed: 7
  pools:
    - {{name: mi, nodes: [mi-0], devices-per-node: 2, device: mi300x, identity: amd-device-metrics}}
    - {{name: cpx, nodes: [cpx-0], devices-per-node: 1, device: mi300x, identity: amd-device-metrics,
       mig: [cpx, cpx, cpx, cpx, cpx, cpx, cpx, cpx], labels: {{memory_partition: nps4}}}}
    - {{name: w, nodes: [w-0], devices-per-node: 1, device: w7900, identity: amd-device-metrics}}
    - {{name: old, nodes: [old-0], devices-per-node: 1, device: mi250x, identity: amd-device-metrics}}
    - {{name: dgx, nodes: [dgx-0], devices-per-node: 1, device: h100}}
web: ["127.0.0.1:9400"]
workloads:
  listen: ["127.0.0.1:9401"]
  base: [{{name: train, devices: mi-0/0, profile: "80:5:0"}}, {{name: serve, devices: cpx-0/0/2, profile: "60:5:0"}}]
nvml: {{file: {file}}}
"""


@pytest.fixture
def app(file: Path) -> Iterator[MemoryApplication]:
    """The service, which writes the file."""
    with application(_FLEET.format(file=file)) as running:
        running.tick(5)
        yield running


class Amdsmi:
    """The module beside the service, initialised, for one node."""

    def __init__(self, file: Path, node: str) -> None:
        self.environ = {"FAKEDEV_NVML_FILE": str(file), "FAKEDEV_NODE": node}
        self.names = Library(self.environ).names()
        self("init")
        self.handles: list[Handle] = self("get_processor_handles")

    def __call__(self, name: str, *arguments: Any) -> Any:
        return self.names[f"amdsmi_{name}"](*arguments)

    def code(self, name: str, *arguments: Any) -> int:
        """The number of the error that a call raises."""
        with pytest.raises(AmdSmiLibraryException) as caught:
            self(name, *arguments)
        return caught.value.get_error_code()

    def command(self, *arguments: str) -> str:
        """What amd-smi prints."""
        output = io.StringIO()
        assert run(arguments, self.environ, output, output) == 0, output.getvalue()
        return output.getvalue()


def _page(app: MemoryApplication, node: str) -> dict[str, dict[tuple[str, ...], float]]:
    """The values of a node by family; of each by GPU and by what numbers its rows."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(app.get("/metrics").body.decode()):
        for sample in family.samples:
            if sample.labels.get("hostname") == node and "gpu_id" in sample.labels:
                numbers = (number for label, number in sample.labels.items() if label.endswith("_index"))
                found.setdefault(sample.name, {})[(sample.labels["gpu_id"], *numbers)] = sample.value
    return found


def _compare(app: MemoryApplication, node: str, amdsmi: Amdsmi) -> None:
    page = _page(app, node)
    for number, handle in enumerate(amdsmi("get_processor_handles")):
        def shown(family: str, *index: str, number: int = number) -> float:
            return page[family][(str(number), *index)]

        memory, metrics = amdsmi("get_gpu_vram_usage", handle), amdsmi("get_gpu_metrics_info", handle)
        assert (memory["vram_total"], memory["vram_used"]) == (shown("gpu_total_vram"), shown("gpu_used_vram"))
        partition = amdsmi("get_gpu_kfd_info", handle)["current_partition_id"]
        first = metrics["xcp_stats.gfx_busy_inst"][partition][0]
        assert first == shown("gpu_gfx_busy_instantaneous", "0")
        if partition:
            assert amdsmi.code("get_power_info", handle) == 2
            assert amdsmi("get_gpu_activity", handle)["gfx_activity"] == "N/A"
            continue
        power, activity, errors = (
            amdsmi(name, handle) for name in ("get_power_info", "get_gpu_activity", "get_gpu_total_ecc_count")
        )
        assert power["socket_power"] == metrics["current_socket_power"] == shown("gpu_package_power")
        assert activity["gfx_activity"] == shown("gpu_gfx_activity")
        assert activity["umc_activity"] == shown("gpu_umc_activity")
        assert metrics["temperature_hotspot"] == shown("gpu_junction_temperature")
        assert metrics["temperature_mem"] == shown("gpu_memory_temperature")
        assert metrics["current_gfxclks"] == [shown("gpu_clock", str(each)) for each in range(8)]
        assert metrics["current_uclk"] == shown("gpu_clock", "8")
        assert errors["correctable_count"] == shown("gpu_ecc_correct_total")
        assert errors["uncorrectable_count"] == shown("gpu_ecc_uncorrect_total")
        energy = amdsmi("get_energy_count", handle)
        microjoules = energy["energy_accumulator"] * energy["counter_resolution"]
        assert abs(microjoules - shown("gpu_energy_consumed")) < 1000  # of the file, in mJ
        pcie = amdsmi("get_pcie_info", handle)["pcie_metric"]
        assert pcie["pcie_speed"] / 1000 == shown("pcie_speed")
        assert pcie["pcie_bandwidth"] == shown("pcie_bandwidth")
        assert pcie["pcie_replay_count"] == shown("pcie_replay_count")
        violations = amdsmi("get_violation_status", handle)
        assert violations["acc_counter"] == shown("gpu_violation_current_accumulated_counter")
        for name, family in (("ppt_pwr", "ppt"), ("socket_thrm", "socket_thermal"), ("prochot_thrm", "processor_hot")):
            assert violations[f"acc_{name}"] == shown(f"gpu_violation_{family}_residency_accumulated")
            assert violations[f"per_{name}"] == shown(f"gpu_violation_{family}_residency_percentage")
        links = amdsmi("get_link_metrics", handle)["links"] if "gpu_xgmi_link_tx" in page else []
        for place, link in enumerate(links):
            assert link["write"] == shown("gpu_xgmi_link_tx", str(place))
            assert link["read"] == shown("gpu_xgmi_link_rx", str(place))


@pytest.mark.slow
def test_values_of_the_page(app: MemoryApplication, file: Path) -> None:
    """On whole boards and on partitions; also while faults change them."""
    boards = {node: Amdsmi(file, node) for node in ("mi-0", "cpx-0")}
    assert {node: len(board.handles) for node, board in boards.items()} == {"mi-0": 2, "cpx-0": 8}
    for line in ("power-cap devices=mi-0/0 watts=400", "ecc-double devices=mi-0/0", "fan devices=mi-0/0"):
        for node, amdsmi in boards.items():
            _compare(app, node, amdsmi)
        assert app.connect().say(f"fault {line}")[0].startswith("ok"), line
        app.tick(10)
    amdsmi = boards["mi-0"]
    assert amdsmi("get_violation_status", amdsmi.handles[0])["acc_ppt_pwr"] > 0
    umc = NAMES.enumerations["AmdSmiGpuBlock"].UMC
    assert amdsmi("get_gpu_ecc_count", amdsmi.handles[0], umc)["uncorrectable_count"] > 0
    assert amdsmi("get_power_cap_info", amdsmi.handles[0])["power_cap"] == 400_000_000


def test_partitions(app: MemoryApplication, file: Path) -> None:
    """Each has its own function on PCI, its share, its processes; modes are those of the board."""
    amdsmi = Amdsmi(file, "cpx-0")
    assert [handle.value[-1] for handle in amdsmi.handles] == list("01234567")
    assert amdsmi("get_gpu_asic_info", amdsmi.handles[3])["num_compute_units"] == 38
    assert [len(amdsmi("get_gpu_process_list", handle)) for handle in amdsmi.handles] == [0, 0, 1, 0, 0, 0, 0, 0]
    assert amdsmi("get_gpu_compute_partition", amdsmi.handles[5]) == "CPX"
    assert amdsmi("get_gpu_memory_partition", amdsmi.handles[5]) == "NPS4"
    assert len({amdsmi("get_gpu_device_uuid", handle) for handle in amdsmi.handles}) == 8


def test_other_boards(app: MemoryApplication, file: Path) -> None:
    """An MI250X averages its power and has no partitions; NVIDIA's boards are not AMD's, and AMD's not NVIDIA's."""
    amdsmi = Amdsmi(file, "old-0")
    (handle,) = amdsmi.handles
    power = amdsmi("get_power_info", handle)
    assert (power["average_socket_power"], power["current_socket_power"]) == (power["socket_power"], "N/A")
    assert amdsmi.code("get_gpu_compute_partition", handle) == 2
    radeon = Amdsmi(file, "w-0")
    assert radeon("get_clock_info", radeon.handles[0], NAMES.enumerations["AmdSmiClkType"].GFX)["max_clk"] == 2495
    assert Amdsmi(file, "dgx-0").handles == []


def test_connections(app: MemoryApplication, file: Path) -> None:
    """Boards of a mesh reach each other over xGMI until a link is down."""
    amdsmi = Amdsmi(file, "mi-0")
    kinds = NAMES.enumerations["AmdSmiLinkType"]
    assert amdsmi("topo_get_link_type", *amdsmi.handles) == {"hops": 1, "type": int(kinds.AMDSMI_LINK_TYPE_XGMI)}
    assert amdsmi("is_P2P_accessible", *amdsmi.handles)
    assert app.connect().say("fault link-down devices=mi-0/0")[0].startswith("ok")
    app.tick(2)
    assert amdsmi("topo_get_link_type", *amdsmi.handles)["type"] == int(kinds.AMDSMI_LINK_TYPE_PCIE)
    assert "D" in amdsmi("get_gpu_xgmi_link_status", amdsmi.handles[0])["status"]


def test_errors(app: MemoryApplication, file: Path) -> None:
    """The numbers and kinds of the real module's exceptions."""
    amdsmi = Amdsmi(file, "mi-0")
    first, second = amdsmi.handles
    assert amdsmi.code("set_power_cap", first, 0, 300_000_000) == 10
    assert amdsmi.code("get_gpu_cache_info", first) == 2
    for wrong in (None, 0, "0000:0c:00.0"):
        with pytest.raises(AmdSmiParameterException):
            amdsmi("get_power_info", wrong)
    with pytest.raises(AmdSmiBdfFormatException):
        amdsmi("get_processor_handle_from_bdf", "0c:0")
    assert amdsmi("get_processor_handle_from_bdf", first.value) == first
    assert app.connect().say("fault lost devices=mi-0/1")[0].startswith("ok")
    app.tick(2)
    assert amdsmi("get_processor_handles") == [first]
    assert amdsmi.code("get_power_info", second) == 2
    amdsmi("shut_down")
    assert amdsmi.code("get_processor_handles") == 32


def test_no_service(file: Path) -> None:
    """34 before a service begins, and after it has ended."""
    names = Library({"FAKEDEV_NVML_FILE": str(file)}).names()
    with pytest.raises(AmdSmiLibraryException, match="AMDSMI_STATUS_DRIVER_NOT_LOADED"):
        names["amdsmi_init"]()
    with application(_FLEET.format(file=file)):
        amdsmi = Amdsmi(file, "mi-0")
    assert amdsmi.code("get_processor_handles") == 34
    output = io.StringIO()
    assert run(["list", "--json"], amdsmi.environ, output, output) == -34 & 0xFF
    assert json.loads(output.getvalue())["code"] == -34


@pytest.mark.slow
@pytest.mark.parametrize("node", ["mi-0", "cpx-0", "w-0", "old-0"])
def test_commands(app: MemoryApplication, file: Path, node: str) -> None:
    """Each prints what the module says, as text, JSON and CSV."""
    amdsmi = Amdsmi(file, node)
    for words in ("list", "static", "metric", "process", "monitor", "bad-pages", "firmware", "version"):
        found = json.loads(amdsmi.command(words, "--json"))
        rows = found["gpu_data"] if isinstance(found, dict) else found
        assert len(rows) == (1 if words == "version" else len(amdsmi.handles))
        lines = amdsmi.command(words, "--csv").splitlines()
        assert len(lines) >= len(rows) + 1
        assert amdsmi.command(words)
    for words in ("topology", "xgmi", "partition"):
        assert json.loads(amdsmi.command(words, "--json"))
        assert amdsmi.command(words)
    power = json.loads(amdsmi.command("metric", "-p", "-g", "0", "--json"))["gpu_data"][0]["power"]["socket_power"]
    assert power == {"value": amdsmi("get_power_info", amdsmi.handles[0])["socket_power"], "unit": "W"}
    widths = {len(line) for line in amdsmi.command().splitlines() if line}
    assert widths == {80}


def test_wrong_use(app: MemoryApplication, file: Path) -> None:
    """A reason and the number of the real command's error; no traceback."""
    environ = Amdsmi(file, "mi-0").environ
    cases = ((["foo"], -10), (["static", "--foo"], -2), (["metric", "-g", "9"], -3), (["reset", "-g", "0"], -7))
    for arguments, code in cases:
        output = io.StringIO()
        assert run(arguments, environ, output, output) == code & 0xFF, arguments
        assert f"Error code: {code}" in output.getvalue()


@pytest.mark.slow
def test_the_folder(app: MemoryApplication, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python without fakedev imports amdsmi from it; it loads neither NumPy nor Twisted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = built_amdsmi()
    code = (
        "import sys, amdsmi, amdsmi.amdsmi_wrapper as w; amdsmi.amdsmi_init(); "
        "print(len(amdsmi.amdsmi_get_processor_handles()), w.AMDSMI_STATUS_NO_PERM, "
        "{'numpy', 'twisted', 'yaml'} & set(sys.modules))"
    )
    environ = {**os.environ, "PYTHONPATH": str(folder), "FAKEDEV_NVML_FILE": str(file), "FAKEDEV_NODE": "mi-0"}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stdout == "2 10 set()\n"
    listed = subprocess.run([folder / "amd-smi", "list"], env=environ, capture_output=True, text=True, check=True)
    assert listed.stdout.count("BDF") == 2


#: The AFID of each error by AMD's table (ras-decode 0.7 of amd-smi), and the severity of its record.
_AFIDS = (
    ("ecc-single count=3", "24", "NONFATAL-CORRECTED"), ("ecc-double", "20", "FATAL"),
    ("cache-errors", "29", "NONFATAL-CORRECTED"), ("cache-errors uncorrectable=1", "30", "FATAL"),
)  # fmt: skip


@pytest.mark.slow
def test_ras(app: MemoryApplication, file: Path, tmp_path: Path) -> None:
    """Records of errors by ``amd-smi ras``, in order of the boards, with their AFIDs; the page has the same number."""
    mi = Amdsmi(file, "mi-0")
    nothing = mi.command("ras", "--cper").splitlines()
    assert [line.split(":")[0] for line in nothing] == ["WARNING", "timestamp            gpu_id  severity            "]
    for words, _, _ in _AFIDS:
        assert app.connect().say(f"fault {words} devices=mi-0/1")[0].startswith("ok")
        app.tick()
    assert app.connect().say("fault ecc-double devices=cpx-0/0")[0].startswith("ok")
    app.tick()
    folder = tmp_path / "records"
    table = mi.command("ras", "--cper", "--folder", str(folder)).splitlines()
    rows = [line.split() for line in table[1:]]
    assert [(severity, afid) for *_, severity, _, afid in rows] == [(severity, afid) for _, afid, severity in _AFIDS]
    assert {row[2] for row in rows} == {"1"}
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"{name}-{number}.{kind}"
        for number, name in enumerate(("corrected", "fatal", "corrected", "fatal"), 1) for kind in ("cper", "json")
    )  # fmt: skip
    for *_, name, afid in rows:
        assert mi.command("ras", "--afid", "--cper-file", str(folder / name)) == f"{afid}\n"
    entry = json.loads((folder / "fatal-2.json").read_text())
    assert (entry["notify_type"], entry["platform_id"]) == ("MCE", "0x1002:0x74A1")
    assert f"{entry['timestamp']} " in table[2]
    kept = mi.command("ras", "--cper", "--folder", str(folder), "--severity", "fatal", "--file-limit", "1").splitlines()
    assert len(kept) == 3 and [path.name for path in folder.glob("*.cper")] == ["fatal-2.cper"]
    shown = _page(app, "mi-0")["gpu_afid_errors"]
    assert shown == {("1", "0"): 20}
    entries, cursor, records, code = mi("get_gpu_cper_entries", mi.handles[1], 0b010)
    assert [each["error_severity"] for each in entries.values()] == ["fatal", "fatal"] and code == 0
    assert mi("get_afids_from_cper", records) == ([20, 30], 2)
    assert mi("get_gpu_cper_entries", mi.handles[1], 0b111, 4096, cursor)[0] == {}
    assert mi.code("get_afids_from_cper", b"CPER") == 43
    partitions = Amdsmi(file, "cpx-0")
    assert partitions.code("get_gpu_cper_entries", partitions.handles[1], 7) == 2
    assert len(partitions.command("ras", "--cper").splitlines()) == 3
    assert "primary partition" in partitions.command("ras", "--cper", "-g", "1")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["ras"], -2, "--cper --afid is required"), (["ras", "--afid"], -1, "requires '--cper-file'"),
        (["ras", "--afid", "--cper-file", "/no/where"], -4, "no such file"),
        (["ras", "--cper", "--folder", "/dev/null/x"], -4, "cannot be written"),
        (["ras", "--cper", "--severity", "bad"], -2, "bad"),
    ],
)  # fmt: skip
def test_ras_refuses(app: MemoryApplication, file: Path, arguments: list[str], code: int, words: str) -> None:
    """With the numbers of the real command, and the reason."""
    errors = io.StringIO()
    environ = {"FAKEDEV_NVML_FILE": str(file), "FAKEDEV_NODE": "mi-0"}
    assert run(arguments, environ, io.StringIO(), errors) == code & 0xFF
    assert words in errors.getvalue() and f"Error code: {code}" in errors.getvalue()


def test_visible(app: MemoryApplication, file: Path) -> None:
    """A container sees the boards and partitions that AMD_VISIBLE_DEVICES names, numbered anew."""
    node = Amdsmi(file, "mi-0")
    uuids = [node("get_gpu_device_uuid", handle) for handle in node.handles]
    parts = Amdsmi(file, "cpx-0")
    part = parts("get_gpu_device_uuid", parts.handles[5])
    for name, visible, count in (
        ("mi-0", "1", 1), ("mi-0", uuids[1], 1), ("mi-0", "all", 2), ("mi-0", "none", 0), ("mi-0", "7", 0),
        ("cpx-0", f"{part}", 1), ("cpx-0", "0:5,0:6", 2), ("cpx-0", "0", 8),
    ):  # fmt: skip
        environ = {"FAKEDEV_NVML_FILE": str(file), "FAKEDEV_NODE": name, "AMD_VISIBLE_DEVICES": visible}
        output = io.StringIO()
        assert run(["list", "--json"], environ, output, output) == 0
        rows = json.loads(output.getvalue())
        assert [row["gpu"] for row in rows] == list(range(count)), (name, visible)
        if visible in ("1", uuids[1]):
            assert rows[0]["uuid"] == uuids[1]
        if visible == part:
            assert rows[0]["uuid"] == part
