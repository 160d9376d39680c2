"""Samples as OpenMetrics text with timestamps, in windows of two hours, of which promtool makes blocks.

Blocks of Prometheus are aligned to even hours, and promtool reads a file once for each block in it. So there is a file
for each. The text has no way to say that a series has ended: a server shows its last value for some minutes more.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from fakedev.scenario.samples.series import Stored

WINDOW_MILLISECONDS: Final = 2 * 3600 * 1000
#: The last line of a text.
EOF: Final = b"# EOF\n"
#: How names of files with a window end.
SUFFIX: Final = ".om"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAME_FORMAT: Final = f"%Y-%m-%dT%HZ{SUFFIX}"
#: Types that the text may declare as they are; a counter only by the name without its suffix.
_KEPT: Final = frozenset(("gauge", "histogram", "summary"))
_COUNTED: Final = "_total"


def window_of(milliseconds: int) -> int:
    """The beginning of the window with a time, in milliseconds since 1970. The end of a window belongs to the next."""
    return milliseconds - milliseconds % WINDOW_MILLISECONDS


def file_name(window: int) -> str:
    """The name of the file with a window, such as ``2026-11-22T06Z.om``."""
    return (_EPOCH + timedelta(milliseconds=window)).strftime(_NAME_FORMAT)


def window_seconds(name: str) -> float | None:
    """When the window of a file begins, in seconds since 1970; None for another name."""
    try:
        return datetime.strptime(name, _NAME_FORMAT).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


class OpenMetricsText:
    """One text after the other: each declares families once, and ends with ``EOF``."""

    def __init__(self) -> None:
        self._declared: set[str] = set()
        self._types_seen = 0

    def begin(self) -> None:
        """Begin another text."""
        self._declared.clear()
        self._types_seen = 0

    def lines(self, stored: Stored) -> bytes:
        pieces = []
        if len(stored.types) != self._types_seen:
            self._types_seen = len(stored.types)
            pieces += [self._declaration(name, kind) for name, kind in stored.types.items()]
        end = _line_end(stored.milliseconds)
        for scraped in stored.scraped:
            ends = [end] * len(scraped.values)
            for place, own in scraped.times.items():
                ends[place] = _line_end(own)
            joined = [b" "] * (4 * len(ends))
            joined[0::4], joined[2::4], joined[3::4] = [series.text for series in scraped.series], scraped.values, ends
            pieces += joined
        return b"".join(pieces)

    def _declaration(self, name: str, kind: str) -> bytes:
        is_counter = kind == "counter" and name.endswith(_COUNTED)
        family = name.removesuffix(_COUNTED) if is_counter else name
        if family in self._declared:
            return b""
        self._declared.add(family)
        return f"# TYPE {family} {kind if is_counter or kind in _KEPT else 'unknown'}\n".encode()


def _line_end(milliseconds: int) -> bytes:
    return b" %d.%03d\n" % divmod(milliseconds, 1000)
