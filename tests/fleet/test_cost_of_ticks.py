"""What a tick costs, counted in draws, arrays and words: many faults and workloads cost little more than few."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

import numpy as np
import pytest

from fakedev.base.errors import Refused
from fakedev.base.steps import result_of
from fakedev.fleet.entities import selectors
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.selectors import resolve
from fakedev.fleet.faults import faults as faults_module
from fakedev.fleet.faults.faults import Faults
from fakedev.fleet.faults.page_faults import FROZEN_TIMES
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.journal import JournalEntry
from fakedev.fleet.workloads import table
from fakedev.fleet.workloads.running import WorkShares
from tests.support.fleet.faulty_fleets import boards_of, inject
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start


def counting(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []
    real = getattr(where, name)

    def counted(*arguments: Any, **more: Any) -> Any:
        calls.append(arguments)
        return real(*arguments, **more)

    monkeypatch.setattr(where, name, counted)
    return calls


def faulty(count: int, **fields: Any) -> Fleet:
    fleet = make_fleet(pool_of(nodes=16, devices_per_node=8))
    for _ in range(count):
        inject(fleet, **{"devices": "all", **fields})
    return fleet


def test_calls_of_a_quiet_tick() -> None:
    """What does not change in a tick is not made again: relations, memory, journal and the fleet itself make few calls.

    The boards' physics, workloads and links are not counted.
    """
    fleet = make_fleet(boards_of("h100", devices=8))
    for device in range(8):
        start(fleet, f"dgx-0/{device}", "60:10:120,20:5:60", repeat=0)
    advance(fleet, 5)
    counts: Counter[str] = Counter()
    others = "fleet/boards/", "fleet/links/", "fleet/spec/", "fleet/workloads/"

    def note(frame: FrameType, what: str, _argument: object) -> None:
        path = frame.f_code.co_filename.rpartition("fakedev/")[2]
        if what in ("call", "c_call") and path.startswith(("fleet/", "base/steps")) and not path.startswith(others):
            counts[path] += 1

    sys.setprofile(note)
    try:
        fleet.advance()
    finally:
        sys.setprofile(None)
    assert counts["fleet/devices/relations.py"] <= 30, counts
    assert counts["fleet/journal.py"] <= 17, counts
    assert counts.pop("base/steps.py") <= 16, counts
    assert counts.total() <= 110, counts  # with those that go on after a step


class TestFaults:
    @pytest.mark.slow
    def test_faults_of_few_devices_are_drawn_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fleet = make_fleet(pool_of(nodes=16, devices_per_node=8))
        ids = [inject(fleet, kind="nan", devices=f"dgx-{n % 16}/{n % 8}", probability=0.5) for n in range(1000)]
        draws = counting(monkeypatch, faults_module, "uniform")
        advance(fleet, 3)
        assert len(draws) == 3
        alone = make_fleet(pool_of(nodes=16, devices_per_node=8))
        for fault_id in ids[:20]:
            fault = fleet.faults.by_id[fault_id]
            assert inject(alone, kind="nan", devices=fault.spec.devices[0], probability=0.5) == fault_id
        advance(alone, 3)
        assert [each.on.tolist() for each in alone.faults.by_id.values()] == [
            fleet.faults.by_id[fault_id].on.tolist() for fault_id in ids[:20]
        ]

    @pytest.mark.parametrize("kind", ["nan", "sentinel"])
    def test_series_are_written_once(self, kind: str) -> None:
        """Fifty faults that change the series of all devices copy each array once, as one such fault does."""
        copies = []

        class Counted(np.ndarray):  # type: ignore[type-arg]
            def copy(self, *arguments: Any) -> Any:
                copies.append(1)
                return np.array(self).view(Counted)

        found = []
        for count in (1, 50):
            fleet = faulty(count, kind=kind, probability=0.9, **({"value": 7} if kind == "sentinel" else {}))
            advance(fleet, 1)
            level = fleet.state.levels["unit"]
            level.arrays.update({name: array.view(Counted) for name, array in level.arrays.items()})  # type: ignore[attr-defined]
            copies.clear()
            result_of(fleet._exporter_faults.shown(level, level, fleet.faults, 0.0, 0.0))
            found.append(len(copies))
        assert found[0] == found[1] <= len(level.arrays)

    def test_frozen_series_are_kept_for_their_devices(self) -> None:
        fleet = faulty(20, kind="frozen", devices="dgx-0/0")
        advance(fleet, 2)
        kept = fleet._exporter_faults._frozen.values()
        assert len(kept) == 20
        sizes = [array.size for each in kept for array in each.values.values()]
        names = len(fleet.state.levels["unit"].arrays) + len(FROZEN_TIMES)
        assert sum(sizes) <= 20 * names

    def test_words_of_the_journal(self) -> None:
        """The journal names the devices of a tick within bounds: many faults at random fill no megabytes."""
        told: list[JournalEntry] = []
        fleet = make_fleet(pool_of(nodes=128, devices_per_node=8))
        fleet.journal.tell = told.extend
        for _ in range(60):
            inject(fleet, kind="nan", devices="all", probability=0.5)
        told.clear()
        advance(fleet, 1)
        sizes = [each.size for each in told]
        assert len(told) == 60
        assert 2**16 < sum(sizes) < 2**16 + max(sizes)
        assert sizes[0] and not sizes[-1]

    def test_causes_are_found_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Faults that hit each device in another combination make a bounded number of entries, from one search."""
        fleet = make_fleet(boards_of("h100", nodes=64, devices=8))
        for _ in range(20):
            inject(fleet, kind="hang", devices="all", probability=0.5)
        searches = counting(monkeypatch, Faults, "behind_each")
        advance(fleet, 1)
        entries = [each for each in fleet.journal.last(10_000) if each.kind == "hung"]
        assert (len(searches), len(entries)) == (1, 256)
        assert [bool(entry.cause) for entry in entries] == [True] * 255 + [False]


class TestWorkloads:
    def test_noise_of_loads_that_do_not_fluctuate(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fleet = make_fleet(pool_of(nodes=4))
        start(fleet, "all", "50")
        start(fleet, "dgx-0/0", "50:5")
        start(fleet, "dgx-1/*", "50", metrics={"pcie-tx": "20%:5%"})
        first = counting(monkeypatch, table, "first_noise")
        advance(fleet, 1)
        draws = counting(monkeypatch, table, "next_noise")
        advance(fleet, 1)
        assert [len(keys) for _, keys, *_ in first] == [len(noise) for noise, *_ in draws] == [1 + 4]

    def test_limits_of_one_workload(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fleet = make_fleet(pool_of(nodes=32))
        for _ in range(4):
            start(fleet, "all", "50")
        start(fleet, "dgx-3/1", "50", limits={"usage_ratio": 2, "pcie_tx_bytes_per_second": 1e18, "power": 1e9})
        advance(fleet, 1)
        looks = counting(monkeypatch, WorkShares, "of")
        advance(fleet, 1)
        assert sorted(len(pairs) for _, _, pairs in looks) == [1, 1]


def calls_of_a_tick(fleet: Fleet, *names: str) -> int:
    """The Python functions of the simulation that a tick calls; with names only those."""
    count = 0

    def note(frame: FrameType, what: str, _argument: object) -> None:
        nonlocal count
        code = frame.f_code
        count += what == "call" and "fakedev/" in code.co_filename and (not names or code.co_name in names)

    sys.setprofile(note)
    try:
        fleet.advance()
    finally:
        sys.setprofile(None)
    return count


class TestThousands:
    def fleet_of(self, count: int) -> Fleet:
        """Some workloads with a pod, each on a board of its own, that wait for the tick in which they start."""
        fleet = make_fleet(pool_of(nodes=count // 8, devices_per_node=8))
        for number in range(count):
            start(fleet, f"dgx-{number // 8}/{number % 8}", "50:5:2", pod=f"p{number}")
        return fleet

    @pytest.mark.slow
    def test_starts_and_ends(self) -> None:
        """The tick calls next to nothing for each: a start was made by its event, the books of an end can wait."""
        starts, ends = [], []
        for count in (8, 808):
            fleet = self.fleet_of(count)
            starts.append(calls_of_a_tick(fleet))
            ends.append(calls_of_a_tick(fleet))
            assert fleet.workloads.by_id == {}
        for few, many in (starts, ends):
            assert (many - few) / 800 <= 2

    def test_what_can_wait(self) -> None:
        """It is done at the first use, or when the fleet is told to: what is shown does not depend on that."""
        shown = []
        for is_told in (False, True):
            fleet = self.fleet_of(16)
            advance(fleet, 2)
            if is_told:
                fleet.settle()
            shown.append((fleet.limits(), fleet.journal.last(100)))
            assert calls_of_a_tick(fleet, "remove_all") == 0
        assert shown[0] == shown[1]
        limits, entries = shown[0]
        assert limits["workload-devices"][0] == 0
        assert [entry.kind for entry in entries] == ["start"] * 16 + ["ended"] * 16


@pytest.mark.parametrize("pattern", ["*a*a*a*b", "*[0-9]*[0-9]b", "*?*?b", "*[0-9][0-9][0-9]b", "a[0-9]*1*b"])
def test_steps_of_a_pattern_grow_with_the_name(monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    steps = counting(monkeypatch, selectors._Glob, "_rest")
    counts = []
    for length in (100, 200):
        steps.clear()
        assert not selectors._matcher(pattern)(("a" if "a*" in pattern else "1") * length)
        counts.append(len(steps))
    assert counts[1] <= 2.2 * counts[0]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a*b*c", ["abc", "a-b-c", "abbc"]),
        ("*", ["", "abc", "a-b-c", "abbc", "a12", "a3", "b12"]),
        ("a[1-3]", ["a3"]),
        ("?1?", ["a12", "b12"]),
        ("*[12-12]", []),
        ("*[1-2]", ["a12", "b12"]),
        ("[0-9]", []),
    ],
)
def test_matches(pattern: str, names: list[str]) -> None:
    """Each wildcard takes as much as it can, before numbers are compared."""
    every = ["", "abc", "a-b-c", "abbc", "a12", "a3", "b12"]
    assert [name for name in every if selectors._matcher(pattern)(name)] == names


def test_a_pattern_that_no_name_can_fit_is_refused() -> None:
    with pytest.raises(Refused, match="longer than 300 characters"):
        resolve([f"{'a' * 300}*"], Roster([pool_of()]))
