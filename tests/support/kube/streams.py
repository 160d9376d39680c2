"""The watches of the API server in memory: streams of events, one a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from tests.support.kube.failures import error_event
from tests.support.kube.kinds import Address
from tests.support.kube.statuses import StatusError, expired
from tests.support.kube.store import Change, Item, Store


class Stream:
    """One watch.

    :param write: sends bytes to the client.
    :param end: ends the answer.
    """

    def __init__(
        self,
        address: Address,
        selects: Callable[[Item], bool],
        write: Callable[[bytes], None],
        end: Callable[[], None],
        cut: Callable[[], None],
        *,
        has_bookmarks: bool,
    ) -> None:
        self.address = address
        self.cut = cut
        self.end = end
        self._selects = selects
        self._write = write
        self._has_bookmarks = has_bookmarks

    def begin(self, store: Store, since: str) -> bool:
        """Send what has changed since a resource version; False: it has ended with an error."""
        if since in ("", "0"):
            for item in filter(self._is_mine, store.all(self.address.kind, self.address.namespace)):
                self._send("ADDED", item)
            return True
        if int(since) < store.oldest:
            self.fail(expired(f"too old resource version: {since} ({store.oldest})"))
            return False
        for change in store.history:
            if change.version > int(since):
                self.tell(change)
        return True

    def tell(self, change: Change) -> None:
        """Send a change, if it is of this watch: what leaves its selection is DELETED for it."""
        if change.kind is not self.address.kind:
            return
        was = change.before is not None and self._is_mine(change.before)
        is_now = change.word != "DELETED" and self._is_mine(change.item)
        if was or is_now:
            self._send("DELETED" if not is_now else "MODIFIED" if was else "ADDED", change.item)

    def bookmark(self, version: int) -> None:
        """Send how far the watch is, if it has asked for that."""
        if self._has_bookmarks:
            kind = self.address.kind
            metadata = {"resourceVersion": str(version), "creationTimestamp": None}
            self._send("BOOKMARK", {"kind": kind.name, "apiVersion": kind.api_version, "metadata": metadata})

    def fail(self, error: StatusError) -> None:
        """Send an error, and end."""
        self.send_raw(orjson.dumps(error_event(error)) + b"\n")
        self.end()

    def send_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._write(data)

    def _is_mine(self, item: Item) -> bool:
        address, metadata = self.address, item["metadata"]
        is_here = not address.namespace or metadata.get("namespace") == address.namespace
        return is_here and (not address.name or metadata["name"] == address.name) and self._selects(item)

    def _send(self, word: str, item: dict[str, Any]) -> None:
        self._write(orjson.dumps({"type": word, "object": item}) + b"\n")
