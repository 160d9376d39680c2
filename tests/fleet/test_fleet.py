"""The fleet: what an event changes, when, and what a tick shows. Read it beside doc/simulation.md."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.base.errors import Refused
from fakedev.fleet.describe import device_describer, workload_describer
from fakedev.fleet.events import ChangeClock, DropWorkloads, Event, Stamped, StopWorkloads
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.limits import Limits
from tests.support.fleet.faulty_fleets import busy
from tests.support.fleet.fleets import advance, ended, labels_of, loads, make_fleet, start, stop, workload


def refusal(fleet: Fleet, *arguments: str, **fields: object) -> tuple[str, str, str]:
    """Code, text and field of what a start is answered."""
    with pytest.raises(Refused) as caught:
        start(fleet, *arguments, **fields)
    return caught.value.code, caught.value.text, caught.value.where


def arrays(fleet: Fleet) -> dict[str, np.ndarray]:
    return dict(fleet.state.levels["device"].arrays)


class TestEvents:
    """An event that arrives during tick n takes effect in tick n + 1."""

    def test_a_workload_begins_with_the_next_tick(self) -> None:
        kept: list[Stamped] = []
        fleet = make_fleet(record=kept.append)
        advance(fleet, 3)
        before = fleet.state
        start(fleet)
        assert (fleet.state is before, fleet.intake.starting_count, loads(fleet)) == (True, 1, [0, 0, 0, 0])
        fleet.advance()
        assert (fleet.intake.starting_count, loads(fleet)) == (0, [50, 0, 0, 0])
        assert [(stamped.tick, stamped.sequence) for stamped in kept] == [(3, 1)]

    def test_a_stopped_workload_leaves_with_the_next_tick(self) -> None:
        fleet = make_fleet()
        workload_id = start(fleet)
        fleet.advance()
        stop(fleet, workload_id)
        assert fleet.intake.is_ending(workload_id)
        assert loads(fleet) == [50, 0, 0, 0]
        assert ended(fleet) == [(2, workload_id, 0, "stopped")]
        assert loads(fleet) == [0, 0, 0, 0]
        assert not fleet.workloads.by_id

    @pytest.mark.parametrize(
        ("profile", "ticks", "events", "verdicts"),
        [
            ("50", 1, [DropWorkloads(("w1",))], []),
            ("50", 0, [DropWorkloads(("w1",))], []),
            ("50", 0, [StopWorkloads(("w1",))], [(1, "w1", 0, "stopped")]),
            ("50", 1, [StopWorkloads(("w1",)), DropWorkloads(("w1",))], [(2, "w1", 0, "stopped")]),
            ("50:0:2", 1, [StopWorkloads(("w1",))], [(2, "w1", 0, "stopped")]),
        ],
        ids=["dropped", "dropped before it ran", "stopped before it ran", "stopped and dropped", "stopped at its end"],
    )
    def test_ends(
        self, profile: str, ticks: int, events: list[Event], verdicts: list[tuple[int, str, int, str]]
    ) -> None:
        """A stopped one has one verdict, a dropped one none; one that never ran is never visible."""
        fleet, other = make_fleet(), make_fleet()
        start(fleet, profile=profile, pod="p")
        advance(fleet, ticks)
        for event in events:
            fleet.apply(event)
        assert ended(fleet, 3) == verdicts
        assert (loads(fleet), fleet.intake.starting_count, fleet.workloads.by_id) == ([0, 0, 0, 0], 0, {})
        if not ticks:
            advance(other, 3)
            assert all(np.array_equal(value, getattr(other, name)) for name, value in arrays(fleet).items())

    def test_order_of_arrival(self) -> None:
        fleet = make_fleet()
        ids = [start(fleet, f"card{n}") for n in range(4)]
        fleet.advance()
        for workload_id in (ids[2], ids[0], ids[3]):
            stop(fleet, workload_id)
        assert [verdict[1] for verdict in ended(fleet)] == [ids[2], ids[0], ids[3]]

    def test_names_and_ids(self) -> None:
        """A name finds all workloads that have it, oldest first; an id finds one, and is never used again."""
        fleet = make_fleet()
        fleet.apply(DropWorkloads((start(fleet),)))
        ids = [start(fleet, name="same"), start(fleet, name="other"), start(fleet, name="same")]
        assert ids == ["w3", "w4", "w5"]
        assert [fleet.workloads.find(each) for each in ("same", "w4", "none")] == [["w3", "w5"], ["w4"], []]


#: What there is instead of a metric that nothing resembles.
METRICS = "; there are frequency, memory, power, usage, pcie_tx and 38 more"


class TestRefused:
    @pytest.mark.parametrize(
        ("fields", "answer"),
        [
            ({"devices": "card9"}, ("unknown-name", "no device 'card9'; did you mean card3?", "devices")),
            ({"node": "dgx-9"}, ("unknown-name", "no node 'dgx-9'; did you mean dgx-0?", "node")),
            (
                {"limits": {"powr": 1}},
                ("unknown-name", "no metric 'powr' to limit; did you mean power?", "limits"),
            ),
            ({"limits": {"colour": 1}}, ("unknown-name", f"no metric 'colour' to limit{METRICS}", "limits")),
            # The fleet has no such sensor: it must not be offered.
            ({"limits": {"temperature": 1}}, ("unknown-name", f"no metric 'temperature' to limit{METRICS}", "limits")),
        ],
    )
    def test_a_start_that_is_refused(self, fields: dict[str, object], answer: tuple[str, str, str]) -> None:
        kept: list[Stamped] = []
        fleet = make_fleet(record=kept.append)
        assert refusal(fleet, **({"devices": "card0"} | fields)) == answer
        assert (kept, fleet.intake.starting_count, fleet.workloads.by_id) == ([], 0, {})
        assert fleet.workloads.find("work") == []
        assert start(fleet) == "w1"

    def test_stop_and_drop_of_what_is_not_there(self) -> None:
        kept: list[Stamped] = []
        fleet = make_fleet(record=kept.append)
        workload_id = start(fleet, profile="50:0:1")
        fleet.advance()
        for event in (StopWorkloads((workload_id,)), DropWorkloads((workload_id,)), StopWorkloads(("w77",))):
            with pytest.raises(Refused, match=r"^no workload 'w"):
                fleet.apply(event)
        again = start(fleet)
        fleet.advance()
        stop(fleet, again)
        with pytest.raises(Refused, match=f"^workload '{again}' is stopped already$"):
            stop(fleet, again)
        assert [stamped.sequence for stamped in kept] == [1, 2, 3]


class TestLoad:
    def test_activities_inside_one_tick(self) -> None:
        """40 % for a quarter of a second, then 80 %; a workload of 1.5 s fills half of its second tick, its last."""
        fleet = make_fleet()
        start(fleet, profile="40:0:0.25,80:0:0")
        short = start(fleet, "card1", profile="80:0:1.5")
        assert (ended(fleet), loads(fleet)[:2]) == ([], [70, 80])
        assert (ended(fleet), loads(fleet)[:2]) == ([(2, short, 0, "OK")], [80, 40])
        assert (ended(fleet), loads(fleet)[:2]) == ([], [80, 0])

    def test_several_workloads_add_up(self) -> None:
        """Up to 100 %: what is too much is not made up for later."""
        fleet = make_fleet()
        for devices, load in (("card0,card1", 30), ("card1,card2", 25)):
            start(fleet, devices, f"{load}:0:0")
        first = start(fleet, "card3", profile="80:0:0")
        start(fleet, "card3", profile="70:0:0")
        fleet.advance()
        assert loads(fleet) == [30, 55, 25, 100]
        stop(fleet, first)
        fleet.advance()
        assert loads(fleet)[3] == 70

    def test_repeat_and_for_ever(self) -> None:
        """Two rounds of a second each end after two ticks, none ends with 0 for ever."""
        fleet = make_fleet()
        workload_id = start(fleet, profile="50:0:0.4,10:0:0.6", repeat=2)
        start(fleet, profile="50:0:0.4,10:0:0.6", repeat=0)
        assert ended(fleet, 50) == [(2, workload_id, 0, "OK")]

    def test_an_end_between_two_ticks_belongs_to_the_first(self) -> None:
        """10 times 0.1 s are over after exactly one tick, though no float is 0.1."""
        for tick in (1.0, 0.1, 0.5):
            fleet = make_fleet(tick_seconds=tick)
            start(fleet, profile="80:0:0.1", repeat=10)
            assert [verdict[0] for verdict in ended(fleet, 12)] == [round(1 / tick)]
        fleet = make_fleet(tick_seconds=0.1)
        start(fleet, profile="80:0:0.1,70:0:0.1,60:0:0.1", repeat=10)
        assert [verdict[0] for verdict in ended(fleet, 35)] == [30]

    def test_load_of_each_workload(self) -> None:
        """Own series show what each puts on, without its noise."""
        fleet = make_fleet()
        ids = [start(fleet, profile="40:5:0.5,80:5:0"), start(fleet, profile="90:0:0")]
        fleet.advance()
        assert fleet.workloads.load_percents(fleet.workloads.rows_of(ids)) == {ids[0]: 60, ids[1]: 90}


class TestBase:
    def test_they_are_in_the_first_state(self) -> None:
        fleet = make_fleet(base=(workload("all", "20:0:0.5,60:0:0", pod="p"), workload("card0", "30:0:0")))
        assert fleet.state.tick == 0
        assert loads(fleet) == [50, 20, 20, 20]
        assert fleet.energy_joules.tolist() == [0, 0, 0, 0]
        assert labels_of(fleet, "dgx-0", ["pod"]) == [("p",)] * 4
        fleet.advance()
        assert loads(fleet) == [70, 40, 40, 40]

    def test_their_ids(self) -> None:
        """From their names; equal names are counted. They use up no event's number, and end as any other."""
        fleet = make_fleet(base=(workload(name="a", profile="50:0:3"), workload(name="a"), workload(name="b")))
        assert list(fleet.workloads.by_id) == ["base-a", "base-a-2", "base-b"]
        assert start(fleet) == "w1"
        stop(fleet, "base-b")
        assert ended(fleet, 4) == [(1, "base-b", 0, "stopped"), (3, "base-a", 0, "OK")]


class TestClock:
    def test_ticks_and_seconds(self) -> None:
        """Counted from the epoch; with ten simulated seconds a second ticks are due in less wall time."""
        fleet = make_fleet(tick_seconds=0.25, epoch_seconds=1000)
        advance(fleet, 3)
        assert (fleet.state.tick, fleet.state.seconds, fleet.state.wall_seconds) == (3, 0.75, 1000.75)
        assert fleet.clock.due_seconds(4) == 1001
        fast = make_fleet(wall_per_tick=0.1, epoch_seconds=1000)
        advance(fast, 5)
        assert (fast.state.seconds, fast.state.wall_seconds) == (5, 1000.5)

    def test_a_change_counts_from_the_tick_in_which_it_came(self) -> None:
        """The ticks after it are due from the time that it says; those of a standing clock at the time of the hand."""
        fleet = make_fleet(epoch_seconds=1000)
        advance(fleet, 10)
        fleet.apply(ChangeClock(5000, 2))
        assert (fleet.state.wall_seconds, fleet.clock.due_seconds(11)) == (1010, 5002)
        advance(fleet, 3)
        assert (fleet.state.seconds, fleet.state.wall_seconds) == (13, 5006)
        fleet.apply(ChangeClock(9000, 0))
        advance(fleet, 100)
        assert fleet.state.wall_seconds == 9000

    def test_a_state_never_changes(self) -> None:
        """A page that is still being sent shows the tick that it was begun in."""
        fleet = make_fleet()
        start(fleet)
        fleet.advance()
        state = fleet.state
        before = {name: values.copy() for name, values in state.levels["device"].arrays.items()}
        start(fleet, "all", "90:5:0")
        advance(fleet, 5)
        assert all(np.array_equal(state.levels["device"].arrays[name], values) for name, values in before.items())
        assert state.tick == 1


def test_a_fleet_that_is_full() -> None:
    fleet = make_fleet(limits=Limits(workloads=2))
    first = start(fleet)
    start(fleet)
    assert refusal(fleet) == (
        "full", "limits.workloads is 2: 1 more are needed, and 0 remain: stop some, or raise limits.workloads",
        "limits.workloads",
    )  # fmt: skip
    fleet.apply(DropWorkloads((first,)))
    assert start(fleet) == "w4"


def test_devices_at_one_tick() -> None:
    fleet = busy(5)
    owner = start(fleet, "dgx-0/1", "50:5:0", pod="before", namespace="ml")
    advance(fleet, 1)
    every = list(range(fleet.roster.device_count))
    expected = list(map(device_describer(fleet, every), every))
    later = device_describer(fleet, every)
    stop(fleet, owner)
    start(fleet, "dgx-0/2", "90:0:0", pod="after")
    advance(fleet, 3)
    assert list(map(later, every)) == expected
    assert list(map(device_describer(fleet, every), every)) != expected
    assert expected[1]["facts"]["pod"] == "before"
    node = fleet.roster.nodes[0]
    now = [device_describer(fleet, [device])(device) for device in node.devices]
    assert [each["facts"] for each in now] == fleet.labels.facts(node)


def test_workloads_at_one_tick() -> None:
    fleet = busy(5)
    start(fleet, "dgx-0/1", "50:3:0", ttl="3s")
    advance(fleet, 1)
    every = list(fleet.workloads.by_id.values())
    later, expected = workload_describer(fleet, every), list(map(workload_describer(fleet, every), every))
    advance(fleet, 4)
    assert len(fleet.workloads.by_id) < len(every)
    assert list(map(later, every)) == expected
