"""``fakedev serve`` that writes how long the steps of its reactor took, by the processor time of their thread.

``python benchmarks/watched_serve.py STEPS serve ...`` appends a line to the file STEPS for each step of 5 ms or more: a
delayed call, a reading or writing of a connection, a call from a thread, with the collections of garbage within them.
Unlike the time of the clock it has no part in which other programs used the core. The line has the seconds and the
name of what was called; after 15 ms, and every 4 ms from then on, the functions that ran just then; and the
collections of garbage, each with its generation and milliseconds. So the cause of a long step is known from one run.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from time import thread_time
from types import FrameType
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from twisted.internet import base, epollreactor

_MIN_SECONDS = 0.005
#: Functions are noted from here on, so often, and so many of each look.
_LOOK_FROM_SECONDS = 0.015
_LOOK_SECONDS = 0.004
_LOOK_DEPTH = 5


class _Steps:
    """The steps of a reactor, written when they are long."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._began: float | None = None
        self._collection_began = 0.0
        self._notes: list[str] = []

    def watch(self) -> None:
        """Begin to look at what runs, by a timer of processor time, and at collections of garbage."""
        signal.signal(signal.SIGPROF, self._look)
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, _LOOK_SECONDS, _LOOK_SECONDS)
        gc.callbacks.append(self._collects)

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, which is a step unless it is made within one."""

        def step(*arguments: Any, **options: Any) -> Any:
            if self._began is not None:
                return call(*arguments, **options)
            self._began = began = thread_time()
            try:
                return call(*arguments, **options)
            finally:
                self._began = None
                seconds = thread_time() - began
                if seconds >= _MIN_SECONDS:
                    name = getattr(call, "__qualname__", repr(call))
                    self._file.write(f"{seconds:.6f} {name} {' | '.join(self._notes)}\n")
                self._notes.clear()

        return step

    def _look(self, _number: int, frame: FrameType | None) -> None:
        if self._began is None or thread_time() - self._began < _LOOK_FROM_SECONDS:
            return
        names: list[str] = []
        while frame is not None and len(names) < _LOOK_DEPTH:
            names.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
            frame = frame.f_back
        self._notes.append(f"{(thread_time() - self._began) * 1000:.0f} ms " + " < ".join(names))

    def _collects(self, phase: str, info: Mapping[str, int]) -> None:
        if self._began is None:
            return
        if phase == "start":
            self._collection_began = thread_time()
        else:
            milliseconds = (thread_time() - self._collection_began) * 1000
            self._notes.append(f"collection of generation {info['generation']} {milliseconds:.1f} ms")


def main() -> int:
    """Run the program."""
    with open(sys.argv[1], "a", buffering=1) as file:
        steps = _Steps(file)
        timed = steps.timed
        class_of_reactor: Any = base.ReactorBase
        later, from_thread = class_of_reactor.callLater, class_of_reactor.callFromThread
        class_of_reactor.callLater = lambda self, delay, call, *a, **k: later(self, delay, timed(call), *a, **k)
        class_of_reactor.callFromThread = lambda self, call, *a, **k: from_thread(self, timed(call), *a, **k)
        polled: Any = epollreactor.EPollReactor
        polled._doReadOrWrite = timed(polled._doReadOrWrite)
        from fakedev.commands.main import main as fakedev  # noqa: PLC0415 - after the reactor's class was changed

        steps.watch()
        return fakedev(sys.argv[2:])


if __name__ == "__main__":
    raise SystemExit(main())
