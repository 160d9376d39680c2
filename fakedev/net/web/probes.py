"""/health and its aliases: whether the service is well."""

from __future__ import annotations

from collections.abc import Callable

from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import GuardedResource
from fakedev.net.http.response import Response, json_response

#: Why the service is not well; None when it is.
Health = Callable[[], str | None]


class HealthPage(GuardedResource):
    """/health and its aliases: 200, or 503 with the reason."""

    isLeaf = True

    def __init__(self, health: Health) -> None:
        super().__init__()
        self._health = health

    def get(self, request: GuardedRequest) -> Response:
        """How the service is."""
        reason = self._health()
        if reason is None:
            return json_response({"status": "healthy"})
        return json_response({"status": "unhealthy", "reason": reason}, 503)
