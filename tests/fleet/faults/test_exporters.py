"""Faults of exporters: what pages show, and how they come."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest

from fakedev.fleet.fleet import Fleet
from tests.support.application import SMALL, MemoryApplication, application
from tests.support.fleet.faulty_fleets import busy, cleared, inject, shown
from tests.support.fleet.fleets import advance

BUSY = SMALL.replace("workloads: {", 'workloads: {base: [{name: w, devices: all, profile: "60:10:0", pod: p}], ')


def seen(fleet: Fleet, name: str, device: int = 0) -> float | None:
    """What exporters show of a device; None when it is absent."""
    level = fleet.shown.levels["device"]
    return float(level.arrays[name][device]) if level.has(name, device) else None


class TestSeries:
    @pytest.mark.parametrize(("kind", "value"), [("absent", None), ("nan", math.nan), ("sentinel", -1.0)])
    def test_values(self, kind: str, value: float | None) -> None:
        fleet = busy(5)
        fields = {"value": -1} if kind == "sentinel" else {}
        fault = inject(fleet, kind=kind, devices="dgx-0/0", metric="power", **fields)
        advance(fleet, 2)
        assert seen(fleet, "power_watts") == pytest.approx(value, nan_ok=True)
        for name, device in (("power_watts", 1), ("temperature_celsius", 0)):
            assert seen(fleet, name, device) == shown(fleet, name, device)
        assert shown(fleet, "power_watts") > 100
        cleared(fleet, fault)
        assert fleet.shown is fleet.state

    def test_all_metrics(self) -> None:
        fleet = busy(5)
        inject(fleet, kind="absent", devices="dgx-0/0")
        advance(fleet, 1)
        level = fleet.shown.levels["device"]
        assert [name for name in level.arrays if level.has(name, 0)] == ["created_seconds"]
        assert level.has("power_watts", 1)

    def test_frozen(self) -> None:
        fleet = busy(5)
        power, energy = shown(fleet, "power_watts"), shown(fleet, "energy_joules")
        fault = inject(fleet, kind="frozen", devices="dgx-0/0")
        advance(fleet, 10)
        assert (seen(fleet, "power_watts"), seen(fleet, "energy_joules")) == (power, energy)
        assert shown(fleet, "energy_joules") > energy
        cleared(fleet, fault)
        assert seen(fleet, "energy_joules") == shown(fleet, "energy_joules")

    def test_frozen_now_and_then(self) -> None:
        fleet = busy(5)
        inject(fleet, kind="frozen", devices="*/0", every="3s", probability=0.5)
        last = fleet.energy_joules.copy()
        frozen: dict[int, float] = {}
        for _ in range(40):
            fleet.advance()
            (fault,) = fleet.faults.by_id.values()
            on = set(fault.concerned.tolist())
            frozen = {device: frozen.get(device, last[device]) for device in on}
            for device in (0, 4):
                assert seen(fleet, "energy_joules", device) == frozen.get(device, fleet.energy_joules[device])
            last = fleet.energy_joules.copy()

    def test_counters_begin_again(self) -> None:
        """They restart at 0, and continue; those of a board that is reset later are not negative."""
        fleet = busy(50)
        before = shown(fleet, "energy_joules")
        inject(fleet, kind="counter-reset", devices="dgx-0/0")
        advance(fleet, 1)
        assert seen(fleet, "energy_joules") == pytest.approx(shown(fleet, "energy_joules") - before)
        assert seen(fleet, "created_seconds") == 50
        advance(fleet, 5)
        assert seen(fleet, "energy_joules") == pytest.approx(shown(fleet, "energy_joules") - before)
        assert not fleet.faults.by_id
        inject(fleet, kind="reset", devices="dgx-0/0")
        advance(fleet, 1)
        assert seen(fleet, "energy_joules") == shown(fleet, "energy_joules")

    @pytest.mark.slow
    def test_some_ticks(self) -> None:
        fleet = busy(5)
        inject(fleet, kind="nan", devices="dgx-0/0", metric="power", probability=0.2)
        gone = 0
        for _ in range(200):
            fleet.advance()
            gone += math.isnan(seen(fleet, "power_watts") or 0.0)
        assert 20 < gone < 60


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    with application(BUSY.replace("[workloads, clock]", "[workloads, faults, clock]")) as running:
        running.tick()
        yield running


def inject_by_api(app: MemoryApplication, **fields: object) -> str:
    """Inject a fault by the API, and wait a tick; its path."""
    made = app.ask("POST", "/api/v1/faults", fields)
    assert made.status == 201, made.body
    app.tick()
    return made.headers["location"]


class TestPages:
    @pytest.mark.parametrize(
        ("fields", "status", "kept", "content_type"),
        [
            ({"kind": "error-page", "status": 502}, 502, 0.0, "text/plain; charset=utf-8"),
            ({"kind": "wrong-type"}, 200, 1.0, "text/html; charset=utf-8"),
            ({"kind": "cut-page", "share": 0.3}, 200, 0.3, "text/plain; charset=utf-8"),
        ],
    )
    def test_how_it_comes(
        self, app: MemoryApplication, fields: dict[str, object], status: int, kept: float, content_type: str
    ) -> None:
        """Until it is cleared; the other node's page and the fleet's are well."""
        whole = app.get("/nodes/a/metrics")
        path = inject_by_api(app, **fields, node="a")
        page = app.get("/nodes/a/metrics")
        assert (page.status, page.headers["content-type"]) == (status, content_type)
        if status == 200:
            assert len(page.body) == pytest.approx(kept * len(whole.body), rel=0.05)
        for other in ("/nodes/b/metrics", "/metrics"):
            well = app.get(other)
            assert (well.status, well.headers["content-type"]) == (200, "text/plain; charset=utf-8")
            assert well.body.endswith(b"\n")
        app.ask("DELETE", path)
        app.tick()
        assert app.get("/nodes/a/metrics").status == 200

    def test_the_fleets_page_fails_with_all_its_nodes(self, app: MemoryApplication) -> None:
        inject_by_api(app, kind="error-page", devices="all")
        assert app.get("/metrics").status == 500

    def test_late(self, app: MemoryApplication) -> None:
        inject_by_api(app, kind="slow-page", node="a", seconds=2.5)
        peer = app.http()
        request = b"GET /nodes/a/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert not peer.send(request)
        app.tick(2)
        assert not peer.send()
        app.tick(1)
        peer.read()
        assert b"X-Fakedev-Tick: 4" in peer.send()
        assert app.get("/nodes/b/metrics").status == 200

    def test_a_node_that_is_down(self, app: MemoryApplication) -> None:
        inject_by_api(app, kind="xid", code=63, devices="a/0")
        path = inject_by_api(app, kind="node-down", node="a", **{"leave-sd": 1})
        peer = app.http()
        assert not peer.send(b"GET /nodes/a/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert peer.closed
        assert b'Hostname="a"' not in app.get("/metrics").body
        assert [target["labels"]["node"] for target in app.json("/sd")] == ["b"]
        assert app.json("/api/v1/workloads")["total"] == 0
        app.ask("DELETE", path)
        app.tick()
        assert b'Hostname="a"' in app.get("/nodes/a/metrics").body
        assert len(app.json("/sd")) == 2

    @pytest.mark.parametrize("fields", [{"kind": "lost"}, {"kind": "xid", "code": 79}])
    def test_a_board_off_the_bus(self, app: MemoryApplication, fields: dict[str, object]) -> None:
        """Of all its series the last error is left, as long as it is away: an alert on that fires."""

        def rows() -> list[str]:
            lines = app.get("/nodes/a/metrics").body.decode().splitlines()
            return [line for line in lines if 'gpu="0"' in line]

        whole = len(rows())
        path = inject_by_api(app, **fields, devices="a/0")
        (left,) = rows()
        assert left.startswith("DCGM_FI_DEV_XID_ERRORS{")
        assert left.endswith(" 79")
        assert [each["text"] for each in app.json("/api/v1/journal?kind=xid,lost")["journal"]] == ["XID 79", "is lost"]
        app.ask("DELETE", path)
        app.tick()
        assert len(rows()) == whole
        assert not [line for line in rows() if "XID" in line and line.endswith(" 79")]

    def test_values_on_a_page(self, app: MemoryApplication) -> None:
        for gpu, fields in enumerate(({"kind": "nan"}, {"kind": "sentinel", "value": 2**63})):
            inject_by_api(app, **fields, devices=f"a/{gpu}", metric="DCGM_FI_DEV_FB_USED")
        page = app.get("/nodes/a/metrics").body.decode().splitlines()
        values = [line.split()[-1] for line in page if line.startswith("DCGM_FI_DEV_FB_USED{")]
        assert values == ["NaN", str(2**63)]


class TestPorts:
    def test_the_api(self, app: MemoryApplication) -> None:
        """Inject, list, look, clear; of a long list of devices the first are shown, and how many more there are."""
        path = inject_by_api(app, kind="inlet", devices=["a/0", "a/card0"] * 60, celsius=7, duration="1m")
        (fault,) = app.json("/api/v1/faults")["faults"]
        assert app.json(path) == fault
        assert {key: fault[key] for key in ("kind", "state", "celsius", "active-devices", "remaining-seconds")} == {
            "kind": "inlet", "state": "active", "celsius": 7.0, "active-devices": 1, "remaining-seconds": 59,
        }  # fmt: skip
        assert (len(fault["devices"]), fault["more-devices"], fault["device-count"]) == (100, 20, 1)
        refused = app.ask("POST", "/api/v1/faults", {"kind": "xid", "devices": "all"})
        assert (refused.status, json.loads(refused.body)["error"]["where"]) == (400, "code")
        assert [app.ask(verb, "/api/v1/faults/f999").status for verb in ("DELETE", "GET")] == [404, 404]
        assert json.loads(app.ask("DELETE", "/api/v1/faults").body) == {"cleared": [fault["id"]]}
        app.tick()
        assert app.json("/api/v1/faults")["total"] == 0

    @pytest.mark.parametrize(
        ("line", "answer"),
        [
            ("fault hang", "error bad-argument devices: say which devices"),
            ("fault hang devices=c/0", "error unknown-name no node 'c'"),
            ("fault hang devices=a/0 share=1", "error bad-argument share: is nothing that the fault hang takes"),
            ("fault nan devices=a/0 metric=powre", "error unknown-name no metric 'powre'; did you mean power?"),
            ("clear f7", "error unknown-name no fault 'f7'; there are f2"),
            ("explain all", "error bad-argument device: 'all' names 4 devices: give one"),
            ("explain a/0 colour", "error unknown-name no metric 'colour'"),
            ("journal 0", "error bad-argument count: must be 1 to 1000"),
        ],
    )
    def test_what_is_refused(self, app: MemoryApplication, line: str, answer: str) -> None:
        """With the reason; nothing has happened."""
        peer = app.connect()
        assert peer.say("clear all", "fault hang devices=a/0") == ["ok cleared 0", "ok f2"]
        assert peer.say(line)[0].startswith(answer)
        assert app.json("/api/v1/faults")["total"] == 1

    def test_words(self, app: MemoryApplication) -> None:
        peer = app.connect()
        assert peer.say("fault power-cap devices=a/0 watts=300") == ["ok f2"]
        app.tick(20)
        (head, line) = peer.say("explain a/0 frequency")
        assert head == "ok 1 lines"
        assert "held by the power limit of 300 W since tick" in line
        assert line.endswith("cause fault f2 (power-cap)")
        assert peer.say("faults")[1].startswith("f2 power-cap state=active device-count=1 active-devices=1 devices=a/0")
        assert peer.say("clear f2") == ["ok cleared 1"]
        app.tick(1)
        assert peer.say("faults") == ["ok 0 lines"]
        journal = peer.say("journal 4")
        assert journal[0] == "ok 4 lines"
        assert [line.split()[2] for line in journal[1:]] == ["began", "throttled_power", "clear", "over"]
        told = app.json("/api/v1/journal?limit=2")
        assert [each["kind"] for each in told["journal"]] == ["over", "clear"]

    def test_the_journal_says_why(self, app: MemoryApplication) -> None:
        path = inject_by_api(app, kind="lost", devices=["a/0"])
        told = app.json("/api/v1/journal")["journal"]
        causes = {each["kind"]: each["cause"] for each in told if each["kind"] in ("ended", "lost", "began")}
        assert causes == dict.fromkeys(("ended", "lost", "began"), path.rpartition("/")[2])

    def test_json(self, app: MemoryApplication) -> None:
        peer = app.connect()
        assert peer.ask(op="fault", id=1, kind="nan", devices=["b/1"], metric="power") == {
            "id": 1, "ok": True, "fault": "f2",
        }  # fmt: skip
        app.tick()
        told = peer.ask(op="explain", device="b/1", metric="power")
        (explained,) = told["explanations"]
        assert (told["device"], explained["metric"], explained["faults"]) == ("b/1", "power_watts", ["f2"])
        assert peer.ask(op="clear", fault="all") == {"ok": True, "cleared": ["f2"]}

    def test_what_a_port_may_do(self) -> None:
        with application(SMALL) as app:
            peer = app.connect()
            for line in ("fault hang devices=a/0", "clear all"):
                assert peer.say(line)[0].endswith("its allow: does not name faults")
            assert peer.say("faults") == ["ok 0 lines"]
