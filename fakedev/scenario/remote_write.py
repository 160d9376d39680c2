"""The messages of remote write that a history is sent with: compressed, bounded, and the same again after a restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from fakedev.scenario.samples import Stored
from fakedev.scenario.write_request import WriteRequest

#: The most samples of a message, but for what one target has: about 2 MB before compression.
MOST_SAMPLES: Final = 8_000
#: The longest time that a message covers: servers refuse what is much older than their newest sample.
_LONGEST_MILLISECONDS: Final = 600_000


class SnappyMissing(Exception):
    """The optional package with snappy is not installed; ``str`` of it is the remedy."""


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

    :raises SnappyMissing: without the package.
    """
    try:
        from cramjam import snappy as found  # noqa: PLC0415 - an optional package
    except ImportError:
        text = "remote write needs cramjam for snappy, and it is not installed: pip install 'fakedev[scenario]'"
        raise SnappyMissing(text) from None
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
