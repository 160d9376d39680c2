"""/api/v1/find: the devices that a text finds by their node, pool, model, or the workloads and pods on them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import numpy as np

from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.selectors import no_node
from fakedev.fleet.fleet import Fleet
from fakedev.web.paths import FIND
from fakedev.web.query import ApiResource, MissingItem, argument, counted, shown
from fakedev.web.request import Request
from fakedev.web.resource import Answer
from fakedev.web.response import HttpError, json_response
from fakedev.web.sliced_answers import Steps

#: Characters of the text, and devices in an answer.
MAX_CHARACTERS: Final = 100
_MAX_FOUND: Final = 20_000
#: Workloads whose names are looked at in one step.
_WORKLOADS_AT_ONCE: Final = 100


class Find(ApiResource):
    """The devices that a text finds, without regard to case."""

    query = FIND.query

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def get(self, request: Request) -> Answer:
        """``text``: a part of a name. Answers the names of the first devices, and how many there are."""
        return request.answer_in_slices(self._steps(request))

    def _steps(self, request: Request) -> Steps:
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


def _by_work(fleet: Fleet, text: str) -> Generator[None, None, list[bool]]:
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
    pools = list(dict.fromkeys(each.name for each in roster.pools))
    if not name or name in pools:
        return None
    return HttpError(404, f"no pool {shown(name)!r}: {counted(pools)}", code, where)
