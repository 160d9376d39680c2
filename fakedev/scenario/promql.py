"""What expressions of PromQL name: metrics, labels, time ranges. Read from their text, without a whole parser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?+|\'(?:[^\'\\]|\\.)*+\'?+|`[^`]*+`?+')
_COMMENT: Final = re.compile(r"#[^\n]*+")
_TEXT_OR_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?+|\'(?:[^\'\\]|\\.)*+\'?+|`[^`]*+`?+|#[^\n]*+')
_PARENTHESIS: Final = re.compile(r"[()]")
_MATCHERS: Final = re.compile(r"\{[^{}]*+\}")
_MATCHER: Final = re.compile(r"(?<!\w)([a-zA-Z_]\w*+)\s*+(=~|=(?!~))\s*+(\"[^\"]*+\"|'[^']*+'|`[^`]*+`)")
_NAMED: Final = re.compile(r"__name__\s*+=\s*+[\"']([a-zA-Z_:][\w:]*+)[\"']")
_WINDOW: Final = re.compile(r"\[([^\[\]:]*+)(?::[^\[\]]*+)?\]")
_OFFSET: Final = re.compile(r"(?<!\w)offset\s++-?([\w.]++)")
_LABELS: Final = re.compile(r"(?<!\w)(?:by|without|on|ignoring|group_left|group_right)\s*+\([^()]*+\)", re.IGNORECASE)
_WORD: Final = re.compile(r"(?<![\w:.])([a-zA-Z_:][\w:]*+)(?!\s*+\()")
_NO_METRICS: Final = frozenset(
    ("and", "or", "unless", "bool", "by", "without", "on", "ignoring", "group_left", "group_right", "offset", "atan2",
     "inf", "nan"),
)  # fmt: skip
_UNIT_SECONDS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
#: Prometheus counts durations in nanoseconds of 63 bits.
_LONGEST_SECONDS: Final = (2**63 - 1) / 1e9
_TOKEN: Final = re.compile(r"[\w:.]++|[()\[\]{}]")
_SETS: Final = ("and", "or", "unless")
_ABSENT: Final = ("absent", "absent_over_time")


def seconds_of(text: str) -> float:
    """The seconds of a duration of PromQL; 0 for a text that is none, which promtool refuses.

    :raises ValueError: for a duration that Prometheus cannot hold.
    """
    parts = re.findall(r"(?<!\d)(\d++)(ms|[smhdwy])", text)
    total = sum((float(number) * _UNIT_SECONDS[unit] for number, unit in parts), 0.0)
    if total > _LONGEST_SECONDS:
        raise ValueError(f"{text[:40]} is too long: Prometheus knows durations of at most 292 years")
    return total


def metrics_of(expression: str) -> frozenset[str]:
    """The names of the metrics that an expression selects."""
    named = frozenset(name for found in _MATCHERS.findall(expression) for name in _NAMED.findall(found))
    plain = _COMMENT.sub("", _TEXT.sub("", expression))
    for each in (_MATCHERS, _WINDOW, _OFFSET, _LABELS):
        plain = each.sub(" ", plain)
    return named | {word for word in _WORD.findall(plain) if word.lower() not in _NO_METRICS}


def labels_of(expression: str) -> frozenset[str]:
    """The labels that the matchers of an expression require: those that also match a missing label are left out."""
    found = set()
    for braces in _braces(expression):
        for name, kind, quoted in _MATCHER.findall(braces):
            value = quoted[1:-1]
            takes_none = not value or (kind == "=~" and (value in (".*", "()") or "|" in (value[0], value[-1])))
            if not takes_none:
                found.add(name)
    return frozenset(found - {"__name__"})


def window_of(expression: str) -> float:
    """How many seconds an expression looks back at most.

    :raises ValueError: for a duration that Prometheus cannot hold.
    """
    plain = _TEXT.sub('""', expression)
    return max((seconds_of(each) for each in (*_WINDOW.findall(plain), *_OFFSET.findall(plain))), default=0.0)


class Needs:
    """What expressions need to have any result.

    One side of ``or`` is enough; what follows ``unless`` and what is in ``absent()`` is not needed.

    :param recorded: expressions of recorded series, by their name.
    """

    def __init__(
        self, has_metric: Callable[[str], bool], has_label: Callable[[str], bool], recorded: Mapping[str, str]
    ) -> None:
        self._has_metric = has_metric
        self._has_label = has_label
        self._recorded = recorded
        self._sides = {name: self._read(expression) for name, expression in recorded.items()}
        users: dict[str, list[str]] = {}
        for name, sides in self._sides.items():
            for used in frozenset().union(*(side.recorded for side in sides)):
                users.setdefault(used, []).append(name)
        #: The recorded series that can be there.
        self._there: set[str] = set()
        waiting = list(recorded)
        while waiting:
            name = waiting.pop()
            if name not in self._there and self._can_be(self._sides[name]):
                self._there.add(name)
                waiting += users.get(name, ())

    def missing_of(self, expression: str) -> tuple[str, ...]:
        """The metrics and labels for whose lack an expression can have no result, sorted; empty if it can have one."""
        sides = self._read(expression)
        if self._can_be(sides):
            return ()
        missing: set[str] = set()
        followed: set[str] = set()
        waiting = [sides]
        while waiting:
            for side in waiting.pop():
                missing |= side.missing
                new = side.recorded - self._there - followed
                followed |= new
                waiting += [self._sides[name] for name in new]
        # Recorded series that only use each other lack nothing else.
        return tuple(sorted(missing or followed))

    def _read(self, expression: str) -> list[_Side]:
        found = []
        for one in _alternatives(expression):
            metrics = metrics_of(one)
            recorded = metrics & self._recorded.keys()
            missing = {name for name in metrics - recorded if not self._has_metric(name)}
            missing |= {name for name in labels_of(one) if not self._has_label(name)}
            found.append(_Side(frozenset(missing), frozenset(recorded)))
        return found

    def _can_be(self, sides: Sequence[_Side]) -> bool:
        return any(not side.missing and side.recorded <= self._there for side in sides)


class _Side(NamedTuple):
    """What one side of ``or`` needs: metrics and labels that are missing, and recorded series."""

    missing: frozenset[str]
    recorded: frozenset[str]


def _braces(expression: str) -> Iterator[str]:
    """The texts between braces, also those with braces in quoted texts."""
    masked, end = _masked(expression), 0
    while (begin := masked.find("{", end)) >= 0 and (end := masked.find("}", begin)) >= 0:
        yield expression[begin + 1 : end]


def _masked(expression: str) -> str:
    """An expression with other signs in place of texts and comments; all places stay the same."""
    return _TEXT_OR_COMMENT.sub(lambda found: (" " if found[0][0] == "#" else "~") * len(found[0]), expression)


def _alternatives(expression: str) -> list[str]:
    """The sides of ``or`` at the top, each without what it does not need."""
    masked = _masked(expression)
    closing = _closing(masked)
    first, last = _bare(masked, 0, len(masked))
    while closing.get(first, -2) == last - 1:
        first, last = _bare(masked, first + 1, last - 1)
    masked, expression = masked[:last], expression[:last]
    sides, kept, begin, depth, is_needed = [], [], first, 0, True
    skip_to = first
    for token in _TOKEN.finditer(masked, first):
        if token.start() < skip_to:
            continue
        word = token[0].lower()
        if word in "([{":
            depth += 1
        elif word in ")]}":
            depth -= 1
        elif word in _ABSENT and (opening := masked.find("(", token.end())) >= 0:
            skip_to = closing.get(opening, len(masked)) + 1
            kept += [expression[begin : token.start()] if is_needed else "", " 1 "]
            begin = skip_to
        elif depth == 0 and word in _SETS:
            kept.append(expression[begin : token.start()] if is_needed else "")
            begin = token.end()
            is_needed = word != "unless"
            if word == "or":
                sides.append(" ".join(kept))
                kept = []
            else:
                kept.append(" and ")
    kept.append(expression[begin:] if is_needed else "")
    return [*sides, " ".join(kept)]


def _bare(masked: str, begin: int, end: int) -> tuple[int, int]:
    """The ends of a part of a text without the white space around it."""
    while begin < end and masked[begin].isspace():
        begin += 1
    while begin < end and masked[end - 1].isspace():
        end -= 1
    return begin, end


def _closing(masked: str) -> dict[int, int]:
    """The places of opening parentheses, each with the place of that which closes it."""
    found: dict[int, int] = {}
    waiting: list[int] = []
    for each in _PARENTHESIS.finditer(masked):
        if each[0] == "(":
            waiting.append(each.start())
        elif waiting:
            found[waiting.pop()] = each.start()
    return found
