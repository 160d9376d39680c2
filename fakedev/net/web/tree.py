"""The web tree: what is found at which path, for the service and for the drop-ins."""

from __future__ import annotations

from html import escape

from fakedev import __version__
from fakedev.exposition.discovery import chosen_nodes, targets_of
from fakedev.net.api.tree import make_api
from fakedev.net.http.api import argument, counted, unknown_key
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Folder, GuardedResource
from fakedev.net.http.response import HttpError, Response, json_response
from fakedev.net.http.statistics import PageStatistics, ScrapeStatistics
from fakedev.net.queues.figures import QueueFigures
from fakedev.net.queues.metrics_page import QueueMetricsPage
from fakedev.net.tester.pages import make_tester_folder
from fakedev.net.web.exporter_tree import HostMetricsPage
from fakedev.net.web.metrics_page import MetricsPage
from fakedev.net.web.own_metrics import OwnMetricsResource
from fakedev.net.web.page_cache import CachedPage, Pages
from fakedev.net.web.probes import HealthPage, Reload
from fakedev.net.web.program import Program
from fakedev.net.web.selection import Selection
from fakedev.sim.fleet import Fleet
from fakedev.spec.shards import parse_shard


class NodePages(GuardedResource):
    """/nodes: a page for each node, as its own exporter prints it."""

    def __init__(self, pages: Pages, statistics: PageStatistics, selection: Selection) -> None:
        super().__init__()
        self._pages = pages
        self._statistics = statistics
        self._selection = selection

    def find_child(self, path: bytes, request: GuardedRequest) -> GuardedResource | None:
        """A node by name."""
        node = self._pages.fleet.roster.node(path.decode("utf-8", "replace"))
        if node is None or not self._selection.has(node):
            return None
        page = self._pages.node_page(node, self._selection)
        return Folder(metrics=MetricsPage(page, self._statistics))


class Discovery(GuardedResource):
    """/sd: HTTP service discovery, a target per node."""

    def __init__(self, fleet: Fleet, pool: str | None) -> None:
        super().__init__()
        self._fleet = fleet
        self._pool = pool

    def get(self, request: GuardedRequest) -> Response:
        """All targets, or those of ``?pool=`` and ``?shard=``; they are reached where this request came to."""
        host = (request.header(b"host") or b"localhost").decode("latin-1")
        unknown = unknown_key(request, ("pool", "shard"))
        if unknown is not None:
            raise unknown
        pool, shard = argument(request, "pool"), argument(request, "shard")
        pools = list(dict.fromkeys(each.name for each in self._fleet.roster.pools))
        if pool and pool not in pools:
            raise HttpError(404, f"no pool {pool[:100]!r}: {counted(pools)}")
        hidden = self._fleet.troubles.hidden()
        try:
            nodes = chosen_nodes(self._fleet.roster, self._pool or pool, parse_shard(shard) if shard else None)
        except ValueError as error:
            raise HttpError(400, f"shard: {error}") from None
        return json_response(targets_of([node for node in nodes if node.name not in hidden], host))


class Start(Folder):
    """/: the root of all, which is a page itself."""

    def __init__(self, page: GuardedResource) -> None:
        super().__init__()
        self.put_child("", page)


class Links(GuardedResource):
    """The page at / of an address where nothing can be changed: what is where."""

    def __init__(self, fleet: Fleet, has_queues: bool) -> None:
        super().__init__()
        nodes = fleet.roster.shown
        paths = ["/metrics", f"/nodes/{nodes[0].name}/metrics", "/sd", "/health"]
        if has_queues:
            paths.append("/queues/metrics")
        links = "".join(f'<li><a href="{escape(path)}">{escape(path)}</a></li>' for path in paths)
        self._html = (
            f"<!doctype html><html lang=en><meta charset=utf-8><title>fakedev</title>"
            f"<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:2em auto;padding:0 1em;"
            f"color-scheme:light dark}}</style>"
            f"<h1>fakedev {escape(__version__)}</h1>"
            f"<p><strong>Everything here is simulated:</strong> {fleet.roster.summary}, "
            f"none of which exist.</p><ul>{links}</ul>"
        ).encode()

    def get(self, request: GuardedRequest) -> Response:
        """The page."""
        return Response(200, self._html, "text/html; charset=utf-8")


def make_root(program: Program, selection: Selection, *, is_full: bool = True) -> GuardedResource:
    """The tree of one address.

    :param selection: what /metrics and the nodes' pages show there.
    :param is_full: with what changes the simulation, and with what tells of fakedev itself.
    """
    pages, scrapes, queues = program.pages, program.scrapes, program.queues
    root = Start(program.files.start() if is_full else Links(program.fleet, queues is not None))
    root.put_child("metrics", HostMetricsPage(pages, scrapes.page("/metrics"), selection))
    root.put_child("nodes", NodePages(pages, scrapes.page("/nodes/NODE/metrics"), selection))
    root.put_child("sd", Discovery(program.fleet, selection.pool))
    for name in ("health", "healthz", "livez"):
        root.put_child(name, HealthPage(program.health))
    root.put_child("readyz", HealthPage(program.ready))
    ours = Folder(healthy=HealthPage(program.health), ready=HealthPage(program.ready))
    root.put_child("-", ours)
    if queues is not None:
        root.put_child("queues", Folder(metrics=QueueMetricsPage(queues, scrapes.page("/queues/metrics"))))
    if is_full:
        ours.put_child("metrics", OwnMetricsResource(program.own_metrics))
        ours.put_child("reload", Reload(program.reload))
        workloads = MetricsPage(pages.workload_page(), scrapes.page("/workloads/metrics"))
        root.put_child("workloads", Folder(metrics=workloads))
        root.put_child("api", make_api(program))
        root.put_child("page", program.files.folder())
        if program.tester is not None:
            root.put_child("tester", make_tester_folder(program.tester))
    return root


def add_page(root: GuardedResource, path: str, page: CachedPage, scrapes: ScrapeStatistics) -> None:
    """A page at a path of somebody's own.

    :param path: begins with a slash; no other page is there or below it.
    """
    *folders, name = path.strip("/").split("/")
    for folder in folders:
        if folder.encode() not in root.children:
            root.put_child(folder, Folder())
        root = root.children[folder.encode()]
    root.put_child(name, MetricsPage(page, scrapes.page(path)))


def make_exporter_root(pages: Pages, scrapes: ScrapeStatistics) -> GuardedResource:
    """The tree of ``fakedev-exporter``: /metrics by GET, and nothing else, as the original's."""
    return Folder(metrics=MetricsPage(pages.fleet_page(), scrapes.page("/metrics"), allow_head=False))


def make_frontend_root(queues: QueueFigures, scrapes: ScrapeStatistics) -> GuardedResource:
    """The tree of ``fakedev-frontend``: /metrics and nothing else, as the original's."""
    return Folder(metrics=QueueMetricsPage(queues, scrapes.page("/metrics")))
