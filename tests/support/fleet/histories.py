"""Random pools with all that happens on each, and everything that a node shows: to compare fleets bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from fakedev.base.errors import Refused
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.events import Event, InjectFault, StartWorkload
from fakedev.fleet.faults.page_faults import FROZEN_TIMES
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fault_kinds import KINDS, fault_from_fields
from fakedev.fleet.spec.fleet_spec import ChurnKind, ChurnSpec, FaultSpec, FleetSpec, PoolSpec
from fakedev.fleet.spec.workload_fields import workload_from_fields
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.divided_devices import ROUND_PARTS, parts_of
from tests.support.fleet.fleets import BOARD, pool_of, workload
from tests.support.fleet.shards import page

#: Boards with links, with tiles, with instances, without dynamics, with limits of the device; and their parts.
TYPES: Final = {
    "h100": (catalog_type("h100"), ()),
    "l40s": (catalog_type("l40s"), ()),
    "max-1550": (catalog_type("intel-max-1550"), ()),
    "mig": (catalog_type("a100-sxm4-40gb"), parts_of("3g.20gb", "2g.10gb", "1g.5gb")),
    "round": (BOARD, ()),
    "divided": (BOARD, ROUND_PARTS),
    "odd": (replace(BOARD, memory_total_bytes=0, memory_page_bytes=1, limits={"power_watts": 240.0}), ()),
}
_CHURN: Final = ChurnSpec(
    0.3,
    (
        ChurnKind(workload(name="come", profile="80:20", repeat=0), 2.0, 9.0, counts=(1, 2)),
        ChurnKind(workload(name="other", profile="33.3:20", kind="memory", metrics={"memory": "20%"}), 1.0, 5.0),
    ),
)
_KINDS: Final = ("compute", "tensor", "memory", "transfer", "exchange", "encode", "render")
#: Loads that no float has exactly, so that every other order of a sum has another last digit.
_PROFILES: Final = (
    "33.3:20:0", "10.1:9.7:3,27.7:3:2", "random(0.1,40.3,2):0:9", "17.9", "increase(7,29,3):7:20", "sine(20.3,15,7):3",
    "11.3:5:2:1.5:once,27.7:3:1.7:2,ramp(5,31.1):4:2.3:1.3", "9.9:2:1.3:once,daily(7.7,33.1):5",
)  # fmt: skip
_METRICS: Final[tuple[dict[str, Any], ...]] = (
    {}, {}, {}, {"memory": "11%"}, {"memory": [[3 * 2**28, 0, 4], [2**28, 0, 0]]}, {"tensor": "7.7%:3%:0"},
    {"memory-bandwidth": "13%"}, {"pcie-rx": "9.1%"}, {"fabric-tx": "7%:2%:0", "fabric-rx": "5%"},
    {"memory-errors-correctable": "0.3"},
)  # fmt: skip


@dataclass(frozen=True)
class Scene:
    """A pool with all that happens on it.

    :ivar base, faults: of the configuration.
    :ivar events: of each tick.
    """

    pool: PoolSpec
    base: tuple[WorkloadSpec, ...]
    faults: tuple[FaultSpec, ...]
    events: tuple[tuple[Event, ...], ...]


@st.composite
def pools(draw: st.DrawFn, name: str) -> PoolSpec:
    """A pool of any boards."""
    board, parts = TYPES[draw(st.sampled_from(sorted(TYPES)))]
    return pool_of(
        name,
        nodes=draw(st.integers(1, 3)),
        device_type=board,
        devices_per_node=draw(st.integers(1, 3)),
        parts=parts,
        inlet_celsius=draw(st.sampled_from((None, None, 30.0, 70.0))),
        churn=draw(st.sampled_from((None, None, _CHURN))),
    )


def words_of(*on: PoolSpec) -> st.SearchStrategy[list[str]]:
    """Device words that name only devices of some pools."""
    names = [node.name for pool in on for node in pool.nodes]
    single = [f"{name}/{device}" for name in names for device in ("0", "*", "*/0", "0/*", "*/1")]
    groups = [f"{pool.name}-*/{device}" for pool in on for device in ("*", "0", "even", "*/*")]
    word = st.one_of(st.sampled_from(single), st.sampled_from(groups))
    return st.lists(word, min_size=1, max_size=3, unique=True)


@st.composite
def workloads(draw: st.DrawFn, *on: PoolSpec, kinds: Sequence[str] = _KINDS) -> WorkloadSpec:
    """A workload on devices of some pools; many have the same name."""
    fields: dict[str, Any] = {"name": draw(st.sampled_from("ab")), "devices": draw(words_of(*on))}
    fields["profile"] = draw(st.sampled_from(_PROFILES))
    fields["repeat"] = draw(st.sampled_from((0, 1)))
    fields["kind"] = draw(st.sampled_from(kinds))
    for key, values in {
        "pod": ("", "pod-1", "pod-2"),
        "metrics": _METRICS,
        "limits": ({}, {}, {}, {"power": 200.0}),
        "seconds-of": ("time", "time", "work"),
        "measured-frequency": (0, 0, 1777.0),
        "intensity": ("", "", "33.3:7.7"),
        "service": ("", "chat"),
        "faults": ((), (), ({"kind": "hang", "probability": 0.3}, {"kind": "inlet", "celsius": 3.3, "every": 2})),
    }.items():
        value = draw(st.sampled_from(values))
        if value and not (key == "seconds-of" and value == "work" and "random" in fields["profile"]):
            fields[key] = value
    return workload_from_fields(fields)


@st.composite
def faults(draw: st.DrawFn, *on: PoolSpec) -> FaultSpec:
    """A fault of devices of some pools."""
    often = ("inlet", "fan", "link-down", "xid", "hang", "power-brake")
    kind = KINDS[draw(st.one_of(st.sampled_from(often), st.sampled_from(sorted(KINDS))))]
    fields: dict[str, Any] = {"kind": kind.name, "devices": draw(words_of(*on))}
    for parameter in kind.parameters:
        if parameter.default is None:
            fields[parameter.name] = {"code": 31, "watts": 150.0, "megahertz": 700.0}[parameter.name]
    if kind.name == "inlet":
        fields["celsius"] = draw(st.sampled_from((0.1, 0.3, 1.7)))
    fields["start"] = draw(st.sampled_from((0, 0, 2)))
    fields["duration"] = draw(st.sampled_from((0, 4)))
    fields["every"] = draw(st.sampled_from((0, 3)))
    fields["probability"] = draw(st.sampled_from((1, 0.5, 0.3)))
    return fault_from_fields(fields)


def events(*on: PoolSpec) -> st.SearchStrategy[Event]:
    """A workload or a fault that somebody requests."""
    return st.one_of(workloads(*on).map(StartWorkload), faults(*on).map(InjectFault))


@st.composite
def scenes(draw: st.DrawFn, name: str, ticks: int) -> Scene:
    """A pool with what happens on it in some ticks; a fleet of it alone can have all of it."""
    pool = draw(pools(name))
    fleet = Fleet(FleetSpec((pool,), exact_sensors=True))
    base = draw(st.lists(workloads(pool), max_size=4))
    given = draw(st.lists(faults(pool), max_size=3))
    happens = draw(st.lists(st.lists(events(pool), max_size=2), min_size=ticks, max_size=ticks))
    return Scene(
        pool,
        tuple(each for each in base if is_taken(fleet, StartWorkload(each))),
        tuple(each for each in given if is_taken(fleet, InjectFault(each))),
        tuple(tuple(each for each in some if is_taken(fleet, each)) for some in happens),
    )


def is_taken(fleet: Fleet, event: Event) -> bool:
    """Whether a fleet accepts an event."""
    try:
        fleet.apply(event)
    except Refused:
        return False
    return True


def fleet_of(some: Sequence[Scene], **more: Any) -> FleetSpec:
    """A configuration of some scenes, in their order."""
    base = tuple(each for scene in some for each in scene.base)
    given = tuple(fault for scene in some for fault in scene.faults)
    return FleetSpec(tuple(scene.pool for scene in some), base=base, faults=given, exact_sensors=True, **more)


def node_states(fleet: Fleet, node: RosterNode) -> dict[str, bytes]:
    """Every quantity of a node's devices, parts, links and switches, to the bit; absent ones only as absent."""
    roster = fleet.roster
    first = node.devices.start
    parts = [unit - roster.device_count for device in node.devices for unit in roster.parts.of(device)]
    links = [link for device in node.devices for link in roster.links.of(device)]
    places = {"device": [*node.devices], "part": parts, "link": links, "switch": [*roster.links.switches_of(first)]}
    found = {}
    for state, which in ((fleet.state, "true"), (fleet.shown, "shown")):
        for name, here in places.items():
            level = state.levels[name]
            for quantity in level.arrays if here else ():
                has = level.mask(quantity)[here]
                is_of_faults = quantity == "lost" or quantity in FROZEN_TIMES
                values = np.where(has, level.arrays[quantity][here], 0.0)
                # These arrays are only there while a board of the fleet is lost or frozen; times are NaN where none is.
                if is_of_faults:
                    values = np.nan_to_num(values)
                if values.any() or (has.any() and not is_of_faults):
                    is_there = b"" if is_of_faults else has.tobytes()
                    found[f"{which} {name} {quantity}"] = is_there + (values + 0.0).tobytes()
    return found


def shown_of(fleet: Fleet, names: Sequence[str]) -> dict[str, Any]:
    """All that some nodes show: states, facts, faults and pages."""
    found: dict[str, Any] = {}
    for name in names:
        node = fleet.roster.node(name)
        assert node is not None, name
        found[name] = node_states(fleet, node), fleet.labels.facts(node), page(fleet, "dcgm@4.8.2", [name])
    found["faults"] = dict(_faults_on(fleet, set(names)))
    return found


def _faults_on(fleet: Fleet, names: set[str]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The faults of some nodes by their ids; those that have the number of an event or of a workload, by their keys."""
    roster = fleet.roster
    for fault in fleet.faults.by_id.values():
        on = [roster.unit_name(unit) for unit in fault.concerned.tolist()]
        on = [unit for unit in on if unit.partition("/")[0] in names]
        if {roster.unit_name(unit).partition("/")[0] for unit in fault.devices.tolist()} & names:
            name = fault.fault_id if fault.fault_id.startswith("config") else fault.key
            yield name, {"on": on, "period": fault.period, "since": fault.since_seconds}
