"""A fault of a fleet; and which faults a fleet can have, on which devices: by request or with a workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from fakedev.base.errors import FieldError, Refused
from fakedev.fleet.entities.randomness import Keys
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.selectors import resolve_here
from fakedev.fleet.entities.state import Level, Mask, Positions
from fakedev.fleet.faults.effects import Effect, effect_of, is_lasting
from fakedev.fleet.racks.rack_layout import RackLayout
from fakedev.fleet.spec.fault_kinds import KINDS, NODE_SCOPES, OF_RACKS, FaultKind, fault_from_fields
from fakedev.fleet.spec.fleet_spec import Cost, FaultSpec, MetricName
from fakedev.fleet.spec.limits import entity_key
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.fleet.spec.xids import Xid

#: Sums of decimal fractions miss the start of a tick by less than this.
ROUNDING_SECONDS: Final = 1e-6


class Signs(NamedTuple):
    """What N units show of what acts on them: arrays of shape (N,).

    :ivar reasons: bits of ``throttle_reasons``.
    :ivar shut_down: lost units that no fault has made lost: heat shut them down.
    :ivar failed_link: units with a worn link that has gone down.
    """

    reasons: Positions
    shut_down: Mask
    failed_link: Mask

    @classmethod
    def of(cls, units: Positions, removed: Mask, *levels: Level) -> Signs:
        """The signs of some units.

        :param removed: those of them that faults made lost, shape (N,).
        :param levels: of all units; a reason counts if any level shows it, a loss if the last level does.
        """
        reasons = np.zeros(len(units), np.int64)
        for level in levels:
            if "throttle_reasons" in level.arrays:
                reasons |= level.arrays["throttle_reasons"][units].astype(np.int64)
        lost, failed = levels[-1].arrays.get("lost"), np.zeros(len(units), np.bool_)
        for level in levels:
            if "link_failed" in level.arrays:
                failed |= level.arrays["link_failed"][units] > 0
        return cls(reasons, ~removed & (False if lost is None else lost[units] > 0), failed)


@dataclass(slots=True)
class Fault:
    """A fault that was accepted.

    :ivar key: the name of its randomness: the same in every shard.
    :ivar devices: units (devices and parts) that it may affect, N.
    :ivar values: the parameters of its kind, including defaults.
    :ivar metric: the quantity and unit of its metric; None for all metrics.
    :ivar since_seconds: simulated time of its start; None until the next tick starts.
    :ivar on: devices that it affects now, shape (N,).
    :ivar is_cleared: it ends with the next tick.
    :ivar is_first: its last draw was its first.
    :ivar has_new_devices: a reload has added devices since the last tick.
    :ivar cost: what it takes of the limits; None: a workload brought it, and its cost is part of the workload's.
    :ivar peer: whose limits these are; None or empty: no single peer's.
    """

    fault_id: str
    key: str
    spec: FaultSpec
    kind: FaultKind
    effect: Effect
    devices: Positions
    keys: Keys
    values: Mapping[str, float]
    metric: MetricName | None
    on: Mask
    since_seconds: float | None = None
    is_cleared: bool = False
    period: int = -1
    has_new_devices: bool = False
    is_first: bool = False
    _concerned: Positions | None = None
    cost: Cost | None = None
    peer: object | None = None

    @property
    def lasts(self) -> bool:
        """Whether it lasts longer than a tick."""
        return is_lasting(self.kind, self.effect)

    def affect(self, on: Mask) -> None:
        """Affect other devices from now on.

        :param on: which of its devices, shape (N,).
        """
        self.on = on
        self._concerned = None

    @property
    def concerned(self) -> Positions:
        """The devices that it affects now."""
        if self._concerned is None:
            self._concerned = self.devices[self.on]
        return self._concerned

    @property
    def _acts_as(self) -> FaultKind:
        """The kind with its effects: XID 74 takes links down, and does nothing else."""
        return KINDS["link-down"] if self.values.get("code") == Xid.LINK else self.kind

    def moves(self, quantity: str) -> bool:
        """Whether its kind may change a quantity, directly or indirectly."""
        return not self._acts_as.moves or quantity in self._acts_as.moves

    def is_limit_of(self, quantity: str) -> bool:
        """Whether it changes a quantity of its ``moves`` only where links have less than without it."""
        return quantity in self._acts_as.by_limit

    def acts(self, quantity: str, signs: Signs) -> Mask:
        """On which units it does change a quantity of its ``moves``, shape (N,).

        :param signs: of the N units.
        """
        if quantity in self.kind.by_clock:
            return (signs.reasons & self.kind.reasons) > 0
        if quantity in self.kind.by_loss:
            return signs.shut_down
        if quantity in self.kind.by_failed_link and self.on.any():
            return signs.failed_link
        return np.ones(len(signs.reasons), np.bool_)


class Change(NamedTuple):
    """A change of a fault in a tick.

    :ivar what: ``began``, ``struck`` (again, or other devices), ``eased`` (some devices) or ``over``.
    """

    fault: Fault
    what: str
    devices: Positions


@dataclass(frozen=True, eq=False)
class FaultRules:
    """Makes faults of their specifications; it depends only on a fleet's specification.

    :param keys: random keys of the units (devices and parts): shape (units,).
    :param present: units with each quantity, shape (units,).
    :param metric_of: the quantity and unit of a metric; raises Refused for one that the fleet does not know.
    :param known: quantities of metrics; in a shard those of the whole fleet.
    :param racks: of the devices; None: there are none.
    """

    roster: Roster
    keys: Keys
    present: Mapping[str, Mask]
    metric_of: Callable[[str], MetricName]
    known: Collection[str]
    tick_seconds: float
    racks: RackLayout | None = None

    def made(self, fault_id: str, spec: FaultSpec, key: str = "", *, of_configuration: bool = False) -> Fault:
        """The fault of a specification.

        :param key: its random key; empty for its id.
        :param of_configuration: all shards have it, also those without its devices.
        :raises Refused: when the fleet cannot have it; ``where`` is the field.
        """
        kind = KINDS[spec.kind]
        devices = self._concerned(kind, spec, of_configuration=of_configuration)
        values = kind.values(spec.values)
        _check_parts(kind, values, devices, self.roster)
        try:
            effect = effect_of(kind, values)
        except ValueError as error:
            raise Refused("bad-argument", str(error), "code") from None
        metric = self.metric_of(spec.metric) if spec.metric else None
        if spec.every_seconds and spec.every_seconds < self.tick_seconds - ROUNDING_SECONDS:
            raise Refused("limit", f"must not be less than a tick of {self.tick_seconds:g} seconds", "every")
        first = devices
        if kind.scope in NODE_SCOPES and len(devices):
            # One random number for the whole node.
            first = np.array([self.roster.nodes[each].first for each in self.roster.node_positions(devices).tolist()])
        elif kind.scope in OF_RACKS and len(devices) and self.racks is not None:
            groups = self.racks.groups(kind.scope)[devices]
            _, firsts, numbers = np.unique(groups, return_index=True, return_inverse=True)
            first = devices[firsts[numbers]]
        keys = self.keys[first] ^ np.uint64(entity_key("fault", key or fault_id))
        off = np.zeros(len(devices), np.bool_)
        return Fault(fault_id, key or fault_id, spec, kind, effect, devices, keys, values, metric, off)

    def _concerned(self, kind: FaultKind, spec: FaultSpec, *, of_configuration: bool) -> Positions:
        """The units that it may affect: those of its device words that can have it."""
        devices = resolve_here(spec.devices, self.roster, spec.node, of_configuration=of_configuration)
        may_lack = of_configuration and self.roster.whole is not None
        if kind.scope in NODE_SCOPES and len(devices):
            concerned = np.zeros(len(self.roster.nodes), np.bool_)
            concerned[self.roster.node_positions(devices)] = True
            devices = np.flatnonzero(concerned[self.roster.node_positions(np.arange(self.roster.device_count))])
        elif kind.scope in OF_RACKS and len(devices):
            if self.racks is not None:
                owners = self.roster.parts.owners_of(devices)
                devices = self.racks.neighbours(owners, kind.scope)
            if (self.racks is None or not len(devices)) and not may_lack:
                text = f"{kind.name} concerns racks, and the devices are in none: give their pool racks"
                raise Refused("unknown-name", text, "devices")
        for needed, by in kind.needed(spec.values).items():
            has = self.present.get(needed, np.zeros(self.roster.parts.unit_count, np.bool_))
            devices = devices[has[devices]]
            if not len(devices) and not may_lack:
                raise Refused("unknown-name", f"{by} needs {needed}, which none of its devices has", "devices")
        if "link" in spec.values:
            link = int(spec.values["link"])
            devices = devices[self.roster.links.counts[self.roster.parts.owners_of(devices)] > link]
            if not len(devices) and not may_lack:
                raise Refused("unknown-name", f"none of the devices has a link {link}", "link")
        if "tray" in kind.values({}) and self.racks is not None and len(devices):
            tray = int(kind.values(spec.values)["tray"])
            trays = np.array([rack.switch_trays for rack in self.racks.racks])[self.racks.rack_of[devices]]
            devices = devices[trays > tray]
            if not len(devices):
                most = trays.max()
                text = f"tray: a rack has switch trays 0 to {most - 1}" if most else "the racks have no switch trays"
                raise Refused("bad-argument", text, "tray")
        if "watts" in spec.values and len(devices):
            devices = self._accepting(devices, spec.values["watts"], may_lack=may_lack)
        return devices

    def _accepting(self, devices: Positions, watts: float, *, may_lack: bool) -> Positions:
        """Those of some devices whose drivers accept a power limit.

        :raises Refused: when there is none, unless they may lack it.
        """
        types = [node.pool.device_type for node in self.roster.nodes]
        nodes = self.roster.node_positions(devices)
        lowest, highest = np.array([device_type.power_limit_ends() for device_type in types])[nodes].T
        accepting: Positions = devices[(lowest <= watts) & (watts <= highest)]
        if not len(accepting) and not may_lack:
            ends = {types[node].name: types[node].power_limit_ends() for node in np.unique(nodes).tolist()}
            takes = "; ".join(f"{name} takes {low:g} to {high:g} W" for name, (low, high) in sorted(ends.items()))
            text = f"watts: no driver of the devices accepts a power limit of {watts:g} W: {takes}"
            raise Refused("bad-argument", text, "watts")
        return accepting


def _check_parts(kind: FaultKind, values: Mapping[str, float], units: Positions, roster: Roster) -> None:
    """Check that a fault can affect the parts among some units without their devices.

    :param values: of its parameters.
    :raises Refused: when it cannot.
    """
    for unit in units[units >= roster.device_count].tolist():
        are_tiles = bool(roster.parts.is_tile[unit - roster.device_count])
        if reason := kind.why_not_on_parts(values, are_tiles=are_tiles):
            part = roster.unit_name(unit)
            text = f"{reason}, and {part} is a part: name {part.rpartition('/')[0]}"
            raise Refused("bad-argument", text, "devices")


def workload_faults(
    workload_id: str, spec: WorkloadSpec, rules: FaultRules, key: str = "", *, of_configuration: bool = False
) -> list[Fault]:
    """The faults of a workload, without those that its devices cannot have.

    :param key: the workload's random key; empty for its id.
    :param of_configuration: all shards have it, also those without its devices.
    :raises Refused: when the fleet cannot have one; ``where`` is the field.
    """
    found = []
    alike: Counter[tuple[str, ...]] = Counter()
    for number, fields in enumerate(spec.faults, 1):
        try:
            fault = fault_from_fields({**fields, "devices": spec.devices, "node": spec.node})
            own = "\0".join((key or workload_id, *fault.words, str(alike[fault.words])))
            alike[fault.words] += 1
            made = rules.made(f"{workload_id}-{number}", fault, own, of_configuration=of_configuration)
            if len(made.devices):
                found.append(made)
        except Refused as refusal:
            if refusal.where != "devices":
                text = refusal.text if isinstance(refusal, FieldError) else f"{refusal.where}: {refusal.text}"
                raise FieldError("faults", f"fault {number}: {text}") from None
    return found
