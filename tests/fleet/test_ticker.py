"""The simulated clock: due ticks, stalls, advances by hand, failures."""

from __future__ import annotations

import math

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import LogEvent, LogLevel

from fakedev.base.errors import Refused
from fakedev.base.steps import Steps
from fakedev.fleet.events import ChangeClock, Stamped, StartWorkload, StopWorkloads
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.workload_fields import workload_from_fields
from fakedev.fleet.ticker import MAX_TICKS, Ticker
from fakedev.fleet.workloads.workload import Verdict
from tests.support.application import BEGIN, SMALL, AppReactor
from tests.support.configurations import loaded
from tests.support.deferreds import failure_result_of, success_result_of
from tests.support.logged_errors import LoggedErrors


def small_spec(tick_seconds: float = 1.0) -> FleetSpec:
    return loaded(SMALL.replace("seed: 7", f"seed: 7\n  tick: {tick_seconds}s\n  epoch: {BEGIN:.0f}")).fleet


class WatchedFleet(Fleet):
    def __init__(self, clock: AppReactor, events: list[Stamped], tick_seconds: float = 1.0, speed: float = 1.0) -> None:
        self.reactor = clock
        self.cost_seconds = 0.0
        self.fails = False
        super().__init__(small_spec(tick_seconds), events.append, tick_seconds / speed if speed else 0.0)

    def tick(self) -> Steps[list[Verdict]]:
        self.reactor.rightNow += self.cost_seconds
        if self.fails:
            raise RuntimeError("an internal error")
        return super().tick()


class TestTicker:
    def setup_method(self) -> None:
        self.begin()

    def begin(self, tick_seconds: float = 1.0, speed: float = 1.0) -> None:
        self.clock = AppReactor()
        self.events: list[Stamped] = []
        self.told: list[list[Verdict]] = []
        self.fleet = WatchedFleet(self.clock, self.events, tick_seconds, speed)
        self.ticker = Ticker(self.fleet, speed, self.clock, self.told.append)
        self.ticker.startService()

    @property
    def tick(self) -> int:
        return self.fleet.state.tick

    def changes(self) -> list[str]:
        return [stamped.event.reason for stamped in self.events if isinstance(stamped.event, ChangeClock)]

    def start_workload(self, profile: str) -> None:
        self.fleet.apply(StartWorkload(workload_from_fields({"name": "x", "devices": "a/0", "profile": profile})))

    def test_a_tick_when_one_is_due(self) -> None:
        seen = []
        for _ in range(5):
            seen.append((self.clock.seconds() - BEGIN, self.tick))
            self.clock.advance(0.5)
        assert seen == [(0.0, 0), (0.5, 0), (1.0, 1), (1.5, 1), (2.0, 2)]
        assert self.fleet.state.wall_seconds == BEGIN + 2
        assert (self.ticker.ticks, self.ticker.missed, self.ticker.failures) == (2, 0, 0)
        assert self.ticker.unready_reason() is None

    def test_speed(self) -> None:
        self.begin(tick_seconds=5.0, speed=60.0)
        for _ in range(12):
            self.clock.advance(1 / 12)
        assert (self.tick, self.fleet.state.seconds) == (12, 60.0)
        assert self.fleet.state.wall_seconds == pytest.approx(BEGIN + 1)

    def test_lag_and_duration(self) -> None:
        """How late the last tick was, and how long all of them took."""
        self.fleet.cost_seconds = 0.004
        self.clock.advance(1.25)
        assert (self.tick, self.ticker.lag_seconds) == (1, 0.25)
        self.fleet.cost_seconds = 0.0
        self.clock.advance(0.746)
        assert (self.tick, self.ticker.lag_seconds) == (2, pytest.approx(0.0))
        assert sum(self.ticker.durations.counts) == 2
        assert self.ticker.durations.total_seconds == pytest.approx(0.004, rel=1e-3)

    def test_a_stall_is_made_up_one_tick_a_turn(self) -> None:
        """Up to ten seconds nothing is lost."""
        self.clock.rightNow += 10.5
        assert self.ticker.unready_reason() is None
        seen = []
        for _ in range(12):
            self.clock.turn()
            seen.append(self.tick)
        assert seen == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10]
        assert (self.ticker.missed, self.fleet.state.wall_seconds) == (0, BEGIN + 10)
        self.clock.advance(0.5)
        assert self.tick == 11

    def test_one_tick_a_turn_when_the_loop_comes_in_between(self) -> None:
        self.fleet.cost_seconds = 0.6
        self.clock.rightNow += 8.0
        before = self.tick
        for _ in range(40):
            self.clock.turn()
            assert self.tick - before <= 1
            before = self.tick
            self.clock.rightNow += 0.05
        assert self.tick == int(self.clock.seconds() - BEGIN)
        assert self.ticker.missed == 0

    def test_a_speed_that_the_machine_cannot_follow(self) -> None:
        self.begin(speed=100)
        self.fleet.cost_seconds = 0.03
        self.clock.rightNow += 5.0

        def ticks_of_turns(seconds: float) -> list[int]:
            found = []
            for _ in range(8):
                before = self.tick
                self.clock.turn()
                found.append(self.tick - before)
                self.clock.rightNow += seconds  # what others take in each turn
            return found

        assert ticks_of_turns(0.0001) == [1] * 8
        assert ticks_of_turns(0.0101)[1:] == [0, 0, 1, 0, 0, 1, 0]

    def test_more_than_ten_seconds_behind(self) -> None:
        self.clock.rightNow += 60.25
        assert self.ticker.unready_reason() == "the next tick is 59 s overdue"
        self.clock.turn()
        assert (self.tick, self.ticker.missed) == (1, 59)
        assert self.changes()[-1] == "59 ticks dropped"
        assert self.ticker.unready_reason() is None
        assert self.fleet.state.wall_seconds == self.clock.seconds()
        self.clock.advance(2)
        assert self.tick in (2, 3)
        assert self.ticker.missed == 59

    def test_the_wall_clock_is_set_back(self) -> None:
        self.clock.advance(3)
        self.clock.rightNow += 1.0
        (call,) = self.clock.getDelayedCalls()
        # An hour back; reactors keep their calls in wall time, so that ours is only found due afterwards.
        self.clock.rightNow -= 3600
        call.reset(0)
        self.clock.turn()
        assert self.changes()[-1] == "the wall clock was set back"
        before = self.tick
        for _ in range(3):
            self.clock.advance(1)
        assert self.tick == before + 3
        assert self.fleet.state.wall_seconds == pytest.approx(self.clock.seconds(), abs=1)
        assert self.ticker.unready_reason() is None

    @pytest.mark.slow
    def test_speed_0_stands(self) -> None:
        self.begin(speed=0)
        self.clock.advance(1000)
        assert (self.tick, self.clock.getDelayedCalls(), self.ticker.unready_reason()) == (0, [], None)
        assert success_result_of(self.ticker.advance(900)) == 900
        assert (self.tick, self.fleet.state.seconds) == (900, 900.0)

    def test_a_part_of_a_tick_counts_as_a_whole_one(self) -> None:
        self.begin(tick_seconds=0.1, speed=0)
        for seconds, ticks in ((0.1, 1), (0.3, 3), (0.31, 4), (0.7, 7), (1e-6, 1)):
            before = self.tick
            assert success_result_of(self.ticker.advance(seconds)) - before == ticks

    def test_limits_of_an_advance(self) -> None:
        before = len(self.events)
        for seconds in (0.0, -1.0, MAX_TICKS + 1.0, 1e300):
            refused = failure_result_of(self.ticker.advance(seconds), Refused).value
            assert (refused.code, refused.where) == ("bad-argument", "duration")
            assert "1 to 10000000 ticks" in refused.text
            assert len(refused.text) < 100
        assert (self.tick, len(self.events)) == (0, before)

    @pytest.mark.slow
    def test_an_advance_leaves_the_reactor_free(self) -> None:
        """Ten milliseconds a turn; another one meanwhile is refused; the loop does not tick in between."""
        self.fleet.cost_seconds = 0.004
        done = self.ticker.advance(360)
        assert self.tick == 3
        assert failure_result_of(self.ticker.advance(1), Refused).value.code == "busy"
        assert self.ticker.unready_reason() is None
        self.clock.turn()
        assert self.tick == 6
        for _ in range(200):
            self.clock.turn()
        assert success_result_of(done) == 360
        assert self.ticker.missed == 0
        assert self.changes() == ["start", "advance by 360 ticks", "advanced"]

    def test_others_are_served_for_as_long_as_a_slice(self) -> None:
        """While connections send, or turns take long, they have half of the time; else each turn has a slice."""
        self.begin(speed=0)
        is_sending = False
        self.ticker = Ticker(self.fleet, 0, self.clock, self.told.append, is_sending=lambda: is_sending)
        self.ticker.startService()
        self.fleet.cost_seconds = 0.004
        self.ticker.advance(3600)

        def ticks_of_turns(seconds: float) -> list[int]:
            found = []
            for _ in range(9):
                self.clock.rightNow += seconds  # what others take in each turn
                before = self.tick
                self.clock.turn()
                found.append(self.tick - before)
            return found

        assert ticks_of_turns(0.0001) == [3] * 9
        is_sending = True
        assert ticks_of_turns(0.0041) == [0, 0, 3] * 3
        is_sending = False
        assert ticks_of_turns(0.0041) == [0, 0, 3] * 3
        assert ticks_of_turns(0.1) == [3] * 9

    @pytest.mark.slow
    def test_the_clock_goes_on_after_an_advance(self) -> None:
        self.clock.advance(0.75)
        self.fleet.cost_seconds = 0.001
        done = self.ticker.advance(1000)
        while not done.called:
            self.clock.turn()
        self.fleet.cost_seconds = 0.0
        self.clock.advance(0.99)
        assert self.tick == 1000
        self.clock.advance(0.02)
        assert self.tick == 1001
        assert self.ticker.lag_seconds == pytest.approx(0.01)

    def test_an_advance_that_is_stopped_or_abandoned(self) -> None:
        """Stopped, also with the service, it ends where it is, with its answer; cancelled it ends without one."""
        self.fleet.cost_seconds = 0.005
        done: Deferred[int] = self.ticker.advance(1000)
        assert self.ticker.advancing == (0, 1000)
        assert self.ticker.stop_advance()
        self.clock.turn()
        assert success_result_of(done) == self.tick == 2
        assert self.ticker.advancing is None
        assert not self.ticker.stop_advance()
        abandoned: Deferred[int] = self.ticker.advance(1000)
        abandoned.cancel()
        failure_result_of(abandoned, CancelledError)
        self.clock.turn()
        assert (self.tick, self.ticker.advancing) == (4, None)
        assert success_result_of(self.ticker.advance(1)) == 5
        last = self.ticker.advance(1000)
        self.ticker.stopService()
        self.clock.advance(10)
        assert success_result_of(last) == self.tick == 7
        assert self.ticker.unready_reason() == "the clock is stopped"

    def test_another_speed(self) -> None:
        self.clock.advance(1)
        self.ticker.set_speed(4)
        for _ in range(8):
            self.clock.advance(0.25)
        assert (self.tick, self.ticker.missed) == (9, 0)
        self.ticker.set_speed(0)
        self.clock.advance(100)
        assert (self.tick, self.ticker.unready_reason()) == (9, None)
        self.ticker.set_speed(1)
        self.clock.advance(1)
        assert (self.tick, self.ticker.lag_seconds) == (10, 0)
        assert self.changes() == ["start", "speed 4", "speed 0", "speed 1"]
        for speed in (-1, 10_001, math.nan, math.inf):
            with pytest.raises(Refused, match="speed: must be 0 to 10000"):
                self.ticker.set_speed(speed)
        assert self.ticker.speed == 1

    @pytest.mark.slow
    def test_another_speed_during_an_advance(self) -> None:
        self.fleet.cost_seconds = 0.001
        done = self.ticker.advance(1000)
        self.ticker.set_speed(2)
        while not done.called:
            self.clock.turn()
        assert success_result_of(done) == 1000
        self.fleet.cost_seconds = 0.0
        self.clock.advance(0.5)
        assert self.tick == 1001
        self.ticker.set_speed(0)
        assert success_result_of(self.ticker.advance(5)) == 1006
        self.clock.advance(50)
        assert self.tick == 1006

    def test_a_tick_that_raises_does_not_end_the_clock(self, logged_errors: LoggedErrors) -> None:
        self.clock.advance(1)
        self.fleet.fails = True
        self.clock.advance(1)
        assert self.ticker.failures >= 1
        assert self.ticker.unready_reason() == "tick 2 failed; the log says why"
        self.fleet.fails = False
        self.clock.advance(1)
        assert self.ticker.unready_reason() is None
        assert self.tick >= 2
        assert logged_errors.take(RuntimeError)

    def test_a_tick_that_goes_on_raising(self, logged_errors: LoggedErrors) -> None:
        """Neither the program nor the reactor is kept busy: a try a beat, or a turn while some are behind."""
        self.fleet.fails = True
        for _ in range(30):
            self.clock.advance(1)
        assert self.tick == 0
        assert 30 <= self.ticker.failures <= 400
        assert self.ticker.unready_reason() is not None
        logged_errors.take(RuntimeError)

    def test_verdicts_are_told(self) -> None:
        self.start_workload("50:0:2")
        self.clock.advance(1)
        assert self.told == []
        self.clock.advance(1)
        assert [[(v.workload_id, v.code, v.text) for v in told] for told in self.told] == [[("w2", 0, "OK")]]

    @pytest.mark.slow
    def test_verdicts_of_an_advance(self) -> None:
        self.start_workload("50:0:200,20:0:10")
        self.fleet.apply(StopWorkloads(("w2",), "enough"))
        self.start_workload("50:0:200")
        success_result_of(self.ticker.advance(360))
        assert [verdict.text for told in self.told for verdict in told] == ["enough", "OK"]

    def test_who_is_told_may_fail(self, logged_errors: LoggedErrors) -> None:
        def failing(verdicts: list[Verdict]) -> None:
            raise RuntimeError("an internal error")

        self.ticker = Ticker(self.fleet, 0, self.clock, failing)
        self.ticker.startService()
        self.start_workload("50:0:1")
        assert success_result_of(self.ticker.advance(5)) == 5
        assert logged_errors.take(RuntimeError)

    def test_no_line_a_tick(self, log_events: list[LogEvent]) -> None:
        self.clock.pump([1.0] * 50)
        assert [event for event in log_events if event["log_level"] != LogLevel.debug] == []
