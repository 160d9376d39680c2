"""The API's tree, /api/v1: collections and their items, each in a module of its own."""

from __future__ import annotations

from typing import Final

from twisted.web.resource import Resource

from fakedev.net.api_base import ApiResource, Missing, counted, missing
from fakedev.net.api_clock import Clock
from fakedev.net.api_devices import Devices
from fakedev.net.api_faults import FaultKinds, FaultsApi
from fakedev.net.api_history import FleetHistory
from fakedev.net.api_journal import JournalApi
from fakedev.net.api_nodes import Identities, Nodes
from fakedev.net.api_queues import Queues
from fakedev.net.api_stream import Stream
from fakedev.net.api_tester import LoadCollection
from fakedev.net.api_workloads import Workloads
from fakedev.net.fault_hub import FaultHub
from fakedev.net.http_request import GuardedRequest
from fakedev.net.http_resource import Folder
from fakedev.net.http_response import Response
from fakedev.net.program import Program

_NO_PLANS: Final = "no load is put on queues: the configuration has no tester"


class Version(ApiResource):
    """All that there is, by name."""

    def getChild(self, path: bytes, request: GuardedRequest) -> Resource:
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
        version.putChild(name.encode(), resource)
    return Folder(errors_as_json=True, v1=version)
