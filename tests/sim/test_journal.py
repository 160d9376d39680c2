"""The last things that happened: found by kind and by device, also after a reload, and never too many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.sim.entities.reindex import FleetReindex
from fakedev.sim.entities.roster import Roster
from fakedev.sim.journal import Recent
from tests.sim.faults.test_exporters import BUSY, inject_by_api
from tests.support.application import MemoryApplication, application
from tests.support.fleets import pool_of


@dataclass(frozen=True)
class Entry:
    """An entry that knows what it concerns."""

    kind: str
    devices: frozenset[int]
    size: int = 0

    def brief(self) -> Entry:
        """The same without what is large."""
        return replace(self, size=0)


ENTRIES = st.lists(st.builds(Entry, st.sampled_from("abc"), st.frozensets(st.integers(0, 9), max_size=4)), max_size=20)


def kept(entries: list[Entry], most: int = 100, max_devices: int = 1000, max_size: int = 1000) -> Recent:
    """What remembers these entries: the older ones came one by one, the others together."""
    recent: Recent = Recent(most, max_devices, max_size)
    half = len(entries) // 2
    for some in [[entry] for entry in entries[:half]] + [entries[half:]] * bool(entries):
        recent.add(some, [np.array(sorted(entry.devices), dtype=np.int64) for entry in some])
    return recent


def mask(devices: frozenset[int]) -> np.ndarray:
    """These of ten devices."""
    return np.isin(np.arange(10), list(devices))


class TestRecent:
    """Beside a plain search."""

    @given(ENTRIES, st.sets(st.sampled_from("abc")), st.none() | st.frozensets(st.integers(0, 9)), st.integers(0, 9))
    def test_found(self, entries: list[Entry], kinds: set[str], on: frozenset[int] | None, count: int) -> None:
        """What is of these kinds and concerns one of these devices, the last of it, oldest first."""
        found = [
            each for each in entries if (not kinds or each.kind in kinds) and (on is None or each.devices & on)
        ]
        assert kept(entries).last(count, kinds, None if on is None else mask(on)) == (found[-count:] if count else [])

    @given(ENTRIES, st.integers(1, 8), st.integers(1, 12))
    def test_bounds(self, entries: list[Entry], most: int, max_devices: int) -> None:
        """The newest are kept; where they concern too many devices, older ones are not found by these."""
        recent = kept(entries, most, max_devices)
        newest = entries[-most:]
        assert recent.last(100) == newest
        while sum(len(each.devices) for each in newest) > max_devices:
            newest = newest[1:]
        assert recent.last(100, on=mask(frozenset(range(10)))) == [each for each in newest if each.devices]

    @given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 12), st.integers(1, 30))
    def test_what_is_large_is_forgotten(self, sizes: list[int], most: int, max_size: int) -> None:
        """All entries together have no more than they may; those that have forgotten are older than all others."""
        entries = [Entry("a", frozenset(), size) for size in sizes]
        recent = kept(entries, most, max_size=max_size)
        told = recent.last(100)
        assert sum(each.size for each in told) <= max_size
        newest = entries[-most:]
        begin = next((place for place, (one, other) in enumerate(zip(told, newest, strict=True)) if one.size), most)
        assert told[begin:] == newest[begin:]
        if sum(each.size for each in newest) * 2 <= max_size:
            assert len(sizes) > most or told == newest

    @given(ENTRIES, st.frozensets(st.integers(0, 8), max_size=4))
    def test_devices_that_move(self, entries: list[Entry], later: frozenset[int]) -> None:
        """Entries follow their devices to new places, and forget those that are gone; more come after that."""
        old = Roster((pool_of("x", nodes=5, devices_per_node=2),))
        new = Roster((pool_of("w", nodes=1, devices_per_node=3), pool_of("x", nodes=3, devices_per_node=2)))
        recent = kept(entries)
        recent.reindex(FleetReindex(old, new))
        newest = Entry("d", later)
        recent.add([newest], [np.array(sorted(later), dtype=np.int64)])
        for place in range(9):
            found = [each for each in entries if place - 3 in each.devices] + [newest] * (place in later)
            assert recent.last(100, on=np.arange(9) == place) == found
        assert recent.last(100) == [*entries, newest]


class TestJournalQuery:
    """By the API and on the port."""

    @pytest.fixture
    def app(self) -> Iterator[MemoryApplication]:
        """Two busy nodes of two devices, with a fault on each."""
        with application(BUSY) as running:
            inject_by_api(running, kind="lost", devices=["a/0"])
            inject_by_api(running, kind="xid", code=13, devices=["b/1"])
            yield running

    @pytest.mark.parametrize(
        ("query", "kinds"),
        [
            ("kind=lost,xid", ["xid", "xid", "lost"]),
            ("kind=lost&kind=xid", ["xid", "xid", "lost"]),
            ("kind=reload", []),
            ("devices=b/1&kind=ended,xid", ["xid", "ended"]),
            ("devices=a/0,b/1&kind=began", ["began", "began"]),
            ("node=a", ["ended", "xid", "lost", "began", "fault"]),
            ("node=a&devices=card1", ["ended"]),
            ("kind=lost,xid&limit=1", ["xid"]),
        ],
    )
    def test_what_is_found(self, app: MemoryApplication, query: str, kinds: list[str]) -> None:
        """Newest first; the base workload was ended on all of its devices."""
        told = app.json(f"/api/v1/journal?{query}")
        assert [each["kind"] for each in told["journal"]] == kinds

    @pytest.mark.parametrize(
        ("query", "where", "text"),
        [
            ("kind=xids", "kind", "nothing of the kind 'xids' happens; did you mean xid?"),
            ("node=c", "node", "no node 'c'"),
            ("devices=a/9", "devices", "no device '9'"),
        ],
    )
    def test_what_is_refused(self, app: MemoryApplication, query: str, where: str, text: str) -> None:
        """With the place and the reason."""
        answer = app.ask("GET", f"/api/v1/journal?{query}")
        assert (answer.status, where in str(answer.body), text in answer.body.decode()) == (400, True, True)

    def test_words_and_json(self, app: MemoryApplication) -> None:
        """The same on the workload port."""
        peer = app.connect()
        assert [line.split()[2] for line in peer.say("journal 5 kind=began devices=a/*")[1:]] == ["began"]
        told = app.connect().ask(op="journal", kind=["xid"], devices=["b/1"])
        assert [each["scope"] for each in told["journal"]] == ["b/1"]
        (refused,) = app.connect().say("journal kind=soup")
        assert refused.startswith("error unknown-name nothing of the kind 'soup' happens")
