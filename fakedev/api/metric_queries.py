"""Why a PromQL expression has the series that it has on this fleet, or none: family, identity, labels, values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, NamedTuple

import numpy as np

from fakedev.base.errors import first_names, nearest_name
from fakedev.exporters.identity import AT_TIMES, FamilySpec, Identity, PageLayout, RowSpec, without_parts
from fakedev.exporters.numbers import formatted
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.row_levels import FOLLOW_FROM, PAGE_QUANTITIES
from fakedev.exporters.samples import Labels, Row, read_lines
from fakedev.exporters.sources import DeviceSource, by_identity
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.links.link_levels import LINK_QUANTITIES
from fakedev.fleet.spec.fault_kinds import KINDS, MACHINE_SCOPES, Scope
from fakedev.fleet.spec.quantities import KNOWN_QUANTITIES
from fakedev.scenario.rules.alert_rules import Matcher, masked, metrics_of, selectors_of, thresholds_of
from fakedev.scenario.rules.thresholds import Threshold, beyond_thresholds
from fakedev.scenario.samples.series import EXPORTED
from fakedev.schema.files import Files

#: Devices whose series are looked at, metrics of an expression, and texts that a line lists.
MAX_DEVICES: Final = 512
MAX_METRICS: Final = 20
_MAX_LISTED: Final = 8
_MAX_REASONS: Final = 3
#: Python needs very long for some regular expressions that Prometheus matches at once: those with more repetitions than
#: this, or with one of a group, are not tried.
_MAX_REPETITIONS: Final = 2
_REPETITION: Final = re.compile(r"[*+?]|\{\d")
#: What is left of a selector that is compared with a number.
_COMPARISON: Final = re.compile(r"[\s()]*(?:(?:[<>]=?|[=!]=)\s*(?:bool\s+)?[-+]?[\d.]+(?:[eE][-+]?\d+)?[\s)]*)?")
_MIRRORED: Final = str.maketrans("<>", "><")
_OPERATORS: Final = tuple("+-*/%^<>=!")
#: A number on the left of a comparison.
_FLIPPED: Final = re.compile(
    r"[\s(]*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*([<>]=?|[=!]=)\s*(?:bool\s+)?([a-zA-Z_:{].*)", re.DOTALL
)
_ABSENT: Final = re.compile(r"(?<!\w)absent(?:_over_time)?\s*\(")
_COUNT: Final = re.compile(r"(?<!\w)count(?!\w)")
#: Labels that Prometheus adds, or its configuration: pages do not have them.
_ADDED: Final = frozenset(
    ("job", "instance", "node", "cluster", "container", "endpoint", "namespace", "pod", "service"),
)
#: A field in the catalog's table of DCGM: one that counters can show has a colon.
_FIELD: Final = re.compile(r"(?m)^  (?:- )?(DCGM_\w+)(:?)")
#: Characters that a field shares with a wrong name that is compared with it, and how many fields are.
_ALIKE: Final = 9
_MAX_ALIKE: Final = 200
#: What samples of a family add to its name.
_SUFFIXES: Final = ("", "_total", "_created", "_bucket", "_count", "_sum")
#: What Prometheus adds for each target, with the faults of pages that change it.
_SCRAPE_METRICS: Final = {
    "up": ("node-down", "error-page", "cut-page", "wrong-type", "slow-page seconds=60"),
    "scrape_duration_seconds": ("slow-page seconds=5",),
    "scrape_samples_scraped": ("absent", "lost", "node-down"),
    "scrape_samples_post_metric_relabeling": ("absent", "lost", "node-down"),
    "scrape_series_added": ("reset", "node-down"),
}
_HOLDS: Final = {">": gt, ">=": ge, "<": lt, "<=": le, "==": eq, "!=": ne}
#: Nodes whose series are read in one step.
_NODES_AT_ONCE: Final = 8
#: Levels whose rows are devices or instances.
_UNIT_LEVELS: Final = ("device", "unit", "whole", "repeated", "single", "tiled", "held")
#: Quantities that work changes.
WORK_QUANTITIES: Final = frozenset(KINDS["hang"].moves) - {"hung", "recovery_action"}


@dataclass
class OwnPage:
    """The series of some metrics on a page.

    :ivar rows: by the names of the metrics.
    :ivar helps: the texts of all its families, by their names.
    """

    path: str
    rows: dict[str, list[Row]] = field(default_factory=dict)
    helps: dict[str, str] = field(default_factory=dict)

    def read(self, metrics: tuple[str, ...], pieces: Iterable[bytes]) -> Iterator[None]:
        """Take what the page has of some metrics, piece by piece."""
        starts, rest = (b"# HELP ", *(metric.encode() for metric in metrics)), b""
        for piece in pieces:
            *lines, rest = (rest + piece).split(b"\n")
            for _, line in read_lines(b"\n".join(line for line in lines if line.startswith(starts))):
                if not isinstance(line, Row):
                    self.helps[line.name] = line.text
                elif line.name in metrics:
                    self.rows.setdefault(line.name, []).append(line)
            yield


class Watched(NamedTuple):
    """A comparison of a metric, for values of the past.

    :ivar units: the devices of its series, those first whose values are the nearest to the comparison or beyond it.
    :ivar is_beyond: whether the comparison is true of each of some values of the quantity, as pages show them.
    """

    units: list[int]
    quantity: str
    is_beyond: Callable[[Sequence[float]], list[bool]]


def explain_query(
    fleet: Fleet, identities: Sequence[Mapping[str, Identity]], own: Sequence[OwnPage], expression: str
) -> Iterator[dict[str, Any] | None]:
    """A description of each metric of an expression, and None for each pause.

    :param identities: by their pools the identities of the pools themselves, then of each address that has its own.
    :param own: fakedev's own pages, with the metrics of the expression.
    """
    flipped = _FLIPPED.fullmatch(expression)
    if flipped and not thresholds_of(flipped[3]):
        expression = f"{flipped[3]} {flipped[2].translate(_MIRRORED)} {flipped[1]}"
    for metric in sorted(metrics_of(expression))[:MAX_METRICS]:
        braces = _braces_after(expression, metric)
        rest = expression.replace(metric, "", 1).replace(braces, "", 1)
        # Of a function, or of several metrics, the number is not compared with values of a page.
        compared = thresholds_of(expression) if _COMPARISON.fullmatch(rest) else []
        matchers = next(iter(selectors_of(f"x{braces}")), ())
        page = next((own_page for own_page in own if metric in own_page.rows), None)
        kind = _Query if page is None else _OwnQuery
        query = kind(fleet, identities, own, metric, matchers, compared)
        for _ in query.read():
            yield None
        described = query.described()
        if described["faults"] and metric not in _SCRAPE_METRICS and _is_of_lack(expression):
            described["faults"] = [f"absent metric={metric}", "lost", "node-down"]
        elif described["series"] and not described["matching"]:
            described["faults"] = []  # no fault gives a series another label
        if not compared and rest.strip(" ()"):
            around = expression.replace(metric, "...", 1).replace(braces, "", 1)
            described["lines"].append(
                f"only the series of {metric} are judged, and not what {around} makes of them: Prometheus evaluates "
                f"that, and fakedev faults --for a file with the rule tries faults against the whole"
            )
        yield described


def _is_of_lack(expression: str) -> bool:
    """Whether an expression has a result when series are missing."""
    plain = masked(expression)
    is_low = any(operator.startswith("<") for operator, _ in thresholds_of(expression))
    return bool(_ABSENT.search(plain) or (is_low and _COUNT.search(plain)))


def problem_of(expression: str) -> str:
    """Why Prometheus does not take an expression, as far as its brackets, matchers and end show; empty: it may."""
    plain, waiting = masked(expression), list[int]()
    for at, sign in enumerate(plain):
        if sign in "([{":
            waiting.append(at)
        elif sign in ")]}":
            if not waiting or plain[waiting[-1]] + sign not in ("()", "[]", "{}"):
                return f"nothing opens the {sign} at character {at + 1}"
            begin = waiting.pop()
            parts = _parts(plain, begin + 1, at) if sign == "}" else ()
            for place, part in ((place, expression[place:end].strip()) for place, end in parts):
                matchers = [matcher for found in selectors_of(f"x{{{part}}}") for matcher in found]
                if part and part[0] not in "\"'`" and len(matchers) != 1:
                    return f'{part} after character {place} is no matcher: write it as gpu="3"'
    if waiting:
        return f"nothing closes the {plain[waiting[-1]]} at character {waiting[-1] + 1}"
    left = plain.rstrip(" \t\r\n)")
    return f"nothing follows its last {left[-1]}" if left.endswith(_OPERATORS) else ""


def _parts(plain: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The begins and ends of the parts between commas."""
    for part in plain[begin:end].split(","):
        yield begin, begin + len(part)
        begin += len(part) + 1


def is_exporter_metric(metric: str) -> bool:
    """Whether a shipped identity or a counters file can have a metric."""
    return metric in _fields_of_dcgm() or bool(_shipped(metric))


def shows_any(identity: Identity, metrics: Iterable[str]) -> bool:
    return any(_family_of(identity, metric) is not None for metric in metrics)


class _Query:
    """One selector on the pages of a fleet."""

    def __init__(
        self, fleet: Fleet, identities: Sequence[Mapping[str, Identity]], own: Sequence[OwnPage], metric: str,
        matchers: Sequence[Matcher], compared: Sequence[tuple[str, float]],
    ) -> None:  # fmt: skip
        self._fleet = fleet
        self._every = [identity for by_name in identities for identity in by_name.values()]
        having = (each for each in identities if any(shows_any(identity, [metric]) for identity in each.values()))
        self._identities = next(having, identities[0])
        self._own = own
        self._metric = metric
        self._matchers = matchers
        self._compared = compared
        self._rows: list[Row] = []
        self._units: list[int] = []

    def described(self) -> dict[str, Any]:
        """The metric, its number of series, those that match, and texts."""
        self._matchers = list(map(self._as_on_page, self._matchers))
        families = {
            identity.title: family
            for identity in self._identities.values()
            if (family := _family_of(identity, self._metric)) is not None
        }
        rows, checked = self._rows, self._checked()
        found = [row for row in rows if all(matcher.matches(_value(row.labels, matcher.label)) for matcher in checked)]
        lines = list(self._lines(families, rows, found))
        return {"metric": self._metric, "series": len(rows), "matching": len(found), "lines": lines,
                "labels": [dict(row.labels) for row in found[:_MAX_LISTED]], "watched": self._watched(rows, found),
                "quantities": self._quantities(), "faults": self._faults()}  # fmt: skip

    def _units_with(self, identity: Identity, nodes: Sequence[RosterNode]) -> list[int]:
        """The devices or instances of the rows of a page, in their order; a lost one has no row."""
        (row,) = identity.families[0].rows if len(identity.families[0].rows) == 1 else (None,)
        if row is None or row.state_level not in _UNIT_LEVELS:
            return []
        source = DeviceSource.of(self._fleet, identity)
        units = [unit for node in nodes for unit, _ in source.entities(row.state_level, node)]
        lost = self._fleet.shown.levels["unit"].arrays.get("lost")
        return units if lost is None else [unit for unit in units if lost[unit] <= 0]

    def _watched(self, rows: Sequence[Row], found: Sequence[Row]) -> Watched | None:
        """What the metric's past is compared with; None unless its rows are known to belong to the devices."""
        shown = [identity for identity in self._identities.values() if shows_any(identity, [self._metric])]
        meaning = shown[0].metric_names().get(self._metric) if len(set(shown)) == 1 else None
        if len(self._compared) != 1 or meaning is None or shown[0].layout is not PageLayout.FAMILIES:
            return None
        if len(self._units) != len(rows):
            return None
        family = next(family for family in shown[0].families if family.name == self._metric)
        units = {id(row): unit for row, unit in zip(rows, self._units, strict=True)}
        operator, number = self._compared[0]
        nearest = sorted(found, key=lambda row: float(row.number), reverse=not operator.startswith("<"))

        def is_beyond(values: Sequence[float]) -> list[bool]:
            texts = formatted(np.array(values) * meaning.factor, family.number)
            return [_HOLDS[operator](float(text), number) for text in texts]

        devices = [unit for row in nearest if (unit := units[id(row)]) < self._fleet.roster.device_count]
        return Watched(list(dict.fromkeys(devices)), meaning.quantity, is_beyond)

    @cached_property
    def _label_names(self) -> set[str]:
        """The labels of series on the pages, also those that none has now: a pod's, where no device has a pod."""
        shown = [identity for identity in self._identities.values() if shows_any(identity, [self._metric])]
        optional = {label.name for identity in shown for label in identity.labels}
        return optional | {name for row in self._rows for name, _ in row.labels}

    def _as_on_page(self, matcher: Matcher) -> Matcher:
        """A matcher with the page's name of the label that Prometheus calls exported_..."""
        name = matcher.label.removeprefix(EXPORTED)
        is_renamed = name != matcher.label and name in self._label_names
        return matcher._replace(label=name) if is_renamed else matcher

    def _checked(self) -> list[Matcher]:
        """The matchers whose labels pages have, or should have."""
        return [
            matcher for matcher in self._matchers
            if not _takes_long(matcher) and (matcher.label in self._label_names or matcher.label not in _ADDED)
        ]  # fmt: skip

    def read(self) -> Iterator[None]:
        """Take the present series of the metric on the pages, of the first devices, in steps."""
        shown = [node for node in _first_nodes(self._fleet) if node.pool.name in self._identities]
        for identity, nodes in by_identity(shown, self._identities):
            kept = _family_of(identity, self._metric)
            if kept is None:
                continue
            alone = replace(identity, families=(kept,))
            # A page has a row of its own once.
            size = _NODES_AT_ONCE if all(row.state_level in _UNIT_LEVELS for row in kept.rows) else len(nodes)
            for first in range(0, len(nodes), size):
                some = nodes[first : first + size]
                lines = read_lines(_page(self._fleet, alone, some))
                self._rows += [row for _, row in lines if isinstance(row, Row) and row.name == self._metric]
                self._units += self._units_with(alone, some)
                yield

    def _lines(self, families: Mapping[str, FamilySpec], rows: Sequence[Row], found: Sequence[Row]) -> Iterator[str]:
        metric, titles = self._metric, dict.fromkeys(identity.title for identity in self._every)
        if not families:
            yield from self._of_no_page(", ".join(titles))
            return
        yield f"{metric} is a family of {', '.join(families)}: {next(iter(families.values())).help}{self._meaning()}"
        seen, count = sum(len(node.devices) for node in _first_nodes(self._fleet)), self._fleet.roster.device_count
        if seen < count:
            yield f"only the first {seen} of {count} devices are looked at"
        if not rows:
            yield self._why_no_series()
        yield from self._of_matchers(rows, found)

    def _of_matchers(self, rows: Sequence[Row], found: Sequence[Row]) -> Iterator[str]:
        """Which labels select nothing, else the values of the series that are selected."""
        for matcher in self._matchers if rows else ():
            yield from self._of_matcher(matcher, rows)
        levels = {row.state_level for row in self._family_rows}
        parts = self._fleet.roster.parts
        if rows and not found and levels == {"whole"} and not parts.is_undivided.all():
            yield "divided devices (MIG) have no series of it: their instances have other metrics"
        if rows and not found and len(self._checked()) > 1:
            yield f"no series matches all of these at once{self._too_much(rows)}"
        if found:
            yield from self._of_values(found)

    def _of_no_page(self, titles: str) -> Iterator[str]:
        """Who has a metric that no page of the fleet has."""
        metric = self._metric
        if metric in _SCRAPE_METRICS or metric.startswith("ALERTS"):
            made = "for each target that it scrapes" if metric in _SCRAPE_METRICS else "of its rules"
            yield f"{metric} is on no page: Prometheus makes it {made}"
            return
        if ":" in metric:
            yield f"{metric} is on no page: a name with a colon is of a recording rule; ask about the rule's expression"
            return
        yield f"no page has {metric}: it is not in the families, or not in the counters, of {titles}"
        shipped, fields = _shipped(metric), _fields_of_dcgm()
        if shipped:
            yield f"shipped identities with it: {', '.join(shipped)} (a pool's identity: chooses one)"
        if fields.get(metric):
            row = f"{metric}, gauge, HELP"
            yield f"dcgm-exporter can show it: add the row '{row}' to the counters of the identity (doc/identities.md)"
        elif metric in fields:
            yield "dcgm-exporter can show it, but fakedev does not simulate what this field shows"
        elif not shipped:
            known = [family.name for identity in self._every for family in identity.families]
            ours = [name for page in self._own for name in page.helps]
            near = nearest_name(metric, [*known, *ours, *_alike(metric, fields)])
            yield f"did you mean {near}?" if near else "no shipped identity has it"

    @cached_property
    def _kinds(self) -> list[Mapping[str, str]]:
        """The facts of the devices of each pool."""
        return [{**pool.device_type.facts, **pool.facts} for pool in self._fleet.roster.pools]

    @cached_property
    def _family_rows(self) -> list[RowSpec]:
        families = [_family_of(identity, self._metric) for identity in self._identities.values()]
        return list(dict.fromkeys(row for family in families if family is not None for row in family.rows))

    def _why_no_series(self) -> str:
        texts = (self._lack(row) or _condition(row) for row in self._family_rows)
        reasons = list(dict.fromkeys(filter(None, texts)))
        if reasons:
            more = f"; and {len(reasons) - _MAX_REASONS} more like these" if len(reasons) > _MAX_REASONS else ""
            return f"it has no series: {'; '.join(reasons[:_MAX_REASONS])}{more}"
        hidden = [fault.fault_id for fault in self._fleet.faults.active(Scope.SERIES, Scope.PAGE, Scope.NODE)]
        return "it has no series now" + (f": active faults of pages and series are {', '.join(hidden)}" * bool(hidden))

    def _lack(self, row: RowSpec) -> str:
        """Why no device of this fleet can have a row; empty when one can."""
        roster, level, has = self._fleet.roster, row.state_level, self._fleet.quantity_names()
        if not any(map(row.is_of, self._kinds)):
            if not any(map(row.is_of_driver, self._kinds)):
                fact, which = "driver_version", row.driver_words
            else:
                (fact, *values), negation = (row.only, "") if row.only else (row.excepted, "not ")
                which = f"{negation}{' or '.join(values)}"
            here = ", ".join(dict.fromkeys(kind.get(fact, "") or "not known" for kind in self._kinds))
            return f"only devices whose {fact} is {which} have it, and here it is {here}"
        if level == "part" and not roster.parts.count:
            return "it is shown of instances (MIG), and no device is divided: mig: of a pool divides them"
        if level in LINK_QUANTITIES and "links_up" not in has:
            return f"it is shown of each {level}, and no device has links"
        is_device_level = level not in (*PAGE_QUANTITIES, *LINK_QUANTITIES)
        needed = [FOLLOW_FROM.get(name, name) for name in row.needed if is_device_level]
        lacking = [name for name in needed if name in KNOWN_QUANTITIES and name not in has]
        types = ", ".join(dict.fromkeys(pool.device_type.name for pool in roster.pools))
        return f"{types} has no {' and no '.join(lacking)}" if lacking else ""

    def _of_matcher(self, matcher: Matcher, rows: Sequence[Row]) -> Iterator[str]:
        """Why a matcher leaves nothing of the series."""
        label, shown = matcher.label, _shown(matcher)
        if _takes_long(matcher):
            yield f"{shown} is not checked: too many repetitions"
            return
        names = list(dict.fromkeys(name for row in rows for name, _ in row.labels))
        values = list(dict.fromkeys(_value(row.labels, label) for row in rows))
        if label not in names:
            if label in _ADDED and label not in self._label_names:
                yield f"{shown} is not checked: no page has {label}; Prometheus or its configuration adds it"
            elif not matcher.matches(""):
                now = " now" if label in self._label_names else ""
                yield f"{shown} matches nothing: no series has the label {label}{now}; they have {', '.join(names)}"
        elif not any(map(matcher.matches, values)):
            yield f"{shown} matches nothing: {label} is {_listed(values)}"

    def _too_much(self, rows: Sequence[Row]) -> str:
        """Without which matcher there are series, and how many."""
        checked = self._checked()
        counts = {
            left: sum(all(matcher.matches(_value(row.labels, matcher.label)) for matcher in checked if matcher != left)
                      for row in rows)
            for left in checked
        }  # fmt: skip
        return "".join(f"; without {_shown(left)} {count} do" for left, count in counts.items() if count)

    def _of_values(self, found: Sequence[Row]) -> Iterator[str]:
        """The lowest and highest value, and how far that is from what the expression compares it with."""
        numbers = [row for row in found if not math.isnan(float(row.number))] or found
        if len(numbers) < len(found):
            yield f"{len(found) - len(numbers)} series are NaN, besides these:"
            found = numbers
        ordered = sorted(found, key=lambda row: float(row.number))
        low, high = ordered[0], ordered[-1]
        yield (
            f"{len(found)} series: from {low.number} ({_named(low.labels)}) to {high.number} ({_named(high.labels)})"
            if len(found) > 1 else f"1 series: {high.number} ({_named(high.labels)})"
        )
        if len(self._compared) != 1:
            return
        operator, number = self._compared[0]
        nearest = low if operator.startswith("<") else high
        count = sum(_HOLDS[operator](float(row.number), number) for row in found)
        if count:
            unchecked = [_shown(matcher) for matcher in self._matchers if matcher not in self._checked()]
            only = f", if {' and '.join(unchecked)} is right" if unchecked else ""
            yield f"{operator} {number:g} is true of {count} of them now{only}; an alert also waits for its 'for'"
        elif math.isnan(float(nearest.number)):
            yield f"{operator} {number:g} is true of none: no NaN is"
        else:
            away = abs(float(nearest.number) - number)
            name = _named(nearest.labels)
            yield f"{operator} {number:g} is true of none: {nearest.number} of {name} is {away:g} away"

    def _quantities(self) -> list[str]:
        """What the metric shows on the pages that have it."""
        names = (identity.metric_names() for identity in self._identities.values())
        return sorted({name[self._metric].quantity for name in names if self._metric in name})

    def _meaning(self) -> str:
        """What the metric shows of which quantity, in words; empty where it is not the value of one."""
        names = [identity.metric_names() for identity in self._identities.values()]
        known = [name[self._metric] for name in names if self._metric in name]
        times = f" times {known[0].factor:g}" if known and known[0].factor != 1 else ""
        return f" ({known[0].quantity}{times})" if known else ""

    def _faults(self) -> list[str]:
        """Faults that change the metric, as ``fakedev fault`` takes them: beyond its threshold first."""
        if self._metric in _SCRAPE_METRICS:
            return list(_SCRAPE_METRICS[self._metric])
        names = {name: of for identity in self._identities.values() for name, of in identity.metric_names().items()}
        if self._metric not in names or all(map(self._lack, self._family_rows)):
            return []
        quantity = names[self._metric].quantity
        thresholds = [Threshold(frozenset([self._metric]), *comparison) for comparison in self._compared]
        words = [f"{kind} {name}={value:g}" for kind, name, value in beyond_thresholds(thresholds, names)]
        racked = any(pool.racks is not None for pool in self._fleet.spec.pools)
        for kind in (kind for kind in KINDS.values() if racked or not kind.needs_racks):
            if kind.scope in MACHINE_SCOPES and quantity in kind.moves and not kind.by_limit:
                needs = any(parameter.default is None for parameter in kind.parameters)
                words += [] if needs or any(word.startswith(f"{kind.name} ") for word in words) else [kind.name]
        if quantity == "xid":
            code = self._compared[0][1] if self._compared and math.isfinite(self._compared[0][1]) else 0
            words[:0] = [f"xid code={int(code) if code > 0 else 79}", *["lost"] * (code in (0, 79))]
        operator, number = self._compared[0] if self._compared else (">", 0.0)
        beyond = (number if math.isfinite(number) else 0.0) + {">": 1.0, "<": -1.0, "!=": 1.0}.get(operator, 0.0)
        return [*words[:_MAX_LISTED], f"sentinel metric={self._metric} value={beyond:g}"]


class _OwnQuery(_Query):
    """One selector on a page of fakedev's own."""

    @cached_property
    def _page(self) -> OwnPage:
        return next(page for page in self._own if self._metric in page.rows)

    def read(self) -> Iterator[None]:
        self._rows = self._page.rows[self._metric]
        yield

    def _lines(self, families: Mapping[str, FamilySpec], rows: Sequence[Row], found: Sequence[Row]) -> Iterator[str]:
        texts = (self._page.helps.get(self._metric.removesuffix(suffix)) for suffix in _SUFFIXES)
        yield f"{self._metric} is on {self._page.path}: {next(filter(None, texts), '')}"
        yield from self._of_matchers(rows, found)

    def _faults(self) -> list[str]:
        return []

    def _watched(self, rows: Sequence[Row], found: Sequence[Row]) -> Watched | None:
        return None


def _condition(row: RowSpec) -> str:
    """When devices have a row; empty for always."""
    if row.state_level in AT_TIMES:
        return f"it has a row for each {row.state_level}, and there is none now"
    if row.where:
        return f"it is shown only at times: while {' or '.join(row.where)} is not 0"
    if row.unless or row.without:
        return f"it is shown only at times: while {' and '.join((*row.unless, *row.without))} is 0 or missing"
    if row.fact:
        return f"it is shown only where the device type or the pool gives {row.fact}"
    return f"it is shown only where driver_version is {row.driver_words}" if row.drivers else ""


def _shown(matcher: Matcher) -> str:
    return f'{matcher.label}{matcher.kind}"{matcher.text}"'


def _takes_long(matcher: Matcher) -> bool:
    repeated = _REPETITION.findall(matcher.text)
    is_nested = any(f"){sign}" in matcher.text for sign in "*+?{")
    return matcher.kind.endswith("~") and (is_nested or len(repeated) > _MAX_REPETITIONS)


def _braces_after(expression: str, metric: str) -> str:
    """The matchers of a metric in an expression, with their braces; empty without."""
    begin = 0
    while (at := expression.find(metric, begin)) >= 0:
        begin = at + len(metric)
        rest = expression[begin:].lstrip()
        if rest.startswith("{"):
            return rest[: rest.find("}") + 1]
    return ""


def _family_of(identity: Identity, metric: str) -> FamilySpec | None:
    names = {metric.removesuffix(suffix) for suffix in _SUFFIXES}
    return next((family for family in identity.families if family.name in names), None)


def _first_nodes(fleet: Fleet) -> list[RosterNode]:
    nodes: list[RosterNode] = []
    count = 0
    for node in fleet.roster.shown:
        if nodes and count + len(node.devices) > MAX_DEVICES:
            break
        nodes.append(node)
        count += len(node.devices)
    return nodes


def _page(fleet: Fleet, identity: Identity, nodes: list[RosterNode]) -> bytes:
    shown = identity if fleet.roster.parts.count else without_parts(identity)
    return Page(LabelCache(shown, DeviceSource.of(fleet, shown)), nodes).render(fleet.shown)


def _shipped(metric: str) -> list[str]:
    """The shipped identities whose files have a metric."""
    files, families = Files(), {metric.removesuffix(suffix) for suffix in _SUFFIXES}
    texts = ((file, files.peek_catalog("identities", file)) for file in files.catalog_names("identities"))
    return [
        file.removesuffix(".yaml")
        for file, text in texts
        # Thousands of lines: only files that contain the name are read.
        if any(name in text for name in families) and any(_first_name(line) in families for line in text.splitlines())
    ]


def _fields_of_dcgm() -> dict[str, bool]:
    """The fields of DCGM, and whether counters can show each."""
    text = Files().peek_catalog("fields", "dcgm.yaml")
    return {name: bool(shown) for name, shown in _FIELD.findall(text)}


def _alike(metric: str, names: Iterable[str]) -> list[str]:
    """The names that are compared with a wrong one: each comparison takes some microseconds, and there are hundreds."""
    near = [name for name in names if name[:_ALIKE].casefold() == metric[:_ALIKE].casefold()]
    return sorted(near, key=lambda name: abs(len(name) - len(metric)))[:_MAX_ALIKE]


def _first_name(line: str) -> str:
    """The family of a line of an identity's file: the name of one, or a row of counters; else some other word."""
    words = line.strip(" -{").removeprefix("name:").replace(",", " ").split()
    return words[0].strip("'\"") if words else ""


def _value(labels: Labels, name: str) -> str:
    return dict(labels).get(name, "")


def _named(labels: Labels) -> str:
    """The labels by which people know a device; else the first of all."""
    known = ("hostname", "node", "gpu", "device", "card", "gpu_i_id")
    kept = [label for label in labels if label[0].lower() in known] or labels[:_MAX_REASONS]
    return " ".join(f"{name}={value}" for name, value in kept) or "no labels"


def _listed(values: Sequence[str]) -> str:
    return first_names([repr(value) if value else "empty" for value in values], _MAX_LISTED)
