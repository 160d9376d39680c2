"""Profiles of pools: the work and the faults of each pool are its own, wherever it is in the file."""

from __future__ import annotations

from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.events import Reload
from fakedev.sim.fleet import Fleet
from fakedev.spec.fleet import FleetSpec
from fakedev.spec.record_head import RecordHead
from tests.support.configurations import loaded
from tests.support.fleets import advance
from tests.support.histories import shown_of

OWN = "{name: a, nodes: [n-1, n-2], devices-per-node: 2, device: h100, profile: [faulty, chaos]}"
GROWN = OWN.replace("[n-1, n-2]", "[n-0, n-1, n-2, n-3]")
OTHER = "{name: b, nodes: 2, device: h100, profile: chaos}"
TICKS = 40
#: States have sums of all that was before: not every tick need be compared.
STEP = 5


def specification(*pools: str) -> FleetSpec:
    """The fleet of some pools."""
    return loaded(f"fleet: {{pools: [{', '.join(pools)}]}}\nweb: []\nworkloads: {{listen: []}}\n").fleet


def test_a_pool_before_it() -> None:
    """Its work and faults are the same, with the same ids; so they are behind another one."""
    alone, behind, before = (Fleet(specification(*pools)) for pools in ((OWN,), (OTHER, OWN), (OWN, OTHER)))
    struck = 0
    for _ in range(TICKS // STEP):
        for fleet in (alone, behind, before):
            advance(fleet, STEP)
        expected = shown_of(alone, ["n-1", "n-2"])
        assert shown_of(behind, ["n-1", "n-2"]) == expected
        assert shown_of(before, ["n-1", "n-2"]) == expected
        struck += sum(len(each["on"]) for each in expected["faults"].values())
    assert struck > 5


def test_nodes_come_and_go() -> None:
    """A reload that adds nodes to the pool, in front and behind, or removes them, changes nothing for the others."""
    quiet, fleet = Fleet(specification(OWN)), Fleet(specification(OWN))
    first = list(fleet.faults.by_id)
    for tick in range(TICKS):
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
