"""fakedev diff: what changes from one identity to another."""

from __future__ import annotations

import pytest

from fakedev.commands.main import main
from fakedev.exporters.conform import grouped_differences
from tests.support.identities import TITLES, loaded


def differences(old: str, new: str) -> list[str]:
    return [line for lines in grouped_differences(loaded(old), loaded(new)).values() for line in lines]


@pytest.mark.parametrize("title", TITLES)
def test_an_identity_is_itself(title: str) -> None:
    assert differences(title, title) == []


def test_versions_of_dcgm() -> None:
    """A label has another name, families another order, numbers another form; no series is lost."""
    lines = differences("dcgm@4.8.2", "dcgm@4.8.3")
    assert lines[0] == "renamed  label Hostname -> hostname"
    assert "changed  page: another order of families" in lines
    assert "changed  DCGM_FI_DEV_POWER_USAGE: numbers fixed6 -> go-fixed6" in lines
    assert not [line for line in lines if line.startswith(("lost", "added"))]


def test_series_are_told_by_what_they_show() -> None:
    """Of another vendor: renamed with its own labels; what has no counterpart is lost or added."""
    lines = differences("dcgm@4.8.2", "xpumanager@1.3")
    renamed = 'renamed  DCGM_FI_DEV_GPU_TEMP -> xpum_temperature_celsius{location="gpu",src="direct"}: '
    assert [line for line in lines if line.startswith(renamed)]
    assert "lost     DCGM_FI_DEV_PCIE_REPLAY_COUNTER" in lines
    assert 'added    xpum_resets_total{src="direct"}' in lines


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints the lines; a name that there is not is an error of usage."""
    assert main(["diff", "dcgm@3.0", "dcgm@4.8.2"]) == 0
    assert "added    label pci_bus_id\n" in capsys.readouterr().out
    assert main(["diff", "dcgm@3.0", "dcmg"]) == 2
    assert "did you mean 'dcgm'?" in capsys.readouterr().err


def test_an_upgrade(capsys: pytest.CaptureFixture[str]) -> None:
    """By kind: labels of all rows, of links and of one family; HELP; families; conditions."""
    assert main(["diff", "dcgm@3.3.5", "dcgm@4.4.2"]) == 0
    captured = capsys.readouterr()
    groups: dict[str, list[str]] = {}
    for line in captured.out.splitlines():
        if line.startswith("  "):
            groups[list(groups)[-1]].append(line.strip())
        else:
            groups[line] = []
    labels, texts, series, changes = groups.values()
    assert list(groups) == ["labels:", "HELP:", "families and series:", "types, numbers and conditions:"]
    assert {
        "added    label pci_bus_id", "added    label pod_uid, where there is a pod",
        "added    label err_code on DCGM_FI_DEV_XID_ERRORS",
        "renamed  label Hostname -> hostname (rows of the level link)",
    } <= set(labels)  # fmt: skip
    free = '"Frame buffer memory free (in MB)." -> "Framebuffer memory free (in MiB)."'
    assert f"changed  HELP of DCGM_FI_DEV_FB_FREE: {free}" in texts
    assert series == ["added    DCGM_FI_DEV_FB_RESERVED"]
    assert changes == [
        f"changed  DCGM_FI_DEV_{name}: under other conditions" for name in ("MEMORY_TEMP", "XID_ERRORS")
    ]


def test_a_row_of_some_drivers() -> None:
    lines = differences("dcgm@3.3.7", "dcgm@4.0")
    assert 'lost     DCGM_FI_DEV_XID_ERRORS{err_code="0",err_msg="Unknown Error"}' in lines
    added = 'added    DCGM_FI_DEV_XID_ERRORS{err_code="0",err_msg="No Error"}: only where driver_version is from 580.65'
    assert [line for line in lines if line.startswith(added)]
