"""Random histories of devices that are divided in changing ways: work, faults, reloads and ticks, at random."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from fakedev.base.errors import Refused
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import PartSpec
from fakedev.fleet.spec.fleet_spec import DeviceSpec, PoolSpec
from tests.support.examples import examples
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.divided_devices import ROUND_PARTS, check_parts, parts_of
from tests.support.fleet.faulty_fleets import inject
from tests.support.fleet.fleets import make_fleet, pool_of, reload, start, workload

LAYOUTS = st.lists(
    st.sampled_from([(), ROUND_PARTS, ROUND_PARTS[1:], parts_of("3g.20gb", "3g.20gb"), parts_of("3g.20gb", "1g.5gb")]),
    min_size=3,
    max_size=3,
)
WORDS = ("all", "m-0/0", "m-0/1/*", "m-0/[0-2]/1", "m-0/2/0", "m-0/even")
FAULTS = ("lost", "reset", "absent", "frozen", "stale-labels", "fan")


def pool(layouts: list[tuple[PartSpec, ...]]) -> PoolSpec:
    devices = {index: DeviceSpec(index, parts=parts) for index, parts in enumerate(layouts)}
    return pool_of("m", device_type=catalog_type("a100"), devices_per_node=3, devices=devices)


class AnyDivision(RuleBasedStateMachine):
    @initialize(layouts=LAYOUTS, seed=st.integers(0, 2**40))
    def begin(self, layouts: list[tuple[PartSpec, ...]], seed: int) -> None:
        base = (workload("all", "30:10:0", name="base"),)
        self.fleet: Fleet = make_fleet(pool(layouts), seed=seed, base=base)

    @rule(words=st.sampled_from(WORDS), load=st.integers(0, 100), kind=st.sampled_from(("compute", "memory", "tensor")),
          memory=st.sampled_from(("", "1GiB", "6GiB", "40%")), pod=st.sampled_from(("", "p", "q")))  # fmt: skip
    def begin_work(self, words: str, load: int, kind: str, memory: str, pod: str) -> None:
        try:
            uses = {"memory": memory} if memory else {}
            start(self.fleet, words, f"{load}:0:0", kind=kind, pod=pod, metrics=uses)
        except Refused as error:
            assert "part" in str(error)

    @rule(words=st.sampled_from(WORDS), kind=st.sampled_from(FAULTS), duration=st.sampled_from((0, 2)))
    def break_something(self, words: str, kind: str, duration: int) -> None:
        try:
            inject(self.fleet, kind=kind, devices=words, duration=duration)
        except Refused as error:
            assert "part" in str(error)

    @rule(layouts=LAYOUTS)
    def divide(self, layouts: list[tuple[PartSpec, ...]]) -> None:
        reload(self.fleet, pool(layouts))

    @rule(ticks=st.integers(1, 5))
    def advance(self, ticks: int) -> None:
        for _ in range(ticks):
            self.fleet.advance()
            check_parts(self.fleet, self.fleet.state)

    @invariant()
    def work_is_where_it_can_be(self) -> None:
        """On whole devices and on parts, of which none is named twice; pods are on what their work is on."""
        parts = self.fleet.roster.parts
        held: dict[int, set[str]] = {}
        for each in self.fleet.workloads.running():
            units = each.devices
            assert (np.diff(units) > 0).all()
            assert (units < parts.unit_count).all()
            assert (parts.is_whole[units[units < parts.device_count]]).all()
            for unit in units.tolist():
                held.setdefault(unit, set()).add(each.spec.pod)
        if not self.fleet.faults.stale():
            for unit, facts in self.fleet.labels.part_facts(self.fleet.roster.nodes[0]):
                assert facts["pod"] in held.get(unit, set()) | {""}

    @invariant()
    def levels_fit(self) -> None:
        parts = self.fleet.roster.parts
        for state in (self.fleet.state, self.fleet.shown):
            counts = {"device": parts.device_count, "part": parts.count, "unit": parts.unit_count}
            for name, count in counts.items():
                level = state.levels[name]
                assert level.count == count
                assert all(values.shape == (count,) for values in level.arrays.values())
        power = float(self.fleet.state.levels["device"].arrays["power_watts"].sum())
        assert math.isfinite(power)


@pytest.mark.hypothesis
def test_any_division() -> None:
    run_state_machine_as_test(AnyDivision, settings=settings(max_examples=examples(20), stateful_step_count=15))
