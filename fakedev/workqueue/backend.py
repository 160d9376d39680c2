"""What a backend runs for a request: which words, with which device file in them, and for how long at most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: Stands for the device file in the command's and the request's arguments.
PLACEHOLDER: Final = "FILENAME"
#: In place of a command: wait for as many seconds as the first argument says.
SLEEP: Final = "sleep"
#: Bytes of one argument that Linux passes to a program, its closing NUL included.
MOST_ARGUMENT_BYTES: Final = 131072
#: Bytes of all arguments: well below what Linux passes with the usual stack limit, as the environment needs room too.
MOST_ARGUMENTS_BYTES: Final = 1 << 20
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
        if size_bytes > MOST_ARGUMENT_BYTES:
            raise RequestFault(f"argument {place}: {size_bytes} bytes; a program can be given {MOST_ARGUMENT_BYTES}")
        total_bytes += size_bytes
    if total_bytes > MOST_ARGUMENTS_BYTES:
        raise RequestFault(f"all arguments: {total_bytes} bytes; a program can be given {MOST_ARGUMENTS_BYTES}")
