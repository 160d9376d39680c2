"""What a backend runs for a request, how it reports the end of the run, and its next step after an answer.

The next step is to ask for work, to wait and try again, or to end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fakedev.base.backoff import Backoff
from fakedev.queues.job import Report

#: Stands for the device file in the command's and the request's arguments.
PLACEHOLDER: Final = "FILENAME"
#: Instead of a command: wait for the number of seconds in the first argument.
SLEEP: Final = "sleep"
#: Bytes of one argument that Linux passes to a program, its closing NUL included.
MAX_ARGUMENT_BYTES: Final = 131072
#: Bytes of all arguments: well below the limit of Linux with the usual stack limit, as the environment counts too.
MAX_ARGUMENTS_BYTES: Final = 1 << 20
#: About 30 years: a longer time is a mistake.
MAX_SLEEP_SECONDS: Final = 1e9
#: The exit code of a run that reached its time limit, whatever the command's own; the same as timeout(1) uses.
TIME_LIMIT_CODE: Final = 124
#: A shell adds this to the number of a signal to get an exit code.
SIGNAL_CODE_BASE: Final = 128
#: The exit code of a run that did not end normally, or did not start.
NO_RUN_CODE: Final = 1


class RequestFault(Exception):
    """A request that cannot run; its client receives the text."""


@dataclass(frozen=True)
class BackendCommand:
    """The command of a backend.

    :param words: the absolute path of a program and its arguments, or ``sleep`` and its own.
    :param ignores_request: whether the arguments of requests are ignored.
    :param limit_seconds: run-time limit; 0 for none.
    """

    words: tuple[str, ...]
    ignores_request: bool = False
    limit_seconds: float = 0.0

    def for_request(self, arguments: Sequence[str], device_file: str) -> tuple[str, ...]:
        """The words to run: the command's, then the request's, with the device file filled in.

        :param device_file: empty if there is none.
        :raises RequestFault: if the words need a device file and there is none, or cannot be passed to a program.
        """
        words = self.words if self.ignores_request else (*self.words, *arguments)
        if any(PLACEHOLDER in word for word in words):
            if not device_file:
                raise RequestFault(f"{PLACEHOLDER} is among the arguments, but no device file was found")
            words = tuple(word.replace(PLACEHOLDER, device_file) for word in words)
        _check_passable(words)
        return words

    def limit_of(self, request_limit_seconds: float) -> float:
        """The smaller one of the request's and the backend's run-time limits; 0 for none."""
        return min((seconds for seconds in (request_limit_seconds, self.limit_seconds) if seconds > 0), default=0.0)


def sleep_seconds(arguments: Sequence[str]) -> float:
    """The duration of ``sleep`` with these arguments. The first one counts, so the backend's overrides the request's.

    :raises RequestFault: if it is missing or not a number of seconds.
    """
    if not arguments:
        raise RequestFault("sleep needs a number of seconds, and neither the backend nor the request gives one")
    try:
        seconds = float(arguments[0])
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= MAX_SLEEP_SECONDS:
        raise RequestFault(
            f"sleep: {arguments[0][:100]!r} is not a number of seconds from 0 to {MAX_SLEEP_SECONDS:.0f}"
        )
    return seconds


def command_report(command: str, exit_code: int, signal_number: int, run_seconds: float) -> Report:
    """The command exited, or another process killed it.

    :param signal_number: of the signal that killed it; 0 if it exited.
    """
    if signal_number:
        error = f"{command} was ended by signal {signal_number}"
        return Report(SIGNAL_CODE_BASE + signal_number, error, run_seconds=run_seconds)
    error = f"{command} ended with exit code {exit_code}" if exit_code else ""
    return Report(exit_code, error, run_seconds=run_seconds)


def limit_report(command: str, limit_seconds: float, run_seconds: float) -> Report:
    """The command was stopped at its time limit."""
    error = f"{command} was stopped at its time limit of {limit_seconds:g} s"
    return Report(TIME_LIMIT_CODE, error, limit_seconds, run_seconds)


def stopped_report(command: str, run_seconds: float) -> Report:
    """The command was stopped before its end and its time limit."""
    return Report(NO_RUN_CODE, f"{command} was stopped before its end", run_seconds=run_seconds)


def unfinished_report(reason: str, run_seconds: float = 0.0) -> Report:
    """The run could not start, or did not end normally for another reason than its command, time limit or client."""
    return Report(NO_RUN_CODE, reason, run_seconds=run_seconds)


def _check_passable(words: Sequence[str]) -> None:
    total_bytes = 0
    for place, word in enumerate(words):
        try:
            size_bytes = len(word.encode("utf-8", "surrogateescape")) + 1
        except UnicodeEncodeError:
            raise RequestFault(f"argument {place}: contains half a surrogate pair") from None
        if "\0" in word:
            raise RequestFault(f"argument {place}: contains a NUL")
        if size_bytes > MAX_ARGUMENT_BYTES:
            raise RequestFault(f"argument {place}: {size_bytes} bytes; the maximum is {MAX_ARGUMENT_BYTES}")
        total_bytes += size_bytes
    if total_bytes > MAX_ARGUMENTS_BYTES:
        raise RequestFault(f"all arguments: {total_bytes} bytes; the maximum is {MAX_ARGUMENTS_BYTES}")


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
        self._waits = Backoff(FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS)

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
        return Retry(min(self._waits.next_seconds(), remaining_seconds))

    def _connected(self) -> None:
        self._lost_since = None
        self._waits.reset()
