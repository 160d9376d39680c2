"""The keys of scenario files (doc/scenarios.md)."""

from __future__ import annotations

from typing import Any, Final

from fakedev.config.faults import FAULT
from fakedev.config.load import CONFIG_KEY, SCENARIO_KEY, SET_KEY
from fakedev.config.profile_keys import REPEAT
from fakedev.config.schema.fields import key_of
from fakedev.config.schema.nodes import Node, Report, Table
from fakedev.config.schema.schema import Key, Section, Type
from fakedev.config.schema.types import Duration, Integer, ListOf, MapOf, Number, OneOf, Text
from fakedev.config.workloads import BASE
from fakedev.scenario.entries import NOTHING, Scraping, Span
from fakedev.scenario.truth import EFFECTS
from fakedev.spec.fleet import MAX_SPEED
from fakedev.spec.units import parse_duration
from fakedev.spec.workload_fields import WORKLOAD_FIELDS

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
    ),
    doc="Start a workload: the keys of `workloads.base`, with the defaults of `run` on the workload port. `any` in the "
    "place of a device or a node is one that the seed draws.",
    shorthand="file",
)

RELOAD: Final = Section(
    "timeline.reload",
    (
        Key("config", Text("path"), "The configuration.", default_words="that of the scenario"),
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
        Key("until", Duration(), "No occurrence from then on.", default_words="the end"),
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
        Key("scrape", Duration(0.1, 86_400.0), "The time between two scrapes.", default=Scraping.interval_seconds),
        Key("timeout", Duration(0.1, 86_400.0), "A scrape that takes longer fails.", default_words="10s, or `scrape`"),
        Key("evaluation", Duration(0.1, 86_400.0), "The time between two evaluations of alert rules, unless their "
            "group has its own.", default_words="as `scrape`"),
        Key("seed", Integer(0, 2**63 - 1), "Seed of the times and devices that are drawn.", default_words="fleet.seed"),
        Key("job", Text("label value"), "The label `job`.", default=Scraping.job),
        Key("instance", Text("label value"), "The label `instance`; `{node}` is the node.", default=Scraping.instance),
        Key("labels", MapOf(Text(), words="mapping of names to texts"), "Further labels of all targets.", default={}),
    ),
    doc="How long it takes, and how a Prometheus watches it.",
)

RULES: Final = Section(
    "rules",
    (
        Key("file", Text("path"), "A rule file of Prometheus.", required=True),
        Key(
            "expects",
            MapOf(OneOf((ListOf(Text(), words="list of words"), Text())), words="mapping of alerts to what they find"),
            "What each alert is to find, by its name: kinds of faults (`fan`, `xid code=79`), effects "
            f"({', '.join(f'`{each}`' for each in EFFECTS)}), names of entries; `{NOTHING}`: it must not fire.",
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
