"""Composition of the HTTP addresses and the workload ports: for each address of the configuration what it serves."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from fakedev.app.ports import Ports, Remedies
from fakedev.config.configuration import Configuration, WebEndpoint, WebPage, WorkloadListen
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.fleet.workload_port import WorkloadPortFactory
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.http.access_guard import AccessGuard
from fakedev.net.http.resource import GuardedResource
from fakedev.net.http.site import GuardedSite
from fakedev.net.lines.fair_share import FairShare
from fakedev.net.system.listening import ListeningService
from fakedev.net.web.exporter_tree import make_vendor_root
from fakedev.net.web.page_cache import Selection
from fakedev.net.web.probes import NotYet
from fakedev.net.web.program import Program
from fakedev.net.web.tree import add_page, make_root


def make_web(
    configuration: Configuration, program: Program, fair_share: FairShare, reactor: Any, remedies: Remedies
) -> Ports[WebEndpoint]:
    """The HTTP addresses; they have pages after the first :meth:`Ports.finish`."""
    pages, scrapes = program.pages, program.scrapes

    def make_site_root(endpoint: WebEndpoint) -> GuardedResource:
        selection = _selection(endpoint)
        if endpoint.serve == "exporter":
            return make_vendor_root(pages, scrapes, program.health, selection, per_node=endpoint.per_node)
        return make_root(program, selection, is_full=endpoint.serve == "all")

    def listen(endpoint: WebEndpoint) -> ListeningService:
        site = GuardedSite(NotYet(), reactor, fair_share=fair_share)
        return ListeningService(endpoint.listen, site, reactor, make_folder=True)

    def change(service: ListeningService, endpoint: WebEndpoint, _: Configuration) -> None:
        root = make_site_root(endpoint)
        for page in endpoint.pages:
            add_page(root, page.path, pages.fleet_page(_selection(page)), scrapes)
        site = cast(GuardedSite, service.factory)
        site.resource, site.guard = root, AccessGuard(endpoint.names, endpoint.token)

    return Ports(
        configuration.web, lambda whole: whole.web, lambda endpoint: endpoint.listen, listen, change, "web", remedies
    )


def _selection(shown: WebEndpoint | WebPage) -> Selection:
    return Selection(shown.pool, shown.identity, shown.hold_seconds)


def make_workload_ports(
    configuration: Configuration,
    hub: WorkloadHub,
    ticker: Ticker,
    fair_share: FairShare,
    reactor: Any,
    closed: Counter[str],
    remedies: Remedies,
) -> Ports[WorkloadListen]:
    """The workload ports.

    :param closed: counts the connections that they close, by reason.
    """

    def listen(entry: WorkloadListen) -> ListeningService:
        ports = configuration.workloads
        factory = WorkloadPortFactory(
            hub,
            ticker,
            reactor,
            allow=entry.allow,
            node=entry.node,
            max_connections=ports.max_connections,
            message_seconds=ports.message_seconds,
            fair_share=fair_share,
            closed=closed,
            tokens=entry.tokens,
        )
        return ListeningService(entry.listen, factory, reactor, make_folder=True)

    def change(service: ListeningService, entry: WorkloadListen, configuration: Configuration) -> None:
        ports, factory = configuration.workloads, cast(WorkloadPortFactory, service.factory)
        factory.allow, factory.node = entry.allow, entry.node
        factory.gate.change(entry.tokens)
        factory.max_connections, factory.message_seconds = ports.max_connections, ports.message_seconds

    return Ports(
        configuration.workloads.listen, lambda whole: whole.workloads.listen, lambda entry: entry.listen,
        listen, change, "workloads.listen", remedies,
    )  # fmt: skip


def connection_count(ports: Ports[WorkloadListen]) -> int:
    """How many peers are connected."""
    return sum(len(cast(WorkloadPortFactory, service.factory).peers) for service, _ in ports.services)
