"""What the randomness of events is keyed by: the same in every shard that is sent the same event.

Sequence numbers are not: a shard is sent other events than the whole fleet. An event's tick and words are, and how
many like it came before in that tick: whoever is sent one of two that name the same devices is sent the other, too.
"""

from __future__ import annotations


class Likes:
    """How often events with the same words were taken in a tick."""

    def __init__(self) -> None:
        self._tick = -1
        self._taken: dict[str, int] = {}

    def key(self, tick: int, *words: str) -> str:
        """The key of an event that is not taken yet.

        :param words: what it is, and the devices that it names.
        """
        if tick != self._tick:
            self._tick, self._taken = tick, {}
        alike = "\0".join([str(tick), *words])
        return f"{alike}\0{self._taken.get(alike, 0)}"

    def took(self, key: str) -> None:
        """The event of that key was taken; empty: one without randomness."""
        if key:
            alike = key.rpartition("\0")[0]
            self._taken[alike] = self._taken.get(alike, 0) + 1
