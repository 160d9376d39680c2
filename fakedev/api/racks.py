"""The racks of the fleet: what they draw, their coolant, their trays, and the health of their fabric."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

import numpy as np

from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.racks.racks import CPU, RACK, Racks
from fakedev.fleet.spec.rack_spec import SWITCHES_OF_TRAY
from fakedev.web.items import Items, ItemsResource, described_key
from fakedev.web.paths import RACKS
from fakedev.web.query import ApiCollection, ApiPage, ApiResource, MissingItem, shown
from fakedev.web.request import Request

#: Words for the summary of the fabric's health, by NVIDIA's numbers.
_FABRIC: Final = {1: "healthy", 2: "unhealthy", 3: "limited"}
_OF_CPUS: Final = ("cpu_usage_ratio", "cpu_power_watts", "cpu_temperature_celsius", "module_power_watts")
_OF_SWITCHES: Final = {"links-up": "links_up", "tx-bytes-per-second": "fabric_tx_bytes_per_second"}


class RackList(ItemsResource, ApiCollection):
    """The racks."""

    path = RACKS

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    @property
    def _racks(self) -> Racks | None:
        return self._fleet.compiled.relations.racks

    def item(self, name: str) -> ApiResource:
        racks = self._racks
        if racks is None or name not in racks.layout.names:
            known = "there are none" if racks is None else f"the first is {racks.layout.names[0]}"
            return MissingItem(f"no rack is named {shown(name)!r}: {known}", "rack")
        return ApiPage(partial(describe_rack, self._fleet, racks, racks.layout.names.index(name)))

    def items(self, request: Request) -> Items[int]:
        """In the order of the configuration."""
        racks = self._racks

        def describe(rack: int) -> dict[str, Any]:
            assert racks is not None
            return _summary(self._fleet, racks, rack)

        return Items(
            [] if racks is None else range(racks.layout.count),
            lambda _: describe,
            lambda rack: (describe(rack)["rack"], describe(rack)["pool"]),
            partial(described_key, describe),
            exists=lambda _: racks is self._racks,
        )


def _summary(fleet: Fleet, racks: Racks, rack: int) -> dict[str, Any]:
    """One rack in some numbers."""
    layout, level = racks.layout, fleet.state.levels[RACK]
    devices = np.flatnonzero(layout.rack_of == rack)
    nodes = _nodes(fleet, racks, rack)
    limit = float(level.arrays["rack_power_limit_watts"][rack])
    health = fleet.state.levels["device"].arrays.get("fabric_health_summary")
    found = health if layout.racks[rack].switch_trays else None
    return {
        "rack": layout.names[rack],
        "pool": nodes[0].pool.name,
        "kind": layout.racks[rack].kind.value,
        "nodes": len(nodes),
        "devices": len(devices),
        "power-watts": float(level.arrays["rack_power_watts"][rack]),
        "power-limit-watts": None if math.isinf(limit) else limit,
        "flow-litres-per-minute": float(level.arrays["coolant_flow_litres_per_minute"][rack])
        if layout.racks[rack].is_liquid else None,
        "supply-celsius": float(level.arrays["coolant_supply_celsius"][rack]),
        "return-celsius": float(level.arrays["coolant_return_celsius"][rack]),
        **{word: None if found is None else int((found[devices] == number).sum()) for number, word in _FABRIC.items()},
    }  # fmt: skip


def describe_rack(fleet: Fleet, racks: Racks, rack: int) -> dict[str, Any]:
    """One rack with its trays, from the top to the bottom."""
    spec = racks.layout.racks[rack]
    trays = [_tray(fleet, racks, node) for node in reversed(_nodes(fleet, racks, rack))]
    return {
        **_summary(fleet, racks, rack),
        "trays": trays,
        "switch-trays": _switch_trays(fleet, racks, rack) if spec.switch_trays else [],
    }


def _nodes(fleet: Fleet, racks: Racks, rack: int) -> list[RosterNode]:
    """The nodes of a rack, from the bottom to the top."""
    firsts = np.unique(racks.layout.host_first[racks.layout.rack_of[racks.layout.host_first] == rack])
    roster = fleet.roster
    nodes = (roster.nodes[roster.node_position(int(first))] for first in firsts)
    return sorted(nodes, key=lambda node: node.spec.place)  # nodes of a cluster come in the order of their names


def _tray(fleet: Fleet, racks: Racks, node: RosterNode) -> dict[str, Any]:
    """A node: its CPUs, its devices, and the IMEX daemon."""
    devices, cpus = fleet.state.levels["device"].arrays, fleet.state.levels[CPU].arrays
    facts, spec = fleet.labels.facts(node), node.pool.racks
    assert spec is not None
    tray = node.spec.place % spec.trays

    def of(name: str, device: int) -> float | None:
        return float(devices[name][device]) if name in devices else None

    return {
        "slot": 1 + spec.switch_trays + tray,
        "tray": tray,
        "node": node.name,
        "leak": bool(devices["coolant_leak"][node.first]),
        "imex-daemon-status": int(devices["imex_daemon_status"][node.first]),
        "imex-nodes-ready": int(devices["imex_nodes_ready"][node.first]),
        "cpus": [
            {name.replace("_", "-"): float(cpus[name][cpu]) for name in _OF_CPUS} for cpu in racks.layout.cpus_of(node)
        ],
        "devices": [
            {
                "device": f"{node.name}/{own['index']}",
                "clique": own.get("fabric_clique_id"),
                "fabric": _FABRIC.get(int(of("fabric_health_summary", device) or 0)),
                "links-up": of("links_up", device),
                "links": len(fleet.roster.links.of(device)),
                "raw-ber": of("link_raw_ber_ratio", device),
            }
            for device, own in zip(node.devices, facts, strict=True)
        ],
    }


def _switch_trays(fleet: Fleet, racks: Racks, rack: int) -> list[dict[str, Any]]:
    """The switch trays of a rack, with the links and the traffic of all cliques, from the top to the bottom."""
    layout, links = racks.layout, fleet.roster.links
    owners = np.flatnonzero(layout.rack_of == rack)
    # The links of each clique lead to switches of their own in the layout: number k of each is one switch of the rack.
    firsts = {links.switches_of(int(device)).start for device in owners}
    level = fleet.state.levels["switch"].arrays
    count, trays = len(owners), []
    for tray in reversed(range(layout.racks[rack].switch_trays)):
        switches = []
        for number in range(tray * SWITCHES_OF_TRAY, (tray + 1) * SWITCHES_OF_TRAY):
            places = [first + number for first in sorted(firsts)]
            sums = {name: float(level[quantity][places].sum()) for name, quantity in _OF_SWITCHES.items()}
            switches.append({"switch": number, "links": count, **sums})
        trays.append({"slot": 1 + tray, "tray": tray, "switches": switches})
    return trays
