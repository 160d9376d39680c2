"""The API's tree, /api/v1: collections and their items, each in a module of its own.

/api/v1/stream: the fleet live, as server-sent events.
"""

from __future__ import annotations

from typing import Final

from fakedev.net.api.control import Clock, JournalApi
from fakedev.net.api.devices import Devices, FleetHistory
from fakedev.net.api.nodes import Identities, Nodes
from fakedev.net.api.queues import Queues
from fakedev.net.api.tester import LoadCollection
from fakedev.net.api.workloads import FaultKinds, FaultsApi, Workloads
from fakedev.net.fleet.faults import FaultHub
from fakedev.net.http.api import ApiResource, Missing, counted, missing
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Folder, GuardedResource
from fakedev.net.http.response import HttpError, Response
from fakedev.net.web.live import CONTENT_TYPE, LiveView
from fakedev.net.web.program import Program


class Stream(ApiResource):
    """Server-sent events: who there is, then a frame for each tick."""

    def __init__(self, live: LiveView) -> None:
        super().__init__()
        self._live = live

    def handle(self, request: GuardedRequest) -> None:
        """Begin an answer without end; refusals and HEAD are answered as everywhere."""
        if request.method == b"GET" and not self._live.is_full and self.refusal(request) is None:
            self._live.add(request)
        else:
            super().handle(request)

    def get(self, request: GuardedRequest) -> Response:
        """What HEAD tells, and whoever comes when it is full."""
        if request.method == b"GET":
            raise HttpError(503, "too many viewers", "full", headers=(("Retry-After", "10"),))
        return Response(200, b"", CONTENT_TYPE)

_NO_PLANS: Final = "no load is put on queues: the configuration has no tester"


class Version(ApiResource):
    """All that there is, by name."""

    def find_child(self, path: bytes, request: GuardedRequest) -> GuardedResource | None:
        """What is not there."""
        return missing("resource", path, self._there)

    def refusal(self, request: GuardedRequest) -> Response:
        """Nothing is here by itself."""
        return self.error(404, f"name a resource: {self._there}")

    @property
    def _there(self) -> str:
        names = sorted(name.decode() for name in self.children)
        return counted(names, len(names))


def make_api(program: Program) -> Folder:
    """The tree under /api."""
    fleet, pages, history = program.fleet, program.pages, program.history
    version = Version()
    for name, resource in {
        "workloads": Workloads(program.hub),
        "faults": FaultsApi(FaultHub(fleet)),
        "fault-kinds": FaultKinds(),
        "devices": Devices(fleet, history),
        "nodes": Nodes(fleet, pages),
        "identities": Identities(fleet, pages),
        "journal": JournalApi(fleet),
        "clock": Clock(fleet, program.ticker),
        "queues": Queues(program.queues),
        "history": FleetHistory(history),
        "stream": Stream(program.live),
        "tester": Missing(_NO_PLANS, "tester") if program.tester is None else LoadCollection(program.tester),
    }.items():
        version.put_child(name, resource)
    return Folder(errors_as_json=True, v1=version)
