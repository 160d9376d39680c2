"""The report of a run, in the format of a file's suffix."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from fakedev.tester.expectation import Finding
from fakedev.tester.plan import REPORT_SUFFIXES
from fakedev.tester.report_html import findings_html, node_spread_html, page, statistics_html, tallies_html
from fakedev.tester.report_text import findings_text, nodes_text, pods_text, statistics_text
from fakedev.tester.report_values import csv_text, finding_values, statistics_values
from fakedev.tester.statistics import Statistics


@dataclass(frozen=True)
class Report:
    """The report of a run.

    :param now: the end of the run.
    :param total: statistics of all plans together, or of the only plan.
    :param plans: statistics by the name of the plan.
    :param waiting: arrivals that waited at the end.
    """

    title: str
    now: float
    total: Statistics
    plans: Mapping[str, Statistics]
    findings: Sequence[Finding] = ()
    waiting: int = 0

    def text(self) -> str:
        """For a terminal."""
        parts = [statistics_text(self.title, self.total, self.now, self.waiting)]
        parts += [nodes_text(self.total), pods_text(self.total)]
        parts += [statistics_text(f"Plan {name}", each, self.now) for name, each in self._parts()]
        parts.append(findings_text(self.findings))
        return "\n".join(part for part in parts if part)

    def json(self) -> str:
        """For programs."""
        values = {
            "title": self.title,
            "statistics": statistics_values(self.total, self.now, self.waiting),
            "plans": {name: statistics_values(each, self.now) for name, each in self.plans.items()},
            "expectations": finding_values(self.findings),
        }
        return json.dumps(values, indent=2) + "\n"

    def csv(self) -> str:
        """For spreadsheets: a row for each number of each plan."""
        return csv_text({name: statistics_values(each, self.now) for name, each in self.plans.items()})

    def html(self) -> str:
        """For browsers, as one file."""
        body = [*findings_html(self.findings), *statistics_html(self.total, self.now, self.waiting)]
        body += [*tallies_html("node", self.total.nodes), *tallies_html("device", self.total.devices)]
        body += [*node_spread_html(self.total), *tallies_html("pod", self.total.pods)]
        for name, each in self._parts():
            body += [f"<h1>Plan {escape(name)}</h1>", *statistics_html(each, self.now)]
        return page(self.title, body)

    def as_file(self, path: str) -> str:
        """In the format of a file's suffix, one of REPORT_SUFFIXES."""
        return _FORMS[os.path.splitext(path)[1]](self)

    def _parts(self) -> Sequence[tuple[str, Statistics]]:
        """The plans, if there are several."""
        return list(self.plans.items()) if len(self.plans) > 1 else []


#: The formats of a report by the suffix of a file.
_FORMS: Final[dict[str, Callable[[Report], str]]] = dict(
    zip(REPORT_SUFFIXES, (Report.text, Report.json, Report.csv, Report.html), strict=True)
)
