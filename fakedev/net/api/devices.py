"""/api/v1/devices and /api/v1/history: devices with their parts and links, and the last ticks for charts."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fakedev.net.api.nodes import describe_links
from fakedev.net.fleet.describe import describe_part, describe_parts, describe_state, device_describer
from fakedev.net.fleet.faults import describe_explanations, describe_link_explanations
from fakedev.net.http.api import (
    ApiCollection,
    ApiHistory,
    ApiPage,
    ApiResource,
    argument,
    missing,
    missing_node,
    numbered,
)
from fakedev.net.http.items import Items, in_order, items_response
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Answer
from fakedev.net.http.response import Response, as_http_error, json_response
from fakedev.sim.charts import History
from fakedev.sim.entities.roster import Roster, RosterNode
from fakedev.sim.entities.selectors import no_node
from fakedev.sim.fleet import Fleet
from fakedev.sim.levels import DEVICE
from fakedev.spec.web_paths import DEVICES


class Devices(ApiCollection):
    """The devices with all their quantities."""

    query = DEVICES.query

    def __init__(self, fleet: Fleet, history: History) -> None:
        self._fleet = fleet
        self._history = history

    def item(self, name: str) -> ApiResource:
        node = self._fleet.roster.node(name)
        return missing_node(self._fleet.roster, name) if node is None else NodeDevices(self._fleet, self._history, node)

    def get(self, request: GuardedRequest) -> Answer:
        """The devices in the order of the pages, or those that the query asks for, all at the same tick."""
        wanted = argument(request, "node")

        def now() -> Items[int]:
            roster = self._fleet.roster
            node = roster.node(wanted)
            if wanted and node is None:
                raise as_http_error(no_node(wanted, roster, "node"), is_item=True)
            places = node.devices if node else roster.shown_devices.tolist()
            return Items(
                places,
                partial(device_describer, self._fleet),
                partial(_names, roster),
                partial(_sort_key, self._fleet),
                lambda: {"tick": self._fleet.state.tick},
                lambda _: roster is self._fleet.roster,
            )

        return items_response(request, DEVICES, "devices", now)


class NodeDevices(ApiResource):
    """The devices of one node, by index."""

    def __init__(self, fleet: Fleet, history: History, node: RosterNode) -> None:
        self._device = partial(DeviceItem, fleet, history, node)
        self._node = node

    def find_child(self, name: bytes, request: GuardedRequest) -> ApiResource:
        node = self._node.name
        none = numbered(node, len(self._node.devices), "it has none")
        return _by_number(name, len(self._node.devices), self._device, ("device", f"{node}/", none))

    def refusal(self, request: GuardedRequest) -> Response | None:
        """The node without an index is no device."""
        return self.find_child(b"", request).refusal(request)


class DeviceItem(ApiPage):
    """One device; its last ticks and its parts are below it."""

    def __init__(self, fleet: Fleet, history: History, node: RosterNode, index: int) -> None:
        super().__init__(partial(_device, fleet, node, index))
        self.put_child("link", DeviceLinks(fleet, node, index))
        self.put_child("parts", ApiPage(partial(_parts, fleet, node, index)))
        past = partial(_device_history, history, node.first + index, f"{node.name}/{index}")
        self.put_child("history", ApiHistory(past))
        self._of = fleet, node, index

    def find_child(self, name: bytes, request: GuardedRequest) -> ApiResource:
        fleet, node, index = self._of
        parts = fleet.roster.parts.of(node.first + index)
        device = f"{node.name}/{index}"
        there = f"{numbered(device, len(parts), f'{device} is not divided')}; also there are history, link and parts"
        return _by_number(
            name, len(parts), lambda number: ApiPage(partial(_part, fleet, node, parts[number])),
            ("part", f"{device}/", there),
        )  # fmt: skip


class DeviceLinks(ApiCollection):
    """The links of one device."""

    def __init__(self, fleet: Fleet, node: RosterNode, index: int) -> None:
        self._of = fleet, node, index

    def item(self, name: str) -> ApiResource:
        fleet, node, index = self._of
        device = f"{node.name}/{index}"
        count = len(fleet.roster.links.of(node.first + index))
        there = numbered(device, count, f"{device} has none")
        return _by_number(
            name.encode(), count, lambda number: ApiPage(partial(_link, fleet, node, index, number)),
            ("link", f"{device}/link/", there),
        )  # fmt: skip

    def get(self, request: GuardedRequest) -> Response:
        """Each with its other end, state, traffic and errors."""
        return json_response({"links": describe_links(*self._of)})


def _names(roster: Roster, device: int) -> tuple[str, str, str]:
    """Where a search looks in a device."""
    pool = roster.nodes[roster.node_position(device)].pool
    return roster.unit_name(device), pool.device_type.name, pool.name


def _sort_key(fleet: Fleet, name: str) -> Callable[[int], Any]:
    """What devices are sorted by; those that do not have a quantity count as the lowest."""
    names = {"device": 0, "type": 1}
    if name in names:
        return lambda device: in_order(_names(fleet.roster, device)[names[name]])
    level = fleet.state.levels[DEVICE]
    if name not in level.arrays:
        return lambda device: 0
    values = np.where(level.present.get(name, True), level.arrays[name], -np.inf)
    return values.__getitem__


def _device(fleet: Fleet, node: RosterNode, index: int) -> dict[str, Any]:
    """A device with all its quantities, and the reasons for the most important."""
    explained = describe_explanations(fleet, node.first + index)["explanations"]
    device = device_describer(fleet, [node.first + index])(node.first + index)
    state, links = describe_state(fleet, node.first + index), describe_links(fleet, node, index)
    return {**device, **state, "links": links, "explained": explained}


def _device_history(history: History, device: int, name: str, seconds: float | None) -> dict[str, Any]:
    """The quantities of a device in the last ticks."""
    return {"device": name, **history.of_device(device, seconds)}


def _parts(fleet: Fleet, node: RosterNode, index: int) -> dict[str, Any]:
    """The parts of a device with names, health, workloads, and the most important of their quantities."""
    return {"tick": fleet.state.tick, "parts": describe_parts(fleet, node, index)}


def _part(fleet: Fleet, node: RosterNode, unit: int) -> dict[str, Any]:
    """A part with all its quantities, and the reasons for the most important."""
    explained = describe_explanations(fleet, unit)["explanations"]
    return {**describe_part(fleet, unit, dict(fleet.part_facts(node))[unit]), "explained": explained}


def _link(fleet: Fleet, node: RosterNode, index: int, number: int) -> dict[str, Any]:
    """A link with its quantities, and their reasons."""
    explained = describe_link_explanations(fleet, node.first + index, number)["explanations"]
    return {**describe_links(fleet, node, index)[number], "explained": explained}


def _by_number(
    name: bytes, count: int, make: Callable[[int], ApiResource], absent: tuple[str, str, str]
) -> ApiResource:
    """The child of a number in a path; a MissingItem when it is no number, or not below ``count``.

    :param absent: what it would be, the path above it, and what exists instead.
    """
    if re.fullmatch(rb"[0-9]{1,6}", name) and int(name) < count:
        return make(int(name))
    noun, above, there = absent
    return missing(noun, above.encode() + name, there)
