"""/api/v1/stream: the fleet live, as server-sent events."""

from __future__ import annotations

from fakedev.net.http.api import ApiResource
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.response import HttpError, Response
from fakedev.net.web.live import CONTENT_TYPE, LiveView


class Stream(ApiResource):
    """Server-sent events: who there is, then a frame for each tick."""

    isLeaf = True

    def __init__(self, live: LiveView) -> None:
        super().__init__()
        self._live = live

    def handle(self, request: GuardedRequest) -> None:
        """Begin an answer without end; refusals and HEAD are answered as everywhere."""
        if request.method == b"GET" and not self._live.is_full and self.refusal(request) is None:
            self._live.add(request)
        else:
            super().handle(request)

    def get(self, request: GuardedRequest) -> Response:
        """What HEAD tells, and whoever comes when it is full."""
        if request.method == b"GET":
            raise HttpError(503, "too many viewers", "full", headers=(("Retry-After", "10"),))
        return Response(200, b"", CONTENT_TYPE)
