"""Timers that judge a silent peer."""

from __future__ import annotations

from twisted.internet.task import Clock

from fakedev.net.system.timing import GRACE_SECONDS, PAUSE_SECONDS, PatientCall


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
