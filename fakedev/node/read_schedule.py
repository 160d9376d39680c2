"""When PodResources is asked: soon after an allocation, until it shows that, and otherwise now and then. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fakedev.kube.backoff import Backoff

#: Seconds between two questions when nothing happens, and the least between any two: kubelets allow 100 in a second.
IDLE_SECONDS: Final = 10.0
LEAST_SECONDS: Final = 0.1
#: Seconds from an allocation to the first question, and how often a kubelet may not show it yet.
_FIRST_SECONDS: Final = 0.1
_MAX_QUESTIONS: Final = 5


class ReadSchedule:
    """Decides when to ask. Times are seconds of any clock."""

    def __init__(self) -> None:
        self._due_seconds = 0.0
        self._asked_seconds = float("-inf")
        self._is_asking = False
        self._awaited: set[str] = set()
        self._questions = 0
        self._soon = Backoff(_FIRST_SECONDS, IDLE_SECONDS)
        self._errors = Backoff(0.5, IDLE_SECONDS)

    def is_due(self, now: float) -> bool:
        """Whether to ask now."""
        return not self._is_asking and now >= max(self._due_seconds, self._asked_seconds + LEAST_SECONDS)

    def asked(self, now: float) -> None:
        """A question is under way."""
        self._is_asking, self._asked_seconds = True, now

    def allocated(self, ids: Collection[str], now: float) -> None:
        """The kubelet has allocated these devices: it will show them soon."""
        self._awaited.update(ids)
        self._questions = 0
        self._soon.reset()
        self._due_seconds = min(self._due_seconds, now + self._soon.next_seconds())

    def answered(self, ids: Collection[str], now: float) -> None:
        """The answer shows these devices as allocated."""
        self._is_asking = False
        self._errors.reset()
        self._awaited.difference_update(ids)
        if self._awaited and self._questions < _MAX_QUESTIONS:
            self._questions += 1
            self._due_seconds = now + self._soon.next_seconds()
        else:
            # A pod that was refused after its allocation is never shown.
            self._awaited.clear()
            self._due_seconds = now + IDLE_SECONDS

    def failed(self, now: float) -> None:
        """There was no answer."""
        self._is_asking = False
        self._due_seconds = now + self._errors.next_seconds()
