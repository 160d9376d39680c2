"""Timers that judge a silent peer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from fakedev.runtime.clock import GRACE_SECONDS, PAUSE_SECONDS, PatientCall, Timeouts


class Turns(Clock):
    """A clock that does one turn of the reactor at a time: what is due, but not what that adds."""

    def turn(self, seconds: float = 0.0) -> None:
        """Let time pass, then call what is due by now."""
        self.rightNow += seconds
        due = [call for call in self.calls if call.getTime() <= self.rightNow]
        for call in due:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


@pytest.mark.slow
def test_one_more_turn() -> None:
    """A due call waits for a turn, in which the reactor reads; then it calls back once."""
    clock, called = Turns(), list[float]()
    call = PatientCall(clock, 5, lambda: called.append(clock.seconds()))
    clock.turn(4.9)
    assert not clock.calls[0].called and call.active()
    clock.turn(0.1)
    assert not called and call.active()
    clock.turn()
    assert called == [5] and not call.active() and not clock.calls


def test_input_in_the_last_turn() -> None:
    """Whoever receives the input resets or cancels the call."""
    clock, called = Turns(), list[float]()
    reset = PatientCall(clock, 5, lambda: called.append(clock.seconds()))
    cancelled = PatientCall(clock, 5, lambda: called.append(-1))
    clock.turn(5)
    reset.reset(3)
    cancelled.cancel()
    clock.turn(2.9)
    assert not called
    clock.turn(0.2)
    clock.turn()
    assert called == [8.1]


def test_pause() -> None:
    """A call that is too late waits for the grace, once; then one turn more."""
    clock, called = Turns(), list[float]()
    call = PatientCall(clock, 5, lambda: called.append(clock.seconds()))
    clock.turn(5 + PAUSE_SECONDS + 0.1)
    clock.turn()
    assert not called and call.active()
    clock.turn(GRACE_SECONDS + 2 * PAUSE_SECONDS)  # another pause
    assert not called
    clock.turn()
    assert len(called) == 1
    again = PatientCall(clock, 5, lambda: called.append(clock.seconds()))
    clock.turn(30)
    again.reset(5)
    clock.turn(30)
    clock.turn()
    assert len(called) == 1, "a reset call has its grace again"


def test_with_a_clock_of_tests() -> None:
    """Clock.advance also calls what is added meanwhile."""
    clock, called = Clock(), list[int]()
    PatientCall(clock, 5, lambda: called.append(1))
    clock.advance(5)
    assert called


def test_no_search_among_all_calls() -> None:
    """A call that becomes due earlier is made anew: Twisted's reactor looks for one that it moves among all others."""
    clock, called, moved = Clock(), list[float](), list[object]()
    call = PatientCall(clock, 60, lambda: called.append(clock.seconds()))
    for seconds in (10.0, 60.0, 5.0):
        (delayed,) = clock.calls
        delayed.resetter = moved.append
        call.reset(seconds)
    clock.pump([5.0, 0.0])
    assert called == [5.0]
    assert moved == [] and not clock.calls


class Timed:
    """Timeouts of 5 s, and who was called back when."""

    def __init__(self) -> None:
        self.clock = Turns()
        self.expired: list[tuple[str, float]] = []
        self.timeouts: Timeouts[str] = Timeouts(self.clock, 5, lambda peer: self.expired.append((peer, self.now())))

    def now(self) -> float:
        """Seconds since the start."""
        return self.clock.seconds()

    def wait(self, seconds: float) -> None:
        """Let time pass without a pause of the process, with three turns of the reactor each half a second."""
        end = self.now() + seconds
        while True:
            for step in (min(0.5, end - self.now()), 0, 0):
                self.clock.turn(step)
            if self.now() >= end:
                break


@pytest.fixture
def timed() -> Timed:
    return Timed()


def test_each_has_its_time(timed: Timed) -> None:
    """Also when one that was started before is stopped; with one call of the clock for all."""
    timed.timeouts.start("first")
    timed.wait(2)
    timed.timeouts.start("second")
    assert len(timed.clock.getDelayedCalls()) == 1
    assert timed.timeouts.stop("first") and not timed.timeouts.stop("first")
    timed.wait(4.75)
    assert timed.expired == [] and list(timed.timeouts) == ["second"]
    timed.wait(0.25)
    assert timed.expired == [("second", 7)] and not timed.timeouts


def test_to_begin_again(timed: Timed) -> None:
    timed.timeouts.start("one")
    timed.wait(4)
    timed.timeouts.start("one")
    timed.wait(4.75)
    assert timed.expired == [] and "one" in timed.timeouts
    timed.wait(0.25)
    assert timed.expired == [("one", 9)]


def test_nothing_is_left_when_all_are_stopped(timed: Timed) -> None:
    for peer in ("a", "b"):
        timed.timeouts.start(peer)
    for peer in ("a", "b"):
        timed.timeouts.stop(peer)
    assert timed.clock.getDelayedCalls() == []


def test_thousands_at_once(timed: Timed) -> None:
    """They are called back over many turns, in which others are served."""
    for number in range(1050):
        timed.timeouts.start(f"{number}")
    timed.clock.turn(5)
    counts = []
    while timed.timeouts:
        timed.clock.turn()
        counts.append(len(timed.expired))
    assert max(after - before for before, after in zip([0, *counts], counts, strict=False)) == 100
    assert [peer for peer, _ in timed.expired] == [f"{number}" for number in range(1050)]


def test_input_that_is_read_late(timed: Timed) -> None:
    """A peer whose bytes are read in the turn in which its time is over is not called back."""
    timed.timeouts.start("one")
    timed.clock.turn(5)
    timed.timeouts.stop("one")  # the reactor reads after its calls
    timed.wait(10)
    assert timed.expired == []


def test_a_callback_that_fails() -> None:
    clock, expired = Turns(), list[str]()

    def fail(peer: str) -> None:
        expired.append(peer)
        raise RuntimeError(peer)

    timeouts: Timeouts[str] = Timeouts(clock, 5, fail)
    for peer in ("a", "b"):
        timeouts.start(peer)
    clock.turn(5)
    for peer in ("a", "b"):
        with pytest.raises(RuntimeError, match=peer):
            clock.turn()
        clock.turn()
    assert expired == ["a", "b"]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.sampled_from([0.0, 0.5, 1, 2.5, 4])), max_size=30))
def test_any_order(steps: list[tuple[str, bool, float]]) -> None:
    timed, due, expected = Timed(), dict[str, float](), list[tuple[str, float]]()

    def pass_time(seconds: float) -> None:
        end = timed.now() + seconds
        for peer, when in sorted(due.items(), key=lambda entry: entry[1]):
            if when <= end:
                expected.append((peer, when))
                del due[peer]
        timed.wait(seconds)

    for peer, is_start, seconds in steps:
        if is_start:
            due.pop(peer, None)
            due[peer] = timed.now() + 5
            timed.timeouts.start(peer)
        else:
            assert timed.timeouts.stop(peer) == (due.pop(peer, None) is not None)
        pass_time(seconds)
    pass_time(20)
    assert timed.expired == expected
