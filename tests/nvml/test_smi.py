"""The simulated nvidia-smi: its forms, and the values of the page of the same tick."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fakedev.nvml.smi.fields import BY_NAME, COLUMNS
from fakedev.nvml.smi.queries import query
from tests.support.application import MemoryApplication
from tests.support.driver.nvidia_smi import Command, command
from tests.support.paths import GOLDEN as GOLDEN_FOLDER

GOLDEN = "nvidia_gpu_exporter.linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__load.prom"


def _page(app: MemoryApplication) -> dict[str, dict[str, float]]:
    """Families by the name of their column, and their values by UUID."""
    found: dict[str, dict[str, float]] = {}
    titles = {}
    for line in app.get("/metrics").body.decode().splitlines():
        if line.startswith("# HELP nvidia_smi_"):
            titles[line.split(" ")[2]] = line.split(" ", 3)[3]
        elif line.startswith("nvidia_smi_") and "uuid=" in line:
            uuid = line.partition('uuid="')[2].partition('"')[0]
            family = titles[line.partition("{")[0]]
            found.setdefault(family, {})[uuid] = float(line.rsplit(" ", 1)[1])
    return found


#: Units of columns, and what they are in the units of the page.
_SCALES = {"MiB": 1048576.0, "%": 0.01, "MHz": 1e6, "us": 1e-6, "": 1.0, "W": 1.0}
#: Words that the exporter reads as numbers.
_WORDS = {
    **{"Enabled": 1, "Disabled": 0, "Yes": 1, "No": 0, "Active": 1, "Not Active": 0, "Default": 0, "None": 0},
    **{"GPU Reset": 1, "Node Reboot": 2, "Drain P2P": 3, "Drain and Reset": 4, "Completed": 3},
}  # fmt: skip


def _number(cell: str) -> float:
    if cell in _WORDS:
        return _WORDS[cell]
    if cell.startswith("0x"):
        return int(cell, 16)
    return float(re.sub("[^0-9.-]", "", cell))


def _check_same(app: MemoryApplication, smi: Command) -> int:
    """All columns that the page has say the same; how many there are."""
    page, count = _page(app), 0
    for column in COLUMNS:
        shown = page.get(f"{column.name} [{column.unit}]" if column.unit else column.name, {})
        cells = {uuid.removeprefix("GPU-"): cell for uuid, cell in smi.rows("uuid", column.name)}
        for uuid, value in shown.items():
            assert cells[uuid] != "[N/A]", column.name
            same = pytest.approx(value, rel=1e-12, abs=1e-12)
            assert _number(cells[uuid]) * _SCALES[column.unit] == same, column.name
            count += 1
    return count


@pytest.mark.slow
def test_values_of_the_page(app: MemoryApplication, smi: Command) -> None:
    """Every number of the exporter that runs the command is what the command prints in the same tick; with faults."""
    for line in ("power-cap devices=dgx-0/0 watts=300", "fan devices=dgx-0/0", "ecc-double devices=dgx-0/1"):
        app.tick(5)
        assert _check_same(app, smi) > 8 * 90
        assert app.connect().say(f"fault {line}")[0].startswith("ok"), line
        app.tick(20)
        assert _check_same(app, smi) > 8 * 90


def test_all_fields_of_the_driver() -> None:
    """212 fields; those with numbers have the names and units that the exporter saw on an H100."""
    assert len(COLUMNS) == len({column.name for column in COLUMNS}) == 212
    assert all(column.doc for column in COLUMNS)
    golden = GOLDEN_FOLDER / GOLDEN
    if golden.exists():
        titles = {line.split(" ", 3)[3] for line in golden.read_text().splitlines() if line.startswith("# HELP")}
        own = {f"{column.name} [{column.unit}]" if column.unit else column.name for column in COLUMNS}
        assert {title for title in titles if " " not in title.replace(" [", "[")} - own == set()


def test_forms_of_values(app: MemoryApplication, smi: Command) -> None:
    """Titles with units, separators, units of values, and none of both with nounits and noheader."""
    app.tick(20)
    fields = (
        "index,gpu_name,power.draw,memory.total,utilization.gpu,clocks.sm,fan.speed,pstate,"
        "clocks_throttle_reasons.active"
    )
    first, second, *_ = smi(f"--query-gpu={fields}", "--format=csv").splitlines()
    assert first == (
        "index, name, power.draw [W], memory.total [MiB], utilization.gpu [%], clocks.current.sm [MHz], "
        "fan.speed [%], pstate, clocks_event_reasons.active"
    )
    assert re.fullmatch(
        r"0, NVIDIA H100 80GB HBM3, \d+\.\d\d W, 81559 MiB, \d+ %, \d+ MHz, \[N/A\], P0, 0x[0-9A-F]{16}", second
    )
    bare = smi("--id", "0", f"--query-gpu={fields}", "--format", "csv, noheader,nounits")
    assert re.fullmatch(r"0, NVIDIA H100 80GB HBM3, \d+\.\d\d, 81559, \d+, \d+, \[N/A\], P0, 0x[0-9A-F]{16}\n", bare)
    time = smi.rows("timestamp")[0][0]
    assert re.fullmatch(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}", time)
    fields = ("driver_model.current", "edpp_multiplier", "pci.bus", "pci.device_id")
    assert smi.rows(*fields, form="csv,noheader")[0] == ["[N/A]", "100.00 %", "0x1B", "0x233010DE"]
    deprecated = smi("--query-gpu=clocks.applications.gr", "--format=csv", "-i", "0").splitlines()
    assert deprecated == [
        "clocks.applications.graphics [MHz]", "[Requested functionality has been deprecated]",
    ]  # fmt: skip
    assert query("query-gpu", {"query-gpu": "clocks.gr", "format": "csv"})[0] == ("clocks.current.graphics [MHz]",)


def test_help_lists_all_fields(tmp_path: Path) -> None:
    """Names in quotation marks, alone on a line with their other names: so nvidia_gpu_exporter finds them."""
    text = Command(tmp_path / "none")("--help-query-gpu")
    names = re.findall(r'(?m)^"([^"]+)"(?: or "[^"]+")*$', text)
    assert names == [column.name for column in COLUMNS]
    assert '"clocks.current.graphics" or "clocks.gr"' in text
    assert "simulated" in text


def test_processes(app: MemoryApplication, smi: Command) -> None:
    """Each workload is a process; those of graphics are none of compute."""
    app.tick(30)
    first, *rows = smi("--query-compute-apps=gpu_uuid,pid,name,used_memory", "--format=csv").splitlines()
    assert first == "gpu_uuid, pid, process_name, used_gpu_memory [MiB]"
    cells = [row.split(", ") for row in rows]
    assert [(row[2], row[3].endswith(" MiB")) for row in cells] == [("train", True)] * 2
    assert all(int(row[1]) > 4194303 for row in cells)
    assert app.connect().say("run draw devices=dgx-0/2 kind=render profile=50:5:0 repeat=0")[0].startswith("ok")
    app.tick(2)
    assert len(smi("--query-compute-apps=pid", "--format=csv,noheader").splitlines()) == 2
    assert "draw" in smi()


def test_list_and_choice(smi: Command) -> None:
    """-L, and -i with a number, a UUID, an address, a serial number, and several."""
    listed = smi("-L").splitlines()
    assert len(listed) == 8
    assert re.fullmatch(r"GPU 0: NVIDIA H100 80GB HBM3 \(UUID: GPU-[0-9a-f-]{36}\)", listed[0])
    uuid, address, serial = smi.rows("uuid", "pci.bus_id", "serial")[3]
    for name in ("3", uuid, address, address.removeprefix("0000").lower(), serial):
        assert smi("-L", "-i", name).splitlines() == [listed[3]]
    assert smi("--id=3,1", "-L").splitlines() == [listed[1], listed[3]]
    for name in ("8", "x", "", "0,9", "-1"):
        assert (smi("-L", f"--id={name}"), smi.code) == ("No devices were found\n", 6)


def test_again_and_again(app: MemoryApplication, smi: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """-lms prints the titles once, and each tick anew; -f writes to a file."""
    delays = []

    def wait(seconds: float) -> None:
        delays.append(seconds)
        if len(delays) == 3:
            raise KeyboardInterrupt
        app.tick(1)

    monkeypatch.setattr("fakedev.nvml.smi.main.time.sleep", wait)
    target = tmp_path / "written"
    with pytest.raises(KeyboardInterrupt):
        smi("--query-gpu=timestamp", "--format=csv", "-i", "0", "-lms", "250", "-f", str(target))
    first, *times = target.read_text().splitlines()
    assert (first, len(times), len(set(times)), delays) == ("timestamp", 3, 3, [0.25] * 3)


#: What people know, with other values; the widths are those of the real table.
TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.163.01             Driver Version: 550.163.01     CUDA Version: 12.4     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:1B:00.0 Off |                    0 |
| N/A   99C    P0            999W /  700W |   99999MiB /  81559MiB |     99%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A         9999999      C   train                                 99999MiB |
+-----------------------------------------------------------------------------------------+
"""


def _nines(match: re.Match[str]) -> str:
    return "9" * len(match[0])


def test_table(app: MemoryApplication, smi: Command) -> None:
    app.tick(30)
    date, *lines = smi("-i", "0").splitlines()
    assert re.fullmatch(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4} {7}", date)
    changing = r"\d+(?=C )|\d+(?=W /)|\d+(?=MiB /)|\d+(?=%)|\d{7}(?= )|\d+(?=MiB \|\n\+)"
    assert re.sub(changing, _nines, "\n".join(lines) + "\n") == TABLE
    assert "No running processes found" in smi("-i", "7")


def test_instances_of_a_divided_board(tmp_path: Path) -> None:
    """Instances in -L and in the table; no usage of the board."""
    with command(tmp_path, more="mig: [3g.40gb, 1g.10gb]") as (app, smi):
        app.tick(5)
        listed = smi("-L", "-i", "0").splitlines()
        assert re.fullmatch(r"  MIG 3g\.40gb     Device  0: \(UUID: MIG-[0-9a-f-]{36}\)", listed[1])
        assert len(listed) == 3
        assert smi.rows("utilization.gpu", "mig.mode.current")[0] == ["[N/A]", "Enabled"]
        lines = smi("-i", "0").splitlines()
        assert {len(line) for line in lines[1:] if line} == {91}
        assert sum(line.startswith("|  0 ") for line in lines) == 2


#: The widths are those of the MIG User Guide for A100, two more for longer names.
GPU_INSTANCES = """\
+---------------------------------------------------------+
| GPU instances:                                          |
| GPU   Name               Profile  Instance   Placement  |
|                            ID       ID       Start:Size |
|=========================================================|
|   0  MIG 3g.40gb            9        2          4:4     |
+---------------------------------------------------------+
|   0  MIG 2g.20gb           14        3          0:2     |
+---------------------------------------------------------+
|   0  MIG 1g.20gb           15        4          2:2     |
+---------------------------------------------------------+
"""


def test_mig_instances(tmp_path: Path) -> None:
    """Their profiles and places, which are those that the simulation gave them; each has one compute instance."""
    with command(tmp_path, more="mig: [3g.40gb, 2g.20gb, 1g.20gb]") as (_, smi):
        assert smi("mig", "-lgi", "-i", "0") == GPU_INSTANCES
        rows = [line.split() for line in smi("mig", "-lci", "-i", "0").splitlines() if "MIG" in line]
        assert [row[1:-1] for row in rows] == [
            ["0", "2", "MIG", "3g.40gb", "2", "0", "0:3"],
            ["0", "3", "MIG", "2g.20gb", "1", "0", "0:2"],
            ["0", "4", "MIG", "1g.20gb", "0", "0", "0:1"],
        ]
        assert len(smi("mig", "-lgi").splitlines()) == 5 + 2 * 3 * 8
        listed = smi("mig", "-lgip", "-i", "0").splitlines()
        assert {len(line) for line in listed} == {81}
        rows = [line.split() for line in listed if " MIG " in line]
        assert rows[0] == ["|", "0", "MIG", "1g.10gb", "19", "0/7", "9.75", "No", "16", "1", "0", "|"]
        assert [(row[3], row[4], row[5]) for row in rows[1:]] == [
            ("1g.10gb+me", "20", "0/1"), ("1g.20gb", "15", "0/4"), ("2g.20gb", "14", "0/3"), ("3g.40gb", "9", "0/2"),
            ("4g.40gb", "5", "0/1"), ("7g.80gb", "0", "0/1"),
        ]  # fmt: skip
        for arguments in (["mig"], ["mig", "-lgi", "-lci"]):
            smi(*arguments)
            assert smi.code == 3
    with command(tmp_path) as (_, smi):
        assert smi("mig", "-lgi") == "No MIG-enabled devices found.\n"
        assert smi.code == 6


def test_it_says_that_it_is_simulated(smi: Command) -> None:
    """In --version and in the help."""
    assert "simulated by fakedev" in smi("--version")
    assert re.search(r"^NVML version        : 550\.163$", smi("--version"), re.MULTILINE)
    assert "simulated by fakedev" in smi("-h")
    assert BY_NAME["gpu_uuid"].name == "uuid"
