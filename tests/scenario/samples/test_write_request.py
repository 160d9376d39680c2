"""Write requests, read by an independent decoder."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

import pytest

from fakedev.scenario.samples.remote_write import WriteRequest
from fakedev.scenario.samples.series import Scraped, Series

STALE = 0x7FF0000000000002


def varint(data: bytes, place: int) -> tuple[int, int]:
    """A number, and the place after it."""
    found = shift = 0
    while True:
        found |= (data[place] & 0x7F) << shift
        shift += 7
        place += 1
        if not data[place - 1] & 0x80:
            return found, place


def uncompressed(data: bytes) -> bytes:
    """What snappy's literal chunks hold."""
    length, place = varint(data, 0)
    found = b""
    while place < len(data):
        assert data[place] == 0xFC
        size = int.from_bytes(data[place + 1 : place + 5], "little") + 1
        found += data[place + 5 : place + 5 + size]
        place += 5 + size
    assert len(found) == length
    return found


def fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a message: number, and bytes or a whole number."""
    place = 0
    while place < len(data):
        tag, place = varint(data, place)
        if tag & 7 == 0:
            value, place = varint(data, place)
            yield tag >> 3, value
            continue
        size = 8
        if tag & 7 == 2:
            size, place = varint(data, place)
        yield tag >> 3, data[place : place + size]
        place += size


def read(message: bytes) -> dict[str, list[tuple[int, float | None]]]:
    """The samples of each series; None for a marker of staleness."""
    found: dict[str, list[tuple[int, float | None]]] = {}
    for _, series in fields(uncompressed(message)):
        assert isinstance(series, bytes)
        names, samples = [], list[tuple[int, float | None]]()
        for number, content in fields(series):
            assert isinstance(content, bytes)
            parts = [part for _, part in fields(content)]
            if number == 1:
                names.append("=".join(part.decode() for part in parts if isinstance(part, bytes)))
            else:
                value, ms = parts
                assert isinstance(value, bytes) and isinstance(ms, int)
                is_stale = struct.unpack("<Q", value)[0] == STALE
                samples.append((ms, None if is_stale else struct.unpack("<d", value)[0]))
        assert names == sorted(names)
        found.setdefault(",".join(names), []).extend(samples)
    return found


def test_scrapes() -> None:
    """Samples by series in their order, with markers, own times and special numbers; then it begins again."""
    first, second = Series("temp", {"gpu": "0", "Hostname": "n"}), Series("up", {})
    request = WriteRequest()
    request.add_scrape(Scraped([first, second], [b"1.5", b"1"]), 1_700_000_000_000)
    request.add_scrape(Scraped([second], [b"+Inf"], [first], {0: 1_700_000_001_000}), 1_700_000_015_000)
    request.add({first: [(1_700_000_030_000, "NaN"), (1_700_000_045_000, None)]})
    assert request.count == 6
    found = read(request.message())
    series = "Hostname=n,__name__=temp,gpu=0"
    values = found.pop(series)
    assert values[:2] == [(1_700_000_000_000, 1.5), (1_700_000_015_000, None)]
    assert values[2][1] is not None and math.isnan(values[2][1])
    assert values[3] == (1_700_000_045_000, None)
    assert found == {"__name__=up": [(1_700_000_000_000, 1.0), (1_700_000_001_000, math.inf)]}
    assert request.count == 0
    assert request.message() == b"\0"


@pytest.mark.parametrize("ms", [0, 1, 127, 128, 2**40])
def test_times(ms: int) -> None:
    request = WriteRequest()
    request.add({Series("a", {}): [(ms, "2")]})
    assert read(request.message()) == {"__name__=a": [(ms, 2.0)]}
