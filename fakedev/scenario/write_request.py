"""Samples as a write request of Prometheus's remote write 1.0, for a server on this machine: nothing is compressed.

Sources: prompb/remote.proto and prompb/types.proto of Prometheus; format_description.txt of snappy.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from fakedev.scenario.samples import Scraped, Series

#: What marks a series as stale: a NaN of its own. Not a number of Python, which may not keep its bits.
_STALE: Final = struct.pack("<Q", 0x7FF0000000000002)
#: Encoded labels of so many series are remembered.
_REMEMBERED: Final = 200_000
_LITERAL_OF_4_BYTES: Final = b"\xfc"


class WriteRequest:
    """Collects samples and encodes them, grouped by series, each in the order in which they came.

    :ivar count: how many samples it has.
    """

    def __init__(self) -> None:
        self.count = 0
        self._labels: dict[Series, bytes] = {}
        self._samples: dict[Series, list[bytes]] = {}

    def add_scrape(self, scraped: Scraped, ms: int) -> None:
        """Add the samples of a scrape, and the markers of what is gone.

        :param ms: its time, milliseconds since 1970.
        """
        head, tail = _around(ms)
        values = struct.pack(f"<{len(scraped.values)}d", *map(float, scraped.values))
        samples = self._samples
        for place, series in enumerate(scraped.series):
            encoded = values[8 * place : 8 * place + 8]
            if place in scraped.times:
                own_head, own_tail = _around(scraped.times[place])
                samples.setdefault(series, []).append(own_head + encoded + own_tail)
            else:
                samples.setdefault(series, []).append(head + encoded + tail)
        for series in scraped.gone:
            samples.setdefault(series, []).append(head + _STALE + tail)
        self.count += len(scraped.series) + len(scraped.gone)

    def add(self, points: Mapping[Series, Sequence[tuple[int, str | None]]]) -> None:
        """Add samples: milliseconds since 1970, and the value as a text; None marks the series as stale."""
        for series, every in points.items():
            kept = self._samples.setdefault(series, [])
            for ms, value in every:
                head, tail = _around(ms)
                kept.append(head + (_STALE if value is None else struct.pack("<d", float(value))) + tail)
            self.count += len(every)

    def message(self) -> bytes:
        """The request in snappy's block format. It begins again without samples."""
        request = self.request()
        literal = _LITERAL_OF_4_BYTES + struct.pack("<I", len(request) - 1) if request else b""
        return _varint(len(request)) + literal + request

    def request(self) -> bytes:
        """The request before its compression. It begins again without samples."""
        if len(self._labels) > _REMEMBERED:
            self._labels.clear()
        parts = []
        for series, samples in self._samples.items():
            if series not in self._labels:
                self._labels[series] = _encoded_labels(series)
            labels = self._labels[series]
            body = b"".join(samples)
            parts += [b"\n", _varint(len(labels) + len(body)), labels, body]
        self._samples, self.count = {}, 0
        return b"".join(parts)


def _around(ms: int) -> tuple[bytes, bytes]:
    """What is before and after the value of a sample."""
    tail = b"\x10" + _varint(ms & 0xFFFFFFFFFFFFFFFF)
    return b"\x12" + _varint(9 + len(tail)) + b"\x09", tail


def _encoded_labels(series: Series) -> bytes:
    labels = sorted([("__name__", series.name), *series.labels])
    return b"".join(_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in labels)


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
