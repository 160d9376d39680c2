"""Reads series of a Prometheus over its HTTP API, as the pages that its targets have shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from time import time
from typing import Any, Final

from fakedev.base.errors import printable
from fakedev.clone.scraped import SourcePage
from fakedev.exporters.samples import CapturedFamily, CapturedPage, Sample

_RANGE_SECONDS: Final = 300.0
#: Jobs that an error names.
_MOST_NAMED: Final = 20
#: Labels that Prometheus sets, not the exporter.
_OF_TARGETS: Final = frozenset(("__name__", "instance", "job"))
#: Series that Prometheus makes itself of each target.
OWN_SERIES: Final = frozenset((
    "up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling",
    "scrape_series_added", "scrape_timeout_seconds", "scrape_sample_limit", "scrape_body_size_bytes",
))  # fmt: skip
#: Of two labels of the same name the exporter's gets this before it (honor_labels: false).
_EXPORTED: Final = "exported_"


def read_prometheus(
    url: str, ask: Callable[[str, Mapping[str, str]], Any], match: str, first: str | None = None,
    last: str | None = None,
) -> list[SourcePage]:  # fmt: skip
    """The pages of the targets, each series with its last value in the range, labels in the order of their names.

    :param url: of the server, for errors.
    :param ask: sends a query to it.
    :param match: a selector; an empty one is refused: all series of a Prometheus are no fleet.
    :param first, last: ISO 8601 times or None: the last five minutes, now.
    :raises ValueError: for a selector or a time that cannot be used, and for a range without series.
    :raises ConnectionError: when the server does not answer as a Prometheus does.
    """
    if not match:
        raise ValueError("--match: say which series, as '{job=\"dcgm\"}': all of a Prometheus are no fleet")
    end = moment("--to", last, time())
    begin = moment("--from", first, end - _RANGE_SECONDS)
    if begin >= end:
        raise ValueError("--from: is not before --to")
    query = f"last_over_time({match}[{max(round((end - begin) * 1000), 1)}ms])"
    found = ask("query", {"query": query, "time": f"{end:.3f}"})
    series = found.get("result") if isinstance(found, dict) else None
    jobs = ""
    if not isinstance(series, list):
        raise ConnectionError(f"{url}: the answer does not come from a Prometheus")
    if not series:
        with suppress(ConnectionError, ValueError, TypeError):
            jobs = ", ".join(map(str, ask("label/job/values", {})[:_MOST_NAMED]))
        raise ValueError(f"{url}: no series of {match} from {_shown(begin)} to {_shown(end)}; "
                         f"its jobs, of any time: {printable(jobs) or 'none'}")
    metadata = ask("metadata", {})
    pages = pages_of_series(series, metadata if isinstance(metadata, dict) else {})
    if not pages:
        raise ValueError(f"{url}: {match} has only series that Prometheus makes itself: if its targets are away "
                         "now, --to names a time at which they were there")
    return pages


def pages_of_series(series: Iterable[Any], metadata: Mapping[str, Any]) -> list[SourcePage]:
    """The pages of targets, in the order of their names, without the series that Prometheus makes itself.

    :param series: as the API's instant queries return them: ``{"metric": {...}, "value": [time, text]}``.
    :param metadata: by the family's name, as the API returns it.
    :raises ConnectionError: for series of another form.
    """
    targets: dict[str, dict[str, list[Sample]]] = {}
    try:
        for row in series:
            labels: Mapping[str, str] = row["metric"]
            name = labels["__name__"]
            if name in OWN_SERIES:
                continue
            sample = Sample(own_labels(labels), str(float(row["value"][1])), has_timestamp=False)
            targets.setdefault(labels.get("instance", "target"), {}).setdefault(name, []).append(sample)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError):
        raise ConnectionError("a series of the answer has no metric with a name, or no value") from None
    return [
        SourcePage(target, _page(families, metadata)) for target, families in sorted(targets.items())
    ]


def _page(families: Mapping[str, list[Sample]], metadata: Mapping[str, Any]) -> CapturedPage:
    found = {}
    for name, samples in sorted(families.items()):
        declared = metadata.get(name)
        known = declared[0] if isinstance(declared, list) and declared and isinstance(declared[0], dict) else {}
        kind, text = known.get("type"), known.get("help")
        is_typed = isinstance(kind, str) and kind not in ("", "unknown")
        found[name] = CapturedFamily(
            name, str(kind) if is_typed else "untyped", text if isinstance(text, str) else None,
            tuple(sorted(samples, key=lambda sample: sample.labels)), is_typed,
        )  # fmt: skip
    return CapturedPage(found, is_declared_first=False)


def own_labels(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The labels of the exporter, in the order of their names."""
    own = {name: value for name, value in labels.items() if name not in _OF_TARGETS and name[:9] != _EXPORTED}
    own |= {name.removeprefix(_EXPORTED): value for name, value in labels.items() if name.startswith(_EXPORTED)}
    return tuple(sorted(own.items()))


def moment(option: str, text: str | None, usual: float) -> float:
    """Seconds since 1970 of the ISO 8601 time that an option has.

    :raises ValueError: for another text.
    """
    if text is None:
        return usual
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{option}: {text!r} is no time, as 2026-05-01T12:00:00Z") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _shown(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
