"""Shows what another release of an exporter does to alert rules, dashboards and queries of autoscalers.

The same boards with the same faults are shown by both releases, and promtool evaluates rules and queries on both.
"""

from __future__ import annotations

import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from typing import Any, Final

import yaml

from fakedev.base.atomic_files import replace_file
from fakedev.base.console import Progress, table, tell_notes, write_text
from fakedev.base.errors import plain_reason
from fakedev.clone.cloning import Cloning, Wanted
from fakedev.clone.scraped import SourcePage, grouped
from fakedev.commands.alert_rules import Trials, board_of, checked_rules, text_of
from fakedev.commands.catalogs import added_label
from fakedev.commands.conform import captured_page
from fakedev.commands.reach import JSON, write_json
from fakedev.config.sample_page import sample_page
from fakedev.exporters.counterparts import Renamed, renamed
from fakedev.exporters.identity import Identity
from fakedev.exporters.samples import read_page
from fakedev.exporters.settings.catalog import Catalog, named_identity
from fakedev.runtime.clock import no_op
from fakedev.scenario.rules.alert_rules import AlertRule, RecordingRule, labels_of, metrics_of
from fakedev.scenario.rules.dashboard_queries import Query, queries_of, trees_in
from fakedev.scenario.rules.promtool import PromtoolError, fired, measured
from fakedev.scenario.rules.rule_files import MAX_ALERTS, RuleFile, plain_tree, read_rules
from fakedev.scenario.rules.trials import Scraped
from fakedev.scenario.scores.score import RuleScore
from fakedev.scenario.scores.upgrade import bridge, changes, rewritten, rewritten_groups
from fakedev.scenario.scores.upgrade_report import (
    AS_BEFORE,
    NOT_SHOWN,
    TITLES,
    UNCHANGED,
    Finding,
    Measured,
    are_alike,
    as_html,
    as_markdown,
    by_file,
    cells,
    rewritten_ones,
    summary,
    verdict_of_fires,
    verdict_of_values,
)
from fakedev.scenario.settings import load_scenario
from fakedev.scenario.start import begin_of
from fakedev.schema.files import Files
from fakedev.schema.options import Failed, Option, WrongUsage, command
from fakedev.schema.places import ConfigurationError, Problem, Report
from fakedev.schema.reader import read_document

#: The exit code when something is not as it was.
_CHANGED: Final = 3
_SUFFIXES: Final = (".json", ".yaml", ".yml")
#: What a file of rules has, of those in a folder with other YAML.
_GROUPS: Final = re.compile(r'\bgroups"?+\s*+:')
#: Permissions of reports.
_MODE: Final = 0o644


@dataclass(frozen=True)
class _Releases:
    """The two releases that are compared.

    :ivar old_name: as the user, or the clone of a page, names it.
    :ivar device: the boards that both show.
    :ivar labels: of all series, as a scrape configuration adds them.
    """

    old_name: str
    old: Identity
    new_name: str
    new: Identity
    names: Renamed
    device: str
    labels: Mapping[str, str]

    def pages(self, rules: RuleFile) -> tuple[list[Scraped], list[Scraped], float]:
        """The series that rules need of both, and the time of the last scrape."""
        with Progress("fakedev upgrade", sys.stderr) as progress:
            trials = Trials(rules, self.old_name, self.device, self.labels, progress.show)
            names = {old: new.name for old, new in self.names.families.items()}
            return trials.scraped(), trials.scraped(shown=self.new, names=names), trials.last_seconds


@command(
    "fakedev upgrade",
    __doc__,
    Option("from", "ID", "the present release: dcgm@4.8.2, or a file with a page of it", value="old",
           is_required=True),
    Option("to", "ID", "the new release: dcgm@4.9.0", value="new", is_required=True),
    Option("rules", "FILE", "alert rules, or a folder of them; may be repeated", is_repeated=True),
    Option(
        "dashboards", "FILE",
        "dashboards, ScaledObjects, HorizontalPodAutoscalers, rules of an adapter, or a folder of them; may be "
        "repeated", is_repeated=True,
    ),
    Option("scenario", "FILE", "try the alerts in this scenario, by its truth, instead of with each fault"),
    Option("device", "NAME", "the boards, default: those on which the exporter shows most"),
    Option(
        "label", "NAME=VALUE", "a label of all series, as a scrape configuration adds it; may be repeated",
        parse=added_label, is_repeated=True,
    ),
    Option("output", "FOLDER", "write rewritten rules, recording rules for the old names, report.md and report.html"),
    JSON,
    failures={ValueError: 2},
)  # fmt: skip
def upgrade(options: Namespace) -> int:
    """Print what becomes of each expression.

    :returns: 0: all is as it was; 1: promtool or Prometheus is missing or fails; 3: something changes.
    :raises ConfigurationError: for what cannot be read.
    """
    if not options.rules and not options.dashboards:
        raise WrongUsage("give --rules or --dashboards")
    if options.scenario and not options.rules:
        raise WrongUsage("--scenario goes with --rules")
    with TemporaryDirectory(prefix="fakedev-upgrade-") as folder:
        releases = _releases(options, folder)
        queries = _queries(options.dashboards)
        try:
            rules = {file: checked_rules(file, needs_alerts=False) for file in _rule_files(options.rules)}
            findings = _of_alerts(rules, releases, options.scenario)
            findings += _of_queries(queries, list(rules.values()), releases)
        except PromtoolError as error:
            raise Failed(str(error), 2 if error.is_rule_error else 1) from None
    if options.output:
        title = f"From {options.old} to {options.new}"
        used = frozenset().union(*(rule.metrics for rule in rules.values()))
        used |= releases.names.families.keys() if queries else set()
        _write(Path(options.output), {
            **_rewritten_files(rules, releases.names),
            "old-names.yml": _yaml([bridge(releases.names, used)]),
            "report.md": as_markdown(title, findings), "report.html": as_html(title, findings),
        })  # fmt: skip
    if options.json:
        write_json([vars(finding) for finding in findings])
    else:
        write_text(sys.stdout, _as_text(findings))
    return _CHANGED if any(finding.verdict not in AS_BEFORE for finding in findings) else 0


def _releases(options: Namespace, folder: str) -> _Releases:
    """
    :param folder: where the identity of a page is written.
    """
    old_name, device = options.old, ""
    if Path(old_name).is_file() and not old_name.endswith(_SUFFIXES):
        old_name, device = _cloned(old_name, options.device or "", folder)
    report = Report()
    catalog = Catalog(Files(environ=os.environ), report)
    named = ((old_name, "fakedev upgrade: --from"), (options.new, "fakedev upgrade: --to"))
    old, new = (named_identity(name, catalog, report, option) for name, option in named)
    tell_notes(report.notes)
    device = options.device or device or board_of(old_name)
    # On boards of the old vendor a page of the new one may have families that its own boards lack.
    shown = read_page(sample_page(options.new, board_of(options.new))[1]).families
    return _Releases(old_name, old, options.new, new, renamed(old, new, shown), device, dict(options.label))


def _cloned(file: str, device: str, folder: str) -> tuple[str, str]:
    """The identity and the device type of the clone of a page.

    :raises ValueError: for a page that cannot be read.
    """
    path = Path(folder, "fleet.yaml")
    with Progress("fakedev upgrade", sys.stderr) as progress:
        cloning = Cloning(Wanted(path, path.with_name("identity.yaml"), device=device), progress.show)
        clone = cloning.run(grouped([SourcePage(Path(file).stem, captured_page(file))], is_stored=False))
    _write(path.parent, {path.name: text for path, text in clone.identities.items()})
    node = read_document(clone.text, str(path), Report())
    assert node is not None
    pool = plain_tree(node)["fleet"]["pools"][0]
    identity = pool["identity"]
    return str(path.with_name(identity)) if identity.startswith(".") else identity, pool["device"]


def _of_alerts(rules: Mapping[str, RuleFile], releases: _Releases, scenario: str | None) -> list[Finding]:
    """
    :raises PromtoolError: when promtool cannot evaluate the rules.
    """
    rules = {file: rule for file, rule in rules.items() if rule.alerts}
    if scenario and rules:
        return _in_scenario(list(rules.values()), releases, scenario)
    findings = []
    shown = {family.name for identity in (releases.old, releases.new) for family in identity.families}
    for rule_file in rules.values():
        is_foreign = _is_foreign(rule_file, shown)
        old_pages, new_pages, last_seconds = ([], [], 0.0) if is_foreign else releases.pages(rule_file)
        tries = ((rule_file, old_pages), *((version, new_pages) for version in _versions(rule_file, releases.names)))
        results = [fired(version, pages, last_seconds) for version, pages in tries]
        for rule in rule_file.alerts:
            hits = [{place for number, place in result if number == rule.number} for result in results]
            missing = _missing(rule.metrics, old_pages)
            finding = _of_alert(rule, releases.names, hits, missing)
            findings.append(finding if any(hits) else _unless_missing(finding, missing))
    return findings


def _is_foreign(rules: RuleFile, shown: Collection[str]) -> bool:
    """Whether rules are of another exporter, so that no trial can make one fire; not those on scrapes themselves."""
    if rules.takes_all or any("absent" in rule.expression for rule in rules.alerts):
        return False
    return rules.metrics.isdisjoint(shown) and not any(name.startswith(("up", "scrape_")) for name in rules.metrics)


def _missing(metrics: Collection[str], pages: Iterable[Scraped]) -> list[str]:
    """The metrics that are on none of the old pages."""
    return sorted(set(metrics) - {"ALERTS"}.union(*(page.names for page in pages)))


def _unless_missing(finding: Finding, missing: Sequence[str]) -> Finding:
    """A finding without any result, with the reason if metrics that it names are on none of the old pages."""
    if finding.reason or not missing:
        return finding
    verdict = NOT_SHOWN if finding.verdict == UNCHANGED else finding.verdict
    return replace(finding, verdict=verdict, reason=f"{', '.join(missing)}: on no page of the old release")


def _versions(rules: RuleFile, names: Renamed) -> tuple[RuleFile, RuleFile, RuleFile]:
    """Rules as they are, rewritten, and with recording rules for the old names."""
    changed, bridged = (
        read_rules(json.dumps({"groups": groups}), rules.file)
        for groups in (rewritten_groups(rules.trees, names), [bridge(names, rules.metrics), *rules.trees])
    )
    return rules, changed, bridged


def _of_alert(rule: AlertRule, names: Renamed, hits: Sequence[set[int]], missing: Sequence[str] = ()) -> Finding:
    """
    :param hits: the faults with which the rule fires: on the old pages, on the new ones, rewritten, and with
        recording rules for the old names.
    :param missing: the metrics that it names and no old page has.
    """
    named = changes(rule.expression, names)
    before, after, proved, bridged = hits
    is_tried = bool(before or after)
    return Finding(
        rule.place, rule.name, rule.expression, verdict_of_fires(before, after, named, is_new=bool(missing)), named,
        rewritten(rule.expression, names), proved == before if is_tried else None,
        bridged == before if is_tried else None,
    )  # fmt: skip


def _in_scenario(files: Sequence[RuleFile], releases: _Releases, scenario: str) -> list[Finding]:
    """What becomes of alerts by the truth of a scenario, in which both releases show the same fleet.

    :raises Failed: when Prometheus is missing or fails.
    """
    from fakedev.scenario.scores.score_start import RulesToScore, ScoreOrder, run_scores  # noqa: PLC0415 - it needs Twisted

    own = load_scenario(scenario, os.environ).configurations[0].configuration
    families = {family.name for family in releases.old.families}
    shown = [
        number for number, pool in enumerate(own.fleet.pools)
        if any(family.name in families for family in own.identities[pool.name].families)
    ]  # fmt: skip
    if not shown:
        raise Failed(f"{scenario}: no pool has a page like the one of {releases.old_name}", 2)
    before, after = (
        load_scenario(scenario, os.environ, None, [f"fleet.pools.{number}.identity={name}" for number in shown])
        for name in (releases.old_name, releases.new_name)
    )
    versions = zip(*(_versions(file, releases.names) for file in files), strict=True)
    tries = ((before, files), *((after, version) for version in versions))
    with Progress("fakedev upgrade", sys.stderr) as progress:
        ends = run_scores([
            ScoreOrder(
                loaded=loaded, epoch_seconds=begin_of(loaded, time()), done=progress.show, on_played=no_op,
                rules=RulesToScore(tuple(rules), {}, frozenset()),
            )
            for loaded, rules in tries
        ])  # fmt: skip
    scores = [end.score.rules for end in ends if end.score is not None]
    if len(scores) < len(ends):
        raise Failed(ends[0].problem, 1)
    return [
        _of_alert(rules[0].run.rule, releases.names, [_hits(rule) for rule in rules])
        for rules in zip(*scores, strict=True)
    ]


def _hits(rule: RuleScore) -> set[int]:
    """The faults that a rule saw, and below 0 its alarms without any."""
    return set(rule.seen) | {-1 - number for number in range(len(rule.false_firings))}


def _queries(given: Iterable[str]) -> list[Query]:
    """The queries of dashboards and the like.

    :raises ConfigurationError: for files that cannot be read.
    """
    report = Report()
    trees = [(file, tree) for file in _files(given) for tree in trees_in(text_of(file), file, report)]
    report.raise_if_any()
    return queries_of(trees)


def _of_queries(queries: Sequence[Query], files: Sequence[RuleFile], releases: _Releases) -> list[Finding]:
    """What becomes of queries and of recording rules.

    :raises PromtoolError: when promtool cannot evaluate them.
    """
    groups = [group for file in files for group in _recording(file)]
    recorded = [
        Query(rule.place, rule.name, rule.expression, {})
        for file in files for group in file.groups for rule in group.rules if isinstance(rule, RecordingRule)
    ]  # fmt: skip
    every = [*recorded, *queries]
    findings = []
    for first in range(0, len(every), MAX_ALERTS):
        findings += _measured(every[first : first + MAX_ALERTS], groups, releases)
    return findings


def _recording(rules: RuleFile) -> list[dict[str, Any]]:
    """The recording rules of a file, group by group as they are evaluated."""
    order = rules.evaluation_order
    ordered = sorted(rules.trees, key=lambda group: order.index(group["name"]))
    kept = ({**group, "rules": [rule for rule in group["rules"] if "record" in rule]} for group in ordered)
    return [{**group, "name": f"{rules.file}: {group['name']}"} for group in kept if group["rules"]]


def _measured(queries: Sequence[Query], groups: Sequence[Mapping[str, Any]], releases: _Releases) -> list[Finding]:
    names = releases.names
    expressions = [query.evaluable for query in queries]
    as_alerts = {"name": "queries", "rules": [{"alert": "query", "expr": expression} for expression in expressions]}
    rules = read_rules(json.dumps({"groups": [*groups, as_alerts]}), "queries.json")
    old_pages, new_pages, last_seconds = releases.pages(rules)
    changed = [query._replace(expression=rewritten(query.expression, names)).evaluable for query in queries]
    before, after, proved, bridged = (
        measured(with_groups, some, pages, last_seconds)
        for with_groups, some, pages in (
            (groups, expressions, old_pages),
            (groups, expressions, new_pages),
            (rewritten_groups(groups, names), changed, new_pages),
            ([bridge(names, rules.metrics), *groups], expressions, new_pages),
        )
    )
    labels = frozenset().union(*(page.labels for page in old_pages))
    findings = []
    for number, query in enumerate(queries):
        named, used = changes(query.expression, names), metrics_of(query.expression)
        factors = {new.factor for name, new in names.families.items() if name in used}
        was = before[number]
        verdict, factor = verdict_of_values(was, after[number], named, factors)
        is_proved, is_bridged = (
            are_alike(was, each[number]) if isinstance(was, Measured) else None for each in (proved, bridged)
        )
        unknown = sorted(labels_of(query.evaluable) - labels) if was is None and named else []
        missing = f"no series has the label {', '.join(unknown)}: add it with --label NAME=VALUE" if unknown else ""
        finding = Finding(
            query.place, query.name, query.expression, verdict, named, rewritten(query.expression, names), is_proved,
            is_bridged, was if isinstance(was, str) and named else missing, factor,
        )  # fmt: skip
        of_exporters = used - rules.recorded.keys()
        findings.append(_unless_missing(finding, _missing(of_exporters, old_pages)) if was is None else finding)
    return findings


def _files(given: Iterable[str]) -> list[str]:
    """The files, and in the place of folders the files in them that can be such."""
    found: list[str] = []
    for each in given:
        inside = sorted(path for path in Path(each).rglob("*") if path.suffix in _SUFFIXES and path.is_file())
        found += map(str, inside) if Path(each).is_dir() else [each]
    return found


def _rule_files(given: Sequence[str]) -> Iterator[str]:
    """The files of rules; of a folder only those with groups, and a note for each other file."""
    for file in _files(given):
        if file in given or _GROUPS.search(text_of(file)):
            yield file
        else:
            tell_notes([f"{file}: has no groups of rules, and is left out"])


def _as_text(findings: Sequence[Finding]) -> str:
    """A table, below it the expressions that replace those that are not as they were, and the sums of files."""
    if not findings:
        return "no expression was found\n"
    rows = [dict(zip(map(str.upper, TITLES), cells(finding), strict=True)) for finding in findings]
    lines = [f"{each.name}:\n  {each.rewritten.strip()}" for each in rewritten_ones(findings)]
    files = [{title.upper(): cell for title, cell in row.items()} for row in by_file(findings)]
    return "\n".join([table(rows), *lines, *(["", table(files)] if files else [""]), summary(findings), ""])


def _rewritten_files(rules: Mapping[str, RuleFile], names: Renamed) -> dict[str, str]:
    """The rewritten rules, by the names of their files."""
    written: dict[str, str] = {}
    for file, rule in rules.items():
        name = Path(file).name
        # Files of several folders may have the same name.
        name = f"{Path(file).parent.name}-{name}" if name in written else name
        written[name] = _yaml(rewritten_groups(rule.trees, names))
    return written


def _yaml(groups: object) -> str:
    return yaml.safe_dump({"groups": groups}, sort_keys=False, allow_unicode=True, width=120)


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """
    :raises ConfigurationError: when the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError([Problem(str(folder), 0, f"cannot be written: {plain_reason(error)}")]) from None
    for name, text in texts.items():
        replace_file(folder / name, text.encode(), _MODE)
