"""Reads series of a Prometheus over its HTTP API, as the pages that its targets have shown."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from time import time
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from fakedev.base.errors import plain_reason, printable
from fakedev.clone.scraped import SourcePage
from fakedev.exporters.samples import CapturedFamily, CapturedPage, Sample

_TIMEOUT_SECONDS: Final = 60
#: An answer that is larger is refused: series of 50,000 devices are about this large.
_MOST_BYTES: Final = 1 << 30
_RANGE_SECONDS: Final = 300.0
#: Jobs that an error names.
_MOST_NAMED: Final = 20
#: Labels that Prometheus sets, not the exporter.
_OF_TARGETS: Final = frozenset(("__name__", "instance", "job"))
#: Series that Prometheus makes itself of each target.
_OWN_SERIES: Final = frozenset((
    "up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling",
    "scrape_series_added", "scrape_timeout_seconds", "scrape_sample_limit", "scrape_body_size_bytes",
))  # fmt: skip
#: Of two labels of the same name the exporter's gets this before it (honor_labels: false).
_EXPORTED: Final = "exported_"


def read_prometheus(
    url: str, match: str, first: str | None = None, last: str | None = None,
    ask: Callable[[str, Mapping[str, str]], Any] | None = None,
) -> list[SourcePage]:
    """The pages of the targets, each series with its last value in the range, labels in the order of their names.

    :param url: of the server, also with a path before ``/api/v1``.
    :param match: a selector; an empty one is refused: all series of a Prometheus are no fleet.
    :param first, last: ISO 8601 times or None: the last five minutes, now.
    :param ask: sends a query to this server; None: by :func:`asked`.
    :raises ValueError: for an address, a selector or a time that cannot be used, and for a range without series.
    :raises ConnectionError: when the server does not answer as a Prometheus does.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise ValueError(f"--prometheus: {url!r} is no address, as http://localhost:9090")
    if not match:
        raise ValueError("--match: say which series, as '{job=\"dcgm\"}': all of a Prometheus are no fleet")
    ask = ask or partial(asked, url)
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
        raise ValueError(f"{url}: {match} has only series that Prometheus makes itself")
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
            if name in _OWN_SERIES:
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


def asked(url: str, what: str, query: Mapping[str, str]) -> Any:
    """The data of an answer.

    :raises ValueError: with the server's words, for a query that it refuses.
    """
    address = f"{url.rstrip('/')}/api/v1/{what}"
    request = Request(address, data=urlencode(query).encode() if query else None)
    try:
        with urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            body = answer.read(_MOST_BYTES + 1)
    except HTTPError as error:
        words = _error_words(error.read(4096))
        if error.code in (400, 422) and words:
            raise ValueError(f"{url}: {printable(words)}") from None
        remedy = ": the URL ends before /api/v1, as http://localhost:9090" if error.code == 404 else ""
        raise ConnectionError(f"{address}: {error.code} {printable(error.reason)}{remedy}") from None
    except (URLError, http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        words = plain_reason(reason) if isinstance(reason, OSError) and reason.errno else str(reason)
        raise ConnectionError(f"{address}: {words}") from None
    if len(body) > _MOST_BYTES:
        raise ConnectionError(f"{address}: the answer is larger than {_MOST_BYTES} bytes: narrow --match")
    try:
        return json.loads(body)["data"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConnectionError(f"{address}: the answer does not come from a Prometheus") from None


def _error_words(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return ""


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
