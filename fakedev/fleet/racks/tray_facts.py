"""Facts of CPUs, cores and nodes in racks, for their labels."""

from __future__ import annotations

from collections.abc import Mapping

from fakedev.fleet.entities.naming import cpu_serial
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.racks.racks import CORE, CPU, HOST, Racks

Facts = Mapping[str, str]


def tray_facts(racks: Racks | None, level: str, node: RosterNode, seed: int) -> list[tuple[int, Facts]]:
    """The CPUs, cores or the node itself, each with its place in the level and its facts; none outside of racks."""
    if racks is None or node.pool.racks is None:
        return []
    facts = {**node.pool.facts, **node.spec.facts, "node": node.name, "pool": node.pool.name}
    cpus = racks.layout.cpus_of(node)
    match level:
        case str(each) if each == HOST:
            return [(racks.layout.place_of(node), facts)]
        case str(each) if each == CPU:
            serials = {cpu: cpu_serial(seed, node.name, cpu - cpus.start) for cpu in cpus}
            return [(cpu, {**facts, "cpu": str(cpu - cpus.start), "cpu_serial": serials[cpu]}) for cpu in cpus]
        case str(each) if each == CORE:
            cores = node.pool.racks.cores
            first = racks.layout.first_core(cpus.start)
            return [
                (first + number, {**facts, "cpu": str(number // cores), "cpucore": str(number)})
                for number in range(len(cpus) * cores)
            ]
    return []
