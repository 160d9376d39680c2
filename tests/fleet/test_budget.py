"""The limits of workloads and faults: what has no room is refused before anything changes; a replay has no limits."""

from __future__ import annotations

import json

import pytest

from fakedev.base.errors import Refused
from fakedev.fleet.events import DropWorkloads, InjectFault, Stamped, StartWorkload, StopWorkloads
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.record import Replay
from fakedev.fleet.spec.fault_kinds import fault_from_fields
from fakedev.fleet.spec.limits import ACTIVITY_BYTES, FROZEN_DEVICES, FROZEN_SERIES_DEVICES, Limits
from tests.support.fleet.fleets import make_fleet, pool_of, reload, workload
from tests.support.fleet.workload_ports import OF_NODE_B, WorkloadPortCase, bare


def run(fleet: Fleet, peer: object = "", devices: str = "all", profile: str = "50", **fields: object) -> str:
    return f"w{fleet.apply(StartWorkload(workload(devices, profile, **fields)), peer).sequence}"


def inject(fleet: Fleet, peer: object = "", **fields: object) -> str:
    return f"f{fleet.apply(InjectFault(fault_from_fields(fields)), peer).sequence}"


def used(fleet: Fleet, key: str) -> int:
    return fleet.limits()[key][0]


class TestWorkloads:
    def test_devices(self) -> None:
        record: list[Stamped] = []
        fleet = make_fleet(pool_of(nodes=2), record=record.append, limits=Limits(workload_devices=17))
        run(fleet)
        run(fleet)
        with pytest.raises(Refused) as caught:
            run(fleet)
        refused = caught.value
        assert (refused.code, refused.where) == ("full", "limits.workload-devices")
        assert refused.text == (
            "limits.workload-devices is 17: 8 more are needed, and 1 remain: stop workloads, or name fewer devices or "
            "metrics, or raise limits.workload-devices"
        )
        assert (len(record), len(fleet.workloads.by_id), used(fleet, "workload-devices")) == (2, 2, 16)
        assert run(fleet, devices="dgx-0/0") == "w3"

    def test_metrics_and_draws_are_work_too(self) -> None:
        """A tick computes each metric for each device, and draws each random value."""
        fleet = make_fleet()
        run(fleet, metrics={"memory": "10%", "pcie-tx": "20%"})
        assert used(fleet, "workload-devices") == 12
        run(fleet, devices="dgx-0/0", profile="random(0,90,0.1)")
        assert used(fleet, "workload-devices") == 12 + 1 + 2 * 10

    def test_each_peer(self) -> None:
        fleet = make_fleet(limits=Limits(workload_devices=12, peer_workload_devices=8))
        first = run(fleet, "one")
        run(fleet, "one")
        with pytest.raises(Refused, match=r"^limits\.peer-workload-devices is 8: 4 more are needed, and 0 remain"):
            run(fleet, "one")
        run(fleet, "other")
        with pytest.raises(Refused, match=r"^limits\.workload-devices is 12: 4 more are needed, and 0 remain"):
            run(fleet, "third")
        assert (used(fleet, "workload-devices"), used(fleet, "peer-workload-devices")) == (12, 8)
        fleet.advance()
        fleet.apply(DropWorkloads((first,)))
        fleet.advance()
        assert (used(fleet, "workload-devices"), used(fleet, "peer-workload-devices")) == (8, 4)
        run(fleet, "one")

    def test_memory(self) -> None:
        """Long profiles count, but the same profile once; also that of a metric."""
        long = ",".join(f"{10 + step % 70}:1:5" for step in range(1000))
        other = long.replace("10:1:5", "11:1:5", 1)
        fleet = make_fleet(limits=Limits(memory_bytes=180 * 1024))
        run(fleet, profile=long)
        alone = used(fleet, "memory")
        assert 1000 * ACTIVITY_BYTES < alone < 1000 * ACTIVITY_BYTES + 4096
        more = [run(fleet, profile=long) for _ in range(10)]
        assert used(fleet, "memory") < alone + 10 * 4096
        with pytest.raises(Refused, match=r"^limits\.memory is 184320 bytes: [0-9]+ more are needed, and [0-9]+"):
            run(fleet, profile=other)
        with pytest.raises(Refused, match=r"^limits\.memory"):
            run(fleet, metrics={"memory": other.replace(":1:", "%:1%:")})
        fleet.advance()
        for workload_id in ["w1", *more]:
            fleet.apply(StopWorkloads((workload_id,)))
        fleet.advance()
        assert used(fleet, "memory") == 0
        run(fleet, profile=other)

    def test_equal_numbers_are_kept_once(self) -> None:
        """Workloads share an equal profile, also one of ten thousand activities, and the positions of equal words."""
        long = ",".join(f"{10 + step % 70}:1:5" for step in range(10_000))
        fleet = make_fleet(pool_of(nodes=20))
        for _ in range(5):
            run(fleet, profile=long)
            fleet.advance()
        running = list(fleet.workloads.by_id.values())
        assert len({id(each.spec.activities) for each in running}) == len({id(each.devices) for each in running}) == 1
        profiles, numbers = fleet.workloads.table.profiles, running[0].spec.activities.numbers
        assert (len(profiles.key), len(profiles.starts)) == (1, 10_000)
        assert numbers.itemsize * len(numbers) == 24 * 10_000

    def test_one_that_never_ran(self) -> None:
        """It counts until its end is reported: to start and stop workloads between two ticks fills no memory."""
        fleet = make_fleet(limits=Limits(workload_devices=8))
        for _ in range(2):
            fleet.apply(StopWorkloads((run(fleet),)))
        with pytest.raises(Refused, match=r"limits\.workload-devices"):
            run(fleet)
        fleet.advance()
        assert (used(fleet, "workload-devices"), used(fleet, "memory")) == (0, 0)
        fleet.apply(DropWorkloads((run(fleet),)))
        assert used(fleet, "workload-devices") == 0


class TestFaults:
    def test_devices(self) -> None:
        fleet = make_fleet(limits=Limits(fault_devices=10))
        inject(fleet, kind="nan", devices="all", duration="1s")
        brings = run(fleet, faults=[{"kind": "absent"}])
        with pytest.raises(Refused, match=r"^limits\.fault-devices is 10: 4 more are needed, and 2 remain: clear"):
            inject(fleet, kind="nan", devices="all")
        with pytest.raises(Refused, match=r"^limits\.fault-devices"):
            run(fleet, faults=[{"kind": "absent"}])
        assert (len(fleet.faults.by_id), len(fleet.workloads.by_id)) == (2, 1)
        fleet.advance()
        fleet.advance()
        assert used(fleet, "fault-devices") == 4
        fleet.apply(StopWorkloads((brings,)))
        fleet.advance()
        assert (used(fleet, "fault-devices"), used(fleet, "faults"), used(fleet, "memory")) == (0, 0, 0)

    def test_frozen_series(self) -> None:
        """They keep all values of their devices, which counts more."""
        fleet = make_fleet()
        inject(fleet, kind="frozen", devices="all")
        assert used(fleet, "fault-devices") == FROZEN_SERIES_DEVICES + 4 * FROZEN_DEVICES
        inject(fleet, kind="frozen", devices="all", metric="power")
        assert used(fleet, "fault-devices") == FROZEN_SERIES_DEVICES + 4 * FROZEN_DEVICES + 4


def test_a_replay_has_no_limits() -> None:
    record: list[Stamped] = []
    fleet = make_fleet(record=record.append)
    run(fleet, "one")
    inject(fleet, "one", kind="nan", devices="all")
    tight = make_fleet(
        limits=Limits(workloads=0, faults=0, memory_bytes=0, workload_devices=0, fault_devices=0, peer_memory_bytes=0)
    )
    Replay(record).apply_due(tight)
    assert (list(tight.workloads.by_id), list(tight.faults.by_id)) == (["w1"], ["f2"])
    assert (used(tight, "workload-devices"), used(tight, "fault-devices")) == (4, 4)


def test_reload() -> None:
    """What a reload starts must have room under its limits, and keeps that room until it has started."""

    fleet = make_fleet(base=(workload("all"),), limits=Limits(workload_devices=10))
    assert used(fleet, "workload-devices") == 4
    fleet.advance()
    run(fleet)
    more = (workload("all"), workload("all", "60"))
    with pytest.raises(Refused, match=r"limits\.workload-devices is 10: 4 more are needed, and 2 remain"):
        reload(fleet, base=more)
    assert used(fleet, "workload-devices") == 8
    reload(fleet, base=more, limits=Limits(workload_devices=12))
    with pytest.raises(Refused, match=r"limits\.workload-devices"):
        run(fleet)
    fleet.advance()
    assert fleet.limits()["workload-devices"] == (12, 12)


class TestPorts(WorkloadPortCase):
    def limit(self, **limits: int) -> None:
        self.app.fleet.budget.limits = Limits(**limits)

    def used(self, key: str) -> int:
        text = self.app.get("/-/metrics").body.decode()
        (line,) = [line for line in text.splitlines() if line.startswith(f'fakedev_limit_used{{limit="{key}"}}')]
        return int(float(line.split()[-1]))

    def test_each_connection(self) -> None:
        self.limit(peer_workload_devices=5)
        assert self.peer.say("run x devices=all profile=10")[0].startswith("ok")
        text = self.error("run y devices=a/* profile=10", "full")
        assert text == (
            "limits.peer-workload-devices is 5: 2 more are needed, and 1 remain: stop workloads, or name fewer devices "
            "or metrics, or raise limits.peer-workload-devices"
        )
        other = self.app.connect()
        answer = other.ask(op="run", name="y", devices="all", profile="10")
        assert answer["ok"]
        answer = other.ask(op="run", name="y", devices="all", profile="10")
        assert not answer["ok"]
        assert "limits.peer-workload-devices is 5: 4 more are needed" in json.dumps(answer)
        assert (self.used("workload-devices"), self.used("peer-workload-devices")) == (8, 4)
        other.leave()
        self.app.tick()
        assert (self.used("workload-devices"), self.used("peer-workload-devices")) == (4, 4)

    def test_bare(self) -> None:
        self.limit(workload_devices=0)
        other = self.app.connect()
        other.send(bare())
        assert other.heard() == b"1"
        assert self.workloads == []

    def test_what_stays_when_the_peer_leaves(self) -> None:
        """Detached workloads, the API's and faults count for the host: to connect again gives no new part."""
        self.limit(peer_workload_devices=6, peer_fault_devices=6)
        for _ in range(2):
            other = self.app.connect()
            answer = other.say("run x devices=all profile=10 detach")
            other.leave()
        assert answer[0].startswith("error full limits.peer-workload-devices is 6: 4 more are needed, and 2 remain")
        wanted = {"name": "x", "devices": ["a/*"], "profile": "10"}
        assert [self.app.ask("POST", "/api/v1/workloads", wanted).status for _ in range(4)] == [201] * 3 + [503]
        assert self.peer.say("run x devices=all profile=10")[0].startswith("ok")
        for _ in range(2):
            posted = self.app.ask("POST", "/api/v1/faults", {"kind": "nan", "devices": ["all"]})
        assert posted.status == 503
        error = json.loads(posted.body)["error"]
        assert (error["code"], error["where"]) == ("full", "limits.peer-fault-devices")
        other = self.app.connect(OF_NODE_B)
        answers = other.say(*["fault nan devices=all node=b"] * 4)
        assert [answer.split()[0] for answer in answers] == ["ok"] * 3 + ["error"]
        assert answers[3].startswith("error full limits.peer-fault-devices is 6: 2 more are needed, and 0 remain")

    def test_metrics(self) -> None:
        text = self.app.get("/-/metrics").body.decode()
        shown = [line for line in text.splitlines() if line.startswith("fakedev_limit_allowed{")]
        assert 'fakedev_limit_allowed{limit="workloads"} 100000.0' in shown
        assert len(shown) == len(Limits.__dataclass_fields__)
