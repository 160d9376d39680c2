"""The API under /api/v1: collections and items of workloads, devices, nodes, identities; the clock."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson
from twisted.internet.defer import Deferred
from twisted.web.resource import Resource

from fakedev.net.descriptions import describe_clock, describe_device, describe_node, describe_workload
from fakedev.net.http_request import GuardedRequest
from fakedev.net.http_resource import Folder, GuardedResource
from fakedev.net.http_response import HttpError, Response, json_response
from fakedev.net.pages import Pages
from fakedev.net.ticker import Ticker
from fakedev.net.workload_hub import WorkloadHub
from fakedev.sim.errors import Refused
from fakedev.sim.fleet import Fleet
from fakedev.sim.roster import RosterNode
from fakedev.sim.units import parse_duration
from fakedev.sim.workload_fields import workload_from_fields

#: Items of a collection in one answer: about 20 ms of work for devices.
_MOST_ITEMS: Final = 500
_STATUS: Final = {"unknown-name": 404, "busy": 503, "full": 503}


class ApiResource(GuardedResource):
    """A resource of the API: its errors are JSON."""

    errors_as_json = True


def as_http_error(refusal: Refused, is_item: bool = False) -> HttpError:
    """A refusal of the rules as an answer; a name that is unknown is 404 where the path is that name."""
    status = _STATUS.get(refusal.code, 400)
    if status == 404 and not is_item:
        status = 400
    return HttpError(status, refusal.text, refusal.code, refusal.where)


def _json_body(body: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HttpError(400, f"the body is not JSON: {error}", "bad-argument", "body") from None
    if not isinstance(value, dict):
        raise HttpError(400, "the body must be a JSON object", "bad-argument", "body")
    return value


def _whole(request: GuardedRequest, name: str, default: int, most: int) -> int:
    """A whole number of the query."""
    text = request.args.get(name.encode(), [b""])[0].decode("utf-8", "replace")
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) > most:
        raise HttpError(400, f"{name} must be a whole number from 0 to {most}", "bad-argument", name)
    return int(text)


def _page_of(request: GuardedRequest, count: int) -> range:
    """Which items of a collection of ``count`` a query with limit and offset asks for."""
    limit = _whole(request, "limit", _MOST_ITEMS, _MOST_ITEMS)
    offset = _whole(request, "offset", 0, 10**9 - 1)
    return range(min(offset, count), min(offset + limit, count))


class Workloads(ApiResource):
    """The workloads: list them, start one (which lives until it is stopped, ended or its ttl is over)."""

    def __init__(self, hub: WorkloadHub) -> None:
        super().__init__()
        self._hub = hub

    def getChild(self, path: bytes, request: GuardedRequest) -> Resource:
        """A workload, by id or name."""
        return WorkloadItem(self._hub, path.decode("utf-8", "replace")) if path else self

    def get(self, request: GuardedRequest) -> Response:
        """All workloads, oldest first; ``limit`` and ``offset`` choose some."""
        fleet = self._hub.fleet
        every = list(fleet.workloads.by_id.values())
        loads = fleet.workloads.load_percents()
        shown = [describe_workload(fleet, every[place], loads) for place in _page_of(request, len(every))]
        return json_response({"workloads": shown, "total": len(every)})

    def post(self, request: GuardedRequest, body: bytes) -> Response:
        """Start the workload that the body describes."""
        fleet = self._hub.fleet
        try:
            workload_id = self._hub.start(workload_from_fields(_json_body(body)))
        except Refused as refusal:
            raise as_http_error(refusal) from None
        described = describe_workload(fleet, fleet.workloads.by_id[workload_id], {})
        return json_response(described, 201, [("Location", f"/api/v1/workloads/{workload_id}")])


class WorkloadItem(ApiResource):
    """One workload: look at it, stop it."""

    isLeaf = True

    def __init__(self, hub: WorkloadHub, word: str) -> None:
        super().__init__()
        self._hub = hub
        self._word = word

    def get(self, request: GuardedRequest) -> Response:
        """The workload of that id, or the oldest of that name."""
        workloads = self._hub.fleet.workloads
        found = workloads.find(self._word)
        if not found:
            raise HttpError(404, f"no workload {self._word!r}", "unknown-name", "workload")
        return json_response(
            describe_workload(self._hub.fleet, workloads.by_id[found[0]], workloads.load_percents())
        )

    def delete(self, request: GuardedRequest) -> Response:
        """Stop it, or all of that name."""
        try:
            return json_response({"stopped": self._hub.stop(self._word)})
        except Refused as refusal:
            raise as_http_error(refusal, is_item=True) from None


class Devices(ApiResource):
    """The devices with all their quantities; ``node``, ``limit`` and ``offset`` choose some."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet

    def getChild(self, path: bytes, request: GuardedRequest) -> Resource:
        """The devices of a node, one of them below it."""
        node = self._fleet.roster.node(path.decode("utf-8", "replace"))
        if not path:
            return self
        return super().getChild(path, request) if node is None else NodeDevices(self._fleet, node)

    def get(self, request: GuardedRequest) -> Response:
        """The devices in the order of the pages."""
        roster = self._fleet.roster
        wanted = request.args.get(b"node", [b""])[0].decode("utf-8", "replace")
        node = roster.node(wanted)
        if wanted and node is None:
            raise HttpError(404, f"no node {wanted!r}", "unknown-name", "node")
        places = node.devices if node else range(roster.device_count)
        shown, facts, of_node = [], [], None
        for position in (places[place] for place in _page_of(request, len(places))):
            holder = roster.nodes[roster.node_position(position)]
            if holder is not of_node:
                facts, of_node = self._fleet.facts(holder), holder
            index = position - holder.first
            shown.append(describe_device(self._fleet, holder, index, facts[index]))
        return json_response({"tick": self._fleet.state.tick, "devices": shown, "total": len(places)})


class NodeDevices(ApiResource):
    """The devices of one node, by index."""

    def __init__(self, fleet: Fleet, node: RosterNode) -> None:
        super().__init__()
        self._fleet = fleet
        self._node = node

    def getChild(self, path: bytes, request: GuardedRequest) -> Resource:
        """The device of that index."""
        text = path.decode("utf-8", "replace")
        if re.fullmatch(r"[0-9]{1,6}", text) and int(text) < len(self._node.devices):
            return DeviceItem(self._fleet, self._node, int(text))
        return super().getChild(path, request)


class DeviceItem(ApiResource):
    """One device."""

    isLeaf = True

    def __init__(self, fleet: Fleet, node: RosterNode, index: int) -> None:
        super().__init__()
        self._of = fleet, node, index

    def get(self, request: GuardedRequest) -> Response:
        """The device with all its quantities."""
        fleet, node, index = self._of
        return json_response(describe_device(fleet, node, index, fleet.facts(node)[index]))


class Nodes(ApiResource):
    """The nodes; ``pool``, ``limit`` and ``offset`` choose some."""

    def __init__(self, fleet: Fleet, pages: Pages) -> None:
        super().__init__()
        self._fleet = fleet
        self._pages = pages

    def getChild(self, path: bytes, request: GuardedRequest) -> Resource:
        """A node by name."""
        node = self._fleet.roster.node(path.decode("utf-8", "replace"))
        if not path:
            return self
        return super().getChild(path, request) if node is None else NodeItem(node, self._title(node))

    def get(self, request: GuardedRequest) -> Response:
        """The nodes in the order of the configuration."""
        pool = request.args.get(b"pool", [b""])[0].decode("utf-8", "replace")
        nodes = [node for node in self._fleet.roster.nodes if pool in ("", node.pool.name)]
        shown = [describe_node(nodes[place], self._title(nodes[place])) for place in _page_of(request, len(nodes))]
        return json_response({"nodes": shown, "total": len(nodes)})

    def _title(self, node: RosterNode) -> str:
        return self._pages.identities[node.pool.name].title


class NodeItem(ApiResource):
    """One node."""

    isLeaf = True

    def __init__(self, node: RosterNode, title: str) -> None:
        super().__init__()
        self._node = node
        self._title = title

    def get(self, request: GuardedRequest) -> Response:
        """The node."""
        return json_response(describe_node(self._node, self._title))


class Identities(ApiResource):
    """The identities that the fleet shows, and what they lack."""

    isLeaf = True

    def __init__(self, fleet: Fleet, pages: Pages) -> None:
        super().__init__()
        self._fleet = fleet
        self._pages = pages

    def get(self, request: GuardedRequest) -> Response:
        """Each identity with its families, those that no device fills, and what it does not cover."""
        quantities = self._fleet.quantity_names()
        unique = {identity.title: identity for identity in self._pages.identities.values()}
        shown = [
            {
                "identity": title,
                "content-type": identity.content_type,
                "families": [family.name for family in identity.families],
                "absent": identity.absent_families(quantities),
                "not-covered": list(identity.not_covered),
            }
            for title, identity in unique.items()
        ]
        return json_response({"identities": shown})


class Clock(ApiResource):
    """The simulated clock: look at it, move it on."""

    isLeaf = True

    def __init__(self, fleet: Fleet, ticker: Ticker) -> None:
        super().__init__()
        self._fleet = fleet
        self._ticker = ticker

    def get(self, request: GuardedRequest) -> Response:
        """Where the clock stands."""
        return json_response(describe_clock(self._fleet, self._ticker.speed))

    def post(self, request: GuardedRequest, body: bytes) -> Deferred[Response]:
        """``{"advance": "15m"}``: answered when the clock has got there."""
        fields = _json_body(body)
        if set(fields) != {"advance"} or not isinstance(fields["advance"], str | int | float):
            raise HttpError(400, 'the body must be {"advance": DURATION}, as "15m"', "bad-argument", "advance")
        try:
            seconds = parse_duration(fields["advance"]) if isinstance(fields["advance"], str) else fields["advance"]
        except ValueError as error:
            raise HttpError(400, str(error), "bad-argument", "advance") from None
        return Deferred.fromCoroutine(self._moved(float(seconds)))

    async def _moved(self, seconds: float) -> Response:
        try:
            await self._ticker.advance(seconds)
        except Refused as refusal:
            raise as_http_error(refusal) from None
        return json_response(describe_clock(self._fleet, self._ticker.speed))


def make_api(hub: WorkloadHub, pages: Pages, ticker: Ticker) -> Folder:
    """The tree under /api."""
    fleet = hub.fleet
    version = Folder(
        errors_as_json=True,
        workloads=Workloads(hub),
        devices=Devices(fleet),
        nodes=Nodes(fleet, pages),
        identities=Identities(fleet, pages),
        clock=Clock(fleet, ticker),
    )
    return Folder(errors_as_json=True, v1=version)
