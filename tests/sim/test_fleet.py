"""The fleet: what an event changes, when, and what a tick shows. Read it beside doc/simulation.md."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.sim.events import ChangeClock, DropWorkload, Stamped, StopWorkload
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused
from fakedev.spec.limits import Limits
from tests.support.fleets import advance, ended, labels_of, loads, make_fleet, start, stop, workload


def refusal(fleet: Fleet, *arguments: str, **fields: object) -> tuple[str, str, str]:
    """Code, text and field of what a start is answered."""
    with pytest.raises(Refused) as caught:
        start(fleet, *arguments, **fields)
    return caught.value.code, caught.value.text, caught.value.where


def arrays(fleet: Fleet) -> dict[str, np.ndarray]:
    """All that the devices of a fleet show."""
    return dict(fleet.state.levels["device"].arrays)


class TestEvents:
    """An event that arrives during tick n takes effect in tick n + 1."""

    def test_a_workload_begins_with_the_next_tick(self) -> None:
        """Nothing shows until then; the stamp says in which tick it arrived."""
        kept: list[Stamped] = []
        fleet = make_fleet(record=kept.append)
        advance(fleet, 3)
        before = fleet.state
        start(fleet)
        assert fleet.state is before
        assert fleet.intake.starting_count == 1
        assert loads(fleet) == [0, 0, 0, 0]
        fleet.advance()
        assert fleet.intake.starting_count == 0
        assert loads(fleet) == [50, 0, 0, 0]
        assert [(stamped.tick, stamped.sequence) for stamped in kept] == [(3, 1)]

    def test_a_stopped_workload_leaves_with_the_next_tick(self) -> None:
        """Its load is gone from that tick on; that tick's verdicts have its end, with 0 and the reason."""
        fleet = make_fleet()
        workload_id = start(fleet)
        fleet.advance()
        stop(fleet, workload_id)
        assert fleet.intake.is_ending(workload_id)
        assert loads(fleet) == [50, 0, 0, 0]
        assert ended(fleet) == [(2, workload_id, 0, "stopped")]
        assert loads(fleet) == [0, 0, 0, 0]
        assert not fleet.workloads.by_id

    def test_a_dropped_workload_leaves_without_a_verdict(self) -> None:
        """Its peer is gone."""
        fleet = make_fleet()
        workload_id = start(fleet)
        fleet.advance()
        fleet.apply(DropWorkload(workload_id))
        assert ended(fleet) == []
        assert loads(fleet) == [0, 0, 0, 0]
        assert not fleet.workloads.by_id

    def test_started_and_dropped_in_one_tick_is_never_visible(self) -> None:
        """What it held is free at once, and no tick shows it."""
        fleet, other = make_fleet(), make_fleet()
        fleet.apply(DropWorkload(start(fleet, pod="p")))
        assert fleet.intake.starting_count == 0
        assert not fleet.workloads.by_id
        assert (ended(fleet), ended(other)) == ([], [])
        assert all(np.array_equal(value, getattr(other, name)) for name, value in arrays(fleet).items())

    def test_started_and_stopped_in_one_tick_is_told_but_never_visible(self) -> None:
        """The peer that stopped it gets an answer."""
        fleet = make_fleet()
        workload_id = start(fleet)
        stop(fleet, workload_id)
        assert ended(fleet) == [(1, workload_id, 0, "stopped")]
        assert loads(fleet) == [0, 0, 0, 0]

    def test_stopped_and_dropped_in_one_tick(self) -> None:
        """It ends once, with one verdict, perhaps without a receiver."""
        fleet = make_fleet()
        workload_id = start(fleet)
        fleet.advance()
        stop(fleet, workload_id)
        fleet.apply(DropWorkload(workload_id))
        assert ended(fleet, 3) == [(2, workload_id, 0, "stopped")]

    def test_stopped_in_the_tick_in_which_it_would_have_ended(self) -> None:
        """The stop came first: only that is reported."""
        fleet = make_fleet()
        workload_id = start(fleet, profile="50:0:2")
        fleet.advance()
        stop(fleet, workload_id)
        assert ended(fleet, 3) == [(2, workload_id, 0, "stopped")]

    def test_order_of_arrival(self) -> None:
        """Verdicts of stops come in the order in which they were asked for."""
        fleet = make_fleet()
        ids = [start(fleet, f"card{n}") for n in range(4)]
        fleet.advance()
        for workload_id in (ids[2], ids[0], ids[3]):
            stop(fleet, workload_id)
        assert [verdict[1] for verdict in ended(fleet)] == [ids[2], ids[0], ids[3]]

    def test_ids_are_never_used_again(self) -> None:
        """They come from the number of the event."""
        fleet = make_fleet()
        first = start(fleet)
        fleet.apply(DropWorkload(first))
        assert (first, start(fleet)) == ("w1", "w3")

    def test_names_need_not_be_unique(self) -> None:
        """A name finds all workloads that have it, oldest first; an id finds one."""
        fleet = make_fleet()
        ids = [start(fleet, name="same"), start(fleet, name="other"), start(fleet, name="same")]
        assert fleet.workloads.find("same") == [ids[0], ids[2]]
        assert fleet.workloads.find(ids[1]) == [ids[1]]
        assert fleet.workloads.find("none") == []


class TestRefused:
    """A refused request leaves no trace."""

    @pytest.mark.parametrize(
        ("fields", "answer"),
        [
            ({"devices": "card9"}, ("unknown-name", "no device 'card9'; did you mean card3?", "devices")),
            ({"node": "dgx-9"}, ("unknown-name", "no node 'dgx-9'; did you mean dgx-0?", "node")),
            (
                {"limits": {"powr": 1}},
                ("unknown-name", "no metric 'powr' to limit; did you mean power?", "limits"),
            ),
            ({"limits": {"colour": 1}}, ("unknown-name", "no metric 'colour' to limit", "limits")),
            # The fleet has no such sensor: it must not be offered.
            ({"limits": {"temperature": 1}}, ("unknown-name", "no metric 'temperature' to limit", "limits")),
        ],
    )
    def test_a_start_that_is_refused(self, fields: dict[str, object], answer: tuple[str, str, str]) -> None:
        """No event, no number used, no workload waiting."""
        kept: list[Stamped] = []
        fleet = make_fleet(record=kept.append)
        assert refusal(fleet, **({"devices": "card0"} | fields)) == answer
        assert (kept, fleet.intake.starting_count, fleet.workloads.by_id) == ([], 0, {})
        assert fleet.workloads.find("work") == []
        assert start(fleet) == "w1"

    def test_stop_and_drop_of_what_is_not_there(self) -> None:
        """Unknown, ended, or stopped already."""
        kept: list[Stamped] = []
        fleet = make_fleet(record=kept.append)
        workload_id = start(fleet, profile="50:0:1")
        fleet.advance()
        for event in (StopWorkload(workload_id), DropWorkload(workload_id), StopWorkload("w77")):
            with pytest.raises(Refused, match=r"^no workload 'w"):
                fleet.apply(event)
        again = start(fleet)
        fleet.advance()
        stop(fleet, again)
        with pytest.raises(Refused, match=f"^workload '{again}' is stopped already$"):
            stop(fleet, again)
        assert [stamped.sequence for stamped in kept] == [1, 2, 3]


class TestLoad:
    """A tick shows the time-weighted mean of what happened in it."""

    def test_activities_inside_one_tick(self) -> None:
        """40 % for a quarter of a second, then 80 %."""
        fleet = make_fleet()
        start(fleet, profile="40:0:0.25,80:0:0")
        fleet.advance()
        assert loads(fleet)[0] == 70
        fleet.advance()
        assert loads(fleet)[0] == 80

    def test_the_tick_of_the_end(self) -> None:
        """A workload of 1.5 s fills half of its second tick, and is reported at the end of that tick."""
        fleet = make_fleet()
        workload_id = start(fleet, profile="80:0:1.5")
        assert ended(fleet) == []
        assert ended(fleet) == [(2, workload_id, 0, "OK")]
        assert loads(fleet)[0] == 40
        fleet.advance()
        assert loads(fleet)[0] == 0

    def test_an_end_between_two_ticks_belongs_to_the_first(self) -> None:
        """10 times 0.1 s are over after exactly one tick, though no float is 0.1."""
        for tick in (1.0, 0.1, 0.5):
            fleet = make_fleet(tick_seconds=tick)
            start(fleet, profile="80:0:0.1", repeat=10)
            assert [verdict[0] for verdict in ended(fleet, 12)] == [round(1 / tick)]
        fleet = make_fleet(tick_seconds=0.1)
        start(fleet, profile="80:0:0.1,70:0:0.1,60:0:0.1", repeat=10)
        assert [verdict[0] for verdict in ended(fleet, 35)] == [30]

    def test_several_workloads_add_up(self) -> None:
        """On the devices that they share."""
        fleet = make_fleet()
        start(fleet, "card0,card1", "30:0:0")
        start(fleet, "card1,card2", "25:0:0")
        fleet.advance()
        assert loads(fleet) == [30, 55, 25, 0]

    def test_the_sum_is_held_to_100_percent(self) -> None:
        """What is too much is not made up for later."""
        fleet = make_fleet()
        first = start(fleet, profile="80:0:0")
        start(fleet, profile="70:0:0")
        fleet.advance()
        assert loads(fleet)[0] == 100
        stop(fleet, first)
        fleet.advance()
        assert loads(fleet)[0] == 70

    def test_repeat_and_for_ever(self) -> None:
        """Two rounds of a second each end after two ticks, none ends with 0 for ever."""
        fleet = make_fleet()
        workload_id = start(fleet, profile="50:0:0.4,10:0:0.6", repeat=2)
        start(fleet, profile="50:0:0.4,10:0:0.6", repeat=0)
        assert ended(fleet, 50) == [(2, workload_id, 0, "OK")]

    def test_load_of_each_workload(self) -> None:
        """Own series show what each puts on, without its noise."""
        fleet = make_fleet()
        ids = [start(fleet, profile="40:5:0.5,80:5:0"), start(fleet, profile="90:0:0")]
        fleet.advance()
        assert fleet.workloads.load_percents(fleet.workloads.rows_of(ids)) == {ids[0]: 60, ids[1]: 90}


class TestBase:
    """Workloads of the configuration are there from tick 0."""

    def test_they_are_in_the_first_state(self) -> None:
        """Tick 0 shows the first instant: the first activity, and no energy yet."""
        fleet = make_fleet(base=(workload("all", "20:0:0.5,60:0:0", pod="p"), workload("card0", "30:0:0")))
        assert fleet.state.tick == 0
        assert loads(fleet) == [50, 20, 20, 20]
        assert fleet.energy_joules.tolist() == [0, 0, 0, 0]
        assert labels_of(fleet, "dgx-0", ["pod"]) == [("p",)] * 4
        fleet.advance()
        assert loads(fleet) == [70, 40, 40, 40]

    def test_their_ids(self) -> None:
        """From their names; equal names are counted. They use up no event's number."""
        fleet = make_fleet(base=(workload(name="a"), workload(name="a"), workload(name="b")))
        assert list(fleet.workloads.by_id) == ["base-a", "base-a-2", "base-b"]
        assert start(fleet) == "w1"

    def test_they_can_end_and_be_stopped(self) -> None:
        """As any other."""
        fleet = make_fleet(base=(workload(name="a", profile="50:0:3"), workload(name="b")))
        stop(fleet, "base-b")
        assert ended(fleet, 4) == [(1, "base-b", 0, "stopped"), (3, "base-a", 0, "OK")]


class TestClock:
    """Simulated time, and the wall time at which ticks are due."""

    def test_ticks_and_seconds(self) -> None:
        """Counted from the epoch."""
        fleet = make_fleet(tick_seconds=0.25, epoch_seconds=1000)
        advance(fleet, 3)
        assert (fleet.state.tick, fleet.state.seconds, fleet.state.wall_seconds) == (3, 0.75, 1000.75)
        assert fleet.due_seconds(4) == 1001

    def test_speed(self) -> None:
        """Ten simulated seconds a second: ticks are due in less wall time than they simulate."""
        fleet = make_fleet(wall_per_tick=0.1, epoch_seconds=1000)
        advance(fleet, 5)
        assert (fleet.state.seconds, fleet.state.wall_seconds) == (5, 1000.5)

    def test_a_change_counts_from_the_tick_in_which_it_came(self) -> None:
        """The ticks after it are due from the time that it says; simulated time knows nothing of it."""
        fleet = make_fleet(epoch_seconds=1000)
        advance(fleet, 10)
        fleet.apply(ChangeClock(5000, 2))
        assert fleet.state.wall_seconds == 1010
        assert fleet.due_seconds(11) == 5002
        advance(fleet, 3)
        assert (fleet.state.seconds, fleet.state.wall_seconds) == (13, 5006)

    def test_a_standing_clock(self) -> None:
        """Ticks that are done by hand are all due at the time of the hand."""
        fleet = make_fleet(epoch_seconds=1000)
        fleet.apply(ChangeClock(2000, 0))
        advance(fleet, 100)
        assert fleet.state.wall_seconds == 2000

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
    """The number of workloads is limited; one that ends makes room."""
    fleet = make_fleet(limits=Limits(workloads=2))
    first = start(fleet)
    start(fleet)
    assert refusal(fleet) == (
        "full", "limits.workloads is 2: 1 more are needed, and 0 remain: stop some, or raise limits.workloads",
        "limits.workloads",
    )  # fmt: skip
    fleet.apply(DropWorkload(first))
    assert start(fleet) == "w4"
