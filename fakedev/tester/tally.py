"""Who answered: counts and run times of one node, device or pod."""

from __future__ import annotations

import math
from typing import Final

from fakedev.tester.names import ByName
from fakedev.tester.quantiles import COARSE, Histogram
from fakedev.workqueue.histogram import JOB_BUCKETS
from fakedev.workqueue.outcome import Answer, Outcome

#: Devices and pods told apart on one node.
_MOST_PER_NODE: Final = 32


class Count:
    """A number that grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Tally:
    """The answers of one node, device or pod.

    :ivar run: how long its runs took.
    :ivar last_error: the text of its last answer that was no success; empty while there was none.
    """

    __slots__ = ("answers", "failures", "last_error", "run")

    def __init__(self) -> None:
        self.answers = 0
        self.failures = 0
        self.last_error = ""
        self.run = Histogram(COARSE)

    def run_ranges(self) -> list[tuple[float, int]]:
        """How many runs took up to which seconds, and longer than the bound before; without ranges of nothing."""
        bounds = (*JOB_BUCKETS, math.inf)
        return [(bound, n) for bound, n in zip(bounds, self.run.counts_within(JOB_BUCKETS), strict=True) if n]

    def add(self, answer: Answer, error: str) -> None:
        """Count an answer."""
        self.answers += 1
        self.run.add(answer.run_seconds)
        if answer.outcome is not Outcome.SUCCESS:
            self.failures += 1
            self.last_error = error


class NodeTally(Tally):
    """The answers of a node, and how they spread over its devices and pods."""

    __slots__ = ("devices", "pods")

    def __init__(self) -> None:
        super().__init__()
        self.devices = ByName(Count, _MOST_PER_NODE)
        self.pods = ByName(Count, _MOST_PER_NODE)

    def add(self, answer: Answer, error: str) -> None:
        """Count an answer."""
        super().add(answer, error)
        self.devices[answer.device].value += 1
        self.pods[answer.pod].value += 1
