"""``fakedev serve`` that writes how long the steps of its reactor took, by the processor time of their thread.

``python benchmarks/watched_serve.py STEPS serve ...`` appends a line to the file STEPS for each step of 5 ms or more: a
delayed call, a reading or writing of a connection, a call from a thread, with the collections of garbage within them.
Unlike the time of the clock it has no part in which other programs used the core.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from twisted.internet import base, epollreactor

_MIN_SECONDS = 0.005


def main() -> int:
    """Run the program."""
    with open(sys.argv[1], "a", buffering=1) as steps:

        def timed(call: Callable[..., Any]) -> Callable[..., Any]:
            def step(*arguments: Any, **options: Any) -> Any:
                began = thread_time()
                try:
                    return call(*arguments, **options)
                finally:
                    seconds = thread_time() - began
                    if seconds >= _MIN_SECONDS:
                        steps.write(f"{seconds}\n")

            return step

        class_of_reactor: Any = base.ReactorBase
        later, from_thread = class_of_reactor.callLater, class_of_reactor.callFromThread
        class_of_reactor.callLater = lambda self, delay, call, *a, **k: later(self, delay, timed(call), *a, **k)
        class_of_reactor.callFromThread = lambda self, call, *a, **k: from_thread(self, timed(call), *a, **k)
        polled: Any = epollreactor.EPollReactor
        polled._doReadOrWrite = timed(polled._doReadOrWrite)
        from fakedev.commands.main import main as fakedev  # noqa: PLC0415 - after the reactor's class was changed

        return fakedev(sys.argv[2:])


if __name__ == "__main__":
    raise SystemExit(main())
