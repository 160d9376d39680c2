"""What is known of the requests of a plan, in constant memory. doc/tester.md defines each number.

Who answered: counts and run times of one node, device or pod.

Counts by names that others choose: nodes, devices, pods, error texts. Bounded, whatever they send.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from fakedev.tester.quantiles import COARSE, Histogram
from fakedev.tester.timeline import Timeline
from fakedev.workqueue.histogram import JOB_BUCKETS
from fakedev.workqueue.job import Answer, Outcome
from fakedev.workqueue.windowed import WindowedRate

T = TypeVar("T")

#: How many names are told apart; all further ones share one entry.
MAX_NAMES: Final = 4096
#: The entry of the names beyond; no peer can choose it, since names are kept without line ends.
OTHERS: Final = "(others)\n"
#: Places of all names that there can be.
ALL: Final = range(MAX_NAMES + 1)
#: How much of a name or text is kept, in characters.
MAX_CHARACTERS: Final = 200


class ByName(Generic[T]):
    """A value for each name, made when the name comes first.

    :param make: makes the value of a new name.
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
        """Names with their values, in the order of names, the entry for all others last.

        :param which: the places of those that are wanted.
        """
        for name in sorted(self._values, key=lambda name: (name == OTHERS, name))[which.start : which.stop]:
            yield name.rstrip("\n"), self._values[name]

    def values(self) -> Iterable[T]:
        """All values, in any order."""
        return self._values.values()


def kept_text(text: str) -> str:
    """A text as it is kept: one line, not too long, nothing that steers a terminal."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:MAX_CHARACTERS])
    return shown if len(text) <= MAX_CHARACTERS and len(shown) <= MAX_CHARACTERS else shown[:MAX_CHARACTERS] + "..."

#: Devices and pods told apart on one node.
_MAX_PER_NODE: Final = 32


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
        self.devices = ByName(Count, _MAX_PER_NODE)
        self.pods = ByName(Count, _MAX_PER_NODE)

    def add(self, answer: Answer, error: str) -> None:
        """Count an answer."""
        super().add(answer, error)
        self.devices[answer.device].value += 1
        self.pods[answer.pod].value += 1

#: A request that starts so much after its time is late.
LATE_SECONDS: Final = 0.01
#: What is called now, of a rate.
NOW_SECONDS: Final = 10.0
#: Error texts that are told apart.
MAX_ERRORS: Final = 100
#: The parts of a request's time, by the words that all outputs use.
PARTS: Final = ("wait", "run", "communication", "total", "late")
#: Ends that a backend has answered: only their times mean something.
_RAN: Final = frozenset((Outcome.SUCCESS, Outcome.FAILURE, Outcome.TIMEOUT))


@dataclass(frozen=True)
class Ticket:
    """A request under way.

    :param generation: how often the statistics had been reset when it started.
    :param intended: when it was meant to start.
    :param sent: when it did.
    """

    generation: int
    intended: float
    sent: float


class Statistics:
    """Counts requests from their start to their end.

    ``started`` is always the sum of successes, failures of all kinds, withdrawn and pending: a request that was under
    way at a reset belongs to the time before it, and is only counted as outstanding until it ends.

    :ivar outstanding: requests under way, whenever they started.
    :ivar begin: when the run began, or the last reset was.
    :ivar first_start: when the first request after that started; None before.
    :ivar withdrawn: requests that the tester itself took back.
    :ivar late: requests that started more than LATE_SECONDS after their time.
    :ivar dropped: arrivals for which no request was started, since too many waited, or the run was over.
    :ivar reconnects: connections to the frontend made anew after one was lost.
    :ivar timings: seconds by PARTS, of the requests that a backend answered.
    """

    def __init__(self, now: float) -> None:
        self.outstanding = 0
        self._generation = 0
        self._clear(now)

    def _clear(self, now: float) -> None:
        self.begin = now
        self.first_start: float | None = None
        self.started_count = 0
        self.successes = 0
        self.failures = dict.fromkeys((outcome for outcome in Outcome if outcome is not Outcome.SUCCESS), 0)
        self.withdrawn = 0
        self.late = 0
        self.dropped = 0
        self.reconnects = 0
        self.timings = {part: Histogram() for part in PARTS}
        self.nodes = ByName(NodeTally)
        self.devices = ByName(Tally)
        self.pods = ByName(Tally)
        self.errors = ByName(Count, MAX_ERRORS)
        self.timeline = Timeline(now)
        self._recent = WindowedRate(NOW_SECONDS, now)

    def reset(self, now: float) -> None:
        """Begin anew; requests under way stay outstanding and count no further."""
        self._generation += 1
        self._clear(now)

    def started(self, intended: float, now: float) -> Ticket:
        """A request is sent now."""
        self.outstanding += 1
        self.started_count += 1
        if self.first_start is None:
            self.first_start = now
        if now - intended > LATE_SECONDS:
            self.late += 1
        step = self.timeline.at(now)
        step.started += 1
        step.outstanding = max(step.outstanding, self.outstanding)
        return Ticket(self._generation, intended, now)

    def answered(self, ticket: Ticket, answer: Answer, now: float) -> None:
        """A request is over."""
        self.outstanding -= 1
        if ticket.generation != self._generation:
            return
        error = kept_text(answer.error)
        step = self.timeline.at(now)
        if answer.outcome is Outcome.SUCCESS:
            self.successes += 1
            step.successes += 1
            self._recent.count(now)
        else:
            self.failures[answer.outcome] += 1
            step.failures += 1
            self.errors[error or answer.outcome.value].value += 1
        if answer.outcome in _RAN:
            self._time(ticket, answer, now)
            step.total.add(now - ticket.intended)
        if answer.node or answer.pod or answer.device:
            self.nodes[answer.node].add(answer, error)
            self.pods[answer.pod].add(answer, error)
            self.devices[f"{answer.node}/{answer.device}"].add(answer, error)

    def withdraw(self, ticket: Ticket) -> None:
        """The tester takes a request back: it is not waited for any more."""
        self.outstanding -= 1
        if ticket.generation == self._generation:
            self.withdrawn += 1

    @property
    def pending(self) -> int:
        """Requests under way that count."""
        return self.started_count - self.successes - self.failed - self.withdrawn

    @property
    def failed(self) -> int:
        """Failures of all kinds."""
        return sum(self.failures.values())

    @property
    def completed(self) -> int:
        """Requests that are over, well or not."""
        return self.successes + self.failed

    def rate(self, now: float) -> float:
        """Successes per second over the time since the first request, as the original computes it."""
        elapsed = 0.0 if self.first_start is None else now - self.first_start
        return self.successes / elapsed if elapsed > 0 else 0.0

    def rate_now(self, now: float) -> float:
        """Successes per second over the last ten seconds."""
        return self._recent.per_second(now)

    def _time(self, ticket: Ticket, answer: Answer, now: float) -> None:
        timings = self.timings
        timings["wait"].add(answer.wait_seconds)
        timings["run"].add(answer.run_seconds)
        # The parts were measured by two or three clocks: what is left may be below 0, and counts as 0 then.
        timings["communication"].add(now - ticket.sent - answer.wait_seconds - answer.run_seconds)
        timings["total"].add(now - ticket.intended)
        timings["late"].add(ticket.sent - ticket.intended)
