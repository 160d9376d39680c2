"""The events that change a fleet, and nodes that join and leave with a cluster.

Nothing else changes a fleet; each event is recorded and can be replayed.

Some pools may have the nodes of a cluster. The order of the nodes of such a pool is the order of their names, not of
their arrival: the same nodes give the same page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fakedev.base.errors import Refused
from fakedev.base.groups import grouped
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.parts.mig import Instance, mig_of, placed
from fakedev.fleet.spec.fault_kinds import fault_from_fields, fields_of_fault
from fakedev.fleet.spec.fleet_spec import (
    DeviceSpec,
    FaultSpec,
    FleetSpec,
    Layout,
    NodeSpec,
    PoolSpec,
    node_of_cluster,
)
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.spec.workload_fields import fields_of_workload, workload_from_fields
from fakedev.fleet.spec.workload_spec import WorkloadSpec

#: Devices a fleet may have.
MAX_DEVICES: Final = 1_000_000


@dataclass(frozen=True, eq=False)
class PreparedFleet:
    """A fleet that was compiled before its event, perhaps in a thread.

    :param base: the fleet that it was made from; the preparation is void for another one.
    """

    base: CompiledFleet
    compiled: CompiledFleet


def prepare(base: CompiledFleet, change: ChangeNodes | DivideBoard) -> PreparedFleet:
    """The fleet after a change of its nodes or boards; takes long for large fleets, and may run in a thread.

    :raises Refused: as :func:`with_changed_nodes` and :func:`with_divided_board`.
    """
    if isinstance(change, ChangeNodes):
        spec = with_changed_nodes(base.spec, change)
    else:
        spec = with_divided_board(base.spec, change.node, change.index, change.instances)
    compiled = CompiledFleet(spec)
    compiled.reindex_from(base.roster)
    return PreparedFleet(base, compiled)


#: The name of a node's pool, and how its boards are divided.
Where = tuple[str, Layout]


def nodes_of_clusters(spec: FleetSpec) -> dict[str, Where]:
    """The nodes of a cluster, by name."""
    return {
        node.name: (pool.name, pool.layout) for pool in spec.pools if pool.has_cluster_nodes for node in pool.nodes
    }


def with_changed_nodes(spec: FleetSpec, change: ChangeNodes) -> FleetSpec:
    """The specification of a fleet with other nodes of its cluster.

    :raises Refused: for an unknown pool or one with nodes of its own, a node that is there already, one that is not
        there, boards that cannot be divided so, or too many devices.
    """
    pools = {pool.name: pool for pool in spec.pools if pool.has_cluster_nodes}
    own = {node.name: pool.name for pool in spec.pools if not pool.has_cluster_nodes for node in pool.nodes}
    present = nodes_of_clusters(spec)
    for name in change.left:
        if name not in present:
            raise Refused("unknown-name", f"{name} is not a node of the cluster", name)
        del present[name]
    layouts = {name: layout for layout, names in change.layouts for name in names}
    for name, pool in change.joined:
        if pool not in pools:
            known = ", ".join(pools) or "none"
            text = f"node {name}: no pool {pool!r} has nodes of the cluster (nodes: cluster); there are: {known}"
            raise Refused("unknown-name", text, pool)
        if name in present or name in own:
            is_in = own[name] if name in own else present[name][0]
            raise Refused("bad-argument", f"node {name} is in the pool {is_in} already", name)
        present[name] = pool, layouts.get(name, ())
    return _with_nodes(spec, present)


def with_divided_board(
    spec: FleetSpec, node: str, index: int, instances: Sequence[Instance] | None
) -> FleetSpec:  # fmt: skip
    """The specification of a fleet where one board has other instances (MIG).

    The node gets a pool of its own, with the name of the one that it is in: pools of one name are one to users.

    :param instances: None: MIG mode is off.
    :raises Refused: for a board that is not there or cannot have them, and for a node of a cluster.
    """
    pool = next((pool for pool in spec.pools if any(node_spec.name == node for node_spec in pool.nodes)), None)
    if pool is None or not 0 <= index < pool.devices_per_node:
        raise Refused("unknown-name", f"there is no board {node}/{index}", node)
    if pool.has_cluster_nodes:
        text = f"{node}/{index} cannot be divided: its node is one of a cluster: set its label nvidia.com/mig.config"
        raise Refused("bad-argument", text, node)
    device = _divided(pool, index, instances, node)
    alike = [candidate for candidate in spec.pools if candidate.name == pool.name]
    of_alike = [node_spec for some in alike for node_spec in some.nodes]
    rows = {node_spec.name: row for row, node_spec in enumerate(sorted(of_alike, key=lambda each: each.row))}
    pools: list[PoolSpec] = []
    for candidate in spec.pools:
        if candidate.name != pool.name:
            pools.append(candidate)
            continue
        nodes = tuple(replace(one, row=rows[one.name]) for one in candidate.nodes)
        rest = tuple(one for one in nodes if one.name != node)
        pools += [replace(candidate, nodes=rest)] if rest else []
        if candidate is pool:
            (own,) = (one for one in nodes if one.name == node)
            pools.append(replace(candidate, nodes=(own,), devices={**candidate.devices, index: device}))
    return replace(spec, pools=tuple(pools))


def with_layout(pool: PoolSpec, layout: Layout) -> PoolSpec:
    """A pool whose boards are divided otherwise; the same object for an empty layout.

    :param pool: as the configuration has it.
    :raises Refused: when its boards cannot be divided so.
    """
    if not layout:
        return pool
    if len(layout) != pool.devices_per_node:
        text = f"pool {pool.name}: the layout has {len(layout)} boards, and its nodes {pool.devices_per_node}"
        raise Refused("bad-argument", text, pool.name)
    divided = {
        index: _divided(pool, index, None if each is None else [Instance(*one) for one in each], pool.name)
        for index, each in enumerate(layout)
    }
    return replace(pool, devices={**pool.devices, **divided}, layout=layout)


def _divided(pool: PoolSpec, index: int, instances: Sequence[Instance] | None, name: str) -> DeviceSpec:
    """A board of a pool with other instances.

    :param name: of its node, or of the pool.
    :raises Refused: when it cannot have them.
    """
    mig = mig_of(pool.device_type)
    if mig is None:
        text = f"{name}/{index} cannot be divided: {pool.device_type.name} has no MIG"
        raise Refused("bad-argument", text, name)
    try:
        parts = tuple(placed(mig, instances or ()))
    except ValueError as error:
        raise Refused("bad-argument", f"{name}/{index}: {error}", name) from None
    before = pool.devices.get(index, DeviceSpec(index))
    return replace(before, facts={**before.facts, "mig_mode": str(int(instances is not None))}, parts=parts)


def with_nodes_of(spec: FleetSpec, present: FleetSpec) -> FleetSpec:
    """A specification with the cluster's nodes that another one has, each in the pool of the same name.

    The same object is returned when it has them already. A node whose pool is not there any more is left out; boards
    that cannot be divided as they were are as the configuration says.
    """
    pools = {pool.name: pool for pool in spec.pools if pool.has_cluster_nodes}
    own = {node.name for pool in spec.pools if not pool.has_cluster_nodes for node in pool.nodes}
    found = nodes_of_clusters(present).items()
    wanted = {name: where for name, where in found if where[0] in pools and name not in own}
    possible = {where: _possible(pools[where[0]], where) for where in {*wanted.values()}}
    return _with_nodes(spec, {name: possible[where] for name, where in wanted.items()})


def _possible(pool: PoolSpec, where: Where) -> Where:
    try:
        with_layout(pool, where[1])
    except Refused:
        return pool.name, ()
    return where


def _with_nodes(spec: FleetSpec, nodes: Mapping[str, Where]) -> FleetSpec:
    """The specification with other nodes of the cluster; the same object when these are the nodes that it has.

    Nodes with the same layout are a pool each, after the one without; all of one name are one pool to users.

    :raises Refused: when there are too many devices, or boards that cannot be divided so.
    """
    if nodes_of_clusters(spec) == nodes:
        return spec
    of_pools = grouped((nodes[name][0], name) for name in sorted(nodes))
    pools: list[PoolSpec] = []
    for pool in spec.pools:
        if not pool.has_cluster_nodes:
            pools.append(pool)
        elif not pool.layout:
            names = of_pools.get(pool.name, ())
            groups: dict[Layout, list[NodeSpec]] = {(): []}
            is_divided = any(nodes[name][1] for name in names)
            for row, name in enumerate(names):
                groups.setdefault(nodes[name][1], []).append(
                    node_of_cluster(name, pool.racks, row if is_divided else 0)
                )
            pools += [replace(with_layout(pool, layout), nodes=tuple(group)) for layout, group in groups.items()]
    count = sum(len(pool.nodes) * pool.devices_per_node for pool in pools)
    if count > MAX_DEVICES:
        raise Refused("limit", f"the fleet would have {count} devices: at most {MAX_DEVICES}")
    return replace(spec, pools=tuple(pools))


@dataclass(frozen=True)
class StartWorkload:
    """Start a workload. Its id contains the event's sequence number."""

    workload: WorkloadSpec


@dataclass(frozen=True)
class StopWorkloads:
    """Stop one or more workloads: each ends with code 0 and the reason."""

    workload_ids: tuple[str, ...]
    reason: str = "stopped"


@dataclass(frozen=True)
class DropWorkloads:
    """End one or more workloads without a verdict, because their peer has disconnected."""

    workload_ids: tuple[str, ...]


@dataclass(frozen=True)
class ChangeClock:
    """Ticks are due ``wall_per_tick`` seconds apart from now on, counted from ``wall_seconds``.

    Only the timestamps of some identities depend on it. 0: the clock advances by command only.
    """

    wall_seconds: float
    wall_per_tick: float
    reason: str = ""


@dataclass(frozen=True)
class InjectFault:
    """Inject a fault. Its id contains the event's sequence number."""

    fault: FaultSpec


@dataclass(frozen=True)
class ClearFaults:
    """Clear one or more faults."""

    fault_ids: tuple[str, ...]


@dataclass(frozen=True)
class Reload:
    """Use another configuration from the next tick on.

    :param source: the files and overrides that it was read from.
    """

    compiled: CompiledFleet
    source: RecordHead


@dataclass(frozen=True)
class Reset:
    """Begin again with the configuration: from the next tick on, the fleet is as at its start, but the clock goes on.

    All workloads end with code 0 and the reason, all faults are gone, and the configuration's own start again.
    Workloads and faults that come after this event, in the same tick, stay.
    """

    reason: str = "the fleet was reset"


@dataclass(frozen=True)
class ChangeNodes:
    """Nodes of a cluster come or go, from the next tick on.

    :param joined: the name of each new node, and that of its pool.
    :param prepared: the fleet with these nodes, compiled beforehand because it takes long; None: not yet.
    :param layouts: how the boards of new nodes are divided, each with the names of the nodes; the others are as their
        pool says. A node that leaves and joins at once keeps its history.
    """

    joined: tuple[tuple[str, str], ...] = ()
    left: tuple[str, ...] = ()
    prepared: PreparedFleet | None = field(default=None, compare=False, repr=False)
    layouts: tuple[tuple[Layout, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class DivideBoard:
    """A board has other instances (MIG), from the next tick on and until the configuration is read again.

    :param instances: None: MIG mode is off.
    :param prepared: as of :class:`ChangeNodes`.
    """

    node: str
    index: int
    instances: tuple[Instance, ...] | None
    prepared: PreparedFleet | None = field(default=None, compare=False, repr=False)


Event = (
    StartWorkload | StopWorkloads | DropWorkloads | ChangeClock | InjectFault | ClearFaults | Reload | Reset
    | ChangeNodes | DivideBoard
)  # fmt: skip


@dataclass(frozen=True)
class Stamped:
    """An event with the tick in which it arrived and its sequence number."""

    tick: int
    sequence: int
    event: Event


def event_to_fields(stamped: Stamped) -> dict[str, object]:
    """A stamped event as plain values, for a record's line."""
    fields: dict[str, object] = {"tick": stamped.tick, "seq": stamped.sequence}
    match stamped.event:
        case StartWorkload(workload):
            fields |= {"event": "start", "workload": fields_of_workload(workload)}
        case StopWorkloads(workload_ids, reason):
            fields |= {"event": "stop", **_ids_to_fields(workload_ids), "reason": reason}
        case DropWorkloads(workload_ids):
            fields |= {"event": "drop", **_ids_to_fields(workload_ids)}
        case InjectFault(fault):
            fields |= {"event": "fault", "fault": fields_of_fault(fault)}
        case ClearFaults(fault_ids):
            fields |= {"event": "clear", **_ids_to_fields(fault_ids)}
        case ChangeClock(wall_seconds, wall_per_tick, reason):
            fields |= {"event": "clock", "wall": wall_seconds, "wall-per-tick": wall_per_tick, "reason": reason}
        case Reload(_, source):
            fields |= {"event": "reload", "source": source.fields()}
        case Reset(reason):
            fields |= {"event": "reset", "reason": reason}
        case ChangeNodes(joined, left, _, layouts):
            divided = [([*map(_rows, layout)], names) for layout, names in layouts]
            fields |= {"event": "nodes", "joined": joined, "left": left} | ({"layouts": divided} if divided else {})
        case DivideBoard(node, index, instances):
            fields |= {"event": "mig", "node": node, "index": index, "instances": _rows(instances)}
    return fields


def _ids_to_fields(ids: tuple[str, ...]) -> dict[str, object]:
    return {"id": ids[0]} if len(ids) == 1 else {"ids": ids}


def _rows(instances: Sequence[tuple[str, int, bool]] | None) -> list[tuple[str, int, bool]] | None:
    """Instances as plain tuples, which a line of JSON can have."""
    return None if instances is None else [(profile, begin, computes) for profile, begin, computes in instances]


def no_reload(source: RecordHead) -> CompiledFleet:
    """For readers of records that cannot compile a configuration.

    :raises Refused: always.
    """
    raise Refused("bad-argument", "a reload cannot be run again here")


def event_from_fields(
    fields: Mapping[str, object], compile_fleet: Callable[[RecordHead], CompiledFleet] = no_reload
) -> Stamped:
    """The stamped event that :func:`event_to_fields` wrote.

    :param compile_fleet: compiles the configuration of a reload.
    :raises Refused: if an event cannot have these fields.
    """
    try:
        tick, sequence = _whole(fields["tick"]), _whole(fields["seq"])
        match fields["event"]:
            case "start":
                workload = workload_from_fields(_object(fields["workload"], "workload"))
                return Stamped(tick, sequence, StartWorkload(workload))
            case "stop":
                ids = _ids_from_fields(fields)
                return Stamped(tick, sequence, StopWorkloads(ids, str(fields["reason"])))
            case "drop":
                return Stamped(tick, sequence, DropWorkloads(_ids_from_fields(fields)))
            case "clear":
                return Stamped(tick, sequence, ClearFaults(_ids_from_fields(fields)))
            case "clock":
                wall, step = _number(fields["wall"]), _number(fields["wall-per-tick"])
                return Stamped(tick, sequence, ChangeClock(wall, step, str(fields.get("reason", ""))))
            case "reload":
                source = RecordHead.of(_object(fields["source"], "source"))
                return Stamped(tick, sequence, Reload(compile_fleet(source), source))
            case "reset":
                return Stamped(tick, sequence, Reset(str(fields["reason"])))
            case "nodes":
                joined, left = _joined(fields["joined"]), _names(fields["left"])
                return Stamped(tick, sequence, ChangeNodes(joined, left, layouts=_layouts(fields.get("layouts", ()))))
            case "mig":
                divided = _instances(fields["instances"])
                return Stamped(tick, sequence, DivideBoard(str(fields["node"]), _whole(fields["index"]), divided))
            case "fault":
                return Stamped(tick, sequence, InjectFault(fault_from_fields(_object(fields["fault"], "fault"))))
            case other:
                raise Refused("bad-argument", f"unknown event {other!r}", "event")
    except KeyError as missing:
        raise Refused("bad-argument", f"an event without {missing.args[0]!r}", str(missing.args[0])) from None


def _object(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise Refused("bad-argument", f"{name}: must be an object", name)
    return value


def _ids_from_fields(fields: Mapping[str, object]) -> tuple[str, ...]:
    """One id, or several, each once: to end something twice would be two verdicts."""
    if "ids" not in fields:
        return (str(fields["id"]),)
    value = fields["ids"]
    if not isinstance(value, list | tuple) or not value or not all(isinstance(item, str) for item in value):
        raise Refused("bad-argument", "ids: must be a list of ids", "ids")
    if len(set(value)) < len(value):
        raise Refused("bad-argument", "ids: has an id twice", "ids")
    return tuple(value)


def _joined(value: object) -> tuple[tuple[str, str], ...]:
    pairs = [item for item in value if isinstance(item, list | tuple)] if isinstance(value, list | tuple) else []
    if not isinstance(value, list | tuple) or any(len(pair) != 2 for pair in pairs) or len(pairs) < len(value):
        raise Refused("bad-argument", "joined: must be a list of pairs of a node and its pool", "joined")
    return tuple((str(node), str(pool)) for node, pool in pairs)


def _instances(value: object) -> tuple[Instance, ...] | None:
    if value is None:
        return None
    rows: Sequence[Any] = value if isinstance(value, list | tuple) else [None]
    if not all(isinstance(row, list | tuple) and len(row) == 3 for row in rows):
        text = "instances: must be a list of profile, first slice, whether it computes"
        raise Refused("bad-argument", text, "instances")
    return tuple(Instance(str(profile), _whole(begin), bool(computes)) for profile, begin, computes in rows)


def _layouts(value: object) -> tuple[tuple[Layout, tuple[str, ...]], ...]:
    rows: Sequence[Any] = value if isinstance(value, list | tuple) else [None]
    pairs = [row for row in rows if isinstance(row, list | tuple) and len(row) == 2]
    if len(pairs) < len(rows) or not all(isinstance(layout, list | tuple) for layout, _ in pairs):
        raise Refused("bad-argument", "layouts: must be a list of pairs of a layout and its nodes", "layouts")
    return tuple((tuple(map(_instances, layout)), _names(names)) for layout, names in pairs)


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise Refused("bad-argument", "left: must be a list of names of nodes", "left")
    return tuple(value)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Refused("bad-argument", f"{value!r} is no tick or sequence number")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused("bad-argument", f"{value!r} is no number")
    return float(value)
