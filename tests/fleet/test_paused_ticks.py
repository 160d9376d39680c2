"""Ticks that pause: whatever arrives meanwhile sees what it would have seen after the tick, or the state before it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from fakedev.base.steps import Steps
from fakedev.fleet.events import ClearFaults, DropWorkloads, Event, InjectFault, Stamped, StartWorkload, StopWorkloads
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.journal import JournalEntry
from fakedev.fleet.port import WorkloadPortFactory
from fakedev.fleet.spec.fault_kinds import fault_from_fields
from fakedev.fleet.ticker import Ticker
from fakedev.fleet.workloads.workload import Verdict
from tests.support.application import BEGIN, AppReactor, LineClient, MemoryApplication, application
from tests.support.fleet.fleets import make_fleet, pool_of, workload
from tests.support.logged_errors import LoggedErrors
from tests.support.wire.http_wire import answers

#: A fleet and queues, with all rights on the port of the workloads.
SERVICE = """
version: 1
fleet:
  seed: 7
  epoch: 1800000000
  pools: [{name: p, nodes: [a, b], device: h100, devices-per-node: 2, identity: dcgm}]
web: ["127.0.0.1:9400"]
workloads: {listen: [{listen: "127.0.0.1:9500", allow: [workloads, clock, faults]}]}
queues: {names: [q], listen-clients: ["127.0.0.1:9600"]}
"""


class Told:
    """A fleet with all that it has reported: events, the journal, verdicts."""

    def __init__(self) -> None:
        self.events: list[Stamped] = []
        self.entries: list[JournalEntry] = []
        self.verdicts: list[Verdict] = []
        self.fleet = make_fleet(pool_of(nodes=2), record=self.events.append, epoch_seconds=BEGIN)
        self.fleet.journal.tell = self.entries.extend

    def all(self) -> tuple[object, ...]:
        """All of it, and the state: to the byte."""
        fleet = self.fleet
        arrays = [level.arrays for level in fleet.state.levels.values()]
        levels = [(name, array[name].tobytes()) for array in arrays for name in array]
        facts = [fleet.labels.facts(node) for node in fleet.roster.nodes]
        return self.events, self.entries, self.verdicts, levels, facts, fleet.limits(), fleet.past.ends()


def drawn_event(draw: random.Random, fleet: Fleet) -> Event:
    """An event that is possible in a fleet."""
    ids = list(fleet.intake.not_ending(list(fleet.workloads.by_id)))
    faults = [each.fault_id for each in fleet.faults.standing()]
    device = f"dgx-{draw.randrange(2)}/{draw.randrange(4)}"
    choice = draw.randrange(6)
    if choice == 0 and ids:
        return StopWorkloads((draw.choice(ids),), "stopped")
    if choice == 1 and ids:
        return DropWorkloads(tuple(draw.sample(ids, min(len(ids), 2))))
    if choice == 2 and faults:
        return ClearFaults((draw.choice(faults),))
    if choice == 3:
        return InjectFault(fault_from_fields({"kind": "lost", "devices": [device], "duration": "2s"}))
    pod = {"pod": f"p{draw.randrange(9)}"} if draw.randrange(2) else {}
    return StartWorkload(workload(device, f"40:10:{draw.randrange(1, 4)}", **pod))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_an_event_after_any_step(seed: int) -> None:
    """An event that comes while a tick is paused is one that comes after the tick, to the byte."""
    draw = random.Random(seed)
    paused, whole = Told(), Told()
    clock = AppReactor()
    ticker = Ticker(paused.fleet, 0.0, clock, paused.verdicts.extend)
    ticker.startService()
    clock_of_whole = AppReactor()
    other = Ticker(whole.fleet, 0.0, clock_of_whole, whole.verdicts.extend)
    other.startService()
    pause_after_each_step(paused.fleet, clock, seconds=0.006)
    seen = set()
    for number in range(60):
        ticker.advance(1.0)
        steps = 0
        while steps < number and paused.fleet.is_paused:
            clock.turn()
            steps += 1
        seen.add(steps)
        other.advance(1.0)
        event = drawn_event(draw, whole.fleet)
        assert paused.fleet.apply(event).sequence == whole.fleet.apply(event).sequence
        assert not paused.fleet.is_paused
        while ticker.advancing:
            clock.turn()
        clock_of_whole.rightNow = clock.rightNow
    assert len(seen) > 25
    assert paused.all() == whole.all()


def pause_after_each_step(fleet: Fleet, reactor: AppReactor, seconds: float = 0.006) -> None:
    """Let each step of a tick take so long that the tick pauses after it."""
    tick = fleet.tick

    def slow() -> Steps[list[Verdict]]:
        steps = tick()
        while True:
            try:
                next(steps)
            except StopIteration as done:
                verdicts: list[Verdict] = done.value
                return verdicts
            reactor.rightNow += seconds
            yield

    fleet.tick = slow  # type: ignore[method-assign]


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    with application(SERVICE) as running:
        pause_after_each_step(running.fleet, running.reactor)
        yield running


def begin_tick(app: MemoryApplication) -> None:
    """Let the next tick begin, and pause."""
    while not app.fleet.is_paused:
        app.reactor.rightNow += 0.1
        app.reactor.turn()


def end_tick(app: MemoryApplication) -> None:
    while app.fleet.is_paused:
        app.reactor.turn()
    app.reactor.turn()


def sent_to(peer: LineClient) -> bytes:
    """What a peer got, without letting time pass."""
    sent: bytes = peer.transport.value()  # type: ignore[no-untyped-call]
    return sent


class TestMeanwhile:
    def test_health_and_queues_are_served(self, app: MemoryApplication) -> None:
        client = app.client()
        begin_tick(app)
        assert app.get("/health").status == 200
        client.protocol.dataReceived(b"put q x\n")
        assert sent_to(client) == b"ok 1\n"
        assert app.fleet.is_paused

    def test_requests_on_the_fleet_wait_in_their_order(self, app: MemoryApplication) -> None:
        peer = app.connect()
        begin_tick(app)
        peer.protocol.dataReceived(b"run x devices=a/0 profile=1\n")
        web = app.http()
        assert web.send(b"GET /api/v1/clock HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
        peer.protocol.dataReceived(b"list\n")
        app.reactor.turn()
        assert sent_to(peer) == b""
        assert app.fleet.is_paused
        end_tick(app)
        web.read()
        (answer,) = answers(web.transport.value())
        assert json.loads(answer.body)["tick"] == 1
        assert peer.lines()[0].startswith("ok ")

    def test_the_end_of_a_connection(self, app: MemoryApplication) -> None:
        peer = app.connect()
        peer.say("run x devices=a/0 profile=1")
        begin_tick(app)
        end_tick(app)
        begin_tick(app)
        peer.transport.lost()
        assert app.fleet.is_paused
        end_tick(app)
        assert [app.fleet.intake.is_ending(each) for each in app.fleet.workloads.by_id] == [True]

    def test_an_advance(self, app: MemoryApplication) -> None:
        """It begins when the tick has ended."""
        ticker = app.factories(WorkloadPortFactory)[0].ticker
        begin_tick(app)
        reached: list[int] = []
        ticker.advance(2.0).addCallback(reached.append)
        while ticker.advancing:
            app.reactor.turn()
        assert reached == [3]

    def test_others_are_served_during_an_advance(self, app: MemoryApplication) -> None:
        """Each tick pauses, and what waits for its end is served before the next one begins."""
        ticker = app.factories(WorkloadPortFactory)[0].ticker
        viewer = app.http()
        viewer.send(b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        begin_tick(app)
        ticker.advance(1000.0)
        for _ in range(3):
            begun = ticker.ticks
            web, peer = app.http(), app.connect()
            web.send(b"GET /api/v1/clock HTTP/1.1\r\nHost: localhost\r\n\r\n")
            peer.protocol.dataReceived(b"list\n")
            frames = viewer.transport.value().count(b'"advance":[')
            while ticker.ticks < begun + 20:
                app.reactor.turn()
                viewer.read()
            web.read()
            (answer,) = answers(web.transport.value())
            assert begun <= json.loads(answer.body)["tick"] <= begun + 3
            assert sent_to(peer) == b"ok 0 lines\n"
            assert viewer.transport.value().count(b'"advance":[') > frames
        assert ticker.stop_advance()

    def test_the_end_of_the_service(self, app: MemoryApplication) -> None:
        """The tick is completed, and all is told of it."""
        begin_tick(app)
        fleet, ticker = app.fleet, app.factories(WorkloadPortFactory)[0].ticker
        app.stop()
        assert (fleet.is_paused, fleet.state.tick, ticker.ticks) == (False, 1, 1)

    def test_a_slow_tick_is_no_trouble(self, app: MemoryApplication) -> None:
        """The next tick becomes due while this one is paused: it follows it."""
        begin_tick(app)
        app.reactor.rightNow += 1.5
        end_tick(app)
        assert 2.5 < app.reactor.rightNow - BEGIN < 3.0
        assert app.fleet.state.tick == 1
        app.reactor.rightNow = BEGIN + 3.1
        for _ in range(200):
            app.reactor.turn()
        assert app.fleet.state.tick == 3

    def test_a_step_that_fails(self, app: MemoryApplication, logged_errors: LoggedErrors) -> None:
        """Whoever uses the fleet gets its state as it is; the tick is tried again."""

        def failing() -> Steps[list[Verdict]]:
            app.reactor.rightNow += 0.006
            yield
            raise RuntimeError("an internal error")

        tick, app.fleet.tick = app.fleet.tick, failing  # type: ignore[method-assign]
        begin_tick(app)
        assert app.fleet.state.tick == 0
        app.fleet.tick = tick  # type: ignore[method-assign]
        app.reactor.turn()
        assert app.get("/health").status == 503
        app.tick()
        end_tick(app)
        assert app.get("/health").status == 200
        assert len(logged_errors.take(RuntimeError)) == 1
