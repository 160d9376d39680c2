"""Pages for supervisors: /health and its aliases, /-/reload, and 503 at addresses that a reload has just added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from fakedev.web.http_limits import HttpError
from fakedev.web.request import Request
from fakedev.web.resource import Resource
from fakedev.web.response import Response, json_response

#: The reason why the service is not healthy; None when it is.
Health = Callable[[], str | None]
#: Why files that are written while the program runs have ended; see Program.file_problems.
FileProblems = Callable[[], Mapping[str, str]]
#: Reads the configuration again; fires with values to report, or fails with ReloadFailed.
AskReload = Callable[[], Deferred[dict[str, Any]]]


class HealthPage(Resource):
    """/health and its aliases: 200, or 503 with the reason.

    A file that cannot be written is no reason to restart the program: it is named, and the status stays 200.
    """

    waits_for_ticks = False

    def __init__(self, health: Health, file_problems: FileProblems = dict) -> None:
        self._health = health
        self._file_problems = file_problems

    def get(self, request: Request) -> Response:
        reason = self._health()
        if reason is None:
            problems = [problem for problem in self._file_problems().values() if problem]
            return json_response({"status": "healthy"} | ({"problems": problems} if problems else {}))
        return json_response({"status": "unhealthy", "reason": reason}, 503)


class ReloadFailed(Exception):
    """The old configuration stays in use; the text has a line for each reason.

    :ivar is_ours: the new configuration may be valid, but fakedev cannot use it now.
    """

    def __init__(self, text: str, is_ours: bool = False) -> None:
        super().__init__(text)
        self.is_ours = is_ours


class Reload(Resource):
    """/-/reload: POST reads the configuration again."""

    def __init__(self, ask: AskReload) -> None:
        self._ask = ask

    async def post(self, request: Request, body: bytes) -> Response:
        """200 when the new configuration is in use; 400 with the reasons when the old one stays."""
        if body:
            raise HttpError(400, "no body belongs here: the configuration is read from where it was read at the start")
        asked = self._ask()
        # A reload that has not begun is dropped when nobody waits for it any more.
        request.notifyFinish().addErrback(lambda _: asked.cancel())
        try:
            return json_response(await asked)
        except ReloadFailed as failure:
            raise HttpError(503 if failure.is_ours else 400, str(failure)) from None
        except CancelledError:
            raise HttpError(503, "the client has left") from None


class NotYet(Resource):
    """All paths of an address that a reload has added, until its configuration is in use."""

    def getChild(self, path: bytes, request: Request) -> Resource:
        return self

    def get(self, request: Request) -> Response:
        raise HttpError(503, "the configuration of this address takes effect with the next tick")
