"""Counts by names that peers choose: nodes, devices, pods, error texts. Their memory is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

from fakedev.spec.histogram import JOB_BUCKETS
from fakedev.tester.quantiles import COARSE, QuantileSketch
from fakedev.workqueue.outcome import Answer, Outcome

T = TypeVar("T")

#: Maximum number of names with separate entries; all others share one entry.
MAX_NAMES: Final = 4096
#: The entry of all other names. Peers cannot choose this name, as names are kept without line ends.
OTHERS: Final = "(others)\n"
#: The indexes of all entries.
ALL: Final = range(MAX_NAMES + 1)
#: Maximum characters of a name or text.
MAX_CHARACTERS: Final = 200
#: Points of the run times of a node, device or pod; see expectation.POINTS.
TALLY_POINTS: Final = ("min", "mean", "p50", "p99", "max")
#: Devices and pods with separate entries on one node.
_MAX_PER_NODE: Final = 32


class ByName(Generic[T]):
    """A value for each name, created with the first use of the name.

    :param make: creates the value of a new name.
    """

    def __init__(self, make: Callable[[], T], max_names: int = MAX_NAMES) -> None:
        self._make = make
        self._max_names = max_names
        self._values: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        value = self._values.get(name)
        if value is not None:
            return value
        name = kept_text(name)
        if name not in self._values and len(self._values) >= self._max_names:
            name = OTHERS
        return self._values.setdefault(name, self._make())

    def __len__(self) -> int:
        return len(self._values)

    def items(self, which: range = ALL) -> Iterator[tuple[str, T]]:
        """Names with their values, sorted by name, the entry of all other names last.

        :param which: the indexes of the wanted entries.
        """
        for name in sorted(self._values, key=lambda name: (name == OTHERS, name))[which.start : which.stop]:
            yield name.rstrip("\n"), self._values[name]

    def is_others(self, value: object) -> bool:
        """Whether a value is that of all other names."""
        return self._values.get(OTHERS) is value

    def values(self) -> Iterable[T]:
        """All values, in any order."""
        return self._values.values()


def kept_text(text: str) -> str:
    """A text on one line of limited length, without control characters."""
    kept = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:MAX_CHARACTERS])
    return kept if len(text) <= MAX_CHARACTERS and len(kept) <= MAX_CHARACTERS else kept[:MAX_CHARACTERS] + "..."


class Count:
    """A number that grows.

    :ivar failures: how many of them are no successes.
    """

    __slots__ = ("failures", "value")

    def __init__(self) -> None:
        self.value = 0
        self.failures = 0


class Tally:
    """The answers of one node, device or pod.

    :ivar run: its run times.
    :ivar last_error: the text of its last answer without success; empty if there is none.
    """

    __slots__ = ("answers", "failures", "last_error", "run")

    def __init__(self) -> None:
        self.answers = 0
        self.failures = 0
        self.last_error = ""
        self.run = QuantileSketch(COARSE)

    def run_ranges(self) -> list[tuple[float, int]]:
        """Run times in ranges: upper bounds in seconds with the number of runs; without empty ranges."""
        return [(bound, count) for bound, count in self.run.histogram(JOB_BUCKETS).ranges() if count]

    def add(self, answer: Answer, error: str) -> None:
        """Count an answer."""
        self.answers += 1
        self.run.observe(answer.run_seconds)
        if answer.outcome is not Outcome.SUCCESS:
            self.failures += 1
            self.last_error = error


class NodeTally(Tally):
    """The answers of a node, their distribution over its devices and pods, and its errors."""

    __slots__ = ("devices", "errors", "pods")

    def __init__(self) -> None:
        super().__init__()
        self.devices = ByName(Count, _MAX_PER_NODE)
        self.pods = ByName(Count, _MAX_PER_NODE)
        self.errors = ByName(Count, _MAX_PER_NODE)

    def add(self, answer: Answer, error: str) -> None:
        """Count an answer."""
        super().add(answer, error)
        failed = answer.outcome is not Outcome.SUCCESS
        for count in (self.devices[answer.device], self.pods[answer.pod]):
            count.value += 1
            count.failures += failed
        if failed:
            self.errors[error or answer.outcome.value].value += 1


#: The answers by node, by device or by pod.
Tallies = ByName[Tally] | ByName[NodeTally]
