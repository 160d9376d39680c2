"""Faults beside each other: labels that stay, causes in the journal, and many of them."""

from __future__ import annotations

import pytest

from fakedev.sim.explanation import explain
from tests.support.faulty_fleets import boards_of, busy, cleared, inject
from tests.support.fleets import advance, labels_of, make_fleet, start, stop


class TestLabels:
    """Labels that stay."""

    def test_stale_labels(self) -> None:
        """The pod of work that is over stays until the fault is."""
        fleet = make_fleet()
        work = start(fleet, "card0,card1", pod="gone")
        advance(fleet, 1)
        fault = inject(fleet, kind="stale-labels", devices="dgx-0/0")
        advance(fleet, 1)
        stop(fleet, work)
        advance(fleet, 1)
        assert labels_of(fleet, "dgx-0", ["pod"])[:2] == [("gone",), ("",)]
        start(fleet, "card0", pod="new")
        advance(fleet, 1)
        cleared(fleet, fault)
        assert labels_of(fleet, "dgx-0", ["pod"])[:2] == [("new",), ("",)]


def test_the_journal_tells_causes_apart() -> None:
    """Devices that show the same from one tick on, for different faults or for none, are separate entries."""
    fleet = make_fleet(boards_of("h100", devices=4))
    for devices in ("dgx-0/0,dgx-0/2", "dgx-0/1"):
        inject(fleet, kind="lost", devices=devices)
    advance(fleet, 1)
    assert [(each.scope, each.cause) for each in fleet.journal.last(9, ("lost",))] == [
        ("dgx-0/0, dgx-0/2", "f1"), ("dgx-0/1", "f2"),
    ]  # fmt: skip
    cleared(fleet, "f1", 1)
    inject(fleet, kind="inlet", devices="dgx-0/3", celsius=5)
    start(fleet, "all", "100:0:0", kind="tensor")
    advance(fleet, 30)
    began = [(each.scope, each.cause) for each in fleet.journal.last(99, ("throttled_power",))]
    assert all(cause in ("", "f3") for _, cause in began)
    assert {cause for scope, cause in began if "dgx-0/3" in scope} == {""}, "heat does not lower the power limit"


def test_many_faults_are_looked_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An explanation looks at all faults in one calculation: with the same outcome as one by one."""
    fleet = busy(2)
    for number in range(200):
        kind = ("fan", "xid", "stale-labels", "lost")[number % 4]
        code = {"code": 79} if kind == "xid" else {}
        inject(fleet, kind=kind, devices=f"dgx-{number // 4 % 2}/{number % 3}", probability=0.5, every="2s", **code)
    advance(fleet, 3)
    faults = fleet.faults
    for unit in range(fleet.roster.device_count):
        near = faults.near(unit)
        assert near.now == [each for each in faults.by_id.values() if unit in each.concerned]
        assert near.changed == [change.fault for change in faults.changes if unit in change.devices]
    calls: list[int] = []
    owner = fleet.roster.parts.owner
    monkeypatch.setattr(type(fleet.roster.parts), "owner", lambda parts, unit: calls.append(unit) or owner(unit))
    explain(fleet, 1)
    assert len(calls) < 20
