"""Random histories of a fleet: some properties always hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from fakedev.base.errors import Refused
from fakedev.fleet.events import ChangeClock, DropWorkloads, Stamped, StopWorkloads
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.record import Replay
from fakedev.fleet.spec.device_types import DeviceType, Range
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.workloads.workload import Verdict
from tests.support.examples import examples
from tests.support.fleet.fleets import pool_of, start, workload

#: A second kind of device: no memory, an additional quantity, temperatures below zero.
PLAIN = DeviceType("plain", {"usage_ratio": Range(0, 1), "temperature_celsius": Range(-10, 90), "own": Range(-1, 1)})
POOLS = (pool_of("dgx", nodes=2), pool_of("xpu", device_type=PLAIN, devices_per_node=3))
COUNTERS = ("energy_joules", "pcie_tx_bytes", "pcie_replays", "resets")

DEVICES = st.sampled_from(["all", "odd", "dgx-0/0", "dgx-[0-1]/1", "xpu-0/*", "dgx-1/card3,xpu-0/0"])
PROFILES = st.sampled_from(["50:50:0", "0:0:1", "100:0:0", "80:20:1.5,10:5:0.2", "30:30:0.01,90:10:0.03", "1:1:1e-6"])
FUNCTIONS = st.sampled_from(
    ["ramp(5,90):5:3", "random(5,60,0.5):5:2,sine(50,50,3):0:4", "spike(10,90,1,5)", "increase(0,90,2s):0:9,50:50:1"]
)
#: Of the first pool; the second has none of it.
METRICS = st.dictionaries(
    st.sampled_from(["memory", "pcie-tx", "memory-errors-correctable", "pcie_replays"]),
    st.sampled_from(["100.4", "1e8:1e7:3,ramp(0,5e8):0:4", "random(0,3e8,2)", "increase(0,6e8,1):0:5,9.9e8:0:2"]),
    max_size=3,
)
LIMITS = st.sampled_from([{}, {"power": 120}, {"memory": 2**29, "temperature": 50}, {"own": 0.5}])


class AnyHistory(RuleBasedStateMachine):
    workloads = Bundle("workloads")

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Stamped] = []
        self.verdicts: dict[str, Verdict] = {}
        self.accepted: set[str] = set()
        self.dropped: set[str] = set()

    @initialize(
        tick=st.sampled_from([1.0, 0.1, 7.0]),
        base=st.lists(st.tuples(DEVICES, PROFILES), max_size=2),
        seed=st.integers(0),
    )
    def begin(self, tick: float, base: list[tuple[str, str]], seed: int) -> None:
        first = tuple(workload(devices, profile, name="base") for devices, profile in base)
        self.spec = FleetSpec(POOLS, seed=seed, tick_seconds=tick, epoch_seconds=1e9, base=first)
        self.fleet = Fleet(self.spec, self.kept.append)
        self.accepted.update(self.fleet.workloads.by_id)
        self.before = self.fleet.state
        self.energy = np.zeros(self.fleet.roster.device_count)

    @rule(
        target=workloads,
        devices=DEVICES,
        profile=PROFILES,
        limits=LIMITS,
        repeat=st.integers(0, 3),
        run_time_limit=st.sampled_from([0, 0, 0.5, 2]),
        ttl=st.sampled_from([0, 0, 1, 3]),
        pod=st.sampled_from(["", "p", "q"]),
    )
    def begin_workload(self, **fields: object) -> str:
        workload_id = start(self.fleet, **fields)  # type: ignore[arg-type]
        self.accepted.add(workload_id)
        return workload_id

    @rule(
        target=workloads,
        devices=st.sampled_from(["dgx-0/*", "dgx-[0-1]/1"]),
        profile=st.one_of(PROFILES, FUNCTIONS),
        metrics=METRICS,
        seconds_of=st.sampled_from(["time", "work"]),
        measured_frequency=st.sampled_from([0, 650, 2600]),
        limits=st.sampled_from([{}, {"memory": 4e8}, {"pcie_replays": 5}, {"usage": 0.7, "power": 240}]),
        repeat=st.integers(0, 3),
    )
    def begin_measured_workload(self, **fields: object) -> str:
        workload_id = start(self.fleet, **fields)  # type: ignore[arg-type]
        self.accepted.add(workload_id)
        return workload_id

    @rule(devices=st.sampled_from(["card0", "nobody", "dgx-9/0", "*x*"]))
    def refused(self, devices: str) -> None:
        before = len(self.kept), set(self.fleet.workloads.by_id), self.fleet.intake.starting_count
        try:
            start(self.fleet, devices)
        except Refused:
            pass
        else:
            raise AssertionError(devices)
        assert before == (len(self.kept), set(self.fleet.workloads.by_id), self.fleet.intake.starting_count)

    @rule(workload_id=workloads)
    def stop(self, workload_id: str) -> None:
        is_there = workload_id in self.fleet.workloads.by_id and not self.fleet.intake.is_ending(workload_id)
        try:
            self.fleet.apply(StopWorkloads((workload_id,)))
        except Refused:
            assert not is_there
        else:
            assert is_there

    @rule(target=workloads, workload_id=consumes(workloads))
    def drop(self, workload_id: str) -> object:
        if workload_id in self.fleet.workloads.by_id:
            self.fleet.apply(DropWorkloads((workload_id,)))
            self.dropped.add(workload_id)
        return multiple()

    @rule(wall=st.floats(0, 2e9), step=st.sampled_from([0.0, 0.5, 1.0]))
    def clock(self, wall: float, step: float) -> None:
        self.fleet.apply(ChangeClock(wall, step))
        assert self.fleet.clock.due_seconds(self.fleet.state.tick) == wall

    @rule(ticks=st.integers(1, 5))
    def advance(self, ticks: int) -> None:
        for _ in range(ticks):
            self.before = self.fleet.state
            for verdict in self.fleet.advance():
                assert verdict.workload_id in self.accepted
                assert verdict.workload_id not in self.verdicts, "told twice"
                assert verdict.workload_id not in self.fleet.workloads.by_id
                self.verdicts[verdict.workload_id] = verdict
            self.energy += self.fleet.power_watts * self.spec.tick_seconds
            self.check_counters()

    def check_counters(self) -> None:
        before, now = self.before.levels["device"].arrays, self.fleet.state.levels["device"].arrays
        for name in COUNTERS:
            assert (now[name] >= before[name]).all(), name

    @invariant()
    def accepted_workloads_are_somewhere(self) -> None:
        if hasattr(self, "fleet"):
            gone = self.accepted - set(self.fleet.workloads.by_id)
            assert gone <= set(self.verdicts) | self.dropped | self.stopped_before_it_ran()

    def stopped_before_it_ran(self) -> set[str]:
        return {
            workload_id
            for stamped in self.kept
            if isinstance(stamped.event, StopWorkloads) and stamped.tick == self.fleet.state.tick
            for workload_id in stamped.event.workload_ids
        }

    @invariant()
    def values_are_finite_and_in_range(self) -> None:
        if not hasattr(self, "fleet"):
            return
        level = self.fleet.state.levels["device"]
        assert all(np.isfinite(values).all() for values in level.arrays.values())
        for node in self.fleet.roster.nodes:
            for name, span in node.pool.device_type.ranges.items():
                values = level.arrays[name][node.devices]
                assert (values >= span.low).all(), name
                high = node.pool.device_type.memory_total_bytes - node.pool.device_type.memory_reserved_bytes
                assert (values <= (high if name == "memory_used_bytes" else span.high)).all(), name

    @invariant()
    def what_workloads_have_is_finite_and_their_devices(self) -> None:
        if not hasattr(self, "fleet"):
            return
        level = self.fleet.workloads.level(self.fleet.state.seconds)
        running = self.fleet.workloads.running()
        assert level.count == len(running)
        assert all(len(values) == len(running) and np.isfinite(values).all() for values in level.arrays.values())
        assert ((level.arrays["progress_ratio"] >= 0) & (level.arrays["progress_ratio"] <= 1)).all()
        amounts = self.fleet.workloads.shares()
        memory = amounts.by_device(amounts.of("memory_used_bytes"))
        most = self.fleet.memory_total_bytes - self.fleet.memory_reserved_bytes
        assert (memory <= most * (1 + 1e-9)).all()
        assert (amounts.by_device(amounts.parts) <= 1 + 1e-9).all()

    @invariant()
    def memory_and_energy_add_up(self) -> None:
        if hasattr(self, "fleet"):
            fleet = self.fleet
            parts = fleet.memory_used_bytes + fleet.memory_free_bytes + fleet.memory_reserved_bytes
            assert (parts == fleet.memory_total_bytes).all()
            assert np.allclose(fleet.energy_joules, self.energy, rtol=1e-12)

    def teardown(self) -> None:
        """At last the record of all this is run again: every array is the same, to the last bit."""
        if not hasattr(self, "fleet"):
            return
        again, replay = Fleet(self.spec), Replay(self.kept)
        told = {}
        while again.state.tick < self.fleet.state.tick:
            told.update({verdict.workload_id: verdict for verdict in replay.advance(again)})
        assert told == self.verdicts
        assert (again.state.wall_seconds, again.state.labels_version) == (
            self.fleet.state.wall_seconds,
            self.fleet.state.labels_version,
        )
        for name, values in self.fleet.state.levels["device"].arrays.items():
            assert np.array_equal(again.state.levels["device"].arrays[name], values), name


@pytest.mark.slow
@pytest.mark.hypothesis
def test_any_history() -> None:
    run_state_machine_as_test(AnyHistory, settings=settings(max_examples=examples(100), stateful_step_count=30))
