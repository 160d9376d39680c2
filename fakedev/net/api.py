"""The API's tree, /api/v1: collections and their items, each in a module of its own."""

from __future__ import annotations

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
from fakedev.net.http_resource import Folder
from fakedev.net.program import Program


def make_api(program: Program) -> Folder:
    """The tree under /api."""
    fleet, pages, history = program.fleet, program.pages, program.history
    version = Folder(
        errors_as_json=True,
        workloads=Workloads(program.hub),
        faults=FaultsApi(FaultHub(fleet)),
        devices=Devices(fleet, history),
        nodes=Nodes(fleet, pages),
        identities=Identities(fleet, pages),
        journal=JournalApi(fleet),
        clock=Clock(fleet, program.ticker),
        queues=Queues(program.queues),
        history=FleetHistory(history),
        stream=Stream(program.live),
    )
    version.putChild(b"fault-kinds", FaultKinds())
    if program.tester is not None:
        version.putChild(b"tester", LoadCollection(program.tester))
    return Folder(errors_as_json=True, v1=version)
