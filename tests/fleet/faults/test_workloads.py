"""Faults that workloads bring: on their devices, as long as they run."""

from __future__ import annotations

import json

import pytest

from fakedev.config.export import effective_text
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.named_profiles import PROFILES
from tests.support.application import SMALL, application
from tests.support.configurations import loaded, pool, problems
from tests.support.fleet.faulty_fleets import boards_of, cleared, shown
from tests.support.fleet.fleets import advance, ended, make_fleet, reload, start, stop

HANGS = [{"kind": "hang"}, {"kind": "nan", "metric": "power", "start": 5}]
WITH_FAULTS = SMALL.replace("[workloads, clock]", "[workloads, faults]")


def boards() -> Fleet:
    return make_fleet(boards_of("h100"))


class TestInAFleet:
    def test_from_its_start_to_its_end(self) -> None:
        fleet = boards()
        workload = start(fleet, "dgx-0/1", faults=HANGS)
        fleet.advance()
        assert [shown(fleet, "hung", device) for device in (0, 1)] == [0, 1]
        assert list(fleet.faults.by_id) == [f"{workload}-1", f"{workload}-2"]
        advance(fleet, 5)
        assert fleet.shown is not fleet.state
        stop(fleet, workload)
        advance(fleet, 2)
        assert (dict(fleet.faults.by_id), shown(fleet, "hung", 1), fleet.shown) == ({}, 0, fleet.state)
        told = [(each.kind, each.cause) for each in fleet.journal.last(20, ("began", "over"))]
        first, second = f"{workload}-1", f"{workload}-2"
        assert told == [("began", first), ("began", second), ("over", first), ("over", second)]

    def test_other_ends(self) -> None:
        """Stopped before its first tick; over by itself; with a fault that was cleared before, which is no error."""
        fleet = boards()
        stop(fleet, start(fleet, "dgx-0/1", faults="hang"))
        assert [code for _, _, code, _ in ended(fleet)] == [0]
        assert (dict(fleet.faults.by_id), shown(fleet, "hung", 1)) == ({}, 0)
        start(fleet, "dgx-0/1", "50:0:2", faults="hang")
        advance(fleet, 3)
        assert dict(fleet.faults.by_id) == {}
        workload = start(fleet, "dgx-0/1", faults="hang")
        fleet.advance()
        cleared(fleet, f"{workload}-1")
        assert shown(fleet, "hung", 1) == 0
        stop(fleet, workload)
        assert [text for _, _, _, text in ended(fleet, 2)] == ["stopped"]

    def test_what_devices_cannot_have(self) -> None:
        """It is left out; a metric too, where its name ends with a question mark."""
        fleet = make_fleet(boards_of("flex-170"))
        metrics = {"memory?": "50%", "fabric-tx?": "50%", "encoder?": 0.5}
        start(fleet, "all", faults="hang,link-down", metrics=metrics)
        fleet.advance()
        assert [fault.kind.name for fault in fleet.faults.by_id.values()] == ["hang"]
        (workload,) = fleet.workloads.running()
        assert {use.metric for use in workload.spec.uses} <= {"memory_used_bytes", "encoder_active_ratio"}

    @pytest.mark.parametrize(
        ("faults", "text"),
        [
            ("hnag", "fault 1: kind: no kind of fault 'hnag'; did you mean hang?"),
            ("hang,", "fault 2: kind: no kind of fault ''"),
            ("xid", "fault 1: code: missing"),
            ([{"kind": "hang", "devices": ["all"]}], "fault 1: devices: it is on the devices of the workload"),
            ([{"kind": "nan", "metric": "colour"}], "fault 1: metric: no metric 'colour'"),
            (["hang"], 'fault 1: must be an object, as {"kind": "hang"}'),
            ({"kind": "hang"}, "must be kinds of faults, or a list of at most 32 faults"),
            ([{"kind": "hang"}] * 33, "must be kinds of faults, or a list of at most 32 faults"),
        ],
    )
    def test_what_is_refused(self, faults: object, text: str) -> None:
        fleet = boards()
        with pytest.raises(Exception, match="faults: ") as refused:
            start(fleet, "all", faults=faults)
        assert text in str(refused.value)
        assert (dict(fleet.workloads.by_id), dict(fleet.faults.by_id)) == ({}, {})

    def test_after_a_reload(self) -> None:
        """Those of a workload of the configuration are on the devices that its words name now."""
        base = "listen: [], base: [{name: x, devices: '*/0', profile: chaos}]"
        fleet = Fleet(loaded(pool(device="h100", nodes="1").replace("listen: []", base)).fleet)
        advance(fleet, 2)
        assert [len(fault.devices) for fault in fleet.faults.by_id.values()] == [1] * len(PROFILES["chaos"].faults)
        (more,) = loaded(pool(device="h100", nodes="2")).fleet.pools
        reload(fleet, more)
        advance(fleet, 2)
        assert {len(fault.devices) for fault in fleet.faults.by_id.values()} == {2}
        reload(fleet, more, base=())
        advance(fleet, 2)
        assert dict(fleet.faults.by_id) == {}


class TestConfiguration:
    def test_taken(self) -> None:
        text = "listen: [], base: [{name: x, profile: faulty, faults: [{kind: hang, every: 5m, probability: 0.5}]}]"
        configuration = loaded(pool(device="h100").replace("listen: []", text))
        (workload,) = configuration.fleet.base
        assert workload.faults == ({"kind": "hang", "every": 300.0, "probability": 0.5},)
        assert loaded(effective_text(configuration)).fleet.base == (workload,)
        without = "listen: [], base: [{name: x, profile: faulty, faults: []}]"
        (none,) = loaded(pool().replace("listen: []", without)).fleet.base
        assert none.faults == ()

    @pytest.mark.parametrize(
        ("faults", "text"),
        [
            ("[{kind: hnag}]", "workloads.base.0.faults.0.kind: there is no 'hnag'; did you mean hang?"),
            ("[{kind: hang, devices: all}]", "workloads.base.0.faults.0: unknown key 'devices'"),
            ("[{kind: xid}]", "faults: fault 1: code: missing"),
            ("[{kind: nan, metric: colour}]", "faults: fault 1: metric: no metric 'colour'"),
        ],
    )
    def test_problems(self, faults: str, text: str) -> None:
        base = f"listen: [], base: [{{name: x, profile: 50, faults: {faults}}}]"
        (problem,) = problems(pool().replace("listen: []", base))
        assert problem.startswith("f.yaml:3: ")
        assert text in problem


class TestWholeProfiles:
    @pytest.mark.parametrize("name", PROFILES)
    def test_each(self, name: str) -> None:
        fleet = boards()
        start(fleet, "all", name)
        fleet.advance()
        profile = PROFILES[name]
        (workload,) = fleet.workloads.running()
        assert len(workload.spec.uses) == len(profile.metrics)
        assert [fault.spec.kind for fault in fleet.faults.by_id.values()] == [fault["kind"] for fault in profile.faults]

    def test_what_is_said_beside_it(self) -> None:
        fleet = boards()
        start(fleet, "dgx-0/0", "training", metrics={"memory_used_bytes": "10%"})
        start(fleet, "dgx-0/1", "faulty", faults=[])
        fleet.advance()
        used, total = shown(fleet, "memory_used_bytes"), shown(fleet, "memory_total_bytes")
        assert used / total == pytest.approx(0.1, abs=0.02)
        assert dict(fleet.faults.by_id) == {}


class TestPorts:
    def test_a_port_that_allows_them(self) -> None:
        with application(WITH_FAULTS) as app:
            assert app.connect().say("run x devices=a/0 profile=50 faults=hang,nan detach") == ["ok w2"]
            fault = {"kind": "absent", "metric": "power"}
            run = {"op": "run", "name": "y", "devices": ["a/1"], "profile": "5", "faults": [fault], "detach": True}
            assert app.connect().ask(**run)["workload"] == "w3"
            app.tick()
            assert [each["id"] for each in app.json("/api/v1/faults")["faults"]] == ["w2-1", "w2-2", "w3-1"]

    def test_a_port_that_does_not(self) -> None:
        """Such a profile is refused there, and its load without faults is not; the API takes it."""
        with application(SMALL) as app:
            peer = app.connect()
            assert peer.say("run x devices=a/0 profile=faulty") == [
                "error bad-argument this port may not run what brings faults: its allow: does not name faults"
            ]
            assert peer.say("run x devices=a/0 profile=training")[0].startswith("ok")
            body = {"name": "x", "devices": ["a/0"], "profile": "faulty"}
            made = json.loads(app.ask("POST", "/api/v1/workloads", body).body)
            app.tick()
            assert app.json("/api/v1/faults")["total"] == len(PROFILES["faulty"].faults)
            assert app.ask("DELETE", f"/api/v1/workloads/{made['id']}").status == 200
            app.tick(3)
            assert app.json("/api/v1/faults")["total"] == 0
