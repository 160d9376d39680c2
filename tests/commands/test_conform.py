"""fakedev conform: which page is compared, what is printed, and how it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fakedev.commands.main import main
from fakedev.config.load import load
from fakedev.config.sample_page import sample_page
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.samples import read_page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.fleet import Fleet
from fakedev.schema.files import Files
from tests.support.identities import TITLES, loaded


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A page of dcgm@4.8.3 on L40S boards, kept in a file."""
    path = tmp_path / "scrape.prom"
    path.write_text(sample_page("dcgm@4.8.3", "l40s")[1])
    return path


@pytest.mark.slow
def test_identity_and_device_are_told_by_the_page(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of three identities with the same families it is the one of this version."""
    assert main(["conform", "--against", str(capture), "--min", "100"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"dcgm@4.8.3 on l40s-48gb against {capture}: 100.0 % (")
    assert said.count("\n") == 1


@pytest.mark.slow
def test_a_verdict_that_is_not_met(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3, with the differences."""
    assert main(["conform", "--against", str(capture), "--identity", "dcgm@3.0", "--min", "90"]) == 3
    captured = capsys.readouterr()
    assert "DCGM_FI_DEV_FB_RESERVED: only the capture has it" in captured.out
    assert "is less than --min 90" in captured.err


def test_a_page_of_a_file(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In place of an identity; of a fragment what it has not is not missed."""
    part = tmp_path / "part.prom"
    part.write_text("".join(capture.read_text().splitlines(keepends=True)[:4]))
    assert main(["conform", "--against", str(part), "--page", str(capture), "--fragment", "--min", "100"]) == 0
    assert main(["conform", "--against", str(part), "--page", str(capture), "--min", "100"]) == 3
    assert f"{capture} against {part}: 100.0 % (7 of 7 aspects)" in capsys.readouterr().out


@pytest.mark.slow
def test_what_users_configure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counters of one's own, their labels, no labels of pods; optional labels; labels that a library has sorted."""
    old = '{gpu="0",UUID="GPU-1",device="nvidia0",modelName="Tesla T4",Hostname="a",DCGM_FI_PROCESS_NAME="b"}'
    amd = (
        '{card_model="",card_series="",gpu_compute_partition_type="spx",gpu_id="0",gpu_partition_id="0",gpu_uuid="c",'
        'hostname="a",serial_number=""}'
    )
    by_name = '{Hostname="a",UUID="GPU-1",device="nvidia0",gpu="0",modelName="Tesla T4",pci_bus_id="00000000:00:1E.0"}'
    for lines, identity, device in (
        (f"DCGM_FI_DEV_GPU_TEMP{old} 30\nDCGM_FI_DEV_PSTATE{old} 8\n", "dcgm@2.6", "t4"),
        (f"gpu_gfx_activity{amd} 0\n", "amd-device-metrics@1.2", "mi300x"),
        (f"DCGM_FI_DEV_GPU_TEMP{by_name} 30\n", "dcgm@4.8.2", "t4"),
    ):
        page = tmp_path / "part.prom"
        page.write_text(lines)
        asked = ["conform", "--against", str(page), "--fragment", "--identity", identity, "--device", device]
        main(asked)
        assert "100.0 %" in capsys.readouterr().out, lines


@pytest.mark.parametrize(
    ("text", "arguments", "reason"),
    [
        (None, [], "no such file or folder"),
        ("root:x:0:0", [], "line 1 is no sample"),
        ("# nothing\n", [], "there is no metric in it"),
        ("a 1\n" + "b" * 2_000_000 + " 1\n", [], "line 2 is longer than 1048576 bytes"),
        ("unheard_of 1\n", [], "no identity has any of its families; name one with --identity"),
        ("a 1\n", ["--identity", "dcmg"], "did you mean 'dcgm'?"),
        ("a 1\n", ["--identity", "dcgm", "--device", "h1000"], "no device type 'h1000'"),
    ],
)
def test_what_cannot_be_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, arguments: list[str], reason: str
) -> None:
    path = tmp_path / "capture"
    if text is not None:
        path.write_text(text)
    assert main(["conform", "--against", str(path), *arguments]) == 2
    assert reason in capsys.readouterr().err


def test_input_without_end(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before it fills the memory: one line, or many; a device is no file."""
    assert main(["conform", "--against", "/dev/zero"]) == 2
    assert "/dev/zero: it is not a regular file" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"a" * 2**21)))
    assert main(["clone", "-"]) == 2
    assert "-: line 1 is longer than" in capsys.readouterr().err
    monkeypatch.setattr("fakedev.commands.conform._MOST_BYTES", 2**20)
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"a 1\n" * 2**20)))
    assert main(["clone", "-"]) == 2
    assert "-: is larger than 1 MiB" in capsys.readouterr().err


@pytest.mark.parametrize("title", [title for title in TITLES if loaded(title).openmetrics])
def test_openmetrics(title: str) -> None:
    pool = f"{{name: p, nodes: [n], device: max-1550, devices-per-node: 2, identity: '{title}'}}"
    configuration = load(
        None, Files(environ={}), text=f"fleet: {{pools: [{pool}]}}\nweb: []\nworkloads: {{listen: []}}"
    )
    fleet = Fleet(configuration.fleet)
    page = Page(LabelCache(configuration.identities["p"], DeviceSource(fleet)), fleet.roster.nodes, openmetrics=True)
    families = list(text_string_to_metric_families(page.render(fleet.state).decode() + "# EOF\n"))
    assert families


def lines_of(capture: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    main(["conform", "--against", str(capture), *arguments])
    return capsys.readouterr().out.splitlines()


@pytest.mark.slow
def test_a_board_that_is_unknown(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Is said to be; the nearest is named, by the page."""
    capture.write_text(capture.read_text().replace("NVIDIA L40S", "NVIDIA Unheard-of 1"))
    score, note, *_ = lines_of(capture, capsys)
    assert score.startswith("dcgm@4.8.3 on l40s-48gb against ")
    assert note == (
        "  note: the board 'NVIDIA Unheard-of 1' is in no device type: compared with the nearest, l40s-48gb"
    )
    assert not [line for line in lines_of(capture, capsys, "--device", "l40s") if "no device type" in line]


@pytest.mark.slow
def test_boards_that_are_idle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A capture of idle boards is compared with such a page, one of a busy board with the usual one."""
    for is_idle, said in ((True, " (idle)"), (False, "")):
        path = tmp_path / str(is_idle)
        path.write_text(sample_page("nvidia-gpu-exporter@1", "h100", is_idle=is_idle)[1])
        score = lines_of(path, capsys, "--identity", "nvidia-gpu-exporter@1", "--device", "h100")[0]
        assert score.startswith(f"nvidia-gpu-exporter@1 on h100{said} against {path}: 100.0 % (")


@pytest.mark.slow
def test_rows_only(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a fragment without HELP and TYPE, these do not count; of a page they do."""
    rows = [line for line in capture.read_text().splitlines(keepends=True) if not line.startswith("#")]
    capture.write_text("".join(rows[:6]))
    assert "100.0 % (13 of 13 aspects)" in lines_of(capture, capsys, "--fragment", "--identity", "dcgm@4.8.3")[0]
    assert "  texts (HELP): 3" in lines_of(capture, capsys, "--identity", "dcgm@4.8.3")


@pytest.mark.slow
def test_boards_that_are_to_be_divided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MIG is on and there is no instance: no use of the whole board, with profiling fields or without."""
    page = read_page(sample_page("dcgm@4.8.2", "a100")[1])
    whole = {name for name in page.families if re.search("_UTIL|REMAP|PCIE_[TR]X", name)}
    assert len(whole) == 9
    profiling = {name for name in page.families if "_PROF_" in name}
    for number, gone in enumerate((whole, whole | profiling)):
        path = tmp_path / str(number)
        path.write_text(without(sample_page("dcgm@4.8.2", "a100")[1], gone))
        (line,) = lines_of(path, capsys, "--identity", "dcgm@4.8.2")
        assert line.startswith("dcgm@4.8.2 on a100-sxm4-40gb (MIG on, no instance) against")
        assert ": 100.0 % (" in line


@pytest.mark.slow
def test_the_counters_of_the_helm_chart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They have no label of the driver's version and no reserved memory: conform says so, instead of missing labels."""
    path = tmp_path / "helm.prom"
    path.write_text(sample_page("etc/dcgm-exporter/helm.yaml", "t4")[1])
    assert "DRIVER_VERSION" not in path.read_text()
    (line,) = lines_of(path, capsys, "--identity", "dcgm@4.8.2")
    assert line.startswith("dcgm@4.8.2 on t4-16gb (counters of the Helm chart) against")
    assert ": 100.0 % (" in line


def without(page: str, names: set[str]) -> str:
    kept = (line for line in page.splitlines() if line.removeprefix("# HELP ").removeprefix("# TYPE ").partition(" ")[0]
            .partition("{")[0] not in names)
    return "".join(f"{line}\n" for line in kept)


@pytest.mark.slow
def test_a_version_that_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest of all is named, with the next ones, and what differs by kind."""
    path = tmp_path / "page"
    text = sample_page("dcgm@4.8.2", "h100")[1]
    path.write_text(text.replace('Hostname="', 'host="').replace("(in MiB)", "(in bytes)").replace(".000000", ".0"))
    score, note, *rest = lines_of(path, capsys)
    assert score.startswith("dcgm@")
    assert note.startswith("  note: the nearest of 12 identities; next: dcgm@")
    kinds = [line for line in rest if not line.startswith("    ")]
    assert [kind.partition(":")[0].strip() for kind in kinds] == ["texts (HELP)", "labels", "formats of numbers"]


@pytest.mark.slow
def test_reports(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], misuse: Callable[..., str]) -> None:
    """As JSON and as HTML, in which texts are escaped; other files are an error of usage, others cannot be written."""
    capture.write_text(capture.read_text().replace("GPU temperature (in C).", "<script>"))
    files = [tmp_path / name for name in ("report.json", "report.html")]
    assert main(["conform", "--against", str(capture), *(f"--report={path}" for path in files)]) == 0
    best = json.loads(files[0].read_text())["scores"][0]
    assert (best["page"], list(best["differences"])) == ("dcgm@4.8.3 on l40s-48gb", ["HELP"])
    assert best["differences"]["HELP"][0]["family"] == "DCGM_FI_DEV_GPU_TEMP"
    html = files[1].read_text()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert "does not end in .html or .json" in misuse(main, "conform", "--against", "x", "--report=x.txt")
    assert main(["conform", "--against", str(capture), f"--report={tmp_path / 'none' / 'x.json'}"]) == 1
    assert "no such file or folder" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "numbers",
    [
        {
            "DCGM_FI_DEV_GPU_TEMP": ("95", "at most 89"),
            "DCGM_FI_DEV_GPU_UTIL": ("170", "at most 100"),
            "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("1.5", "at most 1"),
            "DCGM_FI_DEV_FB_USED": ("90000", "at most 81559"),
            "DCGM_FI_DEV_POWER_USAGE": ("900", "at most 875"),
        },
        {"DCGM_FI_DEV_GPU_TEMP": ("88", ""), "DCGM_FI_DEV_POWER_USAGE": ("720", "")},
    ],
)
def test_numbers_that_the_board_cannot_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], numbers: dict[str, tuple[str, str]]
) -> None:
    """They are differences, though they are of the same magnitude as others."""
    text = sample_page("dcgm@4.8.2", "h100")[1]
    for family, (number, _) in numbers.items():
        before = text
        text = re.sub(rf"^({family}\{{[^}}]*\}}) .*$", rf"\1 {number}", text, flags=re.MULTILINE)
        assert text != before
    (tmp_path / "capture.prom").write_text(text)
    assert main(["conform", "--against", str(tmp_path / "capture.prom"), "--identity", "dcgm@4.8.2"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if "the board shows" in line]
    assert sorted(lines) == sorted(
        f"{family}: {number} in the capture, and the board shows {limit}"
        for family, (number, limit) in numbers.items()
        if limit
    )


@pytest.mark.parametrize(
    ("family", "number", "said"),
    [
        ("DCGM_FI_DEV_GPU_TEMP", "95", "95 WHERE, and the board shows at most 89"),
        ("DCGM_FI_DEV_GPU_TEMP", "-3", "-3 WHERE, and the board shows at least 0"),
        ("DCGM_FI_DEV_GPU_UTIL", "17000", "17000 WHERE, and the board shows at most 100"),
        ("DCGM_FI_DEV_SM_CLOCK", "9000", "9000 WHERE, and the board shows at most 2475"),
        ("DCGM_FI_DEV_GPU_TEMP", "88", ""),
    ],
)
@pytest.mark.parametrize("where", ["in the capture", "on the page", "both"])
def test_numbers_of_pages_that_their_board_cannot_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str, family: str, number: str, said: str
) -> None:
    """With --page too, also where both pages have them: the board is the one that a page names."""
    text = sample_page("dcgm@4.8.2", "h100")[1]
    changed = re.sub(rf"^({family}\{{[^}}]*\}}) .*$", rf"\1 {number}", text, flags=re.MULTILINE)
    (tmp_path / "capture").write_text(text if where == "on the page" else changed)
    (tmp_path / "page").write_text(text if where == "in the capture" else changed)
    lines = lines_of(tmp_path / "capture", capsys, "--page", str(tmp_path / "page"), "--identity", "dcgm@4.8.2")
    found = [line.strip() for line in lines if line.strip().startswith(family) and "numbers as" not in line]
    words = said.replace("WHERE", "in the capture" if where == "both" else where)
    if number == "17000" and where != "both":
        assert len(found) == 1, "the magnitudes differ"
    else:
        assert found == ([f"{family}: {words}"] if said else [])


@pytest.mark.slow
def test_boards_without_a_hardware_slowdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are no warmer than their shutdown."""
    text = sample_page("amd-device-metrics@1", "mi300x")[1]
    hot = re.sub(r"^(gpu_junction_temperature\{.*\}) .*$", r"\1 130", text, flags=re.MULTILINE)
    (tmp_path / "capture").write_text(hot)
    lines = lines_of(tmp_path / "capture", capsys, "--identity", "amd-device-metrics@1", "--device", "mi300x")
    assert "    gpu_junction_temperature: 130 in the capture, and the board shows at most 110" in lines


def test_boards_of_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line is judged by its own board; a line of output has each board that is in no device type."""
    text = sample_page("dcgm@4.8.2", "h100")[1]
    page = tmp_path / "page"

    def remarks(content: str, *options: str) -> list[str]:
        page.write_text(content)
        lines = lines_of(page, capsys, "--page", str(page), "--identity", "dcgm@4.8.2", *options)
        return [line.strip() for line in lines[1:]]

    assert remarks(text) == []
    unknown = text.replace("NVIDIA H100 80GB HBM3", "NVIDIA Z9").replace('gpu="1",', 'gpu="1",', 1)
    said = "note: the board 'NVIDIA Z9' is in no device type: its numbers are not judged; name one with --device"
    assert remarks(unknown) == [said]
    over = "DCGM_FI_DEV_POWER_USAGE: 650 in the capture, and the board shows at most 90"
    busy = re.sub(r"^(DCGM_FI_DEV_POWER_USAGE\{.*\}) .*$", r"\1 650", unknown, flags=re.MULTILINE)
    assert over in remarks(busy, "--device", "l4")
    second = re.sub(r'^(.*gpu="1".*)NVIDIA H100 80GB HBM3', r"\1NVIDIA L4", text, flags=re.MULTILINE)
    second = re.sub(r"^(DCGM_FI_DEV_POWER_USAGE\{.*\}) .*$", r"\1 650", second, flags=re.MULTILINE)
    assert over in remarks(second)
    unnamed = re.sub(r'modelName="[^"]*",', "", text)
    places = ("in the capture", "on the page")
    assert remarks(unnamed) == [
        f"note: no line {where} names its board: its numbers are not judged; name one with --device" for where in places
    ]
    near = text.replace("NVIDIA H100 80GB HBM3", "NVIDIA H100 NVL")
    (remark,) = remarks(near)
    assert "'NVIDIA H100 NVL'" in remark
    assert remark.endswith("h100-sxm5-80gb")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("identity", "device", "facts"),
    [
        ("tpu@1", "h100", {"tpu_topology": "2x4"}),
        ("tpu@1", "h100", {"tpu_topology": "$x" * 2000}),
        ("neuron@1", "h100", {"vcpu_count": "192", "system_memory_bytes": "2e12", "region": "us-east-1"}),
        ("nvidia-gpu-exporter@1", "h100", {"platform_host_id": "7"}),
        ("dcgm@4.8.3", "h100", {"driver_version": "525.60.13"}),
    ],
)
def test_facts_are_those_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], identity: str, device: str, facts: dict[str, str]
) -> None:
    """What a page shows of its boards and their host, in labels or as numbers, is expected of the compared page."""
    path = tmp_path / "capture"
    path.write_text(sample_page(identity, device, facts=facts, devices=8)[1])
    lines = lines_of(path, capsys, "--identity", identity, "--device", device)
    assert "100.0 %" in lines[0] and len(lines) == 1


@pytest.mark.slow
def test_facts_of_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A job is one of the busy board only."""
    path = tmp_path / "capture"
    path.write_text(sample_page("dcgm@4.8.2", "h100", owner={"hpc_job": "7"})[1])
    lines = lines_of(path, capsys, "--identity", "dcgm@4.8.2")
    assert "100.0 %" in lines[0] and len(lines) == 1


def test_what_is_not_certain(capsys: pytest.CaptureFixture[str]) -> None:
    """What an identity lacks, and names of fields that no source has: those of DCGM 4.7 only where it is."""
    assert main(["identities", "--sources", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    inferred = {each["IDENTITY"] for each in found if each["KIND"] == "inferred"}
    assert inferred == {"dcgm@4.9.0"}
    lacking = {each["IDENTITY"] for each in found if each["KIND"] == "not covered"}
    assert {"dcgm@4.8.3", "xpumd@2", "dcgm@4.9.0"} <= lacking
