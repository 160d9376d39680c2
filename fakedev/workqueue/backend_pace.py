"""What a backend does after each answer, and after none: ask for more, try again later, or end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The first wait before a lost frontend is tried again; each further one is twice as long.
FIRST_RETRY_SECONDS: Final = 0.1
LONGEST_RETRY_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Ask:
    """Ask for work.

    :param idle_seconds: how long work may be in coming: waited at the frontend where it can keep an asker, before
        asking where it cannot.
    """

    idle_seconds: float = 0.0


@dataclass(frozen=True)
class Retry:
    """The frontend is lost: look for it again, after a while."""

    after_seconds: float


@dataclass(frozen=True)
class End:
    """Ask no more.

    :param exit_code: what the program is to end with.
    """

    exit_code: int
    reason: str


Step = Ask | Retry | End


class Pace:
    """The steps of one worker of a backend.

    :param backoff_seconds: wait n times this after the n-th empty answer in a row; 0: end after the first.
    :param most_backoff_seconds: the longest of these waits.
    :param reconnect_seconds: how long a frontend may stay lost; 0: not at all.
    """

    def __init__(self, backoff_seconds: float, most_backoff_seconds: float, reconnect_seconds: float) -> None:
        self._backoff_seconds = backoff_seconds
        self._most_backoff_seconds = most_backoff_seconds
        self._reconnect_seconds = reconnect_seconds
        self._empty_answers = 0
        self._lost_since: float | None = None
        self._retry_seconds = FIRST_RETRY_SECONDS

    def got_work(self) -> Step:
        """The frontend gave a job, which is done now."""
        self._found()
        self._empty_answers = 0
        return Ask()

    def queue_empty(self) -> Step:
        """The frontend had nothing to do."""
        self._found()
        self._empty_answers += 1
        if not self._backoff_seconds:
            return End(0, "the queue is empty")
        return Ask(min(self._empty_answers * self._backoff_seconds, self._most_backoff_seconds))

    def refused(self, text: str) -> Step:
        """The frontend will not serve this backend."""
        return End(1, f"the frontend refuses: {text}")

    def frontend_lost(self, reason: str, now: float) -> Step:
        """The frontend cannot be reached, or left without an answer.

        :param now: seconds; never goes back.
        """
        if self._lost_since is None:
            self._lost_since = now
        left_seconds = self._lost_since + self._reconnect_seconds - now
        if left_seconds <= 0:
            tried = f", tried for {self._reconnect_seconds:g} s" if self._reconnect_seconds else ""
            return End(1, f"the frontend is lost{tried}: {reason}")
        wait_seconds = min(self._retry_seconds, left_seconds)
        self._retry_seconds = min(2 * self._retry_seconds, LONGEST_RETRY_SECONDS)
        return Retry(wait_seconds)

    def _found(self) -> None:
        self._lost_since = None
        self._retry_seconds = FIRST_RETRY_SECONDS
