"""Watches and lists of API objects: a list page by page, then each change at one path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import Interface

from fakedev.kubernetes.client.api_client import MOST_ATTEMPTS, ApiClient
from fakedev.kubernetes.client.api_paths import parse_path
from fakedev.runtime.clock import no_op
from fakedev.runtime.http_client import NO_ANSWER, ApiError, error_of_status

#: Objects of a page: to parse it takes some 8 ms of the reactor at 5 KB an object, and twice that on a busy machine.
PAGE_ITEMS: Final = 100
#: More pages are not read: a cluster has no more objects of a kind than 1,000,000.
_MOST_PAGES: Final = 5000
_LOG: Final = Logger()

#: What is kept of an object; None: nothing.
Read = Callable[[dict[str, Any]], Any]


def as_it_is(item: dict[str, Any]) -> Any:
    return item


def kept_of(read: Read, item: dict[str, Any], path: str) -> Any:
    """What is kept of an object; nothing of one for which ``read`` raises: that is logged, and others go on."""
    try:
        return read(item)
    except Exception:
        _LOG.failure("an object of {path} cannot be read", path=path)
        return None


async def list_all(
    client: ApiClient,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    read: Read = as_it_is,
    flow: str = "list",
    attempts: int = MOST_ATTEMPTS,
) -> tuple[list[Any], str]:
    """All objects at a path, and the resource version of the list.

    Objects of a list have neither kind nor apiVersion. Other work goes on between two pages.

    :param query: selectors, as ``{"fieldSelector": "spec.nodeName!="}``.
    :param read: what is kept of each object; called while its page is parsed, so that whole objects need not stay.
    :param attempts: of each page, as of ``ApiClient.request``.
    :raises ApiError: when a page cannot be read.
    """
    query = {**(query or {}), "limit": str(PAGE_ITEMS)}
    kept: list[Any] = []
    for _ in range(_MOST_PAGES):
        page = await client.request("GET", path, query=query, flow=flow, attempts=attempts)
        items, metadata = _checked(page, path)
        kept += [found for item in items if isinstance(item, dict) and (found := kept_of(read, item, path)) is not None]
        more = metadata.get("continue")
        if not more:
            return kept, str(metadata.get("resourceVersion") or "")
        query = {**query, "continue": str(more)}
        # Only one page is there at a time: the garbage collector would examine both.
        del page, items, metadata
    raise ApiError(NO_ANSWER, "TooLarge", f"the list {path} has more than {_MOST_PAGES} pages")


def _checked(page: Any, path: str) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(page, dict):
        # A list without objects may have null for them.
        items, metadata = page.get("items") or [], page.get("metadata")
        if isinstance(items, list) and isinstance(metadata, dict):
            return items, metadata
    raise ApiError(NO_ANSWER, "NoJson", f"the answer to {path} is no list of objects")


#: The server ends each stream after this time; the real ones do so after 5 to 10 minutes.
STREAM_SECONDS: Final = 300
#: A stream that stays silent for this time beyond that is dead.
_SPARE_SECONDS: Final = 30.0
#: A stream that lasted this long worked, also when nothing has changed in it.
_WORKED_SECONDS: Final = 10.0
#: Codes with which a stream that did not begin is tried again from the last event, and how often.
_PASSING: Final = frozenset((429, 500, 502, 503, 504))
_MOST_FAILURES: Final = 4
#: The reasons of restarts by those of errors; all others: refused.
_REASONS: Final = {
    "Broken": "broken", "Silent": "silent", "TooLarge": "garbled", "Garbled": "garbled", "NoJson": "garbled",
    "NoConnection": "unreachable", "NoAnswer": "unreachable", "Certificate": "unreachable",
}  # fmt: skip


class IWatchHandler(Interface):
    """Follows the objects of a watch. An item is what ``read`` has made of an object."""

    def listed(items: list[Any]) -> None:
        """All objects: at the start, and whenever the changes since the last list are not known."""

    def changed(item: Any) -> None:
        """A new or changed object."""

    def deleted(item: Any) -> None:
        """An object is gone; this is its last state."""


class Watch:
    """Lists the objects at a path, then follows their changes by a stream, until it is stopped.

    An ended or broken stream goes on from the last event or bookmark. After 410, an error within the stream and a time
    without server the objects are listed anew. Attempts are made after 0.1 s to 30 s. Nothing is reported twice: an
    event again after a list is possible, and must not matter.

    :param path: ``/api/v1/pods``.
    :param query: selectors, as of :func:`list_all`.
    :param read: what the handler gets of an object: a small value, so that large objects need not stay; None: nothing.
    :param lost: called once, with the reason, when what is known may be out of date until ``listed``.
    """

    log = Logger()

    def __init__(
        self,
        client: ApiClient,
        path: str,
        handler: IWatchHandler,
        *,
        query: Mapping[str, str] | None = None,
        read: Read = as_it_is,
        lost: Callable[[str], None] = no_op,
    ) -> None:
        self._client = client
        self.path = path
        self._handler = handler
        self._clock = client.clock
        self._query = query or {}
        self._read = read
        self._report_loss = lost
        self._resource = parse_path(path).shown
        self._backoff = client.make_backoff()
        self._version = ""
        self._is_lost = self._is_open = self._is_stopped = False
        self._opened_at = 0.0
        self._failures = 0
        self._running: Deferred[None] = succeed(None)
        self.is_current = False

    def start(self) -> None:
        self._running = Deferred.fromCoroutine(self._run()).addErrback(self._ended)

    def stop(self) -> Deferred[None]:
        """The handler is not called any more; fires when the stream is ended. It cannot be started again."""
        self._is_stopped = True
        self.is_current = False
        # In a turn of its own: the handler may call this.
        return deferLater(self._clock, 0, self._running.cancel)

    def _ended(self, failure: Any) -> None:
        if not failure.check(CancelledError):
            self.log.failure("the watch of {path} has ended", failure, path=self.path)

    async def _run(self) -> None:
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._follow()
            except ApiError as error:
                await self._recover(error)
            except CancelledError:
                raise
            except Exception:
                # A mistake of ours: it must not end the watch for good.
                self.log.failure("the watch of {path} fails", path=self.path)
                await self._recover(ApiError(NO_ANSWER, "NoJson", f"the watch of {self.path} fails"))

    async def _list(self) -> None:
        items, self._version = await list_all(
            self._client, self.path, query=self._query, read=self._read, flow="watch", attempts=1
        )
        if not self._version:
            raise ApiError(NO_ANSWER, "NoJson", f"the list of {self.path} has no resource version")
        self._is_lost = False
        self.is_current = not self._is_stopped
        self._heard()
        self._pass_on(self._handler.listed, items)

    async def _follow(self) -> None:
        """One stream, until the server ends it."""
        query = {
            **self._query, "watch": "1", "allowWatchBookmarks": "true", "resourceVersion": self._version,
            "timeoutSeconds": str(STREAM_SECONDS),
        }  # fmt: skip
        self._is_open = False
        await self._client.stream(
            self.path, self._received, query=query, silence_seconds=STREAM_SECONDS + _SPARE_SECONDS,
            opened=self._opened,
        )  # fmt: skip
        self._restarts("ended")
        if not self._has_worked():
            await self._pause()

    def _opened(self) -> None:
        self._is_open = True
        self._failures = 0
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
        self.log.debug("the watch of {path}: {error}", path=self.path, error=error)
        if reason == "expired":
            self._version = ""
        elif not self._goes_on(error):
            # What is known may be wrong, or out of date for long.
            self._version = ""
            self._lose(error.message)
        worked = self._has_worked()
        self._is_open = False
        # While the server cannot be reached, the client itself lets all requests wait.
        if reason != "unreachable" and not worked:
            await self._pause(error.retry_after_seconds or 0.0)

    def _goes_on(self, error: ApiError) -> bool:
        """Whether the stream is begun again from the last event: a new list would only burden a busy server."""
        if self._is_open:
            return error.reason in ("Broken", "Silent")
        self._failures += 1
        return error.code in _PASSING and bool(self._version) and self._failures <= _MOST_FAILURES

    def _lose(self, reason: str) -> None:
        self.is_current = False
        if not self._is_lost:
            self._is_lost = True
            self._pass_on(self._report_loss, reason)

    async def _pause(self, least_seconds: float = 0.0) -> None:
        await deferLater(self._clock, max(least_seconds, self._backoff.next_seconds()))

    def _received(self, line: bytes) -> None:
        try:
            event = orjson.loads(line)
            word, item = event["type"], event["object"]
            if word == "ERROR":
                raise error_of_status(item)
            version = item["metadata"]["resourceVersion"]
        except (ValueError, KeyError, TypeError):
            raise ApiError(NO_ANSWER, "NoJson", f"the watch of {self.path} sends what is no event") from None
        self._heard()
        self._backoff.reset()
        if word in ("ADDED", "MODIFIED", "DELETED"):
            found = kept_of(self._read, item, self.path)
            if found is not None:
                self._pass_on(self._handler.deleted if word == "DELETED" else self._handler.changed, found)
        self._version = str(version)

    def _pass_on(self, call: Any, argument: Any) -> None:
        if self._is_stopped:
            return
        try:
            call(argument)
        except Exception:
            # A mistake of ours in one event must not end the watch.
            self.log.failure("an event of {path} cannot be handled", path=self.path)

    def _heard(self) -> None:
        self._client.statistics.last_event_seconds[self._resource] = self._clock.seconds()

    def _restarts(self, reason: str) -> None:
        self._client.statistics.watch_restarts[self._resource, reason] += 1
