"""Composition of the web: for each address of the configuration the tree that is served there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.web.resource import Resource

from fakedev.config.configuration import Configuration, WebEndpoint
from fakedev.net.http_head import DROP_IN_LIMITS, HttpLimits
from fakedev.net.http_origin import ChangeGuard
from fakedev.net.http_site import GuardedSite
from fakedev.net.listening import ListeningService
from fakedev.net.page_statistics import ScrapeStatistics
from fakedev.net.pages import Pages
from fakedev.net.tree import Health, add_page, make_exporter_root, make_vendor_root


def make_web(
    configuration: Configuration,
    pages: Pages,
    scrapes: ScrapeStatistics,
    health: Health,
    own_root: Callable[..., Resource],
    reactor: Any,
    *,
    drop_in: bool,
) -> list[tuple[ListeningService, str]]:
    """The services that listen, each with what it serves.

    :param own_root: :func:`fakedev.net.tree.make_root` with all but what the endpoint says.
    :param drop_in: nothing but the original's /metrics, with its limits.
    """

    def root_of(endpoint: WebEndpoint) -> Resource:
        shown = {"pool": endpoint.pool, "identity": endpoint.identity, "hold": endpoint.hold_seconds}
        if drop_in:
            return make_exporter_root(pages, scrapes)
        if endpoint.serve == "exporter":
            return make_vendor_root(pages, scrapes, health, **shown)
        return own_root(is_full=endpoint.serve == "all", **shown)

    services = []
    for endpoint in configuration.web:
        root = root_of(endpoint)
        for more in endpoint.pages:
            add_page(root, more.path, pages.fleet_page(more.pool, more.identity, more.hold_seconds), scrapes)
        guard = ChangeGuard(endpoint.hosts, endpoint.token)
        limits = DROP_IN_LIMITS if drop_in else HttpLimits()
        site = GuardedSite(root, reactor, changes=guard, limits=limits)
        services.append((ListeningService(endpoint.listen, site, reactor, make_folder=True), endpoint.serve))
    return services
