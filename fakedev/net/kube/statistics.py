"""What our own metrics show of the connection with an API server, and what is wrong with it at the moment."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

#: Beyond this number the oldest troubles are forgotten.
_MOST_TROUBLES: Final = 500


@dataclass
class ApiStatistics:
    """Counts since the start.

    :param requests: by verb, resource (``nodes/status``) and code of HTTP; code 0: there was no answer.
    :param watch_restarts: by resource and reason: ``ended``, ``expired``, ``broken``, ``silent``, ``garbled``,
        ``refused``, ``unreachable``.
    :param last_event_seconds: by watched resource: when the last list, event or bookmark came, by the clock.
    :param is_connected: whether the last request was answered.
    """

    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    watch_restarts: Counter[tuple[str, str]] = field(default_factory=Counter)
    last_event_seconds: dict[str, float] = field(default_factory=dict)
    is_connected: bool = False

    def seconds_since_event(self, now_seconds: float) -> dict[str, float]:
        """How long ago the last event or bookmark of each watched resource came."""
        return {name: max(0.0, now_seconds - seconds) for name, seconds in self.last_event_seconds.items()}


class Troubles:
    """What does not work now. Each is logged once when it begins, and once when it is over."""

    log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._active: OrderedDict[Hashable, tuple[str, float]] = OrderedDict()

    @property
    def texts(self) -> tuple[str, ...]:
        """A sentence for each, the oldest first."""
        return tuple(text for text, _ in self._active.values())

    def began(self, key: Hashable, text: str) -> None:
        """Something does not work; again the same until it is over."""
        if key in self._active:
            self._active[key] = (text, self._active[key][1])
            return
        while len(self._active) >= _MOST_TROUBLES:
            self._active.popitem(last=False)
        self._active[key] = (text, self._clock.seconds())
        self.log.warn("Kubernetes: {text}", text=text)

    def over(self, key: Hashable) -> None:
        """It works."""
        if self._active and (was := self._active.pop(key, None)) is not None:
            text, began_seconds = was
            seconds = round(self._clock.seconds() - began_seconds, 1)
            self.log.info("Kubernetes: over after {seconds} s: {text}", seconds=seconds, text=text)
