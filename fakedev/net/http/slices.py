"""Answers that take long, made in slices of some milliseconds with turns for other connections between them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from fakedev.net.http.response import Response
from fakedev.net.lines.fair_share import FairShare

#: Makes an answer: pauses after each step, which takes less than a millisecond, and returns the answer.
Steps = Generator[None, None, Response]
#: About how long one slice takes.
_SLICE_SECONDS: Final = 0.004


class SlicedAnswers:
    """Makes answers one after the other, so that only one of them takes memory at a time.

    An answer is begun at once when no other is being made, and is then often finished in its first slice.
    """

    def __init__(self, clock: IReactorTime, fair_share: FairShare) -> None:
        self._clock = clock
        self._fair_share = fair_share
        self._waiting: OrderedDict[Deferred[Response], Steps] = OrderedDict()

    def make(self, steps: Steps, left: Deferred[None]) -> Response | Deferred[Response]:
        """The answer of some steps.

        :param left: fails when the peer has left; then the answer is not made.
        :raises Exception: what a step raises in the first slice; later the answer fails with it.
        """
        if not self._waiting:
            response = self._worked(steps)
            if response is not None:
                return response
        answer: Deferred[Response] = Deferred()
        self._waiting[answer] = steps
        left.addErrback(lambda _: self._waiting.pop(answer, None))
        self._fair_share.request_turn(self)
        return answer

    def take_turn(self) -> bool:
        """Work on the oldest answer for a slice; return whether there is more to do."""
        if not self._waiting:
            return False
        answer, steps = next(iter(self._waiting.items()))
        try:
            response = self._worked(steps)
        except Exception:
            del self._waiting[answer]
            answer.errback()
        else:
            if response is not None:
                del self._waiting[answer]
                answer.callback(response)
        return bool(self._waiting)

    def _worked(self, steps: Steps) -> Response | None:
        """The answer, when its steps end within a slice."""
        seconds = self._clock.seconds
        until = seconds() + _SLICE_SECONDS
        try:
            while True:
                next(steps)
                if seconds() >= until:
                    return None
        except StopIteration as done:
            response: Response = done.value
            return response
