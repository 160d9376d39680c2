"""What dcgm-exporter counts itself: error codes and clock events over windows of time, and what health checks find."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fakedev.config.load import load
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource, HeldStates
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.door import fault_id_of
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.events import ClearFaults, InjectFault, Reload
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fleet_spec import FaultSpec
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.tallies import Peers
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError
from tests.support.fleet.fleets import pool_of

XIDS: Final = "DCGM_EXP_XID_ERRORS_COUNT"
CLOCKS: Final = "DCGM_EXP_CLOCK_EVENTS_COUNT"
HEALTH: Final = "DCGM_EXP_GPU_HEALTH_STATUS"
COUNTERS: Final = f"""
{XIDS}, counter, reported XIDs during last window
{CLOCKS}, counter, reported clock events
{HEALTH}, gauge, DCGM reported health status
DCGM_EXP_XID_ERRORS_TOTAL, counter, reported XIDs
DCGM_EXP_CLOCK_EVENTS_TOTAL, counter, reported clock events
DCGM_FI_DRIVER_VERSION, label, Driver Version
"""
WAVE: Final = "0:0:20,100:0:20"


class Exporter:
    """The exporter of a node of two H100s, the second of which works, and what it shows of single devices.

    :param identity: keys of its identity, beside the counters.
    """

    def __init__(self, folder: Path, profile: str = "100:0:0", **identity: object) -> None:
        self._folder = folder
        self._identity = {"name": "mine", "based-on": "dcgm@4.8.2", "counters": COUNTERS} | {
            name.replace("_", "-"): value for name, value in identity.items()
        }
        configuration = self.configuration(["n-0"], profile)
        self.fleet = Fleet(configuration.fleet)
        self.identity = configuration.identities["p"]
        self._face = LabelCache(self.identity, DeviceSource(self.fleet))
        self._page = Page(self._face, self.fleet.roster.nodes)
        self.held = HeldStates(lambda: self.fleet.shown)

    def configuration(self, nodes: list[str], profile: str = "100:0:0"):  # type: ignore[no-untyped-def]
        path = self._folder / "mine.json"
        path.write_text(json.dumps(self._identity))
        pool = {"name": "p", "nodes": nodes, "device": "h100", "devices-per-node": 2, "identity": str(path)}
        base = [{"name": "work", "devices": "n-0/1", "profile": profile, "repeat": 0}]
        tree = {"fleet": {"pools": [pool]}, "web": [], "workloads": {"listen": [], "base": base}}
        return load(None, Files(environ={}), text=json.dumps(tree))

    def fault(self, kind: str, devices: str = "n-0/1", **values: float) -> str:
        spec = FaultSpec(kind, (devices,), values=values)
        return fault_id_of(self.fleet.apply(InjectFault(spec)).sequence)

    def advance(self, ticks: int) -> Exporter:
        for _ in range(ticks):
            self.fleet.advance()
            self.held.keep()
        return self

    def text(self) -> str:
        return self._page.render(self.fleet.shown).decode()

    def shows(self, family: str, *labels: str, gpu: str = "1", text: str | None = None) -> dict[tuple[str, ...], float]:
        """What a family shows of a device, by the values of some labels; those that are missing are left out."""
        found = {}
        for each in text_string_to_metric_families(self.text() if text is None else text):
            for sample in each.samples:
                # The parser adds an ending to counters that lack it.
                if sample.name in (family, f"{family}_total") and sample.labels["gpu"] == gpu:
                    found[tuple(sample.labels[name] for name in labels if name in sample.labels)] = sample.value
        return found

    def health(self) -> dict[tuple[str, ...], float]:
        return {key: value for key, value in self.shows(HEALTH, "health_watch", "health_error_code").items() if value}


def test_a_code_comes_into_the_window_and_leaves_it(tmp_path: Path) -> None:
    """The count of a code is there while it is within the window; without any there is one row of 0."""
    exporter = Exporter(tmp_path, windows={"xids": "40s"}).advance(5)
    assert exporter.shows(XIDS, "window_size_in_ms", "xid") == {("40000",): 0}
    exporter.fault("xid", code=48)
    exporter.advance(10).fault("xid", code=48)
    exporter.fault("xid", code=13)
    exporter.advance(1)
    assert exporter.shows(XIDS, "window_size_in_ms", "xid") == {("40000", "13"): 1, ("40000", "48"): 2}
    assert exporter.shows(XIDS, "xid", gpu="0") == {(): 0}
    # The first was reported in tick 6.
    assert exporter.advance(29).shows(XIDS, "xid") == {("13",): 1, ("48",): 2}
    assert exporter.advance(1).shows(XIDS, "xid") == {("13",): 1, ("48",): 1}
    assert exporter.advance(10).shows(XIDS, "xid") == {(): 0}
    assert exporter.shows("DCGM_EXP_XID_ERRORS_TOTAL", "xid") == {("13",): 1, ("48",): 2}


@pytest.mark.slow
def test_of_a_board_that_is_lost(tmp_path: Path) -> None:
    """XID 79 takes all its other series away, and is counted once; what a lost board would report is not."""
    exporter = Exporter(tmp_path)
    exporter.fault("xid", code=79)
    exporter.fault("inlet", "n-0/0", celsius=90.0)
    exporter.advance(1).fault("xid", code=43)
    exporter.advance(1)
    assert exporter.shows(XIDS, "xid") == {("79",): 1}
    assert exporter.health() == {("POWER", "DCGM_FR_POWER_UNREADABLE"): 10}
    assert exporter.advance(200).shows(XIDS, "xid", gpu="0") == {("79",): 1}, "shut down by heat"


def test_the_order_of_rows_and_labels(tmp_path: Path) -> None:
    """By device, and for one device by code; labels of the exporter are with those of counters, before the pods'.

    Of several codes in one tick all are counted, though XID_ERRORS shows only the last.
    """
    exporter = Exporter(tmp_path)
    for device, code in (("n-0/1", 48), ("n-0/0", 74), ("n-0/0", 13)):
        exporter.fault("xid", device, code=code)
        exporter.advance(1)
    rows = re.findall(rf'^{XIDS}\{{gpu="(\d)".*xid="(\d+)"', exporter.text(), re.MULTILINE)
    assert rows == [("0", "13"), ("0", "74"), ("1", "48")]
    line = next(line for line in exporter.text().splitlines() if 'xid="48"' in line)
    assert 'Hostname="n-0",DCGM_FI_DRIVER_VERSION="550.163.01",window_size_in_ms="300000",xid="48"} 1' in line
    for code in (48, 94, 48):
        exporter.fault("xid", code=code)
    assert exporter.advance(1).shows(XIDS, "xid") == {("48",): 3, ("94",): 1}


def test_samples_of_the_clock(tmp_path: Path) -> None:
    """One at each multiple of the interval: in how many of the window an event is, and how often it has begun."""
    exporter = Exporter(tmp_path, WAVE, windows={"clock-events": "80s"}, sample_every="10s")
    assert exporter.shows(CLOCKS, "clock_event") == {("gpu_idle",): 1}
    # Idle at 0, 10 and (its tick is that before) 20; then at 50 and 60.
    assert exporter.advance(60).shows(CLOCKS, "clock_event", "window_size_in_ms") == {("gpu_idle", "80000"): 5}
    assert exporter.shows("DCGM_EXP_CLOCK_EVENTS_TOTAL", "clock_event") == {("gpu_idle",): 1}
    # The first two are not of the last 80 seconds any more.
    assert exporter.advance(30).shows(CLOCKS, "clock_event") == {("gpu_idle",): 4}
    brake = exporter.fault("power-brake")
    exporter.advance(20)
    exporter.fleet.apply(ClearFaults((brake,)))
    shown = exporter.shows("DCGM_EXP_CLOCK_EVENTS_TOTAL", "clock_event")
    assert shown == {("gpu_idle",): 2, ("hw_slowdown",): 1, ("hw_power_brake",): 1}


@pytest.mark.parametrize(
    ("kind", "values", "ticks", "found"),
    [
        ("pcie-replays", {"rate": 1.0}, 8, {}),
        ("pcie-replays", {"rate": 1.0}, 9, {("PCIE", "DCGM_FR_PCI_REPLAY_RATE"): 10}),
        ("link-down", {"share": 0.5}, 1, {("NVLINK", "DCGM_FR_NVLINK_DOWN"): 20}),
        ("ecc-double", {}, 1, {("MEM", "DCGM_FR_VOLATILE_DBE_DETECTED"): 20}),
        ("xid", {"code": 64}, 1, {("MEM", "DCGM_FR_ROW_REMAP_FAILURE"): 20}),
        ("xid", {"code": 95}, 1, {("MEM", "DCGM_FR_UNCONTAINED_ERROR"): 20}),
        ("power-cap", {"watts": 300.0}, 2, {("POWER", "DCGM_FR_CLOCK_THROTTLE_POWER"): 10}),
        ("inlet", {"celsius": 50.0}, 120, {("THERMAL", "DCGM_FR_CLOCK_THROTTLE_THERMAL"): 10}),
        ("xid", {"code": 13}, 1, {}),
    ],
)
def test_health(tmp_path: Path, kind: str, values: dict[str, float], ticks: int, found: dict[object, float]) -> None:
    exporter = Exporter(tmp_path, "50:0:0").advance(2)
    assert len(exporter.shows(HEALTH, "health_watch")) == 11
    assert exporter.health() == {}
    exporter.fault(kind, **values)
    exporter.advance(ticks)
    assert exporter.health() == found
    assert len(exporter.shows(HEALTH, "health_watch", "health_error_code")) == 11


def test_health_comes_back(tmp_path: Path) -> None:
    """A minute after the last link error, once the links are up again; an error that was not contained by reset."""
    exporter = Exporter(tmp_path)
    links = exporter.fault("link-down")
    exporter.fault("xid", code=95)
    exporter.advance(1).fleet.apply(ClearFaults((links,)))
    assert exporter.advance(1).health()["NVLINK", "DCGM_FR_NVLINK_ERROR_THRESHOLD"] == 10
    exporter.advance(60)
    assert set(exporter.health()) == {("MEM", "DCGM_FR_UNCONTAINED_ERROR")}
    exporter.fault("reset")
    assert ("MEM", "DCGM_FR_UNCONTAINED_ERROR") not in exporter.advance(1).health()


def test_pairs_of_boards(tmp_path: Path) -> None:
    exporter = Exporter(tmp_path, counters="\nDCGM_EXP_P2P_STATUS, gauge, P.\nDCGM_FI_DEV_GPU_TEMP, gauge, T.\n")
    status = "DCGM_EXP_P2P_STATUS"
    assert exporter.shows(status, "peer_gpu", "link_status") == {("0", "OK"): 0}
    exporter.fault("link-down")
    exporter.advance(1)
    assert exporter.shows(status, "peer_gpu", "link_status") == {("0", "NotSupported"): 5}
    assert exporter.shows(status, "peer_gpu", "link_status", gpu="0") == {("1", "NotSupported"): 5}
    assert set(exporter.fleet.state.levels) > {"peer"}
    assert "xid" not in exporter.fleet.state.levels


def test_pairs_are_bounded() -> None:
    """DCGM knows 32 boards of a node; the others have no pairs."""
    pools = [pool_of("a", nodes=1, devices_per_node=40), pool_of("b", nodes=2, devices_per_node=2)]
    roster = Roster(pools)
    pairs = [list(Peers(roster).of_node(node)) for node in roster.nodes]
    assert [len(pair) for pair in pairs] == [32 * 31, 2, 2]
    assert pairs[2] == [(32 * 31 + 2, 0, 1), (32 * 31 + 3, 1, 0)]


def test_a_state_that_is_held(tmp_path: Path) -> None:
    """A page shows an earlier state than that in which a code came for the first time: it has no row of it yet."""
    exporter = Exporter(tmp_path)
    state = exporter.held.every(30.0)
    exporter.fault("xid", code=48)
    exporter.advance(10)
    page = Page(LabelCache(exporter.identity, DeviceSource(exporter.fleet)), exporter.fleet.roster.nodes)
    early = page.render(state()).decode()
    assert exporter.shows(XIDS, "xid", text=early) == {(): 0}
    later = page.render(exporter.advance(20).held.every(30.0)()).decode()
    assert exporter.shows(XIDS, "xid", text=later) == {("48",): 1}


def test_series_that_are_missing(tmp_path: Path) -> None:
    exporter = Exporter(tmp_path)
    exporter.fault("xid", code=48)
    exporter.fault("xid", "n-0/0", code=13)
    exporter.advance(1).fault("absent")
    assert exporter.advance(1).shows(XIDS, "xid") == {}
    exporter.fault("nan", "n-0/0")
    assert [str(value) for value in exporter.advance(1).shows(XIDS, "xid", gpu="0").values()] == ["nan"]


def test_a_reload(tmp_path: Path) -> None:
    exporter = Exporter(tmp_path)
    exporter.fault("xid", code=48)
    exporter.fault("xid", "n-0/0", code=13)
    exporter.advance(31)
    fleet = exporter.fleet
    fleet.apply(Reload(CompiledFleet(exporter.configuration(["new", "n-0"]).fleet), RecordHead("", 0.0)))
    fleet.advance()
    level = fleet.state.levels["xid"]
    assert level.arrays["xid_events_within_300s"].tolist() == [1, 1]
    assert fleet.xid_events_within_300s.tolist() == [0, 0, 1, 1]
    assert [fleet.tallies.xids_of(device) for device in range(4)] == [[], [], [(1, 13)], [(0, 48)]]
    idle = fleet.state.levels["device"].arrays["clock_gpu_idle_samples_within_300s_every_30s"]
    # No sample of the new devices has been taken yet. The work on the last one ended with its error.
    assert idle.tolist() == [0, 0, 2, 1]


def test_nothing_is_counted_that_no_page_shows() -> None:
    tree = {"fleet": {"pools": [{"name": "p", "nodes": ["n"]}]}, "web": []}
    configuration = load(None, Files(environ={}), text=json.dumps(tree))
    assert configuration.fleet.tallies == ()
    assert "xid" not in Fleet(configuration.fleet).state.levels


def test_windows_are_inherited_and_bounded(tmp_path: Path) -> None:
    """An identity based on one with such counters has its own windows where it says so, and else those."""
    Exporter(tmp_path, windows={"xids": "40s"})
    text = f"name: other\nbased-on: {tmp_path}/mine.json\nwindows: {{clock-events: 1m}}\n"
    (tmp_path / "other.yaml").write_text(text)
    pool = {"name": "p", "nodes": ["n"], "identity": str(tmp_path / "other.yaml")}
    configuration = load(None, Files(environ={}), text=json.dumps({"fleet": {"pools": [pool]}, "web": []}))
    names = {tally.name for tally in configuration.fleet.tallies}
    assert {"xid_events_within_40s", "clock_power_cap_samples_within_60s_every_30s"} < names
    Exporter(tmp_path, windows={"xids": "24h"}, sample_every="1s")  # error codes are no samples
    with pytest.raises(ConfigurationError) as error:
        Exporter(tmp_path, windows={"clock-events": "2h"}, sample_every="1s")
    assert "windows: clock-events has more than 3600 samples: make sample-every longer" in str(error.value)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("within: xid", "within: no window 'xid' in windows; did you mean 'xids'?"),
        ("within: ''", ""),
        ("quantity: power_watts, within: xids", "within: nothing in this row is counted over a window"),
        ("quantity: clock_power_cap_samples", "clock_..._samples are counted over a window: give within:"),
        ("quantity: xid_event, within: xids", "within: nothing in this row is counted over a window"),
    ],
)
def test_a_window_that_cannot_be(tmp_path: Path, more: str, problem: str) -> None:
    quantity = "" if "quantity" in more else "quantity: xid_events, level: xid, "
    row = f"{{name: x, type: gauge, help: X., format: int, rows: [{{{quantity}{more}}}]}}"
    (tmp_path / "mine.yaml").write_text(f"name: mine\nbased-on: dcgm\nalso:\n  - {row}\n")
    pool = {"name": "p", "nodes": ["n"], "identity": str(tmp_path / "mine.yaml")}
    text = json.dumps({"fleet": {"pools": [pool]}, "web": []})
    if not problem:
        assert load(None, Files(environ={}), text=text).fleet.tallies[0].name == "xid_events"
        return
    with pytest.raises(ConfigurationError) as error:
        load(None, Files(environ={}), text=text)
    assert f"x: {problem}" in str(error.value)


@pytest.mark.slow
def test_a_frozen_exporter_counts_nothing(tmp_path: Path) -> None:
    """Codes and samples stay as they were shown, new codes are not shown; then all jump to what is true."""
    exporter, untouched = (
        Exporter(tmp_path, WAVE, windows={"xids": "1h", "clocks": "1h"}) for _ in range(2)
    )
    for each in (exporter, untouched):
        each.fault("xid", code=63)
        each.advance(25)
    before = exporter.text()
    fault = exporter.fault("frozen", "n-0/*")
    for each in (exporter, untouched):
        each.advance(1)
        for code in (63, 92):
            each.fault("xid", code=code)
        each.advance(30)
    assert exporter.text() == before != untouched.text()
    exporter.fleet.apply(ClearFaults((fault,)))
    for each in (exporter, untouched):
        each.advance(1)
    assert exporter.text() == untouched.text()
