"""Messages of Prometheus' remote write 1.0 with a history: compressed, bounded, the same again after a restart.

A write request for a server on this machine is not compressed; its form is a valid one of snappy.

Sources: prompb/remote.proto and prompb/types.proto of Prometheus; format_description.txt of snappy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from fakedev.base.errors import install_extra
from fakedev.scenario.samples.series import Scraped, Series, Stored

#: What marks a series as stale: a NaN of its own. Not a number of Python, which may not keep its bits.
_STALE: Final = struct.pack("<Q", 0x7FF0000000000002)
#: Series whose encoded labels are cached.
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
        for series, point in points.items():
            kept = self._samples.setdefault(series, [])
            for ms, value in point:
                head, tail = _around(ms)
                kept.append(head + (_STALE if value is None else struct.pack("<d", float(value))) + tail)
            self.count += len(point)

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
                pairs = sorted([("__name__", series.name), *series.labels])
                fields = [_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in pairs]
                self._labels[series] = b"".join(fields)
            labels = self._labels[series]
            body = b"".join(samples)
            parts += [b"\n", _varint(len(labels) + len(body)), labels, body]
        self._samples, self.count = {}, 0
        return b"".join(parts)


def _around(ms: int) -> tuple[bytes, bytes]:
    """What is before and after the value of a sample."""
    tail = b"\x10" + _varint(ms & 0xFFFFFFFFFFFFFFFF)
    return b"\x12" + _varint(9 + len(tail)) + b"\x09", tail


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


#: The most samples of a message, but for what one target has: about 2 MB before compression.
MOST_SAMPLES: Final = 8_000
#: The longest time that a message covers: servers refuse what is much older than their newest sample.
_LONGEST_MILLISECONDS: Final = 600_000


class Message(NamedTuple):
    """A message.

    :ivar body: compressed.
    :ivar samples: how many samples and markers it has.
    :ivar whole_milliseconds: with this message all instants up to this time are sent; None: not even the first.
    """

    body: bytes
    samples: int
    whole_milliseconds: int | None


def snappy() -> Callable[[bytes], bytes]:
    """What compresses to snappy's block format.

    :raises ValueError: without the package, with the remedy.
    """
    try:
        from cramjam import snappy as found  # noqa: PLC0415 - an optional package
    except ImportError:
        text = f"remote write needs cramjam for snappy, and it is not installed: {install_extra('scenario')}"
        raise ValueError(text) from None
    return lambda data: bytes(found.compress_raw(data))


class Messages:
    """Puts instants into messages: each has whole instants, or a part of one instant.

    So a history that is sent again from an instant on has the same messages as before, and a server takes a message
    twice: as the same samples, or it says that they are out of order.

    :param compress: to snappy's block format.
    :param most_samples: of a message, but for what one target has.
    """

    def __init__(self, compress: Callable[[bytes], bytes], most_samples: int = MOST_SAMPLES) -> None:
        self._compress = compress
        self._most_samples = most_samples
        self._request = WriteRequest()
        self._begin: int | None = None
        self._whole: int | None = None

    def add(self, stored: Stored) -> Iterator[Message]:
        """Add an instant; yields the messages that are complete."""
        now = stored.milliseconds
        count = sum(len(scraped.series) + len(scraped.gone) for scraped in stored.scraped)
        is_old = self._begin is not None and now - self._begin >= _LONGEST_MILLISECONDS
        if is_old or self._request.count + count > self._most_samples:
            yield from self.end()
        is_split = False
        for scraped in stored.scraped:
            more = len(scraped.series) + len(scraped.gone)
            if count > self._most_samples and self._request.count and self._request.count + more > self._most_samples:
                yield self._message()
                is_split = True
            self._request.add_scrape(scraped, now)
        self._whole = now
        self._begin = now if self._begin is None else self._begin
        if is_split:
            yield from self.end()

    def end(self) -> Iterator[Message]:
        """The message of what is left, if anything is."""
        if self._request.count:
            yield self._message()
        self._begin = None

    def _message(self) -> Message:
        count = self._request.count
        return Message(self._compress(self._request.request()), count, self._whole)
