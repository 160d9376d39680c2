"""Long work in steps: a generator that stops after each step, and returns the result of all."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final, TypeVar

Result = TypeVar("Result")
#: Each step takes some milliseconds at most.
Steps = Generator[None, None, Result]
#: Workloads, or pairs of a workload and a device, that are taken in one step: each takes some microseconds at most.
AT_ONCE: Final = 1000


def result_of(steps: Steps[Result]) -> Result:
    """Do all steps."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: Result = done.value
        return result


def spans(count: int) -> Iterator[slice]:
    """``count`` places, AT_ONCE at a time."""
    return (slice(first, first + AT_ONCE) for first in range(0, count, AT_ONCE))
