"""Reports of a run: every form of them, with texts from elsewhere in them."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.base.histograms import QuantileSketch
from fakedev.base.html import Series, distribution_plot, line_plot, nice_scale
from fakedev.queues.job import Answer, Outcome
from fakedev.tester.expectation import judge
from fakedev.tester.rates import parse_expectation
from fakedev.tester.report import MAX_BAR, Report, progress_text
from fakedev.tester.statistics import Statistics

MARKUP = '<script>alert("1")</script>&<b>'


def filled(text: str = MARKUP) -> Statistics:
    """A hundred requests in fifty seconds: every tenth fails; all of their texts are this one."""
    statistics = Statistics(100.0)
    for number in range(100):
        ticket = statistics.started(100 + number / 2, 100 + number / 2)
        outcome = Outcome.FAILURE if number % 10 == 0 else Outcome.SUCCESS
        error = text if outcome is Outcome.FAILURE else ""
        answer = Answer(outcome, 0, error, 0.0, 0.2, 0.1, text, text, text)
        statistics.answered(ticket, answer, 100.4 + number / 2)
    return statistics


def report(text: str = MARKUP, plans: int = 1) -> Report:
    statistics = filled(text)
    findings = [judge(parse_expectation(each), statistics, 150.0) for each in ("p99<2s", "failures<1%", "rate>=1/s")]
    return Report(
        f"Requests of {text}", 150.0, statistics, {f"plan{n} {text}": statistics for n in range(plans)}, findings
    )


class Elements(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("text", [MARKUP, "\"'><svg onload=alert(1)>", "</style><script>", "</title><script>"])
def test_texts_from_elsewhere_are_text(text: str) -> None:
    """Nodes, pods, devices, errors, plans and titles with markup in them add no element to the page."""
    plain, marked = Elements(), Elements()
    plain.feed(report("x", plans=2).html())
    marked.feed(report(text, plans=2).html())
    assert marked.tags == plain.tags
    assert text in marked.text


def test_a_page_loads_nothing() -> None:
    """One file, and a policy that says so."""
    page = report().html()
    assert "default-src 'none'" in page
    for attribute in ("src=", "href=", "url(", "@import"):
        assert attribute not in page


def test_the_plots_are_good_xml() -> None:
    histogram = QuantileSketch()
    for plot in (
        line_plot("<&", [Series("<&", "red", [(0.0, 1.0), (1.0, None), (2.0, 3.0), (3.0, 4.0)])]),
        line_plot("empty", [Series("a", "red", [])]),
        distribution_plot("none", histogram),
    ):
        ElementTree.fromstring(plot)
    histogram.observe(0.5)
    ElementTree.fromstring(distribution_plot("one", histogram))


@given(st.floats(1e-6, 1e9))
def test_scales_hold_what_they_show(most: float) -> None:
    """A few marks, from 0 to at least the largest value, and not far beyond it."""
    scale = nice_scale(most)
    assert scale.marks[0] == 0 and most <= scale.maximum * (1 + 1e-9) and scale.maximum <= 2 * most
    assert 2 <= len(scale.marks) <= 7


def test_the_text() -> None:
    """Titles are underlined; bars are no longer than they may be; expectations come last."""
    lines = report("node", plans=2).text().splitlines()
    assert lines[1] == "=" * len(lines[0])
    bars = [line for line in lines if " | #" in line]
    assert f"node | {'#' * MAX_BAR} 100.0% (100)" in bars
    assert f"up to 0.25 s | {'#' * MAX_BAR} 100.0% (100)" in bars
    assert "failures                10: 10 failure" in lines
    assert lines[-3:] == [
        "met      p99<2s  (0.4 s)", "NOT MET  failures<1%  (10.000%)", "met      rate>=1/s  (1.8/s)",
    ]  # fmt: skip


def test_shares_of_the_histograms() -> None:
    """Three of four is 45 of 60 #."""
    statistics = Statistics(0.0)
    for node in ("a", "a", "a", "b"):
        ticket = statistics.started(0.0, 0.0)
        statistics.answered(ticket, Answer(Outcome.SUCCESS, node=node, pod=node), 1.0)
    text = Report("t", 1.0, statistics, {"p": statistics}).text()
    assert f"a | {'#' * 45} 75.0% (3)\nb | {'#' * 15} 25.0% (1)\n" in text


def test_nothing_in_a_text_steers_a_terminal() -> None:
    statistics = filled("\x1b[2J\r\n\x07")
    text = Report("t", 150.0, statistics, {"p": statistics}).text()
    assert all(char.isprintable() or char == "\n" for char in text)


def test_json() -> None:
    """Good JSON with all numbers, and what came of the expectations."""
    values = json.loads(report(plans=2).json())
    assert values["statistics"]["failures"] == {
        "total": 10, "failure": 10, "timeout": 0, "cancelled": 0, "lost": 0, "refused": 0,
    }  # fmt: skip
    assert values["statistics"]["times"]["total"]["p50"] == pytest.approx(0.4, rel=0.005)
    assert values["statistics"]["nodes"][0]["run-histogram"] == [[0.25, 100]]
    assert len(values["plans"]) == 2
    assert [finding["met"] for finding in values["expectations"]] == [True, False, True]


def test_csv() -> None:
    """A row for each number; a name that a spreadsheet would compute is one that it does not."""
    rows = list(csv.reader(io.StringIO(report("=cmd|' /C calc'!A0").csv())))
    assert rows[0] == ["plan", "name", "key", "value"]
    found = {(name, key): value for _, name, key, value in rows[1:]}
    assert found["", "successes"] == "90" and found["failures", "failure"] == "10"
    assert found["node =cmd|' /C calc'!A0", "answers"] == "100"
    assert not [name for _, name, _, _ in rows if name.startswith("=")]
    assert all(len(row) == 4 for row in rows)


def test_reports_of_nothing() -> None:
    """A run without any request has all the same reports."""
    empty = Statistics(0.0)
    nothing = Report("t", 10.0, empty, {"p": empty}, [judge(parse_expectation("p99<1s"), empty, 10.0)])
    assert "NOT MET  p99<1s  (nothing was measured)" in nothing.text()
    assert json.loads(nothing.json())["expectations"] == [{"expectation": "p99<1s", "measured": None, "met": False}]
    assert "nothing was measured" in nothing.html()
    assert nothing.csv().count("\n") > 20


def test_progress() -> None:
    assert progress_text(filled("x"), 150.0) == (
        "50 s: 90 good, 10 failed, 0 under way, 1.8/s now, 1.8/s, total p50 0.400 s, p99 0.400 s"
    )
