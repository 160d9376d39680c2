"""A score as one HTML page with the timeline of truth and alerts, which loads nothing else. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from fakedev.scenario.report_score import finding_text, notes, pair_text, remark, rule_rows, span_text
from fakedev.scenario.requirements import Finding
from fakedev.scenario.score import RuleScore, Score, Verdict
from fakedev.spec.errors import printable
from fakedev.spec.units import format_duration
from fakedev.tester.report_html import page

_WIDTH, _LEFT, _ROW, _TOP = 1160, 220, 24, 24
_SPAN: Final = _WIDTH - _LEFT - 12
#: The least width that can be seen.
_LEAST: Final = 2.0
#: Bars of a kind that are nearer to each other are one bar.
_NEAR: Final = 0.5
_MARKS: Final = 8
_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
#: Colours that are told apart on light and on dark ground, also by those who see no red or green.
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

    :ivar kind: its class of the style.
    :ivar title: what is shown when the pointer is over it.
    """

    kind: str
    begin_seconds: float
    end_seconds: float | None
    title: str


class _Row(NamedTuple):
    """A row of the timeline."""

    name: str
    bars: Sequence[_Bar]


def score_html(score: Score, findings: Sequence[Finding], name: str) -> str:
    """The page.

    :param name: of the scenario.
    """
    rows = rule_rows(score)
    head = "".join(f"<th>{escape(title.capitalize())}</th>" for title in rows[0]) if rows else ""
    cells = ["".join(f"<td>{escape(printable(text))}</td>" for text in row.values()) for row in rows]
    body = [_STYLE, *_findings(findings)]
    body += ["<h2>Timeline</h2>", _KEY, _SCROLLED, _timeline(score), "</div>"]
    body += ["<h2>Rules</h2>", "<table>", f"<tr>{head}</tr>", *(f"<tr>{each}</tr>" for each in cells), "</table>"]
    said = [f"<li>{escape(printable(each))}</li>" for each in notes(score)]
    if said:
        body += ["<h2>Remarks</h2>", "<ul>", *said, "</ul>"]
    return page(f"Alert rules in {printable(name)}", body)


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    if findings:
        yield "<h2>Expectations</h2><ul>"
        for each in findings:
            yield f'<li class="{"met" if each.is_met else "not-met"}">{escape(printable(finding_text(each)))}</li>'
        yield "</ul>"


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
    rows = [*_truth_rows(score), *(_rule_row(rule) for rule in score.rules)]
    height = _TOP + _ROW * len(rows) + 28
    parts = [f"<title>{escape('Faults, effects and alerts over time')}</title>"]
    step = next((each for each in _STEPS if score.span_seconds / each <= _MARKS), 86400 * 7)
    for number in range(int(score.span_seconds // step) + 1):
        x = _x(number * step, score)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{height - 28}"/>')
        mark = format_duration(number * step)
        parts.append(f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle">{mark}</text>')
    for number, row in enumerate(rows):
        top = _TOP + _ROW * number
        parts.append(f'<line class="rule" x1="0" y1="{top + _ROW}" x2="{_WIDTH}" y2="{top + _ROW}"/>')
        shown = printable(row.name)
        short = shown if len(shown) <= 30 else f"{shown[:29]}…"
        parts.append(f'<text x="4" y="{top + 16}"><title>{escape(shown)}</title>{escape(short)}</text>')
        parts += [_bar(each, top, score) for each in _joined(row.bars, score)]
    size = f'viewBox="0 0 {_WIDTH} {height}"'
    return "\n".join([f'<svg role="img" {size}>', *parts, "</svg>"])


def _truth_rows(score: Score) -> Iterator[_Row]:
    """A row for each kind of fault, then for each kind of effect."""
    causes: dict[str, list[_Bar]] = {}
    for cause in score.truth.causes:
        what = f"{cause.kind}{f' ({cause.name})' if cause.name else ''} on {_devices(cause.devices)}"
        causes.setdefault(cause.kind, []).append(_made("cause", what, cause.begin_seconds, cause.end_seconds))
    effects: dict[str, list[_Bar]] = {}
    for effect in score.truth.effects:
        what = f"{effect.kind}{f' {effect.code}' if effect.code else ''} on {_devices(effect.devices)}"
        effects.setdefault(effect.kind, []).append(_made("effect", what, effect.begin_seconds, effect.end_seconds))
    yield from (_Row(f"fault: {kind}", bars) for kind, bars in sorted(causes.items()))
    yield from (_Row(f"shown: {kind.replace('_', ' ')}", bars) for kind, bars in sorted(effects.items()))


def _rule_row(rule: RuleScore) -> _Row:
    """The row of a rule: below what it is to find, above it what it did."""
    bars = []
    for found in rule.incidents if rule.run.expects else ():
        incident = found.incident
        kind = "window" if found.is_found else "missed"
        what = f"{incident.what} on {_devices(incident.devices)}"
        bars.append(_made(kind, what if found.is_found else f"not found: {what}", incident.begin_seconds,
                          incident.end_seconds))  # fmt: skip
    false = {id(each) for each in rule.false_firings}
    for firing in rule.run.firings:
        labels = ", ".join(f"{name}={value}" for name, value in firing.labels if name != "alertname")
        if firing.active_seconds < firing.begin_seconds:
            bars.append(_made("pending", f"pending: {labels}", firing.active_seconds, firing.begin_seconds))
        kind = "false" if id(firing) in false and rule.verdict is not Verdict.NOT_EXPECTED else "true"
        bars.append(_made(kind, f"firing: {labels}", firing.begin_seconds, firing.end_seconds))
    said = remark(rule) or f"found after {pair_text(rule.detect)}"
    return _Row(rule.run.rule.name, [each._replace(title=f"{rule.run.rule.name}: {each.title}") for each in bars] or [
        _Bar("", 0, 0, said)])  # fmt: skip


def _made(kind: str, what: str, begin: float, end: float | None) -> _Bar:
    return _Bar(kind, begin, end, f"{what}, {span_text(begin, end)}")


def _joined(bars: Sequence[_Bar], score: Score) -> list[_Bar]:
    """The bars, with one in place of those that could not be told apart: a week has thousands."""
    joined: list[_Bar] = []
    counts: list[int] = []
    last: dict[str, int] = {}
    for bar in sorted(bars, key=lambda each: each.begin_seconds):
        place = last.get(bar.kind, -1)
        end = score.span_seconds if place < 0 else _end(joined[place], score)
        if place >= 0 and _x(bar.begin_seconds, score) - _x(end, score) < _NEAR and _is_short(bar, score):
            joined[place] = joined[place]._replace(end_seconds=max(end, _end(bar, score)))
            counts[place] += 1
        else:
            last[bar.kind] = len(joined)
            joined.append(bar)
            counts.append(1)
    return [
        bar if count == 1 else bar._replace(title=f"{bar.title}, and {count - 1} more near it")
        for bar, count in zip(joined, counts, strict=True)
    ]


def _is_short(bar: _Bar, score: Score) -> bool:
    return _x(_end(bar, score), score) - _x(bar.begin_seconds, score) < _LEAST


def _end(bar: _Bar, score: Score) -> float:
    return score.span_seconds if bar.end_seconds is None else min(bar.end_seconds, score.span_seconds)


def _bar(bar: _Bar, top: int, score: Score) -> str:
    if not bar.kind:
        return f'<text x="{_LEFT}" y="{top + 16}" opacity=".7">{escape(printable(bar.title))[:150]}</text>'
    x = _x(bar.begin_seconds, score)
    width = max(_LEAST, _x(_end(bar, score), score) - x)
    inset, height = (2, _ROW - 4) if bar.kind in ("window", "missed") else (6, _ROW - 12)
    box = f'x="{x:.1f}" y="{top + inset}" width="{width:.1f}" height="{height}"'
    return f'<rect class="{bar.kind}" {box}><title>{escape(printable(bar.title))}</title></rect>'


def _x(seconds: float, score: Score) -> float:
    return _LEFT + _SPAN * seconds / (score.span_seconds or 1)


def _devices(devices: Sequence[str]) -> str:
    return ", ".join(devices[:4]) + (" ..." if len(devices) > 4 else "")
