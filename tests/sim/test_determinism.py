"""Names, not places: what is added to a fleet, or removed from it, changes no bit of anything else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.events import ChangeNodes, Event, InjectFault, Reload, StartWorkload
from fakedev.sim.fleet import Fleet
from fakedev.spec.fault_fields import fault_from_fields
from fakedev.spec.fleet import PoolSpec
from fakedev.spec.record_head import RecordHead
from tests.support.examples import examples
from tests.support.faulty_fleets import boards_of
from tests.support.fleets import BOARD, advance, make_fleet, workload
from tests.support.histories import Scene, events, faults, fleet_of, is_taken, node_states, scenes, shown_of, workloads
from tests.support.shards import shards_of

TICKS = 12
#: Making a failing fleet smaller takes minutes.
_SETTINGS = settings(
    max_examples=examples(15), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
_HEAD = RecordHead("1", 0.0)


def names_of(some: Sequence[Scene]) -> list[str]:
    """The nodes of some scenes."""
    return [node.name for scene in some for node in scene.pool.nodes]


def happen(fleet: Fleet, some: Sequence[Scene], tick: int) -> None:
    """The events of a tick, scene by scene, and the tick."""
    for scene in some:
        for event in scene.events[tick]:
            assert is_taken(fleet, event), event
    fleet.advance()


class TestPools:
    """A pool more, with its workloads, faults and churn, wherever it is in the file."""

    @_SETTINGS
    @given(
        data=st.data(), some=st.tuples(scenes("p", TICKS), scenes("q", TICKS)), other=scenes("x", TICKS),
        place=st.integers(0, 2),
    )  # fmt: skip
    def test_an_additional_pool(
        self, data: st.DataObject, some: tuple[Scene, ...], other: Scene, place: int
    ) -> None:
        """States, faults and pages of the others are the same, with events that come in between as well."""
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

    @_SETTINGS
    @given(some=st.permutations([0, 1, 2]).flatmap(
        lambda order: st.tuples(scenes("p", TICKS), scenes("q", TICKS), scenes("x", TICKS)).map(
            lambda found: (found, tuple(found[each] for each in order))
        )
    ))  # fmt: skip
    def test_another_order(self, some: tuple[tuple[Scene, ...], tuple[Scene, ...]]) -> None:
        """The same pools, workloads and faults in another order are the same fleet."""
        one, other = (Fleet(fleet_of(each)) for each in some)
        for tick in range(TICKS):
            happen(one, some[0], tick)
            happen(other, some[1], tick)
            assert shown_of(one, names_of(some[0])) == shown_of(other, names_of(some[0])), f"tick {tick + 1}"

    @_SETTINGS
    @given(
        some=st.tuples(scenes("p", TICKS), scenes("q", TICKS)), other=scenes("x", TICKS), place=st.integers(0, 2),
        came=st.integers(0, 5), went=st.integers(6, TICKS - 1),
    )  # fmt: skip
    def test_reloads(self, some: tuple[Scene, ...], other: Scene, place: int, came: int, went: int) -> None:
        """A pool that comes with one reload and goes with another leaves no trace on the others."""
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
    """Work, kinds of work and faults on other devices."""

    @_SETTINGS
    @given(data=st.data(), some=st.tuples(scenes("p", TICKS), scenes("q", TICKS)), place=st.integers(0, 1))
    def test_more_work_on_another_pool(self, data: st.DataObject, some: tuple[Scene, ...], place: int) -> None:
        """Whatever comes there, and of whatever kind, changes no bit here."""
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
    """Nodes of a cluster that come and go."""

    @_SETTINGS
    @given(
        some=st.tuples(scenes("p", TICKS), scenes("q", TICKS)), is_first=st.booleans(),
        present=st.lists(st.sets(st.sampled_from(["a", "o-1", "z"])), min_size=TICKS, max_size=TICKS),
    )  # fmt: skip
    def test_others_do_not_notice(self, some: tuple[Scene, ...], is_first: bool, present: list[set[str]]) -> None:
        """All else goes on to the bit, wherever the nodes' pool is in the file."""
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
    """A fleet in several processes."""

    @_SETTINGS
    @given(data=st.data(), some=st.tuples(scenes("p", 0), scenes("q", 0)), count=st.integers(2, 5))
    def test_any_cut(self, data: st.DataObject, some: tuple[Scene, ...], count: int) -> None:
        """Each shard is the whole fleet on its nodes, also with workloads and faults on devices of several shards."""
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
    """Workloads and faults that meet on a device."""

    @pytest.mark.parametrize("of_configuration", [True, False])
    def test_sums(self, of_configuration: bool) -> None:
        """Whatever the order in which they come, or in which the file has them: all states have the same bits."""
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
    """Several workloads with the same name on the same devices."""

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
