"""Work in a copy of this process, which has all memory as it is now: so the reactor does not wait for the work."""

from __future__ import annotations

import gc
import os
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Final

#: The standard streams stay open in a copy: it prints there what is wrong.
_STANDARD_ERROR: Final = 2
_FIRST_DESCRIPTOR: Final = 3
_ANY_DESCRIPTOR: Final = 2**31 - 1

#: Asks how work goes: None while it runs, then whether it has succeeded.
Outcome = Callable[[], bool | None]


def run_in_copy(work: Callable[[], None]) -> Outcome:
    """Begin work in a copy of this process. It may read memory and write files; it has no socket, thread or reactor.

    An exception of the work is printed.

    :raises OSError: when there can be no copy.
    """
    number = os.fork()
    if number:
        return _Copy(number)
    code = 1
    try:
        # It must not be told what its parent is told, nor hold its ports when that is killed.
        signal.set_wakeup_fd(-1)
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(each, signal.SIG_DFL)
        os.closerange(_FIRST_DESCRIPTOR, _ANY_DESCRIPTOR)
        gc.disable()
        work()
        code = 0
    except BaseException:
        with suppress(Exception):
            os.write(_STANDARD_ERROR, traceback.format_exc(limit=-3).encode())
    finally:
        os._exit(code)


class _Copy:
    """A copy of the process that works."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._outcome: bool | None = None

    def __call__(self) -> bool | None:
        if self._outcome is None:
            try:
                number, status = os.waitpid(self._number, os.WNOHANG)
            except ChildProcessError:  # somebody else has waited for it
                number, status = self._number, 1
            if number:
                self._outcome = status == 0
        return self._outcome
