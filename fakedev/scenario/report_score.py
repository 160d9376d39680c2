"""A score as text, as JSON and as JUnit's XML."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from fakedev.scenario.alerts import Firing
from fakedev.scenario.expected import Incident
from fakedev.scenario.requirements import Finding
from fakedev.scenario.score import RuleScore, Score, Verdict
from fakedev.spec.errors import printable
from fakedev.spec.units import format_duration

#: How many faults that no rule saw, and devices, the text names.
_SHOWN: Final = 10
_SHOWN_DEVICES: Final = 4


def rule_rows(score: Score) -> list[dict[str, str]]:
    """A row of text for each rule."""
    return [
        {
            "ALERT": rule.run.rule.name,
            "FIRED": str(len(rule.run.firings)),
            "PRECISION": _share(rule.precision),
            "RECALL": _share(rule.recall) + (f" ({len(rule.found)}/{len(rule.incidents)})" if rule.run.expects else ""),
            "FOUND AFTER": pair_text(rule.detect),
            "OF IT": cost_text(rule, score.scrape_seconds),
            "CLEARS AFTER": pair_text(rule.clear),
            "TIMES": str(rule.most_times) if rule.found else "-",
            "REMARK": remark(rule),
        }
        for rule in score.rules
    ]


def notes(score: Score) -> Iterator[str]:
    """What is to be said beside the rows: what no rule saw, and remarks on rules."""
    for rule in score.rules:
        yield from (f"{rule.run.rule.place}: {rule.run.rule.name}: {note}" for note in rule.run.notes)
    if score.silent:
        count = len(score.silent)
        yield f"{count} fault{'s that no rule' if count > 1 else ' that no rule'} saw:"
        yield from (f"  {incident_text(each)}" for each in score.silent[:_SHOWN])
        if count > _SHOWN:
            yield f"  and {count - _SHOWN} more"


def finding_text(finding: Finding) -> str:
    """The result of a requirement, in words."""
    subject = finding.requirement.subject
    if finding.measured is None:
        measured = "nothing was measured"
    elif subject.partition(".")[0] in ("detect", "clear"):
        measured = seconds_text(finding.measured)
    else:
        measured = f"{finding.measured:.4g}"
    result = "met" if finding.is_met else "missed"
    own = f"{finding.rule}: " if finding.rule and not finding.requirement.rule else ""
    return f"{result}: {own}{finding.requirement.text} ({measured})"


def remark(rule: RuleScore) -> str:
    """What there is to say of a rule, in words; empty for nothing."""
    match rule.verdict:
        case Verdict.FAILED:
            return f"fails: {rule.run.problem}"
        case Verdict.BLIND:
            return f"blind: no page can have {', '.join(rule.run.lacks)}"
        case Verdict.NEVER_TRIED:
            return "never tried: nothing of what it expects happened"
        case Verdict.MUST_NOT_FIRE:
            return "must not fire"
        case Verdict.NOT_EXPECTED:
            kinds = sorted({each.incident.what.partition(" ")[0] for each in rule.incidents})
            return "nothing is said of what it expects" + (f"; fired during {', '.join(kinds)}" if kinds else "")
    return f"missed {_missed(rule)}" if len(rule.found) < len(rule.incidents) else ""


def _missed(rule: RuleScore) -> str:
    missed = [incident_text(each.incident) for each in rule.incidents if not each.is_found]
    return missed[0] + (f" and {len(missed) - 1} more" if len(missed) > 1 else "")


def incident_text(incident: Incident) -> str:
    """An incident in words: what, where, when."""
    devices = ", ".join(incident.devices[:_SHOWN_DEVICES])
    more = " ..." if len(incident.devices) > _SHOWN_DEVICES else ""
    return f"{incident.what} on {devices}{more}, {span_text(incident.begin_seconds, incident.end_seconds)}"


def span_text(begin_seconds: float, end_seconds: float | None) -> str:
    """From when to when, since the start: ``50m to 50m40s``."""
    return f"{_moment(begin_seconds)} to {'the end' if end_seconds is None else _moment(end_seconds)}"


def _moment(seconds: float) -> str:
    whole, rest = divmod(round(seconds, 3), 60)
    days, minutes = divmod(int(whole), 1440)
    parts = ((days, "d"), (minutes // 60, "h"), (minutes % 60, "m"), (rest, "s"))
    return "".join(f"{count:.5g}{unit}" for count, unit in parts if count) or "0s"


def cost_text(rule: RuleScore, scrape_seconds: float) -> str:
    """How much of the time to detect the rule's ``for``, the scrapes and the evaluations cost at most."""
    waits = [("for", rule.run.rule.for_seconds), ("scrape", scrape_seconds), ("evaluation", rule.run.interval_seconds)]
    return ", ".join(f"{name} {format_duration(seconds)}" for name, seconds in waits if seconds) if rule.detect else "-"


def pair_text(pair: tuple[float, float] | None) -> str:
    """Median and worst of seconds; once if they are equal."""
    if pair is None:
        return "-"
    middle, worst = map(seconds_text, pair)
    return middle if middle == worst else f"{middle}, at worst {worst}"


def seconds_text(seconds: float) -> str:
    """Seconds in words."""
    return "never" if math.isinf(seconds) else f"{seconds:.6g} s"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.2f}"


def score_values(score: Score, findings: Sequence[Finding]) -> dict[str, Any]:
    """A score as JSON values; seconds are simulated, since the start."""
    return {
        "span-seconds": score.span_seconds,
        "scrape-seconds": score.scrape_seconds,
        "rules": [_rule_values(rule) for rule in score.rules],
        "silent": [_incident_values(each) for each in score.silent],
        "expectations": [
            {
                "text": each.requirement.text, "alert": each.rule, "measured": _finite(each.measured),
                "met": each.is_met,
            }
            for each in findings
        ],
    }  # fmt: skip


def _rule_values(rule: RuleScore) -> dict[str, Any]:
    run = rule.run
    false = {id(each) for each in rule.false_firings}
    return {
        "alert": run.rule.name,
        "place": run.rule.place,
        "group": run.group,
        "verdict": rule.verdict.value,
        "remark": remark(rule),
        "notes": list(run.notes),
        "expects": None if run.expects is None else [each.text for each in run.expects],
        "for-seconds": run.rule.for_seconds,
        "evaluation-seconds": run.interval_seconds,
        "precision": rule.precision,
        "recall": rule.recall,
        "detect-seconds": _pair_values(rule.detect),
        "clear-seconds": _pair_values(rule.clear),
        "most-firings-for-one-incident": rule.most_times,
        "firings": [_firing_values(each, is_false=id(each) in false) for each in run.firings],
        "incidents": [
            {**_incident_values(each.incident), "found": each.is_found,
             "detect-seconds": each.detect_seconds if each.is_found else None}
            for each in rule.incidents
        ],
    }  # fmt: skip


def _pair_values(pair: tuple[float, float] | None) -> dict[str, float | None] | None:
    return None if pair is None else {"median": _finite(pair[0]), "worst": _finite(pair[1])}


def _finite(number: float | None) -> float | None:
    """JSON has no infinity: null stands for never, too."""
    return None if number is None or math.isinf(number) else number


def _firing_values(firing: Firing, *, is_false: bool) -> dict[str, Any]:
    return {
        "labels": dict(firing.labels), "active": firing.active_seconds, "from": firing.begin_seconds,
        "to": firing.end_seconds, "false": is_false,
    }  # fmt: skip


def _incident_values(incident: Incident) -> dict[str, Any]:
    return {
        "what": incident.what, "devices": list(incident.devices), "from": incident.begin_seconds,
        "to": incident.end_seconds,
    }  # fmt: skip


def junit(score: Score, findings: Sequence[Finding], name: str) -> str:
    """A score as JUnit's XML: a test case for each rule, and one for each expectation of all rules together.

    :param name: of the scenario.
    """
    cases = []
    failures = errors = skipped = 0
    for rule in score.rules:
        missed = [each for each in findings if each.rule == rule.run.rule.name and not each.is_met]
        inner = ""
        if missed:
            failures += 1
            inner = "".join(_element("failure", finding_text(each)) for each in missed)
        elif rule.verdict is Verdict.FAILED:
            errors += 1
            inner = _element("error", remark(rule))
        elif rule.verdict is Verdict.NEVER_TRIED:
            skipped += 1
            inner = _element("skipped", remark(rule))
        elif remark(rule):
            inner = f"<system-out>{escape(printable(remark(rule)))}</system-out>"
        cases.append(_case(f"{name}.{rule.run.group}", rule.run.rule.name, inner))
    for finding in findings:
        if not finding.rule:
            failures += not finding.is_met
            inner = "" if finding.is_met else _element("failure", finding_text(finding))
            cases.append(_case(f"{name}.expectations", finding.requirement.text, inner))
    counts = f'tests="{len(cases)}" failures="{failures}" errors="{errors}" skipped="{skipped}"'
    suite = f"<testsuite name={_attribute(f'fakedev scenario score {name}')} {counts}>"
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', suite, *cases, "</testsuite>", ""])


def _case(group: str, name: str, inner: str) -> str:
    return f"  <testcase classname={_attribute(group)} name={_attribute(name)}>{inner}</testcase>"


def _element(name: str, message: str) -> str:
    return f"<{name} message={_attribute(message)}/>"


def _attribute(text: str) -> str:
    return quoteattr(printable(text))
