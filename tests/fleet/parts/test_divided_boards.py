"""Boards that are divided while the fleet runs: each change is an event, and other boards are undisturbed."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from fakedev.base.errors import Refused
from fakedev.fleet.events import DivideBoard, Stamped, event_from_fields, event_to_fields
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.parts.mig import Instance
from fakedev.fleet.record import event_line
from fakedev.fleet.spec.fleet_spec import FleetSpec, NodeSpec, PoolSpec
from tests.support.fleet.calibration import mean_type
from tests.support.fleet.fleets import advance, ended, make_fleet, pool_of, start

HALVES = (Instance("3g.40gb", 4), Instance("1g.10gb", 0, computes=False))


def pool() -> PoolSpec:
    nodes = tuple(NodeSpec(name) for name in ("a", "b", "c"))
    return replace(pool_of(device_type=mean_type("h100"), devices_per_node=2), nodes=nodes)


def divide(fleet: Fleet, node: str, index: int, instances: tuple[Instance, ...] | None) -> Stamped:
    stamped = fleet.apply(DivideBoard(node, index, instances))
    fleet.advance()
    return stamped


def parts(fleet: Fleet) -> dict[str, list[str]]:
    return {
        f"{node.name}/{index}": [part.key for part in node.pool.parts_of(index)]
        for node in fleet.roster.nodes for index in range(len(node.devices)) if node.pool.parts_of(index)
    }  # fmt: skip


def test_instances_come_and_go() -> None:
    """The order of the nodes stays; work on the divided board ends, and other boards show what they would have."""
    fleet, other = make_fleet(pool()), make_fleet(pool())
    for each in (fleet, other):
        start(each, "b/0")
        start(each, "b/1")
        start(each, "c/0")
        advance(each, 3)
    fleet.apply(DivideBoard("b", 0, HALVES))
    assert len(ended(fleet)) == 1
    advance(other, 1)
    assert [node.name for node in fleet.roster.nodes] == ["a", "b", "c"]
    assert parts(fleet) == {"b/0": ["mig-2-3g.40gb", "mig-7-1g.10gb"]}
    boards = [0, 1, 3, 4, 5]
    power = [each.state.levels["device"].arrays["power_watts"][boards] for each in (fleet, other)]
    assert np.array_equal(*power)
    divide(fleet, "c", 1, ())
    divide(fleet, "b", 0, None)
    assert parts(fleet) == {}
    modes = {node.name: [facts.get("mig_mode") for facts in fleet.roster.facts(1, node)] for node in fleet.roster.nodes}
    assert modes["b"] == ["0", modes["a"][1]]
    assert modes["c"][1] == "1"


@pytest.mark.parametrize(
    ("node", "index", "instances", "text"),
    [
        ("x", 0, (), "there is no board x/0"),
        ("a", 2, (), "there is no board a/2"),
        ("a", 0, (Instance("9g.1gb", 0),), "the board has no profile 9g.1gb"),
        ("a", 0, (Instance("3g.40gb", 1),), "there is no place for 3g.40gb at 1"),
        ("a", 0, (*HALVES, Instance("4g.40gb", 0)), "there is no place for 4g.40gb at 0"),
    ],
)
def test_impossible_divisions_change_nothing(
    node: str, index: int, instances: tuple[Instance, ...], text: str
) -> None:  # fmt: skip
    records: list[Stamped] = []
    fleet = Fleet(FleetSpec((pool(),)), records.append)
    with pytest.raises(Refused) as refused:
        fleet.apply(DivideBoard(node, index, instances))
    assert text in refused.value.text
    assert records == []


def test_boards_without_mig() -> None:
    with pytest.raises(Refused, match=r"cannot be divided: .* has no MIG"):
        make_fleet(pool_of()).apply(DivideBoard("dgx-0", 0, ()))


@pytest.mark.parametrize("instances", [None, (), HALVES])
def test_a_record_has_it(instances: tuple[Instance, ...] | None) -> None:
    stamped = Stamped(3, 1, DivideBoard("a", 1, instances))
    assert event_from_fields(json.loads(event_line(stamped))) == stamped
    for wrong in ([["3g.40gb", 4]], "3g", [["x", -1, True]]):
        with pytest.raises(Refused):
            event_from_fields(event_to_fields(stamped) | {"instances": wrong})
