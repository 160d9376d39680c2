"""Where devices, CPUs, nodes and racks are: positions in arrays, computed once for a configuration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from fakedev.fleet.entities.naming import rack_name
from fakedev.fleet.entities.randomness import Floats, Keys
from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.state import Mask, Positions
from fakedev.fleet.spec.fault_kinds import Scope
from fakedev.fleet.spec.limits import entity_key
from fakedev.fleet.spec.rack_spec import RackSpec

NOWHERE: Final = -1


class RackLayout:
    """D devices, of which some are in R racks, H nodes (hosts) and, on modules with a CPU, on C CPUs.

    :ivar rack_of, host_of, cpu_of: of each device, -1 for none: shape (D,).
    :ivar row_of: the row of each rack, shape (R,).
    :ivar racks: the specification of each rack.
    :ivar cpu_first: the first device of each CPU's module, shape (C,); in the order of the nodes.
    :ivar cpu_rack: the rack of each CPU, shape (C,).
    :ivar cpu_keys: keys of randomness of the CPUs, shape (C,).
    :ivar host_first: the first device of each node, shape (H,).
    :ivar domain_of: the IMEX domain of each node: those that share a clique, shape (H,).
    :ivar has_fabric: devices whose links lead to switches of their rack, shape (D,).
    :ivar module_limit_watts: what the module of each CPU may draw; infinite where that is not known: shape (C,).
    """

    def __init__(self, roster: Roster) -> None:
        count = roster.device_count
        self.rack_of, self.host_of, self.cpu_of = (np.full(count, NOWHERE, dtype=np.int64) for _ in range(3))
        self.has_fabric: Mask = np.zeros(count, dtype=np.bool_)
        self.racks: list[RackSpec] = []
        self.names: list[str] = []
        numbers: dict[str, int] = {}
        rows: dict[tuple[str, int], int] = {}
        row_of: list[int] = []
        cpu_first: list[int] = []
        limits: list[float] = []
        keys: list[int] = []
        hosts: list[int] = []
        domains: dict[tuple[str, int], int] = {}
        domain_of: list[int] = []
        for node, racks in _racked(roster.nodes):
            name, devices = rack_name(node.pool, node.spec), slice(node.first, node.devices.stop)
            if name not in numbers:
                numbers[name] = len(numbers)
                self.racks.append(racks)
                self.names.append(name)
                row_of.append(rows.setdefault((node.pool.name, node.spec.place // racks.trays // racks.row), len(rows)))
            self.rack_of[devices], self.host_of[devices] = numbers[name], len(hosts)
            self.has_fabric[devices] = racks.switch_trays > 0
            hosts.append(node.first)
            before = node.spec.place % racks.trays * node.pool.devices_per_node
            domain = (name, before // racks.partition if racks.partition else 0)
            domain_of.append(domains.setdefault(domain, len(domains)))
            gpus = node.pool.devices_per_node // racks.cpus if racks.cpus else 0
            limit = node.pool.device_type.facts.get("module_power_limit_watts", "")
            for cpu in range(racks.cpus):
                first = node.first + cpu * gpus
                self.cpu_of[first : first + gpus] = len(cpu_first)
                cpu_first.append(first)
                limits.append(float(limit) if limit else math.inf)
                keys.append(entity_key("cpu", node.pool.name, node.name, str(cpu)))
        self.count, self.row_of = len(numbers), np.array(row_of, dtype=np.int64)
        self.cpu_first, self.host_first, self.domain_of = (
            np.array(each, dtype=np.int64) for each in (cpu_first, hosts, domain_of)
        )
        self.cpu_rack: Positions = self.rack_of[self.cpu_first]
        self.cpu_keys: Keys = np.array(keys, dtype=np.uint64)
        self.module_limit_watts: Floats = np.array(limits)
        self.is_racked: Mask = self.rack_of >= 0
        self.on_module: Mask = self.cpu_of >= 0
        self.cores: Positions = np.array([self.racks[rack].cores for rack in self.cpu_rack.tolist()], dtype=np.int64)

    def of_cpus(self, values: Floats) -> Floats:
        """The sums of the devices of each CPU's module, shape (C,)."""
        chosen = self.on_module
        return np.bincount(self.cpu_of[chosen], values[chosen], minlength=len(self.cpu_first)).astype(np.float64)

    def of_racks(self, values: Floats) -> Floats:
        """The sums of the devices of each rack, shape (R,)."""
        chosen = self.is_racked
        return np.bincount(self.rack_of[chosen], values[chosen], minlength=self.count).astype(np.float64)

    def on_devices(self, of_cpus: Floats) -> Floats:
        """The value of each device's CPU, 0 without one: shape (D,)."""
        return np.where(self.on_module, of_cpus[self.cpu_of], 0.0)

    def groups(self, scope: Scope) -> Positions:
        """The tray, rack or row of each device, -1 for none: shape (D,)."""
        if scope is Scope.TRAY:
            return self.host_of
        return self.rack_of if scope is Scope.RACK else np.where(self.is_racked, self.row_of[self.rack_of], NOWHERE)

    def neighbours(self, devices: Positions, scope: Scope) -> Positions:
        """All devices of the trays, racks or rows of some devices."""
        groups = self.groups(scope)
        concerned = np.isin(groups, groups[devices]) & (groups >= 0)
        return np.flatnonzero(concerned)

    def place_of(self, node: RosterNode) -> int:
        """The place of a node among those in racks."""
        return int(self.host_of[node.first])

    def first_core(self, cpu: int) -> int:
        """The place of the first core of a CPU among all cores."""
        return int(self.cores[:cpu].sum())

    def cpus_of(self, node: RosterNode) -> range:
        first, last = np.searchsorted(self.cpu_first, (node.devices.start, node.devices.stop)).tolist()
        return range(first, last)


def _racked(nodes: Sequence[RosterNode]) -> list[tuple[RosterNode, RackSpec]]:
    return [(node, node.pool.racks) for node in nodes if node.pool.racks is not None and len(node.devices)]
