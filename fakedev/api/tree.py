"""The HTTP addresses: the web tree and the tree of the API (/api/v1), and the part of the service that has them.

Paths are in :mod:`fakedev.web.paths`. The API has collections and their items, each in its own module, and the
live stream. The web tree shows and changes the parts of the program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING, Final, cast

import orjson
from twisted.web.resource import IResource
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from fakedev import __version__
from fakedev.api.control import Clock, JournalApi, Occurrences, ResetApi
from fakedev.api.devices import Devices, FleetHistory
from fakedev.api.exporters import ExporterAddresses, selection_of, shown_words
from fakedev.api.live import CONTENT_TYPE, LiveView
from fakedev.api.nodes import Find, NodeList, describe_identities, unknown_pool
from fakedev.api.queues import QueueList, QueueStates
from fakedev.api.racks import RackList
from fakedev.api.static import PageFiles
from fakedev.api.workloads import FaultsApi, Over, WorkloadList, fault_kinds
from fakedev.base.steps import Steps
from fakedev.config.configuration import Configuration, WebEndpoint
from fakedev.exporters.cache import Pages, Selection
from fakedev.exporters.discovery import node_chooser, target_of
from fakedev.exporters.port import HostMetricsPage, MetricsPage, VllmPage, make_vendor_root
from fakedev.fleet.charts import History
from fakedev.fleet.entities.selectors import no_node
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.hub import FaultHub, WorkloadHub
from fakedev.fleet.spec.limits import parse_shard
from fakedev.fleet.ticker import Ticker
from fakedev.kubernetes.runai.operator_port import NO_TOPOLOGY, NodeTopologies, OperatorTopology, TopologyPage
from fakedev.queues.figures import QueueFigures, QueueHistory, QueueMetricsPage
from fakedev.runtime.listening import Announced, Listeners, ListeningService
from fakedev.runtime.part import IReloadable, Part, Ports, Remedies
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.threads import load_in_thread
from fakedev.runtime.tls_settings import WebConfig
from fakedev.runtime.turns import FairShare
from fakedev.web import paths
from fakedev.web.guard import AccessGuard
from fakedev.web.http_limits import HttpError
from fakedev.web.metrics import Group, OwnMetrics, OwnMetricsResource, port_metrics, scrape_metrics
from fakedev.web.probes import AskReload, FileProblems, Health, HealthPage, NotYet, Reload
from fakedev.web.query import ApiPage, ApiResource, MissingItem, argument, counted, missing, unknown_key
from fakedev.web.request import Request
from fakedev.web.resource import Answer, Folder, NotServed, Resource, make_tree
from fakedev.web.response import PageStatistics, Response, ScrapeStatistics, json_response
from fakedev.web.settings import WebConfigSource
from fakedev.web.site import Site

if TYPE_CHECKING:
    from fakedev.api.why import Why
    from fakedev.scenario.live import LiveScenario
    from fakedev.tester.load_run import LoadTester


@dataclass(frozen=True)
class Program:
    """The parts of a program that the web tree needs.

    :param ready: the reason why the program takes no new work, if any; also when the simulation fails.
    :param file_problems: why files that are written while the program runs have ended, by what they are (``record``);
        empty texts for those that have not.
    :param history: the last ticks of all devices.
    :param topology: the fleet as fake-gpu-operator describes it, which may be off.
    :param queues, queue_history: the work queues, and their last hour; None for none.
    :param tester: the load on queues; None when there are no plans.
    :param scenario: what is played; None for none.
    """

    hub: WorkloadHub
    pages: Pages
    ticker: Ticker
    scrapes: ScrapeStatistics
    own_metrics: OwnMetrics
    ready: Health
    file_problems: FileProblems
    history: History
    live: LiveView
    files: PageFiles
    reload: AskReload
    topology: OperatorTopology
    queues: QueueFigures | None
    queue_history: QueueHistory | None
    tester: LoadTester | None
    scenario: LiveScenario | None = None

    @cached_property
    def exporters(self) -> ExporterAddresses:
        """The addresses that imitate exporters."""
        return ExporterAddresses(self.pages)

    @property
    def fleet(self) -> Fleet:
        return self.hub.fleet

    @property
    def health(self) -> Health:
        """The reason why the simulation is not healthy, if any."""
        return self.ticker.unready_reason


_NO_PLANS: Final = "no load is put on queues: the configuration has no tester"
_NO_SCENARIO: Final = "no scenario is played: start with --scenario FILE"


def add_api(root: Resource, program: Program) -> None:
    fleet, pages, history, tester = program.fleet, program.pages, program.history, program.tester
    scenario = program.scenario
    resources: dict[paths.WebPath, ApiResource] = {
        paths.WORKLOADS: WorkloadList(program.hub),
        paths.FAULTS: FaultsApi(FaultHub(fleet)),
        paths.FAULT_KINDS: ApiPage(fault_kinds),
        paths.ENDED_WORKLOADS: Over(paths.ENDED_WORKLOADS, "ended workload", fleet.past.ends, fleet.past.end),
        paths.PAST_FAULTS: Over(paths.PAST_FAULTS, "past fault", fleet.past.faults, fleet.past.fault),
        paths.DEVICES: Devices(fleet, history),
        paths.NODES: NodeList(fleet, pages),
        paths.RACKS: RackList(fleet),
        paths.IDENTITIES: ApiPage(partial(describe_identities, fleet, pages)),
        paths.JOURNAL: JournalApi(fleet),
        paths.EXPORTERS: ApiPage(program.exporters.describe),
        paths.WHY: Explanations(program),
        paths.CLOCK: Clock(fleet, program.ticker),
        paths.RESET: ResetApi(program.hub),
        paths.QUEUES: QueueList(program.queues, program.queue_history),
        paths.HISTORY: FleetHistory(fleet, history),
        paths.FIND: Find(fleet),
        paths.STREAM: Stream(program.live),
        paths.SCENARIO: ApiPage(scenario.describe) if scenario else MissingItem(_NO_SCENARIO, "scenario"),
        paths.OCCURRENCES: Occurrences(scenario) if scenario else MissingItem(_NO_SCENARIO, "scenario"),
        paths.OPENAPI: OpenApi(),
        paths.LOAD: MissingItem(_NO_PLANS, "tester"),
    }
    if tester is not None:
        from fakedev.api.tester import LoadCollection  # noqa: PLC0415 - few services have one

        resources[paths.LOAD] = LoadCollection(tester)
    root.putChild(b"api", Folder(errors_as_json=True, v1=Version()))
    make_tree({path.fixed: resource for path, resource in resources.items()}, root)


class OpenApi(ApiResource):
    """/api/v1/openapi.json, whose modules few services need."""

    async def get(self, request: Request) -> Response:
        await load_in_thread(request.site.reactor, "fakedev.api.openapi")
        from fakedev.api.openapi import describe_api  # noqa: PLC0415 - loaded just now, in a thread

        return json_response(describe_api())


class Explanations(ApiResource):
    """/api/v1/why, whose modules are loaded with the first question."""

    path = paths.WHY
    _why: Why | None = None

    def __init__(self, program: Program) -> None:
        self._program = program

    async def get(self, request: Request) -> Response:
        """See :class:`~fakedev.api.why.Why`."""
        if self._why is None:
            await load_in_thread(request.site.reactor, "fakedev.api.why")
            from fakedev.api.why import Why  # noqa: PLC0415 - loaded just now, in a thread

            of, pages = self._program, self._program.pages
            self._why = Why(pages, of.queues, of.exporters, of.ticker, of.own_metrics, of.history)
        answer = self._why.get(request)
        return answer if isinstance(answer, Response) else await answer


class Version(ApiResource):
    """/api/v1: the resources by name."""

    def getChild(self, name: bytes, request: Request) -> MissingItem:
        return missing("resource", name, self._there())

    def refusal(self, request: Request) -> Response:
        return self.error(404, f"name a resource: {self._there()}")

    def _there(self) -> str:
        names = sorted(name.decode() for name in self.children)
        return counted(names, len(names))


class Stream(ApiResource):
    """/api/v1/stream: the nodes and devices, then a frame for each tick."""

    def __init__(self, live: LiveView) -> None:
        self._live = live

    def render(self, request: Request) -> int:
        """Begin an answer without end; refusals and HEAD are answered as everywhere."""
        if request.method != b"GET" or self._live.is_full or self.early_refusal(request) is not None:
            return super().render(request)
        self._live.add(request)
        return NOT_DONE_YET

    def get(self, request: Request) -> Response:
        """The answer to HEAD, and to GET when there are too many viewers."""
        if request.method == b"GET":
            raise HttpError(503, "too many viewers", "full", headers=(("Retry-After", "10"),))
        return Response(200, b"", CONTENT_TYPE)


_ONLY_METRICS: Final = "this address has serve: metrics"


def make_root(program: Program, selection: Selection, *, is_full: bool = True) -> Resource:
    """The tree of one address.

    :param selection: the nodes that /metrics and the nodes' pages show there, and how.
    :param is_full: with the paths that change the simulation, and those that show fakedev itself.
    """
    pages, scrapes, queues = program.pages, program.scrapes, program.queues

    def scraped(path: paths.WebPath) -> PageStatistics:
        return scrapes.page(path.template)

    health, ready = (HealthPage(health, program.file_problems) for health in (program.health, program.ready))
    tree: dict[paths.WebPath, Resource] = {
        paths.START: program.files.start if is_full else LinksPage(program.fleet, queues is not None),
        paths.METRICS: HostMetricsPage(pages, scraped(paths.METRICS), selection),
        paths.NODE_METRICS: NodePages(pages, scraped(paths.NODE_METRICS), selection),
        paths.DISCOVERY: Discovery(program.fleet, selection.pool),
        **dict.fromkeys((paths.HEALTH, *paths.HEALTH_ALIASES), health),
        **dict.fromkeys(paths.READY, ready),
    }
    if queues is not None:
        tree[paths.QUEUE_METRICS] = QueueMetricsPage(queues, scraped(paths.QUEUE_METRICS))
    else:
        tree[paths.QUEUE_METRICS] = NotServed("the configuration has no queues")
    tree[paths.VLLM_METRICS] = VllmPage(program.fleet, scraped(paths.VLLM_METRICS))
    if program.topology.is_on:
        tree[paths.TOPOLOGY] = TopologyPage(program.topology, selection)
        tree[paths.NODE_TOPOLOGY] = NodeTopologies(program.topology, program.fleet, selection)
    else:
        tree |= {path: NotServed(NO_TOPOLOGY) for path in (paths.TOPOLOGY, paths.NODE_TOPOLOGY)}
    if is_full:
        tree[paths.OWN_METRICS] = OwnMetricsResource(program.own_metrics)
        tree[paths.RELOAD] = Reload(program.reload)
        tree[paths.WORKLOAD_METRICS] = MetricsPage(pages.workload_page, scraped(paths.WORKLOAD_METRICS))
    else:
        own = (paths.OWN_METRICS, paths.RELOAD, paths.WORKLOAD_METRICS)
        tree |= {path: NotServed(_ONLY_METRICS) for path in own}
    root = make_tree({path.fixed: resource for path, resource in tree.items()})
    if is_full:
        add_api(root, program)
        root.putChild(b"page", program.files.folder)
        root.putChild(b"tester", _tester_pages(program.tester))
    else:
        for name in ("api", "page", "tester"):
            root.putChild(name.encode(), NotServed(_ONLY_METRICS, errors_as_json=name == "api"))
    return root


def _tester_pages(tester: LoadTester | None) -> Resource:
    if tester is None:
        return NotServed("the configuration has no tester")
    from fakedev.tester.pages import make_tester_folder  # noqa: PLC0415 - few services have one

    return make_tester_folder(tester)


class NodePages(Resource):
    """/nodes: a page for each node, as its own exporter prints it."""

    def __init__(self, pages: Pages, statistics: PageStatistics, selection: Selection) -> None:
        self._pages = pages
        self._statistics = statistics
        self._selection = selection

    def getChild(self, name: bytes, request: Request) -> IResource:
        node = self._pages.fleet.roster.node(name.decode("utf-8", "replace"))
        if node is None or not self._selection.has(node):
            return super().getChild(name, request)
        return Folder(metrics=MetricsPage(partial(self._pages.node_page, node, self._selection), self._statistics))

    def missing(self, request: Request) -> str:
        name = request.postpath[0].decode("utf-8", "replace") if request.postpath else ""
        if not name:
            shown = self._pages.fleet.roster.shown
            if not shown:
                return "there is no node: the cluster has none with the label"
            return f"nothing is here: name a node, as {paths.NODE_METRICS.at(NODE=shown[0].name)}"
        if self._pages.fleet.roster.node(name) is None:
            return no_node(name, self._pages.fleet.roster, "").text
        return f"this address does not show the node {name!r}"


class Discovery(Resource):
    """/sd: HTTP service discovery, a target for each node."""

    def __init__(self, fleet: Fleet, pool: str | None) -> None:
        self._fleet = fleet
        self._pool = pool

    def get(self, request: Request) -> Answer:
        """All targets, or those of ``?pool=`` and ``?shard=``; their address is the Host of this request."""
        return request.answer_in_slices(self._steps(request))

    def _steps(self, request: Request) -> Steps[Response]:
        host = (request.getHeader(b"host") or b"localhost").decode("latin-1")
        pool, shard = argument(request, "pool"), argument(request, "shard")
        roster = self._fleet.roster
        error = unknown_key(request, paths.DISCOVERY.query) or unknown_pool(roster, pool)
        if error is not None:
            raise error
        hidden = self._fleet.page_faults.hidden()
        try:
            is_chosen = node_chooser(roster, self._pool or pool, parse_shard(shard) if shard else None)
        except ValueError as refusal:
            raise HttpError(400, f"shard: {refusal}") from None
        yield
        targets = []
        for node in roster.shown:
            if is_chosen(node) and node.name not in hidden:
                targets.append(orjson.Fragment(orjson.dumps(target_of(node, host))))
            yield
        return json_response(targets)


class LinksPage(Resource):
    """/ of an address where nothing can be changed: links to its pages."""

    def __init__(self, fleet: Fleet, has_queues: bool) -> None:
        self._fleet = fleet
        linked = [path for path in paths.WEB_PATHS if path.is_linked]
        self._linked = [path for path in linked if has_queues or path is not paths.QUEUE_METRICS]

    def get(self, request: Request) -> Response:
        """The page; the node of its links is the first that there is."""
        shown = self._fleet.roster.shown
        node = shown[0].name if shown else ""
        linked = [path.at(NODE=node) for path in self._linked if node or "NODE" not in path.template]
        links = "".join(f'<li><a href="{escape(path)}">{escape(path)}</a></li>' for path in linked)
        html = (
            f"<!doctype html><html lang=en><meta charset=utf-8><title>fakedev</title>"
            f"<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:2em auto;padding:0 1em;"
            f"color-scheme:light dark}}</style>"
            f"<h1>fakedev {escape(__version__)}</h1>"
            f"<p><strong>Everything here is simulated:</strong> {self._fleet.roster.summary}, "
            f"none of which exist.</p><ul>{links}</ul>"
        )
        return Response(200, html.encode(), "text/html; charset=utf-8")


#: What an HTTP address serves, and a path that shows it.
_SERVED: Final = {
    "all": Announced("web", "web page, metrics, API and control", "/", paths.METRICS.template, has_control=True),
    "metrics": Announced("web", "metrics only", paths.METRICS.template),
    "exporter": Announced("web", "metrics, as the exporter has them", paths.METRICS.template),
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
        more = {
            page.path: MetricsPage(pages.finder(selection_of(page)), scrapes.page(page.path)) for page in endpoint.pages
        }
        make_tree(more, root)
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
