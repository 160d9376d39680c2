"""The rules of the work queue on the reactor's clock, for all peers of all queue ports."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from fakedev.workqueue.broker import Broker

#: What clients are told whose requests the end of the program cuts short.
GOING_DOWN = "the frontend goes down"


class QueueHub:
    """Gives the broker its time, and the calls that it needs at certain times.

    Who changes something in the broker sees to it that :meth:`turn_over` is called after it.

    :ivar is_closed: whether no requests are taken in for good.
    """

    def __init__(self, broker: Broker, clock: IReactorTime) -> None:
        self.broker = broker
        self._clock = clock
        self._now = clock.seconds()
        self._expiry: IDelayedCall | None = None
        self._drained: Deferred[None] | None = None
        self._give_up: IDelayedCall | None = None
        self.is_closed = False

    @property
    def is_draining(self) -> bool:
        """Whether jobs still run that are to finish before the end."""
        return self._drained is not None

    def now(self) -> float:
        """Seconds of the reactor's clock; they never go back, though the system's time may."""
        now = self._clock.seconds()
        if now < self._now:
            return self._now
        self._now = now
        return now

    def turn_over(self) -> None:
        """Something has changed: be called when the broker needs it, and end the draining when nothing is left."""
        deadline = self.broker.next_deadline()
        # A call that comes too early finds nothing to do and asks again: cheaper than moving it for each job.
        if self._expiry is not None and (deadline is None or deadline < self._expiry.getTime()):
            self._expiry.cancel()
            self._expiry = None
        if self._expiry is None and deadline is not None:
            self._expiry = self._clock.callLater(max(0.0, deadline - self._clock.seconds()), self._expire)
        if self._drained is not None and self.broker.is_idle:
            self._end_draining(self._drained)

    def drain(self, seconds: float) -> Deferred[None]:
        """Take in no requests, end those that wait, and let the running ones finish; asked for once.

        :param seconds: after which the running ones are ended too.
        :returns: fires when nothing is left.
        """
        self.is_closed = True
        self._drained = drained = Deferred()
        self._give_up = self._clock.callLater(seconds, self.give_up)
        self.broker.control.close(GOING_DOWN, self.now())
        self.turn_over()
        return drained

    def give_up(self) -> None:
        """End what still runs while the queues are drained."""
        if self._give_up is not None and self._give_up.active():
            self._give_up.cancel()
        self._give_up = None
        self.broker.control.abandon(GOING_DOWN, self.now())
        self.turn_over()

    def _end_draining(self, drained: Deferred[None]) -> None:
        self._drained = None
        if self._give_up is not None:
            self._give_up.cancel()
            self._give_up = None
        drained.callback(None)

    def _expire(self) -> None:
        self._expiry = None
        self.broker.expire(self.now())
        self.turn_over()
