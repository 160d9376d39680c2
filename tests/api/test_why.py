"""Why anything is as it is: what a word names, the series of a query, and who shows how old values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.application import SMALL, MemoryApplication, application

BASE = '{name: base, devices: a/0, profile: "60:0:0", pod: train}, {name: hot, devices: b/0, profile: "90:0:0"}'
WEB = """web:
  - 127.0.0.1:9400
  - {listen: "127.0.0.1:9401", hold: 30s}
  - {listen: "127.0.0.1:9402", identity: nvidia-gpu-exporter, serve: exporter}"""
CONFIG = (
    SMALL.replace('web: ["127.0.0.1:9400"]', WEB)
    .replace("workloads: {", f"workloads: {{base: [{BASE}], ")
    + "queues: {names: [sleep], listen-clients: [], listen-backends: []}\n"
)


@pytest.fixture(scope="module")
def app() -> Iterator[MemoryApplication]:
    """Two nodes of two boards: work on one, a hot one, a late page, series that are missing, and what is over."""
    with application(CONFIG) as running:
        limited = {"name": "limited", "devices": ["b/1"], "profile": "90:0:0", "limits": {"power": 100}, "pod": "past"}
        shared = {"name": "shared", "devices": ["a/0"], "profile": "10:0:0", "pod": "guest"}
        for body in (limited, shared):
            assert running.ask("POST", "/api/v1/workloads", body).status == 201
        for fault in (
            {"kind": "overheat", "devices": ["b/0"]},
            {"kind": "slow-page", "node": "b"},
            {"kind": "absent", "devices": ["a/1"], "metric": "power"},
            {"kind": "lost", "devices": ["b/1"], "start": "10s", "duration": "5s"},
        ):
            assert running.ask("POST", "/api/v1/faults", fault).status == 201
        running.tick(100)
        yield running


def why(app: MemoryApplication, word: str, metric: str = "") -> dict[str, Any]:
    """What is said of a word."""
    found: dict[str, Any] = app.json(f"/api/v1/why?of={quote(word)}&metric={metric}")
    return found


LACK = "what changes it: fault absent metric=DCGM_FI_DEV_GPU_TEMP; fault lost; fault node-down"
REST = "only the series of DCGM_FI_DEV_GPU_TEMP are judged, and not what "
BOTH = 'no series matches all of these at once; without Hostname="b" 1 do; without pod="train" 2 do'
UUID = "the UUID of a/1"


@pytest.mark.parametrize(
    ("word", "metric", "kind", "line"),
    [
        ("b/0", "temperature", "device", "b/0 is slowed by its hardware; faults: f4 overheat"),
        ("b/0", "temperature", "device", "it overheats, whatever the board draws"),
        (UUID, "power", "device", "pages do not show it: fault f6 (absent)"),
        ("1", "", "device", "2 devices have this name: a/1 (well), b/1 (well)"),
        ("nvidia0", "", "device", "b/0 is slowed by its hardware"),
        ("b/0/link/0", "", "link", "one of 18 links that are up"),
        ("b/0", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "device", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL is a family of"),
        ("base", "", "workload", "base state=running"),
        ("limited", "", "workload", "1 Limit power reached, terminated: power "),
        ("limited", "", "workload", "is over the limit of 100 on b/1"),
        ("train", "", "pod", "the series of a/0 have pod=train"),
        ("guest", "", "pod", "the series of a/0 have the labels of train: it used the device first"),
        ("past", "", "pod", "none of its workloads runs: no series has its labels"),
        ("f7", "", "fault", "f7 lost on b/1: from 10 s to 16 s, over in tick 16"),
        ("f4", "", "fault", "b/0: the hardware slowdown began"),
        ("b", "", "node", "fault f5 slow-page on its page: the page is late"),
        ("b", "", "node", "127.0.0.1:9401/metrics shows dcgm@4.8.2, tick 90, held for 30 s, 10 s old"),
        ("/nodes/b/metrics", "", "page", "fault f5 slow-page affects it: b"),
        ("/metrics", "", "page", "fault f6 absent affects it: a/1\n127.0.0.1:9400/metrics shows"),  # not b's page
        ("http://127.0.0.1:9401/metrics", "", "page", "a/1\n127.0.0.1:9401/metrics shows dcgm@4.8.2, tick 90, held"),
        ("sleep", "", "queue", "nothing waits, and no worker waits for its jobs"),
        ("DCGM_FI_DEV_GPU_TEMP", "", "query", "4 series: from"),
        ('DCGM_FI_DEV_GPU_TEMP{gpu="7"}', "", "query", "gpu=\"7\" matches nothing: gpu is '0', '1'"),
        ('DCGM_FI_DEV_GPU_TEMP{card="0"}', "", "query", 'card="0" matches nothing: no series has the label card'),
        ('DCGM_FI_DEV_GPU_TEMP{gpu=~"(0*)*1"}', "", "query", 'gpu=~"(0*)*1" is not checked: too many repetitions'),
        ('DCGM_FI_DEV_GPU_TEMP{gpu=~"0|1.*"}', "", "query", "4 series: from"),
        ('DCGM_FI_DEV_GPU_TEMP{gpu=~"[({],0|.*" , } > 20', "", "query", "4 series: from"),
        ('{__name__="DCGM_FI_DEV_GPU_TEMP"} > 20', "", "query", "4 series: from"),
        ("rate(DCGM_FI_DEV_GPU_TEMP[5m]) # }", "", "query", "4 series: from"),
        ('DCGM_FI_DEV_GPU_TEMP{job="x"}', "", "query", 'job="x" is not checked: no page has job'),
        ("DCGM_FI_DEV_GPU_TEMP > 200", "", "query", "> 200 is true of none"),
        ("85 < DCGM_FI_DEV_GPU_TEMP", "", "query", "> 85 is true of 1 of them now"),
        ("(200 <= bool DCGM_FI_DEV_GPU_TEMP)", "", "query", ">= 200 is true of none"),
        ("20 < DCGM_FI_DEV_GPU_TEMP < 85", "", "query", REST),
        ("absent(DCGM_FI_DEV_GPU_TEMP)", "", "query", f"{LACK}\n"),
        ("count by (gpu) (DCGM_FI_DEV_GPU_TEMP) < 2", "", "query", f"{LACK}\n"),
        ("2 > count(DCGM_FI_DEV_GPU_TEMP)", "", "query", f"{LACK}\n"),
        ("count(DCGM_FI_DEV_GPU_TEMP) > 2", "", "query", "fault sentinel metric=DCGM_FI_DEV_GPU_TEMP"),
        ('DCGM_FI_DEV_GPU_TEMP{Hostname="a",pod="guest"}', "", "query", 'pod="guest" matches nothing'),
        ('DCGM_FI_DEV_GPU_TEMP{Hostname="b",pod="train"}', "", "query", BOTH),
        ('DCGM_FI_DEV_GPU_TEMP{job="x"} > 85', "", "query", '> 85 is true of 1 of them now, if job="x" is right;'),
        ("- alert: Hot expr: DCGM_FI_DEV_GPU_TEMP > 20 for: 5m", "", "query", "> 20 is true of 4 of them now"),
        ('- alert: A\n  expr: "DCGM_FI_DEV_GPU_TEMP > 85"\n  for: 5m', "", "query", "> 85 is true of 1 of them now"),
        ("- alert: A\\n  expr: 'DCGM_FI_DEV_GPU_TEMP > 85'\\n  for: 5m", "", "query", "> 85 is true of 1 of them now"),
        ("- alert: A expr: 'DCGM_FI_DEV_GPU_TEMP > 85' for: 5m", "", "query", "> 85 is true of 1 of them now"),
        ("{alert: A, expr: DCGM_FI_DEV_GPU_TEMP > 85, for: 5m}", "", "query", "> 85 is true of 1 of them now"),
        ('{alert: A, expr: "DCGM_FI_DEV_GPU_TEMP{gpu=\\"7\\"}"}', "", "query", 'gpu="7" matches nothing'),
        ('{"alert": "A", "expr": "DCGM_FI_DEV_GPU_TEMP > 85"}', "", "query", "> 85 is true of 1 of them now"),
        ("- expr: |\n    DCGM_FI_DEV_GPU_TEMP\n      > 85\n", "", "query", "> 85 is true of 1 of them now"),
        ("groups: [{rules: [{record: r, expr: up}, {alert: A, expr: up > 1}]}]", "", "query", "the first of 2 rules"),
        ('  - alert: A\n    expr: "up"\n  - alert: B\n    expr: up > 2', "", "query", "up is on no page"),
        ("- alert: A expr: up > 1 - alert: B expr: up > 2", "", "query", "first of 2 rules"),
        ("expr: up > 1\n" + "for: 5m\n" * 150, "", "query", "up is on no page"),  # more mistakes than are looked for
        ("DCGM_FI_DEV_GPU_TEMP > 100", "", "query", "what changes it: fault overheat celsius=103"),
        ("DCGM_FI_DEV_GPU_TEMP < 5", "", "query", "sentinel metric=DCGM_FI_DEV_GPU_TEMP value=4"),
        ("DCGM_FI_DEV_GPU_TEMP > 1e400", "", "query", "> inf is true of none"),
        ("avg(DCGM_FI_DEV_GPU_TEMP) > 20", "", "query", REST),
        ("DCGM_FI_DEV_GPU_TEMP * 2 > 20", "", "query", REST),
        ("DCGM_FI_DEV_GPU_TEMP", "", "query", "fault f4 overheat on b/0; fault f5 slow-page on"),
        ("xpum_power_watts", "", "query", "shipped identities with it: xpumanager@1.3"),
        ("DCGM_FI_DEV_GPU_TMP", "", "query", "did you mean DCGM_FI_DEV_GPU_TEMP?"),
        ("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "", "query", "add the row 'DCGM_FI_PROF_PIPE_FP16_ACTIVE, gauge, HELP'"),
        ("DCGM_FI_DEV_XID_ERRORS", "", "query", "it is shown only at times: while xid is not 0"),
        ("DCGM_FI_PROF_PIPE_FP16_ACTIV", "", "query", "did you mean DCGM_FI_PROF_PIPE_FP16_ACTIVE?"),
        ("DCGM_FI_DEV_AUTOBOOST", "", "query", "fakedev does not simulate what this field shows"),
        ("b/0", "DCGM_FI_DEV_FAN_SPEED", "device", "add the row 'DCGM_FI_DEV_FAN_SPEED, gauge, HELP'"),
        ("fakedev_tick", "", "query", "is on /-/metrics: The number of the tick that is shown.\n1 series: 100"),
        ("fakedev_tikc", "", "query", "did you mean fakedev_tick?"),
        ('hpa_queue_waiting{name="nope"}', "", "query", "name=\"nope\" matches nothing: name is 'sleep'"),
        ("hpa_queue_waiting > 5", "", "query", "0 of name=sleep is 5 away\nsleep is open: 0 waiting"),
        ("fakedev_workload_load_ratio", "", "query", "is on /workloads/metrics: "),
        ("up == 0", "", "query", "may change it: fault f5 slow-page on b\nwhat changes it: fault node-down"),
        ("node:temp:max", "", "query", "a name with a colon is of a recording rule"),
        ('DCGM_FI_DEV_GPU_TEMP{exported_pod="train"} > 20', "", "query", "> 20 is true of 1 of them now"),
        ('DCGM_FI_DEV_GPU_TEMP{exported_pod="x"}', "", "query", "pod=\"x\" matches nothing: pod is 'train', empty"),
        ("nvidia_smi_temperature_gpu", "", "query", "is a family of nvidia-gpu-exporter@1:"),
        ("a/0", "nvidia_smi_temperature_gpu", "device", "temperature_celsius "),
        ("DCGM_FI_DEV_GPU_UTIL > 101", "", "query", "work changes it, too: fakedev run NAME devices=b/0"),
    ],
)
def test_a_word(app: MemoryApplication, word: str, metric: str, kind: str, line: str) -> None:
    """What it is, and one of the lines about it."""
    if word == UUID:
        word = app.json("/api/v1/devices/a/1")["facts"]["uuid"]
    found = why(app, word, metric)
    assert found["kind"] == kind
    assert line in "\n".join([*found["lines"], ""])


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("a/0&metric=nothing", "no metric 'nothing'"),
        ("trian", "nothing is named 'trian'; did you mean train?"),
        ("b/9", "no device '9': b has 2: 0 to 1"),
        ("b/0/9", "no part '9': b/0 is not divided"),
        ("", "of must have 1 to 2000 characters"),
        ("1 > 2", "'1 > 2' names no metric"),
        ('DCGM_FI_DEV_GPU_TEMP{gpu="3"', "nothing closes the { at character 21"),
        ('DCGM_FI_DEV_GPU_TEMP{gpu="3}', "nothing closes the { at character 21"),
        ("DCGM_FI_DEV_GPU_TEMP{gpu=3}", 'gpu=3 after character 21 is no matcher: write it as gpu=\\"3\\"'),
        ('DCGM_FI_DEV_GPU_TEMP{card="1", gpu=3}', "gpu=3 after character 30 is no matcher"),
        ('DCGM_FI_DEV_GPU_TEMP{a="1" b="2"}', "is no matcher"),
        ("(DCGM_FI_DEV_GPU_TEMP > )", "nothing follows its last >"),
        ("max(DCGM_FI_DEV_GPU_TEMP]", "nothing opens the ] at character 25"),
        ("DCGM_FI_DEV_GPU_TEMP) > 1", "nothing opens the ) at character 21"),
        ("x/", "nothing is named 'x/'"),  # no pod has no name
        ("/nope", "no page of metrics is at /nope"),
        ("http://127.0.0.1:9999/metrics", "no page of metrics is at http://127.0.0.1:9999/metrics"),
    ],
)
def test_what_is_not_there(app: MemoryApplication, word: str, text: str) -> None:
    """The error says what is wrong, and what may have been meant."""
    answer = app.get("/api/v1/why?of=" + quote(word, "/&="))
    assert answer.status in (400, 404)
    assert text in answer.body.decode()


def test_what_is_over(app: MemoryApplication) -> None:
    """Ended workloads and past faults stay listed, also by their id, and sorted."""
    ended = app.json("/api/v1/ended-workloads")["ended-workloads"]
    assert [(each["name"], each["code"], each["pod"]) for each in ended] == [("limited", 1, "past")]
    assert app.json("/api/v1/ended-workloads/limited") == ended[0]
    assert ended[0]["detail"].endswith("is over the limit of 100 on b/1") and ended[0]["ended-at"].endswith("Z")
    (past,) = app.json("/api/v1/past-faults?sort=-ended-tick")["past-faults"]
    assert (past["id"], past["kind"], past["affected"], past["ended-tick"]) == ("f7", "lost", "b/1", 16)
    assert app.json("/api/v1/past-faults/f7") == past
    assert app.json("/api/v1/past-faults?search=nothing")["total"] == 0


def test_faults_of_devices(app: MemoryApplication) -> None:
    """Only those that may affect some devices."""
    assert [each["kind"] for each in app.json("/api/v1/faults?devices=a/1,b/1")["faults"]] == ["slow-page", "absent"]


def test_the_journal_since(app: MemoryApplication) -> None:
    """A simulated time before now, or a wall time; each entry has its own. And all kinds but some."""
    entries = app.json("/api/v1/journal")["journal"]
    assert entries[-1]["at"] == "2027-01-15T08:00:00Z"
    late = app.json("/api/v1/journal?since=86s")["journal"]
    assert {each["tick"] for each in late} == {entry["tick"] for entry in entries if entry["tick"] >= 14} != set()
    assert app.json("/api/v1/journal?since=2027-01-15T08:00:14Z")["journal"] == late
    without = [each["kind"] for each in app.json("/api/v1/journal?kind=-lost,-throttled_hardware")["journal"]]
    assert without == [entry["kind"] for entry in entries if entry["kind"] not in ("lost", "throttled_hardware")]
    kinds = app.json("/api/v1/journal?kind=lost,fault,-fault")["journal"]
    assert {kind["kind"] for kind in kinds} == {"lost"} != {entry["kind"] for entry in entries}
    assert "is no duration" in app.get("/api/v1/journal?since=yesterday").body.decode()


def test_exporters(app: MemoryApplication) -> None:
    """Each address with its identity, how long it holds its values, and how old they are."""
    rows = app.json("/api/v1/exporters")["exporters"]
    assert [(row["address"], row["hold-seconds"], row["age-seconds"]) for row in rows] == [
        ("127.0.0.1:9400", 0.0, 0.0), ("127.0.0.1:9401", 30.0, 10.0), ("127.0.0.1:9402", 0.0, 0.0),
    ]  # fmt: skip
    assert [row["identity"] for row in rows] == ["dcgm@4.8.2", "dcgm@4.8.2", "nvidia-gpu-exporter@1"]


def test_a_fault_that_waits() -> None:
    """It is named, with its time, before it begins: of a device, its node, its page, a metric, and itself."""
    with application(SMALL) as app:
        app.tick(3)
        app.ask("POST", "/api/v1/faults", {"kind": "fan", "devices": ["a/0"], "start": "40s"})
        soon = "it begins in 40 s of simulated time, at 43 s"
        for word in ("a/0", "a", "/nodes/a/metrics", "f2"):
            assert soon in "\n".join(why(app, word)["lines"])
        app.tick(10)
        soon = "it begins in 30 s of simulated time, at 43 s"
        assert f"waiting, and may change it: fault f2 fan ({soon})" in why(app, "DCGM_FI_DEV_GPU_TEMP")["lines"]
        assert "f2" not in "\n".join([*why(app, "a/1")["lines"], *why(app, "/nodes/b/metrics")["lines"]])
        app.ask("POST", "/api/v1/faults", {"kind": "slow-page", "node": "b"})
        assert "fault f3 slow-page waits: it begins with the next tick" in why(app, "b")["lines"]


def test_a_page_of_one_pool() -> None:
    """Only faults of its devices are named, and those that have no series."""
    pools = "pools: [{name: q, nodes: [c], device: h100, devices-per-node: 2}, "
    pages = 'web: ["127.0.0.1:9400", {listen: "127.0.0.1:9401", pool: q}]'
    with application(SMALL.replace("pools: [", pools).replace('web: ["127.0.0.1:9400"]', pages)) as app:
        app.ask("POST", "/api/v1/faults", {"kind": "absent", "devices": ["a/1"]})
        app.ask("POST", "/api/v1/faults", {"kind": "absent", "devices": ["b/1", "c/1"]})
        app.ask("POST", "/api/v1/faults", {"kind": "lost", "devices": ["c/0"]})
        app.tick(2)
        lines = why(app, "http://127.0.0.1:9401/metrics")["lines"]
        assert lines[:2] == ["fault f3 absent affects it: c/1", "lost devices have no series: c/0"]
        lines = why(app, "http://127.0.0.1:9400/metrics")["lines"]
        assert lines[:2] == ["fault f2 absent affects it: a/1", "fault f3 absent affects it: c/1, b/1"]


def test_a_late_page_and_faults_of_a_cluster() -> None:
    """A metric names the pages that show old values, and no fault that only a cluster sees."""
    with application(CONFIG) as late:
        late.ask("POST", "/api/v1/faults", {"kind": "absent", "devices": ["a/1"]})
        late.ask("POST", "/api/v1/faults", {"kind": "plugin-down", "node": "a"})
        late.tick(100)
        lines = why(late, "DCGM_FI_DEV_GPU_TEMP")["lines"]
        assert "a page is late: 127.0.0.1:9401/metrics shows dcgm@4.8.2, tick 90, held" in "\n".join(lines)
        assert "plugin-down" not in "\n".join(lines)
        assert "active now, and may change it: fault f2 absent on a/1" in lines
        assert not any("f2" in line for line in why(late, "DCGM_FI_DEV_GPU_TMP")["lines"])  # no page has it
        assert "fault f3 plugin-down on it, as a cluster sees it: " in "\n".join(why(late, "a")["lines"])


def test_versions_of_a_page() -> None:
    """A version with the page of another one is shown by that name; the versions of the page are listed."""
    with application(SMALL.replace("identity: dcgm", "identity: dcgm@3.3.5")) as app:
        (row,) = app.json("/api/v1/exporters")["exporters"]
        assert row["identity"] == "dcgm@3.2.5"
        assert row["versions"][:: len(row["versions"]) - 1] == ["3.2.5-3.1.7", "3.3.5-3.4.1"]
        assert "shows dcgm@3.2.5 (the page of 3.2.5-3.1.7 to 3.3.5-3.4.1)" in why(app, "/metrics")["lines"][1]


@pytest.mark.parametrize(
    ("shown", "metric", "reason"),
    [
        ("t4 dcgm", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "t4-16gb has no remapped_rows_correctable"),
        ("t4 nvidia-gpu-exporter@1-nvml", "nvidia_smi_mig_info", "no device is divided: mig: of a pool divides them"),
        ("t4 nvidia-gpu-exporter@1-nvml", "nvidia_smi_c2c_mode", "where the device type or the pool gives {c2c_mode}"),
        ("t4 nvidia-gpu-exporter@1-nvml", "nvidia_smi_xid_errors_total", "it has a row for each xid, and there is"),
        ("mi300x amd-device-metrics", "gpu_edge_temperature", "architecture is cdna2 have it, and here it is cdna3"),
    ],
)
def test_a_family_without_series(shown: str, metric: str, reason: str) -> None:
    """The answer says what the devices of the fleet do not have, or what it waits for."""
    device, identity = shown.split()
    with application(SMALL.replace("h100", device).replace("identity: dcgm", f"identity: {identity}")) as app:
        app.tick(2)
        assert reason in why(app, metric)["lines"][1]


def test_labels_that_stay() -> None:
    """A pod that is over has series as long as a fault keeps its labels; its end names it, also by a time limit."""
    with application(SMALL) as app:
        app.ask("POST", "/api/v1/faults", {"kind": "stale-labels", "devices": ["a/0"]})
        body = {"name": "x", "devices": ["a/0"], "profile": "9:0:0", "pod": "gone", "run-time-limit": 3}
        assert app.ask("POST", "/api/v1/workloads", body).status == 201
        app.tick(8)
        assert app.json("/api/v1/ended-workloads/x")["pod"] == "gone"
        assert why(app, "gone")["lines"][0].endswith("runs; fault f2 stale-labels lets labels stay")


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ({"kind": "absent"}, "no series of a/0 is on a page; they would have pod=p; fault f3 absent: series are"),
        ({"kind": "absent", "metric": "power"}, "the series of a/0 have pod=p; fault f3 absent metric=power: series"),
        ({"kind": "nan"}, "the series of a/0 have pod=p; fault f3 nan: series are NaN"),
        ({"kind": "cut-page"}, "the series of a/0 have pod=p; fault f3 cut-page: the page ends in the middle"),
        ({"kind": "fan"}, "the series of a/0 have pod=p"),
    ],
)
def test_a_pod_of_series_that_are_not_right(fault: dict[str, str], line: str) -> None:
    """Its workload has its name, as usual: both are answered, with what hides or falsifies the series."""
    with application(SMALL) as app:
        body = {"name": "p", "devices": ["a/0"], "profile": "9:0:0", "pod": "p"}
        assert app.ask("POST", "/api/v1/workloads", body).status == 201
        assert app.ask("POST", "/api/v1/faults", {**fault, "devices": ["a/0"]}).status == 201
        app.tick(3)
        found = why(app, "p")
        assert found["kind"] == "workload" and "p state=running" in found["lines"][0]
        assert found["lines"][-1].startswith(line)
        if fault["kind"] == "fan":
            assert found["lines"][-1] == line


def test_series_that_are_nan() -> None:
    """They are counted apart; a comparison is with the others, and with none if there are none."""
    with application(SMALL) as app:
        for device, line in (("a/0", "1 series are NaN, besides these:"), ("all", "> 85 is true of none: no NaN is")):
            app.ask("POST", "/api/v1/faults", {"kind": "nan", "devices": [device]})
            app.tick(2)
            lines = why(app, "DCGM_FI_DEV_GPU_TEMP > 85")["lines"]
            assert line in lines and "nan away" not in "\n".join(lines)


def test_a_paused_clock() -> None:
    """It is said beside the rest, of all that changes with the clock; not of queues, which do not."""
    paused = "the clock is paused: its speed is 0, and only an advance moves it"
    with application(CONFIG) as app:
        app.tick(2)
        words = ("/metrics", "a", "a/0", "base", "train", "DCGM_FI_DEV_GPU_TEMP")
        assert not any(paused in why(app, word)["lines"] for word in words)
        assert app.ask("PATCH", "/api/v1/clock", {"speed": 0}).status == 200
        assert all(why(app, word)["lines"][-1] == paused for word in words)
        assert paused not in why(app, "sleep")["lines"]


def test_the_parameters_of_a_fault_that_is_over() -> None:
    """The fault itself names them, and so do the workload and the pod that ended by it."""
    with application(SMALL) as app:
        body = {"name": "x", "devices": ["a/0"], "profile": "9:0:0", "pod": "p"}
        assert app.ask("POST", "/api/v1/workloads", body).status == 201
        fault = {"kind": "xid", "devices": ["a/0"], "code": 94, "duration": "2s"}
        name = json.loads(app.ask("POST", "/api/v1/faults", fault).body)["id"]
        app.tick(6)
        assert why(app, name)["lines"][0].startswith(f"{name} xid code=94 on a/0: from 0 s to")
        for word in ("x", "p"):
            assert f"cause: fault {name} xid code=94, over in tick " in "\n".join(why(app, word)["lines"])


def test_a_locked_clock() -> None:
    with application(SMALL) as app:
        app.ask("POST", "/api/v1/workloads", {"name": "x", "devices": ["a/0"], "profile": "90:0:0"})
        app.ask("POST", "/api/v1/faults", {"kind": "clock-lock", "devices": ["a/0"], "megahertz": 900})
        app.tick(8)
        assert "core_frequency_mhz 900: the clock is locked; " in "\n".join(why(app, "a/0")["lines"])


def test_faults_of_many_nodes() -> None:
    """Of a node's page: those on the node, also where they are on many, and none of a node with a longer name."""
    with application(SMALL.replace("[a, b]", "12, node-name: 'n-{}'")) as app:
        for place in (*range(2, 9), 10):
            app.ask("POST", "/api/v1/faults", {"kind": "error-page", "node": f"n-{place}"})
        app.ask("POST", "/api/v1/faults", {"kind": "slow-page", "devices": ["n-[2-9]/0"]})
        app.tick(2)
        assert why(app, "/nodes/n-1/metrics")["lines"][0] == "no fault affects it"
        assert [line.split()[2] for line in why(app, "/nodes/n-8/metrics")["lines"][:2]] == ["error-page", "slow-page"]


@pytest.mark.slow
def test_the_past_of_a_rule() -> None:
    """Pending, how long still; fired, and until when; pending without firing: by device, with marks of charts."""
    rule = "{alert: Hot, expr: 'DCGM_FI_DEV_GPU_TEMP%s > 70', for: %s}"
    with application(SMALL) as app:
        app.tick(30)
        overheat = app.ask("POST", "/api/v1/faults", {"kind": "overheat", "devices": ["b/0"], "celsius": 90})
        app.tick(40)

        def told(of: str, wait: str = "10s") -> tuple[str, list[list[Any]]]:
            found = why(app, rule % (of, wait))
            marks = [[each[key] for key in ("device", "kind", "text")] for each in found["marks"]]
            return "\n".join(found["lines"]), marks

        lines, marks = told("", "5m")
        held = next(line for line in lines.splitlines() if line.startswith("Hot is pending on b/0: true for "))
        numbers = list(map(int, re.findall(r"(\d+) s", held)))
        assert numbers[1] == numbers[0] + numbers[2] == 300 and 10 < numbers[0] < 40 and not marks
        lines, marks = told("")
        assert "Hot by the values of the charts: fires on b/0 from " in lines and "still does" in lines
        assert marks == [["b/0", "fires", "Hot fires"]]
        assert told('{Hostname="a"}')[1] == []
        app.ask("DELETE", f"/api/v1/faults/{json.loads(overheat.body)['id']}")
        app.tick(200)
        lines, marks = told("")
        assert "s, until " not in lines and " until " in lines and marks[1] == ["b/0", "over", "Hot is over"]
        lines, marks = told("", "5m")
        assert "Hot was pending 1 times and did not fire: true for at most " in lines and not marks
        assert app.get("/api/v1/why?of=" + quote(rule % ("", "999y999y"))).status == 400


@pytest.mark.slow
def test_a_divided_fleet() -> None:
    """A metric that instances lack; the pod on an instance; and the past of a rule on whole devices alone."""
    pools = "pools: [{name: m, nodes: [c], device: a100, devices-per-node: 1, mig: [3g.20gb, 1g.5gb]}, "
    work = "{name: w, devices: c/0/0, profile: '60:0:0', pod: x}, {name: v, devices: b/0, profile: '90:0:0'}"
    base = f"workloads: {{base: [{work}], "
    with application(SMALL.replace("pools: [", pools).replace("workloads: {", base)) as app:
        app.tick(100)
        assert "the series of c/0/0 have pod=x" in why(app, "x")["lines"]
        lines = why(app, 'DCGM_FI_DEV_GPU_UTIL{exported_pod="x"}')["lines"]
        assert lines[1].startswith('pod="x" matches nothing')
        assert lines[2].startswith("divided devices (MIG) have no series of it")
        assert lines[4] == "pod x: the series of c/0/0 have pod=x"
        lines = why(app, 'DCGM_FI_DEV_GPU_UTIL{pod="gone"}')["lines"]
        assert lines[3].endswith("; fakedev run NAME devices=DEVICE profile=90:5:0 pod=gone gives it series")
        assert not any(line.startswith(("what changes it", "work changes it")) for line in lines)
        for metric, number in (("DCGM_FI_DEV_GPU_UTIL", 80), ("DCGM_FI_DEV_GPU_TEMP", 50)):
            found = why(app, f"{{alert: A, expr: {metric} > {number}, for: 10s}}")
            assert [mark["device"] for mark in found["marks"]] == ["b/0"], metric
        lines = why(app, "{alert: A, expr: DCGM_FI_DEV_ENC_UTIL > 80, for: 10s}")["lines"]
        assert "when it fired is not known: the charts have no past of this metric" in lines


def test_many_nodes() -> None:
    """Their pages are read some nodes at a time: each device has its series, and its own past."""
    base = "workloads: {base: [{name: w, devices: n-17/1, profile: '90:0:0'}], "
    text = SMALL.replace("nodes: [a, b]", "nodes: 20, node-name: 'n-{}'").replace("workloads: {", base)
    with application(text) as app:
        app.tick(3)
        found = why(app, "{alert: Busy, expr: DCGM_FI_DEV_GPU_UTIL > 50}")
        assert found["selectors"][0]["series"] == 40
        assert {mark["device"] for mark in found["marks"]} == {"n-17/1"}


def test_active_faults_that_may_change_a_query(app: MemoryApplication) -> None:
    """A lost board changes all that it shows; a fan only the XID of boards that heat has shut down."""
    query = "DCGM_FI_DEV_XID_ERRORS == 79"
    for body in ({"kind": "lost", "devices": "b/1"}, {"kind": "fan", "devices": "b/0"}):
        assert app.ask("POST", "/api/v1/faults", body).status == 201
    app.tick(2)
    lines = why(app, query)["lines"]
    (active,) = [line for line in lines if line.startswith("active now")]
    assert "lost on b/1" in active
    assert "fan" not in active
    assert any(line.startswith("what changes it: fault xid code=79; fault lost;") for line in lines)
