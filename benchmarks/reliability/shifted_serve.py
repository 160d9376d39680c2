"""``fakedev serve`` whose clock can be set: SIGUSR1 sets it back by an hour, SIGUSR2 forward by a day.

The shift is a fake in this process: what Python's ``time.time`` returns. It is there before Twisted is imported, so
that the reactor has it, too. The clocks of the kernel, of sockets and of files stay.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

SHIFTS: Final = {signal.SIGUSR1: -3600.0, signal.SIGUSR2: 86400.0}


def let_clock_be_set() -> None:
    """Shift ``time.time`` at each of the signals from now on."""
    true_time = time.time
    shift_seconds = 0.0

    def shift(number: int, _: object) -> None:
        nonlocal shift_seconds
        shift_seconds += SHIFTS[signal.Signals(number)]

    for each in SHIFTS:
        signal.signal(each, shift)
    time.time = lambda: true_time() + shift_seconds


def main() -> int:
    """Run the program."""
    let_clock_be_set()
    from fakedev.commands.main import main as fakedev  # noqa: PLC0415 - after the clock was changed

    return fakedev(sys.argv[1:])


if __name__ == "__main__":
    raise SystemExit(main())
