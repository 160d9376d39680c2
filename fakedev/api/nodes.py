"""/api/v1/nodes, /api/v1/identities and /api/v1/find: nodes with their topology, identities, and a search for devices.

The search looks at nodes, pools, models, and the workloads and pods on devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from fakedev.base.steps import Steps
from fakedev.exporters.cache import Pages
from fakedev.fleet.describe import describe_node
from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.selectors import no_node
from fakedev.fleet.entities.state import Level
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.links.facts import link_facts, switch_facts
from fakedev.web.http_limits import HttpError
from fakedev.web.items import Items, ItemsResource, described_key
from fakedev.web.paths import FIND, NODES
from fakedev.web.query import ApiCollection, ApiPage, ApiResource, MissingItem, argument, counted, shown
from fakedev.web.request import Request
from fakedev.web.resource import Answer
from fakedev.web.response import Response, json_response

#: Most links in the topology of a node; the page of a device always has its links.
_MAX_LINKS: Final = 1024
_STATES: Final = {0: "off", 2: "active", 3: "error"}
#: The quantities of a device's PCIe link, of links, and of switches, by their names in the API.
_PCIE: Final = {
    "generation": "pcie_link_generation", "generation-max": "pcie_link_generation_max", "width": "pcie_link_width",
    "width-max": "pcie_link_width_max",
}  # fmt: skip
_TRAFFIC: Final = {
    "tx-bytes-per-second": "fabric_tx_bytes_per_second", "rx-bytes-per-second": "fabric_rx_bytes_per_second",
    "errors": "link_errors", "recoveries": "link_recoveries",
}  # fmt: skip
_SWITCH: Final = {"links-up": "links_up", "temperature-celsius": "temperature_celsius", **_TRAFFIC}


def describe_topology(fleet: Fleet, node: RosterNode) -> dict[str, Any]:
    """The devices of a node, their links with the other ends, and the switches."""
    layout = fleet.roster.links
    facts = fleet.labels.facts(node)
    link_count = sum(len(layout.of(device)) for device in node.devices)
    lists_links = link_count <= _MAX_LINKS
    every = _links(fleet, node, facts) if lists_links else []
    level = fleet.state.levels["device"]
    devices = []
    for device, own in zip(node.devices, facts, strict=True):
        numa_node = own.get("numa_node")
        devices.append({
            "device": f"{node.name}/{own['index']}",
            "pci-address": own["pci_address"],
            "numa-node": None if numa_node is None else int(numa_node),
            "cpu-affinity": own.get("cpu_affinity"),
            "pcie": _numbers(level, device, _PCIE) or None,
            "links-up": _numbers(level, device, {"up": "links_up"}).get("up"),
            **({"links": [link for at, link in every if at in layout.of(device)]} if lists_links else {}),
        })  # fmt: skip
    links = node.pool.device_type.connections.links
    return {
        "server": node.pool.device_type.connections.server.name or None,
        "layout": links.layout.value if links else None,
        "link-count": link_count,
        "devices": devices,
        "switches": [
            {"switch": f"{node.name}/switch/{own['switch']}", **_numbers(fleet.state.levels["switch"], place, _SWITCH)}
            for place, own in switch_facts(fleet.roster, node)
        ],
    }


def describe_links(fleet: Fleet, node: RosterNode, index: int) -> list[dict[str, Any]]:
    """The links of one device."""
    own = fleet.roster.links.of(node.first + index)
    return [link for place, link in _links(fleet, node, fleet.labels.facts(node)) if place in own]


def _links(fleet: Fleet, node: RosterNode, facts: Sequence[Mapping[str, str]]) -> list[tuple[int, dict[str, Any]]]:
    level = fleet.state.levels["link"]
    return [
        (
            place,
            {
                "link": f"{node.name}/{own['index']}/link/{own['link']}",
                "to": _other_end(node, own),
                "state": _STATES[int(level.arrays["link_state"][place])],
                **_numbers(level, place, _TRAFFIC),
            },
        )
        for place, own in link_facts(fleet.roster, node, facts)
    ]


def _other_end(node: RosterNode, own: Mapping[str, str]) -> str | None:
    """The name of the other end of a link; None when that is not simulated."""
    if "switch" in own:
        return f"{node.name}/switch/{own['switch']}/port/{own['port']}"
    if "peer_link" in own:
        return f"{node.name}/{own['peer_index']}/link/{own['peer_link']}"
    return None


def _numbers(level: Level, place: int, quantities: Mapping[str, str]) -> dict[str, float]:
    """The values of some quantities that an entity has, by their names in the API."""
    return {
        name: level.arrays[quantity][place].item()
        for name, quantity in quantities.items()
        if level.has(quantity, place)
    }


class NodeList(ItemsResource, ApiCollection):
    """The nodes."""

    path = NODES

    def __init__(self, fleet: Fleet, pages: Pages) -> None:
        self._fleet = fleet
        self._pages = pages

    def item(self, name: str) -> ApiResource:
        roster = self._fleet.roster
        node = roster.node(name)
        return missing_node(roster, name) if node is None else ApiPage(partial(self._described, node))

    def items(self, request: Request) -> Items[RosterNode]:
        """In the order of the configuration."""
        pool, roster = argument(request, "pool"), self._fleet.roster
        error = unknown_pool(roster, pool, "unknown-name", "pool")
        if error is not None:
            raise error
        titles = {pool.name: self._pages.identities[pool.name].title for pool in roster.pools}

        def describe(node: RosterNode) -> dict[str, Any]:
            return describe_node(node, titles[node.pool.name])

        return Items(
            [node for node in roster.shown if pool in ("", node.pool.name)],
            lambda _: describe,
            lambda node: (node.name, node.pool.name, node.pool.device_type.name, titles[node.pool.name]),
            partial(described_key, describe),
            exists=lambda _: roster is self._fleet.roster,
        )

    def _described(self, node: RosterNode) -> dict[str, Any]:
        summary = describe_node(node, self._pages.identities[node.pool.name].title)
        return {**summary, "topology": describe_topology(self._fleet, node)}


def describe_identities(fleet: Fleet, pages: Pages) -> dict[str, Any]:
    """The identities that the fleet shows: their families, those that no device has, and what they do not cover."""
    quantities = fleet.quantity_names()
    kinds = [{**pool.device_type.facts, **pool.facts} for pool in fleet.roster.pools]
    unique = {identity.title: identity for identity in pages.identities.values()}
    return {
        "identities": [
            {
                "identity": title,
                "content-type": identity.content_type,
                "families": [family.name for family in identity.families],
                "absent": identity.absent_families(quantities, kinds),
                "conditional": identity.conditional_families(quantities, kinds),
                "not-covered": list(identity.not_covered),
            }
            for title, identity in unique.items()
        ]
    }


#: Characters of the text, and devices in an answer.
MAX_CHARACTERS: Final = 100
_MAX_FOUND: Final = 20_000
#: Workloads whose names are looked at in one step.
_WORKLOADS_AT_ONCE: Final = 100


class Find(ApiResource):
    """The devices that a text finds, without regard to case."""

    path = FIND

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def get(self, request: Request) -> Answer:
        """``text``: a part of a name. Answers the names of the first devices, and how many there are."""
        return request.answer_in_slices(self._steps(request))

    def _steps(self, request: Request) -> Steps[Response]:
        text = argument(request, "text").lower()
        if not 0 < len(text) <= MAX_CHARACTERS:
            reason = f"text must have 1 to {MAX_CHARACTERS} characters"
            raise HttpError(400, reason, "bad-argument", "text")
        yield
        roster = self._fleet.roster
        found = yield from _by_work(self._fleet, text)
        pools = {pool.name for pool in roster.pools if text in f"{pool.name}\n{pool.device_type.name}".lower()}
        names: list[str] = []
        for node in roster.shown:
            is_found = node.pool.name in pools or text in node.name.lower()
            devices = range(node.pool.devices_per_node)
            names += [f"{node.name}/{index}" for index in devices if is_found or found[node.first + index]]
            yield
        return json_response({"devices": names[:_MAX_FOUND], "total": len(names)})


def _by_work(fleet: Fleet, text: str) -> Steps[list[bool]]:
    """Whether each device has a workload whose name, pod, namespace or container has the text; found in steps."""
    parts, running, table = fleet.roster.parts, fleet.workloads.by_id, fleet.workloads.table
    ids, owners, devices = table.ids, table.owner, table.device
    found = np.zeros(fleet.roster.device_count, np.bool_)
    chosen = np.zeros(len(ids), np.bool_)
    for place, workload_id in enumerate(ids):
        workload = running.get(workload_id)  # None: ended meanwhile
        if workload is not None:
            each = workload.spec
            chosen[place] = text in f"{each.name}\n{each.pod}\n{each.namespace}\n{each.container}".lower()
        if place % _WORKLOADS_AT_ONCE == 0:
            yield
    found[parts.owners_of(devices[chosen[owners]])] = True
    matches: list[bool] = found.tolist()
    return matches


def missing_node(roster: Roster, name: str) -> MissingItem:
    """404 for an unknown node."""
    return MissingItem(no_node(shown(name), roster, "node").text, "node")


def unknown_pool(roster: Roster, name: str, code: str = "", where: str = "") -> HttpError | None:
    """The error for a pool in a query that does not exist; None for one that does, and for an empty name."""
    pools = list(dict.fromkeys(pool.name for pool in roster.pools))
    if not name or name in pools:
        return None
    return HttpError(404, f"no pool {shown(name)!r}: {counted(pools)}", code, where)
