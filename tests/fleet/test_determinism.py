"""Names, not places: what is added to a fleet, or removed from it, changes no bit of anything else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.events import ChangeNodes, Event, InjectFault, Reload, StartWorkload
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fault_kinds import fault_from_fields
from fakedev.fleet.spec.fleet_spec import FleetSpec, PoolSpec
from fakedev.fleet.spec.limits import RecordHead
from tests.support.configurations import loaded
from tests.support.examples import examples
from tests.support.fleet.faulty_fleets import boards_of
from tests.support.fleet.fleets import BOARD, advance, labels_of, make_fleet, start, stop, workload
from tests.support.fleet.histories import (
    Scene,
    events,
    faults,
    fleet_of,
    is_taken,
    node_states,
    scenes,
    shown_of,
    workloads,
)
from tests.support.fleet.shards import shards_of

TICKS = 12
#: Making a failing fleet smaller takes minutes.
_SETTINGS = settings(
    max_examples=examples(15), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
_HEAD = RecordHead("1", 0.0)


def names_of(some: Sequence[Scene]) -> list[str]:
    return [node.name for scene in some for node in scene.pool.nodes]


def happen(fleet: Fleet, some: Sequence[Scene], tick: int) -> None:
    for scene in some:
        for event in scene.events[tick]:
            assert is_taken(fleet, event), event
    fleet.advance()


class TestPools:
    @pytest.mark.slow
    @_SETTINGS
    @given(
        data=st.data(), some=st.tuples(scenes("p", TICKS), scenes("q", TICKS)), other=scenes("x", TICKS),
        place=st.integers(0, 2),
    )  # fmt: skip
    def test_an_additional_pool(
        self, data: st.DataObject, some: tuple[Scene, ...], other: Scene, place: int
    ) -> None:
        over = data.draw(st.lists(workloads(*(scene.pool for scene in some)), max_size=2))
        plain = Fleet(fleet_of(some))
        both = replace(some[0], base=(*some[0].base, *(each for each in over if is_taken(plain, StartWorkload(each)))))
        some = (both, some[1])
        more = (*some[:place], other, *some[place:])
        alone, among = Fleet(fleet_of(some)), Fleet(fleet_of(more))
        for tick in range(TICKS):
            happen(alone, some, tick)
            happen(among, more, tick)
            assert shown_of(among, names_of(some)) == shown_of(alone, names_of(some)), f"tick {tick + 1}"

    @pytest.mark.slow
    @_SETTINGS
    @given(some=st.permutations([0, 1, 2]).flatmap(
        lambda order: st.tuples(scenes("p", TICKS), scenes("q", TICKS), scenes("x", TICKS)).map(
            lambda found: (found, tuple(found[each] for each in order))
        )
    ))  # fmt: skip
    def test_another_order(self, some: tuple[tuple[Scene, ...], tuple[Scene, ...]]) -> None:
        one, other = (Fleet(fleet_of(each)) for each in some)
        for tick in range(TICKS):
            happen(one, some[0], tick)
            happen(other, some[1], tick)
            assert shown_of(one, names_of(some[0])) == shown_of(other, names_of(some[0])), f"tick {tick + 1}"

    @pytest.mark.slow
    @_SETTINGS
    @given(
        some=st.tuples(scenes("p", TICKS), scenes("q", TICKS)), other=scenes("x", TICKS), place=st.integers(0, 2),
        came=st.integers(0, 5), went=st.integers(6, TICKS - 1),
    )  # fmt: skip
    def test_reloads(self, some: tuple[Scene, ...], other: Scene, place: int, came: int, went: int) -> None:
        more = (*some[:place], other, *some[place:])
        quiet, fleet = Fleet(fleet_of(some)), Fleet(fleet_of(some))
        for tick in range(TICKS):
            if tick in (came, went):
                # A reload resolves device words again: both fleets have one.
                quiet.apply(Reload(CompiledFleet(fleet_of(some)), _HEAD))
                fleet.apply(Reload(CompiledFleet(fleet_of(more if tick == came else some)), _HEAD))
            happen(quiet, some, tick)
            happen(fleet, some, tick)
            assert shown_of(fleet, names_of(some)) == shown_of(quiet, names_of(some)), f"tick {tick + 1}"


class TestElsewhere:
    @pytest.mark.slow
    @_SETTINGS
    @given(data=st.data(), some=st.tuples(scenes("p", TICKS), scenes("q", TICKS)), place=st.integers(0, 1))
    def test_more_work_on_another_pool(self, data: st.DataObject, some: tuple[Scene, ...], place: int) -> None:
        there, here = some[place], [some[1 - place]]
        quiet, busy = Fleet(fleet_of(some)), Fleet(fleet_of(some))
        for tick in range(TICKS):
            more: list[Event] = data.draw(st.lists(events(there.pool), max_size=2))
            for event in more:
                is_taken(busy, event)
            happen(quiet, some, tick)
            happen(busy, some, tick)
            assert shown_of(busy, names_of(here)) == shown_of(quiet, names_of(here)), f"tick {tick + 1}"


def _of_cluster() -> PoolSpec:
    return PoolSpec("zone", (), replace(BOARD, name="other"), 2, has_cluster_nodes=True)


class TestNodes:
    @pytest.mark.slow
    @_SETTINGS
    @given(
        some=st.tuples(scenes("p", TICKS), scenes("q", TICKS)), is_first=st.booleans(),
        present=st.lists(st.sets(st.sampled_from(["a", "o-1", "z"])), min_size=TICKS, max_size=TICKS),
    )  # fmt: skip
    def test_others_do_not_notice(self, some: tuple[Scene, ...], is_first: bool, present: list[set[str]]) -> None:
        pool = _of_cluster()
        quiet = Fleet(fleet_of(some))
        plain = fleet_of(some)
        fleet = Fleet(replace(plain, pools=(pool, *plain.pools) if is_first else (*plain.pools, pool)))
        for tick in range(TICKS):
            now = {node.name for node in fleet.roster.nodes} - set(names_of(some))
            joined = tuple((name, pool.name) for name in sorted(present[tick] - now))
            if joined or now - present[tick]:
                fleet.apply(ChangeNodes(joined, tuple(sorted(now - present[tick]))))
                quiet.apply(Reload(CompiledFleet(plain), _HEAD))
            happen(quiet, some, tick)
            happen(fleet, some, tick)
            assert shown_of(fleet, names_of(some)) == shown_of(quiet, names_of(some)), f"tick {tick + 1}"


class TestShards:
    @pytest.mark.slow
    @_SETTINGS
    @given(data=st.data(), some=st.tuples(scenes("p", 0), scenes("q", 0)), count=st.integers(2, 5))
    def test_any_cut(self, data: st.DataObject, some: tuple[Scene, ...], count: int) -> None:
        spec, pools = fleet_of(some), [scene.pool for scene in some]
        fleet = Fleet(spec)
        base = data.draw(st.lists(workloads(*pools), max_size=3))
        over = data.draw(st.lists(faults(*pools), max_size=2))
        base = [each for each in base if is_taken(fleet, StartWorkload(each))]
        over = [each for each in over if is_taken(fleet, InjectFault(each))]
        spec = replace(spec, base=(*base, *spec.base), faults=(*spec.faults, *over))
        whole, shards = Fleet(spec), shards_of(spec, count)
        for _ in range(TICKS):
            for fleet in (whole, *shards):
                fleet.advance()
            for shard in shards:
                names = [node.name for node in shard.roster.shown]
                assert shown_of(shard, names) == shown_of(whole, names), f"tick {whole.state.tick}"


class TestOrderOfArrival:
    @pytest.mark.slow
    @pytest.mark.parametrize("of_configuration", [True, False])
    def test_sums(self, of_configuration: bool) -> None:
        work = [
            workload("dgx-0/0", f"{load}:0:0", name=f"w{load}", kind=kind, metrics={"tensor": f"{load / 3}%"})
            for load, kind in ((10.1, "compute"), (17.3, "tensor"), (13.7, "compute"), (7.9, "compute"))
        ]
        warmer = [fault_from_fields({"kind": "inlet", "devices": "all", "celsius": each}) for each in (0.1, 0.7, 1.3)]
        shown = []
        for order in permutations(range(4)):
            base, over = [work[each] for each in order], [warmer[each] for each in order if each < len(warmer)]
            given = {"base": tuple(base), "faults": tuple(over)} if of_configuration else {}
            fleet = make_fleet(boards_of("h100"), **given)
            for event in () if of_configuration else (*map(StartWorkload, base), *map(InjectFault, over)):
                assert is_taken(fleet, event)
            advance(fleet, 3)
            shown.append(node_states(fleet, fleet.roster.nodes[0]))
        assert all(each == shown[0] for each in shown)


class TestEqualNames:
    def test_another_order(self) -> None:
        """What they do tells them apart, not their order: each draws the same."""
        profiles = ("30:9", "random(1,40,3)", "20:5:3,9:3:2", "20:5")
        some = [workload("dgx-0/0", profile, repeat=0) for profile in profiles]
        shown = {
            make_fleet(base=base).state.levels["device"].arrays["usage_ratio"].tobytes()
            for base in permutations(some)
        }
        assert len(shown) == 1

    def test_a_fault_that_is_more_likely(self) -> None:
        """It strikes the same devices, and more: how likely it is does not change its draws."""
        struck = []
        for probability in (0.3, 0.6):
            fault = fault_from_fields({"kind": "hang", "devices": "all", "probability": probability, "every": 60})
            fleet = make_fleet(boards_of("h100", nodes=8, devices=8), faults=(fault,))
            fleet.advance()
            struck.append({place for fault in fleet.faults.by_id.values() for place in fault.concerned.tolist()})
        assert struck[0] < struck[1]

    def test_ids_of_faults(self) -> None:
        """An id has the kind and five letters or digits that follow from the fault; equal ones are numbered."""
        fault, other = (fault_from_fields({"kind": "hang", "devices": f"dgx-0/{index}"}) for index in (0, 1))
        some = make_fleet(boards_of("h100"), faults=(other, fault, fault)).faults.by_id
        (alone,) = make_fleet(boards_of("h100"), faults=(fault,)).faults.by_id
        assert re.fullmatch("config-hang-[a-z0-9]{5}", alone)
        assert list(some)[1:] == [alone, f"{alone}-2"]


OWN = "{name: a, nodes: [n-1, n-2], devices-per-node: 2, device: h100, profile: [faulty, chaos]}"
GROWN = OWN.replace("[n-1, n-2]", "[n-0, n-1, n-2, n-3]")
OTHER = "{name: b, nodes: 2, device: h100, profile: chaos}"
PROFILED_TICKS = 40
#: States have sums of all that was before: not every tick need be compared.
STEP = 5


def specification(*pools: str) -> FleetSpec:
    return loaded(f"fleet: {{pools: [{', '.join(pools)}]}}\nweb: []\nworkloads: {{listen: []}}\n").fleet


@pytest.mark.slow
def test_a_pool_before_it() -> None:
    alone, behind, before = (Fleet(specification(*pools)) for pools in ((OWN,), (OTHER, OWN), (OWN, OTHER)))
    struck = 0
    for _ in range(PROFILED_TICKS // STEP):
        for fleet in (alone, behind, before):
            advance(fleet, STEP)
        expected = shown_of(alone, ["n-1", "n-2"])
        assert shown_of(behind, ["n-1", "n-2"]) == expected
        assert shown_of(before, ["n-1", "n-2"]) == expected
        struck += sum(len(each["on"]) for each in expected["faults"].values())
    assert struck > 5


@pytest.mark.slow
def test_nodes_come_and_go() -> None:
    quiet, fleet = Fleet(specification(OWN)), Fleet(specification(OWN))
    first = list(fleet.faults.by_id)
    for tick in range(PROFILED_TICKS):
        if tick in (12, 30):
            quiet.apply(Reload(CompiledFleet(specification(OWN)), RecordHead("1", 0.0)))
            wanted = GROWN if tick == 12 else OWN
            fleet.apply(Reload(CompiledFleet(specification(wanted)), RecordHead("1", 0.0)))
        for each in (quiet, fleet):
            each.advance()
        if tick % STEP == 0:
            assert shown_of(fleet, ["n-1", "n-2"]) == shown_of(quiet, ["n-1", "n-2"]), f"tick {tick + 1}"
        if tick == 20:
            assert {len(each.devices) for each in fleet.faults.by_id.values()} == {4}
    assert list(fleet.faults.by_id) == first


def test_what_happens_elsewhere() -> None:
    """Workloads on other devices of the node do not touch a device's noise, not even when they leave."""
    quiet, busy = make_fleet(), make_fleet()
    for fleet, devices, profile in ((quiet, "card1", "50:0:0"), (busy, "card1,card2", "50:50:0")):
        start(fleet, devices, profile)
        start(fleet, "card0", "50:30:0")
    for tick in range(30):
        quiet.advance()
        busy.advance()
        assert quiet.usage_ratio[0] == busy.usage_ratio[0]
        if tick == 10:
            stop(busy, "w1")
        if tick == 20:
            start(busy, "card3", "50:50:0")


def test_another_seed_is_another_history() -> None:
    one, other = make_fleet(seed=1), make_fleet(seed=2)
    for fleet in (one, other):
        start(fleet, profile="50:30:0")
        fleet.advance()
    assert one.usage_ratio[0] != other.usage_ratio[0]
    assert labels_of(one, "dgx-0", ["uuid"]) != labels_of(other, "dgx-0", ["uuid"])
