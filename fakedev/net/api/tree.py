"""The API's tree, /api/v1: collections and their items, each in its own module; and the live stream."""

from __future__ import annotations

from functools import partial
from typing import Final

from fakedev.net.api.control import Clock, JournalApi, ResetApi
from fakedev.net.api.devices import Devices
from fakedev.net.api.find import Find
from fakedev.net.api.nodes import Nodes, describe_identities
from fakedev.net.api.openapi import describe_api
from fakedev.net.api.queues import Queues
from fakedev.net.api.scenario import Occurrences
from fakedev.net.api.tester import LoadCollection
from fakedev.net.api.workloads import FaultsApi, Workloads, fault_kinds
from fakedev.net.fleet.faults import FaultHub
from fakedev.net.http.api import ApiHistory, ApiPage, ApiResource, MissingItem, counted, missing
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Folder, GuardedResource, make_tree
from fakedev.net.http.response import HttpError, Response
from fakedev.net.web.live import CONTENT_TYPE, LiveView
from fakedev.net.web.program import Program
from fakedev.spec import web_paths

_NO_PLANS: Final = "no load is put on queues: the configuration has no tester"
_NO_SCENARIO: Final = "no scenario is played: start with --scenario FILE"


def add_api(root: GuardedResource, program: Program) -> None:
    """Add the API to a tree."""
    fleet, pages, history, tester = program.fleet, program.pages, program.history, program.tester
    scenario = program.scenario
    resources: dict[web_paths.WebPath, ApiResource] = {
        web_paths.WORKLOADS: Workloads(program.hub),
        web_paths.FAULTS: FaultsApi(FaultHub(fleet)),
        web_paths.FAULT_KINDS: ApiPage(fault_kinds),
        web_paths.DEVICES: Devices(fleet, history),
        web_paths.NODES: Nodes(fleet, pages),
        web_paths.IDENTITIES: ApiPage(partial(describe_identities, fleet, pages)),
        web_paths.JOURNAL: JournalApi(fleet),
        web_paths.CLOCK: Clock(fleet, program.ticker),
        web_paths.RESET: ResetApi(program.hub),
        web_paths.QUEUES: Queues(program.queues, program.queue_history),
        web_paths.HISTORY: ApiHistory(history.of_fleet),
        web_paths.FIND: Find(fleet),
        web_paths.STREAM: Stream(program.live),
        web_paths.SCENARIO: ApiPage(scenario.describe) if scenario else MissingItem(_NO_SCENARIO, "scenario"),
        web_paths.OCCURRENCES: Occurrences(scenario) if scenario else MissingItem(_NO_SCENARIO, "scenario"),
        web_paths.OPENAPI: ApiPage(describe_api),
        web_paths.LOAD: MissingItem(_NO_PLANS, "tester") if tester is None else LoadCollection(tester),
    }
    root.put_child("api", Folder(errors_as_json=True, v1=Version()))
    make_tree({path.fixed: resource for path, resource in resources.items()}, root)


class Version(ApiResource):
    """/api/v1: the resources by name."""

    def find_child(self, name: bytes, request: GuardedRequest) -> MissingItem:
        return missing("resource", name, self._there())

    def refusal(self, request: GuardedRequest) -> Response:
        return self.error(404, f"name a resource: {self._there()}")

    def _there(self) -> str:
        names = sorted(name.decode() for name in self.children)
        return counted(names, len(names))


class Stream(ApiResource):
    """/api/v1/stream: the nodes and devices, then a frame for each tick."""

    def __init__(self, live: LiveView) -> None:
        self._live = live

    def handle(self, request: GuardedRequest) -> None:
        """Begin an answer without end; refusals and HEAD are answered as everywhere."""
        if request.method == b"GET" and not self._live.is_full and self.refusal(request) is None:
            self._live.add(request)
        else:
            super().handle(request)

    def get(self, request: GuardedRequest) -> Response:
        """The answer to HEAD, and to GET when there are too many viewers."""
        if request.method == b"GET":
            raise HttpError(503, "too many viewers", "full", headers=(("Retry-After", "10"),))
        return Response(200, b"", CONTENT_TYPE)
