"""What a backend runs for a request: which words, with which device file in them, and for how long at most.

What a backend does after each answer, and after none: ask for more, try again later, or end.

What a backend reports of a run, by how it ended.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fakedev.workqueue.job import Report

#: Stands for the device file in the command's and the request's arguments.
PLACEHOLDER: Final = "FILENAME"
#: In place of a command: wait for as many seconds as the first argument says.
SLEEP: Final = "sleep"
#: Bytes of one argument that Linux passes to a program, its closing NUL included.
MAX_ARGUMENT_BYTES: Final = 131072
#: Bytes of all arguments: well below what Linux passes with the usual stack limit, as the environment needs room too.
MAX_ARGUMENTS_BYTES: Final = 1 << 20
#: Some 30 years: what lasts longer is a slip.
LONGEST_SECONDS: Final = 1e9


class RequestFault(Exception):
    """A request that cannot be run as it is; its client is told the text."""


@dataclass(frozen=True)
class BackendCommand:
    """What a backend was started to run.

    :param words: the absolute path of a program and its arguments, or ``sleep`` and its own.
    :param ignores_request: whether the arguments of requests are left out.
    :param limit_seconds: run-time limit; 0 for none.
    """

    words: tuple[str, ...]
    ignores_request: bool = False
    limit_seconds: float = 0.0

    def for_request(self, arguments: Sequence[str], device_file: str) -> tuple[str, ...]:
        """The words to run: the command's own, then the request's, with the device file put in.

        :param device_file: empty when there is none.
        :raises RequestFault: when the words name a device file and there is none, or cannot be passed to a program.
        """
        words = self.words if self.ignores_request else (*self.words, *arguments)
        if any(PLACEHOLDER in word for word in words):
            if not device_file:
                raise RequestFault(f"{PLACEHOLDER} is among the arguments, but no device file was found to put there")
            words = tuple(word.replace(PLACEHOLDER, device_file) for word in words)
        _check_passable(words)
        return words

    def limit_of(self, request_limit_seconds: float) -> float:
        """The run-time limit of a request: the smaller one of its own and the backend's; 0 for none."""
        return min((seconds for seconds in (request_limit_seconds, self.limit_seconds) if seconds > 0), default=0.0)


def sleep_seconds(arguments: Sequence[str]) -> float:
    """How long ``sleep`` with these arguments takes: the first one counts, so that the backend's wins.

    :raises RequestFault: when it is missing or no number of seconds.
    """
    if not arguments:
        raise RequestFault("sleep needs a number of seconds, and neither the backend nor the request gives one")
    try:
        seconds = float(arguments[0])
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= LONGEST_SECONDS:
        raise RequestFault(f"sleep: {arguments[0][:100]!r} is no number of seconds from 0 to {LONGEST_SECONDS:.0f}")
    return seconds


def _check_passable(words: Sequence[str]) -> None:
    total_bytes = 0
    for place, word in enumerate(words):
        try:
            size_bytes = len(word.encode("utf-8", "surrogateescape")) + 1
        except UnicodeEncodeError:
            raise RequestFault(f"argument {place}: holds half a surrogate pair") from None
        if "\0" in word:
            raise RequestFault(f"argument {place}: holds a NUL")
        if size_bytes > MAX_ARGUMENT_BYTES:
            raise RequestFault(f"argument {place}: {size_bytes} bytes; a program can be given {MAX_ARGUMENT_BYTES}")
        total_bytes += size_bytes
    if total_bytes > MAX_ARGUMENTS_BYTES:
        raise RequestFault(f"all arguments: {total_bytes} bytes; a program can be given {MAX_ARGUMENTS_BYTES}")

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
    :param max_backoff_seconds: the longest of these waits.
    :param reconnect_seconds: how long a frontend may stay lost; 0: not at all.
    """

    def __init__(self, backoff_seconds: float, max_backoff_seconds: float, reconnect_seconds: float) -> None:
        self._backoff_seconds = backoff_seconds
        self._max_backoff_seconds = max_backoff_seconds
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
        return Ask(min(self._empty_answers * self._backoff_seconds, self._max_backoff_seconds))

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

#: The exit code of a run that its time limit ended, whatever the command made of the signal; as timeout(1) has it.
TIME_LIMIT_CODE: Final = 124
#: What a shell adds to the number of a signal to make an exit code.
SIGNAL_CODE_BASE: Final = 128
#: The exit code of a run that came to no end of its own, or had no beginning.
NO_RUN_CODE: Final = 1


def command_report(command: str, exit_code: int, signal_number: int, run_seconds: float) -> Report:
    """A command ended by itself, or by a signal that somebody else sent.

    :param signal_number: 0 when it ended by itself.
    """
    if signal_number:
        error = f"{command} was ended by signal {signal_number}"
        return Report(SIGNAL_CODE_BASE + signal_number, error, run_seconds=run_seconds)
    error = f"{command} ended with exit code {exit_code}" if exit_code else ""
    return Report(exit_code, error, run_seconds=run_seconds)


def limit_report(command: str, limit_seconds: float, run_seconds: float) -> Report:
    """A command was ended at its time limit."""
    error = f"{command} was stopped at its time limit of {limit_seconds:g} s"
    return Report(TIME_LIMIT_CODE, error, limit_seconds, run_seconds)


def stopped_report(command: str, run_seconds: float) -> Report:
    """A command was stopped before its end and its limit."""
    return Report(NO_RUN_CODE, f"{command} was stopped before its end", run_seconds=run_seconds)


def unfinished_report(reason: str, run_seconds: float) -> Report:
    """Somebody other than the command, its limit or its client brought a run to no end."""
    return Report(NO_RUN_CODE, reason, run_seconds=run_seconds)


def no_run_report(reason: str) -> Report:
    """A run could not begin."""
    return unfinished_report(reason, 0.0)
