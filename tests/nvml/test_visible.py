"""A container sees the boards that NVIDIA_VISIBLE_DEVICES names, by the library and by nvidia-smi alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fakedev.nvml.smi.boards import NOT_FOUND, VISIBLE
from tests.support.application import MemoryApplication
from tests.support.driver.nvidia_smi import Command, command
from tests.support.driver.nvml import bindings, error_of


def _names(smi: Command) -> list[str]:
    """The UUIDs that ``nvidia-smi -L`` lists, boards and instances."""
    return re.findall(r"UUID: ([^)]*)\)", smi("-L"))


def _of_library(file: Path, visible: str) -> list[str]:
    """The UUIDs of all boards and MIG devices, in the order of their numbers."""
    found = []
    with bindings(file, visible=visible) as nvml:
        nvml.nvmlInit()
        for index in range(nvml.nvmlDeviceGetCount()):
            board = nvml.nvmlDeviceGetHandleByIndex(index)
            assert nvml.nvmlDeviceGetIndex(board) == index
            found.append(nvml.nvmlDeviceGetUUID(board))
            for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(board)):
                if not error_of(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", board, number):
                    part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(board, number)
                    assert nvml.nvmlDeviceGetIndex(part) == number
                    found.append(nvml.nvmlDeviceGetUUID(part))
    return found


@pytest.mark.parametrize(
    ("visible", "seen"),
    [
        ("", range(8)), ("all", range(8)), ("3,all", range(8)), ("5", [5]), ("5,2", [2, 5]), (" 5 ,, 2\t", [2, 5]),
        ("uuid:6", [6]), ("uuid:6,0", [0, 6]), ("none", []), ("void", []), ("8", []), ("GPU-0", []), ("55", []),
    ],
)  # fmt: skip
def test_boards(app: MemoryApplication, file: Path, smi: Command, visible: str, seen: Any) -> None:
    """Numbers and UUIDs; the boards keep the order of the node, and are numbered anew."""
    app.tick()
    everyone = _names(smi)
    visible = re.sub(r"uuid:(\d)", lambda match: everyone[int(match[1])], visible)
    wanted = [everyone[number] for number in seen]
    assert _of_library(file, visible) == wanted
    smi.environ[VISIBLE] = visible
    if wanted:
        assert _names(smi) == wanted
        assert smi.rows("index", "count") == [[str(number), str(len(wanted))] for number in range(len(wanted))]
    else:
        assert smi("-L") == "No devices were found\n"
        assert smi.code == NOT_FOUND


@pytest.mark.parametrize(
    ("visible", "seen"),
    [("1:1", [3, 5]), ("uuid:4", [3, 4]), ("1:0,0", [0, 1, 2, 3, 4]), ("1", [3, 4, 5]), ("1:2", [])],
)
def test_instances(tmp_path: Path, visible: str, seen: list[int]) -> None:
    """Of a board whose instances are named a process sees only these."""
    with command(tmp_path, more="mig: [3g.40gb, 1g.10gb]") as (app, smi):
        app.tick()
        everyone = _names(smi)
        visible = visible.replace("uuid:4", everyone[4])
        wanted = [everyone[number] for number in seen]
        assert _of_library(tmp_path / "nvml.map", visible) == wanted
        smi.environ[VISIBLE] = visible
        assert _names(smi) == wanted


def test_what_a_container_sees_of_others(app: MemoryApplication, file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """XIDs of its boards alone, by their new number; no handle of another board; a word about a wrong list."""
    app.tick()
    with bindings(file) as nvml:
        nvml.nvmlInit()
        hidden = nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(2))
    with bindings(file, visible="3") as nvml:
        nvml.nvmlInit()
        assert error_of(nvml, "nvmlDeviceGetHandleByIndex", 1) == nvml.NVML_ERROR_INVALID_ARGUMENT
        assert error_of(nvml, "nvmlDeviceGetHandleByUUID", hidden) == nvml.NVML_ERROR_NOT_FOUND
        board = nvml.nvmlDeviceGetHandleByIndex(0)
        assert nvml.nvmlDeviceGetMinorNumber(board) == 3
        events = nvml.nvmlEventSetCreate()
        nvml.nvmlDeviceRegisterEvents(board, nvml.nvmlEventTypeXidCriticalError, events)
        for number, code in ((2, 31), (3, 43)):
            assert app.connect().say(f"fault xid code={code} devices=dgx-0/{number}")[0].startswith("ok")
        app.tick()
        event = nvml.nvmlEventSetWait_v2(events, 0)
        assert event.eventData == 43
        assert nvml.nvmlDeviceGetIndex(event.device) == 0
        assert error_of(nvml, "nvmlEventSetWait_v2", events, 0) == nvml.NVML_ERROR_TIMEOUT
        nvml.nvmlEventSetFree(events)
    assert capfd.readouterr().err == ""
    with bindings(file, visible="GPU-1") as nvml:
        nvml.nvmlInit()
        assert nvml.nvmlDeviceGetCount() == 0
    assert "NVIDIA_VISIBLE_DEVICES=GPU-1 names no board of this node: " in capfd.readouterr().err
