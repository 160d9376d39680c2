"""``fakedev faults --show``: everybody who tells of a fault says the same, and somebody tells of each."""

from __future__ import annotations

import re

import pytest

from fakedev.commands.catalogs import faults
from fakedev.commands.fault_showing import told_of
from fakedev.fleet.spec.fault_kinds import KINDS, FaultKind, Scope, fault_from_fields
from fakedev.fleet.spec.fleet_spec import FaultSpec
from fakedev.kubernetes.devices.health import HARMLESS_XIDS, KUBELET_RESTART, NODE_DOWN, PLUGIN_DOWN
from fakedev.kubernetes.faults.fault_signs import NODE_EVENTS, SIGNS, makes_unhealthy

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


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_all_tell_the_same(kind: FaultKind) -> None:
    """Page, driver, kernel, cluster and journal agree about each kind, and it is seen outside of the journal."""
    board = ("xpumanager", "max-1550") if kind.name in _OF_INTEL else ("dcgm", "gb200" if kind.needs_racks else "h100")
    told = told_of(fault(kind), *board)
    page, driver, kernel, events, status, taints, journal = told.values()
    # Labels are stale once the work of a pod has ended, which goes on here.
    assert any([page, driver, kernel, events, status, taints]) or kind.name == "stale-labels"
    if kind.name == "imex-down":
        assert page[0].startswith("these counters show nothing of it") and "rack-identity.yaml" in page[0]
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


@pytest.mark.slow
def test_busbar() -> None:
    """The rack of the trial draws less than real ones, so that its limit is lower, too."""
    told = told_of(fault(KINDS["busbar"]), "dcgm", "gb200")
    assert any("POWER_USAGE" in line for line in told["page (dcgm)"])
    assert any(line.startswith("throttle_reasons") for line in told["NVML and nvidia-smi"])


@pytest.mark.slow
def test_links() -> None:
    """NVML and the kernel name the link that is down."""
    told = told_of(fault_from_fields({"kind": "link-down", "link": 3, "devices": ["trial-0/0"]}), "dcgm", "h100")
    assert [line for line in told["NVML and nvidia-smi"] if line.startswith("link ")] == ["link 3 is down"]
    assert next(line for line in told["kernel's log"] if "NVLink" in line).split("link ")[1].startswith("3(")


@pytest.mark.slow
def test_another_vendor() -> None:
    """Nothing of NVIDIA's driver is told about a board of AMD."""
    told = told_of(fault(KINDS["lost"]), "amd-device-metrics", "mi300x")
    assert "NVML and nvidia-smi" not in told
    assert told["amdsmi and amd-smi"] == ["the board is not listed"]
    assert [line.partition(": ")[2] for line in told["kernel's log"]] == ["device lost from bus!"]
    assert told["taints of devices (DRA)"] == []
    assert told["page (amd-device-metrics)"]
    assert told["Events of the Kubernetes node"] != []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "series", "records", "pattern"),
    [
        ("ecc-single", "gpu_ecc_correct_umc", "memory_corrected", r" 1 correctable .* in total in umc block"),
        ("ecc-double", "gpu_ecc_uncorrect_umc", "memory_uncorrected", r" 1 uncorrectable .* in total in umc block"),
        ("cache-errors", "gpu_ecc_correct_gfx", "cache_corrected", r" 1 correctable .* in total in gfx block"),
        ("link-down", "", "link_errors", r" 1 uncorrectable .* in total in xgmi_wafl block"),
        ("pcie-replays", "pcie_replay_count", "pcie_replays", ""),
        ("power-cap", "gpu_hbm_temperature", "power", ""),
        ("fan", "gpu_hbm_temperature", "temperature", ""),
        ("reset", "", "created", r"GPU reset\(1\) succeeded!"),
        ("hang", "gpu_gfx_activity", "hung", r"qcm fence wait loop timeout expired"),
    ],
)  # fmt: skip
def test_boards_of_amd(kind: str, series: str, records: str, pattern: str) -> None:
    """The page, the library and the kernel of a board of AMD tell of an error in the same tick."""
    page, driver, kernel, *_ = told_of(fault(KINDS[kind]), "amd-device-metrics", "mi300x").values()
    assert any(line.startswith(series) and 'gpu_id="0"' in line for line in page) or not series
    assert any(line.startswith(f"{records} ") for line in driver)
    assert any(re.search(pattern, line) for line in kernel) == bool(pattern)
    assert all(re.match(r"amdgpu [0-9a-f]{4}:[0-9a-f]{2}:00\.0: ", line) for line in kernel)
    # The page has the AFID of fatal records, and a record is where the kernel counts an error.
    afids = {int(number) for line in driver for number in re.findall(r"AFID (\d+)", line)}
    assert {int(line.split()[1].rstrip(",")) for line in page if "afid" in line} == afids & {18, 20, 30}
    assert bool(afids) == any("hardware errors" in line for line in kernel)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "series", "pattern"),
    [
        ("ecc-double", 'hw_errors_total{', r"HBM SS0: Channel0 SOC uncorrectable-errors detected"),
        ("ecc-double", 'hw_state="critical",hw_type="memory"', r"soc-internal uncorrectable-errors"),
        ("hang", 'hw_state="reset_needed",hw_type="gpu"', r"Xe has declared device .* as wedged"),
        ("power-brake", 'hw_state="throttled",hw_type="frequency"', ""),
        ("lost", " is gone", r"error detected state 3"),
    ],
)
def test_boards_of_intel(kind: str, series: str, pattern: str) -> None:
    """The page of xpumd and the kernel of a board of Intel tell of an error."""
    page, driver, kernel, *_ = told_of(fault(KINDS[kind]), "xpumd", "max-1550").values()
    assert any(series in line for line in page), page
    assert any(re.search(pattern, line) for line in kernel) == bool(pattern)
    assert driver == []


@pytest.mark.slow
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
