"""Limits of devices: which workload ends, with which reason; and limits of workloads, on their own demands."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.sim.fleet import Fleet
from fakedev.spec.device_types import DeviceType
from tests.sim.workloads.test_metric_uses import GIB, LINKED
from tests.support.fleets import BOARD, advance, ended, make_fleet, pool_of, start


def limited(device: DeviceType = LINKED, shown_as: dict[str, str] | None = None, **limits: float) -> Fleet:
    """A node of two boards with limits."""
    pool = pool_of(device_type=replace(device, limits=limits), devices_per_node=2, shown_as=shown_as or {})
    return make_fleet(pool)


class TestOutOfMemory:
    """Where workloads say how much memory they need, all the memory of a board is a limit."""

    def test_the_one_that_arrives(self) -> None:
        """It requests more than remains: the others continue."""
        fleet = limited()
        first = start(fleet, "card0", "10:0:0", metrics={"memory": "10GiB"})
        advance(fleet, 2)
        second = start(fleet, "all", "10:0:0", metrics={"memory": "7GiB"})
        assert ended(fleet, 3) == [(3, second, 1, "Limit memory_used_bytes reached, terminated")]
        assert list(fleet.workloads.by_id) == [first]
        assert fleet.memory_used_bytes.tolist() == [10 * GIB, 0]

    def test_all_of_it_fits(self) -> None:
        """The total less what is reserved; a page more does not."""
        fleet = limited()
        start(fleet, "card0", "10:0:0", metrics={"memory": "10GiB"})
        start(fleet, "card0", "10:0:0", metrics={"memory": "6GiB"})
        start(fleet, "card1", "10:0:0", metrics={"memory": "100%"})
        assert ended(fleet, 3) == []
        assert fleet.memory_used_bytes.tolist() == [16 * GIB, 16 * GIB]
        late = start(fleet, "card0", "10:0:0", metrics={"memory": "2MiB"})
        assert ended(fleet, 1) == [(4, late, 1, "Limit memory_used_bytes reached, terminated")]

    def test_the_one_that_grows(self) -> None:
        """Not the latest, not the largest."""
        fleet = limited()
        start(fleet, "card0", "10:0:0", metrics={"memory": "8GiB"})
        leak = start(fleet, "card0", "10:0:0", metrics={"memory": "ramp(0,10GiB):0:10"})
        start(fleet, "card0", "10:0:0", metrics={"memory": "2GiB"})
        assert ended(fleet, 20) == [(7, leak, 1, "Limit memory_used_bytes reached, terminated")]

    def test_in_order_of_arrival(self) -> None:
        """Of those that start in one tick those without room are ended, for any size of the others."""
        for sizes, gone in (([6, 6, 6, 6], [2, 3]), ([9, 2, 8], [2]), ([17, 1, 2], [0]), ([2, 17, 15, 1], [1, 2])):
            fleet = limited()
            ids = [start(fleet, "card0", "10:0:0", metrics={"memory": f"{size}GiB"}) for size in sizes]
            assert [workload for _, workload, _, _ in ended(fleet, 3)] == [ids[place] for place in gone]

    def test_who_grows_after_those_who_came(self) -> None:
        """A newcomer that fits stays; the one that grows into the rest of the board is ended."""
        fleet = limited()
        grower = start(fleet, "card0", "10:0:0", metrics={"memory": "ramp(1GiB,9GiB):0:4,9GiB"})
        shrinker = start(fleet, "card0", "10:0:0", metrics={"memory": "5GiB:0:2,1GiB"})
        advance(fleet, 2)
        newcomer = start(fleet, "card0", "10:0:0", metrics={"memory": "8GiB"})
        assert ended(fleet, 4) == [(4, grower, 1, "Limit memory_used_bytes reached, terminated")]
        assert list(fleet.workloads.by_id) == [shrinker, newcomer]

    def test_memory_that_follows_from_load_counts(self) -> None:
        """A workload on a full board is ended though it requests no memory; without the others it would fit."""
        fleet = limited()
        start(fleet, "card0", "10:0:0", metrics={"memory": "15GiB"})
        advance(fleet, 1)
        late = start(fleet, "card0", "50:0:0")
        assert ended(fleet, 2) == [(2, late, 1, "Limit memory_used_bytes reached, terminated")]

    def test_who_leaves_had_its_part_of_the_tick(self) -> None:
        """What the others had in that tick is what it was: their part grows with the next."""
        fleet = limited(BOARD, power_watts=200)
        first = start(fleet, "card0", "60:0:0")
        advance(fleet, 1)
        second = start(fleet, "card0", "60:0:0")
        assert [workload for _, workload, _, _ in ended(fleet, 1)] == [second]
        parts = []
        for _ in range(2):
            parts.append(fleet.workloads.shares().parts.tolist())
            advance(fleet, 1)
        assert (list(fleet.workloads.by_id), parts) == ([first], [[0.5], [0.6]])

    def test_one_verdict_for_several_devices(self) -> None:
        """On both boards it is too much."""
        fleet = limited()
        start(fleet, "all", "10:0:0", metrics={"memory": "9GiB"})
        advance(fleet, 1)
        late = start(fleet, "all", "10:0:0", metrics={"memory": "9GiB"})
        assert [workload for _, workload, _, _ in ended(fleet, 2)] == [late]

    def test_who_ends_anyway_makes_room(self) -> None:
        """Its profile is over in the tick in which there would be too little."""
        fleet = limited()
        done = start(fleet, "card0", "10:0:3", metrics={"memory": "10GiB"})
        advance(fleet, 2)
        start(fleet, "card0", "10:0:0", metrics={"memory": "10GiB"})
        assert ended(fleet, 3) == [(3, done, 0, "OK")]


class TestLimitsOfDevices:
    """Limits that the type gives."""

    def test_named_as_users_see_it(self) -> None:
        """By the metric of the pool's identity; also for memory that follows from the load."""
        fleet = limited(shown_as={"memory_used_bytes": "FB_USED"}, memory_used_bytes=6 * GIB)
        first = start(fleet, "card0", "50:0:0")
        assert ended(fleet, 2) == []
        second = start(fleet, "card0", "50:0:0")
        assert ended(fleet, 2) == [(3, second, 1, "Limit FB_USED reached, terminated")]
        assert first in fleet.workloads.by_id

    def test_of_a_link(self) -> None:
        """What is demanded counts, not what the link can carry."""
        fleet = limited(pcie_tx_bytes_per_second=25e9)
        start(fleet, "card0", "0:0:0", metrics={"pcie-tx": "15GB"})
        advance(fleet, 2)
        late = start(fleet, "card0", "0:0:0", metrics={"pcie-tx": "15GB"})
        assert ended(fleet, 2) == [(3, late, 1, "Limit pcie_tx_bytes_per_second reached, terminated")]

    def test_of_heat(self) -> None:
        """The load that grew most; and no other while it gets cooler."""
        fleet = limited(temperature_celsius=55)
        steady = start(fleet, "card0", "30:0:0")
        advance(fleet, 300)
        ids = [start(fleet, "card0", f"{load}:0:0") for load in (20, 40)]
        other = start(fleet, "card1", "30:0:0")
        told = ended(fleet, 200)
        assert [(workload, text) for _, workload, _, text in told] == [
            (ids[1], "Limit temperature_celsius reached, terminated"),
        ]
        assert list(fleet.workloads.by_id) == [steady, ids[0], other]

    def test_of_power_on_a_device_that_follows_the_load(self) -> None:
        """In the tick in which it is crossed."""
        fleet = limited(BOARD, power_watts=200)
        start(fleet, "card0", "50:0:0")
        advance(fleet, 1)
        late = start(fleet, "card0", "50:0:0")
        assert ended(fleet, 2) == [(2, late, 1, "Limit power_watts reached, terminated")]

    def test_an_idle_device_over_its_limit(self) -> None:
        """Ends no workload: there is none."""
        fleet = limited(BOARD, power_watts=10)
        start(fleet, "card1", "0:0:0")
        assert ended(fleet, 3) == []


class TestOwnLimits:
    """A workload's own limits of what it brings itself."""

    @pytest.mark.parametrize(
        ("fields", "limit", "tick"),
        [
            ({"metrics": {"memory": "ramp(0,10GiB):0:10"}}, {"memory": 4 * GIB}, 5),
            ({"profile": "10:0:3,60:0:0"}, {"usage": 0.5}, 4),
            ({"metrics": {"memory-errors-uncorrectable": 0.5}}, {"memory_errors_uncorrectable": 2}, 6),
            ({"metrics": {"pcie-tx": "steps(1GB,3GB):0:8"}}, {"pcie-tx": 2e9}, 5),
            ({"metrics": {"memory": "ramp(0,17GiB):0:17"}}, {"memory_used_ratio": 0.5}, 10),
            ({"profile": "40:0:0"}, {"memory": 3 * GIB}, 1),
        ],
    )
    def test_its_own_amount(self, fields: dict[str, object], limit: dict[str, float], tick: int) -> None:
        """It is ended in the tick in which that is over the limit, with any other work on the device."""
        fleet = limited()
        start(fleet, "card0", "20:0:0", metrics={"memory": "4500MiB"})
        given_fields = {"devices": "all", "profile": "10:0:0", **fields}
        found = start(fleet, **given_fields, limits=limit)  # type: ignore[arg-type]
        name = next(iter(limit))
        assert ended(fleet, 12) == [(tick, found, 1, f"Limit {name} reached, terminated")]

    def test_of_what_only_a_board_has(self) -> None:
        """The device's power, of all workloads together."""
        fleet = limited()
        found = start(fleet, "card0", "1:0:0", limits={"power": 250})
        assert ended(fleet, 2) == []
        start(fleet, "card0", "90:0:0")
        assert ended(fleet, 2) == [(3, found, 1, "Limit power reached, terminated")]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["card0", "card1", "all"]),
            st.sampled_from(["1GiB", "5GiB", "ramp(0,9GiB):0:5", "increase(0,9GiB,1):0:9", "random(0,6GiB,1)"]),
            st.integers(0, 6),
        ),
        max_size=8,
    )
)
def test_demand_always_fits_after_a_tick(several: list[tuple[str, str, int]]) -> None:
    """The remaining workloads never hold more than there is; none is ended while all fit."""
    fleet = limited()
    for tick in range(10):
        for devices, memory, at in several:
            if at == tick:
                start(fleet, devices, "10:0:0", metrics={"memory": memory})
        told = fleet.advance()
        held = fleet.workloads.shares()
        left = held.by_device(held.of("memory_used_bytes"))
        assert (left <= 16 * GIB * (1 + 1e-9)).all()
        if told:
            assert (fleet.memory_used_bytes == 16 * GIB).any()
            assert {verdict.text for verdict in told} == {"Limit memory_used_bytes reached, terminated"}
