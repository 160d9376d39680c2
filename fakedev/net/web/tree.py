"""The web tree: the resource at each path of :mod:`fakedev.spec.web_paths`."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import Final

import orjson

from fakedev import __version__
from fakedev.exposition.discovery import node_chooser, target_of
from fakedev.net.api.tree import add_api
from fakedev.net.http.api import argument, unknown_key, unknown_pool
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Answer, Folder, GuardedResource, NotServed, make_tree
from fakedev.net.http.response import HttpError, Response, json_response
from fakedev.net.http.slices import Steps
from fakedev.net.http.statistics import PageStatistics
from fakedev.net.queues.metrics_page import QueueMetricsPage
from fakedev.net.tester.pages import make_tester_folder
from fakedev.net.web.metrics_page import HostMetricsPage, MetricsPage
from fakedev.net.web.own_metrics import OwnMetricsResource
from fakedev.net.web.page_cache import Pages, Selection
from fakedev.net.web.probes import HealthPage, Reload
from fakedev.net.web.program import Program
from fakedev.net.web.topology import NO_TOPOLOGY, NodeTopologies, TopologyPage
from fakedev.sim.entities.selectors import no_node
from fakedev.sim.fleet import Fleet
from fakedev.spec import web_paths
from fakedev.spec.shards import parse_shard

_ONLY_METRICS: Final = "this address has serve: metrics"


def make_root(program: Program, selection: Selection, *, is_full: bool = True) -> GuardedResource:
    """The tree of one address.

    :param selection: the nodes that /metrics and the nodes' pages show there, and how.
    :param is_full: with the paths that change the simulation, and those that show fakedev itself.
    """
    pages, scrapes, queues = program.pages, program.scrapes, program.queues

    def scraped(path: web_paths.WebPath) -> PageStatistics:
        return scrapes.page(path.template)

    health, ready = (HealthPage(health, program.file_problems) for health in (program.health, program.ready))
    tree: dict[web_paths.WebPath, GuardedResource] = {
        web_paths.START: program.files.start if is_full else LinksPage(program.fleet, queues is not None),
        web_paths.METRICS: HostMetricsPage(pages, scraped(web_paths.METRICS), selection),
        web_paths.NODE_METRICS: NodePages(pages, scraped(web_paths.NODE_METRICS), selection),
        web_paths.DISCOVERY: Discovery(program.fleet, selection.pool),
        **dict.fromkeys((web_paths.HEALTH, *web_paths.HEALTH_ALIASES), health),
        **dict.fromkeys(web_paths.READY, ready),
    }
    if queues is not None:
        tree[web_paths.QUEUE_METRICS] = QueueMetricsPage(queues, scraped(web_paths.QUEUE_METRICS))
    else:
        tree[web_paths.QUEUE_METRICS] = NotServed("the configuration has no queues")
    if program.topology.is_on:
        tree[web_paths.TOPOLOGY] = TopologyPage(program.topology, selection)
        tree[web_paths.NODE_TOPOLOGY] = NodeTopologies(program.topology, program.fleet, selection)
    else:
        tree |= {path: NotServed(NO_TOPOLOGY) for path in (web_paths.TOPOLOGY, web_paths.NODE_TOPOLOGY)}
    if is_full:
        tree[web_paths.OWN_METRICS] = OwnMetricsResource(program.own_metrics)
        tree[web_paths.RELOAD] = Reload(program.reload)
        tree[web_paths.WORKLOAD_METRICS] = MetricsPage(pages.workload_page, scraped(web_paths.WORKLOAD_METRICS))
    else:
        own = (web_paths.OWN_METRICS, web_paths.RELOAD, web_paths.WORKLOAD_METRICS)
        tree |= {path: NotServed(_ONLY_METRICS) for path in own}
    root = make_tree({path.fixed: resource for path, resource in tree.items()})
    if is_full:
        add_api(root, program)
        root.put_child("page", program.files.folder)
        no_load = NotServed("the configuration has no tester")
        root.put_child("tester", no_load if program.tester is None else make_tester_folder(program.tester))
    else:
        for name in ("api", "page", "tester"):
            root.put_child(name, NotServed(_ONLY_METRICS, errors_as_json=name == "api"))
    return root


def add_page(root: GuardedResource, path: str, page: MetricsPage) -> None:
    """Add a page at a path of the configuration.

    :param path: begins with a slash; no other page is there or below it.
    """
    make_tree({path: page}, root)


class NodePages(GuardedResource):
    """/nodes: a page for each node, as its own exporter prints it."""

    def __init__(self, pages: Pages, statistics: PageStatistics, selection: Selection) -> None:
        self._pages = pages
        self._statistics = statistics
        self._selection = selection

    def find_child(self, name: bytes, request: GuardedRequest) -> GuardedResource | None:
        node = self._pages.fleet.roster.node(name.decode("utf-8", "replace"))
        if node is None or not self._selection.has(node):
            return None
        return Folder(metrics=MetricsPage(partial(self._pages.node_page, node, self._selection), self._statistics))

    def missing(self, request: GuardedRequest) -> str:
        name = request.postpath[0].decode("utf-8", "replace") if request.postpath else ""
        if not name:
            shown = self._pages.fleet.roster.shown
            if not shown:
                return "there is no node: the cluster has none with the label"
            return f"nothing is here: name a node, as {web_paths.NODE_METRICS.at(NODE=shown[0].name)}"
        if self._pages.fleet.roster.node(name) is None:
            return no_node(name, self._pages.fleet.roster, "").text
        return f"this address does not show the node {name!r}"


class Discovery(GuardedResource):
    """/sd: HTTP service discovery, a target for each node."""

    def __init__(self, fleet: Fleet, pool: str | None) -> None:
        self._fleet = fleet
        self._pool = pool

    def get(self, request: GuardedRequest) -> Answer:
        """All targets, or those of ``?pool=`` and ``?shard=``; their address is the Host of this request."""
        return request.answer_in_slices(self._steps(request))

    def _steps(self, request: GuardedRequest) -> Steps:
        host = (request.header(b"host") or b"localhost").decode("latin-1")
        pool, shard = argument(request, "pool"), argument(request, "shard")
        roster = self._fleet.roster
        error = unknown_key(request, web_paths.DISCOVERY.query) or unknown_pool(roster, pool)
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


class LinksPage(GuardedResource):
    """/ of an address where nothing can be changed: links to its pages."""

    def __init__(self, fleet: Fleet, has_queues: bool) -> None:
        self._fleet = fleet
        linked = [path for path in web_paths.WEB_PATHS if path.is_linked]
        self._linked = [path for path in linked if has_queues or path is not web_paths.QUEUE_METRICS]

    def get(self, request: GuardedRequest) -> Response:
        """The page; the node of its links is the first that there is."""
        shown = self._fleet.roster.shown
        node = shown[0].name if shown else ""
        paths = [path.at(NODE=node) for path in self._linked if node or "NODE" not in path.template]
        links = "".join(f'<li><a href="{escape(path)}">{escape(path)}</a></li>' for path in paths)
        html = (
            f"<!doctype html><html lang=en><meta charset=utf-8><title>fakedev</title>"
            f"<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:2em auto;padding:0 1em;"
            f"color-scheme:light dark}}</style>"
            f"<h1>fakedev {escape(__version__)}</h1>"
            f"<p><strong>Everything here is simulated:</strong> {self._fleet.roster.summary}, "
            f"none of which exist.</p><ul>{links}</ul>"
        )
        return Response(200, html.encode(), "text/html; charset=utf-8")
