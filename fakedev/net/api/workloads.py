"""/api/v1/workloads, /api/v1/faults and /api/v1/fault-kinds: the orders to a fleet: list, start, show and stop them."""

from __future__ import annotations

from typing import Any

from fakedev.net.fleet.describe import describe_workloads
from fakedev.net.fleet.faults import FaultHub, describe_fault
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.http.api import ApiCollection, ApiResource, as_http_error, json_body, page_of
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.response import HttpError, Response, json_response
from fakedev.spec.errors import Refused
from fakedev.spec.fault_kinds import KINDS, FaultKind
from fakedev.spec.web_paths import FAULT, FAULTS, WORKLOAD, WORKLOADS
from fakedev.spec.workload_fields import workload_from_fields


class Workloads(ApiCollection):
    """The workloads: lists them, starts one (which lives until it is stopped, ends, or its ttl is over)."""

    query = WORKLOADS.query

    def __init__(self, hub: WorkloadHub) -> None:
        super().__init__()
        self._hub = hub

    def item(self, name: str) -> ApiResource:
        """A workload, by id or name."""
        return WorkloadItem(self._hub, name)

    def get(self, request: GuardedRequest) -> Response:
        """All workloads, oldest first; ``limit`` and ``offset`` choose some."""
        fleet = self._hub.fleet
        every = list(fleet.workloads.by_id.values())
        shown = describe_workloads(fleet, [every[place] for place in page_of(request, len(every))])
        return json_response({"workloads": shown, "total": len(every)})

    def post(self, request: GuardedRequest, body: bytes) -> Response:
        """Start the workload that the body describes."""
        fleet = self._hub.fleet
        # As on the line ports, null is the same as a missing field.
        fields = {name: value for name, value in json_body(body).items() if value is not None}
        try:
            workload_id = self._hub.start(workload_from_fields(fields))
        except Refused as refusal:
            raise as_http_error(refusal) from None
        (described,) = describe_workloads(fleet, [fleet.workloads.by_id[workload_id]])
        return json_response(described, 201, [("Location", WORKLOAD.at(ID=workload_id))])


class WorkloadItem(ApiResource):
    """One workload: shows it, stops it."""

    def __init__(self, hub: WorkloadHub, word: str) -> None:
        super().__init__()
        self._hub = hub
        self._word = word

    def get(self, request: GuardedRequest) -> Response:
        """The workload of that id, or the oldest of that name."""
        workloads = self._hub.fleet.workloads
        found = workloads.find(self._word)
        if not found:
            raise HttpError(404, f"no workload {self._word!r}", "unknown-name", "workload")
        return json_response(describe_workloads(self._hub.fleet, [workloads.by_id[found[0]]])[0])

    def delete(self, request: GuardedRequest) -> Response:
        """Stop the workload of that id, or all of that name."""
        try:
            return json_response({"stopped": self._hub.stop(self._word)})
        except Refused as refusal:
            raise as_http_error(refusal, is_item=True) from None


class FaultsApi(ApiCollection):
    """The faults: lists them, injects one, clears all."""

    query = FAULTS.query

    def __init__(self, hub: FaultHub) -> None:
        super().__init__()
        self._hub = hub

    def item(self, name: str) -> ApiResource:
        """A fault, by id."""
        return FaultItem(self._hub, name)

    def get(self, request: GuardedRequest) -> Response:
        """All faults, oldest first; ``limit`` and ``offset`` choose some."""
        fleet = self._hub.fleet
        every = list(fleet.faults.by_id.values())
        shown = [describe_fault(fleet, every[place]) for place in page_of(request, len(every))]
        return json_response({"faults": shown, "total": len(every)})

    def post(self, request: GuardedRequest, body: bytes) -> Response:
        """Inject the fault that the body describes."""
        try:
            fault_id = self._hub.inject(json_body(body))
        except Refused as refusal:
            raise as_http_error(refusal) from None
        described = describe_fault(self._hub.fleet, self._hub.find(fault_id))
        return json_response(described, 201, [("Location", FAULT.at(ID=fault_id))])

    def delete(self, request: GuardedRequest) -> Response:
        """Clear all faults."""
        return json_response({"cleared": self._hub.clear("all")})


class FaultItem(ApiResource):
    """One fault: shows it, clears it."""

    def __init__(self, hub: FaultHub, fault_id: str) -> None:
        super().__init__()
        self._hub = hub
        self._fault_id = fault_id

    def get(self, request: GuardedRequest) -> Response:
        """The fault."""
        try:
            return json_response(describe_fault(self._hub.fleet, self._hub.find(self._fault_id)))
        except Refused as refusal:
            raise as_http_error(refusal, is_item=True) from None

    def delete(self, request: GuardedRequest) -> Response:
        """Clear it."""
        try:
            self._hub.find(self._fault_id)
            return json_response({"cleared": self._hub.clear(self._fault_id)})
        except Refused as refusal:
            raise as_http_error(refusal, is_item=True) from None


def fault_kinds() -> dict[str, Any]:
    """The kinds of faults with their parameters, as in doc/faults.md."""
    return {"kinds": [_described(kind) for kind in KINDS.values()]}


def _described(kind: FaultKind) -> dict[str, Any]:
    return {
        "kind": kind.name,
        "concerns": kind.scope.name.lower(),
        "summary": kind.summary,
        "recovery": kind.recovery,
        "takes-metric": kind.takes_metric,
        "takes": [
            {
                "name": each.name,
                "low": each.low,
                "high": each.high,
                "default": each.default,
                "whole": each.whole,
                "summary": each.summary,
            }
            for each in kind.parameters
        ],
    }
