"""What one run of a command takes: wall clock, processor time and memory, of it and of all that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter
from typing import NamedTuple

_COMMAND = "import sys; from fakedev.commands.main import main; sys.exit(main(sys.argv[1:]))"


class Took(NamedTuple):
    """What a command took.

    :ivar cpu_seconds: None: not known, because a part of it was done by a program that was killed.
    :ivar megabytes: the most resident memory of it, or of a program that it started.
    """

    seconds: float
    cpu_seconds: float | None
    megabytes: float


def run_fakedev(*arguments: str) -> Took:
    """Run ``fakedev`` with some arguments, in a process whose children are all counted."""
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            began = perf_counter()
            words = [sys.executable, "-c", _COMMAND, *arguments]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            used = getrusage(RUSAGE_CHILDREN)
            found = f"{perf_counter() - began} {used.ru_utime + used.ru_stime} {used.ru_maxrss / 1000}"
            os.write(write, found.encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        return Took(*map(float, stream.read().split()))
