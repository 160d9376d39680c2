"""The file that lets the boards of NVIDIA's nvml-mock follow a node."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakedev.base.errors import CannotWrite
from fakedev.commands.nvml import nvml
from fakedev.nvml.nvml_mock import OverrideWriter, overrides_text
from fakedev.nvml.smi.boards import read_snapshot
from tests.support.application import MemoryApplication, application
from tests.support.driver.nvml import boards


class Mock:
    """A folder of nvml-mock, and what the writer says."""

    def __init__(self, folder: Path, file: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text("version: '1.0'\n")
        self.file = folder / "overrides.yaml"
        self.environ = {"FAKEDEV_NVML_FILE": str(file)}
        self.said: list[str] = []
        self.writer = OverrideWriter(folder, self.environ, self.said.append)

    def device(self, number: int) -> dict[str, Any]:
        """What the file says of a board, read as nvml-mock reads it: as YAML."""
        self.writer.look()
        found: dict[str, Any] = yaml.safe_load(self.file.read_text())["devices"][str(number)]
        return found


@pytest.fixture
def app(app: MemoryApplication) -> MemoryApplication:
    """A node of eight boards, of which the first two have worked."""
    app.tick(30)
    return app


@pytest.fixture
def mock(tmp_path: Path, file: Path) -> Mock:
    """What follows it."""
    return Mock(tmp_path / "config", file)


@pytest.mark.slow
def test_values(app: MemoryApplication, mock: Mock) -> None:
    """They are those of nvidia-smi in the same tick; nothing is left to chance."""
    shown = mock.device(0)
    view = read_snapshot(mock.environ).boards[0].view
    assert shown["utilization"]["gpu"] == view.number("usage") > 50
    assert shown["power"]["current_draw_mw"] == view.number("power") > 200_000
    assert shown["thermal"]["temperature_gpu_c"] == view.number("temperature")
    assert shown["memory"]["used_bytes"] + shown["memory"]["free_bytes"] <= shown["memory"]["total_bytes"]
    assert shown["clocks"]["sm_current"] == view.number("core_clock")
    assert shown["performance_state"] == "P0"
    assert [each["name"] for each in shown["processes"]] == ["train"]
    assert (shown["dynamic_metrics"], shown["failure"]) == (None, None)
    assert "fan" not in shown
    assert mock.device(7)["processes"] == []


@pytest.mark.slow
def test_a_lost_board_comes_back(app: MemoryApplication, mock: Mock) -> None:
    """The failure is there as long as the fault, with its code."""
    app.connect().say("fault lost devices=dgx-0/2 duration=5s")
    app.tick(2)
    assert mock.device(2)["failure"] == {"mode": "lost", "xid": {"code": 79}}
    app.tick(10)
    assert mock.device(2)["failure"] is None


@pytest.mark.slow
def test_reasons_for_lower_clocks(app: MemoryApplication, mock: Mock) -> None:
    """All flags are written, so that one that is over is false."""
    reasons = mock.device(7)["clocks_throttle_reasons"]
    assert reasons["gpu_idle"] is True
    assert sum(reasons.values()) == 1
    assert mock.device(0)["clocks_throttle_reasons"]["gpu_idle"] is False


def test_each_tick_once(app: MemoryApplication, mock: Mock) -> None:
    """A look between two ticks writes nothing; a new tick makes a new file, and no other file stays."""
    mock.writer.look()
    first = mock.file.stat().st_ino
    mock.writer.look()
    assert mock.file.stat().st_ino == first
    app.tick()
    mock.writer.look()
    assert mock.file.stat().st_ino != first
    assert sorted(each.name for each in mock.file.parent.iterdir()) == ["config.yaml", "overrides.yaml"]
    assert mock.said == [f"{mock.file} follows 8 boards of dgx-0"]
    assert json.loads(overrides_text(read_snapshot(mock.environ)))["version"] == 1


def test_without_the_service(file: Path, mock: Mock) -> None:
    """The file is removed, it is said once, and the next service is followed."""
    for _ in range(2):
        with application(boards(file)):
            mock.writer.look()
            assert mock.file.exists()
        mock.writer.look()
        mock.writer.look()
        assert not mock.file.exists()
    assert len(mock.said) == 4
    assert "there is no file" in mock.said[1]
    assert "have the values of their profile until then" in mock.said[1]


def test_a_folder_that_is_not_of_nvml_mock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(CannotWrite, match=r"there is no config\.yaml: name the folder"):
            OverrideWriter(folder, {}, print)
        assert nvml(["overrides", str(folder)]) == 1
        assert capsys.readouterr().err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_signals_end_it(app: MemoryApplication, mock: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 0; the file is removed, and the handlers are as before."""
    before = signal.getsignal(signal.SIGTERM)
    looks = 0
    look = OverrideWriter.look

    def counted(writer: OverrideWriter) -> None:
        nonlocal looks
        look(writer)
        looks += 1
        assert mock.file.exists()
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(OverrideWriter, "look", counted)
    file = mock.environ["FAKEDEV_NVML_FILE"]
    assert nvml(["overrides", str(mock.file.parent), "--file", file, "--node", "dgx-0"]) == 0
    assert looks == 1
    assert not mock.file.exists()
    assert signal.getsignal(signal.SIGTERM) is before
