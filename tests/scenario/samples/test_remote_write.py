"""Messages of remote write: what is in them, and that they are the same when a history is sent again."""

from __future__ import annotations

import struct
import sys

import pytest

from fakedev.scenario.samples.remote_write import Message, Messages, snappy
from fakedev.scenario.samples.series import Scraped, Stored, TargetSamples

STALE = 0x7FF0000000000002
#: A sample: series, the bits of its value, milliseconds.
Sample = tuple[str, int, int]


def fields(data: bytes) -> list[tuple[int, bytes | int]]:
    """The fields of a message of protobuf, by a plain reading."""
    found: list[tuple[int, bytes | int]] = []
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
        else:
            length = 8 if key & 7 == 1 else varint()
            found.append((key >> 3, data[place : place + length]))
            place += length
    return found


def read(body: bytes) -> list[Sample]:
    """The samples of an uncompressed message, in their order."""
    samples: list[Sample] = []
    for number, series in fields(body):
        assert number == 1 and isinstance(series, bytes)
        labels, of_series = [], []
        for which, part in fields(series):
            assert isinstance(part, bytes)
            found = dict(fields(part))
            if which == 1:
                labels.append(tuple(each.decode() for each in found.values() if isinstance(each, bytes)))
            else:
                assert isinstance(found[1], bytes) and isinstance(found[2], int)
                of_series.append((struct.unpack("<Q", found[1])[0], found[2]))
        assert labels == sorted(labels)
        name = ",".join("=".join(label) for label in labels)
        samples += [(name, *each) for each in of_series]
    return samples


def bits(value: float) -> int:
    found: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return found


def history(count: int, targets: int = 2) -> list[Stored]:
    """Instants of some targets, every minute; a series of each comes and goes."""
    samples = [TargetSamples({"instance": str(each)}) for each in range(targets)]
    found = []
    for number in range(count):
        page = f"a {number}\n".encode() + b"b NaN 77\n" * (number == 0) + b"c 1\n" * (number % 3 == 0)
        found.append(Stored(60_000 * number, [sample.scrape(page) for sample in samples], {}))
    return found


def sent(instants: list[Stored], most: int) -> list[Message]:
    messages = Messages(lambda data: data, most)
    found = [message for stored in instants for message in messages.add(stored)]
    return [*found, *messages.end()]


def test_samples() -> None:
    """Series with sorted labels; values and markers with their times."""
    (message,) = sent(history(2, 1), 100)
    samples = read(message.body)
    assert message.samples == len(samples) == 3 + 5 + 1 + 5 + 1
    assert [sample for sample in samples if sample[0].startswith(("__name__=a,", "__name__=b,", "__name__=c,"))] == [
        ("__name__=a,instance=0", bits(0), 0),
        ("__name__=a,instance=0", bits(1), 60_000),
        ("__name__=b,instance=0", bits(float("nan")), 77),
        ("__name__=c,instance=0", bits(1), 0),
        ("__name__=c,instance=0", STALE, 60_000),
    ]
    assert message.whole_milliseconds == 60_000


def test_whole_instants() -> None:
    """A message has whole instants while one fits; none covers more than ten minutes."""
    messages = sent(history(30), 50)
    assert all(message.samples <= 50 for message in messages)
    for message in messages:
        times = {at for name, _, at in read(message.body) if "__name__=up," in name}
        assert max(times) == message.whole_milliseconds
    assert [message.whole_milliseconds for message in sent(history(25, 1), 10_000)] == [540_000, 1_140_000, 1_440_000]


def test_large_instants() -> None:
    """An instant that does not fit has messages of its own, of whole targets."""
    messages = sent(history(2, 5), 16)
    assert [message.whole_milliseconds for message in messages] == [None, None, 0, 0, 0, 60_000]
    assert all(len({at for _, _, at in read(message.body)} - {77}) == 1 for message in messages)
    (alone,) = sent([Stored(0, [TargetSamples({}).scrape(b"a 1\n")], {})], 1)
    assert alone.samples == 6


@pytest.mark.parametrize("most", [1, 16, 30, 50, 1000])
def test_sent_again(most: int) -> None:
    """From where a message ended whole, the messages are the same as before."""
    instants = history(25, 3)
    messages = sent(instants, most)
    first = {message.whole_milliseconds: number for number, message in reversed([*enumerate(messages)])}
    for until, number in first.items():
        rest = [instant for instant in instants if until is not None and instant.milliseconds > until]
        if rest:
            assert [each.body for each in sent(rest, most)] == [message.body for message in messages[number + 1 :]]
    assert sum(message.samples for message in messages) == sum(
        len(each.series) + len(each.gone) for stored in instants for each in stored.scraped
    )


def test_snappy() -> None:
    cramjam = pytest.importorskip("cramjam")
    data = b"hello " * 1000
    packed = snappy()(data)
    assert isinstance(packed, bytes) and len(packed) < 500
    assert bytes(cramjam.snappy.decompress_raw(packed)) == data


def test_without_snappy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(ValueError, match=r"pip install '.\[scenario\]'"):
        snappy()


def test_nothing() -> None:
    assert sent([Stored(0, [], {}), Stored(1, [Scraped((), ())], {})], 10) == []
