"""The health of devices and nodes as a cluster sees it, tick by tick, and its record for restarts.

It follows from the fleet's state and its faults. A device is unhealthy while it is lost or hangs, and after an XID,
except XIDs that NVIDIA's device plugin takes for errors of applications (NVIDIA/k8s-device-plugin,
internal/rm/health.go). With the recovery ``auto`` it is healthy again when its XID is cleared: by a reset, or when
the lasting fault that reported it is over, e.g. a link that is up again. With ``vendor`` it stays unhealthy until its
plugin is started again, as NVIDIA's plugin does not recover devices.

A plugin that is started has no older XIDs. It is started with its node, after ``plugin-down``, and when its kubelet
starts again: NVIDIA's starts anew when the kubelet's socket appears (cmd/nvidia-device-plugin/main.go).

An XID on a board concerns all its instances; an XID on an instance concerns that instance, and the board where it is
offered as a whole. While a node is down, the health of its devices stays as it was: nobody reports anything else.

The record is JSON: after a restart a cluster sees devices as before. The state of the fleet does not have all of it:
XIDs of faults that are over, or from before a device plugin was started again, are still the last ones of their
devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
import orjson

from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.state import Level, Mask, Positions
from fakedev.fleet.faults.faults import Faults
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.levels import UNIT
from fakedev.fleet.spec.offers import Recovery
from fakedev.kubernetes.devices.offered_devices import NodeDevices

#: XIDs that leave a device healthy: errors of applications, by default of NVIDIA's device plugin.
HARMLESS_XIDS: Final = (13, 31, 43, 45, 68, 109)
#: Kinds of faults that concern what a cluster sees of a whole node.
NODE_DOWN: Final = "node-down"
PLUGIN_DOWN: Final = "plugin-down"
KUBELET_RESTART: Final = "kubelet-restart"
_OF_NODES: Final = (NODE_DOWN, PLUGIN_DOWN, KUBELET_RESTART)
#: In the place of an XID.
_WELL, _HANGS, _IS_LOST = 0, -1, -2
_MOST_XID: Final = 1000
#: Kinds of faults that report an XID; the last two may last.
_REPORTING: Final = ("lost", "ecc-double", "xid", "link-down")
#: Changes of a fault that strike devices, and that release them.
_STRIKES: Final = ("began", "struck")
_ENDS: Final = ("eased", "over")


@dataclass(frozen=True)
class NodeHealth:
    """What a cluster sees of a node.

    :param unhealthy: device id (of slots) to the reason: ``XID 79``, ``hangs``, ``lost``.
    :param is_down: whether the node is down.
    :param plugin_is_down: whether its device plugin is gone.
    :param kubelet_is_down: whether its kubelet is being started again.
    :param kubelet_restarts: how often that has happened since the start.
    """

    unhealthy: Mapping[str, str] = field(default_factory=dict)
    is_down: bool = False
    plugin_is_down: bool = False
    kubelet_is_down: bool = False
    kubelet_restarts: int = 0


_HEALTHY: Final = NodeHealth()


class KnownHealth(NamedTuple):
    """What is known after a tick.

    :param roster: whose units the arrays have; None: none yet.
    :param codes: the trouble of each unit, shape (units,).
    :param xids: the XID that each unit reports.
    :param is_past: whether that is over.
    :param nodes: the nodes with anything to report.
    """

    tick: int
    roster: Roster | None
    codes: Positions
    xids: Positions
    is_past: Mask
    nodes: Mapping[str, NodeHealth]


class HealthWatch:
    """Follows the health of a fleet's nodes; to be asked once after each tick.

    A tick in which nothing changes costs a few operations on arrays of all devices.

    :param devices_of: the devices of a node; None for nodes that are not in the cluster.
    """

    def __init__(self, devices_of: Callable[[str], NodeDevices | None], recovery: Recovery = Recovery.AUTO) -> None:
        self._devices_of = devices_of
        self._recovery = recovery
        self._roster: Roster | None = None
        self._tick = -1
        self._nodes: dict[str, NodeHealth] = {}
        # One for each unit: its trouble; the same without XIDs; the XID it reports, and whether that is over.
        self._codes: Positions = np.zeros(0, np.int64)
        self._states: Positions = self._codes
        self._xids: Positions = self._codes
        self._is_past: Mask = np.zeros(0, np.bool_)
        # The nodes with each of the faults of whole nodes.
        self._faulty: Mapping[str, frozenset[str]] = {kind: frozenset() for kind in _OF_NODES}
        self._harmful = np.ones(_MOST_XID, np.bool_)
        self._harmful[[_WELL, *HARMLESS_XIDS]] = False

    def known(self) -> KnownHealth:
        """What the service after this one goes on from."""
        # Copies of what is changed in place.
        codes, is_past = self._codes.copy(), self._is_past.copy()
        return KnownHealth(self._tick, self._roster, codes, self._xids, is_past, dict(self._nodes))

    def go_on(self, fleet: Fleet, known: KnownHealth) -> None:
        """Go on from what the service before this one knew. To be done before anything else.

        :param known: for the units of the fleet.
        """
        self._roster = fleet.roster
        self._tick, self._codes, self._xids, self._is_past = known.tick, known.codes, known.xids, known.is_past
        self._states = _states_of(fleet.state.levels[UNIT])
        self._nodes = dict(known.nodes)
        down = {NODE_DOWN: "is_down", PLUGIN_DOWN: "plugin_is_down", KUBELET_RESTART: "kubelet_is_down"}
        self._faulty = {
            kind: frozenset(name for name, health in known.nodes.items() if getattr(health, attribute))
            for kind, attribute in down.items()
        }
        if known.tick != fleet.state.tick:  # it was killed between the tick and its look at it
            self.observe(fleet)

    def of(self, node: str) -> NodeHealth:
        """The health of a node, as of the last tick."""
        return self._nodes.get(node, _HEALTHY)

    @property
    def ill(self) -> Mapping[str, NodeHealth]:
        return self._nodes

    def observe(self, fleet: Fleet) -> dict[str, NodeHealth]:
        """The nodes whose health has changed since the last call, after a tick or a reload."""
        roster = fleet.roster
        self._tick = fleet.state.tick
        concerned: set[str] = set()
        if roster is not self._roster:
            concerned |= self._follow(fleet, roster)
        restarted = self._note_faults(fleet.faults, roster)
        before = self._codes
        self._codes = self._codes_of(fleet)
        changed = np.flatnonzero(self._codes != before)
        if len(changed):
            places = np.unique(roster.node_positions(changed)).tolist()
            concerned |= {roster.nodes[place].name for place in places}
        faulty, before_it = _faulty(fleet.faults, roster), self._faulty
        back = {name for kind in _OF_NODES for name in before_it[kind] - faulty[kind]}
        concerned |= {name for kind in _OF_NODES for name in before_it[kind] ^ faulty[kind]} | set(restarted)
        self._faulty = faulty
        for name in back:  # its plugin has been started with it
            self._forget(name)
        found = {}
        for name in sorted(concerned):
            health = self._changed(name, restarts=restarted.get(name, 0), is_fresh=name in back)
            if health is not None:
                found[name] = health
        return found

    def restart_plugin(self, node: str) -> NodeHealth | None:
        """Start the device plugin of a node again: it has seen no older XID.

        :returns: the node's health, if that changes it.
        """
        self._forget(node)
        return self._changed(node, is_fresh=True)

    def refresh(self, node: str) -> NodeHealth | None:
        """Look at a node again whose devices are others, as one that has joined the cluster.

        :returns: the node's health, if that changes it.
        """
        return self._changed(node)

    def _forget(self, node: str) -> None:
        at = None if self._roster is None else self._roster.simulated(node)
        if at is not None:
            units = self._units(at)
            self._is_past[units] = True
            self._codes[units] = self._states[units]

    def _follow(self, fleet: Fleet, roster: Roster) -> set[str]:
        """Use the positions after a reload; what was known of nodes that are gone is forgotten.

        :returns: the nodes to look at.
        """
        moves, count = fleet.moves, roster.parts.unit_count
        zeros, nothing = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        if moves is not None and moves.before is self._roster:
            self._codes = moves.units.carried(self._codes, zeros)
            self._xids = moves.units.carried(self._xids, zeros)
            self._is_past = moves.units.carried(self._is_past, nothing)
        else:
            self._codes, self._xids, self._is_past = zeros, zeros, nothing
        self._roster = roster
        known = {name for name in self._nodes if roster.simulated(name) is not None}
        self._nodes = {name: health for name, health in self._nodes.items() if name in known}
        return known

    def _codes_of(self, fleet: Fleet) -> Positions:
        """The trouble of each unit: an XID, or one of the numbers below 0."""
        level = fleet.state.levels[UNIT]
        arrays = level.arrays
        if "xid" in arrays:
            xids = np.clip(arrays["xid"], 0, _MOST_XID - 1).astype(np.int64)
            is_new = xids != self._xids
            self._is_past &= ~is_new
            # A harmless XID after a harmful one does not heal the device.
            healed = (xids == _WELL) | self._is_past
            codes = np.where(self._harmful[xids], xids, np.maximum(self._codes, _WELL))
            codes[healed] = _WELL
            self._xids = xids
        else:
            codes = np.zeros(level.count, np.int64)
        self._states = _states_of(level)
        # An XID says more than that the device is lost.
        return np.where(codes == _WELL, self._states, codes)

    def _note_faults(self, faults: Faults, roster: Roster) -> dict[str, int]:
        """Note the changes of faults in the tick: which XIDs are over, and which come again.

        :returns: the nodes whose kubelets were started again, with how often.
        """
        restarted: dict[str, int] = {}
        for fault, what, units in faults.changes:
            if fault.kind.name == KUBELET_RESTART and what in _STRIKES:
                for name in _names(roster, units):
                    restarted[name] = restarted.get(name, 0) + 1
            elif fault.kind.name in _REPORTING and len(units) and (what in _STRIKES or fault.lasts):
                self._is_past[roster.parts.with_parts(units)] = what in _ENDS
        return restarted

    def _changed(self, name: str, *, restarts: int = 0, is_fresh: bool = False) -> NodeHealth | None:
        """The health of a node now; None if it is as before.

        :param is_fresh: its plugin was started again.
        """
        before = self.of(name)
        devices = self._devices_of(name)
        node = None if self._roster is None else self._roster.simulated(name)
        if node is None:
            self._nodes.pop(name, None)
            return None
        if devices is None:  # not in the cluster, or not yet after a restart
            return None
        down, plugin_down, kubelet_down = (name in self._faulty[kind] for kind in _OF_NODES)
        unhealthy = before.unhealthy if down else self._unhealthy(node, devices, before.unhealthy, is_fresh=is_fresh)
        count = before.kubelet_restarts + restarts
        health = NodeHealth(unhealthy, down, plugin_down, kubelet_down, count)
        if health == before:
            return None
        self._nodes[name] = health
        if health == _HEALTHY:
            del self._nodes[name]
        return health

    def _unhealthy(
        self, node: RosterNode, devices: NodeDevices, before: Mapping[str, str], *, is_fresh: bool
    ) -> dict[str, str]:
        found = {}
        kept: Mapping[str, str] = {} if is_fresh or self._recovery is Recovery.AUTO else before
        for slot in devices.slots:
            if slot.device_id not in found:
                reason = self._reason(node, slot.index, slot.part) or kept.get(slot.device_id, "")
                if reason:
                    found[slot.device_id] = reason
        return found

    def _reason(self, node: RosterNode, index: int, part: int | None) -> str:
        """Why a board or a part is unhealthy; empty if it is not."""
        board = node.first + index
        parts = self._parts_of(board)
        units = [board, *parts] if part is None else [board, *parts[part : part + 1]]
        codes = self._codes[units]
        if part is not None and codes[0] > _WELL:
            codes = codes[1:]  # a part shows its board's XID too, until it is reset by itself
        worst = int(codes[np.argmax(np.abs(codes) * (codes != _WELL))]) if len(codes) else _WELL
        if worst == _WELL:
            return ""
        return {_HANGS: "hangs", _IS_LOST: "lost"}.get(worst, f"XID {worst}")

    def _parts_of(self, board: int) -> Sequence[int]:
        return () if self._roster is None else self._roster.parts.of(board)

    def _units(self, node: RosterNode) -> Positions:
        """The devices of a node, then their parts."""
        parts = [part for device in node.devices for part in self._parts_of(device)]
        return np.array([*node.devices, *parts], dtype=np.int64)


def _states_of(level: Level) -> Positions:
    """The trouble of each unit, without XIDs."""
    states = np.zeros(level.count, np.int64)
    for quantity, code in (("hung", _HANGS), ("lost", _IS_LOST)):
        if quantity in level.arrays:
            states[level.arrays[quantity] > 0] = code
    return states


def _faulty(faults: Faults, roster: Roster) -> Mapping[str, frozenset[str]]:
    """The nodes with each of the faults of whole nodes."""
    found: dict[str, set[str]] = {kind: set() for kind in _OF_NODES}
    for fault in faults.by_id.values():
        if fault.kind.name in found and len(fault.concerned):
            found[fault.kind.name] |= _names(roster, fault.concerned)
    return {kind: frozenset(names) for kind, names in found.items()}


def _names(roster: Roster, units: Positions) -> set[str]:
    return {roster.nodes[place].name for place in np.unique(roster.node_positions(units)).tolist()}


_FORM: Final = 1


class NoHealth(Exception):
    """A text that is no record of health."""


def health_record(
    known: KnownHealth, devices: Mapping[str, Mapping[str, Sequence[str]]], faults: Mapping[str, Mapping[str, Any]]
) -> str:
    """The text for what is known, which :func:`read_health` reads. Units are named, as another roster numbers them.

    :param devices: of pods, by UID and container, which :func:`read_devices` reads.
    :param faults: of objects, by UID, which :func:`read_faults` reads.
    """
    units: dict[str, list[int]] = {}
    if known.roster is not None:
        columns = (known.codes, known.xids, known.is_past)
        for unit in np.flatnonzero(np.logical_or.reduce(columns)).tolist():
            units[known.roster.unit_name(unit)] = [int(column[unit]) for column in columns]
    nodes = {name: asdict(health) for name, health in known.nodes.items()}
    record = {"form": _FORM, "tick": known.tick, "units": units, "nodes": nodes, "devices": devices, "faults": faults}
    return orjson.dumps(record).decode()


def read_health(text: str, roster: Roster) -> KnownHealth:
    """What a text has for the units of a roster; what has left the fleet is left out.

    :raises NoHealth: for another text.
    """
    try:
        content = orjson.loads(text)
        if content["form"] != _FORM:
            raise NoHealth(f"its form is {content['form']}, and this version reads {_FORM}")
        columns = np.zeros((3, roster.parts.unit_count), np.int64)
        for name, values in content["units"].items():
            unit = _unit_of(name, roster)
            if unit is not None:
                columns[:, unit] = values
        nodes = {
            name: _node_health(fields) for name, fields in content["nodes"].items()
            if roster.simulated(name) is not None
        }  # fmt: skip
        codes, xids, is_past = columns
        return KnownHealth(int(content["tick"]), roster, codes, xids, is_past > 0, nodes)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise NoHealth("it is no record of the health of devices") from None


def read_devices(text: str) -> dict[str, Mapping[str, Sequence[str]]]:
    """The devices of pods, by UID and container, in a text that :func:`read_health` has taken."""
    found = orjson.loads(text).get("devices", {})
    return dict(found) if isinstance(found, dict) else {}


def read_faults(text: str) -> dict[str, Mapping[str, Any]]:
    """The faults of objects, by UID, in the same text."""
    found = orjson.loads(text).get("faults", {})
    return dict(found) if isinstance(found, dict) else {}


def _unit_of(name: str, roster: Roster) -> int | None:
    """The position of ``node/index`` or ``node/index/part``; None if it is not there."""
    node_name, *numbers = name.split("/")
    node, (index, *part) = roster.simulated(node_name), map(int, numbers)
    if node is None or not 0 <= index < len(node.devices):
        return None
    if not part:
        return node.first + index
    parts = roster.parts.of(node.first + index)
    return parts[part[0]] if part[0] < len(parts) else None


def _node_health(fields: dict[str, Any]) -> NodeHealth:
    health = NodeHealth(**fields)
    unhealthy = {str(device): str(why) for device, why in health.unhealthy.items()}
    return replace(health, unhealthy=unhealthy, kubelet_restarts=int(health.kubelet_restarts))
