"""The limits of workloads and faults: what has no room is refused before anything changes; a replay has no limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.events import DropWorkload, InjectFault, Reload, Stamped, StartWorkload, StopWorkload
from fakedev.sim.fleet import Fleet
from fakedev.sim.record import Replay
from fakedev.spec.errors import Refused
from fakedev.spec.fault_fields import fault_from_fields
from fakedev.spec.limits import ACTIVITY_BYTES, FROZEN_DEVICES, FROZEN_SERIES_DEVICES, Limits
from fakedev.spec.record_head import RecordHead
from tests.support.fleets import make_fleet, pool_of, workload


def run(fleet: Fleet, peer: object = "", devices: str = "all", profile: str = "50", **fields: object) -> str:
    """Start a workload of a peer; return its id."""
    return f"w{fleet.apply(StartWorkload(workload(devices, profile, **fields)), peer).sequence}"


def inject(fleet: Fleet, peer: object = "", **fields: object) -> str:
    """Inject a fault of a peer; return its id."""
    return f"f{fleet.apply(InjectFault(fault_from_fields(fields)), peer).sequence}"


def used(fleet: Fleet, key: str) -> int:
    """What is used of a limit."""
    return fleet.limits()[key][0]


class TestWorkloads:
    """Workloads have room or are refused."""

    def test_devices(self) -> None:
        """The devices of all count together; the error has the key, the numbers and the remedy, and nothing changes."""
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
        """One peer takes its own part alone; its end gives it back."""
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
        fleet.apply(DropWorkload(first))
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
            fleet.apply(StopWorkload(workload_id))
        fleet.advance()
        assert used(fleet, "memory") == 0
        run(fleet, profile=other)

    def test_a_profile_is_kept_once(self) -> None:
        """Workloads with the same profile share its numbers: a profile of ten thousand activities is no copy each."""
        long = ",".join(f"{10 + step % 70}:1:5" for step in range(10_000))
        fleet = make_fleet()
        for _ in range(5):
            run(fleet, profile=long)
            fleet.advance()
        kept = {id(each.spec.activities) for each in fleet.workloads.by_id.values()}
        profiles = fleet.workloads.table.profiles
        assert (len(kept), len(profiles.key), len(profiles.starts)) == (1, 1, 10_000)
        numbers = next(iter(fleet.workloads.by_id.values())).spec.activities.numbers
        assert numbers.itemsize * len(numbers) == 24 * 10_000

    def test_devices_are_kept_once(self) -> None:
        """Workloads with the same device words share the positions of their devices."""
        fleet = make_fleet(pool_of(nodes=20))
        for _ in range(5):
            run(fleet)
        assert len({id(each.devices) for each in fleet.workloads.by_id.values()}) == 1

    def test_one_that_never_ran(self) -> None:
        """It counts until its end is reported: to start and stop workloads between two ticks fills no memory."""
        fleet = make_fleet(limits=Limits(workload_devices=8))
        for _ in range(2):
            fleet.apply(StopWorkload(run(fleet)))
        with pytest.raises(Refused, match=r"limits\.workload-devices"):
            run(fleet)
        fleet.advance()
        assert (used(fleet, "workload-devices"), used(fleet, "memory")) == (0, 0)
        fleet.apply(DropWorkload(run(fleet)))
        assert used(fleet, "workload-devices") == 0


class TestFaults:
    """As of workloads."""

    def test_devices(self) -> None:
        """The devices of all faults count together, also of those that a workload brings."""
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
        fleet.apply(StopWorkload(brings))
        fleet.advance()
        assert (used(fleet, "fault-devices"), used(fleet, "faults"), used(fleet, "memory")) == (0, 0, 0)

    def test_each_peer(self) -> None:
        """A peer takes its own part alone."""
        fleet = make_fleet(limits=Limits(peer_fault_devices=4))
        inject(fleet, "one", kind="nan", devices="all")
        with pytest.raises(Refused, match=r"^limits\.peer-fault-devices is 4: 1 more are needed, and 0 remain"):
            inject(fleet, "one", kind="nan", devices="dgx-0/0")
        inject(fleet, "other", kind="nan", devices="all")

    def test_frozen_series(self) -> None:
        """They keep all values of their devices, which counts more."""
        fleet = make_fleet()
        inject(fleet, kind="frozen", devices="all")
        assert used(fleet, "fault-devices") == FROZEN_SERIES_DEVICES + 4 * FROZEN_DEVICES
        inject(fleet, kind="frozen", devices="all", metric="power")
        assert used(fleet, "fault-devices") == FROZEN_SERIES_DEVICES + 4 * FROZEN_DEVICES + 4


def test_a_replay_has_no_limits() -> None:
    """What was accepted once is accepted again, whatever the limits are now."""
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


class TestConfiguration:
    """Workloads of the configuration count, with those of a reload."""

    def reload(self, fleet: Fleet, **more: object) -> None:
        """Use another configuration."""
        fleet.apply(Reload(CompiledFleet(replace(fleet.spec, **more)), RecordHead("1", 0.0)))  # type: ignore[arg-type]

    def test_reload(self) -> None:
        """What a reload starts must have room under its limits, and keeps that room until it has started."""
        fleet = make_fleet(base=(workload("all"),), limits=Limits(workload_devices=10))
        assert used(fleet, "workload-devices") == 4
        fleet.advance()
        run(fleet)
        more = (workload("all"), workload("all", "60"))
        with pytest.raises(Refused, match=r"limits\.workload-devices is 10: 4 more are needed, and 2 remain"):
            self.reload(fleet, base=more)
        assert used(fleet, "workload-devices") == 8
        self.reload(fleet, base=more, limits=Limits(workload_devices=12))
        with pytest.raises(Refused, match=r"limits\.workload-devices"):
            run(fleet)
        fleet.advance()
        assert fleet.limits()["workload-devices"] == (12, 12)
