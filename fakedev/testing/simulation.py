"""A fleet in the test's own process: no sockets, no other process."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from twisted.internet.task import Clock as ReactorClock
from zope.interface import implementer

from fakedev.base.errors import Refused
from fakedev.client import Clock, NoAnswer, RequestRefused, Samples
from fakedev.client.calls import Duration, by_protocol, id_of, seconds_of, wait_until
from fakedev.client.http import Description
from fakedev.client.page_samples import read_samples
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource, HeldStates, by_identity
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.describe import (
    describe_entry,
    describe_limits,
    describe_state,
    describe_workloads,
    device_describer,
    find_entries,
)
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.entities.selectors import no_node, resolve
from fakedev.fleet.events import ChangeClock, Reload, Stamped
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.hub import ALL, FaultHub, WorkloadHub, describe_explanations, describe_fault
from fakedev.fleet.record import event_line, head_line
from fakedev.fleet.spec.workload_fields import workload_from_fields
from fakedev.runtime.turns import FairShare
from fakedev.scenario.run import Setup
from fakedev.scenario.start import setups_of
from fakedev.scenario.timeline import IRunControl, Player
from fakedev.testing.order import Order, Reading, journal_lines, read_order, run_again
from fakedev.web.response import as_http_error

T = TypeVar("T")
_JOURNAL_ENTRIES: Final = 50


@implementer(IRunControl)
class Simulation:
    """A simulated fleet with the methods of a client, for tests that need no address.

    The methods raise RequestRefused where a service would refuse the request. Pages equal a service's, without
    delays; one that the service would not answer raises NoAnswer.

    :param order: what is simulated.
    :param folder: for the record, if :meth:`report` is called.
    :ivar fleet: the fleet itself; its arrays are read as ``fleet.power_watts``. Only :meth:`advance` moves it.
    :raises ConfigurationError: when the configuration or the scenario cannot be used.
    """

    def __init__(self, order: Order, folder: Path) -> None:
        self.order = order
        self._record_file = folder / "record.jsonl"
        reading = read_order(order)
        self._setups, scenario = _setups(reading), reading.scenario
        self._record: list[bytes] = [head_line(self._setups[0].source)]
        self.fleet = Fleet(self._setups[0].fleet, self._note, 0.0)
        self._workloads = WorkloadHub(self.fleet, FairShare(ReactorClock()), "the scenario" if scenario else "")
        self._faults = FaultHub(self.fleet)
        self._player = Player(self.fleet, scenario.scenario.occurrences, self) if scenario else None
        self._held = HeldStates(lambda: self.fleet.shown)
        self._pages: dict[str, list[tuple[Page[RosterNode], float]]] = {}
        self._made_for: CompiledFleet | None = None
        self._pages_of("")

    # -- work and faults ---------------------------------------------------------------------------

    def run(self, name: str, devices: str | Sequence[str], **fields: object) -> Description:
        """Start a workload; see fakedev.client.Fleet.run."""
        with _refusals():
            spec = workload_from_fields(by_protocol(fields) | {"name": name, "devices": devices})
            return self.workload(self._workloads.start(spec))

    def stop(self, workload: str | Description) -> list[str]:
        """Stop a workload, or all of a name; their ids."""
        with _refusals():
            return list(self._workloads.stop(id_of(workload)))

    def workloads(self) -> list[Description]:
        """The workloads, oldest first."""
        return describe_workloads(self.fleet, list(self.fleet.workloads.by_id.values()))

    def workload(self, workload: str | Description) -> Description:
        """One workload, by its id or name."""
        word = id_of(workload)
        with _refusals():
            found = self.fleet.workloads.find(word)
            if not found:
                raise self.fleet.workloads.unknown(word)
            return describe_workloads(self.fleet, [self.fleet.workloads.by_id[found[0]]])[0]

    def fault(self, kind: str, devices: str | Sequence[str], **fields: object) -> Description:
        """Inject a fault; see fakedev.client.Fleet.fault."""
        with _refusals():
            fault_id = self._faults.inject(by_protocol(fields) | {"kind": kind, "devices": devices})
            return describe_fault(self.fleet, self.fleet.faults.find(fault_id))

    def clear(self, fault: str | Description | None = None) -> list[str]:
        """Clear a fault, or all; their ids."""
        with _refusals():
            if fault is None:
                return self._faults.clear(ALL)
            return self._faults.clear(self.fleet.faults.find(id_of(fault)).fault_id)

    def faults(self) -> list[Description]:
        """The waiting and active faults, oldest first."""
        return [describe_fault(self.fleet, fault) for fault in self.fleet.faults.standing()]

    def reset(self) -> int:
        """Let the fleet begin again; see fakedev.client.Fleet.reset."""
        with _refusals():
            return self._workloads.reset()

    # -- the clock ---------------------------------------------------------------------------------

    def clock(self) -> Clock:
        """The simulated clock; its speed is 0."""
        state = self.fleet.state
        return Clock(state.tick, state.seconds, self.fleet.spec.tick_seconds, 0.0, state.wall_seconds)

    def advance(self, duration: Duration) -> Clock:
        """Advance the clock; a part of a tick counts as a whole one."""
        seconds = seconds_of(duration)
        ticks = math.ceil(round(seconds / self.fleet.spec.tick_seconds, 9))
        if ticks < 1:
            raise RequestRefused(f"{seconds:g} seconds are {ticks} ticks: give at least 1 tick", 400, "bad-argument")
        # As a service does: so ids, which have the numbers of events, are the same.
        self.fleet.apply(ChangeClock(self.fleet.state.wall_seconds, 0.0, f"advance by {ticks} ticks"))
        for _ in range(ticks):
            if self._player is not None:
                self._player.apply_due()
            self.fleet.advance()
            if self.fleet.compiled is not self._made_for:
                self._pages_of("")
            self._held.keep()
        return self.clock()

    def wait_until(self, predicate: Callable[[], T], advance: Duration = "1s", at_most: Duration = "5m") -> T:
        """Advance the clock until a condition is true; see fakedev.client.Fleet.wait_until."""
        return wait_until(predicate, self.advance, advance, at_most)

    # -- pages and descriptions --------------------------------------------------------------------

    def page(self, node: str = "") -> str:
        """The page of metrics of the fleet, or of a node.

        :raises NoAnswer: when a fault closes the connection.
        """
        with _refusals():
            pages = self._pages_of(node)
        names = [node] if node else [shown_node.name for shown_node in self.fleet.roster.shown]
        page_faults = self.fleet.page_faults.of(frozenset(names))
        if page_faults is not None and page_faults.is_closed:
            raise NoAnswer("the node is down")
        if page_faults is not None and page_faults.status:
            raise RequestRefused("the exporter has failed", page_faults.status)
        content = b"".join(page.render(self._held.every(hold_seconds)()) for page, hold_seconds in pages)
        if page_faults is not None and page_faults.share < 1:
            content = content[: int(len(content) * page_faults.share)]
        return content.decode("utf-8", "replace")

    def scrape(self, node: str = "") -> Samples:
        """The samples of :meth:`page`."""
        return read_samples(self.page(node))

    def devices(self, node: str = "") -> list[Description]:
        """The devices with all their quantities, of the fleet or of a node."""
        with _refusals():
            return self._described(self._positions("all", node))

    def device(self, name: str) -> Description:
        """One device with its health, its workloads, and why it shows what it shows."""
        with _refusals():
            (position,) = self._positions(name)
            described = self._described([position])[0]
            state = {**describe_state(self.fleet, position), "limits": describe_limits(self.fleet, position)}
            return {**described, **state, "explained": self.explain(name)}

    def explain(self, name: str) -> list[Description]:
        """Why the most important values of a device are what they are."""
        with _refusals():
            (position,) = self._positions(name)
            explained: list[Description] = describe_explanations(self.fleet, position)["explanations"]
            return explained

    def journal(
        self, kind: str = "", devices: str = "", node: str = "", limit: int | None = None, since: str = ""
    ) -> list[Description]:
        """What happened, and why; the newest first. See fakedev.client.Fleet.journal."""
        kinds, words = ([word for word in text.split(",") if word] for text in (kind, devices))
        with _refusals():
            found = find_entries(self.fleet, kinds, words, node, since=since)[::-1][:limit]
            return [describe_entry(self.fleet, entry) for entry in found]

    def report(self) -> list[tuple[str, str]]:
        """What helps after a test has failed, with titles; the record is written for it."""
        self._record_file.write_bytes(b"".join(self._record))
        path = str(self._record_file)
        return [
            ("configuration", str(self.order)),
            ("journal", journal_lines(self.journal(limit=_JOURNAL_ENTRIES))),
            ("record", f"{path}\nRun it again: {run_again(path, self.fleet.state.seconds)}"),
        ]

    def close(self) -> None:
        """End: there is nothing to stop."""

    # -- what a scenario changes (called by its player) ---------------------------------------------

    def reconfigure(self, number: int) -> None:
        """Use a configuration of the scenario from the next tick on."""
        setup = self._setups[number]
        self.fleet.apply(Reload(CompiledFleet(setup.fleet), setup.source))

    def set_speed(self, speed: float) -> None:
        """Ignore the speed: the clock is moved by :meth:`advance` alone."""

    # ----------------------------------------------------------------------------------------------

    def _note(self, stamped: Stamped) -> None:
        self._record.append(event_line(stamped))

    def _positions(self, word: str, node: str = "") -> list[int]:
        found: list[int] = resolve([word], self.fleet.roster, node).tolist()
        return [device for device in found if device < self.fleet.roster.device_count]

    def _described(self, positions: Sequence[int]) -> list[Description]:
        return list(map(device_describer(self.fleet, positions), positions))

    def _pages_of(self, node: str) -> list[tuple[Page[RosterNode], float]]:
        """The pages of a node or, without a name, of all; each with how long its exporter holds a state."""
        fleet = self.fleet
        if fleet.compiled is not self._made_for:
            self._made_for = fleet.compiled
            self._pages = {}
            self._held.renew()
        if node not in self._pages:
            chosen = fleet.roster.node(node) if node else None
            if node and chosen is None:
                raise no_node(node, fleet.roster, "node")
            nodes = fleet.roster.shown if chosen is None else [chosen]
            source = fleet.source or self._setups[0].source
            identities = next(setup.identities for setup in self._setups if setup.source is source)
            self._pages[node] = [
                (Page(LabelCache(identity, DeviceSource.of(fleet, identity)), group), identity.hold_seconds)
                for identity, group in by_identity(nodes, identities)
            ]
            for _, hold_seconds in self._pages[node]:
                self._held.every(hold_seconds)
        return self._pages[node]


@contextmanager
def _refusals() -> Generator[None]:
    """Refusals as a client has them."""
    try:
        yield
    except Refused as refused:
        status = as_http_error(refused).status
        raise RequestRefused(refused.text, status, refused.code, refused.where) from None


def _setups(reading: Reading) -> list[Setup]:
    """The configurations of an order, in the form of a scenario's; the first one holds at the start."""
    epoch = reading.head.epoch_seconds
    if reading.scenario is not None:
        return setups_of(reading.scenario, epoch)
    fleet = replace(reading.configuration.fleet, epoch_seconds=epoch)
    return [Setup(fleet, reading.configuration.identities, reading.head)]
