"""Samples of a target, as a server stores them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.samples import read_page
from fakedev.exporters.sources import DeviceSource
from fakedev.fleet.fleet import Fleet
from fakedev.scenario.samples.series import Scraped, Series, TargetSamples
from tests.support.configurations import loaded
from tests.support.fleet.fleets import advance
from tests.support.identities import TITLES
from tests.support.scrape_histories import BEGIN_SECONDS, history

LABELS = {"job": "fakedev", "instance": "dgx-0:9400"}
OWN = 'instance="dgx-0:9400",job="fakedev"'
REPORT = 5


def rows(scraped: Scraped) -> list[str]:
    """The samples without those of the scrape itself, as text; the target's labels are a ``*``."""
    found = []
    for place, (series, value) in enumerate(zip(scraped.series, scraped.values, strict=True)):
        at = f" {scraped.times[place]}" if place in scraped.times else ""
        found.append(f"{text(series)} {value.decode()}{at}")
    return found[:-REPORT]


def text(series: Series) -> str:
    """A series as text; the target's labels are a ``*``."""
    return series.text.decode().replace(OWN, "*")


def report(scraped: Scraped) -> list[float]:
    """The values of what a server stores of each scrape."""
    names = [series.name for series in scraped.series[-REPORT:]]
    assert names[0] == "up" and names[-1] == "scrape_series_added"
    assert [text(series) for series in scraped.series[-REPORT:]] == [f"{name}{{*}}" for name in names]
    return [float(value) for value in scraped.values[-REPORT:]]


def gone(scraped: Scraped) -> list[str]:
    """The series that became stale."""
    return [text(series) for series in scraped.gone]


def test_rows() -> None:
    """Labels are in order and have those of the target; comments and empty lines are none."""
    target = TargetSamples(LABELS)
    found = target.scrape(b'# HELP a b.\n# TYPE a gauge\na{x="1",b="2"} 5\na{x="2",} NaN\n\n# A remark\nb +Inf\n')
    assert rows(found) == ['a{b="2",*,x="1"} 5', 'a{*,x="2"} NaN', "b{*} +Inf"]
    assert report(found) == [1, 0.01, 3, 3, 3]
    assert target.types == {"a": "gauge"}
    assert found.series[0].labels == (("b", "2"), ("instance", "dgx-0:9400"), ("job", "fakedev"), ("x", "1"))


def test_same_rows_are_one_object() -> None:
    """Later scrapes have the same series, so that callers can remember what they made of them."""
    target = TargetSamples(LABELS)
    first, second = target.scrape(b"a 1\nb 2\n", 0.25), target.scrape(b"a 3\nb 4\n", 0.49)
    assert second.series is first.series
    assert rows(second) == ["a{*} 3", "b{*} 4"]
    assert report(second) == [1, 0.5, 2, 2, 0]
    third = target.scrape(b"b 5\nc 1\n")
    assert third.series[0] is first.series[1]
    assert (rows(third), gone(third), report(third)) == (["b{*} 5", "c{*} 1"], ["a{*}"], [1, 0.01, 2, 2, 1])


def test_labels_that_collide() -> None:
    """Those of rows are renamed, the shorter first, until the name is free; empty labels are none."""
    page = b'a{job="x",instance="",exported_job="y"} 1\nb{instance="i"} 2\n'
    assert rows(TargetSamples(LABELS).scrape(page)) == [
        'a{exported_exported_job="x",exported_job="y",*} 1',
        'b{exported_instance="i",*} 2',
    ]


def test_escapes() -> None:
    """Values of labels are those of the page, also with quotes, braces, spaces and line ends."""
    found = TargetSamples({}).scrape(b'a{x="\\"q\\\\ \\n}{,=#\\t"} 1\n')
    assert found.series[0].labels == (("x", '"q\\ \n}{,=#\\t'),)
    assert rows(found) == ['a{x="\\"q\\\\ \\n}{,=#\\\\t"} 1']


@pytest.mark.parametrize(
    "line",
    [
        *("a", "a x", "a{ 1", 'a{x="1} 1', 'a{x="1"y="2"} 1', "a{x=1} 1", "<html>", "a 1 2 3", "{} 1", "a 1 x"),
        *('a{x="1",,} 1', "b x", "b 1 x", "b 1 1.5", "b 1 1e999", "b 1 -", 'b{x="1"'),
    ],
)
def test_no_row(line: str) -> None:
    """A page with a line that is no row is a failed scrape."""
    target = TargetSamples(LABELS)
    target.scrape(b"b 1\n")
    found = target.scrape(f"b 1\n{line}\nc 1\n".encode())
    assert (rows(found), gone(found), report(found)) == ([], ["b{*}"], [0, 0.01, 0, 0, 0])


def test_failed_scrapes() -> None:
    """All series become stale once; ``up`` goes on; the return adds no series."""
    target = TargetSamples(LABELS)
    assert report(target.scrape(None)) == [0, 0.01, 0, 0, 0]
    target.scrape(b"a 1\nb 2\n")
    first, second = target.scrape(None, 9.99), target.scrape(None)
    assert (gone(first), report(first), gone(second)) == (["a{*}", "b{*}"], [0, 10, 0, 0, 0], [])
    back = target.scrape(b"a 1\nb 2\n")
    assert (rows(back), gone(back), report(back)) == (["a{*} 1", "b{*} 2"], [], [1, 0.01, 2, 2, 0])
    assert rows(target.scrape(b"a 1\nb 3\n")) == ["a{*} 1", "b{*} 3"]


def test_end() -> None:
    target = TargetSamples(LABELS)
    assert not target.end().gone
    target.scrape(b"a 1\n")
    end = target.end()
    assert not end.series and gone(end)[:2] == ["a{*}", "up{*}"] and len(end.gone) == 1 + REPORT
    assert not target.end().gone


def test_same_series_twice() -> None:
    """The first row counts, as in a server, which counts both."""
    target = TargetSamples(LABELS)
    for _ in range(2):
        found = target.scrape(b'a{x="1",y="2"} 1\na{y="2",x="1"} 2\nb 3\n')
        assert rows(found) == ['a{*,x="1",y="2"} 1', "b{*} 3"]
        assert report(found)[2] == 3


def test_times_of_rows() -> None:
    """They have their own time, never become stale, and are not stored when they are not newer."""
    target = TargetSamples(LABELS)
    assert rows(target.scrape(b"a 1 1000\nb 2\n")) == ["a{*} 1 1000", "b{*} 2"]
    assert rows(target.scrape(b"a 1 1000\nb 2\n")) == ["b{*} 2"]
    assert rows(target.scrape(b"a 3 900\nb 2\n")) == ["b{*} 2"]
    found = target.scrape(b"b 2\na 3 2500\n")
    assert (rows(found), gone(found), report(found)) == (["b{*} 2", "a{*} 3 2500"], [], [1, 0.01, 2, 2, 0])
    assert gone(target.scrape(b"c 1\n")) == ["b{*}"]


def test_openmetrics() -> None:
    """Its times are in seconds; exemplars are left out; ``_created`` is a row like others."""
    page = b'# TYPE a counter\na_total{x="1"} 5 1.5 # {trace="} 1"} 0.5 1.4\na_created{x="1"} 2e3\nb 1 # {} 2\n# EOF\n'
    found = TargetSamples(LABELS).scrape(page)
    assert rows(found) == ['a_total{*,x="1"} 5 1500', 'a_created{*,x="1"} 2e3', "b{*} 1"]
    assert report(TargetSamples(LABELS).scrape(b"a 1 1e999\n# EOF\n"))[0] == 0


@pytest.mark.slow
def test_old_texts_are_forgotten() -> None:
    """Labels that change all the time take no more and more memory, and what is still there stays the same object."""
    target = TargetSamples(LABELS)
    first = target.scrape(b"a 1\n").series[0]
    for number in range(5000):
        found = target.scrape(b'a 1\nb{pod="%d"} 1\n' % number)
    assert found.series[0] is first
    assert len(target._by_head) < 1100 and len(target._by_text) < 1100


NAMES = st.sampled_from(["a", "b", "c_total"])
LABEL_TEXTS = {"": "*", '{x="1"}': '*,x="1"', '{x="1",job="j"}': 'exported_job="j",*,x="1"'}
ENDS = ["", " 7", "\t", "\r", " "]
ROWS = st.tuples(NAMES, st.sampled_from([*LABEL_TEXTS]), st.integers(0, 3), st.sampled_from(ENDS))


@given(st.lists(st.none() | st.lists(ROWS, max_size=6), max_size=8))
def test_against_a_plain_reading(pages: Sequence[Sequence[tuple[str, str, int, str]] | None]) -> None:
    """Whatever the scrapes before: the rows of a page, and what the one before had."""
    target = TargetSamples(LABELS)
    before: set[str] = set()
    for page in pages:
        lines = page or []
        found = target.scrape(None if page is None else "".join(f"{n}{la} {v}{t}\n" for n, la, v, t in lines).encode())
        plain: dict[str, tuple[int, bool]] = {}
        for name, labels, value, stamp in lines:
            plain.setdefault(f"{name}{{{LABEL_TEXTS[labels]}}}", (value, stamp == " 7"))
        tracked = {name for name, (_, has_time) in plain.items() if not has_time}
        assert set(gone(found)) == before - tracked
        stored = [row for row in rows(found) if not row.endswith(" 7")]
        assert stored == [f"{name} {value}" for name, (value, has_time) in plain.items() if not has_time]
        assert report(found)[:3] == [page is not None, 0.01, len(lines)]
        before = tracked


@pytest.mark.slow
@pytest.mark.parametrize("title", TITLES)
@pytest.mark.parametrize("is_openmetrics", [False, True])
def test_identities(title: str, is_openmetrics: bool) -> None:
    """The rows of all identities' pages, with the same series whether a page is the first or not."""
    pool = f"{{name: a, nodes: [n-0], devices-per-node: 2, identity: {title}}}"
    configuration = loaded(f"fleet: {{epoch: '0', tick: 5s, pools: [{pool}]}}\nweb: []\nworkloads: {{listen: []}}\n")
    fleet, identity = Fleet(configuration.fleet), configuration.identities["a"]
    page = Page(LabelCache(identity, DeviceSource.of(fleet, identity)), list(fleet.roster.shown), is_openmetrics)
    target = TargetSamples(LABELS)
    for _ in range(4):
        advance(fleet, 3)
        rendered = page.render(fleet.shown) + (b"# EOF\n" if is_openmetrics else b"")
        found, other = target.scrape(rendered), TargetSamples(LABELS).scrape(rendered)
        assert rows(found) == rows(other)
        assert found.times == other.times
        samples = sum(len(family.samples) for family in read_page(rendered.decode()).families.values())
        assert len(rows(found)) == report(found)[2] == samples > 0
        assert bool(found.times) == identity.timestamps
        assert all(abs(at - 1000 * fleet.state.wall_seconds) < 60_000 for at in found.times.values())
        families = read_page(rendered.decode()).families.values()
        assert target.types.items() >= {family.name: family.kind for family in families if family.has_type}.items()


def test_nodes_that_are_down_or_hidden() -> None:
    """One that is down is up 0 and its series are stale; one that service discovery hides has no series at all."""
    down: dict[str, object] = {"kind": "node-down", "devices": ["dgx-0/*"]}
    hidden: dict[str, object] = {**down, "devices": ["dgx-1/*"], "leave-sd": 1}
    *_, before, last, after = history(60, (15, down), (15, hidden))
    kept, lost = before.scraped
    assert [value for series, value in zip(kept.series, kept.values, strict=True) if series.name == "up"] == [b"1"]
    failed, ended = last.scraped
    assert report(failed)[0] == 0
    assert len(failed.gone) == len(kept.series) - REPORT
    assert not ended.series and set(ended.gone) == set(lost.series)
    assert len(after.scraped) == 1 and not after.scraped[0].gone
    assert last.milliseconds == 1000 * (BEGIN_SECONDS + 30) and last.types["DCGM_FI_DEV_GPU_TEMP"] == "gauge"
