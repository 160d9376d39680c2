"""The workload port: requests in words, JSON lines and bare JSON become events of the fleet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from fakedev.net.fleet.describe import describe_clock
from fakedev.net.fleet.peer_advance import PeerAdvance
from fakedev.net.fleet.port_verbs import FleetVerbs
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.fleet.workloads import WorkloadHub
from fakedev.net.lines.peer import Peer
from fakedev.net.lines.server import LineServerFactory
from fakedev.sim.workloads.workload import Verdict
from fakedev.spec.errors import Refused
from fakedev.spec.workload_fields import workload_from_fields
from fakedev.wire.bare_workload import parse_bare_workload
from fakedev.wire.errors import ProtocolError
from fakedev.wire.fleet_verbs import WORKLOAD_GRAMMAR, workload_ended
from fakedev.wire.grammar import Request
from fakedev.wire.replies import Reply, bare_digit


class WorkloadSession:
    """One peer: the workloads that it starts live as long as it is connected."""

    __slots__ = ("_advance", "_peer", "_port", "_running")

    def __init__(self, port: WorkloadPortFactory, peer: Peer) -> None:
        self._port = port
        self._peer = peer
        #: In order of their start; those that have ended, and are not told yet, each with the call that will tell it.
        self._running: dict[str, IDelayedCall | None] = {}
        self._advance: PeerAdvance | None = None

    def request_received(self, request: Request) -> Reply | None:
        """Serve a verb by the method ``do_VERB``, here or among the verbs of the port."""
        name = f"do_{request.verb}"
        reply: Reply | None = (getattr(self, name, None) or getattr(self._port.verbs, name))(request)
        return reply

    def do_fault(self, request: Request) -> Reply:
        """Inject a fault, which stays when the peer leaves."""
        return self._port.verbs.inject(request, self._peer.host())

    def object_received(self, message: bytes) -> None:
        """Start the workload of a client of the original, which gets one digit when that ends."""
        if self._running:
            raise ProtocolError("bad-argument", "a connection of the original carries one workload", fatal=True)
        workload = parse_bare_workload(message)
        self._peer.log_notes(workload.notes)
        self._start(workload.arguments, self._send_digit)

    def encode_bare_error(self, error: ProtocolError) -> bytes:
        """The digit of a workload that failed."""
        return bare_digit(1)

    def is_working(self) -> bool:
        """Whether a workload of the peer runs."""
        return bool(self._running)

    def quit_received(self) -> None:
        """Nothing: workloads end with the connection in any case."""

    def peer_left(self) -> None:
        """End the workloads of the peer, and its advance of the clock."""
        if self._advance is not None:
            self._advance.peer_left()
        self._port.hub.drop([workload_id for workload_id, call in self._running.items() if call is None])
        for call in self._running.values():
            if call is not None:
                call.cancel()
        self._running.clear()

    def do_run(self, request: Request) -> Reply:
        """Start a workload."""
        fields = dict(request.arguments)
        if fields.pop("detach", False):
            workload_id = self._port.start(fields, None, self._peer.host())
        else:
            workload_id = self._start(fields, self._notify)
        return Reply(workload_id, data={"workload": workload_id})

    def _start(self, fields: Mapping[str, object], tell: Callable[[Verdict], None]) -> str:
        ticker = self._port.ticker
        began = self._port.clock.seconds(), self._port.hub.fleet.state.tick, ticker.advances
        workload_id = self._port.start(fields, partial(self._ended, *began, tell), self)
        self._port.hub.note_pid(workload_id, self._peer.pid())
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
        ticker = self._port.ticker
        ran_seconds = (self._port.hub.fleet.state.tick - tick) * ticker.seconds_per_tick
        wait = seconds + ran_seconds - self._port.clock.seconds()
        is_advanced = ticker.advances != advances or ticker.advancing is not None
        # A workload that failed has nothing to wait for.
        if verdict.code or is_advanced or not 1e-6 < wait < ticker.seconds_per_tick:
            tell(verdict)
        else:
            self._running[verdict.workload_id] = self._port.clock.callLater(wait, tell, verdict)

    def _notify(self, verdict: Verdict) -> None:
        self._running.pop(verdict.workload_id, None)
        self._peer.notify(workload_ended(verdict.workload_id, verdict.name, verdict.code, verdict.text))

    def _send_digit(self, verdict: Verdict) -> None:
        self._running.pop(verdict.workload_id, None)
        self._peer.answer_bare(bare_digit(verdict.code))

    def do_advance(self, request: Request) -> None:
        """Move the clock, or stop an advance; the answer follows when it has got there."""
        self._port.check_allowed("clock", "move the clock")
        if self._advance is None:
            self._advance = PeerAdvance(self._port.hub.fleet, self._port.ticker, self._peer)
        self._advance.request_received(request)

    def do_speed(self, request: Request) -> Reply:
        """Change the speed of the clock."""
        self._port.check_allowed("clock", "move the clock")
        self._port.ticker.set_speed(float(cast("float", request.arguments["speed"])))
        clock = describe_clock(self._port.hub.fleet, self._port.ticker)
        return Reply(f"speed {clock['speed']:g}", data=clock)


class WorkloadPortFactory(LineServerFactory):
    """Serves one workload port.

    :param allow: what its peers may do: ``workloads``, ``faults``, ``clock``.
    :param node: the node that device words without one name; empty for none.
    """

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
        super().__init__(WORKLOAD_GRAMMAR, partial(WorkloadSession, self), clock, **options)
        self.hub = hub
        self.ticker = ticker
        self.allow = allow
        self.node = node
        self.verbs = FleetVerbs(hub, node, self.check_allowed)

    def start(
        self, fields: Mapping[str, object], listener: Callable[[Verdict], None] | None, peer: object
    ) -> str:  # fmt: skip
        """Start the workload that the fields describe; return its id.

        On a port of one node it runs there, unless the fields name another node of the fleet: the host that a peer
        runs on has another name than the simulated node.

        :param peer: whose limits it counts for.
        :raises Refused: when it cannot run, or may not.
        """
        self.check_allowed("workloads", "start or stop workloads")
        spec = workload_from_fields({name: value for name, value in fields.items() if value is not None})
        if spec.faults:
            self.check_allowed("faults", "run what brings faults")
        if self.node and self.hub.fleet.roster.node(spec.node) is None:
            spec = replace(spec, node=self.node)
        return self.hub.start(spec, listener, peer)

    def check_allowed(self, what: str, doing: str) -> None:
        """Do nothing when the port may do it.

        :raises Refused: when the configuration does not allow it on this port.
        """
        if what not in self.allow:
            raise Refused("bad-argument", f"this port may not {doing}: its allow: does not name {what}")
