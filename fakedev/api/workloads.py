"""/api/v1/workloads, /api/v1/faults and /api/v1/fault-kinds: the orders to a fleet: list, start, show and stop them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from fakedev.base.errors import Refused
from fakedev.base.steps import Steps, result_of
from fakedev.fleet.describe import describe_workload, workload_describer, workload_seconds_left
from fakedev.fleet.entities.selectors import resolve
from fakedev.fleet.faults.rules import Fault
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.hub import ALL, FaultHub, WorkloadHub, describe_fault
from fakedev.fleet.past import EndedWorkload, PastFault
from fakedev.fleet.spec.fault_kinds import KINDS, FaultKind
from fakedev.fleet.spec.workload_fields import OTHER_NAMES, workload_steps
from fakedev.fleet.workloads.workload import Workload
from fakedev.web.items import Items, ItemsResource, described_key, in_order
from fakedev.web.paths import FAULT, FAULTS, WORKLOAD, WORKLOADS, WebPath
from fakedev.web.query import ApiCollection, ApiItem, ApiPage, ApiResource, argument, json_body, shown
from fakedev.web.request import Request
from fakedev.web.resource import Answer
from fakedev.web.response import Response, json_response

#: Workloads whose rows are noted in one step.
_ROWS_AT_ONCE: Final = 1000
#: Bytes of a workload from which on it may take some milliseconds.
_LONG_BYTES: Final = 4096
#: What the API shows of a parameter of a fault.
_PARAMETER: Final = ("name", "low", "high", "default", "whole", "summary")


class WorkloadList(ItemsResource, ApiCollection):
    """The workloads: lists them, starts one (which lives until it is stopped, ends, or its ttl is over)."""

    path = WORKLOADS

    def __init__(self, hub: WorkloadHub) -> None:
        self._hub = hub

    def item(self, name: str) -> ApiResource:
        """The workload of that id, or the oldest of that name; deleting stops all of the name."""
        described = partial(describe_workload, self._hub.fleet, name)
        return ApiItem(described, lambda: {"stopped": self._hub.stop(name)})

    def items(self, request: Request) -> Items[Workload]:
        """Oldest first."""
        fleet = self._hub.fleet
        return Items(
            list(fleet.workloads.by_id.values()),
            partial(workload_describer, fleet),
            _texts_of_workload,
            partial(_workload_key, fleet),
            exists=lambda each: each.workload_id in fleet.workloads.by_id,
        )

    def post(self, request: Request, body: bytes) -> Answer:
        steps = self._start(request, body)
        return request.answer_in_slices(steps) if len(body) > _LONG_BYTES else result_of(steps)

    def _start(self, request: Request, body: bytes) -> Steps[Response]:
        # As on the line ports, null is the same as a missing field.
        fields = {name: value for name, value in json_body(body).items() if value is not None}
        workload = yield from workload_steps(fields)
        workload_id = self._hub.start(workload, peer=request.peer_host)
        described = describe_workload(self._hub.fleet, workload_id)
        notes = [f"{word} is called {name} here; both are good" for word, name in OTHER_NAMES.items() if word in fields]
        described |= {"notes": notes} if notes else {}
        return json_response(described, 201, [("Location", WORKLOAD.at(ID=workload_id))])


class FaultsApi(ItemsResource, ApiCollection):
    """The faults: lists them, injects one, clears all."""

    path = FAULTS

    def __init__(self, hub: FaultHub) -> None:
        self._hub = hub

    def item(self, name: str) -> ApiResource:
        """A fault, by id; deleting clears it."""
        return ApiItem(partial(self._shown, name), partial(self._cleared, name))

    def items(self, request: Request) -> Items[Fault]:
        """Oldest first."""
        fleet = self._hub.fleet
        describe = partial(describe_fault, fleet)
        return Items(
            _faults_on(fleet, [word for word in argument(request, "devices").split(",") if word]),
            lambda _: describe,
            lambda each: (each.fault_id, each.spec.kind, each.spec.node, each.spec.metric, *each.spec.devices),
            partial(described_key, describe),
            exists=lambda each: each.fault_id in fleet.faults.by_id and not each.is_cleared,
        )

    def post(self, request: Request, body: bytes) -> Response:
        fault_id = self._hub.inject(json_body(body), peer=request.peer_host)
        return json_response(self._shown(fault_id), 201, [("Location", FAULT.at(ID=fault_id))])

    def delete(self, request: Request) -> Response:
        return json_response({"cleared": self._hub.clear(ALL)})

    def _shown(self, fault_id: str) -> dict[str, Any]:
        return describe_fault(self._hub.fleet, self._hub.fleet.faults.find(fault_id))

    def _cleared(self, fault_id: str) -> dict[str, Any]:
        self._hub.fleet.faults.find(fault_id)  # the path has no word for all
        return {"cleared": self._hub.clear(fault_id)}


def _faults_on(fleet: Fleet, words: list[str]) -> list[Fault]:
    """All faults, or those that may affect some of the devices that the words name."""
    faults = fleet.faults.standing()
    if not words:
        return faults
    devices = fleet.roster.parts.with_parts(resolve(words, fleet.roster))
    return [fault for fault in faults if np.isin(fault.devices, devices).any()]


class OverItem(ApiPage):
    """One item of what is over."""

    is_item = True


@dataclass(eq=False)
class Over(ItemsResource, ApiCollection):
    """What is over, newest first: the workloads that have ended, or the faults.

    :param noun: what an item is.
    :param kept: returns all that are kept.
    :param find: the item of an id or a name, the last one; None when there is none.
    """

    path: WebPath = field()  # without the default of its class
    noun: str
    kept: Callable[[], Iterable[EndedWorkload | PastFault]]
    find: Callable[[str], EndedWorkload | PastFault | None]

    def item(self, name: str) -> ApiResource:
        def described() -> dict[str, Any]:
            found = self.find(name)
            if found is None:
                raise Refused("unknown-name", f"no {self.noun} {shown(name)!r}: there are the last ones", self.noun)
            return found.fields()

        return OverItem(described)

    def items(self, request: Request) -> Items[dict[str, Any]]:
        describe: Callable[[dict[str, Any]], dict[str, Any]] = dict
        return Items(
            [ended.fields() for ended in self.kept()],
            lambda _: describe,
            lambda each: map(str, each.values()),
            partial(described_key, describe),
        )


def _texts_of_workload(workload: Workload) -> tuple[str, ...]:
    """Where a search looks in a workload."""
    spec = workload.spec
    return (workload.workload_id, spec.name, spec.pod, spec.namespace, spec.container, *spec.devices)


def _workload_key(fleet: Fleet, name: str) -> Callable[[Workload], Any] | Steps[Callable[[Workload], Any]]:
    """What workloads are sorted by, without a description of each: there may be 100,000."""
    if name in ("load-percent", "remaining-seconds"):
        return _state_key(fleet, name)
    keys: dict[str, Callable[[Workload], Any]] = {
        "id": lambda each: in_order(each.workload_id),
        "name": lambda each: in_order(each.spec.name),
        "pod": lambda each: in_order(each.spec.pod),
        "device-count": lambda each: len(each.devices),
        "run-seconds": lambda each: float("-inf") if each.start_seconds is None else -each.start_seconds,
    }
    return keys[name]


def _state_key(fleet: Fleet, name: str) -> Steps[Callable[[Workload], float]]:
    """Sort keys of workloads, from the arrays of running ones; made in steps."""
    table, now_seconds = fleet.workloads.table, fleet.state.seconds
    load, left = table.load, table.work_left
    row_of: dict[str, int] = {}
    for begin in range(0, len(table), _ROWS_AT_ONCE):
        ids = table.ids[begin : begin + _ROWS_AT_ONCE].tolist()
        row_of.update(zip(ids, range(begin, begin + len(ids)), strict=True))
        yield

    def load_percent(each: Workload) -> float:
        row = row_of.get(each.workload_id)
        return 0.0 if row is None else float(load[row])

    def remaining_seconds(each: Workload) -> float:
        row = row_of.get(each.workload_id)
        return workload_seconds_left(now_seconds, each.profile_seconds if row is None else float(left[row]), each)

    return load_percent if name == "load-percent" else remaining_seconds


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
        "takes": [{name: getattr(parameter, name) for name in _PARAMETER} for parameter in kind.parameters],
    }
