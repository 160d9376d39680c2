"""A run as a file for ``promtool test rules``: its samples as input series, the alerts that were found as expectations.

Names of keys: Prometheus, "Unit testing for rules".
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fakedev.scenario.rules.alert_rules import Firing, LabelSet, Pending, RuleGroup, evaluation_order
from fakedev.scenario.samples.series import Scraped, Series
from fakedev.scenario.scores.score import RuleRun


class InputSeries:
    """Collects the samples of the series that rules need.

    :param metrics: those that are needed; None for all.
    """

    def __init__(self, metrics: Collection[str] | None) -> None:
        self._metrics = metrics
        self._samples: dict[Series, list[tuple[int, str]]] = {}
        self._count = 0

    def add(self, number: int, scraped: Scraped) -> None:
        """Add the samples of a scrape.

        :param number: of its instant.
        """
        self._count = max(self._count, number + 1)
        for series, value in zip(scraped.series, scraped.values, strict=True):
            if self._metrics is None or series.name in self._metrics:
                self._samples.setdefault(series, []).append((number, value.decode()))

    @property
    def last(self) -> int:
        """The number of the last instant."""
        return self._count - 1

    def values(self) -> list[dict[str, str]]:
        """All series in promtool's notation."""
        return [
            {"series": series.text.decode(), "values": " ".join(series_values(samples, self.last))}
            for series, samples in self._samples.items()
        ]


def series_values(samples: Sequence[tuple[int, str]], scrapes: int) -> Iterator[str]:
    """Samples in promtool's notation: a series missing from a scrape is stale once, then missing.

    :param samples: the number of the scrape, and the text of the value.
    :param scrapes: the number of the last scrape.
    """
    next_number = 0
    run, length = "", 0
    for number, value in [*samples, (scrapes + 1, "")]:
        is_next = number == next_number and value == run
        if is_next:
            length += 1
        else:
            yield from _repeated(run, length)
            if number > next_number:
                missing = number - next_number
                yield from (["stale", *_missing(missing - 1)] if next_number else _missing(missing))
            run, length = value, 1
        next_number = number + 1


def _missing(count: int) -> list[str]:
    return ["_"] * count if count < 5 else [f"_x{count}"]


def _repeated(value: str, length: int) -> Iterator[str]:
    if not length:
        return
    if length > 1 and math.isfinite(float(value)):
        yield f"{value}+0x{length - 1}"
    else:
        yield from [value] * length


def promtool_tests(
    rules: str, groups: Sequence[RuleGroup], name: str, inputs: InputSeries, runs: Sequence[RuleRun], scrape_ms: int,
    interval_ms: int,
) -> str:
    """The text of the file; JSON is YAML.

    :param rules: the rule file, as the tests are to name it.
    :param groups: that are in it.
    :param name: of the scenario.
    :param runs: what its rules did; those that fail have no expectations.
    :param scrape_ms, interval_ms: between two scrapes, and two evaluations.
    """
    last_ms = inputs.last * scrape_ms
    tests = [
        test
        for run in runs
        if not run.problem
        for test in _tests(run.rule.name, run.firings, run.pendings, interval_ms, last_ms)
    ]
    tree = {
        "rule_files": [rules],
        # Otherwise promtool takes groups in no particular order.
        "group_eval_order": [groups[place].name for place in evaluation_order(groups)[0]],
        "evaluation_interval": f"{interval_ms}ms",
        "tests": [
            {
                "name": name,
                "interval": f"{scrape_ms}ms",
                "input_series": inputs.values(),
                "promql_expr_test": tests,
            }
        ],
    }
    return json.dumps(tree, indent=1) + "\n"


def _tests(
    alert: str, firings: Iterable[Firing], pendings: Iterable[Pending],
    interval_ms: int, last_ms: int,
) -> Iterator[dict[str, Any]]:
    """Tests of one alert: at each evaluation at which it changes, and at the one before."""
    spans = list(_spans(firings, pendings))
    ends = {ms for _, _, begin, end in spans for ms in (begin, end) if ms is not None}
    instants = {0, last_ms // interval_ms * interval_ms, *(ends), *(end - interval_ms for end in ends)}
    for ms in sorted(instant for instant in instants if 0 <= instant <= last_ms):
        shown = [
            {"labels": _text({**dict(labels), "alertname": alert, "alertstate": state}), "value": 1}
            for labels, state, begin, end in spans
            if begin <= ms and (end is None or ms < end)
        ]
        expression = f"ALERTS{{alertname={json.dumps(alert, ensure_ascii=False)}}}"
        yield {"expr": expression, "eval_time": f"{ms}ms", "exp_samples": shown}


def _spans(
    firings: Iterable[Firing], pendings: Iterable[Pending]
) -> Iterator[tuple[LabelSet, str, int, int | None]]:
    """The states of alerts: labels, state, and from when to when in milliseconds."""
    for state, alerts in (("firing", firings), ("pending", pendings)):
        for alert in alerts:
            end = None if alert.end_seconds is None else round(1000 * alert.end_seconds)
            yield alert.labels, state, round(1000 * alert.begin_seconds), end


def _text(labels: Mapping[str, str]) -> str:
    inner = ", ".join(f"{name}={json.dumps(labels[name], ensure_ascii=False)}" for name in sorted(labels))
    return f"ALERTS{{{inner}}}"
