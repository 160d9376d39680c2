"""Injects and clears faults for ports and API, and describes faults and explanations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from twisted.logger import Logger

from fakedev.sim.door import fault_id_of
from fakedev.sim.events import ClearFault, ClearFaults, InjectFault
from fakedev.sim.faults.rules import Fault
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused
from fakedev.spec.fault_fields import fault_from_fields, fields_of_fault

if TYPE_CHECKING:
    from fakedev.sim.explanation import Explanation

#: Device words in the description of a fault; ``more-devices`` counts the rest.
_MAX_WORDS: Final = 100
#: The word that clears every fault.
ALL: Final = "all"


class FaultHub:
    """Injects, clears and finds the faults of a fleet."""

    log = Logger()

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def inject(self, fields: Mapping[str, object], node: str = "", peer: object = "") -> str:
        """Inject the fault that the fields describe; return its id.

        :param peer: whose limits it counts for: the name of a host.
        :param node: the node of device words that name none, unless the fields name a node of the fleet.
        :raises Refused: when a field is wrong.
        """
        given = {name: value for name, value in fields.items() if value is not None}
        if node and "devices" in given and self.fleet.roster.node(str(given.get("node"))) is None:
            given["node"] = node
        spec = fault_from_fields(given)
        fault_id = fault_id_of(self.fleet.apply(InjectFault(spec), peer).sequence)
        self.log.info("fault {id} injected: {kind}", id=fault_id, kind=spec.kind)
        return fault_id

    def clear(self, word: str) -> list[str]:
        """Clear the fault of that id, or all; return their ids.

        :raises Refused: when there is none of that id.
        """
        found = [word]
        if word == ALL:
            found = [each.fault_id for each in self.fleet.faults.by_id.values() if not each.is_cleared]
        if len(found) == 1:
            self.fleet.apply(ClearFault(found[0]))
            self.log.info("fault {id} cleared", id=found[0])
        elif found:
            self.fleet.apply(ClearFaults(tuple(found)))
            self.log.info("{count} faults cleared", count=len(found))
        return found

    def find(self, fault_id: str) -> Fault:
        """The fault of that id.

        :raises Refused: when there is none.
        """
        fault = self.fleet.faults.by_id.get(fault_id)
        if fault is None:
            raise Refused("unknown-name", f"no fault {fault_id!r}", "fault")
        return fault


def describe_fault(fleet: Fleet, fault: Fault) -> dict[str, Any]:
    """A fault: the fields that it was injected with, and its state."""
    since = fault.since_seconds
    waits = fault.period < 0
    ends = fault.spec.duration_seconds
    left = None
    if ends and since is not None:
        left = round(max(since + ends - fleet.state.seconds, 0.0), 6)
    fields = fields_of_fault(fault.spec)
    fields["devices"] = list(fault.spec.devices[:_MAX_WORDS])
    more = len(fault.spec.devices) - _MAX_WORDS
    return {
        "id": fault.fault_id,
        "state": "waiting" if waits else "active",
        **fields,
        **({"more-devices": more} if more > 0 else {}),
        "device-count": len(fault.devices),
        "active-devices": int(fault.on.sum()),
        "since-seconds": since,
        "remaining-seconds": left,
    }


def describe_explanations(fleet: Fleet, position: int, metric: str = "") -> dict[str, Any]:
    """Why the metrics of a device have their values.

    :param metric: a metric as in a workload's limit; empty for the most important ones.
    :raises Refused: when no device of the fleet has the metric.
    """
    from fakedev.sim.explanation import explain  # noqa: PLC0415 - fakedev-exporter must start fast, and is not asked

    quantity = fleet.quantity_of(metric) if metric else ""
    return _described(fleet, "device", fleet.roster.unit_name(position), explain(fleet, position, quantity))


def describe_link_explanations(fleet: Fleet, position: int, number: int, metric: str = "") -> dict[str, Any]:
    """Why the metrics of a link of a device have their values.

    :param number: which of the links of the device.
    :param metric: a metric of links; empty for all of them that are explained.
    :raises Refused: when there is no such link, or no such metric of links.
    """
    from fakedev.sim.explanation import explain_link  # noqa: PLC0415

    name = f"{fleet.roster.unit_name(position)}/link/{number}"
    return _described(fleet, "link", name, explain_link(fleet, position, number, metric))


def _described(fleet: Fleet, kind: str, name: str, explanations: Sequence[Explanation]) -> dict[str, Any]:
    described = [
        {"metric": each.metric, "value": each.value, "text": each.text, "faults": list(each.faults)}
        for each in explanations
    ]
    return {kind: name, "tick": fleet.state.tick, "explanations": described}
