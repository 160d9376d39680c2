"""The score of alert rules: what they found of the truth, how late, and their false alerts.

Everything is a function of the rules' firings and the truth; the order of neither matters. The devices of an alert
follow from its labels, by what labels of an identity say of devices and their nodes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from statistics import median

from fakedev.base.groups import grouped
from fakedev.exporters.identity import Identity, LabelSpec
from fakedev.exporters.labels import Template
from fakedev.fleet.entities.naming import device_facts
from fakedev.fleet.entities.roster import Roster
from fakedev.scenario.rules.alert_rules import AlertRule, Firing, LabelSet, Pending
from fakedev.scenario.rules.expected import Incident, Word, effects_of_causes, incident_of, incidents_of
from fakedev.scenario.samples.scrapes import Target
from fakedev.scenario.samples.series import EXPORTED
from fakedev.scenario.truth import Effect, Truth

#: How Prometheus renames labels of rows that the target has as well.


class DeviceLabels:
    """Devices by their labels. Devices are written ``dgx-0/1``.

    Labels that work changes, e.g. of pods, do not count: they are not the device's own.

    :ivar nodes: the devices of each node.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, frozenset[str]] = {}
        self._devices: dict[tuple[str, str], set[str]] = {}

    def add(self, roster: Roster, seed: int, identities: Mapping[str, Identity], targets: Iterable[Target]) -> None:
        """Learn the devices of a fleet; again after each reload.

        :param identities: of the pools, by their names.
        :param targets: whose labels mean all devices of a node.
        """
        specs = {name: _labels(identity) for name, identity in identities.items()}
        for node in roster.shown:
            names = [f"{node.name}/{index}" for index in range(node.pool.devices_per_node)]
            self.nodes[node.name] = self.nodes.get(node.name, frozenset()).union(names)
            for index, name in enumerate(names):
                facts = device_facts(seed, node.pool, node.spec, index)
                for spec, template in specs[node.pool.name]:
                    if not any(fact not in facts for fact in template.facts) and (text := _text(spec, template, facts)):
                        self._devices.setdefault((spec.name, text), set()).add(name)
        for target in targets:
            for label in target.labels.items():
                self._devices.setdefault(label, set()).update(self.nodes.get(target.node, ()))

    def devices(self, labels: LabelSet) -> frozenset[str] | None:
        """The devices that an alert means; None: its labels tell none apart from others."""
        found: set[str] | None = None
        for name, text in labels:
            of_label = self._devices.get((name, text))
            if of_label is None and name.startswith(EXPORTED):
                of_label = self._devices.get((name.removeprefix(EXPORTED), text))
            if of_label is not None:
                found = of_label if found is None else found & of_label
        is_every = found is None or all(found >= devices for devices in self.nodes.values())
        return None if found is None or is_every else frozenset(found)

    def owners(self, units: Collection[str]) -> frozenset[str]:
        """The devices of some units: of a part its device, of a node all that it has."""
        found: set[str] = set()
        for unit in units:
            node, *rest = unit.split("/")
            found.update([f"{node}/{rest[0]}"] if rest else self.nodes.get(node, ()))
        return frozenset(found)


def _labels(identity: Identity) -> list[tuple[LabelSpec, Template]]:
    """The labels of an identity that depend on facts, each once."""
    specs = dict.fromkeys(identity.labels)
    for _, labels in identity.labels_of_levels:
        specs |= dict.fromkeys(labels)
    for family in identity.families:
        for row in family.rows:
            specs |= dict.fromkeys(row.labels)
    parsed = [(spec, Template.parse(spec.value)) for spec in specs]
    return [(spec, template) for spec, template in parsed if template.facts]


def _text(spec: LabelSpec, template: Template, facts: Mapping[str, str]) -> str:
    text = template.value(facts)
    texts = dict(spec.texts)
    return texts.get(text, spec.otherwise) if texts else text


class Verdict(Enum):
    """Remarks on a rule, besides its figures."""

    SCORED = "scored"
    NOT_EXPECTED = "without expectation"
    MUST_NOT_FIRE = "must not fire"
    NEVER_TRIED = "never tried"
    BLIND = "blind"
    FAILED = "failed"


@dataclass(frozen=True)
class RuleRun:
    """A rule and what it did.

    :ivar file, group: where it is from.
    :ivar interval_seconds: between its evaluations.
    :ivar expects: None: nothing is said of what it is to find; empty: it must not fire.
    :ivar lacks: metrics and labels that it needs and that no page can have; empty if it can fire.
    :ivar problem: why its expression cannot be evaluated, in Prometheus's words; empty if it can.
    :ivar notes: further remarks.
    """

    rule: AlertRule
    file: str
    group: str
    interval_seconds: float
    firings: tuple[Firing, ...] = ()
    expects: tuple[Word, ...] | None = None
    lacks: tuple[str, ...] = ()
    problem: str = ""
    notes: tuple[str, ...] = ()
    pendings: tuple[Pending, ...] = ()


@dataclass(frozen=True)
class Found:
    """An incident, and what a rule did about it.

    :ivar firings: those that overlap it; empty: the rule did not see it.
    """

    incident: Incident
    firings: tuple[Firing, ...]

    @property
    def is_found(self) -> bool:
        """Whether the rule fired."""
        return bool(self.firings)

    @property
    def detect_seconds(self) -> float:
        """From its beginning to the first firing; 0 for a rule that fired before."""
        return max(0.0, min(firing.begin_seconds for firing in self.firings) - self.incident.begin_seconds)

    @property
    def clear_seconds(self) -> float | None:
        """From its end to the end of the last firing; None: it did not end, infinite: the firing did not.

        Below 0 the rule stopped firing while the incident went on.
        """
        if self.incident.end_seconds is None:
            return None
        ends = [math.inf if firing.end_seconds is None else firing.end_seconds for firing in self.firings]
        return max(ends) - self.incident.end_seconds

    @property
    def times(self) -> int:
        """How many times the same alert fired: more than once is flapping."""
        return max(Counter(firing.labels for firing in self.firings).values(), default=0)


@dataclass(frozen=True)
class RuleScore:
    """A rule with its figures; None where there is nothing to measure.

    :ivar incidents: what it was to find; of a rule without expectation, all faults that it overlapped.
    :ivar false_firings: those that overlap nothing that they may.
    :ivar seen: the places of the faults that it saw among the causes of the truth.
    """

    run: RuleRun
    incidents: tuple[Found, ...]
    false_firings: tuple[Firing, ...]
    seen: frozenset[int] = field(compare=False)

    @property
    def verdict(self) -> Verdict:
        """What can be said of it."""
        if self.run.problem:
            return Verdict.FAILED
        if self.run.lacks and not (self.run.firings or self.run.pendings):
            return Verdict.BLIND
        if self.run.expects is None:
            return Verdict.NOT_EXPECTED
        if not self.run.expects:
            return Verdict.MUST_NOT_FIRE
        return Verdict.SCORED if self.incidents else Verdict.NEVER_TRIED

    @property
    def found(self) -> list[Found]:
        return [incident for incident in self.incidents if incident.is_found]

    @property
    def precision(self) -> float | None:
        """The share of its firings that overlap an incident."""
        count = len(self.run.firings)
        return (count - len(self.false_firings)) / count if count else None

    @property
    def recall(self) -> float | None:
        """The share of incidents that it found."""
        if self.run.expects is None or not self.incidents:
            return None
        return len(self.found) / len(self.incidents)

    @property
    def detect(self) -> tuple[float, float] | None:
        """Seconds to detect: median and worst."""
        return _median_and_worst([outcome.detect_seconds for outcome in self.found if self.run.expects])

    @property
    def clear(self) -> tuple[float, float] | None:
        """Seconds to clear: median and worst; infinite where an alert fired to the end of the run."""
        every = [outcome.clear_seconds for outcome in self.found if self.run.expects]
        return _median_and_worst([seconds for seconds in every if seconds is not None])

    @property
    def most_times(self) -> int:
        """How many times the same alert fired for one incident, at most."""
        return max((incident.times for incident in self.incidents), default=0)


@dataclass(frozen=True)
class Score:
    """The scores of all rules.

    :ivar silent: faults that no rule saw.
    :ivar scrape_seconds: between two scrapes.
    """

    rules: tuple[RuleScore, ...]
    silent: tuple[Incident, ...]
    truth: Truth
    span_seconds: float
    scrape_seconds: float

    def count(self, verdict: Verdict) -> int:
        """How many rules have a verdict."""
        return sum(rule.verdict is verdict for rule in self.rules)


def score(
    runs: Sequence[RuleRun], truth: Truth, labels: DeviceLabels, span_seconds: float, scrape_seconds: float
) -> Score:
    """The score of rules.

    :param labels: which devices the labels of alerts mean.
    """
    brought = effects_of_causes(truth)
    rules = tuple(_Scorer(run, truth, brought, labels, scrape_seconds).score() for run in runs)
    seen = frozenset().union(*(rule.seen for rule in rules))
    silent = [
        incident_of(place, cause, brought.get(place, ()))
        for place, cause in enumerate(truth.causes)
        if place not in seen
    ]
    silent.sort(key=lambda each: (each.begin_seconds, each.what, each.devices))
    return Score(rules, tuple(silent), truth, span_seconds, scrape_seconds)


class _Scorer:
    """The score of one rule."""

    def __init__(
        self, run: RuleRun, truth: Truth, brought: Mapping[int, Sequence[Effect]], labels: DeviceLabels,
        scrape_seconds: float,
    ) -> None:  # fmt: skip
        self._run, self._truth, self._brought, self._labels = run, truth, brought, labels
        rule = run.rule
        #: What the end of an incident takes to be seen.
        self._grace_seconds = scrape_seconds + run.interval_seconds + rule.window_seconds + rule.keeps_seconds
        self._firings = [(firing, labels.devices(firing.labels)) for firing in run.firings]

    def score(self) -> RuleScore:
        run = self._run
        if run.expects is None:
            causes = enumerate(self._truth.causes)
            every = [incident_of(place, cause, self._brought.get(place, ())) for place, cause in causes]
            found = [outcome for outcome in map(self._found, every) if outcome.is_found]
        else:
            incidents = incidents_of(run.expects, self._truth, self._brought)
            found = [self._found(divided) for incident in incidents for divided in self._divided(incident)]
        true = {id(firing) for outcome in found for firing in outcome.firings}
        false = tuple(firing for firing in run.firings if id(firing) not in true)
        seen = frozenset(place for outcome in found if outcome.is_found for place in outcome.incident.causes)
        return RuleScore(run, tuple(found), false, seen)

    def _found(self, incident: Incident) -> Found:
        devices = self._labels.owners(incident.devices)
        after = math.inf if incident.after_seconds is None else incident.after_seconds + self._grace_seconds
        # A warning of something without length, as the end of a workload, may be over in the same moment.
        is_moment = incident.end_seconds == incident.begin_seconds
        last_seconds = math.nextafter(incident.begin_seconds, -math.inf if is_moment else incident.begin_seconds)
        firings = [
            firing
            for firing, of_firing in self._firings
            if firing.active_seconds <= after
            and (firing.end_seconds is None or firing.end_seconds > last_seconds)
            and (of_firing is None or not devices or not devices.isdisjoint(of_firing))
        ]
        return Found(incident, tuple(sorted(firings, key=lambda each: (each.begin_seconds, each.labels))))

    def _divided(self, incident: Incident) -> list[Incident]:
        """An incident of several devices as several, as far as the labels of the rule's alerts tell devices apart."""
        group_of = self._group_of
        if group_of is None:
            return [incident]
        groups = grouped(
            (group_of(device), device) for unit in incident.devices for device in sorted(self._labels.owners([unit]))
        )
        if len(groups) < 2:
            return [incident]
        divided = [replace(incident, devices=tuple(dict.fromkeys(devices))) for devices in groups.values()]
        return sorted(divided, key=lambda each: each.devices)

    @property
    def _group_of(self) -> Callable[[str], str] | None:
        """What the rule's alerts tell apart: devices, nodes, or nothing."""
        told = [devices for _, devices in self._firings if devices is not None]
        if any(0 < len(devices & node) < len(node) for devices in told for node in self._labels.nodes.values()):
            return lambda device: device
        return (lambda device: device.partition("/")[0]) if told else None


def _median_and_worst(seconds: Sequence[float]) -> tuple[float, float] | None:
    return (median(seconds), max(seconds)) if seconds else None
