"""/api/v1/find: the devices that a text finds by their node, pool, model, or the workloads and pods on them."""

from __future__ import annotations

from typing import Final

import numpy as np

from fakedev.net.http.api import ApiResource, argument
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.response import HttpError, Response, json_response
from fakedev.sim.entities.state import Mask
from fakedev.sim.fleet import Fleet
from fakedev.spec.web_paths import FIND

#: Characters of the text, and devices in an answer.
_MAX_CHARACTERS: Final = 100
_MAX_FOUND: Final = 20_000


class Find(ApiResource):
    """The devices that a text finds, without regard to case."""

    query = FIND.query

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def get(self, request: GuardedRequest) -> Response:
        """``text``: a part of a name. Answers the names of the first devices, and how many there are."""
        text = argument(request, "text").lower()
        if not 0 < len(text) <= _MAX_CHARACTERS:
            reason = f"text must have 1 to {_MAX_CHARACTERS} characters"
            raise HttpError(400, reason, "bad-argument", "text")
        found = (_by_name(self._fleet, text) | _by_work(self._fleet, text)).tolist()
        names = [
            f"{node.name}/{index}"
            for node in self._fleet.roster.shown
            for index in range(node.pool.devices_per_node)
            if found[node.first + index]
        ]
        return json_response({"devices": names[:_MAX_FOUND], "total": len(names)})


def _by_name(fleet: Fleet, text: str) -> Mask:
    """The devices of nodes, pools and types whose names have the text: shape (devices,)."""
    found = np.zeros(fleet.roster.device_count, np.bool_)
    pools = {pool.name for pool in fleet.roster.pools if text in f"{pool.name}\n{pool.device_type.name}".lower()}
    for node in fleet.roster.shown:
        if node.pool.name in pools or text in node.name.lower():
            found[node.first : node.first + node.pool.devices_per_node] = True
    return found


def _by_work(fleet: Fleet, text: str) -> Mask:
    """The devices with a workload whose name, pod, namespace or container has the text: shape (devices,)."""
    table, roster = fleet.workloads.table, fleet.roster
    specs = [fleet.workloads.by_id[each].spec for each in table.ids]
    chosen = [text in f"{each.name}\n{each.pod}\n{each.namespace}\n{each.container}".lower() for each in specs]
    found = np.zeros(roster.device_count, np.bool_)
    found[roster.parts.owners_of(table.device[np.array(chosen, np.bool_)[table.owner]])] = True
    return found
