"""Runs the broker of the work queues on the reactor's clock, for all queue ports."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from fakedev.net.lines.fair_share import FairShare
from fakedev.net.queues.log_writer import LogWriters
from fakedev.net.system.timing import PatientCall
from fakedev.workqueue.broker import Broker

#: The error of requests that end because the program stops.
GOING_DOWN = "the frontend goes down"


class QueueHub:
    """Gives the broker the time, and calls it when a deadline is reached.

    After each change of the broker :meth:`turn_ended` must be called; the queue ports do so at the end of each turn.

    :param fair_share: that of the queue ports: deadlines are judged after the peers that asked for a turn before.
    :ivar logs: of the durable queues.
    :ivar is_closed: whether no further requests are accepted until the program stops.
    """

    def __init__(self, broker: Broker, clock: IReactorTime, fair_share: FairShare) -> None:
        self.broker = broker
        self.logs = LogWriters()
        self._clock = clock
        self._fair_share = fair_share
        self._now = clock.seconds()
        self._expiry: PatientCall | None = None
        self._expiry_seconds = 0.0
        self._is_due = False
        self._drained: Deferred[None] | None = None
        self._give_up: PatientCall | None = None
        self.is_closed = False

    @property
    def is_draining(self) -> bool:
        """Whether running jobs are to finish before the program stops."""
        return self._drained is not None

    def now(self) -> float:
        """Seconds of the reactor's clock; they never go back, although the system's time may."""
        now = self._clock.seconds()
        if now < self._now:
            return self._now
        self._now = now
        return now

    def turn_ended(self) -> None:
        """After a change: write the logs, schedule the broker's next deadline, end the draining when no job remains."""
        if self.logs.by_queue:
            self.logs.flush()
        deadline = self.broker.next_deadline()
        # A call that comes too early does nothing and schedules the next: cheaper than moving it for each job.
        if self._expiry is not None and (deadline is None or deadline < self._expiry_seconds):
            self._expiry.cancel()
            self._expiry = None
        if self._expiry is None and deadline is not None and not self._is_due:
            # Reports that wait at the sockets are read before a deadline is judged, also after a pause of the process.
            self._expiry = PatientCall(self._clock, max(0.0, deadline - self._clock.seconds()), self._expire)
            self._expiry_seconds = deadline
        if self._drained is not None and self.broker.is_idle:
            self._end_draining(self._drained)

    def drain(self, seconds: float) -> Deferred[None]:
        """Accept no requests, end those that wait, and let the running ones finish; called once.

        :param seconds: after which the running ones are ended too.
        :returns: fires when no job remains.
        """
        self.is_closed = True
        drained: Deferred[None] = Deferred()
        self._drained = drained
        self._give_up = PatientCall(self._clock, seconds, self.give_up)
        self.broker.control.close(GOING_DOWN, self.now())
        self.turn_ended()
        return drained

    def give_up(self) -> None:
        """End the jobs that still run while the queues are drained."""
        if self._give_up is not None and self._give_up.active():
            self._give_up.cancel()
        self._give_up = None
        self.broker.control.abandon(GOING_DOWN, self.now())
        self.turn_ended()

    def _end_draining(self, drained: Deferred[None]) -> None:
        self._drained = None
        if self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None
        drained.callback(None)

    def take_turn(self) -> bool:
        """Let the broker judge what is due (called by the fair share)."""
        self._is_due = False
        self.broker.expire(self.now())
        self.turn_ended()
        return False

    def _expire(self) -> None:
        self._expiry = None
        self._is_due = True
        self._fair_share.request_turn(self)
