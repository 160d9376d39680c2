"""The declared web paths against the tree: each is served as declared, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fakedev.schema.files import Files
from fakedev.tester.pages import make_load_pages
from fakedev.web import paths
from fakedev.web.paths import WEB_PATHS, WebPath
from fakedev.web.resource import Folder, Resource
from fakedev.web.site import Site
from tests.support.application import MemoryApplication, application
from tests.support.scenarios import written

#: A fleet with links and instances in a rack, queues and a tester: every path can be served.
EVERYTHING = """
version: 1
fleet:
  seed: 7
  pools:
    - {name: p, nodes: [a], device: h100, devices-per-node: 2, identity: dcgm, mig: [1g.10gb], racks: air}
web: ["127.0.0.1:9400", {listen: "127.0.0.1:9401", serve: metrics}]
workloads: {listen: [], base: [{name: base, devices: all, profile: "40:20:0"}]}
queues: {names: [q]}
tester: {plans: [{name: plan, queue: q, frontend: /run/clients.sock, parallel: 1}]}
"""
#: A node with a topology of fake-gpu-operator, at a path that only the test's files know.
WITH_TOPOLOGY = """
topology: /topology.yml
fleet: {seed: 7}
web: ["127.0.0.1:9400", {listen: "127.0.0.1:9401", serve: metrics}]
workloads: {listen: []}
"""
TOPOLOGY = "nodes: {a: {gpuProduct: Tesla-T4, gpuCount: 1}}"
NAMES = {"NODE": "a", "RACK": "p-rack-0", "INDEX": 0, "PART": 0, "NUMBER": 0, "NAME": "q", "PLAN": "plan", "ID": "base"}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryApplication]:
    """The application of EVERYTHING, which plays a scenario."""
    config = "config:" + EVERYTHING.replace("\n", "\n  ")
    with application(scenario=written(tmp_path_factory.mktemp("scenario"), "  []", fleet=config)) as running:
        yield running


@pytest.fixture(scope="module")
def operator() -> Iterator[MemoryApplication]:
    """The application of WITH_TOPOLOGY."""
    files = Files(environ={}, made={"/topology.yml": TOPOLOGY})
    with application(WITH_TOPOLOGY, files=files) as running:
        yield running


@pytest.fixture
def serving(app: MemoryApplication, operator: MemoryApplication, path: WebPath) -> MemoryApplication:
    """The application that serves a path."""
    return operator if path.template.startswith(paths.TOPOLOGY.template) else app


@pytest.mark.parametrize("path", WEB_PATHS, ids=lambda path: path.template)
def test_methods(serving: MemoryApplication, path: WebPath) -> None:
    """A path allows the declared methods; at ``serve: metrics`` only some paths exist."""
    answer = serving.ask("OPTIONS", path.at(**NAMES))
    assert answer.status == 405
    methods = [method for method in answer.headers["allow"].split(", ") if method != "HEAD"]
    assert tuple(methods) == path.methods
    assert serving.ask("OPTIONS", path.at(**NAMES), place=1).status == (405 if path.in_metrics else 404)


@pytest.mark.parametrize("path", [path for path in WEB_PATHS if "GET" in path.methods], ids=lambda path: path.template)
def test_query(serving: MemoryApplication, path: WebPath) -> None:
    """A path of the API, and /sd, refuses any other key after the ``?`` with the declared ones."""
    answer = serving.get(path.at(**NAMES) + "?zzz=1")
    if not path.template.startswith(paths.API) and path is not paths.DISCOVERY:
        assert answer.status in (200, 405)  # the tester's page that would change something
        return
    assert answer.status == 400
    there = f"there {'is' if len(path.query) == 1 else 'are'} {', '.join(path.query)}"
    there = there if path.query else "nothing can be chosen here"
    assert there in answer.body.decode()


def test_nothing_else_is_served(app: MemoryApplication) -> None:
    """Every resource of the tree is at a declared path, but for the files of the web page."""
    found = set(served(app.factories(Site)[0].resource, ""))
    declared = {path.fixed for path in WEB_PATHS}
    assert {path for path in found if not path.startswith("/page/")} == declared


def served(resource: Resource, path: str) -> Iterator[str]:
    """The paths of all resources that are no folders."""
    if not isinstance(resource, Folder) and path != paths.API:
        yield path
    for name, child in resource.children.items():
        yield from served(child, f"{path}/{name.decode()}")


def test_pages_of_the_tester(app: MemoryApplication) -> None:
    """The service has every page of the original tester, below /tester."""
    pages = make_load_pages(app.service.getServiceNamed("tester").tester, changes=False)
    assert {f"/tester/{name}" for name in pages} == {path.template for path in paths.TESTER}


def test_path_of_a_name() -> None:
    """Names replace the parts in capitals."""
    assert paths.LINK.at(NODE="a", INDEX=0, NUMBER=3) == "/api/v1/devices/a/0/link/3"
    assert (paths.LINK.fixed, paths.METRICS.fixed) == ("/api/v1/devices", "/metrics")
