"""Collections of the API: searched, sorted, read page by page; and how much of that one step does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fakedev.queues.job import Answer, Outcome
from fakedev.web.items import Items, ItemsResource, in_order
from fakedev.web.paths import (
    COLLECTIONS,
    DEVICES,
    ENDED_WORKLOADS,
    FAULTS,
    JOURNAL,
    LOAD_DEVICES,
    LOAD_NODES,
    LOAD_PODS,
    NODES,
    OCCURRENCES,
    PAST_FAULTS,
    QUEUES,
    RACKS,
    WEB_PATHS,
    WORKLOADS,
    WebPath,
)
from fakedev.web.response import Response
from tests.support.application import MemoryApplication, application
from tests.support.paths import DOCUMENTS
from tests.support.scenarios import written

CONFIG = """
version: 1
fleet:
  seed: 7
  pools:
    - {name: train, nodes: 11, node-name: "dgx-{}", device: h100, devices-per-node: 2, identity: dcgm, racks: air}
    - {name: play, nodes: [box], device: l40s, devices-per-node: 1, identity: nvidia-gpu-exporter}
web: ["127.0.0.1:9400"]
workloads: {listen: [], base: [{name: base, devices: box/0, profile: "40:0:0"}]}
queues: {names: [fast, slow, Slowest]}
tester: {plans: [{name: users, queue: fast, frontend: /run/clients.sock, parallel: 1}]}
"""
NAMES = {path: path.template.rpartition("/")[2] for path in COLLECTIONS}
#: The name of an item, by the collection.
IDS = {
    WORKLOADS: "name", ENDED_WORKLOADS: "name", PAST_FAULTS: "id",
    FAULTS: "kind", JOURNAL: "scope", DEVICES: "device", NODES: "node", QUEUES: "queue", RACKS: "rack",
    LOAD_NODES: "node", LOAD_DEVICES: "device", LOAD_PODS: "pod", OCCURRENCES: "name",
}  # fmt: skip
#: Who answered the requests of the plan: node, device, pod, seconds, and the error of a failure.
ANSWERS = (
    ("Dgx-10", "gpu1", "pod-b", 0.1, "no memory left"), ("dgx-9", "gpu0", "", 0.3, ""),
    ("dgx-9", "gpu1", "pod-a", 0.4, ""), ("box", "0", "pod-a", 2.0, "exit code 3"), ("", "0", "pod-a", 0.2, ""),
    ("dgx-9", "gpu1", "pod-a", 0.5, "killed"),
)  # fmt: skip


#: Two of these have occurred after two ticks, and have changed nothing.
TIMELINE = """
  - {as: Zoo, at: 90s, fault: {kind: fan, devices: dgx-3/1}}
  - {as: box-10, at: 1s, stop: all}
  - {as: box-9, at: 500ms, clear: Zoo}
  - {as: far, at: 60s, for: 10s, run: {name: job-y, devices: box/any, profile: "10:0:0"}}
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryApplication]:
    """Two pools, three queues, three workloads, two faults, a plan of load with its answers, a scenario."""
    config = "config:" + CONFIG.replace("\n", "\n  ")
    path = written(tmp_path_factory.mktemp("scenario"), TIMELINE, fleet=config)
    with application(scenario=path) as running:
        for name, load, pod in (("job-10", 50, "Chat-1"), ("job-9", 70, None)):
            body = {"name": name, "devices": ["dgx-10/1"], "profile": f"{load}:0:60", "pod": pod}
            assert running.ask("POST", WORKLOADS.template, body).status == 201
        for fault in ({"kind": "hang", "duration": "1h"}, {"kind": "fan"}):
            assert running.ask("POST", FAULTS.template, {**fault, "devices": ["dgx-2/*"]}).status == 201
        running.tick(2)
        statistics = running.service.getServiceNamed("tester").tester.statistics("users")
        for node, device, pod, seconds, error in ANSWERS:
            outcome = Outcome.FAILURE if error else Outcome.SUCCESS
            answer = Answer(
                outcome, int(bool(error)), error, run_seconds=seconds, node=node, pod=pod, device=device
            )
            statistics.answered(statistics.started(0.0, 0.0), answer, 1.0)
        yield running


def names(app: MemoryApplication, path: WebPath, query: str) -> list[str]:
    return [each[IDS[path]] for each in app.json(f"{address(path)}?{query}")[NAMES[path]]]


def address(path: WebPath) -> str:
    """The path of a collection, below the plan where it is one of a plan."""
    return path.at(PLAN="users")


def test_every_collection_is_here() -> None:
    assert set(COLLECTIONS) == set(IDS) == {path for path in WEB_PATHS if "sort" in path.query}


@pytest.mark.parametrize(
    ("path", "search", "found"),
    [
        (WORKLOADS, "JOB", ["job-10", "job-9"]),
        (WORKLOADS, "chat", ["job-10"]),
        (WORKLOADS, "box/", ["base"]),
        (FAULTS, "dgx-2", ["hang", "fan"]),
        (FAULTS, "FAN", ["fan"]),
        (JOURNAL, "begins+to+run", []),
        (DEVICES, "l40", ["box/0"]),
        (DEVICES, "-10/", ["dgx-10/0", "dgx-10/1"]),
        (DEVICES, "play", ["box/0"]),
        (NODES, "Nvidia-GPU", ["box"]),
        (NODES, "dgx-1", ["dgx-1", "dgx-10"]),
        (QUEUES, "SLOW", ["slow", "Slowest"]),
        (RACKS, "TRAIN", ["train-rack-0", "train-rack-1"]),
        (QUEUES, "", ["fast", "slow", "Slowest"]),
        (LOAD_NODES, "DGX", ["Dgx-10", "dgx-9"]),
        (LOAD_NODES, "exit+code", ["box"]),
        (LOAD_NODES, "pod-a", []),
        (LOAD_DEVICES, "/gpu1", ["Dgx-10/gpu1", "dgx-9/gpu1"]),
        (LOAD_PODS, "pod-", ["pod-a", "pod-b"]),
        (LOAD_PODS, "", ["", "pod-a", "pod-b"]),
        (OCCURRENCES, "", ["far", "far", "Zoo", "box-10", "box-9"]),
        (OCCURRENCES, "BOX/0", ["far"]),
        (OCCURRENCES, "done", ["box-10", "box-9"]),
        (OCCURRENCES, "stop", ["far", "box-10"]),
    ],
)
def test_search(app: MemoryApplication, path: WebPath, search: str, found: list[str]) -> None:
    """A part of a name, a kind, a pod or a device, without regard to case; the total is that of what is found."""
    assert names(app, path, f"search={search}") == found
    page = app.json(f"{address(path)}?search={search}&limit=1&offset=1")
    assert (page["total"], [each[IDS[path]] for each in page[NAMES[path]]]) == (len(found), found[1:2])


@pytest.mark.parametrize(
    ("path", "sort", "found"),
    [
        (WORKLOADS, "name", ["base", "job-9", "job-10"]),
        (WORKLOADS, "-name", ["job-10", "job-9", "base"]),
        (WORKLOADS, "load-percent", ["base", "job-10", "job-9"]),
        (WORKLOADS, "-pod", ["job-10", "base", "job-9"]),
        (WORKLOADS, "remaining-seconds", ["job-10", "job-9", "base"]),
        (FAULTS, "kind", ["fan", "hang"]),
        (FAULTS, "-remaining-seconds", ["fan", "hang"]),
        (QUEUES, "-queue", ["Slowest", "slow", "fast"]),
        (LOAD_NODES, "node", ["", "box", "dgx-9", "Dgx-10"]),
        (LOAD_NODES, "-answers", ["dgx-9", "", "Dgx-10", "box"]),
        (LOAD_NODES, "-run-max", ["box", "dgx-9", "", "Dgx-10"]),
        (LOAD_NODES, "-last-error", ["Dgx-10", "dgx-9", "box", ""]),
        (LOAD_DEVICES, "run-p50", ["Dgx-10/gpu1", "/0", "dgx-9/gpu0", "dgx-9/gpu1", "box/0"]),
        (LOAD_PODS, "failures", ["", "pod-b", "pod-a"]),
        (LOAD_PODS, "-run-mean", ["pod-a", "", "pod-b"]),
        (OCCURRENCES, "seconds", ["box-9", "box-10", "far", "far", "Zoo"]),
        (OCCURRENCES, "-lasts-seconds", ["far", "far", "Zoo", "box-10", "box-9"]),
        (OCCURRENCES, "name", ["box-9", "box-10", "far", "far", "Zoo"]),
        (OCCURRENCES, "-state", ["far", "far", "Zoo", "box-10", "box-9"]),
    ],
)
def test_sort(app: MemoryApplication, path: WebPath, sort: str, found: list[str]) -> None:
    """By a key, or in the reverse order; names as people sort them; what is equal stays in its order."""
    assert names(app, path, f"sort={sort}") == found
    assert names(app, path, f"sort={sort}&limit=1&offset=1") == found[1:2]


def test_sort_of_devices_and_nodes(app: MemoryApplication) -> None:
    """Numbers in names count as numbers; quantities are sorted by their values, absent ones last."""
    nodes = ["box", *(f"dgx-{number}" for number in range(11))]
    assert names(app, NODES, "sort=node") == nodes
    assert names(app, DEVICES, "sort=-usage_ratio")[:4] == ["dgx-2/0", "dgx-2/1", "dgx-10/1", "box/0"]
    assert names(app, DEVICES, "sort=-device&limit=2") == ["dgx-10/1", "dgx-10/0"]


@pytest.mark.parametrize("path", COLLECTIONS, ids=lambda path: path.template)
def test_every_key_sorts(app: MemoryApplication, path: WebPath) -> None:
    """Each declared key gives all items, and its reverse the other way round up to equal ones; others are refused."""
    every = names(app, path, "")
    for key in path.sort:
        for sort in (key, f"-{key}"):
            assert sorted(names(app, path, f"sort={sort}")) == sorted(every), sort
    refused = app.get(f"{address(path)}?sort=-colour")
    error = json.loads(refused.body)["error"]
    assert (refused.status, error["where"]) == (400, "sort")
    assert f"unknown key 'colour': there are {', '.join(path.sort)}, and -KEY for the reverse order" in error["message"]
    assert app.ask("HEAD", f"{address(path)}?sort=colour").status == 400


def test_items_only(app: MemoryApplication) -> None:
    for path in ("history?search=x", "clock?sort=tick", "queues/fast?search=x", "tester/users?sort=node"):
        assert app.get(f"/api/v1/{path}").status == 400


class Request:
    """A GET of a list whose steps are counted."""

    method = b"GET"

    def __init__(self, **query: str) -> None:
        self.args = {name.encode(): [value.encode()] for name, value in query.items()}
        self.steps: list[int] = []
        self.work = 0

    def answer_in_slices(self, steps: Iterator[None]) -> Any:
        """Make the answer, and count the work of each step."""
        while True:
            before = self.work
            try:
                next(steps)  # type: ignore[call-overload]
            except StopIteration as done:
                return done.value
            self.steps.append(self.work - before)

    def items(self, count: int) -> Items[int]:
        """Numbers, whose search and key count as work."""

        def texts(item: int) -> tuple[str]:
            self.work += 1
            return (str(item),)

        def key(item: int) -> int:
            self.work += 1
            return -item

        return Items(range(count), lambda _: str, texts, lambda _: key)


class Listed(ItemsResource):
    """A collection of such numbers."""

    path = WORKLOADS

    def __init__(self, make: Callable[[], Items[int]]) -> None:
        self._make = make

    def items(self, request: object) -> Items[int]:
        return self._make()


@pytest.mark.parametrize("query", [{"search": "7"}, {"sort": "name"}, {"search": "7", "sort": "-name"}])
def test_a_step_does_little(query: dict[str, str]) -> None:
    """However many items there are: a step looks at some of them."""
    request = Request(limit="50", **query)
    answer: Response = Listed(lambda: request.items(100_000)).get(request)  # type: ignore[arg-type, assignment]
    found = json.loads(b"".join(answer.body.pieces))
    assert len(found["workloads"]) == 50
    assert max(request.steps) <= 20 and sum(request.steps) >= 100_000


def test_what_ends_meanwhile_is_left_out() -> None:
    """Items that end while others are sorted are not described; if that leaves too few, they are chosen once more."""
    request, tries, gone = Request(sort="name", limit="3"), [], {9, 8}

    def now() -> Items[int]:
        tries.append(1)
        whole = request.items(10)
        every = range(10) if len(tries) == 1 else range(8)
        return Items(every, whole.describer, whole.texts, whole.key_of, exists=lambda item: item not in gone)

    answer: Response = Listed(now).get(request)  # type: ignore[arg-type, assignment]
    assert json.loads(b"".join(answer.body.pieces)) == {"workloads": ["7", "6", "5"], "total": 8}
    assert len(tries) == 2


def test_order_of_names() -> None:
    """Numbers by their value, letters without regard to case, nothing first."""
    assert sorted(["b", "A-10", "a-9", None, "a-9-1"], key=in_order) == [None, "a-9", "a-9-1", "A-10", "b"]


def test_the_document_lists_them() -> None:
    """doc/http.md has a row for each collection: where a search looks, and the keys of its order."""
    text = (DOCUMENTS / "http.md").read_text(encoding="utf-8")
    for path in COLLECTIONS:
        keys = ", ".join(f"`{key}`" for key in path.sort)
        assert f"| `{path.template}` | {path.search} | {keys} |\n" in text, path.template
