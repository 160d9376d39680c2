"""Nodes that look like hosts, for agents that know only host and port: the Host header says which is meant."""

from __future__ import annotations

from fakedev.exposition.identity import Identity
from fakedev.net.http_request import GuardedRequest
from fakedev.net.metrics_page import MetricsPage
from fakedev.net.page_statistics import PageStatistics
from fakedev.net.pages import CachedPage, Pages
from fakedev.sim.fleet import Fleet


class HostMetricsPage(MetricsPage):
    """The page of the node that the Host header names, by its whole name or up to the first dot; else of all nodes.

    :param pool: the only pool that is shown.
    """

    def __init__(
        self,
        fleet: Fleet,
        pages: Pages,
        statistics: PageStatistics,
        pool: str | None,
        identity: Identity | None,
        hold: float | None,
    ) -> None:
        super().__init__(pages.fleet_page(pool, identity, hold), statistics)
        self._fleet = fleet
        self._pages = pages
        self._shown = pool, identity, hold

    def page(self, request: GuardedRequest) -> CachedPage:
        """The page that is asked for."""
        pool, identity, hold = self._shown
        host = (request.header(b"host") or b"").decode("latin-1").partition(":")[0]
        roster = self._fleet.roster
        node = roster.node(host) or roster.node(host.partition(".")[0])
        if node is None or pool not in (None, node.pool.name):
            return super().page(request)
        return self._pages.node_page(node, identity, hold)
