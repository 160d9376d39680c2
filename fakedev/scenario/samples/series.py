"""Pages of a target as the samples that Prometheus would store: with its labels, ``up`` and the scrape's own series.

Scrapes of a target differ in little but their numbers. So the text before the number of a row is parsed once; a scrape
whose rows begin like the previous scrape's costs no more than splitting its lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Final, NamedTuple

from fakedev.exporters.labels import escaped
from fakedev.exporters.samples import is_number, is_openmetrics, read_row
from fakedev.scenario.samples.scrapes import Instant, Target

#: Where a label of a target has the name of a label on the page, Prometheus gives the page's label this beginning.
EXPORTED: Final = "exported_"
#: What a server stores of each scrape, besides its rows.
_REPORTED: Final = (
    "up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
)  # fmt: skip
#: How long a scrape takes without delays.
SCRAPE_DURATION_SECONDS: Final = 0.01
#: Texts of rows that are remembered, besides twice the number on the last page: labels come and go with pods.
_REMEMBERED: Final = 1000


class Series:
    """A series of one target. Two of them are equal only if they are the same object.

    :ivar labels: name and value, without ``__name__`` and without empty ones, in the order of their names.
    :ivar text: as in the text formats, ``name{a="b"}``.
    """

    __slots__ = ("labels", "name", "text")

    def __init__(self, name: str, labels: Mapping[str, str]) -> None:
        self.name = name
        self.labels = tuple(sorted((key, value) for key, value in labels.items() if value))
        inner = ",".join(f'{key}="{escaped(value)}"' for key, value in self.labels)
        self.text = f"{name}{{{inner}}}".encode()

    def __repr__(self) -> str:
        return f"<Series {self.text.decode()}>"


#: Stands for lines that are no rows.
_NO_ROW: Final = Series("", {})


class Scraped(NamedTuple):
    """What a server stores of one scrape.

    :ivar series: in the order of the page, then what the server adds. It must not be changed: scrapes with the same
        series share one object where they can.
    :ivar values: their numbers, as text.
    :ivar gone: series of the previous scrape that are missing in this one. A server marks them as stale.
    :ivar times: the times of rows that have their own, by place, in milliseconds since 1970. Others have the scrape's.
    """

    series: Sequence[Series]
    values: Sequence[bytes]
    gone: Sequence[Series] = ()
    times: Mapping[int, int] = {}


class _Rows(NamedTuple):
    """The rows of a page: the first of each series. Those with times of their own do not become stale."""

    values: dict[Series, bytes]
    times: dict[Series, int]
    total: int


class TargetSamples:
    """The samples of one target of a server, scrape by scrape.

    :param labels: those of the target: ``job``, ``instance`` and further ones. Labels of rows with the same names are
        renamed, as with ``honor_labels: false``.
    :param types: where names of families and their types are noted, as pages declare them.
    """

    def __init__(self, labels: Mapping[str, str], types: dict[str, str] | None = None) -> None:
        self._labels = dict(labels)
        self._reported = [Series(name, labels) for name in _REPORTED]
        self.types = {} if types is None else types
        #: Text before the number of a row; then the series by their texts.
        self._by_head: dict[bytes, Series] = {}
        self._by_text: dict[bytes, Series] = {}
        #: Of the last page: the beginnings of its lines, and whether each is a row.
        self._heads: tuple[bytes, ...] = ()
        self._are_rows: list[bool] = []
        self._series: Sequence[Series] = ()
        #: Series that become stale if the next scrape misses them, and the last page's (also before failed scrapes).
        self._tracked: dict[Series, None] = {}
        self._seen: dict[Series, None] = {}
        #: Newest times of rows that have their own.
        self._newest: dict[Series, int] = {}
        self._was_scraped = False

    def scrape(self, page: bytes | None, took_seconds: float = 0.0) -> Scraped:
        """The samples of a scrape. Numbers are not read: pages are taken to be well formed where known rows begin.

        :param page: text 0.0.4, or OpenMetrics if it ends with ``# EOF``. None: the scrape failed. A page with a line
            that is no row is a failed scrape as well.
        :param took_seconds: how long the answer was delayed.
        """
        duration_seconds = SCRAPE_DURATION_SECONDS + took_seconds
        self._was_scraped = True
        if page is not None:
            same = self._same_rows(page, duration_seconds)
            if same is not None:
                return same
            rows = self._rows(page)
            if rows is not None:
                return self._changed(page, rows, duration_seconds)
        gone = tuple(self._tracked)
        self._tracked, self._heads = {}, ()
        return Scraped(self._reported, self._report(0, duration_seconds, 0, 0), gone)

    def end(self) -> Scraped:
        """The target is not scraped any more: everything becomes stale."""
        gone = (*self._tracked, *(self._reported if self._was_scraped else ()))
        self._tracked, self._heads, self._was_scraped = {}, (), False
        return Scraped((), (), gone)

    def _same_rows(self, page: bytes, duration_seconds: float) -> Scraped | None:
        """The samples if the page has the same rows as the page before; None if not."""
        if not self._heads or _is_odd(page):
            return None
        heads, _, values = zip(*[line.rpartition(b" ") for line in page.split(b"\n")], strict=True)
        if heads != self._heads:
            return None
        count = len(self._series) - len(_REPORTED)
        return Scraped(
            self._series, [*compress(values, self._are_rows), *self._report(1, duration_seconds, count, 0)]
        )

    def _changed(self, page: bytes, rows: _Rows, duration_seconds: float) -> Scraped:
        """The samples of a page with other rows than the page before."""
        values, own = rows.values, rows.times
        tracked = {series: None for series in values if series not in own} if own else dict.fromkeys(values)
        gone = [series for series in self._tracked if series not in tracked]
        added = sum(series not in self._seen for series in values)
        self._tracked, self._seen = tracked, dict.fromkeys(values)
        kept, times = values, dict[int, int]()
        if own:
            # A server refuses what is not newer than what it has.
            late = {series for series, at in own.items() if at <= self._newest.get(series, at - 1)}
            kept = {series: value for series, value in values.items() if series not in late}
            times = {place: own[series] for place, series in enumerate(kept) if series in own}
            self._newest = {series: max(at, self._newest.get(series, at)) for series, at in own.items()}
        self._series = (*kept, *self._reported)
        self._remember(page, rows)
        report = self._report(1, duration_seconds, rows.total, added)
        return Scraped(self._series, [*kept.values(), *report], gone, times)

    def _remember(self, page: bytes, rows: _Rows) -> None:
        """Remember the beginnings of the lines if the next page may be compared with them, and forget old texts."""
        if len(self._by_head) > 2 * len(rows.values) + _REMEMBERED:
            self._by_text = {series.text: series for series in rows.values}
            self._by_head = {head: series for head, series in self._by_head.items() if series in rows.values}
        heads = tuple(line.rpartition(b" ")[0] for line in page.split(b"\n"))
        found = [self._by_head.get(head, _NO_ROW) for head in heads]
        # Rows with times, twice the same, or with unusual spaces take the long way.
        is_plain = [series for series in found if series is not _NO_ROW] == list(rows.values) and not rows.times
        self._heads = heads if is_plain and rows.total == len(rows.values) else ()
        self._are_rows = [series is not _NO_ROW for series in found]

    def _report(self, is_up: int, duration_seconds: float, count: int, added: int) -> list[bytes]:
        return [b"%d" % is_up, repr(duration_seconds).encode(), b"%d" % count, b"%d" % count, b"%d" % added]

    def _rows(self, page: bytes) -> _Rows | None:
        """The rows of a page; None if it is not well formed."""
        values: dict[Series, bytes] = {}
        times: dict[Series, int] = {}
        count, in_seconds = 0, is_openmetrics(page)
        by_head = {} if _is_odd(page) else self._by_head
        for line in page.split(b"\n"):
            head, _, value = line.rpartition(b" ")
            series, stamp = by_head.get(head), b""
            if series is None:
                if line.startswith(b"#"):
                    words = line.split()
                    if len(words) == 4 and words[1] == b"TYPE":
                        self.types.setdefault(words[2].decode(errors="replace"), words[3].decode(errors="replace"))
                    continue
                if not line.strip():
                    continue
                # With a time of its own.
                parts = line.rsplit(b" ", 2)
                series = by_head.get(parts[0]) if len(parts) == 3 else None
                if series is not None:
                    _, value, stamp = parts
                else:
                    parsed = self._parsed(line)
                    if parsed is None:
                        return None
                    series, value, stamp = parsed
            at = _milliseconds(stamp, in_seconds=in_seconds) if stamp else 0
            if at is None or not is_number(value):
                return None
            count += 1
            if series not in values:
                values[series] = value
                if stamp:
                    times[series] = at
        return _Rows(values, times, count)

    def _parsed(self, line: bytes) -> tuple[Series, bytes, bytes] | None:
        """Series, value and time of a row that is not known yet; None if it is no row."""
        row = read_row(line)
        if row is None:
            return None
        made = Series(row.name, self._with_target(dict(row.labels)))
        series = self._by_text.setdefault(made.text, made)
        head = line[: row.number_at]
        if head.endswith(b" "):
            self._by_head[head[:-1]] = series
        return series, row.number.encode(), (row.time or "").encode()

    def _with_target(self, own: dict[str, str]) -> dict[str, str]:
        """The labels of a row and of its target."""
        taken = {name: own[name] for name in self._labels if own.get(name)}
        labels = own | self._labels
        for name in sorted(taken, key=len):
            free = EXPORTED + name
            while labels.get(free):
                free = EXPORTED + free
            labels[free] = taken[name]
        return labels


class Stored(NamedTuple):
    """What a server stores of all scrapes of an instant.

    :ivar milliseconds: their time, since 1970.
    :ivar scraped: of each target that was scraped, or has ended.
    :ivar types: names of families to their types, of all pages so far.
    """

    milliseconds: int
    scraped: Sequence[Scraped]
    types: Mapping[str, str]


class FleetSamples:
    """The samples of all targets of a server.

    :param targets: of the instants; more may be added to it later.
    """

    def __init__(self, targets: Sequence[Target]) -> None:
        self._targets = targets
        self._samples: dict[int, TargetSamples] = {}
        self._types: dict[str, str] = {}

    def scrape(self, instant: Instant) -> Stored:
        """The samples of an instant. Targets that were in the instant before and are not in this one have ended."""
        scraped, ended = [], dict(self._samples)
        for place, page, took_seconds in instant.scrapes:
            target = ended.pop(place, None) or TargetSamples(self._targets[place].labels, self._types)
            self._samples[place] = target
            scraped.append(target.scrape(page, took_seconds))
        for place, target in ended.items():
            scraped.append(target.end())
            del self._samples[place]
        return Stored(round(instant.wall_seconds * 1000), scraped, self._types)


def _is_odd(page: bytes) -> bool:
    """Whether a page may have other spaces than blanks, which are no part of its numbers."""
    return b"\t" in page or b"\r" in page


def _milliseconds(stamp: bytes, *, in_seconds: bool) -> int | None:
    """A time of a row: OpenMetrics has seconds, the older format milliseconds. None if it is no time."""
    try:
        return round(float(stamp) * 1000) if in_seconds else int(stamp)
    except (ValueError, OverflowError):
        return None
