"""``fakedev faults --show``: everybody who tells of a fault says the same, and somebody tells of each."""

from __future__ import annotations

import re

import pytest

from fakedev.commands.catalogs import faults
from fakedev.commands.fault_showing import told_of
from fakedev.fleet.spec.fault_kinds import KINDS, FaultKind, Scope, fault_from_fields
from fakedev.fleet.spec.fleet_spec import FaultSpec
from fakedev.kubernetes.fault_signs import NODE_EVENTS, SIGNS, makes_unhealthy
from fakedev.kubernetes.health import HARMLESS_XIDS, KUBELET_RESTART, NODE_DOWN, PLUGIN_DOWN

#: Numbers of kinds that have no default; without them the fault does nothing on this board.
_VALUES = {
    "xid": {"code": 95}, "clock-lock": {"megahertz": 400}, "power-cap": {"watts": 300}, "pcie-slow": {"width": 4},
    "pcie-replays": {"rate": 10}, "sentinel": {"value": 7}, "slow-page": {"seconds": 3}, "inlet": {"celsius": 50},
    "fan": {"resistance": 3},
}  # fmt: skip
#: Only boards of Intel show these.
_OF_INTEL = ("programming-errors", "driver-errors", "non-compute-errors")
#: NVML has no field for these.
_NOT_IN_NVML = ("reset",)
_XID = re.compile(r"XID (\d+)|Xid \(PCI:[^)]*\): (\d+)|xid=(\d+)|err_code=\"(\d+)\"")


def fault(kind: FaultKind) -> FaultSpec:
    """A fault of a kind on the first board."""
    return fault_from_fields({"kind": kind.name, "devices": ["trial-0/0"], **_VALUES.get(kind.name, {})})


def codes(lines: list[str]) -> set[int]:
    """The XIDs that some lines name."""
    return {int(code) for line in lines for match in _XID.finditer(line) for code in match.groups() if code}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_all_tell_the_same(kind: FaultKind) -> None:
    """Page, driver, kernel, cluster and journal agree about each kind, and it is seen outside of the journal."""
    board = ("xpumanager", "max-1550") if kind.name in _OF_INTEL else ("dcgm", "gb200" if kind.is_of_racks else "h100")
    told = told_of(fault(kind), *board)
    page, driver, kernel, events, status, taints, journal = told.values()
    # Labels are stale once the work of a pod has ended, which goes on here.
    assert any([page, driver, kernel, events, status, taints]) or kind.name == "stale-labels"
    if kind.name == "imex-down":
        assert page == ["nothing by the default counters: CPUs, coolant and the fabric need others (doc/racks.md)"]
    assert journal
    assert codes(driver) == codes(kernel) == codes(journal)
    # Faults of series falsify also what the page says about XIDs.
    assert codes(page) == codes(driver) or kind.scope is Scope.SERIES
    harmful = codes(driver).difference(HARMLESS_XIDS)
    assert codes(events) == codes(taints) == harmful
    # The cluster: a device that cannot be allocated has an Event, and the other way round.
    unhealthy = makes_unhealthy(kind.name, kind.values(fault(kind).values)) or bool(harmful)
    assert any("DeviceUnhealthy" in line for line in events) == unhealthy or kind.scope is Scope.NODE
    assert any("allocatable" in line for line in status) == (unhealthy or kind.name == PLUGIN_DOWN)
    assert any(line.startswith(tuple(NODE_EVENTS.values())) for line in events) == (kind.name in NODE_EVENTS)
    assert any("Ready" in line for line in status) == (kind.name in (NODE_DOWN, KUBELET_RESTART))
    # Each sign of the kind that the driver's file or the page can show is there.
    assert bool(driver) or kind.name not in SIGNS or kind.name in _OF_INTEL or kind.name in _NOT_IN_NVML
    lost = any("is lost" in line for line in journal)
    assert lost == any("GPU is lost" in line for line in driver)
    assert lost == (79 in codes(kernel)) or kind.scope is Scope.NODE


def test_links() -> None:
    """NVML and the kernel name the link that is down."""
    told = told_of(fault_from_fields({"kind": "link-down", "link": 3, "devices": ["trial-0/0"]}), "dcgm", "h100")
    assert [line for line in told["NVML and nvidia-smi"] if line.startswith("link ")] == ["link 3 is down"]
    assert next(line for line in told["kernel's log"] if "NVLink" in line).split("link ")[1].startswith("3(")


def test_another_vendor() -> None:
    """Nothing of NVIDIA's driver is told about a board of AMD."""
    told = told_of(fault(KINDS["lost"]), "amd-device-metrics", "mi300x")
    assert "NVML and nvidia-smi" not in told
    assert told["amdsmi and amd-smi"] == ["the board is not listed"]
    assert told["kernel's log"] == told["taints of devices (DRA)"] == []
    assert told["page (amd-device-metrics)"]
    assert told["Events of the Kubernetes node"] != []


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """It prints who tells what; a wrong fault is answered as by a running service."""
    assert faults(["--show", "slow-page seconds=3"]) == 0
    page = "page (dcgm)\n  the answer comes 3 s late\n\n"
    assert capsys.readouterr().out.startswith(f"{page}NVML and nvidia-smi\n  nothing\n")
    for words, problem in (
        ("xid code", "unexpected 'code'; did you mean code=?"),
        ("xid code=0", "code: must be a whole number from 1 to 999: the error code"),
        ("xit", "kind: no kind of fault 'xit'; did you mean xid?"),
    ):
        assert faults(["--show", words]) == 2
        assert capsys.readouterr().err == f"fakedev faults: --show {words}: {problem}\n"
    with pytest.raises(SystemExit, match="2"):
        faults(["--show", "xid code=79", "--active"])
    assert "--for, --show and --active exclude each other" in capsys.readouterr().err
