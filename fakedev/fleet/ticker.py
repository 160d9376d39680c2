"""The simulator's clock: runs the ticks of the fleet when they are due, or on command."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from fakedev.base.errors import Refused
from fakedev.base.histograms import TICK_BUCKETS, Histogram
from fakedev.base.steps import Steps
from fakedev.fleet.events import ChangeClock
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fleet_spec import MAX_SPEED
from fakedev.fleet.workloads.workload import Verdict
from fakedev.runtime.clock import no_op
from fakedev.runtime.memory import collector_paused

#: When the clock is further behind, the missed ticks are dropped and counted.
_MAX_BEHIND_SECONDS: Final = 10.0
#: Wall seconds after which a slice of an advance ends. With its last tick, it holds the reactor for less than 20 ms, if
#: a tick takes less than 10 ms.
_SLICE_SECONDS: Final = 0.01
#: Wall seconds after which a tick pauses; it goes on in the next turn of the reactor.
_STEP_SECONDS: Final = 0.005
#: Wall seconds of steps after which the end of a tick waits for the next turn of the reactor: a snapshot of the fleet,
#: which a copy of the process writes, may begin there, and a fork takes some 10 ms.
_STEPS_BEFORE_END_SECONDS: Final = 0.001
#: Wall seconds between two reports of an advance.
_REPORT_SECONDS: Final = 1.0
#: Ticks of one advance: more is certainly a typing error.
MAX_TICKS: Final = 10_000_000


class HalfOfTurns:
    """Gives long work that runs in slices half of the reactor's time while others are served, else each turn.

    Others need many short turns: a large page has a thousand, which would each wait for a slice.

    :param is_sending: whether connections have bytes to send.
    """

    #: A turn that takes longer than this without a slice serves somebody.
    IDLE_SECONDS: Final = 0.0005

    def __init__(self, clock: IReactorTime, is_sending: Callable[[], bool]) -> None:
        self._clock = clock
        self._is_sending = is_sending
        self._slice_seconds = self._others_seconds = self._seen_at = 0.0

    def slice_ended(self, began: float) -> None:
        """A slice that began at this time has just ended."""
        self._seen_at = self._clock.seconds()
        self._slice_seconds, self._others_seconds = self._seen_at - began, 0.0

    def is_next(self) -> bool:
        """Whether the next slice may begin in this turn; ask once in each turn."""
        now = self._clock.seconds()
        turn_seconds, self._seen_at = max(now - self._seen_at, 0.0), now
        self._others_seconds += turn_seconds
        is_serving = turn_seconds > self.IDLE_SECONDS or self._is_sending()
        return not is_serving or self._others_seconds >= self._slice_seconds


class Advance(NamedTuple):
    """An advance, by its ticks: the one at which it began, and the one that it is to reach."""

    first: int
    target: int

    def percent_at(self, tick: int) -> float:
        """How much of it is done at a tick, 0 to 100, rounded down to a tenth: 100 only at the target."""
        return math.floor(1000 * (tick - self.first) / (self.target - self.first)) / 10


class Ticker(Service):
    """Runs one tick of the fleet whenever one is due. A long one pauses now and then, so that others have their turns.

    :param speed: simulated seconds per wall second; with 0 only :meth:`advance` moves the clock.
    :param on_verdicts: called with the verdicts of each tick that has some, or in which workloads ended without one.
    :param on_tick: called after each tick.
    :param is_notifying: whether verdicts of earlier ticks are not passed on yet; an advance waits for them.
    :param is_sending: whether connections have bytes to send.
    :param before_tick: called before each tick: it may change the fleet, and the speed.
    :param on_pause: called with True when a tick pauses, and with False when it has ended.
    :ivar missed: ticks that were dropped because the program was too far behind.
    :ivar failures: ticks that raised; they are logged, and the clock continues.
    :ivar advances: advances that were begun.
    :ivar lag_seconds: how late the last tick was.
    """

    log = Logger()

    def __init__(
        self,
        fleet: Fleet,
        speed: float,
        clock: IReactorTime,
        on_verdicts: Callable[[list[Verdict]], None],
        on_tick: Callable[[], None] = no_op,
        is_notifying: Callable[[], bool] = lambda: False,
        is_sending: Callable[[], bool] = lambda: False,
        before_tick: Callable[[], None] = no_op,
        on_pause: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self.setName("ticker")
        self._fleet = fleet
        self._clock = clock
        self._on_verdicts = on_verdicts
        self._on_tick = on_tick
        self._before_tick = before_tick
        self._on_pause = on_pause
        self._is_ticking = self._has_steps = False
        #: Of the tick in progress: its other steps, and their result, None if they failed.
        self._steps: Steps[list[Verdict]] | None = None
        self._verdicts: list[Verdict] | None = None
        self._tick_seconds = 0.0
        #: Goes on with a tick that was due.
        self._next_step: IDelayedCall | None = None
        self._is_notifying = is_notifying
        self._turns = HalfOfTurns(clock, is_sending)
        self.speed = speed
        self._wall_per_tick = fleet.spec.tick_seconds / speed if speed else 0.0
        self._loop = LoopingCall(self._loop_fired)
        self._loop.clock = clock
        self._loop_done: Deferred[LoopingCall] | None = None
        self._catching_up = False
        self._last_seconds = 0.0
        self._advance: Deferred[int] | None = None
        self._advancing = Advance(0, 0)
        self._remaining = 0
        self._next_slice: IDelayedCall | None = None
        self._reported_at = 0.0
        self._report: Callable[[Advance], None] = no_op
        self.ticks = self.missed = self.failures = self.advances = 0
        self.lag_seconds = 0.0
        self._last_failed = False
        self.durations = Histogram(TICK_BUCKETS)

    def startService(self) -> None:
        """Start the clock: the first tick is due one tick from now."""
        super().startService()
        self._last_seconds = self._clock.seconds()
        if self.speed:
            self._set_clock("start")
            self._loop_done = self._loop.start(self._wall_per_tick, now=False)

    def stopService(self) -> Deferred[LoopingCall] | None:
        """Stop the clock; an advance in progress ends where it is."""
        super().stopService()
        self._end_due_tick()
        self.stop_advance()
        if self._loop.running:
            self._loop.stop()
        return self._loop_done

    def unready_reason(self) -> str | None:
        """Why the simulation is not healthy: no tick for long, or the last one failed. None when it is healthy."""
        if not self.running:
            return "the clock is stopped"
        if self._last_failed:
            return f"tick {self._fleet.state.tick + 1} failed; the log says why"
        if self.speed and self._advance is None and not self._fleet.is_paused:
            overdue = self._clock.seconds() - self._fleet.clock.due_seconds(self._fleet.state.tick + 1)
            if overdue > _MAX_BEHIND_SECONDS:
                return f"the next tick is {overdue:.0f} s overdue"
        return None

    def advance(self, seconds: float, report: Callable[[Advance], None] = no_op) -> Deferred[int]:
        """Advance the simulated clock on command, in slices that leave the reactor free.

        A part of a tick counts as a whole one. Cancelling the Deferred stops the advance.

        :param report: called once a second of the wall clock while the advance is in progress.
        :returns: fires with the number of the tick that was reached; fails with Refused, also when a tick fails.
        """
        self._end_due_tick()
        ticks = math.ceil(round(seconds / self._fleet.spec.tick_seconds, 9))
        if not 1 <= ticks <= MAX_TICKS:
            text = f"{seconds:g} seconds are {ticks:.7g} ticks: give a time that is 1 to {MAX_TICKS} ticks"
            return fail(Refused("bad-argument", text, "duration"))
        if self._advance is not None:
            percent, target = self._advancing.percent_at(self._fleet.state.tick), self._advancing.target
            text = f"the clock is being advanced already, to tick {target} ({percent:g} % done)"
            return fail(Refused("busy", f"{text}: wait until it is there, or stop it with advance stop", "duration"))
        tick = self._fleet.state.tick
        self._advancing, self._remaining = Advance(tick, tick + ticks), ticks
        self._report, self._reported_at = report, self._clock.seconds()
        done: Deferred[int] = Deferred(self._advance_cancelled)
        self._advance = done
        self.advances += 1
        self._fleet.apply(ChangeClock(self._clock.seconds(), 0.0, f"advance by {ticks} ticks"))
        self._advance_slice()
        return done

    @property
    def advancing(self) -> Advance | None:
        """The advance in progress; None for none."""
        return None if self._advance is None else self._advancing

    @property
    def seconds_per_tick(self) -> float:
        """The time from one tick to the next, by the wall clock; 0 while only an advance moves the clock."""
        return self._wall_per_tick

    def stop_advance(self) -> bool:
        """End the advance in progress at the tick that it has reached; False when there is none.

        It has ended when this returns, unless verdicts of its last tick are not passed on yet.
        """
        self._remaining = 0
        if self._advance is None:
            return False
        if self._next_slice is not None:  # else a slice is running, and ends after its tick
            self._next_slice.cancel()
            self._complete()
            self._advance_slice()
        return True

    def _advance_cancelled(self, done: Deferred[int]) -> None:
        done.errback(CancelledError())
        self.stop_advance()

    def set_speed(self, speed: float) -> None:
        """Change the speed; an advance in progress continues.

        :param speed: simulated seconds per wall second; 0 stops the clock.
        :raises Refused: ``bad-argument`` for a speed that is not 0 to MAX_SPEED.
        """
        if not 0 <= speed <= MAX_SPEED:
            raise Refused("bad-argument", f"speed: must be 0 to {MAX_SPEED}, not {speed:g}", "speed")
        self.speed = speed
        self._wall_per_tick = self._fleet.spec.tick_seconds / speed if speed else 0.0
        if self._advance is None:
            self._fleet.apply(ChangeClock(self._clock.seconds(), self._wall_per_tick, f"speed {speed:g}"))
        if self._is_ticking:  # the loop would go on at the speed of its call in progress
            self._clock.callLater(0, self._restart_loop)
        else:
            self._restart_loop()

    def _restart_loop(self) -> None:
        if self._loop.running:
            self._loop.stop()
        if self.speed and self.running:
            self._last_seconds = self._clock.seconds()
            self._loop_done = self._loop.start(self._wall_per_tick, now=False)

    def _advance_or_yield(self) -> None:
        if self._remaining and not self._turns.is_next():
            self._next_slice = self._clock.callLater(0, self._advance_or_yield)
        else:
            self._advance_slice()

    def _advance_slice(self) -> None:
        began, failed_tick, self._next_slice = self._clock.seconds(), 0, None
        # The wall clock may be set back meanwhile.
        while self._has_steps or (
            self._remaining and 0 <= self._clock.seconds() - began < _SLICE_SECONDS and not self._is_notifying()
        ):
            was_paused = self._has_steps
            if not was_paused:
                self._remaining -= 1
                self._begin_tick()
            has_worked = self._go_on()
            if has_worked is None:
                break
            if not has_worked:  # each of the other ticks would only fail again
                self._remaining, failed_tick = 0, self._fleet.state.tick + 1
            if self._remaining and not 0 <= began - self._reported_at < _REPORT_SECONDS:
                self._reported_at = began
                self._report(self._advancing)
            if was_paused:  # all that waits for the end of the tick gets its turn before the next one begins
                break
        if self._has_steps or self._remaining or (self._is_notifying() and self.running):
            self._turns.slice_ended(began)
            self._next_slice = self._clock.callLater(0, self._advance_or_yield)
            return
        done, self._advance = self._advance, None
        self._report = no_op
        if self.speed and self.running:
            self._set_clock("advanced")
        if done is None or done.called:  # it was cancelled
            return
        if failed_tick:
            text = f"tick {failed_tick} failed: the clock stays at tick {failed_tick - 1}; the log of fakedev says why"
            done.errback(Refused("internal", text, "duration"))
        else:
            done.callback(self._fleet.state.tick)

    def _set_clock(self, reason: str) -> None:
        self._fleet.apply(ChangeClock(self._clock.seconds(), self._wall_per_tick, reason))
        if self._loop.running:
            self._loop.reset()

    def _loop_fired(self) -> None:
        """Run a tick, unless one is in progress, or missed ones are being made up, one in each turn of the reactor."""
        if not self._catching_up and not self._has_steps:
            self._run_due_tick()

    def _run_due_tick(self) -> None:
        """Run a tick if one is due; when several are, each of the others follows in a later turn of the reactor."""
        self._catching_up = False
        if self._advance is not None or not self.running or not self.speed:
            return
        now = self._clock.seconds()
        if now < self._last_seconds:
            self._set_clock("the wall clock was set back")
        self._last_seconds = now
        behind = now - self._fleet.clock.due_seconds(self._fleet.state.tick + 1)
        if behind < -1e-6:
            return
        if behind > _MAX_BEHIND_SECONDS:
            dropped = int(behind / self._wall_per_tick)
            self.missed += dropped
            self.log.warn("{dropped} ticks dropped: {behind:.1f} s behind", dropped=dropped, behind=behind)
            self._fleet.apply(ChangeClock(now - self._wall_per_tick, self._wall_per_tick, f"{dropped} ticks dropped"))
            behind = 0.0
        self.lag_seconds = behind
        self._begin_tick()
        self._run_due_steps(now)

    def _run_due_steps(self, began: float) -> None:
        """Go on with the due tick that began at this time."""
        self._next_step = None
        if self._go_on() is None:
            self._next_step = self._clock.callLater(0, self._run_due_steps, began)
            return
        # A tick that failed is tried again when the next is due: now it would only fail again.
        if self.lag_seconds >= self._wall_per_tick and not self._last_failed:
            self._catching_up = True
            self._turns.slice_ended(began)
            # Ticks that take longer than they simulate are never all made up: they leave others half of the time.
            is_too_fast = self._clock.seconds() - began >= self._wall_per_tick
            self._clock.callLater(0, self._catch_up_or_yield if is_too_fast else self._run_due_tick)

    def _catch_up_or_yield(self) -> None:
        if self._turns.is_next():
            self._run_due_tick()
        else:
            self._clock.callLater(0, self._catch_up_or_yield)

    def _begin_tick(self) -> None:
        began = self._clock.seconds()
        self._is_ticking, self._has_steps, self._verdicts = True, True, None
        try:
            self._before_tick()
            self._steps = self._fleet.tick()
        except Exception:
            self._note_failure()
        self._tick_seconds = self._clock.seconds() - began

    def _go_on(self) -> bool | None:
        """Go on with the tick in progress; return whether it has worked, None: it is paused."""
        if self._fleet.is_paused:
            self._fleet.resume()
        if not self._do_steps(_STEP_SECONDS):
            self._fleet.pause(self._complete)
            self._on_pause(True)
            return None
        self._has_steps = False
        began = self._clock.seconds()
        # Not kept: to free the verdicts on all workloads at once takes as long as several steps.
        verdicts, self._verdicts = self._verdicts, None
        if verdicts is not None:
            try:
                self.ticks += 1
                self._last_failed = False
                self._on_tick()
                if verdicts or not self._fleet.is_settled:
                    self._on_verdicts(verdicts)
            except Exception:
                self._note_failure()
        self._is_ticking = False
        self.durations.observe(self._tick_seconds + self._clock.seconds() - began)
        self._on_pause(self._fleet.is_paused)  # a listener may have begun an advance
        return verdicts is not None

    def _do_steps(self, most_seconds: float) -> bool:
        """Do steps of the tick for this time; return whether all are done, with time left for what follows them.

        A failure is logged; the clock continues.
        """
        began = self._clock.seconds()
        try:
            # A tick in which thousands of workloads end makes large lists, which each collection would look through.
            with collector_paused():
                while self._steps:
                    next(self._steps)
                    if not 0 <= self._clock.seconds() - began < most_seconds:
                        break
        except StopIteration as done:
            self._steps, self._verdicts = None, done.value
        except Exception:
            self._steps = None
            self._note_failure()
        seconds = self._clock.seconds() - began
        self._tick_seconds += seconds
        return self._steps is None and seconds < _STEPS_BEFORE_END_SECONDS

    def _note_failure(self) -> None:
        self.failures += 1
        self._last_failed = True
        self.log.failure("tick {tick} failed", tick=self._fleet.state.tick + 1)

    def _complete(self) -> None:
        """Do all other steps of a tick that is paused: somebody uses the fleet, and nobody sees half a tick."""
        if self._fleet.is_paused:
            self._fleet.resume()
            self._do_steps(math.inf)

    def _end_due_tick(self) -> None:
        """End a due tick that is paused now."""
        if self._next_step is not None:
            self._next_step.cancel()
            self._complete()
            self._run_due_steps(self._clock.seconds())
