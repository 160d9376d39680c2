"""The simulated dcgmi: its forms, and the values of the page of the same tick."""

from __future__ import annotations

import io
import re
import subprocess
import time
from pathlib import Path
from uuid import UUID

import pytest
import yaml

from fakedev.nvml.library import built_command
from fakedev.nvml.smi import dcgmi
from fakedev.nvml.smi.boards import Failure
from tests.support.application import MemoryApplication, application
from tests.support.documents.field_table import FIELDS
from tests.support.driver.nvml import boards


def said(file: Path, *arguments: str) -> list[str]:
    """The lines of the command."""
    output = io.StringIO()
    assert dcgmi.run(arguments, {"FAKEDEV_NVML_FILE": str(file)}, output) == 0
    return output.getvalue().splitlines()


def test_discovery(tmp_path: Path) -> None:
    """A table of GPUs, then of switches, network cards and CPUs."""
    with application(boards(tmp_path / "nvml.map")):
        lines = said(tmp_path / "nvml.map", "discovery", "-l")
    rule = f"+{'-' * 8}+{'-' * 70}+"
    assert lines[:3] == ["8 GPUs found.", rule, f"| GPU ID | {'Device Information':<69}|"]
    names = [line for line in lines if "Name: NVIDIA H100 80GB HBM3" in line]
    assert [line[:10] for line in names] == [f"| {number}      |" for number in range(8)]
    found = [re.search(r"Device UUID: GPU-(\S+)", line) for line in lines]
    assert len({UUID(each[1]) for each in found if each}) == 8
    assert lines.count(rule) == 1 + 1 + 8 + 3
    assert [line for line in lines if line.endswith(" found.")][1:] == [
        "4 NvSwitches found.", "0 ConnectX found.", "0 CPUs found.",
    ]  # fmt: skip


def _page(app: MemoryApplication) -> dict[tuple[str, str], float]:
    page = app.get("/metrics").body.decode()
    found = re.findall(r'^(DCGM_FI_\w+)\{gpu="(\d)".*\} (\S+)$', page, re.MULTILINE)
    return {(name, gpu): float(value) for name, gpu, value in found}


@pytest.mark.slow
def test_values_are_those_of_the_page(tmp_path: Path) -> None:
    """Each number that both show is the same, under the number of its field."""
    with application(boards(tmp_path / "nvml.map", identity="dcgm")) as app:
        app.tick(30)
        page = _page(app)
        shown = [number for number in dcgmi.FIELDS if number.isdecimal() and int(number) > 99]
        titles, units, *rows = said(tmp_path / "nvml.map", "dmon", "-c", "1", "-e", ",".join(shown))
    assert titles.split() == ["#Entity", *(dcgmi.FIELDS[number].title for number in shown)]
    assert units.startswith("ID ")
    names = {str(each["number"]): name for name, each in yaml.safe_load(FIELDS.read_text())["fields"].items()}
    compared = 0
    for gpu, row in enumerate(rows):
        assert row.startswith(f"GPU {gpu}  ")
        for number, value in zip(shown, row.split()[2:], strict=True):
            on_page = page.get((names[number], str(gpu)))
            if on_page is not None:
                assert float(value) == pytest.approx(on_page, abs=0.0006), number
                compared += 1
    assert compared >= 8 * 15


def test_which_gpus_and_how_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every 100 ms at the most; a lost GPU has no values."""
    with application(boards(tmp_path / "nvml.map")) as app:
        file = tmp_path / "nvml.map"
        waits: list[float] = []
        monkeypatch.setattr(time, "sleep", waits.append)
        lines = said(file, "dmon", "-e", "150, 155", "-c", "2", "-d", "100", "-i", "gpu:1,3")
        assert [line[:5] for line in lines[2:]] == ["GPU 1", "GPU 3"] * 2
        assert waits == [0.1]
        assert app.connect().say("fault lost devices=dgx-0/3")[0].startswith("ok")
        app.tick()
        assert said(file, "dmon", "-e", "150", "-c", "1", "-i", "3")[2].split() == ["GPU", "3", "N/A"]
        assert any("TMPTR" in line and line.endswith("150") for line in said(file, "dmon", "-l"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("diag -r 1", "diag: not supported by the simulation"),
        ("health -c", "health: not supported"),
        ("discovery", "discovery without -l"),
        ("dmon", "a list of field IDs must be provided"),
        ("dmon -e 210", "Invalid field ID: 210"),
        ("dmon -e 150 -i 9", "No devices were found"),
        ("dmon -e 150 -g 3", "The Group is not found: 3"),
        ("dmon -e 150 -d 99", "--delay must be 100 milliseconds or more"),
        ("dmon -e 150 -c x", "--count needs a positive whole number"),
        ("dmon -z", "Option -z is not recognized. Please run 'dcgmi -h'."),
    ],
)
def test_what_is_refused(arguments: str, text: str, tmp_path: Path) -> None:
    with application(boards(tmp_path / "nvml.map")), pytest.raises(Failure, match=re.escape(text)):
        said(tmp_path / "nvml.map", *arguments.split())


def test_without_a_service(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words of a missing host engine; the reason is on standard error."""
    monkeypatch.setenv("FAKEDEV_NVML_FILE", str(tmp_path / "nvml.map"))
    assert dcgmi.main(["discovery", "-l"]) == 235
    printed = capsys.readouterr()
    assert printed.out.startswith("Error: unable to establish a connection to the specified host: localhost\n")
    assert "a service writes it with nvml: {}" in printed.err
    assert dcgmi.main(["dmon"]) == 255
    for option in ("-h", "-v"):
        assert dcgmi.main([option]) == 0
        assert "All boards and values are simulated" in capsys.readouterr().out


def test_the_command(tmp_path: Path) -> None:
    """It is beside nvidia-smi."""
    command = built_command().with_name("dcgmi")
    with application(boards(tmp_path / "nvml.map")):
        done = subprocess.run([command, "discovery", "--list"], env={"FAKEDEV_NVML_FILE": str(tmp_path / "nvml.map")},
                              capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout.startswith("8 GPUs found.\n")
