"""The next step of a backend after each answer: ask for work, wait and try again, or end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The wait before the first attempt to reconnect to the frontend; it doubles with each attempt.
FIRST_RETRY_SECONDS: Final = 0.1
MAX_RETRY_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Ask:
    """Ask for work.

    :param idle_seconds: how long to wait for work: at the frontend if the protocol can wait there, else before asking.
    """

    idle_seconds: float = 0.0


@dataclass(frozen=True)
class Retry:
    """The frontend is lost: reconnect after a wait."""

    after_seconds: float


@dataclass(frozen=True)
class End:
    """End the program.

    :param exit_code: of the program.
    """

    exit_code: int
    reason: str


Step = Ask | Retry | End


class Pace:
    """The steps of one worker of a backend.

    :param backoff_seconds: the wait after the n-th empty answer in a row is n times this; 0: end after the first.
    :param max_backoff_seconds: the maximum of these waits.
    :param reconnect_seconds: how long to try to reconnect to a lost frontend; 0: end at once.
    """

    def __init__(self, backoff_seconds: float, max_backoff_seconds: float, reconnect_seconds: float) -> None:
        self._backoff_seconds = backoff_seconds
        self._max_backoff_seconds = max_backoff_seconds
        self._reconnect_seconds = reconnect_seconds
        self._empty_answers = 0
        self._lost_since: float | None = None
        self._retry_seconds = FIRST_RETRY_SECONDS

    def got_work(self) -> Step:
        """The frontend gave a job, and its run has ended."""
        self._connected()
        self._empty_answers = 0
        return Ask()

    def queue_empty(self) -> Step:
        """The frontend had no work."""
        self._connected()
        self._empty_answers += 1
        if not self._backoff_seconds:
            return End(0, "the queue is empty")
        return Ask(min(self._empty_answers * self._backoff_seconds, self._max_backoff_seconds))

    def refused(self, text: str) -> Step:
        """The frontend refuses this backend."""
        return End(1, f"the frontend refuses: {text}")

    def frontend_lost(self, reason: str, now: float) -> Step:
        """The frontend cannot be reached, or disconnected without an answer.

        :param now: monotonic seconds.
        """
        if self._lost_since is None:
            self._lost_since = now
        remaining_seconds = self._lost_since + self._reconnect_seconds - now
        if remaining_seconds <= 0:
            tried = f", tried for {self._reconnect_seconds:g} s" if self._reconnect_seconds else ""
            return End(1, f"the frontend is lost{tried}: {reason}")
        wait_seconds = min(self._retry_seconds, remaining_seconds)
        self._retry_seconds = min(2 * self._retry_seconds, MAX_RETRY_SECONDS)
        return Retry(wait_seconds)

    def _connected(self) -> None:
        self._lost_since = None
        self._retry_seconds = FIRST_RETRY_SECONDS
