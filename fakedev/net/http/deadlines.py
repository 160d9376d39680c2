"""When a peer must have sent or taken something, kept with one timer for each connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fakedev.net.system.timing import no_op


class Deadlines:
    """Two deadlines: for input that is awaited, and for output that the peer should take.

    The timer is moved only towards now; when it runs out too early it is set again. So what happens with every request
    costs a comparison, not a timer.

    :param reactor: provides IReactorTime.
    """

    def __init__(self, reactor: Any, input_is_late: Callable[[], None], output_is_late: Callable[[], None]) -> None:
        self._reactor = reactor
        self._input_is_late = input_is_late
        self._output_is_late = output_is_late
        self._input_by: float | None = None
        self._output_by: float | None = None
        self._timer: Any = None
        self._timer_at = 0.0

    @property
    def awaits_output(self) -> bool:
        """Whether the peer has something to take."""
        return self._output_by is not None

    def input_in(self, seconds: float) -> None:
        """What is awaited must be here in ``seconds``."""
        self._input_by = self._reactor.seconds() + seconds
        self._set_timer(self._input_by)

    def output_in(self, seconds: float) -> None:
        """Something must have been taken in ``seconds``."""
        self._output_by = self._reactor.seconds() + seconds
        self._set_timer(self._output_by)

    def input_arrived(self) -> None:
        """No input is awaited."""
        self._input_by = None

    def output_left(self) -> None:
        """There is nothing to take."""
        self._output_by = None

    def stop(self) -> None:
        """No deadline matters any more, and nothing here points back at the connection."""
        self._input_by = self._output_by = None
        self._input_is_late = self._output_is_late = no_op
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, when: float) -> None:
        if self._timer is None:
            self._timer_at = when
            self._timer = self._reactor.callLater(max(0.0, when - self._reactor.seconds()), self._run_out)
        elif when < self._timer_at:
            self._timer_at = when
            self._timer.reset(max(0.0, when - self._reactor.seconds()))

    def _run_out(self) -> None:
        self._timer = None
        now = self._reactor.seconds()
        if self._output_by is not None and now >= self._output_by:
            self._output_by = None
            self._output_is_late()
        elif self._input_by is not None and now >= self._input_by:
            self._input_by = None
            self._input_is_late()
        following = [when for when in (self._input_by, self._output_by) if when is not None]
        if following:
            self._set_timer(min(following))
