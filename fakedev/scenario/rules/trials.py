"""A node for each fault that is tried, in virtual time: its pages, scraped as Prometheus would scrape them.

All nodes are in one fleet, so that all trials take few more ticks than one.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fakedev.base.errors import Refused
from fakedev.base.names import without_variables
from fakedev.base.units import format_duration
from fakedev.config.configuration import Configuration
from fakedev.config.load import load
from fakedev.exporters.identity import Identity
from fakedev.exporters.labels import Template
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.row_levels import LATE
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.events import InjectFault
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fault_kinds import KINDS, Scope, fault_from_fields
from fakedev.fleet.spec.fleet_spec import MetricName
from fakedev.scenario.rules.alert_rules import Matcher
from fakedev.scenario.rules.thresholds import Threshold, beyond_thresholds
from fakedev.scenario.samples.series import TargetSamples
from fakedev.schema.files import Files

#: What is tried of kinds that need a value, or do more with another one.
_VALUES: Final[Mapping[str, Sequence[Mapping[str, float]]]] = {
    "xid": [{"code": code} for code in (13, 31, 43, 45, 48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120)],
    "ecc-single": [{}, {"count": 1000, "rows": 100}],
    "ecc-double": [{}, {"count": 100}],
    "cache-errors": [{}, {"uncorrectable": 1}],
    "non-compute-errors": [{}, {"uncorrectable": 1}],
    "inlet": [{}, {"celsius": 45}],
    "fan": [{}, {"resistance": 8}],
    "clock-lock": [{"megahertz": 400}],
    "link-down": [{}, {"link": 0}],
    "pcie-slow": [{}, {"width": 4}, {"generation": 1}],
    "pcie-replays": [{}, {"rate": 1000}],
    "sentinel": [{}, {"value": 0}],
}
#: The most boards of a node: selectors of rules may name boards up to the last one.
MOST_BOARDS: Final = 16
#: Errors that happen once are tried again and again, too: for rules that want more of them for some time.
_AGAIN_SECONDS: Final = 60
#: What comes back, with the seconds that it lasts: some counters count only returns.
_RETURNING: Final = {"link-down": 20}
#: It also comes and goes again and again: some rules want errors for minutes.
_FLAPPING: Final[Mapping[str, float]] = {"probability": 0.5}
_FLAPPING_SECONDS: Final = 15
TICK_SECONDS: Final = 5
SCRAPE_SECONDS: Final = 15
#: A scrape that takes longer fails, as in Prometheus unless it is configured otherwise.
_SCRAPE_TIMEOUT_SECONDS: Final = 10.0
#: How long boards work before faults begin: until their temperatures are steady.
BEGIN_SECONDS: Final = 300
_IDLE: Final = "an idle board"
FULL: Final = "a full board"
_BUSY: Final = "a busy board"
#: Work of trials: what it is called, its profile, kind and memory.
_WORK: Final = {
    _IDLE: ("0:0:0", "compute", "0%"),
    _BUSY: ("88:8:60", "compute", "40%"),
    FULL: ("100:0:0", "tensor", "100%"),
    "a board whose pod only holds memory": ("0:0:0", "compute", "90%"),
    "a board with little work": ("8:1:60", "compute", "20%"),
}
#: The usual work: where it makes a rule fire, no other work is named.
USUAL: Final = (_IDLE, _BUSY, FULL)
#: In the place of a board's index: all boards of the node have the fault.
_ALL_BOARDS: Final = -1
_POD: Final = {"pod": "train-0", "namespace": "ml", "container": "main"}


@dataclass(frozen=True)
class Trial:
    """A fault that is tried on a busy board, or only work.

    :ivar work: one of the words for work.
    :ivar kind: of the fault; empty for none.
    :ivar metric: the one metric that the fault affects; empty for all.
    :ivar board: the index of the board that has the fault; -1: all boards of the node.
    """

    work: str = _BUSY
    kind: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    every_seconds: int = 0
    duration_seconds: int = 0
    metric: str = ""
    board: int = 0

    @property
    def flaps(self) -> bool:
        """Whether the fault comes and goes at random."""
        return "probability" in self.values

    @property
    def fields(self) -> dict[str, object]:
        """The fault's fields, but for its device."""
        metric = {"metric": self.metric} if self.metric else {}
        times = {"every": self.every_seconds, "duration": self.duration_seconds}
        return {
            "kind": self.kind, **metric, **self.values, **{key: format_duration(of) for key, of in times.items() if of}
        }  # fmt: skip

    @property
    def place(self) -> str:
        """Where the fault is, if not on the first board, a busy one: ``on a full board, board 3``."""
        words = [self.work] if self.kind and self.work != _BUSY else []
        words += ["all boards" if self.board == _ALL_BOARDS else f"board {self.board}"] if self.board else []
        return f"on {', '.join(words)}" if words else ""

    @property
    def words(self) -> str:
        """The fault as ``fakedev fault`` takes it, but for its device; or the work."""
        if not self.kind:
            return self.work
        rest = {name: f"{value:g}" if isinstance(value, int | float) else value for name, value in self.fields.items()}
        return " ".join([self.kind, *(f"{name}={value}" for name, value in rest.items() if name != "kind")])


@dataclass
class Scraped:
    """The series of a trial.

    :ivar series: text of a series to its samples: (number of the scrape, text of the value).
    :ivar names: the metrics of its pages; ``labels``: the labels of the series, with their values.
    """

    trial: Trial
    series: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    labels: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def all_trials(
    codes: Iterable[int], cap_watts: float, metrics: Iterable[str] = (), boards: Sequence[int] = (0,)
) -> list[Trial]:
    """Work without faults, then each kind of fault that pages can show.

    :param codes: further error codes.
    :param cap_watts: the lowest power cap of the boards; 0 if they have none.
    :param metrics: faults of series are tried on each of these alone, too, on busy and on full boards.
    :param boards: the indices of the boards of a node that have each fault, one at a time.
    """
    trials = [Trial(work) for work in _WORK]
    for kind in KINDS.values():
        if kind.scope is Scope.CLUSTER or kind.needs_racks:
            continue
        given = list(_VALUES.get(kind.name, [{}]))
        if kind.name == "xid":
            given += [{"code": code} for code in sorted(set(codes) - {int(each["code"]) for each in given})]
        if kind.name == "power-cap":
            given = [{"watts": cap_watts}] if cap_watts else []
        again = [0] if kind.lasts and kind.name != "xid" else [0, _AGAIN_SECONDS]
        trials += [Trial(_BUSY, kind.name, values, recurrence) for values in given for recurrence in again]
        if kind.name in _RETURNING:
            trials.append(Trial(_BUSY, kind.name, {}, _AGAIN_SECONDS, _RETURNING[kind.name]))
            trials.append(Trial(_BUSY, kind.name, _FLAPPING, _FLAPPING_SECONDS))
        if kind.takes_metric:
            trials += [
                Trial(work, kind.name, values, metric=metric)
                for metric in sorted(metrics) for work in (_BUSY, FULL) for values in given
            ]  # fmt: skip
    tried = [replace(trial, board=board) for board in boards for trial in trials if trial.kind or board == boards[0]]
    # An exporter that no longer collects, where times of its last collection stand still, too; and one without boards.
    return [*tried, Trial(kind="frozen", board=_ALL_BOARDS), Trial(kind="lost", board=_ALL_BOARDS)]


def board_limits(device: str) -> str:
    """The limits of boards of a type on temperature and power, as text; empty if none are known."""
    kind = trial_configuration("dcgm", device, [Trial()]).fleet.pools[0].device_type
    dynamics, (lowest, highest) = kind.dynamics, kind.power_limit_ends()
    if dynamics is None:
        return ""
    return (
        f"{device}: slowdown at {dynamics.slowdown_celsius:g}, by hardware at {dynamics.hardware_slowdown_celsius:g}, "
        f"shutdown at {dynamics.shutdown_celsius:g} degrees, power limit {lowest:g} to {highest:g} W"
    )


def _boards(identity: Identity, fleet: Fleet, selectors: Iterable[Sequence[Matcher]]) -> tuple[int, ...]:
    """The first board of a node, and the first one that each selector can select, if it selects boards.

    :param fleet: with one node.
    """
    (node,) = fleet.roster.shown
    specs = [*identity.labels, *(label for _, labels in identity.labels_of_levels for label in labels)]
    labels: dict[str, list[str]] = {}
    for spec in specs:
        values = [Template.parse(spec.value).value(facts) for facts in fleet.labels.facts(node)]
        if len(set(values)) > 1:
            labels.setdefault(spec.name, values)
    boards = {0}
    for matchers in selectors:
        of_boards = [matcher for matcher in matchers if matcher.label in labels]
        selected = (
            board for board in range(len(node.devices))
            if all(matcher.matches(labels[matcher.label][board]) for matcher in of_boards)
        )  # fmt: skip
        boards.update([next(selected, 0)] if of_boards else [])
    return tuple(sorted(boards))


def quantities_of(device: str) -> frozenset[str]:
    """The quantities that boards of a type have."""
    level = Fleet(trial_configuration("dcgm", device, [Trial()]).fleet).state.levels["device"]
    return frozenset(name for name in level.arrays if level.has(name, 0))


def scrape(
    identity: str,
    device: str,
    codes: Iterable[int],
    metrics: Collection[str] | None,
    labels: Mapping[str, str],
    last_seconds: float,
    progress: Callable[[float], None],
    compared: Collection[str] = (),
    selectors: Sequence[Sequence[Matcher]] = (),
    thresholds: Sequence[Threshold] = (),
    shown: Identity | None = None,
) -> list[Scraped]:
    """The series of all trials that boards of a type can have; faults begin at BEGIN_SECONDS.

    :param identity: of the fleet; the trials depend on what it shows.

    :param codes: further error codes that are tried.
    :param metrics: those that are needed; None for all.
    :param labels: further labels of all series, as a scrape configuration adds them.
    :param progress: called with the share that is done, 0 to 1.
    :param compared: metrics that have faults of their own, besides the faults of all series.
    :param selectors: of rules: each fault is tried on a board that they select, too.
    :param thresholds: of rules: parameters that set what a rule compares are tried beyond its threshold, too.
    :param shown: another identity in which the pages of the same fleet are shown; None: its own.
    :raises ConfigurationError: when there is no such identity or device, or one cannot show the other.
    """
    count = MOST_BOARDS if selectors else 2
    probe = trial_configuration(identity, device, [Trial()], count)
    lowest, highest = probe.fleet.pools[0].device_type.power_limit_ends()
    boards = _boards(probe.identities["trials"], Fleet(probe.fleet), selectors)
    metrics_alone = probe.identities["trials"].metric_names().keys() & set(compared)
    # Of some types no lowest limit is known.
    trials = all_trials(codes, lowest or highest / 2, metrics_alone, boards)
    names = probe.identities["trials"].metric_names()
    # Of a page, which limits of devices cannot name.
    families = probe.identities["trials"].families
    names |= {family.name: MetricName(LATE) for family in families if any(row.quantity == LATE for row in family.rows)}
    trials += [Trial(_BUSY, kind, {name: value}) for kind, name, value in beyond_thresholds(thresholds, names)]
    configuration = trial_configuration(identity, device, trials, max(2, boards[-1] + 1))
    fleet = Fleet(configuration.fleet)
    shown = _with_families(shown or configuration.identities["trials"], metrics)
    found = [Scraped(trial) for trial in trials]
    nodes = list(fleet.roster.shown)
    pages = [Page(LabelCache(shown, DeviceSource.of(fleet, shown)), [node]) for node in nodes]
    targets = [TargetSamples({"job": "fakedev", "instance": f"{node.name}:9400", **labels}) for node in nodes]
    last, each, begin = (int(seconds // TICK_SECONDS) for seconds in (last_seconds, SCRAPE_SECONDS, BEGIN_SECONDS))
    impossible: set[int] = set()
    for tick in range(last + 1):
        if tick:
            fleet.advance()
        if tick == begin:
            impossible = {place for place, node in enumerate(nodes) if not _inject(fleet, node, trials[place])}
        if tick % each == 0:
            for node, page, target, scraped in zip(nodes, pages, targets, found, strict=True):
                _scrape(fleet, node, page, target, scraped, tick // each)
        progress(tick / last)
    return [scraped for place, scraped in enumerate(found) if place not in impossible]


def _with_families(identity: Identity, metrics: Collection[str] | None) -> Identity:
    """The identity with the families that have some metrics; a counter of OpenMetrics adds to its family's name."""
    if metrics is None:
        return identity
    kept = [family for family in identity.families if any(f"{name}_".startswith(f"{family.name}_") for name in metrics)]
    return replace(identity, families=tuple(kept))


def trial_configuration(
    identity: str, device: str, trials: Sequence[Trial], boards: int = 2, racks: str = ""
) -> Configuration:
    """The configuration of a fleet with a node of some boards for each trial.

    :param racks: the kind of racks that the nodes are in; empty: none.
    :raises ConfigurationError: when there is no such identity or device, or one cannot show the other.
    """
    nodes = [f"trial-{number}" for number in range(len(trials))]
    pool: dict[str, object] = {
        "name": "trials", "nodes": nodes, "device": device, "devices-per-node": boards, "identity": identity,
    }  # fmt: skip
    if racks:
        pool["racks"] = racks
    base: list[dict[str, object]] = []
    for work, (profile, kind, memory) in _WORK.items():
        devices = [f"{node}/*" for node, trial in zip(nodes, trials, strict=True) if trial.work == work]
        # Each node has its own workload: what ends on one node goes on elsewhere.
        named = enumerate(devices) if work != _IDLE else ()
        base += [
            {"name": f"work-{len(base)}-{number}", "devices": named_rule, "profile": profile, "kind": kind,
             "repeat": 0, "metrics": {"memory": memory}, **_POD}
            for number, named_rule in named
        ]  # fmt: skip
    tree = {
        "fleet": {"epoch": "0", "tick": f"{TICK_SECONDS}s", "pools": [pool]},
        "web": [],
        "workloads": {"listen": [], "base": base},
    }
    return load(None, Files(environ=os.environ), text=without_variables(json.dumps(tree)))


def _inject(fleet: Fleet, node: RosterNode, trial: Trial) -> bool:
    """Inject the fault of a trial; whether the node's boards can have it."""
    if not trial.kind:
        return True
    try:
        board = "*" if trial.board == _ALL_BOARDS else trial.board
        fleet.apply(InjectFault(fault_from_fields({**trial.fields, "devices": [f"{node.name}/{board}"]})))
    except Refused:
        return False
    return True


def _scrape(
    fleet: Fleet, node: RosterNode, page: Page[RosterNode], samples: TargetSamples, scraped: Scraped, number: int
) -> None:
    """Add the samples of a page, and whether it could be scraped."""
    faults = fleet.page_faults.of(frozenset([node.name]))
    is_up = faults is None or not faults.fails_scrape(_SCRAPE_TIMEOUT_SECONDS)
    found = samples.scrape(page.render(fleet.shown) if is_up else None)
    for series, value in zip(found.series, found.values, strict=True):
        # How many samples there are depends on what the rules need.
        if series.name.startswith("scrape_"):
            continue
        text = series.text.decode()
        if text not in scraped.series:
            scraped.names.add(series.name)
            for label, of in series.labels:
                scraped.labels[label].add(of)
        scraped.series.setdefault(text, []).append((number, value.decode()))
