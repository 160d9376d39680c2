"""The last things that happened, and which units (devices and parts) each concerns, to find those of a few."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.moves import Carriage
from fakedev.sim.schedule import Positions
from fakedev.sim.state import Mask


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
        #: Those of the newest entries, in the same order.
        self._devices: deque[NDArray[np.int32]] = deque(maxlen=most)
        self._device_count = 0

    def add(self, entry: Kept, devices: Positions) -> None:
        """Keep an entry.

        :param devices: positions of the units that it concerns.
        """
        if len(self._devices) == self._devices.maxlen:
            self._device_count -= len(self._devices[0])
        if len(self._kept) == self._kept.maxlen:
            self._size -= self._kept[0].size
        self._kept.append(entry)
        self._size += entry.size
        if self._size > self._most_size:
            self._forget()
        self._devices.append(devices.astype(np.int32))
        self._device_count += len(devices)
        while self._device_count > self._most_devices:
            self._device_count -= len(self._devices.popleft())

    def last(self, count: int, kinds: Collection[str] = (), on: Mask | None = None) -> list[Kept]:
        """The last entries, oldest first.

        :param kinds: those of these kinds; of all, when there are none.
        :param on: those that concern one of these units, shape (units,); None: all.
        """
        entries = list(self._kept)
        if on is not None:
            newest = entries[len(entries) - len(self._devices) :]
            entries = [entry for entry, concerned in zip(newest, self._concerned(on), strict=True) if concerned]
        if kinds:
            entries = [entry for entry in entries if entry.kind in kinds]
        return entries[-count:] if count else []

    def move(self, moves: Carriage) -> None:
        """The units have new places."""
        if not self._devices:
            return
        flat, ends = self._flat()
        stays = ~moves.gone[flat]
        ends = np.append(0, np.cumsum(stays))[ends]
        places = moves.followed(flat.astype(np.int64)).astype(np.int32)
        self._devices = deque(np.split(places, ends[:-1]), self._devices.maxlen)
        self._device_count = int(ends[-1])

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
        if not self._devices:
            return []
        flat, ends = self._flat()
        found = np.append(0, np.cumsum(on[flat]))
        among: list[bool] = (found[ends] > found[np.append(0, ends[:-1])]).tolist()
        return among

    def _flat(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The devices of all entries one after the other, and where those of each end."""
        return np.concatenate(self._devices), np.cumsum([len(each) for each in self._devices], dtype=np.int64)
