"""The workload port: what peers ask in words, JSON lines and bare JSON becomes events of the fleet.

The verbs of the workload port about faults, and about why things are as they are.

Values as answers in words show them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from twisted.logger import Logger
from twisted.python.failure import Failure

from fakedev.net.fleet.describe import describe_clock, describe_workloads
from fakedev.net.fleet.faults import FaultHub, describe_explanations, describe_fault, describe_link_explanations
from fakedev.net.fleet.journal import find_happenings
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.lines.server import LinePeer, LinePeerFactory
from fakedev.sim.entities.selectors import resolve
from fakedev.sim.explanation import link_word
from fakedev.sim.workloads.workload import Verdict
from fakedev.spec.errors import Refused
from fakedev.spec.units import parse_duration
from fakedev.spec.workload_fields import workload_from_fields
from fakedev.wire.bare_workload import parse_bare_workload
from fakedev.wire.errors import ProtocolError
from fakedev.wire.fleet_verbs import WORKLOAD_GRAMMAR, workload_ended
from fakedev.wire.grammar import Request
from fakedev.wire.replies import Reply, bare_digit, printable
from fakedev.wire.words import quote_word

#: Characters of one value in a line of many.
LONGEST_SHOWN = 400


def shown_value(value: object) -> str:
    """A value as one word."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, dict):
        return ",".join(f"{key}:{shown_value(each)}" for key, each in value.items())
    return quote_word(str(value)) if isinstance(value, str) else str(value)


def shortened(text: str) -> str:
    """A text of a line of many, cut where it is long."""
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."


def cut(lines: list[str], total: int) -> list[str]:
    """The lines, and how many more there would be."""
    return lines if len(lines) == total else [*lines, f"... and {total - len(lines)} more"]

#: Faults of one answer: what is beyond is said to be there.
_MAX_FAULTS = 1000
#: Lines of the journal in one answer: when nobody says how many, and at most.
_FEW_HAPPENINGS = 20
_MAX_HAPPENINGS = 1000


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
        described = [describe_fault(fleet, each) for each in every[:_MAX_FAULTS]]
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
        if not 1 <= count <= _MAX_HAPPENINGS:
            raise Refused("bad-argument", f"count: must be 1 to {_MAX_HAPPENINGS}", "count")
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

#: Lines of one longer answer: what `devices` and `list` say of a large fleet is cut there, and says so.
MAX_LINES = 1000
#: What `devices` says of each.
_DEVICE_QUANTITIES = (
    "usage_ratio", "power_watts", "temperature_celsius", "core_frequency_mhz", "memory_used_bytes",
)  # fmt: skip


class WorkloadPeer(FaultVerbs, LinePeer):
    """A peer of the workload port; the workloads it starts live as long as it stays."""

    log = Logger()
    factory: WorkloadPortFactory

    def __init__(self) -> None:
        super().__init__()
        self._running: set[str] = set()

    def requestReceived(self, request: Request) -> Reply | None:
        """Do what a request in words or JSON lines asks."""
        act: Callable[[Request], Reply | None] = getattr(self, f"do_{request.verb}")
        return act(request)

    def bareReceived(self, message: bytes) -> None:
        """Start the workload of a client of the original; it is told one digit when that ends."""
        if self._running:
            raise ProtocolError("bad-argument", "a connection of the original carries one workload", fatal=True)
        described = parse_bare_workload(message)
        for note in described.notes:
            self.log.info("{peer}: {note}", peer=self.describe(), note=printable(note))
        self._start(described.arguments(), self._tell_bare)

    def peerLeft(self) -> None:
        """The workloads of the peer go with it."""
        for workload_id in sorted(self._running):
            self.factory.hub.drop(workload_id)
        self._running.clear()

    def is_working(self) -> bool:
        """Whether a workload of the peer runs."""
        return bool(self._running)

    # -- the verbs ---------------------------------------------------------------------------------

    def do_run(self, request: Request) -> Reply:
        """Start a workload."""
        fields = dict(request.arguments)
        if fields.pop("detach", False):
            workload_id = self.factory.start(fields, None)
        else:
            workload_id = self._start(fields, self._tell)
        return Reply(workload_id, data={"workload": workload_id})

    def do_stop(self, request: Request) -> Reply:
        """Stop a workload, or all of a name."""
        self.factory.check_allowed("workloads", "start or stop workloads")
        stopped = self.factory.hub.stop(str(request.arguments["workload"]))
        return Reply(f"stopped {len(stopped)}", data={"stopped": stopped})

    def do_list(self, request: Request) -> Reply:
        """A line for each workload."""
        fleet = self.factory.hub.fleet
        every = list(fleet.workloads.by_id.values())
        shown = describe_workloads(fleet, every[:MAX_LINES])
        lines = [_workload_line(each) for each in shown]
        return Reply(lines=cut(lines, len(every)), data={"workloads": shown, "total": len(every)})

    def do_show(self, request: Request) -> Reply:
        """All about one workload, a line for each thing known."""
        described = self._found(str(request.arguments["workload"]))
        lines = [f"{key}: {shown_value(value)}" for key, value in described.items() if value is not None]
        return Reply(lines=lines, data={"workload": described})

    def do_devices(self, request: Request) -> Reply:
        """A line for each device."""
        fleet = self.factory.hub.fleet
        words = request.arguments.get("devices") or ["all"]
        places = resolve([str(word) for word in _as_list(words)], fleet.roster, self.factory.node).tolist()
        level = fleet.state.levels["unit"]
        shown = []
        for place in places[:MAX_LINES]:
            node = fleet.roster.nodes[fleet.roster.node_position(place)]
            device: dict[str, Any] = {"device": fleet.roster.unit_name(place), "type": node.pool.device_type.name}
            for quantity in _DEVICE_QUANTITIES:
                if level.has(quantity, place):
                    device[quantity] = round(level.arrays[quantity][place].item(), 6)
            shown.append(device)
        told = [{key: shown_value(value) for key, value in each.items()} for each in shown]
        lines = [" ".join([each.pop("device"), *(f"{k}={v}" for k, v in each.items())]) for each in told]
        return Reply(lines=cut(lines, len(places)), data={"devices": shown, "total": len(places)})

    def do_advance(self, request: Request) -> None:
        """Move the clock on; answered when it has got there."""
        self.factory.check_allowed("clock", "move the clock")
        duration = request.arguments["duration"]
        try:
            seconds = float(duration) if isinstance(duration, int | float) else parse_duration(str(duration))
        except ValueError as error:
            raise ProtocolError("bad-argument", f"duration: {error}") from None
        done = self.factory.ticker.advance(seconds)
        done.addCallbacks(partial(self._advanced, request), partial(self._not_advanced, request))

    # -- what follows ------------------------------------------------------------------------------

    def _start(self, fields: Mapping[str, object], tell: Callable[[Verdict], None]) -> str:
        workload_id = self.factory.start(fields, tell)
        self._running.add(workload_id)
        return workload_id

    def _tell(self, verdict: Verdict) -> None:
        self._running.discard(verdict.workload_id)
        self.tell(workload_ended(verdict.workload_id, verdict.name, verdict.code, verdict.text))

    def _tell_bare(self, verdict: Verdict) -> None:
        self._running.discard(verdict.workload_id)
        self.answer_bare(bare_digit(verdict.code))

    def _found(self, word: str) -> dict[str, Any]:
        fleet = self.factory.hub.fleet
        found = fleet.workloads.find(word)
        if not found:
            raise Refused("unknown-name", f"no workload {word!r}", "workload")
        return describe_workloads(fleet, [fleet.workloads.by_id[found[0]]])[0]

    def _advanced(self, request: Request, tick: int) -> None:
        clock = describe_clock(self.factory.hub.fleet, self.factory.ticker.speed)
        self.reply(request, Reply(f"tick {tick} seconds {clock['seconds']:g}", data=clock))

    def _not_advanced(self, request: Request, failure: Failure) -> None:
        failure.trap(Refused)
        refusal: Any = failure.value
        self.reply(request, ProtocolError(refusal.code, refusal.text))


class WorkloadPortFactory(LinePeerFactory):
    """The peers of one workload port.

    :param allow: what they may do: ``workloads``, ``faults``, ``clock``.
    :param node: the node that their bare device words speak of; empty for none.
    """

    protocol = WorkloadPeer

    def __init__(
        self, hub: WorkloadHub, ticker: Ticker, clock: Any, *, allow: frozenset[str], node: str = "", **limits: Any
    ) -> None:
        super().__init__(WORKLOAD_GRAMMAR, clock, **limits)
        self.hub = hub
        self.faults = FaultHub(hub.fleet)
        self.ticker = ticker
        self.allow = allow
        self.node = node

    def start(self, fields: Mapping[str, object], tell: Callable[[Verdict], None] | None) -> str:
        """Start the workload that the fields describe.

        On a port of one node that is the node, unless they name another of the fleet: the host that a
        peer runs on has a name of its own.
        """
        self.check_allowed("workloads", "start or stop workloads")
        spec = workload_from_fields({name: value for name, value in fields.items() if value is not None})
        if spec.faults:
            self.check_allowed("faults", "run what brings faults")
        if self.node and self.hub.fleet.roster.node(spec.node) is None:
            spec = replace(spec, node=self.node)
        return self.hub.start(spec, tell)

    def check_allowed(self, what: str, doing: str) -> None:
        """Nothing, when the port may do it.

        :raises Refused: when the configuration does not allow it here.
        """
        if what not in self.allow:
            raise Refused("bad-argument", f"this port may not {doing}: its allow: does not name {what}")


def _workload_line(described: Mapping[str, Any]) -> str:
    keys = ("state", "device-count", "load-percent", "run-seconds", "remaining-seconds", "profile", "metrics", "repeat",
            "pod")  # fmt: skip
    shown = {key: shown_value(described[key]) for key in keys if described.get(key) is not None}
    parts = [f"{key}={shortened(text)}" for key, text in shown.items()]
    return " ".join([described["id"], quote_word(described["name"]), *parts])


def _as_list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]
