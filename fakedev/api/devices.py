"""/api/v1/devices and /api/v1/history: devices with their parts and links, and the last ticks for charts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from fakedev.api.nodes import describe_links, missing_node
from fakedev.base.errors import Refused
from fakedev.fleet.charts import KEPT, History
from fakedev.fleet.describe import describe_limits, describe_part, describe_parts, describe_state, device_describer
from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.selectors import no_node, resolve_here
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.hub import describe_explanations, describe_link_explanations
from fakedev.fleet.levels import DEVICE
from fakedev.web.http_limits import HttpError
from fakedev.web.items import Items, ItemsResource, in_order
from fakedev.web.paths import DEVICE as DEVICE_PATH
from fakedev.web.paths import DEVICES, HISTORY
from fakedev.web.query import (
    ApiCollection,
    ApiHistory,
    ApiPage,
    ApiResource,
    argument,
    missing,
    numbered,
    seconds_of,
    shown,
)
from fakedev.web.request import Request
from fakedev.web.response import Response, as_http_error, json_response

#: Rows of an answer about the past: devices times quantities.
MAX_ROWS: Final = 64


class Devices(ItemsResource, ApiCollection):
    """The devices with all their quantities."""

    path = DEVICES

    def __init__(self, fleet: Fleet, history: History) -> None:
        self._fleet = fleet
        self._history = history

    def item(self, name: str) -> ApiResource:
        node = self._fleet.roster.node(name)
        return missing_node(self._fleet.roster, name) if node is None else NodeBoards(self._fleet, self._history, node)

    def items(self, request: Request) -> Items[int]:
        """In the order of the pages, all at the same tick."""
        wanted, roster = argument(request, "node"), self._fleet.roster
        node = roster.node(wanted)
        if wanted and node is None:
            raise as_http_error(no_node(wanted, roster, "node"), is_item=True)
        return Items(
            node.devices if node else roster.shown_devices.tolist(),
            partial(device_describer, self._fleet),
            partial(_names, roster),
            partial(_sort_key, self._fleet),
            lambda: {"tick": self._fleet.state.tick},
            lambda _: roster is self._fleet.roster,
        )


class NodeBoards(ApiResource):
    """The devices of one node, by index."""

    def __init__(self, fleet: Fleet, history: History, node: RosterNode) -> None:
        self._device = partial(DeviceItem, fleet, history, node)
        self._node = node

    def getChild(self, name: bytes, request: Request) -> ApiResource:
        node = self._node.name
        none = numbered(node, len(self._node.devices), "it has none")
        return _by_number(name, len(self._node.devices), self._device, ("device", f"{node}/", none))

    def refusal(self, request: Request) -> Response | None:
        """The node without an index is no device."""
        return self.getChild(b"", request).refusal(request)


class FleetHistory(ApiResource):
    """The past of the fleet, or of some devices: for charts that compare them."""

    path = HISTORY

    def __init__(self, fleet: Fleet, history: History) -> None:
        self._fleet = fleet
        self._history = history

    def get(self, request: Request) -> Response:
        """The whole fleet without ``devices``; with it the devices that it names, with all quantities or with one."""
        seconds, quantity = seconds_of(request), argument(request, "quantity")
        if quantity and quantity not in KEPT:
            raise HttpError(400, f"no quantity {shown(quantity)!r}: {', '.join(KEPT)}", "bad-argument", "quantity")
        words = [word.strip() for word in argument(request, "devices").split(",") if word.strip()]
        if not words:
            return json_response(self._history.of_fleet(seconds))
        roster = self._fleet.roster
        try:
            devices = np.unique(roster.parts.owners_of(resolve_here(words, roster)))
        except Refused as refusal:
            raise as_http_error(refusal) from None
        most = MAX_ROWS // (1 if quantity else len(KEPT))
        if len(devices) > most:
            text = f"{len(devices)} devices: at most {most}, {MAX_ROWS} with a quantity"
            raise HttpError(400, text, "bad-argument", "devices")
        past = self._history.of_devices(devices, seconds, quantity)
        names = [roster.unit_name(device) for device in devices.tolist()]
        tables = {key: by_name(names, value) for key, value in past.items() if isinstance(value, dict)}
        return json_response(past | tables)


def by_name(devices: Sequence[str], quantities: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """From the values of all devices by quantity to the quantities by device."""
    return {device: {name: rows[place] for name, rows in quantities.items()} for place, device in enumerate(devices)}


class Explained(ApiResource):
    """A device, a part or a link, and why its most important values, or the value of ``metric``, are what they are."""

    path = DEVICE_PATH

    def __init__(self, make: Callable[[str], dict[str, Any]]) -> None:
        self._make = make

    def get(self, request: Request) -> Response:
        return json_response(self._make(argument(request, "metric")))


class DeviceItem(Explained):
    """One device; its last ticks and its parts are below it."""

    def __init__(self, fleet: Fleet, history: History, node: RosterNode, index: int) -> None:
        super().__init__(partial(_device, fleet, node, index))
        self.putChild(b"link", DeviceLinks(fleet, node, index))
        self.putChild(b"parts", ApiPage(partial(_parts, fleet, node, index)))
        past = partial(_device_history, history, node.first + index, f"{node.name}/{index}")
        self.putChild(b"history", ApiHistory(past))
        self._of = fleet, node, index

    def getChild(self, name: bytes, request: Request) -> ApiResource:
        fleet, node, index = self._of
        parts = fleet.roster.parts.of(node.first + index)
        device = f"{node.name}/{index}"
        there = f"{numbered(device, len(parts), f'{device} is not divided')}; also there are history, link and parts"
        return _by_number(
            name, len(parts), lambda number: Explained(partial(_part, fleet, node, parts[number])),
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
            name.encode(), count, lambda number: Explained(partial(_link, fleet, node, index, number)),
            ("link", f"{device}/link/", there),
        )  # fmt: skip

    def get(self, request: Request) -> Response:
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


def _device(fleet: Fleet, node: RosterNode, index: int, metric: str) -> dict[str, Any]:
    """A device with all its quantities, and the reasons for a metric, or for the most important."""
    explained = describe_explanations(fleet, node.first + index, metric)["explanations"]
    device = device_describer(fleet, [node.first + index])(node.first + index)
    state, links = describe_state(fleet, node.first + index), describe_links(fleet, node, index)
    limits = describe_limits(fleet, node.first + index)
    return {**device, **state, "links": links, "limits": limits, "explained": explained}


def _device_history(history: History, device: int, name: str, seconds: float | None) -> dict[str, Any]:
    """The quantities of a device in the last ticks."""
    return {"device": name, **history.of_device(device, seconds)}


def _parts(fleet: Fleet, node: RosterNode, index: int) -> dict[str, Any]:
    """The parts of a device with names, health, workloads, and the most important of their quantities."""
    return {"tick": fleet.state.tick, "parts": describe_parts(fleet, node, index)}


def _part(fleet: Fleet, node: RosterNode, unit: int, metric: str) -> dict[str, Any]:
    """A part with all its quantities, and the reasons for a metric, or for the most important."""
    explained = describe_explanations(fleet, unit, metric)["explanations"]
    return {**describe_part(fleet, unit, dict(fleet.labels.part_facts(node))[unit]), "explained": explained}


def _link(fleet: Fleet, node: RosterNode, index: int, number: int, metric: str) -> dict[str, Any]:
    """A link with its quantities, and their reasons, or the reasons for a metric."""
    explained = describe_link_explanations(fleet, node.first + index, number, metric)["explanations"]
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
