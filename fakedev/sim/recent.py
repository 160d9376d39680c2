"""The last things that happened, and which units (devices and parts) each concerns, to find those of a few."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Collection
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.carry_over import Carriage
from fakedev.sim.entities.state import Mask
from fakedev.sim.workloads.schedule import Positions


class Entry(Protocol):
    """Something of a kind, a part of which may be forgotten."""

    @property
    def kind(self) -> str:
        """Its kind."""
        ...

    @property
    def size(self) -> int:
        """How large the part is that may be forgotten."""
        ...

    def brief(self) -> Self:
        """The same without that."""
        ...


Kept = TypeVar("Kept", bound=Entry)


class Recent(Generic[Kept]):
    """The newest entries, each with the units that it concerns.

    :param most: entries that are kept.
    :param most_devices: units that are kept of all of them together; the oldest entries are then found by their
        kind only.
    :param most_size: what all of them together may have of what may be forgotten; beyond that the oldest forget it.
    """

    def __init__(self, most: int, most_devices: int, most_size: int) -> None:
        self._most_devices = most_devices
        self._most_size = most_size
        self._size = 0
        self._kept: deque[Kept] = deque(maxlen=most)
        #: How many units each of the newest entries concerns, in the same order.
        self._counts: deque[int] = deque(maxlen=most)
        #: These units, one entry's after the other's, -1 of those that are gone: the last ``_device_count``.
        self._devices = array("i")
        self._device_count = 0

    def add(self, entry: Kept, devices: Positions) -> None:
        """Keep an entry.

        :param devices: positions of the units that it concerns.
        """
        if len(self._counts) == self._counts.maxlen:
            self._device_count -= self._counts[0]
        if len(self._kept) == self._kept.maxlen:
            self._size -= self._kept[0].size
        self._kept.append(entry)
        self._size += entry.size
        if self._size > self._most_size:
            self._forget()
        self._counts.append(len(devices))
        self._devices.frombytes(devices.astype(np.int32).tobytes())
        self._device_count += len(devices)
        while self._device_count > self._most_devices:
            self._device_count -= self._counts.popleft()
        if len(self._devices) > 2 * self._device_count:
            del self._devices[: len(self._devices) - self._device_count]

    def last(self, count: int, kinds: Collection[str] = (), on: Mask | None = None) -> list[Kept]:
        """The last entries, oldest first.

        :param kinds: those of these kinds; of all, when there are none.
        :param on: those that concern one of these units, shape (units,); None: all.
        """
        entries = list(self._kept)
        if on is not None:
            newest = entries[len(entries) - len(self._counts) :]
            entries = [entry for entry, concerned in zip(newest, self._concerned(on), strict=True) if concerned]
        if kinds:
            entries = [entry for entry in entries if entry.kind in kinds]
        return entries[-count:] if count else []

    def move(self, moves: Carriage) -> None:
        """The units have new places."""
        new_of = np.append(moves.new_of, -1).astype(np.int32)
        self._devices = array("i", new_of[self._flat()].tobytes())

    def _forget(self) -> None:
        """Let the oldest forget so much that half of what may be is left: so it is not done for each entry."""
        entries = list(self._kept)
        for place, entry in enumerate(entries):
            if 2 * self._size <= self._most_size:
                break
            entries[place] = entry.brief()
            self._size -= entry.size
        self._kept = deque(entries, self._kept.maxlen)

    def _concerned(self, on: Mask) -> list[bool]:
        ends = np.cumsum(self._counts, dtype=np.int64)
        found = np.append(0, np.cumsum(np.append(on, False)[self._flat()]))
        among: list[bool] = (found[ends] > found[np.append(0, ends[:-1])]).tolist() if len(ends) else []
        return among

    def _flat(self) -> NDArray[np.int32]:
        """The units of all entries, one after the other. While it is there nothing can be added."""
        first = len(self._devices) - self._device_count
        return np.frombuffer(self._devices, dtype=np.int32)[first:] if self._devices else np.zeros(0, dtype=np.int32)
