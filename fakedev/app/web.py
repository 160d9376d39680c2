"""Composition of the web: for each address of the configuration the tree that is served there."""

from __future__ import annotations

from typing import Any, cast

from twisted.web.resource import Resource

from fakedev.app.ports import Ports
from fakedev.config.configuration import Configuration, WebEndpoint, WebPage
from fakedev.net.http.change_guard import ChangeGuard
from fakedev.net.http.head import DROP_IN_LIMITS, HttpLimits
from fakedev.net.http.site import GuardedSite
from fakedev.net.system.listening import ListeningService
from fakedev.net.web.exporter_tree import make_vendor_root
from fakedev.net.web.program import Program
from fakedev.net.web.reload_page import NotYet
from fakedev.net.web.selection import Selection
from fakedev.net.web.tree import add_page, make_exporter_root, make_root


def make_web(configuration: Configuration, program: Program, reactor: Any, *, drop_in: bool) -> Ports[WebEndpoint]:
    """What listens at each address; the pages are there when :meth:`Ports.finish` was called.

    :param drop_in: nothing but the original's /metrics, with its limits.
    """
    pages, scrapes = program.pages, program.scrapes

    def root_of(endpoint: WebEndpoint) -> Resource:
        if drop_in:
            return make_exporter_root(pages, scrapes)
        selection = _selection(endpoint)
        if endpoint.serve == "exporter":
            return make_vendor_root(pages, scrapes, program.health, selection, per_node=endpoint.per_node)
        return make_root(program, selection, is_full=endpoint.serve == "all")

    def listen(endpoint: WebEndpoint) -> ListeningService:
        limits = DROP_IN_LIMITS if drop_in else HttpLimits()
        site = GuardedSite(NotYet(), reactor, limits=limits)
        return ListeningService(endpoint.listen, site, reactor, make_folder=True)

    def change(service: ListeningService, endpoint: WebEndpoint) -> None:
        root = root_of(endpoint)
        for more in endpoint.pages:
            add_page(root, more.path, pages.fleet_page(_selection(more)), scrapes)
        site = cast(GuardedSite, service.factory)
        site.resource, site.changes = root, ChangeGuard(endpoint.hosts, endpoint.token)

    return Ports(configuration.web, lambda endpoint: endpoint.listen, listen, change)


def _selection(shown: WebEndpoint | WebPage) -> Selection:
    return Selection(shown.pool, shown.identity, shown.hold_seconds)
