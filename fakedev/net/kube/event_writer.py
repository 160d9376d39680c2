"""Events of nodes and pods, sent to the API in order of their making."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from fakedev.kube.reports import Report
from fakedev.net.kube.api_client import ApiClient
from fakedev.net.kube.api_error import ApiError
from fakedev.net.kube.paths import events_path

#: Events that wait to be sent; one more is dropped, and counted.
_MOST_WAITING: Final = 1000
#: Events that are sent at a time.
_MOST_AT_ONCE: Final = 4
#: While the server forbids Events, one is tried after this time: a role may have been given meanwhile.
_AGAIN_SECONDS: Final = 30.0


class EventWriter:
    """Sends Events; while the server does not take them, the newest are kept.

    :ivar dropped: how many were not sent because too many waited, or because the server refused them.
    """

    log = Logger()

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._waiting: deque[dict[str, Any]] = deque()
        self._sending = 0
        self._is_forbidden = False
        self._later: IDelayedCall | None = None
        self._is_paused = False
        self.dropped = 0

    def send(self, report: Report) -> None:
        """Send an Event, after those that wait."""
        now = datetime.fromtimestamp(self._client.clock.seconds(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if len(self._waiting) >= _MOST_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(report.event(now))
        self._send_next()

    def pause(self) -> None:
        """Send nothing until :meth:`resume`; what is to be sent waits."""
        self._is_paused = True
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def resume(self) -> None:
        """Send what waits."""
        self._is_paused = False
        self._send_next()

    def _send_next(self) -> None:
        most = 1 if self._is_forbidden else _MOST_AT_ONCE
        while self._waiting and self._sending < most and self._later is None and not self._is_paused:
            self._sending += 1
            Deferred.fromCoroutine(self._send(self._waiting.popleft())).addErrback(self._failed)

    def _failed(self, failure: Any) -> None:
        if failure.check(CancelledError) is None:
            self.log.failure("sending an Event failed by an internal error", failure=failure)

    async def _send(self, event: dict[str, Any]) -> None:
        try:
            await self._client.request("POST", events_path(event["metadata"]["namespace"]), body=event, flow="events")
            self._is_forbidden = False
        except CancelledError:
            self._keep(event)
            raise
        except ApiError as error:
            self._refused(event, error)
        finally:
            self._sending -= 1
            self._client.clock.callLater(0, self._send_next)

    def _refused(self, event: dict[str, Any], error: ApiError) -> None:
        if error.code == 403:  # the client has told it, with the rule that is missing
            self._is_forbidden = True
            self._keep(event)
            if self._later is None and not self._is_paused:
                self._later = self._client.clock.callLater(_AGAIN_SECONDS, self._again)
        elif error.code != 409:  # it is there already: a connection was lost after it was taken
            self.dropped += 1
            self.log.debug("an Event was not taken: {reason}", reason=str(error))

    def _keep(self, event: dict[str, Any]) -> None:
        """Send an Event once more; it is the oldest, and dropped first."""
        if len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
        else:
            self._waiting.appendleft(event)

    def _again(self) -> None:
        self._later = None
        self._send_next()
