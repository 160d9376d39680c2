"""/api/v1/journal: what happened last, and why."""

from __future__ import annotations

from fakedev.net.fleet.journal_query import find_happenings
from fakedev.net.http.api import ApiResource, as_http_error, page_of
from fakedev.net.http.query import argument
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.response import Response, json_response
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused


class JournalApi(ApiResource):
    """What happened last."""

    isLeaf = True
    query = ("kind", "devices", "node", "limit", "offset")

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet

    def get(self, request: GuardedRequest) -> Response:
        """What happened, newest first; ``kind``, ``devices``, ``node``, ``limit`` and ``offset`` choose some."""
        kinds, devices = _words(request, b"kind"), _words(request, b"devices")
        node = argument(request, "node")
        try:
            every = find_happenings(self._fleet, kinds, devices, node)[::-1]
        except Refused as refusal:
            raise as_http_error(refusal) from None
        shown = [every[place].fields() for place in page_of(request, len(every))]
        return json_response({"tick": self._fleet.state.tick, "journal": shown, "total": len(every)})


def _words(request: GuardedRequest, name: bytes) -> list[str]:
    """The words of a query, given with commas or one by one."""
    texts = b",".join(request.args.get(name, [])).decode("utf-8", "replace")
    return [word.strip() for word in texts.split(",") if word.strip()]
