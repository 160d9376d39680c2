"""Small fleets for tests, and the one way to start, stop and look at workloads in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fakedev.exporters.workload_page import workload_pages
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.door import workload_id_of
from fakedev.fleet.events import Reload, Stamped, StartWorkload, StopWorkloads
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import DeviceType, Range
from fakedev.fleet.spec.fleet_spec import FleetSpec, NodeSpec, PoolSpec
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.spec.workload_fields import workload_from_fields
from fakedev.fleet.spec.workload_spec import WorkloadSpec

MIB = 2**20

#: A board with round numbers.
BOARD = DeviceType(
    name="board",
    ranges={
        "usage_ratio": Range(0, 1),
        "power_watts": Range(50, 250),
        "core_frequency_mhz": Range(300, 1300),
        "memory_used_bytes": Range(0, 800 * MIB),
        "pcie_tx_bytes_per_second": Range(10, 1010),
    },
    facts={"product_name": "Board", "vendor": "Maker", "pci_device_id": "0x1234", "driver_version": "1.2"},
    memory_total_bytes=1000 * MIB,
    memory_reserved_bytes=100 * MIB,
    memory_page_bytes=2 * MIB,
)


def pool_of(
    name: str = "dgx", nodes: int = 1, device_type: DeviceType = BOARD, devices_per_node: int = 4, **more: Any
) -> PoolSpec:
    """A pool of nodes ``NAME-0``, ``NAME-1``, ..."""
    specs = tuple(NodeSpec(f"{name}-{index}") for index in range(nodes))
    return PoolSpec(name, specs, device_type, devices_per_node, **more)


def make_fleet(
    *pools: PoolSpec, record: Callable[[Stamped], None] | None = None, wall_per_tick: float | None = None, **more: Any
) -> Fleet:
    """A fleet of the pools, or of one node ``dgx-0`` with four boards."""
    more.setdefault("exact_sensors", True)
    spec = FleetSpec(pools or (pool_of(),), **more)
    return Fleet(spec, record or (lambda stamped: None), wall_per_tick)


def workload(devices: str = "card0", profile: str = "50:0:0", **fields: object) -> WorkloadSpec:
    """A workload from fields as a request has them; a dash in a field's name is written ``_``."""
    given = {name.replace("_", "-"): value for name, value in fields.items()}
    return workload_from_fields({"name": "work", "devices": devices, "profile": profile} | given)


def start(fleet: Fleet, devices: str = "card0", profile: str = "50:0:0", **fields: object) -> str:
    """Start a workload; its id."""
    return workload_id_of(fleet.apply(StartWorkload(workload(devices, profile, **fields))).sequence)


def stop(fleet: Fleet, workload_id: str) -> None:
    """Stop a workload."""
    fleet.apply(StopWorkloads((workload_id,)))


def stop_any(fleet: Fleet, place: int) -> None:
    """Stop one of the workloads that are not on their way out, if there is one."""
    ids = [each for each in fleet.workloads.by_id if not fleet.intake.is_ending(each)]
    if ids:
        stop(fleet, ids[place % len(ids)])


def reload(fleet: Fleet, *pools: PoolSpec, **more: Any) -> None:
    """Use these pools, or those that are there, and other values of the specification from the next tick on."""
    changed = {"pools": pools, **more} if pools else more
    fleet.apply(Reload(CompiledFleet(replace(fleet.spec, **changed)), RecordHead("1", 0.0)))


def advance(fleet: Fleet, ticks: int) -> None:
    """Do some ticks."""
    for _ in range(ticks):
        fleet.advance()


class WorkloadSeries:
    """The page of a fleet's workloads, kept from tick to tick.

    :param openmetrics: in that format instead of text.
    """

    def __init__(self, fleet: Fleet, openmetrics: bool = False, max_pairs: int = 50_000) -> None:
        self._source, *pages = workload_pages(fleet, max_pairs)
        self._page = pages[openmetrics]

    def render(self) -> bytes:
        """The page at the present tick."""
        return self._page.render(self._source.state())


def loads(fleet: Fleet) -> list[float]:
    """The load that each device shows, in percent."""
    return [round(usage * 100, 9) for usage in fleet.usage_ratio.tolist()]


def ended(fleet: Fleet, ticks: int = 1) -> list[tuple[int, str, int, str]]:
    """The verdicts of the next ticks: (tick, id, code, text) of each."""
    found = []
    for _ in range(ticks):
        for verdict in fleet.advance():
            found.append((fleet.state.tick, verdict.workload_id, verdict.code, verdict.text))
    return found


def labels_of(fleet: Fleet, node: str, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Some facts of each device of a node."""
    found = fleet.roster.node(node)
    assert found is not None, node
    return [tuple(facts[name] for name in names) for facts in fleet.labels.facts(found)]
