"""``fakedev upgrade``: what another release of an exporter does to alert rules, dashboards and queries of autoscalers.

The same boards with the same faults are shown by both releases, and the rules are evaluated on both by promtool.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from fakedev.base.console import Progress, table, tell_notes, write_text
from fakedev.base.errors import plain_reason
from fakedev.commands.alert_rules import Trials, board_of, checked_rules, text_of
from fakedev.commands.catalogs import added_label
from fakedev.commands.reach import JSON, write_json
from fakedev.exporters.conform import Renamed, renamed
from fakedev.exporters.identity import Identity
from fakedev.exporters.settings.catalog import Catalog, named_identity
from fakedev.scenario.alert_rules import AlertRule, RecordingRule
from fakedev.scenario.promtool import PromtoolError, fired
from fakedev.scenario.rule_files import RuleFile
from fakedev.scenario.upgrade import bridge, changes, queries_in, rewritten, rewritten_groups
from fakedev.schema.files import Files
from fakedev.schema.options import Option, WrongUsage, command
from fakedev.schema.places import ConfigurationError, Problem, Report

#: The exit code when something is not as it was.
_CHANGED: Final = 3
UNCHANGED: Final = "unchanged"
_SUFFIXES: Final = (".json", ".yaml", ".yml")


@dataclass(frozen=True)
class Finding:
    """What becomes of an expression.

    :ivar place: its file and line, or its place in a dashboard.
    :ivar name: of the alert, the recorded series or the panel.
    :ivar changes: of the metrics and labels that it names, in words.
    :ivar rewritten: the expression for the new release; ``proved``: whether that fires as it did, ``bridged``: whether
        the old one does, with the recording rules; None: nothing that was tried makes it fire.
    """

    place: str
    name: str
    expression: str
    verdict: str
    changes: Sequence[str]
    rewritten: str
    proved: bool | None = None
    bridged: bool | None = None


@command(
    "fakedev upgrade",
    __doc__,
    Option("from", "ID", "the release that is there now: dcgm@4.8.2", value="old", is_required=True),
    Option("to", "ID", "the release that comes: dcgm@4.9.0", value="new", is_required=True),
    Option("rules", "FILE", "alert rules, or a folder of them; may be repeated", is_repeated=True),
    Option(
        "dashboards", "FILE", "dashboards, ScaledObjects, rules of an adapter, or a folder of them; may be repeated",
        is_repeated=True,
    ),
    Option("device", "NAME", "the boards, default: those on which the exporter shows most"),
    Option(
        "label", "NAME=VALUE", "a label of all series, as a scrape configuration adds it; may be repeated",
        parse=added_label, is_repeated=True,
    ),
    Option("output", "FOLDER", "write rewritten rules, recording rules for the old names, and report.md there"),
    JSON,
)  # fmt: skip
def upgrade(options: Namespace) -> int:
    """Print what becomes of each expression.

    :returns: 0: all is as it was; 1: promtool is missing or fails; 3: something changes.
    :raises ConfigurationError: for what cannot be read.
    """
    if not options.rules and not options.dashboards:
        raise WrongUsage("give --rules or --dashboards")
    report = Report()
    catalog = Catalog(Files(environ=os.environ), report)
    named = ((options.old, "fakedev upgrade: --from"), (options.new, "fakedev upgrade: --to"))
    old, new = (named_identity(name, catalog, report, option) for name, option in named)
    tell_notes(report.notes)
    names = renamed(old, new)
    findings: list[Finding] = []
    written: dict[str, object] = {}
    used: set[str] = set()
    try:
        for file in _files(options.rules):
            rules = checked_rules(file)
            used |= rules.metrics
            with Progress("fakedev upgrade", sys.stderr) as progress:
                device = options.device or board_of(options.old)
                trials = Trials(rules, options.old, device, dict(options.label), progress.show)
                findings += _of_rules(rules, names, new, trials)
            name = Path(file).name
            # Files of several folders may have the same name.
            name = f"{Path(file).parent.name}-{name}" if name in written else name
            written[name] = {"groups": rewritten_groups(rules.trees, names)}
    except PromtoolError as error:
        write_text(sys.stderr, f"fakedev upgrade: {error}\n")
        return 2 if error.is_of_rules else 1
    for file in _files(options.dashboards):
        findings += _of_queries(file, names)
    used |= names.families.keys() if options.dashboards else set()
    written["old-names.yml"] = {"groups": [bridge(names, frozenset(used))]}
    if options.output:
        _write(options.output, written, _markdown(options.old, options.new, findings))
    if options.json:
        write_json([vars(each) for each in findings])
    else:
        write_text(sys.stdout, _as_text(findings))
    return _CHANGED if any(each.verdict != UNCHANGED for each in findings) else 0


def _of_rules(rules: RuleFile, names: Renamed, new: Identity, trials: Trials) -> list[Finding]:
    """
    :raises PromtoolError: when promtool cannot evaluate the rules.
    """
    new_names = {old: name for old, (name, _) in names.families.items()}
    old_pages, new_pages = trials.scraped(), trials.scraped(shown=new, names=new_names)
    before, after = fired(rules, old_pages, trials.last_seconds), fired(rules, new_pages, trials.last_seconds)
    changed = replace(rules, trees=rewritten_groups(rules.trees, names))
    bridged = replace(rules, trees=[bridge(names, rules.metrics), *rules.trees])
    repaired = [fired(each, new_pages, trials.last_seconds) for each in (changed, bridged)]
    recorded = [rule for group in rules.groups for rule in group.rules if isinstance(rule, RecordingRule)]
    return [_static(rule.place, rule.name, rule.expression, names) for rule in recorded] + [
        _finding(rule, names, *(frozenset(place for number, place in each if number == rule.number)
                                for each in (before, after, *repaired)))
        for rule in rules.alerts
    ]  # fmt: skip


def _finding(
    rule: AlertRule, names: Renamed, before: frozenset[int], after: frozenset[int], proved: frozenset[int],
    bridged: frozenset[int],
) -> Finding:  # fmt: skip
    """
    :param before, after: the trials in which the rule fires, on the pages of the old and of the new release.
    :param proved, bridged: those in which the rewritten rule does, and the old one with recording rules.
    """
    named = changes(rule.expression, names)
    verdict = UNCHANGED
    if before - after:
        verdict = f"misses {len(before - after)} of {len(before)}" if after else "silent"
    elif after - before:
        verdict = "false alarms"
    elif not before and named:
        verdict = "not tried"
    tried = bool(before or after)
    return Finding(
        rule.place, rule.name, rule.expression, verdict, named, rewritten(rule.expression, names),
        proved == before if tried else None, bridged == before if tried else None,
    )  # fmt: skip


def _of_queries(file: str, names: Renamed) -> list[Finding]:
    """What becomes of the queries of a dashboard and the like, which are not evaluated."""
    text = text_of(file)
    try:
        trees = [json.loads(text)] if file.endswith(".json") else list(yaml.load_all(text, yaml.CSafeLoader))
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigurationError([Problem(file, 0, f"cannot be read: {str(error).splitlines()[0]}")]) from None
    found = dict.fromkeys(each for tree in trees for each in queries_in(tree))
    return [_static(file, name, query, names) for name, query in found]


def _static(place: str, name: str, expression: str, names: Renamed) -> Finding:
    named = changes(expression, names)
    return Finding(place, name, expression, "breaks" if named else UNCHANGED, named, rewritten(expression, names))


def _files(given: Iterable[str]) -> list[str]:
    """The files, and in the place of folders the files in them that can be such."""
    found: list[str] = []
    for each in given:
        inside = sorted(path for path in Path(each).rglob("*") if path.suffix in _SUFFIXES and path.is_file())
        found += map(str, inside) if Path(each).is_dir() else [each]
    return found


def _as_text(findings: Sequence[Finding]) -> str:
    """A table, and below it the expressions that replace those that are not as they were."""
    rows = [
        {"NAME": each.name, "AFTER THE UPGRADE": each.verdict, "REWRITTEN": _word(each.proved),
         "WITH OLD NAMES": _word(each.bridged), "CHANGES": "; ".join(each.changes) or "-"}
        for each in findings
    ]  # fmt: skip
    if not findings:
        return "no expression was found\n"
    counts = Counter(each.verdict for each in findings)
    lines = [f"{each.name}:\n  {each.rewritten.strip()}" for each in findings if each.rewritten != each.expression]
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    return "\n".join([table(rows), *lines, "", f"{len(findings)} expressions: {summary}", ""])


def _word(is_good: bool | None) -> str:
    return "-" if is_good is None else "as before" if is_good else "not as before"


def _markdown(old: str, new: str, findings: Sequence[Finding]) -> str:
    lines = [f"# From {old} to {new}", "", "| name | after the upgrade | rewritten | with old names | changes |"]
    lines.append("|---|---|---|---|---|")
    for each in findings:
        cells = (each.name, each.verdict, _word(each.proved), _word(each.bridged), "; ".join(each.changes) or "-")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    for each in findings:
        if each.rewritten != each.expression:
            lines += ["", f"{each.name} ({each.place}):", "", "```promql", each.rewritten.strip(), "```"]
    return "\n".join([*lines, ""])


def _write(folder: str, documents: Mapping[str, Any], report: str) -> None:
    """
    :raises ConfigurationError: when the folder cannot be written.
    """
    try:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        for name, tree in documents.items():
            text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=120)
            (path / name).write_text(text, encoding="utf-8")
        (path / "report.md").write_text(report, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError([Problem(folder, 0, f"cannot be written: {plain_reason(error)}")]) from None
