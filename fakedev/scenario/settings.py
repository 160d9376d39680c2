"""Scenario files: their keys, and the timelines that they describe (doc/scenarios.md)."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from fakedev.base.errors import Refused
from fakedev.base.units import format_duration, parse_duration
from fakedev.config.configuration import Configuration
from fakedev.config.load import CONFIG_KEY, SCENARIO_KEY, SET_KEY, load
from fakedev.exporters.settings.catalog import Catalog
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.faults.rules import workload_faults
from fakedev.fleet.settings.faults import FAULT, load_faults
from fakedev.fleet.settings.workloads import BASE, REPEAT, Series, read_workload
from fakedev.fleet.spec.fault_kinds import KINDS
from fakedev.fleet.spec.fleet_spec import MAX_SPEED
from fakedev.fleet.spec.workload_fields import WORKLOAD_FIELDS
from fakedev.scenario.entries import (
    ALL,
    NOTHING,
    Action,
    Clear,
    Entry,
    Inject,
    Reconfigure,
    RuleSource,
    Run,
    Scenario,
    Scraping,
    Span,
    Speed,
    Stop,
    When,
)
from fakedev.scenario.rules.expected import read_word
from fakedev.scenario.timeline import Impossible, occurrences_of, overlaps
from fakedev.scenario.truth import EFFECTS
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError, Node, Place, Report, Table
from fakedev.schema.reader import read_settings
from fakedev.schema.sections import Key, Section, Type, Values, did_you_mean
from fakedev.schema.types import Duration, Integer, ListOf, MapOf, Number, OneOf, Path, Text, key_of, keys_from

_LONGEST_SECONDS: Final = 10 * 365 * 86_400.0
#: What an entry may do: it has one of these keys.
ACTIONS: Final = ("run", "fault", "clear", "stop", "reload", "speed")


def parse_span(text: str) -> Span:
    """The time of ``2h``, or of ``1h..23h``, which the seed draws.

    :raises ValueError: with a text that shows the right form.
    """
    first, dots, last = text.partition("..")
    if first.strip().startswith("-"):
        raise ValueError(f"{text} is before the start, which is at 0s")
    least = parse_duration(first)
    most = parse_duration(last) if dots else least
    if most < least or (dots and most == least):
        raise ValueError(f"{text!r} has no time between its ends: write the earlier one first, as 1h..23h")
    return Span(least, most)


_SPAN: Final = Text("time", parse_span)


class Inline(Type):
    """A mapping as it is written: the loader of configurations reads it."""

    words = "mapping"

    def takes(self, node: Node) -> bool:
        return isinstance(node, Table)

    def read(self, node: Node, where: str, report: Report) -> Node:
        return node

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}

RUN: Final = Section(
    "timeline.run",
    tuple(
        key_of(WORKLOAD_FIELDS["repeat"], REPEAT, default=None, default_words="1, or from the file or schedule")
        if key.name == "repeat"
        else key
        for key in BASE.keys
        if key.name != "restart"
    ),
    doc="Start a workload: the keys of `workloads.base`, with the defaults of `run` on the workload port. `any` in the "
    "place of a device or a node is one that the seed draws.",
    shorthand="file",
)

RELOAD: Final = Section(
    "timeline.reload",
    (
        Key("config", Path(optional=True), "The configuration.", default_words="that of the scenario"),
        Key("set", ListOf(Text(), words="list of KEY=VALUE"), "Values in it, as `--set` takes them.", default=()),
    ),
    doc="Use another configuration.",
    shorthand="config",
)

ENTRY: Final = Section(
    "timeline",
    (
        Key("as", Text("name", longest=100), "A name for other entries, rules and the truth.", default_words="none"),
        Key("at", _SPAN, "The time since the start, as `2h`; `1h..23h`: drawn by the seed."),
        Key("after", Text("name of an entry"), "In place of `at`: it occurs after each occurrence of that entry."),
        Key("delay", _SPAN, "With `after`: how long after.", default_words="0s"),
        Key("every", _SPAN, "It occurs again and again, so far apart; `2h..6h`: drawn.", default_words="once"),
        Key("times", Integer(1, 100_000), "The most occurrences.", default_words="as many as there is time for"),
        Key("until", Duration(), "No occurrence from then on.", default_words="the end", field="until_seconds"),
        Key("run", RUN, "Start a workload.", optional=True),
        Key("for", Duration(0.001, _LONGEST_SECONDS), "With `run`: it is stopped after that.", default_words="none"),
        Key("fault", FAULT, "Inject a fault: the keys of `faults`, with `any` as in `run`.", optional=True),
        Key("clear", Text("name of an entry"), "Clear the faults of an entry, or `all` faults."),
        Key("stop", Text("name"), "Stop the workloads of an entry, or of a name, or `all` of the timeline."),
        Key("reload", RELOAD, "Use another configuration.", optional=True),
        Key("speed", Number(0, MAX_SPEED), "The speed of the clock of a live run, as `fleet.speed`."),
    ),
    doc="What happens, and when. Each entry has one of `run`, `fault`, `clear`, `stop`, `reload`, `speed`.",
)

SCENARIO: Final = Section(
    "scenario",
    (
        Key("for", Duration(1.0, _LONGEST_SECONDS), "How long it takes, in simulated time.", required=True),
        *keys_from(Scraping, "interval_seconds", "timeout_seconds", "evaluation_seconds"),
        Key("seed", Integer(0, 2**63 - 1), "Seed of the times and devices that are drawn.", default_words="fleet.seed"),
        *keys_from(Scraping, "job", "instance", "labels"),
    ),
    doc="How long it takes, and how a Prometheus watches it.",
)

RULES: Final = Section(
    "rules",
    (
        Key("file", Path(), "A rule file of Prometheus.", required=True),
        Key(
            "expects",
            MapOf(OneOf((ListOf(Text(), words="list of words"), Text())), words="mapping of alerts to what they find"),
            "What each alert is to find, by its name: kinds of faults (`fan`, `xid code=79`), effects "
            f"({', '.join(f'`{effect}`' for effect in EFFECTS)}), names of entries; `{NOTHING}`: it must not fire.",
            default={},
        ),
    ),
    doc="Alert rules that `fakedev scenario score` marks.",
    shorthand="file",
)

FILE: Final = Section(
    "",
    (
        Key(CONFIG_KEY, OneOf((Text("path"), Inline())), "The configuration of the fleet: a file, or what would be in "
            "one.", default_words="the built-in demo"),
        Key(SET_KEY, ListOf(Text(), words="list of KEY=VALUE"), "Values of the configuration, as `--set` takes them.",
            default=()),
        Key(SCENARIO_KEY, SCENARIO, "How long it takes, and how it is watched.", required=True),
        Key("timeline", ListOf(ENTRY, words="list of entries"), "What happens, and when.", default=()),
        Key("rules", ListOf(RULES, words="list of rule files"), "Alert rules.", default=()),
    ),
)


class Read(NamedTuple):
    """A configuration with what it was read from."""

    configuration: Configuration
    files: Files
    path: str
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class LoadedScenario:
    """A scenario with its configurations.

    :ivar configurations: at the start, then of the reloads, by their numbers.
    """

    scenario: Scenario
    configurations: tuple[Read, ...]
    notes: tuple[str, ...]


def load_scenario(
    path: str, environ: Mapping[str, str], config: str | None = None, overrides: Sequence[str] = ()
) -> LoadedScenario:
    """The scenario of a file.

    :param config: a configuration in place of the scenario's.
    :param overrides: of the configuration, applied after the scenario's.
    :raises ConfigurationError: with every problem.
    """
    report, files = Report(os.path.dirname(os.path.abspath(path))), Files(environ=environ)
    values = _values(path, files, report)
    own = values[SET_KEY] if config else ()  # the loader applies the file's own
    first = _read(config or path, environ, (*own, *overrides))
    fleet = CompiledFleet(first.configuration.fleet)
    reader = _Reader(fleet, first, Catalog(files, report, report.folder, os.path.dirname(path)), environ, report)
    entries = [entry for row in values["timeline"] if (entry := reader.entry(row)) is not None]
    _check_names(values["timeline"], reader, report)
    report.raise_if_any()
    head: Values = values[SCENARIO_KEY]
    seed = first.configuration.fleet.seed if head["seed"] is None else head["seed"]
    scenario = Scenario(
        name=os.path.splitext(os.path.basename(path))[0],
        span_seconds=head["for"],
        seed=seed,
        scraping=_scraping(head, fleet.spec.tick_seconds, report),
        entries=tuple(entries),
        rules=_rules(values["rules"], {entry.name for entry in entries if entry.name}, report),
    )
    scenario = _with_occurrences(scenario, fleet, reader, report)
    report.raise_if_any()
    notes = (*first.configuration.notes, *report.notes)
    return LoadedScenario(scenario, (first, *reader.reloads), notes)


def _values(path: str, files: Files, report: Report) -> Values:
    node = read_settings(path, report, files)
    report.raise_if_any()
    assert node is not None
    values: Values = FILE.read(node, "", report)
    report.raise_if_any()
    return values


def _read(path: str, environ: Mapping[str, str], overrides: Sequence[str]) -> Read:
    files = Files(environ=environ)
    # A scenario may have many configurations: what a fleet of each compiles is not kept.
    configuration = load(path, files, overrides, of_scenario=True)
    configuration.compiled.clear()
    return Read(configuration, files, path, tuple(overrides))


def _scraping(head: Values, tick_seconds: float, report: Report) -> Scraping:
    interval = head["scrape"]
    if round(interval / tick_seconds, 9) % 1:
        text = f"scrape: {format_duration(interval)} is no whole number of ticks of {format_duration(tick_seconds)}"
        report.problem(head.place_of("scrape"), f"{text}: change it, or fleet.tick")
    timeout = min(Scraping.timeout_seconds, interval) if head["timeout"] is None else head["timeout"]
    if timeout > interval:
        report.problem(head.place_of("timeout"), "timeout: is longer than the time between two scrapes")
    for name in ("job", "instance"):
        if name in head["labels"]:
            report.problem(head.place_of("labels"), f"labels: {name} has its own key")
    return head.build(Scraping, timeout_seconds=timeout, evaluation_seconds=head["evaluation"] or interval)


def _rules(
    entries: Sequence[Values], names: Collection[str], report: Report
) -> tuple[RuleSource, ...]:
    found = []
    for values in entries:
        expects = {}
        for alert, written in values["expects"].items():
            words = tuple(word.strip() for word in (written.split(",") if isinstance(written, str) else written))
            for word in words:
                if word != NOTHING:
                    report.tried(values.place_of("expects"), f"expects.{alert}: ", read_word, word, names)
            expects[alert] = words
        found.append(RuleSource(values["file"], expects, str(values.place_of("file"))))
    return tuple(found)


def _with_occurrences(scenario: Scenario, fleet: CompiledFleet, reader: _Reader, report: Report) -> Scenario:
    for entry in scenario.entries:
        at = entry.when.at
        if at is not None and at.most >= scenario.span_seconds:
            end = format_duration(scenario.span_seconds)
            report.problem(reader.places[entry], f"at: {format_duration(at.most)} is not before the end, {end}")
    report.raise_if_any()
    try:
        found = occurrences_of(scenario.entries, scenario.span_seconds, scenario.seed, fleet.roster)
    except Impossible as impossible:
        report.problem(reader.places[impossible.entry], str(impossible))
        return scenario
    pairs = {(id(before.entry), id(after.entry)): (before, after) for before, after in reversed([*overlaps(found)])}
    for before, after in pairs.values():
        assert isinstance(after.action, Inject)
        kind, when = after.action.fault.kind, format_duration(after.seconds)
        what = "itself, it is repeated too soon" if before.entry is after.entry else f"that of {before.entry.place}"
        text = f"{kind} at {when} on the same devices as {what}, which is not over by then"
        report.problem(reader.places[after.entry], text)
    checked: set[int] = set()
    for name in found:
        if isinstance(name.action, Run | Inject) and id(name.action) not in checked:
            checked.add(id(name.action))
            reader.check(name.entry, name.action)
    return replace(scenario, occurrences=found)


def _check_names(entries: Sequence[Values], reader: _Reader, report: Report) -> None:
    """Check that names are unique, and that what entries name is there."""
    first: dict[str, Place] = {}
    for values in entries:
        name = values["as"]
        if name is None:
            continue
        if name in first:
            report.problem(values.place_of("as"), f"as: {name!r} is the name of {first[name]} already")
        elif name in (ALL, NOTHING) or name in KINDS or name in EFFECTS:
            report.problem(values.place_of("as"), f"as: {name!r} has a meaning of its own: give another name")
        first.setdefault(name, values.place_of("as"))
    faulty = {values["as"] for values in entries if values["fault"] is not None}
    base = {workload.name for workload in reader.first.configuration.fleet.base}
    running = {values["as"] for values in entries if values["run"] is not None} | base | reader.workloads
    for key, known in (("after", set(first)), ("clear", faulty | {ALL}), ("stop", running | {ALL})):
        for values in entries:
            if values[key] is not None and values[key] not in known:
                names = sorted(name for name in known if name)
                hint = did_you_mean(values[key], names, "; ") or f"; there is {', '.join(names[:10]) or 'none'}"
                report.problem(values.place_of(key), f"{key}: no entry {values[key]!r} that it could be{hint}")


class _Reader:
    """Reads entries, and checks them against the fleet at the start.

    :ivar places: where entries are.
    :ivar reloads: the configurations of reloads, by number less 1.
    :ivar workloads: the names of the workloads that are run.
    """

    def __init__(
        self, fleet: CompiledFleet, first: Read, catalog: Catalog, environ: Mapping[str, str], report: Report
    ) -> None:
        self.first = first
        self._fleet = fleet
        self._catalog = catalog
        self._series = Series(catalog, report)
        self._environ = environ
        self._report = report
        self.places: dict[Entry, Place] = {}
        self.reloads: list[Read] = []
        self.workloads: set[str] = set()

    def entry(self, values: Values) -> Entry | None:
        """The entry of a section; None when it has problems, which were reported."""
        given = [key for key in ACTIONS if values.given(key)]
        if len(given) != 1:
            what = "has none of them" if not given else f"has {' and '.join(given)}: make two entries"
            self._report.problem(values.place, f"an entry has one of {', '.join(ACTIONS)}; this one {what}")
            return None
        when = self._when(values)
        if values.given("for") and given != ["run"]:
            text = "for: is for run" + ("; a fault has its duration" if given == ["fault"] else "")
            self._report.problem(values.place_of("for"), text)
        action = self._action(given[0], values)
        if when is None or action is None:
            return None
        entry = Entry(values["as"] or "", when, action, str(values.place))
        self.places[entry] = values.place
        return entry

    def check(self, entry: Entry, action: Run | Inject) -> None:
        """Check that the fleet accepts a workload or a fault."""
        if self.reloads:
            return  # it may be for the fleet of then
        try:
            if isinstance(action, Inject):
                self._fleet.fault_rules.made("scenario", action.fault)
            else:
                self._fleet.admission.check(action.workload)
                workload_faults("scenario", action.workload, self._fleet.fault_rules)
        except Refused as refusal:
            where = f"{refusal.where}: " if refusal.where else ""
            self._report.problem(self.places[entry], f"{where}{refusal.text}")

    def _when(self, values: Values) -> When | None:
        wrong = ""
        if values.given("at") == values.given("after"):
            wrong = "give at or after" + (", not both" if values.given("at") else ": when does it occur?")
        elif values.given("delay") and not values.given("after"):
            wrong = "delay: is for after; at is the time itself"
        elif not values.given("every") and (values.given("times") or values.given("until")):
            wrong = "times and until: are for every"
        elif values["every"] is not None and values["every"].least <= 0:
            wrong = "every: must be above 0"
        if wrong:
            self._report.problem(values.place, wrong)
            return None
        return values.build(When)

    def _action(self, key: str, values: Values) -> Action | None:
        value = values[key]
        match key:
            case "run":
                workload = read_workload(value, self._catalog, self._series, self._report, repeat=None)
                if workload is None:
                    return None
                self.workloads.add(workload.name)
                return Run(workload, values["for"] or 0.0)
            case "fault":
                faults = load_faults([value], None, self._report)
                return Inject(faults[0]) if faults else None
            case "clear":
                return Clear(value)
            case "stop":
                return Stop(value)
            case "reload":
                return self._reload(value)
        return Speed(float(value))

    def _reload(self, values: Values) -> Action | None:
        path = values["config"] or self.first.path
        try:
            read = _read(path, self._environ, (*self.first.overrides, *values["set"]))
        except ConfigurationError as error:
            self._report.problem(values.place, f"reload: {error.problems[0]}")
            for problem in error.problems[1:]:
                self._report.problem(Place(problem.file, problem.line), problem.text)
            return None
        self.reloads.append(read)
        words = " ".join([os.path.basename(path), *values["set"]])
        return Reconfigure(len(self.reloads), words)
