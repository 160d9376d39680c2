"""Limits of devices: which workload ends, with which reason; and limits of workloads, on their own demands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.fleet.workloads.limit_rows import LimitRows
from fakedev.fleet.workloads.workload import Limit
from tests.fleet.workloads.test_metric_uses import GIB, LINKED
from tests.support.fleet.fleets import BOARD, advance, ended, make_fleet, pool_of, start


def limited(device: DeviceType = LINKED, shown_as: dict[str, str] | None = None, **limits: float) -> Fleet:
    pool = pool_of(device_type=replace(device, limits=limits), devices_per_node=2, shown_as=shown_as or {})
    return make_fleet(pool)


class TestOutOfMemory:
    @pytest.mark.parametrize(
        ("first", "ticks", "late"),
        [
            ([("card0", "10GiB")], 2, ("all", "10:0:0", "7GiB")),
            ([("card0", "10GiB"), ("card0", "6GiB"), ("card1", "100%")], 3, ("card0", "10:0:0", "2MiB")),
            ([("all", "9GiB")], 1, ("all", "10:0:0", "9GiB")),
            ([("card0", "15GiB")], 1, ("card0", "50:0:0", "")),
        ],
        ids=["more than remains", "one page more", "on both boards", "as its load needs"],
    )
    def test_the_one_that_arrives(
        self, first: list[tuple[str, str]], ticks: int, late: tuple[str, str, str]
    ) -> None:
        """It ends in its first tick, with one verdict; the others continue, and may have all that is not reserved."""
        fleet = limited()
        ids = [start(fleet, devices, "10:0:0", metrics={"memory": memory}) for devices, memory in first]
        assert ended(fleet, ticks) == []
        held = fleet.memory_used_bytes.tolist()
        devices, profile, memory = late
        gone = start(fleet, devices, profile, metrics={"memory": memory} if memory else {})
        assert ended(fleet, 3) == [(ticks + 1, gone, 1, "Limit memory_used_bytes reached, terminated")]
        assert list(fleet.workloads.by_id) == ids
        assert fleet.memory_used_bytes.tolist() == held

    def test_the_one_that_grows(self) -> None:
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

    def test_who_ends_anyway_makes_room(self) -> None:
        fleet = limited()
        done = start(fleet, "card0", "10:0:3", metrics={"memory": "10GiB"})
        advance(fleet, 2)
        start(fleet, "card0", "10:0:0", metrics={"memory": "10GiB"})
        assert ended(fleet, 3) == [(3, done, 0, "OK")]


class TestLimitsOfDevices:
    @pytest.mark.parametrize(
        ("device", "limit", "work", "shown"),
        [
            (LINKED, {"memory_used_bytes": 6 * GIB}, {"profile": "50:0:0"}, "FB_USED"),
            (LINKED, {"pcie_tx_bytes_per_second": 25e9}, {"metrics": {"pcie-tx": "15GB"}}, "pcie_tx_bytes_per_second"),
            (BOARD, {"power_watts": 200}, {"profile": "50:0:0"}, "power_watts"),
        ],
    )
    def test_in_the_tick_in_which_it_is_crossed(
        self, device: DeviceType, limit: dict[str, float], work: dict[str, Any], shown: str
    ) -> None:
        """By what is demanded, not what the link can carry; named by the metric of the pool's identity."""
        fleet = limited(device, shown_as={"memory_used_bytes": "FB_USED"}, **limit)
        first = start(fleet, "card0", **work)
        assert ended(fleet, 2) == []
        second = start(fleet, "card0", **work)
        assert ended(fleet, 2) == [(3, second, 1, f"Limit {shown} reached, terminated")]
        assert list(fleet.workloads.by_id) == [first]

    def test_an_idle_device_over_its_limit(self) -> None:
        fleet = limited(BOARD, power_watts=10)
        start(fleet, "card1", "0:0:0")
        assert ended(fleet, 3) == []

    @pytest.mark.slow
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


class TestOwnLimits:
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
        fleet = limited()
        start(fleet, "card0", "20:0:0", metrics={"memory": "4500MiB"})
        given_fields = {"devices": "all", "profile": "10:0:0", **fields}
        found = start(fleet, **given_fields, limits=limit)  # type: ignore[arg-type]
        name = next(iter(limit))
        assert ended(fleet, 12) == [(tick, found, 1, f"Limit {name} reached, terminated")]

    def test_of_what_only_a_board_has(self) -> None:
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


LIMITS = st.builds(Limit, st.just("m"), st.sampled_from("pqr"), st.just(1.0), st.floats(0, 9))
TABLES = st.lists(st.lists(LIMITS, max_size=3), max_size=4)


def said(rows: LimitRows) -> list[list[tuple[int, int, float]]]:
    """(workload, order, value) of the rows of each quantity."""
    return [
        list(zip(*(column[places].tolist() for column in (rows.workload, rows.order, rows.value)), strict=True))
        for _, places in sorted(rows.by_quantity.items())
    ]


@given(TABLES, TABLES, st.data())
def test_joined_and_kept(first: list[list[Limit]], second: list[list[Limit]], data: st.DataObject) -> None:
    both = [*first, *second]
    keep = data.draw(st.lists(st.booleans(), min_size=len(both), max_size=len(both)))
    rows = LimitRows.of(first).joined(LimitRows.of(second), len(first)).kept(np.array(keep, dtype=np.bool_))
    alone = LimitRows.of([each for each, stays in zip(both, keep, strict=True) if stays])
    assert said(rows) == said(alone)
    assert len(rows) == len(alone)
    assert rows.by_quantity.keys() == alone.by_quantity.keys()
