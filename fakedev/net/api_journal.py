"""/api/v1/journal: what happened last, and why."""

from __future__ import annotations

from fakedev.net.api_base import ApiResource, page_of
from fakedev.net.http_request import GuardedRequest
from fakedev.net.http_response import Response, json_response
from fakedev.sim.fleet import Fleet
from fakedev.sim.happenings import MOST_KEPT


class JournalApi(ApiResource):
    """What happened last."""

    isLeaf = True

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet

    def get(self, request: GuardedRequest) -> Response:
        """What happened, the newest first; ``limit`` and ``offset`` choose some."""
        every = self._fleet.happenings.last(MOST_KEPT)[::-1]
        shown = [every[place].fields() for place in page_of(request, len(every))]
        return json_response({"tick": self._fleet.state.tick, "journal": shown, "total": len(every)})
