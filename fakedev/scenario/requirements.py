"""What a user requires of a score, ``recall>=0.9`` or ``GpuHot: detect<=2m``, and whether it is met."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fakedev.scenario.score import RuleScore, Score, Verdict
from fakedev.spec.errors import did_you_mean
from fakedev.spec.units import parse_duration, parse_number

_FORM: Final = re.compile(r"(?:([^\s:]++)\s*+:\s*+)?([a-z.-]++)\s*+(<=|>=|==|<|>)\s*+([^<>=]++)")
_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


def _place(pair: tuple[float, float] | None, place: int) -> float | None:
    return None if pair is None else pair[place]


#: Figures of a rule.
_OF_RULES: Final[Mapping[str, Callable[[RuleScore], float | None]]] = {
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
SUBJECTS: Final = (*_OF_RULES, *_COUNTS)


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
    try:
        if subject.partition(".")[0] in _TIMES:
            return parse_duration(bound)
        value = parse_number(bound.removesuffix("%")) / (100 if bound.endswith("%") else 1)
    except ValueError:
        form = "a duration, as 2m" if subject.partition(".")[0] in _TIMES else "a number"
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
    return [finding for each in requirements for finding in _findings(each, score)]


def _findings(requirement: Requirement, score: Score) -> Iterator[Finding]:
    compare = _COMPARISONS[requirement.comparison]
    if requirement.subject in _COUNTS:
        value = _COUNTS[requirement.subject](score)
        yield Finding(requirement, "", value, compare(value, requirement.bound))
        return
    figure, is_any = _OF_RULES[requirement.subject], False
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
