"""A score as text, JSON, JUnit's XML and HTML, and the requirements that it must meet.

A requirement is ``recall>=0.9`` or ``GpuHot: detect<=2m``. The HTML is one page with the timeline of truth and
alerts, which loads nothing else. Every text is escaped.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, NamedTuple
from xml.sax.saxutils import escape as escape_xml
from xml.sax.saxutils import quoteattr

from fakedev.base.errors import did_you_mean, printable
from fakedev.base.html import bullets, mark, page, table
from fakedev.base.units import format_duration, parse_duration, parse_number
from fakedev.scenario.rules.expected import Incident
from fakedev.scenario.scores.score import RuleScore, Score, Verdict

_FORM: Final = re.compile(r"(?:([^\s:]++)\s*+:\s*+)?([a-z.-]++)\s*+(<=|>=|==|<|>)\s*+([^<>=]++)")
_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


def _place(pair: tuple[float, float] | None, place: int) -> float | None:
    return None if pair is None else pair[place]


#: Figures of a rule.
_RULE_FIGURES: Final[Mapping[str, Callable[[RuleScore], float | None]]] = {
    "precision": lambda rule: rule.precision,
    "recall": lambda rule: rule.recall,
    "detect": lambda rule: _place(rule.detect, 1),
    "detect.median": lambda rule: _place(rule.detect, 0),
    "clear": lambda rule: _place(rule.clear, 1),
    "clear.median": lambda rule: _place(rule.clear, 0),
    "times": lambda rule: float(rule.most_times),
    "false": lambda rule: float(len(rule.false_firings)),
    "firings": lambda rule: float(len(rule.run.firings)),
}
#: Numbers of rules or incidents.
_COUNTS: Final[Mapping[str, Callable[[Score], float]]] = {
    "blind": lambda score: score.count(Verdict.BLIND),
    "never-tried": lambda score: score.count(Verdict.NEVER_TRIED),
    "failed": lambda score: score.count(Verdict.FAILED),
    "silent": lambda score: len(score.silent),
}
_TIMES: Final = ("detect", "clear")
_SHARES: Final = ("precision", "recall")
#: All that can be required.
SUBJECTS: Final = (*_RULE_FIGURES, *_COUNTS)


@dataclass(frozen=True)
class Requirement:
    """One requirement.

    :ivar rule: the name of an alert; empty: all rules.
    :ivar bound: a share, seconds, or a count.
    """

    text: str
    rule: str
    subject: str
    comparison: str
    bound: float


@dataclass(frozen=True)
class Finding:
    """The result of a requirement, of one rule or of the whole score.

    :ivar rule: the name of the alert; empty for the whole score.
    :ivar measured: None: there was nothing to measure.
    """

    requirement: Requirement
    rule: str
    measured: float | None
    is_met: bool


def parse_requirement(text: str) -> Requirement:
    """A requirement as users write it.

    :raises ValueError: with the correct form.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        form = "give FIGURE>=BOUND or ALERT: FIGURE>=BOUND, as recall>=0.9 or GpuHot: detect<=2m"
        raise ValueError(f"{text[:60]!r} is no requirement: {form}")
    rule, subject, comparison, bound = match.groups()
    if subject not in SUBJECTS:
        hint = did_you_mean(subject, SUBJECTS, f": there are {', '.join(SUBJECTS)}")
        raise ValueError(f"{text[:60]!r}: there is no figure {subject[:40]!r}{hint}")
    if rule and subject in _COUNTS:
        raise ValueError(f"{text[:60]!r}: {subject} is a number of all rules: leave out {rule[:40]!r}")
    return Requirement(" ".join(text.split()), rule or "", subject, comparison, _bound(text, subject, bound.strip()))


def _bound(text: str, subject: str, bound: str) -> float:
    is_time = subject.partition(".")[0] in _TIMES
    try:
        if is_time:
            return parse_duration(bound)
        value = parse_number(bound.removesuffix("%")) / (100 if bound.endswith("%") else 1)
    except ValueError:
        form = "a duration, as 2m" if is_time else "a number"
        raise ValueError(f"{text[:60]!r}: {bound[:40]!r} is not {form}") from None
    most = 1 if subject in _SHARES else 1e9
    if not 0 <= value <= most:
        raise ValueError(f"{text[:60]!r}: {subject} is a number from 0 to {most:g}")
    return value


def judge(requirements: Sequence[Requirement], score: Score) -> list[Finding]:
    """The results of requirements, in their order.

    One of all rules concerns each rule that has the figure. It is not met if no rule has it, nor is one of a rule
    without it.
    """
    return [finding for requirement in requirements for finding in _findings(requirement, score)]


def _findings(requirement: Requirement, score: Score) -> Iterator[Finding]:
    compare = _COMPARISONS[requirement.comparison]
    if requirement.subject in _COUNTS:
        value = _COUNTS[requirement.subject](score)
        yield Finding(requirement, "", value, compare(value, requirement.bound))
        return
    figure, is_any = _RULE_FIGURES[requirement.subject], False
    for rule in score.rules:
        name = rule.run.rule.name
        measured = figure(rule)
        if requirement.rule not in ("", name) or (measured is None and not requirement.rule):
            continue
        if rule.run.expects is None and not requirement.rule:
            continue
        is_any = True
        yield Finding(requirement, name, measured, measured is not None and compare(measured, requirement.bound))
    if not is_any:
        yield Finding(requirement, requirement.rule, None, False)


#: How many faults that no rule saw, and devices, the text names.
_SHOWN: Final = 10
_SHOWN_DEVICES: Final = 4


def rule_rows(score: Score) -> list[dict[str, str]]:
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
    """Remarks below the rows: what no rule saw, and notes on rules."""
    for rule in score.rules:
        yield from (f"{rule.run.rule.place}: {rule.run.rule.name}: {note}" for note in rule.run.notes)
    if score.silent:
        count = len(score.silent)
        yield f"{count} fault{'s that no rule' if count > 1 else ' that no rule'} saw:"
        yield from (f"  {incident_text(incident)}" for incident in score.silent[:_SHOWN])
        if count > _SHOWN:
            yield f"  and {count - _SHOWN} more"


def finding_text(finding: Finding) -> str:
    """The result of a requirement, in words."""
    subject = finding.requirement.subject
    if finding.measured is None:
        measured = "nothing was measured"
    elif subject.partition(".")[0] in _TIMES:
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
            kinds = sorted({incident.incident.what.partition(" ")[0] for incident in rule.incidents})
            return "nothing is said of what it expects" + (f"; fired during {', '.join(kinds)}" if kinds else "")
    missed = [incident_text(incident.incident) for incident in rule.incidents if not incident.is_found]
    others = f" and {len(missed) - 1} more" if len(missed) > 1 else ""
    return f"missed {missed[0]}{others}" if missed else ""


def incident_text(incident: Incident) -> str:
    """An incident in words: what, where, when."""
    return f"{incident.what} on {_devices(incident.devices)}, {span_text(incident.begin_seconds, incident.end_seconds)}"


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
    return "never" if math.isinf(seconds) else f"{seconds:.6g} s"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.2f}"


def score_values(score: Score, findings: Sequence[Finding]) -> dict[str, Any]:
    """A score as JSON values; seconds are simulated, since the start."""
    return {
        "span-seconds": score.span_seconds,
        "scrape-seconds": score.scrape_seconds,
        "rules": [_rule_values(rule) for rule in score.rules],
        "silent": [_incident_values(incident) for incident in score.silent],
        "expectations": [
            {
                "text": finding.requirement.text, "alert": finding.rule, "measured": _finite(finding.measured),
                "met": finding.is_met,
            }
            for finding in findings
        ],
    }  # fmt: skip


def _rule_values(rule: RuleScore) -> dict[str, Any]:
    run = rule.run
    false = {id(false_firing) for false_firing in rule.false_firings}
    return {
        "alert": run.rule.name,
        "place": run.rule.place,
        "group": run.group,
        "verdict": rule.verdict.value,
        "remark": remark(rule),
        "notes": list(run.notes),
        "expects": None if run.expects is None else [expect.text for expect in run.expects],
        "for-seconds": run.rule.for_seconds,
        "evaluation-seconds": run.interval_seconds,
        "precision": rule.precision,
        "recall": rule.recall,
        "detect-seconds": _pair_values(rule.detect),
        "clear-seconds": _pair_values(rule.clear),
        "most-firings-for-one-incident": rule.most_times,
        "firings": [
            {"labels": dict(firing.labels), "active": firing.active_seconds, "from": firing.begin_seconds,
             "to": firing.end_seconds, "false": id(firing) in false}
            for firing in run.firings
        ],
        "incidents": [
            {**_incident_values(incident.incident), "found": incident.is_found,
             "detect-seconds": incident.detect_seconds if incident.is_found else None}
            for incident in rule.incidents
        ],
    }  # fmt: skip


def _pair_values(pair: tuple[float, float] | None) -> dict[str, float | None] | None:
    return None if pair is None else {"median": _finite(pair[0]), "worst": _finite(pair[1])}


def _finite(number: float | None) -> float | None:
    """JSON has no infinity: null stands for never, too."""
    return None if number is None or math.isinf(number) else number


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
        missed = [finding for finding in findings if finding.rule == rule.run.rule.name and not finding.is_met]
        inner = ""
        if missed:
            failures += 1
            inner = "".join(_element("failure", finding_text(finding)) for finding in missed)
        elif rule.verdict is Verdict.FAILED:
            errors += 1
            inner = _element("error", remark(rule))
        elif rule.verdict is Verdict.NEVER_TRIED:
            skipped += 1
            inner = _element("skipped", remark(rule))
        elif remark(rule):
            inner = f"<system-out>{escape_xml(printable(remark(rule)))}</system-out>"
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


_WIDTH, _LEFT, _ROW, _TOP = 1160, 220, 24, 24
_SPAN: Final = _WIDTH - _LEFT - 12
#: The least width that can be seen.
_LEAST: Final = 2.0
#: Bars of a kind that are nearer to each other are one bar.
_NEAR: Final = 0.5
_MARKS: Final = 8
_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
#: Colours that differ on light and on dark ground, also for people who see no red or green.
_STYLE: Final = """<style>
body { max-width: 76em }
.timeline { overflow-x: auto }
.timeline svg { min-width: 60em; max-width: none; width: 100% }
.timeline .cause { fill: #b05fd0 } .timeline .effect { fill: #b05fd0; fill-opacity: .45 }
.timeline .true { fill: #2c7fd6 } .timeline .false { fill: #e2731b }
.timeline .pending { fill: currentColor; fill-opacity: .25 }
.timeline .window { fill: #b05fd0; fill-opacity: .16 }
.timeline .missed { fill: none; stroke: #e2731b; stroke-width: 1.5; stroke-dasharray: 3 2 }
.timeline .rule { stroke: currentColor; stroke-opacity: .12 }
.key { display: flex; flex-wrap: wrap; gap: .3em 1.4em; padding: 0; list-style: none }
.key svg { display: inline; margin: 0 .4em 0 0; width: 1.6em; min-width: 0; height: .8em }
</style>"""


#: The keys scroll what has the focus.
_SCROLLED: Final = '<div class="timeline" role="region" aria-label="Timeline" tabindex="0">'


class _Bar(NamedTuple):
    """A bar of a row.

    :ivar kind: its class of the style; empty: it is a text alone.
    :ivar left, right: its ends on the x axis.
    :ivar title: what is shown when the pointer is over it.
    """

    kind: str
    left: float
    right: float
    title: str


def score_html(score: Score, findings: Sequence[Finding], name: str) -> str:
    """The page.

    :param name: of the scenario.
    """
    rows = rule_rows(score)
    body = [_STYLE]
    if findings:
        body += ["<h2>Expectations</h2>", *bullets(mark(finding_text(finding), finding.is_met) for finding in findings)]
    body += ["<h2>Timeline</h2>", _KEY, _SCROLLED, _timeline(score), "</div>"]
    titles = [title.capitalize() for title in rows[0]] if rows else []
    body += ["<h2>Rules</h2>", *table(titles, (list(row.values()) for row in rows))]
    remarks = list(notes(score))
    if remarks:
        body += ["<h2>Remarks</h2>", *bullets(remarks)]
    return page(f"Alert rules in {printable(name)}", body)


def _key(kind: str, text: str) -> str:
    box = f'<svg viewBox="0 0 16 8" aria-hidden="true"><rect class="{kind}" x="1" y="1" width="14" height="6"/></svg>'
    return f'<li><span class="timeline">{box}</span>{text}</li>'


_KEY: Final = '<ul class="key">' + "".join(
    _key(kind, text)
    for kind, text in (
        ("cause", "fault"), ("effect", "what devices showed"), ("window", "what the rule is to find"),
        ("pending", "pending"), ("true", "firing"), ("false", "firing without a reason"), ("missed", "not found"),
    )
) + "</ul>"  # fmt: skip


def _timeline(score: Score) -> str:
    rows = [*_truth_rows(score).items(), *((rule.run.rule.name, _rule_bars(rule, score)) for rule in score.rules)]
    height = _TOP + _ROW * len(rows) + 28
    parts = [f"<title>{escape('Faults, effects and alerts over time')}</title>"]
    step = next((step_seconds for step_seconds in _STEPS if score.span_seconds / step_seconds <= _MARKS), 86400 * 7)
    for number in range(int(score.span_seconds // step) + 1):
        x = _x(number * step, score)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{height - 28}"/>')
        mark = format_duration(number * step)
        parts.append(f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle">{mark}</text>')
    for number, (name, bars) in enumerate(rows):
        top = _TOP + _ROW * number
        parts.append(f'<line class="rule" x1="0" y1="{top + _ROW}" x2="{_WIDTH}" y2="{top + _ROW}"/>')
        shown = printable(name)
        short = shown if len(shown) <= 30 else f"{shown[:29]}…"
        parts.append(f'<text x="4" y="{top + 16}"><title>{escape(shown)}</title>{escape(short)}</text>')
        parts += [_drawn(bar, top) for bar in _joined(bars)]
    size = f'viewBox="0 0 {_WIDTH} {height}"'
    return "\n".join([f'<svg role="img" {size}>', *parts, "</svg>"])


def _truth_rows(score: Score) -> dict[str, list[_Bar]]:
    """The bars of a row for each kind of fault, then for each kind of effect."""
    rows: dict[str, list[_Bar]] = {}
    for cause in sorted(score.truth.causes, key=lambda each: each.kind):
        what = f"{cause.kind}{f' ({cause.name})' if cause.name else ''} on {_devices(cause.devices)}"
        bar = _bar("cause", what, cause.begin_seconds, cause.end_seconds, score)
        rows.setdefault(f"fault: {cause.kind}", []).append(bar)
    for effect in sorted(score.truth.effects, key=lambda each: each.kind):
        what = f"{effect.kind}{f' {effect.code}' if effect.code else ''} on {_devices(effect.devices)}"
        bar = _bar("effect", what, effect.begin_seconds, effect.end_seconds, score)
        rows.setdefault(f"shown: {effect.kind.replace('_', ' ')}", []).append(bar)
    return rows


def _rule_bars(rule: RuleScore, score: Score) -> list[_Bar]:
    """The bars of a rule: below what it is to find, above it what it did."""
    bars = []
    for found in rule.incidents if rule.run.expects else ():
        incident = found.incident
        kind = "window" if found.is_found else "missed"
        what = f"{incident.what} on {_devices(incident.devices)}"
        bars.append(_bar(kind, what if found.is_found else f"not found: {what}", incident.begin_seconds,
                         incident.end_seconds, score))  # fmt: skip
    false = {id(false_firing) for false_firing in rule.false_firings}
    for firing in rule.run.firings:
        labels = ", ".join(f"{name}={value}" for name, value in firing.labels if name != "alertname")
        if firing.active_seconds < firing.begin_seconds:
            bars.append(_bar("pending", f"pending: {labels}", firing.active_seconds, firing.begin_seconds, score))
        kind = "false" if id(firing) in false and rule.verdict is not Verdict.NOT_EXPECTED else "true"
        bars.append(_bar(kind, f"firing: {labels}", firing.begin_seconds, firing.end_seconds, score))
    said = remark(rule) or f"found after {pair_text(rule.detect)}"
    return [bar._replace(title=f"{rule.run.rule.name}: {bar.title}") for bar in bars] or [_Bar("", 0, 0, said)]


def _bar(kind: str, what: str, begin: float, end: float | None, score: Score) -> _Bar:
    right = score.span_seconds if end is None else min(end, score.span_seconds)
    return _Bar(kind, _x(begin, score), _x(right, score), f"{what}, {span_text(begin, end)}")


def _joined(bars: Sequence[_Bar]) -> list[_Bar]:
    """The bars, with one in place of bars too close to see apart: a week has thousands."""
    joined: list[_Bar] = []
    counts: list[int] = []
    last: dict[str, int] = {}
    for bar in sorted(bars, key=lambda each: each.left):
        place = last.get(bar.kind, -1)
        if place >= 0 and bar.left - joined[place].right < _NEAR and bar.right - bar.left < _LEAST:
            joined[place] = joined[place]._replace(right=max(joined[place].right, bar.right))
            counts[place] += 1
        else:
            last[bar.kind] = len(joined)
            joined.append(bar)
            counts.append(1)
    return [
        bar if count == 1 else bar._replace(title=f"{bar.title}, and {count - 1} more near it")
        for bar, count in zip(joined, counts, strict=True)
    ]


def _drawn(bar: _Bar, top: int) -> str:
    if not bar.kind:
        return f'<text x="{_LEFT}" y="{top + 16}" opacity=".7">{escape(printable(bar.title))[:150]}</text>'
    width = max(_LEAST, bar.right - bar.left)
    inset, height = (2, _ROW - 4) if bar.kind in ("window", "missed") else (6, _ROW - 12)
    box = f'x="{bar.left:.1f}" y="{top + inset}" width="{width:.1f}" height="{height}"'
    return f'<rect class="{bar.kind}" {box}><title>{escape(printable(bar.title))}</title></rect>'


def _x(seconds: float, score: Score) -> float:
    return _LEFT + _SPAN * seconds / (score.span_seconds or 1)


def _devices(devices: Sequence[str]) -> str:
    return ", ".join(devices[:_SHOWN_DEVICES]) + (" ..." if len(devices) > _SHOWN_DEVICES else "")
