"""The record of a run, line by line, and its replay to the same bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.base.errors import Refused
from fakedev.exporters.identity import FamilySpec, Identity, LabelSpec, NumberFormat, PageLayout, RowSpec
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.events import (
    ChangeClock,
    ClearFaults,
    DropWorkloads,
    Event,
    InjectFault,
    Reset,
    Stamped,
    StartWorkload,
    StopWorkloads,
    event_from_fields,
    event_to_fields,
)
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.record import Replay, event_line, head_line, read_record
from fakedev.fleet.spec.fault_kinds import fault_from_fields
from fakedev.fleet.spec.limits import RecordHead
from tests.fleet.faults.test_invariants import fault_fields
from tests.support.examples import examples
from tests.support.fleet.fleets import WorkloadSeries, advance, make_fleet, pool_of, start, stop, workload
from tests.support.fleet.records import without_checksums
from tests.support.fleet.workload_specs import workload_specs

HEAD = RecordHead("0.1", 1700000000.25, "/etc/f.yaml", None, {"/etc/f.yaml": "a: 1\n"}, {"HOME": "/root"}, ["x=1"])
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
IDS = st.lists(TEXTS, min_size=1, max_size=4, unique=True).map(tuple)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(StartWorkload, workload_specs()),
    st.builds(ChangeClock, NUMBERS, NUMBERS, TEXTS),
    st.builds(InjectFault, fault_fields().map(fault_from_fields)),
    st.builds(StopWorkloads, IDS, TEXTS),
    st.builds(DropWorkloads, IDS),
    st.builds(ClearFaults, IDS),
    st.builds(Reset, TEXTS),
)
WHOLE = st.integers(0, 2**53)


def fault(*lines: bytes | dict[str, object]) -> str:
    text = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    with pytest.raises(Refused) as caught:
        read_record(text)
    assert caught.value.code == "bad-argument"
    return caught.value.text


class TestLines:
    @given(WHOLE, WHOLE, EVENTS)
    def test_events_and_back(self, tick: int, sequence: int, event: Event) -> None:
        stamped = Stamped(tick, sequence, event)
        assert event_from_fields(event_to_fields(stamped)) == stamped
        assert event_from_fields(json.loads(event_line(stamped))) == stamped
        assert event_line(stamped).count(b"\n") == 1

    @given(
        st.builds(
            RecordHead, TEXTS, NUMBERS, st.none() | TEXTS, st.none() | TEXTS, st.dictionaries(TEXTS, TEXTS),
            st.dictionaries(TEXTS, TEXTS), st.lists(TEXTS),
        ),
        st.lists(EVENTS, max_size=5),
    )  # fmt: skip
    def test_records_and_back(self, head: RecordHead, events: list[Event]) -> None:
        stamped = [Stamped(place // 2, place + 1, event) for place, event in enumerate(events)]
        assert read_record(head_line(head) + b"".join(map(event_line, stamped))) == (head, stamped)

    def test_what_the_lines_look_like(self) -> None:
        text = without_checksums(head_line(HEAD))
        assert json.loads(text) == {
            "fakedev-record": 1,
            "version": "0.1",
            "epoch": 1700000000.25,
            "config": "/etc/f.yaml",
            "text": None,
            "files": {"/etc/f.yaml": "a: 1\n"},
            "environment": {"HOME": "/root"},
            "overrides": ["x=1"],
        }
        checksum = f"{crc32(text[:-1].replace(b':1', b':2', 1)):08x}"
        assert json.loads(head_line(HEAD)) == json.loads(text) | {"fakedev-record": 2, "crc32": checksum}
        assert [json.loads(without_checksums(event_line(Stamped(3, number, event)))) for number, event in enumerate([
            StartWorkload(workload("card0", "98:1:30", pod="p", ttl="1h")),
            StopWorkloads(("w1",)),
            DropWorkloads(("w1",)),
            ChangeClock(1700000000, 1.0, "start"),
            StopWorkloads(("w1", "w2"), "enough"),
        ])] == [
            {"tick": 3, "seq": 0, "event": "start", "workload": {
                "name": "work", "devices": ["card0"], "profile": "98:1:30", "repeat": 1, "pod": "p", "ttl": 3600}},
            {"tick": 3, "seq": 1, "event": "stop", "id": "w1", "reason": "stopped"},
            {"tick": 3, "seq": 2, "event": "drop", "id": "w1"},
            {"tick": 3, "seq": 3, "event": "clock", "wall": 1700000000, "wall-per-tick": 1, "reason": "start"},
            {"tick": 3, "seq": 4, "event": "stop", "ids": ["w1", "w2"], "reason": "enough"},
        ]  # fmt: skip


class TestFaults:
    head = json.loads(without_checksums(head_line(HEAD)))
    drop = json.loads(without_checksums(event_line(Stamped(3, 1, DropWorkloads(("w1",))))))

    def test_no_json(self) -> None:
        """Nothing, some other file, or a line that was cut off."""
        assert fault(b"") == "line 1: the record is empty"
        assert fault(b"version: 1").startswith("line 1: not JSON: ")
        assert fault(self.head, self.drop, b'{"tick": 3, "se').startswith("line 3: not JSON: ")
        assert fault(self.head, b"[]") == "line 2: not a JSON object"
        assert fault(b"\xff\xfe").startswith("line 1: not JSON: ")

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"fakedev-record": 3}, 'not a record of format 2: no "fakedev-record": 2'),
            ({"crc32": "00000000"}, "its checksum does not fit: restore it"),
            ({"files": []}, "files and environment must be objects, overrides a list"),
            ({"environment": None}, "files and environment must be objects, overrides a list"),
            ({"overrides": {}}, "files and environment must be objects, overrides a list"),
            ({"epoch": "now"}, "epoch must be a number"),
            ({"epoch": True}, "epoch must be a number"),
        ],
    )
    def test_a_head_of_another_shape(self, change: dict[str, object], text: str) -> None:
        assert fault(self.head | change) == f"line 1: {text}"

    def test_a_head_with_something_missing(self) -> None:
        for key in ("version", "epoch", "config", "text", "files", "environment", "overrides"):
            assert fault({name: value for name, value in self.head.items() if name != key}) == f"line 1: no '{key}'"

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"tick": -1}, "line 2: -1 is no tick or sequence number"),
            ({"seq": "1"}, "line 2: '1' is no tick or sequence number"),
            ({"seq": True}, "line 2: True is no tick or sequence number"),
            ({"tick": 1.5}, "line 2: 1.5 is no tick or sequence number"),
            ({"event": "explode"}, "line 2: unknown event 'explode'"),
            ({"event": "stop"}, "line 2: an event without 'reason'"),
            ({"event": "start"}, "line 2: an event without 'workload'"),
            ({"event": "start", "workload": 5}, "line 2: workload: must be an object"),
            ({"event": "start", "workload": {"name": "x"}}, "line 2: devices: must be a list of device words, as card0 "
                                                            "or dgx-[0-3]/*"),
            ({"event": "clock", "wall": "now", "wall-per-tick": 1}, "line 2: 'now' is no number"),
        ],
    )  # fmt: skip
    def test_an_event_of_another_shape(self, change: dict[str, object], text: str) -> None:
        assert fault(self.head, self.drop | change) == text

    @pytest.mark.parametrize("change", [{"tick": 2, "seq": 2}, {"seq": 1}, {"seq": 3}])
    def test_events_out_of_order(self, change: dict[str, int]) -> None:
        text = "line 3: tick or sequence number is out of order"
        assert fault(self.head, self.drop, self.drop | {"seq": 2} | change) == text

    @given(st.binary(max_size=40), st.binary(max_size=40))
    def test_any_bytes(self, first: bytes, second: bytes) -> None:
        for text in (first, head_line(HEAD) + second):
            try:
                read_record(text)
            except Refused as refusal:
                assert refusal.text.startswith("line ")


IDENTITY = Identity(
    "test",
    "",
    tuple(
        FamilySpec(name, "gauge", name, number, (RowSpec(name),))
        for name, number in (("power_watts", NumberFormat.PYTHON), ("energy_joules", NumberFormat.GO))
    ),
    (LabelSpec("uuid", "{uuid}"), LabelSpec("pod", "{pod}", optional=True)),
    timestamps=True,
)
#: What may happen in a tick of a session; numbers choose among the workloads that are there.
ACTS = st.one_of(
    st.tuples(
        st.just("start"),
        st.sampled_from(["all", "dgx-0/0", "dgx-1/odd"]),
        st.sampled_from(["50:50:0", "80:20:1.5,10:5:0.2", "30:10:2"]),
    ),
    st.tuples(st.sampled_from(["stop", "drop", "clock"]), st.integers(0, 20), st.just("")),
)


def act(fleet: Fleet, verb: str, what: object, profile: str) -> None:
    there = [*fleet.workloads.by_id, "w0"]
    try:
        if verb == "start":
            start(fleet, str(what), profile, repeat=0, pod=profile[:2], limits={"power": 240})
        elif verb == "clock":
            fleet.apply(ChangeClock(float(what), 0.5))  # type: ignore[arg-type]
        else:
            word = there[int(what) % len(there)]  # type: ignore[call-overload]
            fleet.apply(StopWorkloads((word,)) if verb == "stop" else DropWorkloads((word,)))
    except Refused:
        pass


class TestReplay:
    @settings(max_examples=examples(50))
    @given(st.lists(st.lists(ACTS, max_size=4), max_size=12), st.integers(0, 5), st.sampled_from(list(PageLayout)))
    def test_same_pages(self, ticks: list[list[tuple[str, object, str]]], seed: int, layout: PageLayout) -> None:
        identity = replace(IDENTITY, layout=layout)
        options = {"seed": seed, "tick_seconds": 0.7, "base": (workload("even", "20:10:3"),)}
        kept: list[bytes] = [head_line(HEAD)]
        fleet = make_fleet(pool_of(nodes=2), record=lambda stamped: kept.append(event_line(stamped)), **options)
        page, series = Page(LabelCache(identity, DeviceSource(fleet)), fleet.roster.nodes), WorkloadSeries(fleet)
        history = []
        for acts in ticks:
            history.append((page.render(fleet.state), series.render(), fleet.state.tick))
            for verb, what, profile in acts:
                act(fleet, verb, what, profile)
            history.append(fleet.advance())

        _, events = read_record(b"".join(kept))
        again, replay = make_fleet(pool_of(nodes=2), **options), Replay(events)
        told = [replay.advance(again) for _ in ticks]
        assert told == history[1::2]
        if not ticks:
            return
        last = Page(LabelCache(identity, DeviceSource(again)), again.roster.nodes).render(again.state)
        assert last == page.render(fleet.state)
        assert WorkloadSeries(again).render() == series.render()

        slowly, replay = make_fleet(pool_of(nodes=2), **options), Replay(events)
        page, series = Page(LabelCache(identity, DeviceSource(slowly)), slowly.roster.nodes), WorkloadSeries(slowly)
        for before in history[::2]:
            assert (page.render(slowly.state), series.render(), slowly.state.tick) == before
            replay.advance(slowly)

    def test_events_of_a_tick_are_applied_in_that_tick(self) -> None:
        """The journal of the replay is the record."""
        kept: list[Stamped] = []
        fleet = make_fleet(record=kept.append)
        for tick in range(6):
            if tick in (0, 2, 3):
                start(fleet, f"card{tick}")
            fleet.advance()
        stop(fleet, "w2")
        again: list[Stamped] = []
        other, replay = make_fleet(record=again.append), Replay(kept)
        for _ in range(6):
            replay.advance(other)
        assert again == kept[:3]
        replay.apply_due(other)
        assert again == kept

    @pytest.mark.parametrize(
        ("event", "ticks", "text"),
        [
            (Stamped(0, 1, StartWorkload(workload("dgx-7/0"))), 0, "event 1 {}: no node 'dgx-7'; did you mean dgx-0?"),
            (Stamped(0, 1, DropWorkloads(("base-gone",))), 0, "event 1 {}: no workload 'base-gone'"),
            (Stamped(0, 5, StartWorkload(workload())), 0, "event 5 {}"),
            (Stamped(0, 1, StartWorkload(workload())), 1, "event 1 {}"),
        ],
    )
    def test_a_record_of_another_fleet(self, event: Stamped, ticks: int, text: str) -> None:
        """It is refused, rather than run to another history; so is one of ticks that are over."""
        fleet = make_fleet()
        advance(fleet, ticks)
        with pytest.raises(Refused) as caught:
            Replay([event]).advance(fleet)
        assert caught.value.text == text.format("of the record does not fit this fleet")
