"""Follows the objects at one path of the API: a list, then each change."""

from __future__ import annotations

from typing import Any, Final, Protocol

import orjson
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.logger import Logger

from fakedev.net.kube.api_client import ApiClient
from fakedev.net.kube.api_error import NO_ANSWER, ApiError, error_of_status
from fakedev.net.kube.listing import Read, as_it_is, list_all, selectors
from fakedev.net.kube.paths import parse_path

#: The server ends each stream after this time; the real ones do so after 5 to 10 minutes.
STREAM_SECONDS: Final = 300
#: A stream that is silent for so long beyond that is dead.
_SPARE_SECONDS: Final = 30.0
#: A stream that lasted so long worked, also when nothing has changed in it.
_WORKED_SECONDS: Final = 10.0
#: The reasons of restarts by those of errors; all others: refused.
_REASONS: Final = {
    "Broken": "broken", "Silent": "silent", "TooLarge": "garbled", "Garbled": "garbled", "NoJson": "garbled",
    "NoConnection": "unreachable", "NoAnswer": "unreachable", "Certificate": "unreachable",
}  # fmt: skip


class WatchHandler(Protocol):
    """Who wants to know. An item is what ``read`` has made of an object."""

    def listed(self, items: list[Any]) -> None:
        """All objects: at the start, and whenever the changes since the last list are not known."""

    def changed(self, item: Any) -> None:
        """A new or changed object."""

    def deleted(self, item: Any) -> None:
        """An object is gone; this is its last state."""

    def lost(self, reason: str) -> None:
        """What is known may be out of date from now on, until ``listed``; called once."""


class Watch:
    """Lists the objects at a path, then follows their changes by a stream, until it is stopped.

    An ended or broken stream goes on from the last event or bookmark. After 410, an error within the stream and a time
    without server the objects are listed anew. Attempts are made after 0.1 s to 30 s. Nothing is reported twice: an
    event again after a list is possible, and must not matter.

    :param path: ``/api/v1/pods``.
    :param read: what the handler gets of an object: a small value, so that large objects need not stay; None: nothing.
    """

    log = Logger()

    def __init__(
        self,
        client: ApiClient,
        path: str,
        handler: WatchHandler,
        clock: IReactorTime,
        *,
        label_selector: str = "",
        field_selector: str = "",
        read: Read = as_it_is,
    ) -> None:
        self._client = client
        self._path = path
        self._handler = handler
        self._clock = clock
        self._query = selectors(label_selector, field_selector)
        self._label_selector, self._field_selector = label_selector, field_selector
        self._read = read
        self._resource = parse_path(path).shown
        self._backoff = client.make_backoff()
        self._version = ""
        self._is_lost = False
        self._is_open = False
        self._opened_at = 0.0
        self._running: Deferred[None] | None = None
        self.is_current = False

    def start(self) -> None:
        """Begin with the list."""
        if self._running is None:
            self._running = Deferred.fromCoroutine(self._run())
            self._running.addErrback(self._ended)

    def stop(self) -> Deferred[None]:
        """End the stream; the handler is not called any more."""
        running, self._running = self._running, None
        self.is_current = False
        stopped: Deferred[None] = Deferred()
        if running is not None:
            running.cancel()
        stopped.callback(None)
        return stopped

    def _ended(self, failure: Any) -> None:
        if not failure.check(CancelledError):
            self.log.failure("the watch of {path} has ended", failure, path=self._path)

    async def _run(self) -> None:
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._follow()
            except ApiError as error:
                await self._recover(error)

    async def _list(self) -> None:
        listing = list_all(
            self._client, self._path, label_selector=self._label_selector, field_selector=self._field_selector,
            read=self._read, flow="watch", attempts=1,
        )  # fmt: skip
        items, self._version = await listing
        if not self._version:
            raise ApiError(NO_ANSWER, "NoJson", f"the list of {self._path} has no resource version")
        self._is_lost = False
        self.is_current = True
        self._heard()
        self._tell(self._handler.listed, items)

    async def _follow(self) -> None:
        """One stream, until the server ends it."""
        query = {
            **self._query, "watch": "1", "allowWatchBookmarks": "true", "resourceVersion": self._version,
            "timeoutSeconds": str(STREAM_SECONDS),
        }  # fmt: skip
        self._is_open = False
        silence_seconds = STREAM_SECONDS + _SPARE_SECONDS
        stream = self._client.stream(
            self._path, self._received, query=query, silence_seconds=silence_seconds, opened=self._opened
        )
        await stream
        self._restarts("ended")
        if not self._has_worked():
            await self._pause()

    def _opened(self) -> None:
        self._is_open = True
        self._opened_at = self._clock.seconds()

    def _has_worked(self) -> bool:
        """Whether the stream that is over did its work; then the next one begins at once."""
        if self._is_open and self._clock.seconds() >= self._opened_at + _WORKED_SECONDS:
            self._backoff.reset()
            return True
        return False

    async def _recover(self, error: ApiError) -> None:
        reason = "expired" if error.is_expired else _REASONS.get(error.reason, "refused")
        self._restarts(reason)
        self.log.debug("the watch of {path}: {error}", path=self._path, error=error)
        if reason == "expired":
            self._version = ""
        elif not (self._is_open and error.reason in ("Broken", "Silent")):
            # A stream that breaks off goes on where it was; anything else means that what is known may be wrong.
            self._version = ""
            self._lose(error.message)
        worked = self._has_worked()
        self._is_open = False
        # While the server cannot be reached, the client itself lets all requests wait.
        if reason != "unreachable" and not worked:
            await self._pause(error.retry_after_seconds or 0.0)

    def _lose(self, reason: str) -> None:
        self.is_current = False
        if not self._is_lost:
            self._is_lost = True
            self._tell(self._handler.lost, reason)

    async def _pause(self, least_seconds: float = 0.0) -> None:
        await deferLater(self._clock, max(least_seconds, self._backoff.next_seconds()))

    def _received(self, line: bytes) -> None:
        """One event."""
        try:
            event = orjson.loads(line)
            word, item = event["type"], event["object"]
            if word == "ERROR":
                raise error_of_status(item)
            version = item["metadata"]["resourceVersion"]
        except (ValueError, KeyError, TypeError):
            raise ApiError(NO_ANSWER, "NoJson", f"the watch of {self._path} sends what is no event") from None
        self._heard()
        self._backoff.reset()
        if word in ("ADDED", "MODIFIED", "DELETED"):
            found = self._read(item)
            if found is not None:
                self._tell(self._handler.deleted if word == "DELETED" else self._handler.changed, found)
        self._version = str(version)

    def _tell(self, call: Any, argument: Any) -> None:
        try:
            call(argument)
        except Exception:
            # A mistake of ours in one event must not end the watch.
            self.log.failure("an event of {path} cannot be handled", path=self._path)

    def _heard(self) -> None:
        self._client.statistics.last_event_seconds[self._resource] = self._clock.seconds()

    def _restarts(self, reason: str) -> None:
        self._client.statistics.watch_restarts[self._resource, reason] += 1
