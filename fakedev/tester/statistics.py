"""The statistics of the requests of a plan: tallies by name, and a timeline, in bounded memory.

doc/tester.md defines each number. Tallies count by names that peers choose: nodes, devices, pods, error texts. Their
memory is bounded. The steps of the timeline become longer as the run does, so its memory is constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from fakedev.base.histograms import COARSE, JOB_BUCKETS, QuantileSketch
from fakedev.queues.job import Answer, Outcome
from fakedev.queues.statistics import WindowedRate

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
        """Whether a value belongs to all other names together."""
        return self._values.get(OTHERS) is value

    def values(self) -> Iterable[T]:
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
        super().add(answer, error)
        failed = answer.outcome is not Outcome.SUCCESS
        for count in (self.devices[answer.device], self.pods[answer.pod]):
            count.value += 1
            count.failures += failed
        if failed:
            self.errors[error or answer.outcome.value].value += 1


#: The answers by node, by device or by pod.
Tallies = ByName[Tally] | ByName[NodeTally]


#: Maximum number of steps, an even number; when there are more, each pair becomes one.
MAX_STEPS: Final = 240
_FIRST_STEP_SECONDS: Final = 1.0


@dataclass
class Step:
    """The statistics of one step.

    :ivar outstanding: the maximum of requests in flight.
    :ivar total: of the answered requests, from the intended start to the answer.
    """

    started: int = 0
    successes: int = 0
    failures: int = 0
    outstanding: int = 0
    total: QuantileSketch = field(default_factory=lambda: QuantileSketch(COARSE))

    def merge(self, other: Step) -> None:
        """Add the statistics of another step."""
        self.started += other.started
        self.successes += other.successes
        self.failures += other.failures
        self.outstanding = max(self.outstanding, other.outstanding)
        self.total.merge(other.total)


class Timeline:
    """The steps since the start.

    :ivar step_seconds: the present length of a step: 1 s, doubled as often as necessary.
    """

    def __init__(self, begin: float) -> None:
        self._begin = begin
        self.step_seconds = _FIRST_STEP_SECONDS
        self._steps: dict[int, Step] = {}

    def at(self, now: float) -> Step:
        """The step that contains this time, to count in."""
        place = int((now - self._begin) / self.step_seconds)
        while place >= MAX_STEPS:
            self._halve()
            place = int((now - self._begin) / self.step_seconds)
        step = self._steps.get(place)
        if step is None:
            step = self._steps[place] = Step()
        return step

    def steps(self, now: float) -> Iterator[tuple[float, Step]]:
        """Each step since the start, preceded by its begin in seconds."""
        self.at(now)
        for place in range(int((now - self._begin) / self.step_seconds) + 1):
            yield place * self.step_seconds, self._steps.get(place) or Step()

    def _halve(self) -> None:
        self.step_seconds *= 2
        halved: dict[int, Step] = {}
        for place in sorted(self._steps):
            if place // 2 in halved:
                halved[place // 2].merge(self._steps[place])
            else:
                halved[place // 2] = self._steps[place]
        self._steps = halved


#: A request is late if it starts later than this after its intended start.
LATE_SECONDS: Final = 0.01
#: The window of present rates.
NOW_SECONDS: Final = 10.0
#: Error texts with separate entries.
MAX_ERRORS: Final = 100
#: The parts of a request's time, by the words that all outputs use.
PARTS: Final = ("wait", "run", "communication", "total", "late")
#: Those that the original shows, of successes alone.
ORIGINAL_PARTS: Final = ("run", "wait", "communication")
#: Outcomes that a backend reported: only their times count.
_REPORTED: Final = frozenset((Outcome.SUCCESS, Outcome.FAILURE, Outcome.TIMEOUT))


@dataclass(frozen=True)
class Ticket:
    """A request in flight.

    :param generation: number of resets of the statistics before its start.
    :param intended: its intended start.
    :param sent: its actual start.
    """

    generation: int
    intended: float
    sent: float


class Statistics:
    """Counts requests from their start to their end.

    ``started`` is always the sum of successes, failures of all kinds, withdrawn and pending. A request in flight during
    a reset belongs to the time before, and only counts as outstanding until it ends.

    :ivar outstanding: requests in flight, whenever they started.
    :ivar begin: when the run started, or the last reset.
    :ivar first_start: when the first request after that started; None before.
    :ivar withdrawn: requests that the tester cancelled.
    :ivar late: requests that started more than LATE_SECONDS after their intended start.
    :ivar dropped: arrivals without a request, because too many waited, or the run was over.
    :ivar reconnects: reconnections to the frontend.
    :ivar timings: seconds by PARTS, of the requests that a backend answered.
    :ivar success_timings: seconds by ORIGINAL_PARTS, of the successes.
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
        self.timings = {part: QuantileSketch() for part in PARTS}
        self.success_timings = {part: QuantileSketch(COARSE) for part in ORIGINAL_PARTS}
        self.nodes = ByName(NodeTally)
        self.devices = ByName(Tally)
        self.pods = ByName(Tally)
        self.errors = ByName(Count, MAX_ERRORS)
        self.timeline = Timeline(now)
        self._recent = WindowedRate(NOW_SECONDS, now)

    def reset(self, now: float) -> None:
        """Start again with 0. Requests in flight stay outstanding, and do not count otherwise."""
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
        """A request was answered."""
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
        if answer.outcome in _REPORTED:
            self._time(ticket, answer, now)
            step.total.observe(now - ticket.intended)
        if answer.node or answer.pod or answer.device:
            self.nodes[answer.node].add(answer, error)
            self.pods[answer.pod].add(answer, error)
            self.devices[f"{answer.node}/{answer.device}"].add(answer, error)

    def withdraw(self, ticket: Ticket) -> None:
        """The tester cancels a request, and does not wait for its answer."""
        self.outstanding -= 1
        if ticket.generation == self._generation:
            self.withdrawn += 1

    @property
    def pending(self) -> int:
        """Requests in flight since the last reset."""
        return self.started_count - self.successes - self.failed - self.withdrawn

    @property
    def failed(self) -> int:
        """Failures of all kinds."""
        return sum(self.failures.values())

    @property
    def completed(self) -> int:
        """Requests with an answer."""
        return self.successes + self.failed

    def rate(self, now: float) -> float:
        """Successes per second since the first request, as the original program computes it."""
        elapsed = 0.0 if self.first_start is None else now - self.first_start
        return self.successes / elapsed if elapsed > 0 else 0.0

    def rate_now(self, now: float) -> float:
        """Successes per second over the last ten seconds."""
        return self._recent.per_second(now)

    def _time(self, ticket: Ticket, answer: Answer, now: float) -> None:
        seconds = {
            "wait": answer.wait_seconds,
            "run": answer.run_seconds,
            # Two or three clocks measured the parts: the difference may be negative, which counts as 0.
            "communication": now - ticket.sent - answer.wait_seconds - answer.run_seconds,
            "total": now - ticket.intended,
            "late": ticket.sent - ticket.intended,
        }
        for part, sketch in self.timings.items():
            sketch.observe(seconds[part])
        if answer.outcome is Outcome.SUCCESS:
            for part, sketch in self.success_timings.items():
                sketch.observe(seconds[part])
