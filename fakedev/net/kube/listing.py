"""Lists of objects, page by page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from fakedev.net.kube.api_client import MOST_ATTEMPTS, ApiClient
from fakedev.net.kube.api_error import NO_ANSWER, ApiError

#: Objects of a page: to parse it takes some 8 ms of the reactor at 5 KB an object, and twice that on a busy machine.
PAGE_ITEMS: Final = 100
#: More pages are not read: a cluster has no more objects of a kind than 1,000,000.
_MOST_PAGES: Final = 5000
_LOG: Final = Logger()

#: What is kept of an object; None: nothing.
Read = Callable[[dict[str, Any]], Any]


def as_it_is(item: dict[str, Any]) -> Any:
    """Keep the whole object."""
    return item


def kept_of(read: Read, item: dict[str, Any], path: str) -> Any:
    """What is kept of an object; nothing of one for which ``read`` raises: that is logged, and others go on."""
    try:
        return read(item)
    except Exception:
        _LOG.failure("an object of {path} cannot be read", path=path)
        return None


def selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    """The arguments of a query that select objects."""
    given = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: text for name, text in given.items() if text}


def list_all(
    client: ApiClient,
    path: str,
    *,
    label_selector: str = "",
    field_selector: str = "",
    read: Read = as_it_is,
    flow: str = "list",
    attempts: int = MOST_ATTEMPTS,
) -> Deferred[tuple[list[Any], str]]:
    """All objects at a path and the resource version of the list; fails with ApiError. Cancelling ends it.

    Objects of a list have neither kind nor apiVersion. Other work goes on between two pages.

    :param read: what is kept of each object; called while its page is parsed, so that whole objects need not stay.
    :param attempts: of each page, as of ``ApiClient.request``.
    """
    query = {**selectors(label_selector, field_selector), "limit": str(PAGE_ITEMS)}
    return Deferred.fromCoroutine(_pages(client, path, query, read, flow, attempts))


async def _pages(
    client: ApiClient, path: str, query: dict[str, str], read: Read, flow: str, attempts: int
) -> tuple[list[Any], str]:
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
