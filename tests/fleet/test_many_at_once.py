"""Thousands of workloads or faults that end together: one event, and notifications in several turns of the reactor."""

from __future__ import annotations

import json
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fakedev.base.steps import result_of
from fakedev.fleet.events import ClearFaults, DropWorkloads, Event, StopWorkloads
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.hub import MAX_VERDICTS_AT_ONCE, WorkloadHub
from fakedev.fleet.journal import JournalEntry
from fakedev.fleet.journal_files import MAX_ENTRIES_AT_ONCE, JournalFile
from fakedev.fleet.record import head_line, read_record
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.workloads.workload import Verdict
from fakedev.lines.json_lines import Notification
from fakedev.lines.outbox import MAX_BYTES
from fakedev.runtime.turns import FairShare
from tests.support.application import STANDING, application
from tests.support.calls import calls_in
from tests.support.fleet.fleets import make_fleet, start
from tests.support.fleet.records import without_checksums
from tests.support.wire.line_peers import TurnClock, connect_descriptor, make_factory

#: STANDING, with all rights on the port.
PORT = STANDING.replace("[workloads, clock]", "[workloads, clock, faults]")


def recorded(tmp_path: Path) -> list[Event]:
    return [stamped.event for stamped in read_record((tmp_path / "record").read_bytes())[1]]


class TestOneEvent:
    def test_stop_of_a_name(self, tmp_path: Path) -> None:
        with application(PORT, record=str(tmp_path / "record")) as app:
            peer, other = app.connect(), app.connect()
            ids = [peer.say("run x devices=a/0 profile=10")[0].split()[1] for _ in range(60)]
            other.say("advance 1s")
            assert other.say("stop x") == ["ok stopped 60"]
            assert other.say("stop x") == ["error unknown-name no workload 'x'"]
            assert recorded(tmp_path)[-1] == StopWorkloads(tuple(ids), "stopped")
            journal = app.connect().ask(op="journal", kind=["stop"])["journal"]
            assert [each["scope"] for each in journal] == [", ".join(ids[:50]) + " and 10 more"]
            other.say("advance 1s")
            assert peer.lines() == ["ended x 0 stopped"] * 60
            assert app.fleet.workloads.by_id == {}

    def test_a_peer_that_leaves(self, tmp_path: Path) -> None:
        with application(PORT, record=str(tmp_path / "record")) as app:
            peer, other = app.connect(), app.connect()
            ids = [peer.say("run x devices=a/0 profile=10")[0].split()[1] for _ in range(5)]
            other.say("run x devices=a/1 profile=10", "stop " + ids[0])
            peer.leave()
            assert recorded(tmp_path)[-1] == DropWorkloads(tuple(ids[1:]))
            other.say("advance 1s")
            assert [each["name"] for each in app.json("/api/v1/workloads")["workloads"]] == ["x"]

    def test_clear_all(self, tmp_path: Path) -> None:
        with application(PORT, record=str(tmp_path / "record")) as app:
            peer = app.connect()
            ids = [peer.say("fault hang devices=a/0")[0].split()[1] for _ in range(3)]
            assert peer.say("clear all") == ["ok cleared 3"]
            assert recorded(tmp_path)[-1] == ClearFaults(tuple(ids))
            refused = f"error unknown-name no fault {ids[0]!r}"
            assert peer.say("clear all", f"clear {ids[0]}") == ["ok cleared 0", refused]

    @pytest.mark.parametrize("verb", ["stop x", "leave", "clear all"])
    def test_the_turn_does_not_grow_with_their_number(self, verb: str) -> None:
        """Ten times as many need only a few calls more for each: no event, no record line, no write."""

        def cost(count: int) -> int:
            with application(PORT) as app:
                peer = app.connect()
                word = "fault hang devices=a/0" if verb == "clear all" else "run x devices=a/0 profile=10"
                peer.say(*[word] * count)
                peer.say("advance 1s")
                return calls_in(peer.leave if verb == "leave" else lambda: app.connect().say(verb))

        assert cost(500) - cost(50) <= 3 * 450

    @pytest.mark.parametrize("ids", [[], "w1", ["w1", "w1"], ["w1", 2]])
    def test_ids_of_a_record(self, ids: object) -> None:
        line = json.dumps({"tick": 0, "seq": 1, "event": "drop", "ids": ids}).encode() + b"\n"
        with pytest.raises(Exception, match="line 2: ids: "):
            read_record(without_checksums(head_line(RecordHead("0", 0.0))) + line)


class TestPods:
    def test_the_end_of_many(self) -> None:
        def cost(count: int) -> int:
            fleet = make_fleet()
            ids = tuple(start(fleet, pod=f"p{number}") for number in range(count))
            fleet.advance()
            workloads = fleet.workloads
            found = workloads.holds(result_of(workloads.rows_with(ids[:-1])))
            lookups = 0

            def note(_frame: object, what: str, called: object) -> None:
                nonlocal lookups
                lookups += what == "c_call" and called is next

            sys.setprofile(note)
            try:
                result_of(fleet.labels.attribution.remove(found))
            finally:
                sys.setprofile(None)
            assert fleet.labels.attribution.facts(0)["pod"] == f"p{count - 1}"
            return lookups

        assert cost(200) == cost(20)


class TestVerdicts:
    def setup_method(self) -> None:
        self.clock = TurnClock()
        self.hub = WorkloadHub(make_fleet(), FairShare(self.clock))
        self.told: list[str] = []

    def ended(self, count: int, first: int = 0) -> list[Verdict]:
        """Verdicts on workloads whose listener notes them."""
        verdicts = [Verdict(f"w{first + number}", "x", 0, "OK") for number in range(count)]

        def note(verdict: Verdict) -> None:
            self.told.append(verdict.workload_id)

        self.hub._listeners |= dict.fromkeys([verdict.workload_id for verdict in verdicts], note)
        return verdicts

    def test_few_at_once(self) -> None:
        self.hub.notify_listeners(self.ended(MAX_VERDICTS_AT_ONCE))
        assert len(self.told) == MAX_VERDICTS_AT_ONCE
        assert not self.hub.is_notifying
        assert self.clock.getDelayedCalls() == []

    def test_many_in_slices(self) -> None:
        """Between the slices others have their turns; the order stays, also with those of the next tick."""
        seen: list[int] = []
        told = self.told

        class Other:
            """A connection with a request in each turn of the reactor."""

            origin, waits_for_ticks = "", False

            def take_turn(self) -> bool:
                seen.append(len(told))
                return len(told) < 10_010

        self.hub.notify_listeners(self.ended(10_000))
        self.hub._fair_share.request_turn(Other())
        self.hub.notify_listeners(self.ended(10, first=10_000))
        while self.clock.getDelayedCalls():
            self.clock.turn()
        assert self.told == [f"w{number}" for number in range(10_010)]
        assert max(after - before for before, after in pairwise(seen)) <= 3 * MAX_VERDICTS_AT_ONCE

    @pytest.mark.slow
    def test_what_the_tick_left(self) -> None:
        """Thousands of workloads that ended are settled in slices, also when there are no verdicts to pass on."""
        fleet = self.hub.fleet
        ids = tuple([start(fleet) for _ in range(3000)])
        fleet.advance()
        fleet.apply(DropWorkloads(ids))
        self.hub.notify_listeners(fleet.advance())
        turns = 0
        while self.clock.getDelayedCalls():
            self.clock.turn()
            turns += 1
        assert turns >= 4
        assert fleet.is_settled and fleet.limits()["workload-devices"][0] == 0

    def test_a_listener_that_left(self) -> None:
        at_once = 2 * MAX_VERDICTS_AT_ONCE
        self.hub.notify_listeners(self.ended(at_once + 2))
        self.hub.drop([f"w{at_once}"])
        self.clock.advance(0)
        assert self.told[-2:] == [f"w{at_once - 1}", f"w{at_once + 1}"]

    @pytest.mark.slow
    def test_a_peer_that_reads_gets_all(self) -> None:
        """Of more notes than a connection may hold, none is lost: the peer reads between the slices."""
        peer, transport = connect_descriptor(make_factory(self.clock, fair_share=self.hub._fair_share), room=10_000)
        peer.dataReceived(b"list\n")
        verdicts = self.ended(20_000)
        notify = partial(peer.notify, Notification("ended x 0 OK, and so on for forty bytes", {}))
        self.hub._listeners = {verdict.workload_id: lambda _: notify() for verdict in verdicts}
        self.hub.notify_listeners(verdicts)
        while self.clock.getDelayedCalls() and not transport.aborted:
            self.clock.turn()
            transport.room = 20_000
            if transport.writing:
                transport.doWrite()
        assert not transport.aborted
        assert transport.taken.count(b"ended x") == 20_000
        assert len(transport.taken) > 2 * MAX_BYTES


class TestJournalLines:
    def setup_method(self) -> None:
        self.clock = TurnClock()

    def entries(self, count: int, tick: int = 1) -> list[JournalEntry]:
        return [JournalEntry(tick, 1.0, "ended", f"w{number}", "", "x: 0 OK") for number in range(count)]

    def scopes(self, *paths: Path) -> list[Any]:
        return [json.loads(line)["scope"] for path in paths for line in path.read_bytes().splitlines()]

    def test_slices(self, tmp_path: Path) -> None:
        path = tmp_path / "journal"
        journal = JournalFile(str(path), 10**9, 1, self.clock)
        entries = self.entries(3 * MAX_ENTRIES_AT_ONCE - 1)
        journal.write(entries)
        journal.write(self.entries(1, tick=2))
        sizes = []
        while self.clock.getDelayedCalls():
            sizes.append(len(self.scopes(path)))
            self.clock.turn()
        assert sizes == [0, MAX_ENTRIES_AT_ONCE, 2 * MAX_ENTRIES_AT_ONCE]
        assert self.scopes(path) == [entry.scope for entry in entries] + ["w0"]

    def test_the_end(self, tmp_path: Path) -> None:
        path = tmp_path / "journal"
        journal = JournalFile(str(path), 100_000, 9, self.clock)
        journal.write(self.entries(3000))
        journal.stopService()
        assert self.clock.getDelayedCalls() == []
        files = [path, *(tmp_path / f"journal.{number}" for number in range(1, 9))]
        there = [file for file in files if file.exists()][::-1]
        assert self.scopes(*there) == [f"w{number}" for number in range(3000)]
        assert all(90_000 < each.stat().st_size <= 100_000 for each in there[:-1])


def test_a_fleet_without_a_file_makes_only_entries_that_are_kept() -> None:
    fleet: Fleet = make_fleet()
    verdicts = [Verdict(f"w{number}", "x", 0, "OK") for number in range(30_000)]
    assert calls_in(lambda: fleet.journal.note_ends(1, 1.0, verdicts, {})) < 90_000
    assert fleet.journal.last(1)[0].scope == "w29999"
