"""The entries of a timeline as people write them, their occurrences, and the scenario with all of it: frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fakedev.fleet.spec.fleet_spec import FaultSpec
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.schema.declare import setting

#: In the place of a device or a node: one that the seed draws.
ANY: Final = "any"
#: In the place of an entry's name: all faults, or all workloads of the timeline.
ALL: Final = "all"
#: In the place of what a rule is to find: it must not fire.
NOTHING: Final = "none"


class Span(NamedTuple):
    """A time in seconds; drawn between two ends where they differ."""

    least: float
    most: float

    @property
    def is_drawn(self) -> bool:
        return self.most > self.least


NO_TIME: Final = Span(0.0, 0.0)


@dataclass(frozen=True)
class When:
    """When an entry occurs.

    :ivar at: of the first time, since the start; None: after another entry.
    :ivar after: the entry after whose occurrences it occurs; empty: at its own time.
    :ivar delay: from the occurrence of the other entry.
    :ivar every: from one occurrence to the next; None: once.
    :ivar times: the most occurrences; 0: as many as there is time for.
    :ivar until_seconds: it does not occur from then on; None: to the end.
    """

    at: Span | None = None
    after: str = ""
    delay: Span = NO_TIME
    every: Span | None = None
    times: int = 0
    until_seconds: float | None = None


@dataclass(frozen=True)
class Run:
    """Start a workload.

    :ivar for_seconds: it is stopped after that; 0: it ends by itself, or not at all.
    """

    workload: WorkloadSpec
    for_seconds: float = 0.0


@dataclass(frozen=True)
class Inject:
    """Inject a fault."""

    fault: FaultSpec


@dataclass(frozen=True)
class Clear:
    """Clear the faults of an entry that are not over, or ALL faults."""

    entry: str


@dataclass(frozen=True)
class Stop:
    """Stop the workloads of an entry or of a name, or ALL workloads."""

    name: str


@dataclass(frozen=True)
class Reconfigure:
    """Use another configuration.

    :ivar number: its place among the configurations of the scenario.
    :ivar words: which one, for people.
    """

    number: int
    words: str


@dataclass(frozen=True)
class Speed:
    """Change the speed of the clock of a live run: simulated seconds per second."""

    speed: float


Action = Run | Inject | Clear | Stop | Reconfigure | Speed
_KINDS: Final[Mapping[type, str]] = {
    Run: "run", Inject: "fault", Clear: "clear", Stop: "stop", Reconfigure: "reload", Speed: "speed",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Entry:
    """An entry of a timeline.

    :ivar name: empty for none.
    :ivar place: where it is written, ``week.yaml:12``.
    """

    name: str
    when: When
    action: Action
    place: str = ""

    @property
    def kind(self) -> str:
        """What it does, as the key of its file."""
        return _KINDS[type(self.action)]

    @property
    def words(self) -> str:
        """What it does, in a few words."""
        match self.action:
            case Run(workload):
                return f"run {workload.name} on {','.join(workload.devices)}"
            case Inject(fault):
                values = "".join(f" {name}={value:g}" for name, value in fault.values.items())
                where = fault.node if fault.node and fault.devices == ("all",) else ",".join(fault.devices)
                return f"fault {fault.kind}{values} on {where}"
            case Clear(entry):
                return f"clear {entry}"
            case Stop(name):
                return f"stop {name}"
            case Reconfigure(_, words):
                return f"reload {words}"
            case Speed(speed):
                return f"speed {speed:g}"


class Occurrence(NamedTuple):
    """One occurrence of an entry.

    :ivar seconds: since the start.
    :ivar number: of the occurrences of its entry, from 0.
    :ivar action: with the devices that were drawn.
    :ivar is_end: it ends what the occurrence of the same number started.
    """

    seconds: float
    entry: Entry
    number: int
    action: Action
    is_end: bool = False

    @property
    def lasts_seconds(self) -> float:
        """For how long what it starts is asked for; 0: until it ends otherwise."""
        if self.is_end:
            return 0.0
        match self.action:
            case Run(_, for_seconds):
                return for_seconds
            case Inject(fault):
                return fault.duration_seconds
        return 0.0


@dataclass(frozen=True)
class Scraping:
    """How a Prometheus scrapes the fleet: each node is a target."""

    interval_seconds: float = setting(
        "The time between two scrapes.", default=15.0, low=0.1, high=86_400.0, name="scrape"
    )
    timeout_seconds: float = setting(
        "A scrape that takes longer fails.",
        default=10.0, low=0.1, high=86_400.0, name="timeout", absent="10s, or `scrape`",
    )  # fmt: skip
    evaluation_seconds: float = setting(
        "The time between two evaluations of alert rules, unless their group has its own.",
        default=15.0, low=0.1, high=86_400.0, name="evaluation", absent="as `scrape`",
    )  # fmt: skip
    job: str = setting("The label `job`.", default="fakedev", words="label value")
    instance: str = setting("The label `instance`; `{node}` is the node.", default="{node}:9400", words="label value")
    labels: Mapping[str, str] = setting("Further labels of all targets.", default={})


@dataclass(frozen=True)
class RuleSource:
    """A file with alert rules.

    :ivar expects: what each alert is to find, by its name: kinds of faults, effects, names of entries.
    :ivar place: where it is written.
    """

    file: str
    expects: Mapping[str, Sequence[str]] = field(default_factory=dict)
    place: str = ""


@dataclass(frozen=True)
class Scenario:
    """A timeline with all its occurrences, in order, and how it is watched.

    :ivar name: its file, without folder and ending.
    :ivar span_seconds: how long it takes.
    """

    name: str
    span_seconds: float
    seed: int = 0
    scraping: Scraping = field(default_factory=Scraping)
    entries: tuple[Entry, ...] = ()
    occurrences: tuple[Occurrence, ...] = ()
    rules: tuple[RuleSource, ...] = ()
