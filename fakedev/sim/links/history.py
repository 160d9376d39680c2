"""What links show, as it follows from what their devices show: nothing is kept but what happened to single links.

A device's traffic is spread over its links that are up, alike. What a link has carried, and its errors, are what they
were when something happened to a link of its device last, and its part of what its device has had since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from fakedev.sim.links.layout import LinkLayout
from fakedev.sim.randomness import Floats
from fakedev.sim.schedule import Positions
from fakedev.sim.state import Mask

#: What a link has of its device's, for as long as it is up.
RATES: Final = ("fabric_tx_bytes_per_second", "fabric_rx_bytes_per_second")
#: What adds up of these.
CARRIED: Final = ("fabric_tx_bytes", "fabric_rx_bytes")
#: What is counted, in whole numbers.
COUNTED: Final = ("link_errors", "link_recoveries")


_ALL: Final = slice(None)


@dataclass(frozen=True)
class LinkHistory:
    """What has happened to the links, and what they had shown of it.

    :ivar up: which of them are up, shape (L,); None: all.
    :ivar gone: devices that are lost, shape (D,); None: none.
    :ivar counted: quantities of CARRIED and COUNTED when something happened to a link of its device last, of each link,
        shape (L,), 0 where nothing has; a name that is missing: 0.
    :ivar since: the same of each device, shape (D,).
    :ivar happened: the links that something of COUNTED is counted of in the tick that is made, one for each time.
    """

    layout: LinkLayout
    up: Mask | None = None
    gone: Mask | None = None
    counted: Mapping[str, Floats] = field(default_factory=dict)
    since: Mapping[str, Floats] = field(default_factory=dict)
    happened: Mapping[str, Positions] = field(default_factory=dict)

    @cached_property
    def links_up(self) -> Floats | None:
        """How many links of each device are up, shape (D,); None: all."""
        if self.up is None:
            return None
        owners = self.layout.owners[self.up]
        return np.bincount(owners, minlength=len(self.layout.counts)).astype(np.float64)

    def shown(self, name: str, devices: Floats, links: Positions | slice = _ALL) -> Floats:
        """What links show of a quantity, one number each.

        :param name: one of RATES, CARRIED and COUNTED.
        :param devices: what the devices show, shape (D,).
        :param links: which ones.
        """
        owners = self.layout.owners[links]
        if name in RATES:
            return devices[owners] * self._shares(owners, links)
        # An exporter whose counters begin anew shows less than there was when something happened last.
        more = np.maximum(devices - self.since[name], 0.0) if name in self.since else devices
        before = self.counted[name][links] if name in self.counted else np.zeros(len(owners))
        if not more.any():
            return before
        if name in CARRIED:
            return before + more[owners] * self._shares(owners, links)
        counts = self.layout.counts[owners]
        return before + np.floor(more[owners] / counts) + (self.layout.numbers[links] < more[owners] % counts)

    def _shares(self, owners: Positions, links: Positions | slice) -> Floats:
        """Of its device's traffic the share of each link."""
        if self.up is None or self.links_up is None:
            return 1.0 / self.layout.counts[owners]
        ups = self.links_up[owners]
        return np.divide(1.0, ups, out=np.zeros(len(owners)), where=self.up[links] & (ups > 0))

    def states(self) -> Floats:
        """The state of each link, as DCGM numbers them: 0 off, 2 active, 3 in error; shape (L,)."""
        if self.up is None:
            return np.full(self.layout.count, 2.0)
        states = np.where(self.up, 2.0, 3.0)
        if self.gone is not None:
            own, ends = self.gone[self.layout.owners], self.layout.remotes
            states[own | ((ends >= 0) & own[ends])] = 0.0
        return states

    def settled(self, lost: Mask) -> LinkHistory:
        """The history once the tick is made.

        :param lost: the devices that are lost in it, shape (D,): they count nothing.
        """
        if not self.happened:
            return self
        counted, since = dict(self.counted), dict(self.since)
        for name, links in self.happened.items():
            uncounted = links[lost[self.layout.owners[links]]]
            counted[name], since[name] = counted[name].copy(), since[name].copy()
            np.subtract.at(counted[name], uncounted, 1.0)
            np.subtract.at(since[name], self.layout.owners[uncounted], 1.0)
        return replace(self, counted=counted, since=since, happened={})

    def recounted(
        self, devices: Mapping[str, Floats], concerned: Mask
    ) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """``counted`` and ``since`` for something that happens now: arrays of its own.

        :param devices: what the devices show.
        :param concerned: the devices that it happens to, or whose links it happens to, shape (D,).
        """
        links = np.flatnonzero(concerned[self.layout.owners])
        counted, since = {}, {}
        for name in (*CARRIED, *COUNTED):
            if name not in devices:
                continue
            known = name in self.counted
            counted[name] = self.counted[name].copy() if known else np.zeros(self.layout.count)
            since[name] = self.since[name].copy() if known else np.zeros(len(concerned))
            counted[name][links] = self.shown(name, devices[name], links)
            since[name][concerned] = devices[name][concerned]
        return counted, since


def first_of_each(links: Positions, owners: Positions) -> Positions:
    """Of some links the first of each device, ascending.

    :param owners: the device of each link of the layout.
    """
    ordered = np.sort(links)
    _, firsts = np.unique(owners[ordered], return_index=True)
    found: Positions = ordered[firsts]
    return found
