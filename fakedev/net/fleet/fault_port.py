"""The verbs of the workload port about faults, and about why things are as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fakedev.net.fleet.faults import describe_explanations, describe_fault, describe_link_explanations
from fakedev.net.fleet.journal_query import find_happenings
from fakedev.net.fleet.shown import cut, shortened, shown_value
from fakedev.sim.entities.selectors import resolve
from fakedev.sim.link_explanation import link_word
from fakedev.spec.errors import Refused
from fakedev.wire.grammar import Request
from fakedev.wire.replies import Reply

#: Faults of one answer: what is beyond is said to be there.
_MOST_FAULTS = 1000
#: Lines of the journal in one answer: when nobody says how many, and at most.
_FEW_HAPPENINGS = 20
_MOST_HAPPENINGS = 1000


class FaultVerbs:
    """What peers of the workload port ask about faults."""

    factory: Any

    def do_fault(self, request: Request) -> Reply:
        """Inject a fault."""
        self.factory.check_allowed("faults", "inject or clear faults")
        fault_id = self.factory.faults.inject(request.arguments, self.factory.node)
        return Reply(fault_id, data={"fault": fault_id})

    def do_clear(self, request: Request) -> Reply:
        """Clear a fault, or all."""
        self.factory.check_allowed("faults", "inject or clear faults")
        cleared = self.factory.faults.clear(str(request.arguments["fault"]))
        return Reply(f"cleared {len(cleared)}", data={"cleared": cleared})

    def do_faults(self, request: Request) -> Reply:
        """A line for each fault."""
        fleet = self.factory.hub.fleet
        every = list(fleet.faults.by_id.values())
        described = [describe_fault(fleet, each) for each in every[:_MOST_FAULTS]]
        return Reply(lines=cut([_line(each) for each in described], len(every)),
                     data={"faults": described, "total": len(every)})  # fmt: skip

    def do_explain(self, request: Request) -> Reply:
        """Why a device shows what it shows."""
        fleet = self.factory.hub.fleet
        word = str(request.arguments["device"])
        link = link_word(word)
        found = resolve([link[0] if link else word], fleet.roster, self.factory.node).tolist()
        if len(found) != 1:
            raise Refused("bad-argument", f"device: {word!r} names {len(found)} devices: give one", "device")
        metric = str(request.arguments.get("metric") or "")
        if link:
            told = describe_link_explanations(fleet, found[0], link[1], metric)
        else:
            told = describe_explanations(fleet, found[0], metric)
        lines = [f"{each['metric']} {_number(each['value'])}: {each['text']}" for each in told["explanations"]]
        return Reply(lines=lines, data=told)

    def do_journal(self, request: Request) -> Reply:
        """What happened last."""
        count: Any = request.arguments.get("count", _FEW_HAPPENINGS)
        if not 1 <= count <= _MOST_HAPPENINGS:
            raise Refused("bad-argument", f"count: must be 1 to {_MOST_HAPPENINGS}", "count")
        kinds, devices = (request.arguments.get(name) or [] for name in ("kind", "devices"))
        found = find_happenings(self.factory.hub.fleet, kinds, devices, self.factory.node if devices else "", count)
        told = [each.fields() for each in found]
        return Reply(lines=[_happening(each) for each in told], data={"journal": told})


def _number(value: float | None) -> str:
    return "not shown" if value is None else f"{value:g}"


def _happening(fields: Mapping[str, Any]) -> str:
    cause = f" ({fields['cause']})" if fields["cause"] else ""
    return f"{fields['tick']} {fields['seconds']:g} {fields['kind']} {fields['scope']}: {fields['text']}{cause}"


def _line(described: Mapping[str, Any]) -> str:
    first = ("id", "kind", "state", "device-count", "active-devices")
    keys = (*first[2:], *(key for key in described if key not in first))
    rest = [f"{key}={shortened(shown_value(described[key]))}" for key in keys if described[key] is not None]
    return " ".join([described["id"], described["kind"], *rest])
