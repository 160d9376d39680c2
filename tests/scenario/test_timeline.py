"""Timelines: when entries occur, and on which devices; what is drawn depends on the seed and the entry alone."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.spec.fleet_spec import FaultSpec
from fakedev.scenario.entries import Entry, Inject, Occurrence, Run, Span, Speed, When
from fakedev.scenario.timeline import Impossible, occurrences_of, planned_ends
from tests.support.configurations import loaded as loaded_configuration
from tests.support.scenarios import loaded

TEXT = "fleet: {pools: [{name: p, nodes: [a, b], device: h100, devices-per-node: 4}]}"


@pytest.fixture(scope="module")
def roster() -> Roster:
    """Two nodes of four boards."""
    return Roster(loaded_configuration(TEXT).fleet.pools)


def entry(name: str = "", device: str = "a/0", **when: object) -> Entry:
    return Entry(name, When(**when), Inject(FaultSpec("fan", (device,), duration_seconds=1.0)))  # type: ignore[arg-type]


def times(found: tuple[Occurrence, ...]) -> list[float]:
    return [each.seconds for each in found]


def test_once_again_and_after(roster: Roster) -> None:
    """At a time; so often, as long as there is time; after each occurrence of another entry."""
    at = Span(600, 600)
    assert times(occurrences_of([entry(at=at)], 3600, 1, roster)) == [600]
    every = entry("e", at=at, every=Span(900, 900))
    assert times(occurrences_of([every], 3600, 1, roster)) == [600, 1500, 2400, 3300]
    assert times(occurrences_of([entry(at=at, every=Span(900, 900), times=2)], 3600, 1, roster)) == [600, 1500]
    ended = entry(at=at, every=Span(900, 900), until_seconds=2400)
    assert times(occurrences_of([ended], 3600, 1, roster)) == [600, 1500]
    after = entry(after="e", delay=Span(60, 60))
    assert times(occurrences_of([after, every], 3600, 1, roster)) == [600, 660, 1500, 1560, 2400, 2460, 3300, 3360]


def test_same_time_in_the_order_of_the_file(roster: Roster) -> None:
    """Two entries at one time occur in the order in which they are written."""
    first, second = entry("first", at=Span(5, 5)), entry("second", "a/1", at=Span(5, 5))
    assert [each.entry.name for each in occurrences_of([second, first], 10, 1, roster)] == ["second", "first"]


@given(seed=st.integers(0, 2**63 - 1), more=st.integers(0, 3))
def test_draws(seed: int, more: int) -> None:
    """Drawn times are within their ends, drawn devices are of the fleet; other entries change neither."""
    fleet = Roster(loaded_configuration(TEXT).fleet.pools)
    drawn = entry("drawn", "any", at=Span(100, 200), every=Span(50, 400))
    others = [entry(f"other {number}", "b/any", at=Span(0, 3000)) for number in range(more)]
    found = occurrences_of([*others, drawn], 3600, seed, fleet)
    alone = occurrences_of([drawn], 3600, seed, fleet)
    of_drawn = tuple(each for each in found if each.entry is drawn)
    assert of_drawn == alone == occurrences_of([drawn], 3600, seed, fleet)
    assert 100 <= alone[0].seconds <= 200
    gaps = [after.seconds - before.seconds for before, after in pairwise(alone)]
    assert all(49.9 <= gap <= 400.1 for gap in gaps)
    names = {fleet.unit_name(unit) for unit in range(fleet.device_count)}
    for each in found:
        assert isinstance(each.action, Inject)
        assert set(each.action.fault.devices) <= names
        assert each.entry is drawn or each.action.fault.devices[0].startswith("b/")


def test_draws_differ(roster: Roster) -> None:
    drawn = entry("drawn", "any", at=Span(0, 3600))
    assert len({occurrences_of([drawn], 3600, seed, roster)[0].seconds for seed in range(20)}) == 20
    again = occurrences_of([entry("drawn", "any", at=Span(0, 0), every=Span(10, 10))], 3600, 1, roster)
    devices = {each.action.fault.devices for each in again if isinstance(each.action, Inject)}
    assert len(devices) == 8


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([entry("a", after="b"), entry("b", after="a")], "occurs after itself: a after b"),
        ([entry("a", after="c")], "no entry is called 'c'"),
        ([entry("a", at=Span(3600, 3600))], "never occurs before the end, 3600 s after the start"),
        ([entry("a", at=Span(0, 0), every=Span(0.01, 0.01))], "more than 100000 occurrences: repeat it less often"),
        ([entry("a", "c/any", at=Span(0, 0))], "devices: no node 'c'"),
    ],
)
def test_impossible(entries: list[Entry], reason: str, roster: Roster) -> None:
    with pytest.raises(Impossible) as told:
        occurrences_of(entries, 3600, 1, roster)
    assert reason in str(told.value)


def test_words_and_kinds(tmp_path: Path) -> None:
    """People see entries in the words of the ports."""
    scenario = loaded(
        tmp_path,
        """
  - {at: 0s, as: llm, run: {name: train, devices: "dgx-0/[0-1]", profile: 90:1:0}, for: 5m}
  - {at: 1m, as: x, fault: {kind: xid, code: 79, devices: dgx-0/2}}
  - {at: 1m, fault: {kind: node-down, node: dgx-0, duration: 1m}}
  - {at: 3m, clear: x}
  - {at: 4m, stop: llm}
  - {at: 6m, speed: 60}
""",
    ).scenario
    assert [(each.kind, each.words) for each in scenario.entries] == [
        ("run", "run train on dgx-0/[0-1]"),
        ("fault", "fault xid code=79 on dgx-0/2"),
        ("fault", "fault node-down on dgx-0"),
        ("clear", "clear x"),
        ("stop", "stop llm"),
        ("speed", "speed 60"),
    ]
    assert isinstance(scenario.entries[0].action, Run)
    assert scenario.entries[5].action == Speed(60.0)
    ends = [occurrence for occurrence in scenario.occurrences if occurrence.is_end]
    assert [(end.seconds, end.entry.name) for end in ends] == [(300.0, "llm")]


def test_planned_ends(tmp_path: Path) -> None:
    """The end that the timeline plans: a time of its own, or a clear or stop to come; none for what lasts on."""
    occurrences = loaded(
        tmp_path,
        """
  - {at: 1s, as: llm, run: {name: train, devices: dgx-0/0, profile: 90:1:0}, for: 5m}
  - {at: 2s, run: {name: other, devices: dgx-0/0, profile: 90:1:0}}
  - {at: 3s, run: {name: on, devices: dgx-0/0, profile: 90:1:0}}
  - {at: 4s, as: hot, fault: {kind: fan, devices: dgx-0/0, start: 5s, duration: 1m}}
  - {at: 5s, as: hot-2, fault: {kind: fan, devices: dgx-0/1, duration: 5m}}
  - {at: 6s, fault: {kind: hang, devices: dgx-0/1}}
  - {at: 7s, fault: {kind: reset, devices: dgx-0/2}}
  - {at: 8s, fault: {kind: xid, code: 31, devices: dgx-0/2}}
  - {at: 9s, fault: {kind: xid, code: 79, devices: dgx-0/2}}
  - {at: 10s, fault: {kind: reset, devices: dgx-0/2, every: 1m}}
  - {at: 90s, clear: hot-2}
  - {at: 95s, stop: other}
  - {at: 100s, clear: all}
  - {at: 105s, fault: {kind: hang, devices: dgx-0/3}}
""",
    ).scenario.occurrences
    ends = {occurrence.seconds: end for occurrence, end in zip(occurrences, planned_ends(occurrences), strict=True)}
    assert ends == {
        1: 301, 2: 95, 3: None, 4: 69, 5: 90, 6: 100, 7: 7, 8: 8, 9: 100, 10: 100, 90: None, 95: None, 100: None,
        105: None, 301: None,
    }  # fmt: skip
