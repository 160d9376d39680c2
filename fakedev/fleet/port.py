"""The workload port: requests in words, JSON lines and bare JSON become events of the fleet.

Its verbs about the whole fleet concern workloads, devices, faults, explanations and the journal. A peer may wait for
an advance of the clock: the port sends its progress and its end, and takes requests to stop it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from fakedev.base.errors import Refused
from fakedev.base.steps import Steps
from fakedev.base.units import parse_duration
from fakedev.fleet import answers
from fakedev.fleet.describe import describe_clock, describe_entry, describe_workload, find_entries, workload_describer
from fakedev.fleet.entities.selectors import resolve
from fakedev.fleet.hub import FaultHub, WorkloadHub, describe_explanations, describe_fault, describe_link_explanations
from fakedev.fleet.past import EndedWorkload, PastFault
from fakedev.fleet.spec.workload_fields import workload_steps
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.fleet.ticker import Advance, Ticker
from fakedev.fleet.verbs import WORKLOAD_GRAMMAR, bare_workload_steps, clock_advancing, workload_ended
from fakedev.fleet.workloads.workload import Verdict
from fakedev.lines.grammar import ProtocolError, Request
from fakedev.lines.json_lines import Reply, bare_digit
from fakedev.lines.protocol import Answering, PortProtocol
from fakedev.lines.server import LineServerFactory
from fakedev.lines.tokens import TokenGate

_STOP: Final = "stop"
#: Workloads, devices or faults in one answer; a last line says how many more there are.
MAX_LINES: Final = 1000
#: Lines that are made in one step: each takes some hundredths of a millisecond.
_LINES_AT_ONCE: Final = 50
Item = TypeVar("Item")


class WorkloadProtocol(PortProtocol):
    """A connection to a workload port: the workloads that it starts live as long as the peer is connected.

    Its verbs are in ``WORKLOAD_GRAMMAR`` and doc/protocol-workload.txt. A bare object is the workload of a client of
    the original, which gets one digit when that ends.
    """

    grammar = WORKLOAD_GRAMMAR
    factory: WorkloadPortFactory
    _advance: PeerAdvance | None = None

    def __init__(self, factory: WorkloadPortFactory, gate: TokenGate) -> None:
        super().__init__(factory, gate)
        #: In the order of their start; ended ones whose end is not sent yet have the call that will send it.
        self._running: dict[str, IDelayedCall | None] = {}

    def object_received(self, message: bytes) -> Answering:
        if self._running:
            raise ProtocolError("bad-argument", "a connection of the original carries one workload", fatal=True)
        workload = yield from bare_workload_steps(message)
        self.log_notes(workload.notes)
        yield from self._start(workload.arguments, self._send_digit)
        return None

    def encode_bare_error(self, error: ProtocolError) -> bytes:
        return bare_digit(1)

    def is_working(self) -> bool:
        return bool(self._running)

    def peer_left(self) -> None:
        """End the workloads of the peer, and its advance of the clock."""
        if self._advance is not None:
            self._advance.peer_left()
            self._advance = None
        self.factory.hub.drop([workload_id for workload_id, call in self._running.items() if call is None])
        for call in self._running.values():
            if call is not None:
                call.cancel()
        self._running.clear()

    # Workloads

    def do_run(self, request: Request) -> Answering:
        """Start a workload."""
        fields = dict(request.arguments)
        if fields.pop("detach", False):
            workload = yield from self.factory.workload(fields)
            workload_id = self.factory.hub.start(workload, peer=self.host())
        else:
            workload_id = yield from self._start(fields, self._notify_end)
        return Reply(workload_id, data={"workload": workload_id})

    def _start(self, fields: Mapping[str, object], tell: Callable[[Verdict], None]) -> Steps[str]:
        workload, ticker = (yield from self.factory.workload(fields)), self.factory.ticker
        began = self.factory.clock.seconds(), self.factory.fleet.state.tick, ticker.advances
        workload_id = self.factory.hub.start(workload, partial(self._ended, *began, tell), self)
        self.factory.hub.note_pid(workload_id, self.pid())
        self._running[workload_id] = None
        return workload_id

    def _ended(
        self, seconds: float, tick: int, advances: int, tell: Callable[[Verdict], None], verdict: Verdict
    ) -> None:  # fmt: skip
        """A workload has ended, by the tick; its peer is not told before it has run for as long by the clock.

        A workload that was accepted between two ticks begins and ends with a tick: up to a tick too early for peers
        that measure its time.

        :param seconds, tick, advances: the time when it was accepted, and the ticker's number of advances then.
        """
        ticker = self.factory.ticker
        ran_seconds = (self.factory.fleet.state.tick - tick) * ticker.seconds_per_tick
        wait = seconds + ran_seconds - self.factory.clock.seconds()
        is_advanced = ticker.advances != advances or ticker.advancing is not None
        # A workload that failed has nothing to wait for.
        if verdict.code or is_advanced or not 1e-6 < wait < ticker.seconds_per_tick:
            tell(verdict)
        else:
            self._running[verdict.workload_id] = self.factory.clock.callLater(wait, tell, verdict)

    def _notify_end(self, verdict: Verdict) -> None:
        self._running.pop(verdict.workload_id, None)
        self.notify(workload_ended(verdict.workload_id, verdict.name, verdict.code, verdict.text))

    def _send_digit(self, verdict: Verdict) -> None:
        self._running.pop(verdict.workload_id, None)
        self.answer_bare(bare_digit(verdict.code))

    def do_stop(self, request: Request) -> Reply:
        """Stop a workload, or all of a name."""
        self.factory.check_allowed("workloads", "start or stop workloads")
        stopped = self.factory.hub.stop(str(request.arguments["workload"]))
        return Reply(f"stopped {len(stopped)}", data={"stopped": stopped})

    def do_reset(self, _: Request) -> Reply:
        """Let the fleet begin again."""
        self.factory.check_allowed("workloads", "start or stop workloads")
        self.factory.check_allowed("faults", "inject or clear faults")
        tick = self.factory.hub.reset()
        return Reply(f"tick {tick}", data={"tick": tick})

    def do_list(self, _: Request) -> Answering:
        """A line for each workload."""
        workloads = list(self.factory.fleet.workloads.by_id.values())
        describe = workload_describer(self.factory.fleet, workloads[:MAX_LINES])
        return _listed("workloads", workloads, describe, answers.workload_line)

    def do_show(self, request: Request) -> Reply:
        """All about one workload, a line for each field."""
        word = str(request.arguments["workload"])
        fleet = self.factory.fleet
        ended = None if fleet.workloads.find(word) else fleet.past.end(word)
        described = describe_workload(fleet, word) if ended is None else ended.fields()
        return Reply(lines=answers.field_lines(described), data={"workload": described})

    def do_devices(self, request: Request) -> Answering:
        """A line for each device."""
        roster, level = self.factory.fleet.roster, self.factory.fleet.state.levels["unit"]
        given = request.arguments.get("devices") or ["all"]
        devices = [str(word) for word in given] if isinstance(given, list | tuple) else [str(given)]

        def describe(position: int) -> dict[str, Any]:
            node = roster.nodes[roster.node_position(position)]
            device: dict[str, Any] = {"device": roster.unit_name(position), "type": node.pool.device_type.name}
            for quantity in answers.DEVICE_QUANTITIES:
                if level.has(quantity, position):
                    device[quantity] = round(level.arrays[quantity][position].item(), 6)
            return device

        positions = resolve(devices, roster, self.factory.node).tolist()
        return _listed("devices", positions, describe, answers.device_line)

    def do_fault(self, request: Request) -> Reply:
        """Inject a fault, which stays when the peer leaves."""
        self.factory.check_allowed("faults", "inject or clear faults")
        fault_id = self.factory.faults.inject(request.arguments, self.factory.node, self.host())
        return Reply(fault_id, data={"fault": fault_id})

    def do_clear(self, request: Request) -> Reply:
        """Clear a fault, or all."""
        self.factory.check_allowed("faults", "inject or clear faults")
        cleared = self.factory.faults.clear(str(request.arguments["fault"]))
        return Reply(f"cleared {len(cleared)}", data={"cleared": cleared})

    def do_faults(self, _: Request) -> Answering:
        """A line for each fault."""
        fleet = self.factory.fleet
        return _listed("faults", fleet.faults.standing(), partial(describe_fault, fleet), answers.fault_line)

    def do_ended(self, _: Request) -> Answering:
        """A line for each of the last workloads that ended."""
        return _listed("ended", self.factory.fleet.past.ends(), EndedWorkload.fields, answers.ended_line)

    def do_past_faults(self, _: Request) -> Answering:
        """A line for each of the last faults that are over."""
        return _listed("past-faults", self.factory.fleet.past.faults(), PastFault.fields, answers.past_fault_line)

    def do_explain(self, request: Request) -> Reply:
        """Why the metrics of a device or a link have their values."""
        from fakedev.fleet.explanation import link_word  # noqa: PLC0415 - as in describe_explanations

        word = str(request.arguments["device"])
        link = link_word(word)
        found = resolve([link[0] if link else word], self.factory.fleet.roster, self.factory.node).tolist()
        if len(found) != 1:
            raise Refused("bad-argument", f"device: {word!r} names {len(found)} devices: give one", "device")
        metric = str(request.arguments.get("metric") or "")
        if link:
            described = describe_link_explanations(self.factory.fleet, found[0], link[1], metric)
        else:
            described = describe_explanations(self.factory.fleet, found[0], metric)
        lines = [answers.explanation_line(row) for row in described["explanations"]]
        return Reply(lines=lines, data=described)

    def do_journal(self, request: Request) -> Reply:
        """The latest lines of the journal."""
        since, fleet = str(request.arguments.get("since") or ""), self.factory.fleet
        count = cast("int", request.arguments.get("count", answers.default_entries(since)))
        if not 1 <= count <= answers.MAX_ENTRIES:
            raise Refused("bad-argument", f"count: must be 1 to {answers.MAX_ENTRIES}", "count")
        kinds, devices = (cast("Sequence[str]", request.arguments.get(name) or []) for name in ("kind", "devices"))
        found = find_entries(fleet, kinds, devices, self.factory.node if devices else "", count, since)
        described = [describe_entry(fleet, entry) for entry in found]
        return Reply(lines=[answers.journal_line(row) for row in described], data={"journal": described})


    def do_advance(self, request: Request) -> None:
        """Move the clock, or stop an advance; the answer follows when the clock is there."""
        self.factory.check_allowed("clock", "move the clock")
        if self._advance is None:
            self._advance = PeerAdvance(self)
        self._advance.request_received(request)

    def do_speed(self, request: Request) -> Reply:
        """Change the speed of the clock."""
        self.factory.check_allowed("clock", "move the clock")
        self.factory.ticker.set_speed(float(cast("float", request.arguments["speed"])))
        clock = describe_clock(self.factory.fleet, self.factory.ticker)
        return Reply(f"speed {clock['speed']:g}", data=clock)


class PeerAdvance:
    """Serves the verb ``advance`` for one peer."""

    def __init__(self, protocol: WorkloadProtocol) -> None:
        self._fleet = protocol.factory.fleet
        self._ticker = protocol.factory.ticker
        self._protocol = protocol
        #: The advance that is in progress, with its request, its target, and the peer's own requests to stop it, which
        #: are answered after it.
        self._moving: Deferred[int] | None = None
        self._request: Request | None = None
        self._target = 0
        self._stops: list[Request] = []

    def request_received(self, request: Request) -> None:
        """Begin an advance, or stop any; the answer follows, perhaps during this call.

        :raises ProtocolError: for a duration that is none.
        """
        duration = request.arguments["duration"]
        if duration == _STOP:
            self._stop(request)
            return
        try:
            seconds = float(duration) if isinstance(duration, int | float) else parse_duration(str(duration))
        except ValueError as error:
            raise ProtocolError("bad-argument", f"duration: {error}") from None
        moving = self._ticker.advance(seconds, self._report)
        advance = self._ticker.advancing
        if not moving.called and advance is not None:
            self._moving, self._request, self._target = moving, request, advance.target
            self._protocol.cannot_wait = _is_stop
        moving.addCallbacks(partial(self._arrived, request), partial(self._failed, request))

    def peer_left(self) -> None:
        """Stop the advance of the peer, if one is in progress."""
        if self._moving is not None:
            self._moving.cancel()

    def _stop(self, request: Request) -> None:
        is_stopped = self._ticker.stop_advance()
        if self._moving is not None:
            self._stops.append(request)
        else:
            text = "stopped" if is_stopped else "nothing to stop"
            self._protocol.reply(request, self._reply(text, text=text))

    def _report(self, advance: Advance) -> None:
        tick = self._fleet.state.tick
        self._protocol.notify(clock_advancing(advance.percent_at(tick), tick, advance.target))

    def _arrived(self, request: Request, tick: int) -> None:
        reply = self._reply(f"tick {tick} seconds {self._fleet.state.seconds:g}")
        if request is self._request and tick < self._target:
            reply.text += f" stopped before tick {self._target}"
            reply.data = {**(reply.data or {}), "stopped-before-tick": self._target}
        self._end(request, reply)

    def _failed(self, request: Request, failure: Failure) -> None:
        if failure.check(CancelledError):
            return  # the peer has left
        refused = failure.value
        if not isinstance(refused, Refused):
            failure.raiseException()
        self._end(request, ProtocolError(refused.code, refused.text))

    def _end(self, request: Request, answer: Reply | ProtocolError) -> None:
        stops: list[Request] = []
        if request is self._request:  # not a second one, which was refused
            stops, self._stops = self._stops, []
            self._moving = self._request = self._protocol.cannot_wait = None
        self._protocol.reply(request, answer)
        for stop in stops:
            self._protocol.reply(stop, self._reply("stopped", text="stopped"))

    def _reply(self, text: str, /, **further: str) -> Reply:
        return Reply(text, data={**further, **describe_clock(self._fleet, self._ticker)})


def _is_stop(request: Request) -> bool:
    return request.verb == "advance" and request.arguments["duration"] == _STOP


class WorkloadPortFactory(LineServerFactory):
    """Serves one workload port.

    :param allow: what its peers may do: ``workloads``, ``faults``, ``clock``.
    :param node: the node that device words without one name; empty for none.
    """

    protocol = WorkloadProtocol
    waits_for_ticks = True

    def __init__(
        self,
        hub: WorkloadHub,
        ticker: Ticker,
        clock: IReactorTime,
        *,
        allow: frozenset[str],
        node: str = "",
        **options: Any,
    ) -> None:
        super().__init__(clock, **options)
        self.hub = hub
        self.fleet = hub.fleet
        self.faults = FaultHub(hub.fleet)
        self.ticker = ticker
        self.allow = allow
        self.node = node

    def workload(self, fields: Mapping[str, object]) -> Steps[WorkloadSpec]:
        """The workload that the fields describe.

        On a port of one node it runs there, unless the fields name another node of the fleet: the host that a peer
        runs on has another name than the simulated node.

        :raises Refused: when a field is wrong, or it may not run.
        """
        self.check_allowed("workloads", "start or stop workloads")
        spec = yield from workload_steps({name: value for name, value in fields.items() if value is not None})
        if spec.faults:
            self.check_allowed("faults", "run what brings faults")
        if self.node and self.fleet.roster.node(spec.node) is None:
            spec = replace(spec, node=self.node)
        return spec

    def check_allowed(self, what: str, doing: str) -> None:
        """Do nothing when the port may do it.

        :raises Refused: when the configuration does not allow it on this port.
        """
        if what not in self.allow:
            raise Refused("bad-argument", f"this port may not {doing}: its allow: does not name {what}")


def _listed(
    key: str, items: Sequence[Item], describe: Callable[[Item], dict[str, Any]], line: Callable[[dict[str, Any]], str]
) -> Answering:
    """The steps to a list of at most MAX_LINES items, as they are now."""
    described: list[dict[str, Any]] = []
    lines: list[str] = []
    for place, item in enumerate(items[:MAX_LINES]):
        described.append(describe(item))
        lines.append(line(described[-1]))
        if not place % _LINES_AT_ONCE:
            yield
    if len(lines) < len(items):
        lines.append(f"... and {len(items) - len(lines)} more")
    return Reply(lines=lines, data={key: described, "total": len(items)})
