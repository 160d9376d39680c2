"""OpenMetrics with times, in windows."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fakedev.scenario.samples.openmetrics import EOF, OpenMetricsText, file_name, window_of, window_seconds
from fakedev.scenario.samples.series import Scraped, Stored, TargetSamples

HOUR = 3_600_000


def stored(page: bytes, milliseconds: int = 1500, types: dict[str, str] | None = None) -> Stored:
    """What is stored of one target without labels; without the series of the scrape itself."""
    noted: dict[str, str] = {} if types is None else types
    found = TargetSamples({}, noted).scrape(page)
    return Stored(milliseconds, [Scraped(found.series[:-5], found.values[:-5], (), found.times)], noted)


def test_rows_have_times() -> None:
    """In seconds with three decimals; those of the row itself where it has one."""
    text = OpenMetricsText()
    assert text.lines(stored(b'a{x="1"} 5\nb NaN 250\n', 1_795_327_785_007)) == (
        b'a{x="1"} 5 1795327785.007\nb{} NaN 0.250\n'
    )


def test_types() -> None:
    """Once in each text; OpenMetrics wants counters to end with _total."""
    types: dict[str, str] = {}
    page = b"# TYPE a counter\na 1\n# TYPE b_total counter\nb_total 2\n# TYPE c untyped\nc 3\n# TYPE d gauge\nd 4\n"
    text = OpenMetricsText()
    text.begin()
    first = text.lines(stored(page, 1500, types))
    assert first.splitlines()[:4] == [
        b"# TYPE a unknown", b"# TYPE b counter", b"# TYPE c unknown", b"# TYPE d gauge",
    ]  # fmt: skip
    assert b"#" not in text.lines(stored(page, 3000, types))
    assert text.lines(stored(b"# TYPE e gauge\ne 1\n", 4500, types)) == b"# TYPE e gauge\ne{} 1 4.500\n"
    text.begin()
    assert text.lines(stored(b"", 6000, types)).count(b"# TYPE") == 5


def test_labels_are_escaped() -> None:
    (family,) = text_string_to_metric_families(
        (OpenMetricsText().lines(stored(b'a{x="\\"q\\\\ \\n}{"} 1\n')) + EOF).decode()
    )
    labels: Mapping[str, str] = family.samples[0].labels
    assert labels == {"x": '"q\\ \n}{'}


def test_windows() -> None:
    """Of two hours from even hours on; the end belongs to the next."""
    begin = window_of(1_795_327_785_007)
    assert file_name(begin) == "2026-11-22T06Z.om"
    assert window_of(begin) == begin and window_of(begin - 1) == begin - 2 * HOUR
    assert window_of(begin + 2 * HOUR - 1) == begin and window_of(begin + 2 * HOUR) == begin + 2 * HOUR
    assert window_seconds("2026-11-22T06Z.om") == begin / 1000
    assert window_seconds("history.om") is None
