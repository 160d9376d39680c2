"""Answers that take long, made in slices of some milliseconds with turns for other connections between them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from fakedev.base.steps import Steps
from fakedev.runtime.turns import FairShare, ITurnTaker
from fakedev.web.response import Response

#: About how long one slice takes.
_SLICE_SECONDS: Final = 0.004


@implementer(ITurnTaker)
class SlicedAnswers:
    """Makes answers one after the other, so that only one of them takes memory at a time. Hosts take turns."""

    origin = ""
    waits_for_ticks = True

    def __init__(self, clock: IReactorTime, fair_share: FairShare) -> None:
        self._clock = clock
        self._fair_share = fair_share
        #: By host: the first of the first host is being made.
        self._waiting: OrderedDict[str, OrderedDict[Deferred[Response], Steps[Response]]] = OrderedDict()

    def make(self, steps: Steps[Response], left: Deferred[None], host: str = "") -> Deferred[Response]:
        """The answer of some steps, begun at once when no other is being made; it is often ready after its first slice.

        :param left: fails when the peer has left; then the answer is not made.
        :param host: of the peer; on a UNIX socket its process.
        """
        answer: Deferred[Response] = Deferred()
        is_first = not self._waiting
        self._waiting.setdefault(host, OrderedDict())[answer] = steps
        left.addErrback(lambda _: self._take(host, answer))
        if not is_first or self.take_turn():
            self._fair_share.request_turn(self)
        return answer

    def _take(self, host: str, answer: Deferred[Response]) -> None:
        """An answer is made, or its peer has left."""
        answers = self._waiting.get(host)
        if answers is not None and answers.pop(answer, None) is not None and not answers:
            del self._waiting[host]

    def take_turn(self) -> bool:
        """Work on the oldest answer for a slice; return whether there is more to do."""
        if not self._waiting:
            return False
        host, answers = next(iter(self._waiting.items()))
        answer, steps = next(iter(answers.items()))
        seconds = self._clock.seconds
        until = seconds() + _SLICE_SECONDS
        try:
            while True:
                next(steps)
                if seconds() >= until:
                    return True
        except StopIteration as done:
            self._waiting.move_to_end(host)
            self._take(host, answer)
            answer.callback(done.value)
        except Exception:
            self._waiting.move_to_end(host)
            self._take(host, answer)
            answer.errback()
        return bool(self._waiting)
