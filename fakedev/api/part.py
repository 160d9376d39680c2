"""The HTTP addresses as a part of the service: for each address of the configuration what it serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, cast

from zope.interface import implementer

from fakedev.api.exporters import selection_of, shown_words
from fakedev.api.queues import QueueStates
from fakedev.api.tree import Program, add_page, make_root
from fakedev.config.configuration import Configuration, WebEndpoint
from fakedev.exporters.port import MetricsPage, make_vendor_root
from fakedev.kubernetes.operator_port import OperatorTopology
from fakedev.runtime.listening import Announced, Listeners, ListeningService
from fakedev.runtime.part import IReloadable, Part, Ports, Remedies
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.tls_settings import WebConfig
from fakedev.runtime.turns import FairShare
from fakedev.web.guard import AccessGuard
from fakedev.web.metrics import Group, port_metrics, scrape_metrics
from fakedev.web.paths import METRICS
from fakedev.web.probes import NotYet
from fakedev.web.resource import Resource
from fakedev.web.settings import WebConfigSource
from fakedev.web.site import Site

#: What an HTTP address serves, and a path that shows it.
_SERVED: Final = {
    "all": Announced("web", "web page, metrics, API and control", "/", METRICS.template, has_control=True),
    "metrics": Announced("web", "metrics only", METRICS.template),
    "exporter": Announced("web", "metrics, as the exporter has them", METRICS.template),
}


@implementer(IReloadable)
class WebPart(Part):
    """The HTTP addresses with their pages, the live view, and the charts.

    :param config_of: gives the web configuration of an address, which can be used.
    """

    def __init__(
        self, configuration: Configuration, program: Program, listeners: Listeners, fair_share: FairShare,
        reactor: IReactor, remedies: Remedies, config_of: Callable[[WebConfigSource | None], WebConfig],
    ) -> None:  # fmt: skip
        super().__init__("web", [program.live])
        self._program = program
        self._shown = program.fleet.compiled
        self._queue_states = QueueStates(program.fleet, program.queues)
        self._shortage = listeners.shortage
        self._dropped: Counter[str] = Counter()
        make_site = partial(Site, NotYet(), reactor, fair_share=fair_share, dropped=self._dropped)
        self._config_of = config_of
        self._ports = Ports[WebEndpoint](
            configuration, lambda section: section.web, lambda _: make_site(), self._change, "web", remedies, reactor
        )
        self.ports = (self._ports,)
        program.exporters.ports = lambda: self._ports.services
        self.refresh()

    def metrics(self) -> Mapping[str, Group]:
        return {
            "scrapes": partial(scrape_metrics, self._program.scrapes),
            "ports": partial(port_metrics, self.parent.closed, self._dropped, lambda: self._shortage.postponed),
        }

    def finish(self, section: Configuration) -> None:
        follow_topology(self._program.topology, section)
        self._follow_fleet()
        super().finish(section)

    def ticked(self) -> None:
        if self._program.fleet.compiled is not self._shown:  # the nodes of a cluster have changed
            self._follow_fleet()
            self.refresh()
        self._program.history.note(self._program.fleet.state)
        self._queue_states.note()

    def _follow_fleet(self) -> None:
        """The fleet has another configuration, or other nodes: take over what is still valid."""
        fleet = self._program.fleet
        self._shown = fleet.compiled
        if fleet.moves is not None:
            self._program.history.move(fleet.moves)
        self._program.live.renew()

    def _change(self, service: ListeningService, endpoint: WebEndpoint, _: Configuration) -> None:
        served = _SERVED[endpoint.serve]
        words = served.words + shown_words(endpoint)
        service.announced = served._replace(words=words, token_file=endpoint.token_file)
        site = cast(Site, service.factory)
        pages, scrapes = self._program.pages, self._program.scrapes
        root = self._make_root(endpoint)
        for page in endpoint.pages:
            add_page(root, page.path, MetricsPage(pages.finder(selection_of(page)), scrapes.page(page.path)))
        config = self._config_of(endpoint.web_config)
        site.resource = root
        site.use(config, AccessGuard(endpoint.names, endpoint.token, has_passwords=bool(config.users)))

    def _make_root(self, endpoint: WebEndpoint) -> Resource:
        program, selection = self._program, selection_of(endpoint)
        if endpoint.serve != "exporter":
            return make_root(program, selection, is_full=endpoint.serve == "all")
        return make_vendor_root(
            program.pages, program.scrapes, program.health, selection, per_node=endpoint.per_node
        )


def follow_topology(topology: OperatorTopology, configuration: Configuration) -> None:
    """Let the topology addresses follow a configuration: they are there with a topology, or where a cluster asks."""
    cluster = configuration.kubernetes
    is_compatible = cluster is not None and cluster.settings.is_compatible
    topology.follow(configuration.topology, is_on=configuration.topology is not None or is_compatible)
