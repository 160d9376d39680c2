"""Composition of the HTTP addresses: for each address of the configuration what it serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from fakedev.app.ports import Ports, Remedies
from fakedev.config.configuration import Configuration, WebEndpoint, WebPage
from fakedev.config.web_config import WebConfigSource
from fakedev.net.http.access_guard import AccessGuard
from fakedev.net.http.resource import GuardedResource
from fakedev.net.http.site import GuardedSite
from fakedev.net.lines.fair_share import FairShare
from fakedev.net.system.listening import ListeningService
from fakedev.net.web.exporter_tree import make_vendor_root
from fakedev.net.web.metrics_page import MetricsPage
from fakedev.net.web.page_cache import Selection
from fakedev.net.web.probes import NotYet
from fakedev.net.web.program import Program
from fakedev.net.web.tree import add_page, make_root
from fakedev.spec.web_config import WebConfig


def make_web(
    configuration: Configuration, program: Program, fair_share: FairShare, reactor: Any, remedies: Remedies,
    config_of: Callable[[WebConfigSource | None], WebConfig], dropped: Counter[str],
) -> Ports[WebEndpoint]:  # fmt: skip
    """The HTTP addresses, with their pages.

    :param config_of: gives the web configuration of an address, which can be used.
    :param dropped: counts connections that any of them drops, by reason.
    """
    pages, scrapes = program.pages, program.scrapes

    def make_site_root(endpoint: WebEndpoint) -> GuardedResource:
        selection = _selection(endpoint)
        if endpoint.serve == "exporter":
            return make_vendor_root(pages, scrapes, program.health, selection, per_node=endpoint.per_node)
        return make_root(program, selection, is_full=endpoint.serve == "all")

    def listen(endpoint: WebEndpoint) -> ListeningService:
        site = GuardedSite(NotYet(), reactor, fair_share=fair_share, dropped=dropped)
        return ListeningService(endpoint.listen, site, reactor, make_folder=True)

    def change(service: ListeningService, endpoint: WebEndpoint, _: Configuration) -> None:
        root = make_site_root(endpoint)
        for page in endpoint.pages:
            add_page(root, page.path, MetricsPage(pages.finder(_selection(page)), scrapes.page(page.path)))
        site = cast(GuardedSite, service.factory)
        config = config_of(endpoint.web_config)
        site.resource = root
        site.use(config, AccessGuard(endpoint.names, endpoint.token, has_passwords=bool(config.users)))

    ports = Ports(
        configuration.web, lambda whole: whole.web, lambda endpoint: endpoint.listen, listen, change, "web", remedies
    )
    ports.finish(configuration)
    return ports


def _selection(shown: WebEndpoint | WebPage) -> Selection:
    return Selection(shown.pool, shown.identity, shown.hold_seconds)
