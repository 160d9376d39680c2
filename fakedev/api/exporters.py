"""/api/v1/exporters: the addresses and paths that imitate exporters: identity, hold and age of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from fakedev.config.configuration import Shown, WebEndpoint
from fakedev.exporters.cache import Pages, Selection
from fakedev.exporters.identity import Identity
from fakedev.runtime.listening import ListeningService
from fakedev.web.paths import METRICS

#: Rows of an answer: each node of a large fleet has a page, too, which shows the same.
_MAX_ROWS: Final = 200


def selection_of(shown: Shown) -> Selection:
    """What an address or a page shows."""
    return Selection(shown.pool, shown.identity, shown.hold_seconds)


class ExporterAddresses:
    """The pages of metrics at all addresses.

    :ivar ports: returns the addresses in use, each with its entry in the configuration.
    """

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self.ports: Callable[[], Iterable[tuple[ListeningService, WebEndpoint]]] = tuple

    def describe(self) -> dict[str, Any]:
        """A row for each address, path and identity."""
        return {"exporters": list(self.rows())[:_MAX_ROWS]}

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of :meth:`describe`."""
        for service, endpoint in self.ports():
            for path, shown in ((METRICS.template, endpoint), *((page.path, page) for page in endpoint.pages)):
                for pool, identity in self._shown(selection_of(shown)):
                    yield {"address": service.display, "path": path, **self._row(selection_of(shown), pool, identity)}

    def identities(self) -> list[dict[str, Identity]]:
        """By their pools the identities of the pools themselves, then of each address or page that has its own."""
        found = [dict(self._pages.identities)]
        for _, endpoint in self.ports():
            for shown in (endpoint, *endpoint.pages):
                if shown.identity is not None:
                    pools = [shown.pool] if shown.pool else self._pages.identities
                    found.append(dict.fromkeys(pools, shown.identity))
        return found

    def _shown(self, selection: Selection) -> list[tuple[str | None, Identity]]:
        """The identities that a selection shows, each with its pool; None for one of all pools."""
        if selection.identity is not None:
            return [(selection.pool, selection.identity)]
        pools = [name for name in self._pages.identities if selection.pool in (None, name)]
        return [(pool, self._pages.identities[pool]) for pool in pools]

    def _row(self, selection: Selection, pool: str | None, identity: Identity) -> dict[str, Any]:
        hold = identity.hold_seconds if selection.hold_seconds is None else selection.hold_seconds
        present, shown = self._pages.fleet.state, self._pages.held_state(hold)
        return {
            "pool": pool, "identity": identity.title, "versions": list(identity.versions), "hold-seconds": hold,
            "tick": shown.tick, "age-seconds": round(present.seconds - shown.seconds, 6),
        }  # fmt: skip


def shown_words(shown: WebEndpoint) -> str:
    """How an address shows the fleet, where that differs from the pools' own way; else empty."""
    identity = f", as {shown.identity.title}" if shown.identity is not None else ""
    return identity + (f", held for {shown.hold_seconds:g} s" if shown.hold_seconds else "")
