"""What always holds, with any faults: random faults, repairs, workloads and ticks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fakedev.base.errors import Refused
from fakedev.fleet.charts import summary
from fakedev.fleet.entities.state import Level
from fakedev.fleet.events import ClearFaults, InjectFault, Stamped, event_from_fields, event_to_fields
from fakedev.fleet.faults.page_faults import FROZEN_TIMES
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.levels import HEALTH, health
from fakedev.fleet.record import Replay
from fakedev.fleet.spec.fault_kinds import KINDS, Scope, fault_from_fields
from fakedev.fleet.spec.quantities import COUNTERS, INTEGRALS
from tests.support.examples import examples
from tests.support.fleet.calibration import steady_type
from tests.support.fleet.divided_devices import check_parts, divided_pool, parts_of
from tests.support.fleet.fleets import make_fleet, pool_of, start, stop_any

_POOLS = (
    pool_of("h", nodes=2, device_type=steady_type("h100"), devices_per_node=2),
    pool_of("g", device_type=steady_type("intel-dg1"), devices_per_node=2),
    pool_of("o", devices_per_node=2),
    divided_pool(
        "m", parts_of("3g.20gb", "2g.10gb", "1g.5gb"), device_type=steady_type("a100"), devices_per_node=2
    ),
)
_DEVICES = ("all", "h-0/0", "h-0/*", "*/1", "g-0/0", "o-0/*", "m-0/1", "m-0/1/0", "m-0/1/*", "*/*/2")


def _of(level: Level, devices: np.ndarray) -> Level:
    arrays = {name: values[devices] for name, values in level.arrays.items()}
    return Level(len(devices), arrays, {name: has[devices] for name, has in level.present.items()})


@st.composite
def fault_fields(draw: st.DrawFn) -> dict[str, Any]:
    kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    fields: dict[str, Any] = {"kind": kind.name, "devices": draw(st.sampled_from(_DEVICES))}
    for parameter in kind.parameters:
        values = st.integers(int(parameter.low), int(min(parameter.high, 1000))).map(float)
        if not parameter.whole:
            values = st.floats(parameter.low, min(parameter.high, 1000))
        if parameter.among:
            values = st.sampled_from(parameter.among).map(float)
        if not parameter.instead_of or draw(st.booleans()):
            fields[parameter.name] = draw(values)
            fields.pop(parameter.instead_of, None)
    if kind.takes_metric and draw(st.booleans()):
        fields["metric"] = draw(st.sampled_from(("power", "memory", "energy_joules", "DCGM_FI_DEV_GPU_TEMP")))
    for name, times in (("start", (0, 0, 3)), ("duration", (0, 4, 15)), ("every", (0, 0, 1, 5))):
        fields[name] = draw(st.sampled_from(times))
    fields["probability"] = draw(st.sampled_from((1, 1, 0.5, 0)))
    return fields


class AnyFaults(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**40))
    def begin(self, seed: int) -> None:
        self.seed = seed
        self.events: list[Stamped] = []
        self.fleet = self._made(self.events.append)
        self.usual = self.fleet.state.levels["device"]

    def _made(self, record: Any = None) -> Fleet:
        return make_fleet(*_POOLS, seed=self.seed, record=record)

    @rule(
        devices=st.sampled_from(_DEVICES), load=st.integers(0, 100), pod=st.sampled_from(("", "p")),
        faults=st.sampled_from((None, None, "hang", "nan,reset", "ecc-double,node-down", "slow-page")),
    )  # fmt: skip
    def begin_work(self, devices: str, load: int, pod: str, faults: str | None) -> None:
        start(self.fleet, devices, f"{load}:0:0", pod=pod, kind="tensor", faults=faults)

    @rule(place=st.integers(0, 5))
    @precondition(lambda self: len(self.fleet.workloads.by_id) > 0)
    def end_work(self, place: int) -> None:
        stop_any(self.fleet, place)

    @rule(fields=fault_fields())
    def break_something(self, fields: dict[str, Any]) -> None:
        before = len(self.events), dict(self.fleet.faults.by_id)
        try:
            self.fleet.apply(InjectFault(fault_from_fields(fields)))
        except Refused:
            assert (len(self.events), self.fleet.faults.by_id) == before

    @rule(place=st.integers(0, 5))
    @precondition(lambda self: any(not each.is_cleared for each in self.fleet.faults.by_id.values()))
    def repair(self, place: int) -> None:
        ids = [each.fault_id for each in self.fleet.faults.by_id.values() if not each.is_cleared]
        self.fleet.apply(ClearFaults((ids[place % len(ids)],)))

    @rule(ticks=st.integers(1, 12))
    def advance(self, ticks: int) -> None:
        for _ in range(ticks):
            before = self.fleet.state.levels["device"]
            self.fleet.advance()
            self.follows(before, self.fleet.state.levels["device"])

    def follows(self, before: Level, after: Level) -> None:
        """Counters grow by what is shown, and begin again with a reset only."""
        reset = after.arrays["created_seconds"] != before.arrays["created_seconds"]
        gone = after.arrays["lost"] > 0
        for name in COUNTERS & after.arrays.keys():
            grown = after.arrays[name] - before.arrays[name]
            assert (grown[~reset] >= 0).all(), name
        for name, rate in INTEGRALS.items():
            if name in after.arrays:
                grown = after.arrays[name] - np.where(reset, 0.0, before.arrays[name])
                assert np.allclose(grown, np.where(gone, 0.0, after.arrays[rate]), rtol=1e-6, atol=1e-3), name
        for reason in ("throttled_power", "throttled_thermal", "throttled_hardware"):
            past = np.where(reset, 0.0, before.arrays[f"{reason}_seconds"])
            grown = after.arrays[f"{reason}_seconds"] - past
            # Work that changes within a tick is held for a part of it.
            held = ~gone & (after.arrays[reason] > 0)
            assert np.array_equal(grown > 1e-9, held), reason
            assert (grown <= 1.0 + 1e-6).all(), reason

    @invariant()
    def parts_are_within_their_devices(self) -> None:
        check_parts(self.fleet, self.fleet.state)

    @invariant()
    def values_are_possible(self) -> None:
        """Finite numbers; no board is idle and over its limit, none shows memory that it has not."""
        level = self.fleet.state.levels["device"]
        for name, values in level.arrays.items():
            assert np.isfinite(values).all(), name
        value = level.arrays
        there = value["lost"] == 0
        assert (value["power_watts"][there] > 0).all()
        assert (value["usage_ratio"] <= 1).all()
        added = value["memory_used_bytes"] + value["memory_free_bytes"] + value["memory_reserved_bytes"]
        assert np.allclose(added[there], value["memory_total_bytes"][there])
        boards = there & level.present.get("inlet_temperature_celsius", there)
        air = np.minimum(value["inlet_temperature_celsius"], self.usual.arrays["inlet_temperature_celsius"]) - 51
        assert (value["temperature_celsius"][boards] >= air[boards]).all()

    @invariant()
    def what_is_lost_is_lost(self) -> None:
        level = self.fleet.state.levels["unit"]
        for device in np.flatnonzero(level.arrays["lost"]).tolist():
            assert {name for name in level.arrays if level.has(name, device)} <= {"lost", "xid"}
        if self.fleet.state.tick:
            working = self.fleet.workloads.on_devices(level.arrays["lost"] > 0)
            assert all(self.fleet.intake.is_ending(workload.workload_id) for workload, _ in working)

    @invariant()
    def nodes_are_down_as_a_whole(self) -> None:
        """A fault of nodes concerns all of a node or nothing; one that is down shows nothing, and closes its page."""
        down, level = set(), self.fleet.state.levels["unit"]
        for fault in self.fleet.faults.by_id.values():
            if fault.kind.scope in (Scope.PAGE, Scope.NODE):
                for node in self.fleet.roster.nodes:
                    on = np.isin(node.devices, fault.concerned)
                    assert on.all() == on.any()
                    if fault.kind.name == "node-down" and on.any():
                        down.add(node.name)
        for node in self.fleet.roster.nodes:
            trouble = self.fleet.page_faults.of(frozenset([node.name]))
            assert (trouble is not None and trouble.is_closed) == (node.name in down)
            if node.name in down:
                units = self.fleet.roster.parts.with_parts(np.array(node.devices)).tolist()
                assert {name for name in level.arrays for unit in units if level.has(name, unit)} <= {"lost"}
                assert (level.arrays["lost"][units] > 0).all()
        assert self.fleet.page_faults.hidden() <= down

    @invariant()
    def the_sums_of_nodes_are_those_of_the_fleet(self) -> None:
        level, whole = self.fleet.state.levels["device"], summary(self.fleet.state.levels["device"])
        of_nodes = [summary(_of(level, np.array(node.devices))) for node in self.fleet.roster.nodes]
        powers, temperatures = ([node[place] for node in of_nodes if not np.isnan(node[place])] for place in (1, 2))
        assert np.isclose(sum(powers), np.nan_to_num(whole[1]))
        assert max(temperatures, default=np.inf) == np.nan_to_num(whole[2], nan=np.inf)
        worst = health(level)
        assert ((worst == HEALTH.index("lost")) == (level.arrays["lost"] > 0) & level.present["lost"]).all()

    @invariant()
    def faults_go_with_their_workloads(self) -> None:
        """Those that a workload brought are there no longer than it is; the journal has who was lost, by device."""
        for fault_id, fault in self.fleet.faults.by_id.items():
            workload, dash, _ = fault_id.partition("-")
            assert not dash or workload in self.fleet.workloads.by_id or fault.is_cleared
        lost = self.fleet.state.levels["device"].arrays["lost"] > 0
        for device in np.flatnonzero(lost & self.fleet.state.levels["device"].present["lost"]).tolist():
            on = np.arange(self.fleet.roster.parts.unit_count) == device
            assert self.fleet.journal.last(1, ("lost",), on)[0].text == "is lost"

    @invariant()
    def what_is_shown_is_a_level(self) -> None:
        """With any faults of exporters, there are the same quantities, of the same devices; frozen ones keep times."""
        for name, true in self.fleet.state.levels.items():
            shown = self.fleet.shown.levels[name]
            assert shown.arrays.keys() - set(FROZEN_TIMES) == true.arrays.keys()
            assert all(values.shape == (true.count,) for values in shown.arrays.values())

    def teardown(self) -> None:
        """All faults cleared: conditions are the usual ones. And the record gives the same again."""
        if not hasattr(self, "fleet"):
            return
        for each in list(self.fleet.faults.by_id.values()):
            if not each.is_cleared:
                self.fleet.apply(ClearFaults((each.fault_id,)))
        self.fleet.advance()
        assert not self.fleet.faults.by_id
        level = self.fleet.state.levels["device"]
        there = level.arrays["lost"] == 0
        for name in ("inlet_temperature_celsius", "power_limit_watts", "hung"):
            assert (level.arrays[name][there] == self.usual.arrays[name][there]).all(), name
        again = self._made()
        replay = Replay([event_from_fields(event_to_fields(event)) for event in self.events])
        while again.state.tick < self.fleet.state.tick:
            replay.advance(again)
        mine, its = self.fleet.shown.levels["unit"], again.shown.levels["unit"]
        assert all(np.array_equal(mine.arrays[name], its.arrays[name], equal_nan=True) for name in mine.arrays)


@pytest.mark.slow
@pytest.mark.hypothesis
def test_any_faults() -> None:
    run_state_machine_as_test(AnyFaults, settings=settings(max_examples=examples(25), stateful_step_count=20))
