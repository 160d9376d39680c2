"""The levels of links, switch ports and switches, computed on demand, and the history of what happened to single links.

A device's traffic is spread over its links that are up. The traffic and the errors of a link are those at the
last event of any link of its device, plus its share of what the device has counted since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from fakedev.base.steps import Steps, result_of
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.reindex import Reindex
from fakedev.fleet.entities.state import LazyArrays, Level, Mask, Positions
from fakedev.fleet.links.link_layout import LinkLayout
from fakedev.fleet.links.shares import shares_of_links, usable_links

#: Rates of a device that its links share while they are up.
RATES: Final = ("fabric_tx_bytes_per_second", "fabric_rx_bytes_per_second")
#: The integrals of these.
CARRIED: Final = ("fabric_tx_bytes", "fabric_rx_bytes")
#: The part of what a device receives that its own work fetches from the other ends, if its links lead to devices: the
#: rate, and its integral.
FETCHED: Final = ("fabric_fetched_bytes_per_second", "fabric_fetched_bytes")
#: Counters of whole numbers.
COUNTED: Final = ("link_errors", "link_recoveries")
#: Links as devices see them, the same links as switches see them, and switches, in the order of the layout.
LINK: Final = "link"
PORT: Final = "port"
SWITCH: Final = "switch"
#: Quantities of links that devices do not have.
_OWN: Final = ("link_up", "link_state", "link_number", "link_bytes_per_second_max")
#: Quantities of switches that links do not have.
_SWITCH_QUANTITIES: Final = ("links_up", "temperature_celsius")
#: Quantities that the other end of a link shows under another name.
_OTHER_WAY: Final = {
    RATES[0]: RATES[1], RATES[1]: RATES[0], CARRIED[0]: CARRIED[1], CARRIED[1]: CARRIED[0],
}  # fmt: skip
#: Quantities of these levels.
LINK_QUANTITIES: Final[Mapping[str, tuple[str, ...]]] = {
    LINK: (*RATES, *CARRIED, *COUNTED, *_OWN),
    PORT: (*RATES, *CARRIED, *COUNTED, *_OWN),
    SWITCH: (*RATES, *CARRIED, *COUNTED, *_SWITCH_QUANTITIES),
}
#: How much warmer a switch is than the inlet air of its boards: without traffic, and with full traffic.
_IDLE_RISE_CELSIUS: Final = 8.0
_FULL_RISE_CELSIUS: Final = 28.0
_AIR: Final = "inlet_temperature_celsius"
#: The air temperature if no board measures it.
_ROOM_CELSIUS: Final = 25.0
_ALL: Final = slice(None)


@dataclass(frozen=True)
class LinkHistory:
    """The events of links, and the counters at the time of these.

    :ivar up: links that are up, shape (L,); None for all.
    :ivar gone: lost devices, shape (D,); None for none.
    :ivar known: devices with an event of any link, shape (D,); None for none. They have K links.
    :ivar counted: quantities of CARRIED and COUNTED at the last event of any link of a link's device, shape (K,); 0
        for a missing name.
    :ivar since: the same of each device, shape (D,); 0 without an event.
    :ivar happened: links that count something of COUNTED in the current tick, each as often as it counts one.
    """

    layout: LinkLayout
    up: Mask | None = None
    gone: Mask | None = None
    known: Mask | None = None
    counted: Mapping[str, Floats] = field(default_factory=dict)
    since: Mapping[str, Floats] = field(default_factory=dict)
    happened: Mapping[str, Positions] = field(default_factory=dict)

    @cached_property
    def links_up(self) -> Floats | None:
        """How many links of each device are up, shape (D,); None for all."""
        if self.up is None:
            return None
        counts = self.layout.counts
        # Counting links that are down is faster: there are few.
        return (counts - np.bincount(self.layout.owners[~self.up], minlength=len(counts))).astype(np.float64)

    @cached_property
    def known_links(self) -> Positions:
        """The links of the known devices, ascending: shape (K,)."""
        if self.known is None:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(self.layout.each(self.known))

    def places(self, links: Positions) -> Positions:
        """The positions of links of known devices among the known links, shape as ``links``."""
        assert self.known is not None
        places: Positions = np.cumsum(self.layout.each(self.known))[links] - 1
        return places

    @cached_property
    def usable(self) -> Mask | None:
        """Links that are up and that something may use, shape (L,); None for all."""
        return usable_links(self.layout, self.up)

    @cached_property
    def usable_counts(self) -> Floats:
        """How many links of each device are usable, shape (D,)."""
        counts = self.layout.counts.astype(np.float64)
        if self.usable is None:
            return counts
        return counts - np.bincount(self.layout.owners[~self.usable], minlength=len(counts))

    @cached_property
    def shares(self) -> Floats:
        """Each link's share of its device's traffic, shape (L,)."""
        return shares_of_links(self.layout, self.usable, self.usable_counts)

    def _before(self, name: str, links: Positions | slice) -> Floats:
        """The counters of some links at the last event; 0 without one."""
        before = np.zeros(self.layout.count)
        if name in self.counted:
            before[self.known_links] = self.counted[name]
        return before[links]

    def shown(
        self, name: str, devices: Mapping[str, Floats], links: Positions | slice = _ALL, seen: Floats | None = None
    ) -> Floats:
        """The values of a quantity of some links.

        :param name: one of RATES, CARRIED and COUNTED.
        :param devices: the true values of the devices by quantity, shape (D,).
        :param seen: what exporters show of the devices instead of ``name``, shape (D,).
        """
        return self._grown(name, self._before(name, links), devices, links, seen)

    def _grown(
        self, name: str, before: Floats, devices: Mapping[str, Floats], links: Positions | slice, seen: Floats | None
    ) -> Floats:  # fmt: skip
        """As :meth:`shown`.

        :param before: the counters of the links at the last event.
        """
        layout = self.layout
        if name in COUNTED:
            more = self._since(name, devices if seen is None else {name: seen})
            if not more.any():
                return before
            counts = np.maximum(layout.counts, 1)
            whole, rest = layout.each(np.floor(more / counts), links), layout.each(more % counts, links)
            grown: Floats = before + (whole + (layout.numbers[links] < rest))
            return grown
        names = RATES if name in RATES else CARRIED
        fetched = FETCHED[names is CARRIED]
        taken = {rate: self._since(rate, devices) for rate in (*names, fetched) if rate in devices}
        values = before
        if any(moved.any() for moved in taken.values()):
            values = values + self._flow(taken, name == names[1], names, fetched, links)
        if seen is None:
            return values
        # An exporter whose counters restarted shows less than at the last event.
        changed = values + layout.each(seen - devices[name], links) * self.shares[links]
        return np.where(changed < 0, 0.0, changed)

    def _since(self, name: str, devices: Mapping[str, Floats]) -> Floats:
        """What devices have counted since the last event of their links; of a rate its value."""
        values = devices[name]
        return np.maximum(values - self.since[name], 0.0) if name in self.since else values

    def _flow(
        self, taken: Mapping[str, Floats], is_received: bool, names: tuple[str, str], fetched: str,
        links: Positions | slice,
    ) -> Floats:  # fmt: skip
        """What some links send, or receive, of amounts of the devices.

        Links between devices carry what their devices send of their own, and what the other end fetches.
        """
        layout, shares = self.layout, self.shares
        if fetched not in taken:
            return layout.each(taken[names[is_received]], links) * shares[links]
        meshed, ends = layout.meshed, layout.remotes
        inside = (ends >= 0) & layout.each(meshed)
        own = layout.each(taken[fetched]) * shares
        supplied = np.where(inside, own[ends], 0.0)
        alone = taken[names[0]] - np.bincount(layout.owners, weights=supplied, minlength=len(meshed))
        sent = layout.each(np.maximum(alone, 0.0)) * shares + supplied
        if not is_received:
            return sent[links]
        received = layout.each(np.where(meshed, taken[fetched], taken[names[1]])) * shares
        return np.where(inside, sent[ends], received)[links]

    def states(self) -> Floats:
        """The state of each link, as DCGM numbers them: 0 off, 2 active, 3 in error; shape (L,)."""
        if self.up is None:
            return np.full(self.layout.count, 2.0)
        states = np.where(self.up, 2.0, 3.0)
        if self.gone is not None:
            own, ends = self.layout.each(self.gone), self.layout.remotes
            states[own | ((ends >= 0) & own[ends])] = 0.0
        return states

    def settled(self, lost: Mask) -> LinkHistory:
        """The history at the end of the tick.

        :param lost: devices that are lost in the tick, shape (D,): they count nothing.
        """
        counted, since = dict(self.counted), dict(self.since)
        for name, links in self.happened.items():
            uncounted = links[lost[self.layout.owners[links]]]
            if not len(uncounted):
                continue
            counted[name], since[name] = counted[name].copy(), since[name].copy()
            np.subtract.at(counted[name], self.places(uncounted), 1.0)
            np.subtract.at(since[name], self.layout.owners[uncounted], 1.0)
        return replace(self, counted=counted, since=since, happened={})

    def recounted(self, devices: Mapping[str, Floats], concerned: Mask) -> Steps[LinkHistory]:
        """The history for an event, with new arrays ``counted`` and ``since``.

        :param concerned: devices of the event, or of its links, shape (D,).
        """
        known = concerned if self.known is None else self.known | concerned
        recounted = replace(self, known=known, counted={}, since={})
        links = recounted.known_links
        is_new = self.layout.each(concerned)[links]
        new = links[is_new]
        counted, since = {}, {}
        for name in (*CARRIED, *COUNTED, FETCHED[1]):
            if name not in devices:
                continue
            if name != FETCHED[1]:
                counted[name] = self._before(name, links)
                counted[name][is_new] = self._grown(name, counted[name][is_new], devices, new, None)
            since[name] = self.since[name].copy() if name in self.since else np.zeros(len(concerned))
            since[name][concerned] = devices[name][concerned]
            yield
        return replace(recounted, counted=counted, since=since)


def moved(history: LinkHistory, devices: Level, layout: LinkLayout, moves: Reindex) -> LinkHistory:
    """The history of the links after a reload.

    All links of a device that is new, or has another number of links now, are up and have carried the same.

    :param devices: the last level of the devices before, in the old order.
    :param layout: the new positions of links.
    """
    old_layout = history.layout
    has_none = not old_layout.count or not layout.count  # as a fleet whose last node has left
    if has_none or (history.up is None and history.known is None and not (old_layout.is_meshed or layout.is_meshed)):
        return LinkHistory(layout)
    same = moves.old_of >= 0
    same[same] = old_layout.counts[moves.old_of[same]] == layout.counts[same]
    up = None
    if history.up is not None:
        down = np.flatnonzero(~history.up)
        owners = moves.new_of[old_layout.owners[down]]
        stays = (owners >= 0) & same[owners]
        up = np.ones(layout.count, dtype=np.bool_)
        up[layout.firsts[owners[stays]] + old_layout.numbers[down[stays]]] = False
        # A link may lead to another device now, whose end is down.
        ends = layout.remotes
        up[(ends >= 0) & ~up[ends]] = False
    changed = _changed_devices(history, LinkHistory(layout, up=up), moves, same)
    if changed.any():
        history = result_of(history.recounted(devices.arrays, old_layout.of_same_nodes(changed)))
    known = None if history.known is None else same & history.known[moves.old_of]
    fresh = LinkHistory(layout, known=known)
    old = history.layout.firsts[moves.old_of[layout.owners[fresh.known_links]]] + layout.numbers[fresh.known_links]
    return replace(
        fresh,
        up=up,
        gone=None if history.gone is None else same & history.gone[moves.old_of],
        counted={name: values[history.places(old)] for name, values in history.counted.items()},
        since={name: np.where(same, since[moves.old_of], 0.0) for name, since in history.since.items()},
    )


def _changed_devices(before: LinkHistory, now: LinkHistory, moves: Reindex, same: Mask) -> Mask:
    """The old devices of which a link carries another share, or leads elsewhere, after a reload: shape (old D,).

    :param same: new devices with as many links as before, shape (new D,).
    """
    old_layout, layout = before.layout, now.layout
    links = np.flatnonzero(same[layout.owners])
    old_of = np.full(layout.count, -1, dtype=np.int64)
    old_of[links] = old_layout.firsts[moves.old_of[layout.owners[links]]] + layout.numbers[links]
    old, ends = old_of[links], layout.remotes[links]
    differs = old_layout.remotes[old] != np.where(ends >= 0, old_of[ends], ends)
    differs |= (ends >= 0) & (old_of[ends] < 0)
    differs |= before.shares[old] != now.shares[links]
    changed = np.zeros(len(moves.new_of), dtype=np.bool_)
    changed[old_layout.owners[old[differs]]] = True
    return changed


@dataclass(frozen=True)
class LinkLevel(Level):
    """The level of the links, with the history that it shows."""

    history: LinkHistory


def link_history(levels: Mapping[str, Level]) -> LinkHistory:
    """The history of the links of some levels."""
    level = levels[LINK]
    assert isinstance(level, LinkLevel)
    return level.history


def link_levels(history: LinkHistory, devices: Level, shown: Level | None = None) -> dict[str, Level]:
    """The levels of links, ports and switches.

    :param devices: the true level of the devices.
    :param shown: the level that exporters show, if they show another one.
    """
    seen = devices if shown is None else shown
    layout = history.layout
    names = [name for name in (*RATES, *CARRIED, *COUNTED) if name in devices.arrays]
    of_links = dict.fromkeys((*names, *_OWN))
    masks = LazyArrays(
        {name: None for name in of_links if _source(name) in seen.present},
        lambda name: seen.present[_source(name)][layout.owners],
    )
    values = LazyArrays(of_links, lambda name: _values(history, devices, name, shown))
    links = LinkLevel(layout.count, values, masks, history)
    # Faults of boards and their exporters leave switches and ports unimpaired.
    true: Mapping[str, Floats] = links.arrays
    if shown is not None:
        true = LazyArrays(of_links, lambda name: _values(history, devices, name))
    ports = Level(layout.count, LazyArrays(of_links, lambda name: true[_opposite(name)]), {})
    of_switches = dict.fromkeys((*names, *_SWITCH_QUANTITIES))
    arrays = LazyArrays(of_switches, lambda name: _switch_values(layout, true, devices, name))
    return {LINK: links, PORT: ports, SWITCH: Level(layout.switch_count, arrays, {})}


def _source(name: str) -> str:
    """The quantity of devices that a quantity of their links depends on."""
    return "links_up" if name in _OWN else name


def _values(history: LinkHistory, devices: Level, name: str, shown: Level | None = None) -> Floats:
    """A quantity of the links, shape (L,).

    :param shown: the level that exporters show of the devices, if they show another one.
    """
    layout = history.layout
    match name:
        case "link_up":
            return np.ones(layout.count) if history.up is None else history.up.astype(np.float64)
        case "link_state":
            return history.states()
        case "link_number":
            return layout.numbers.astype(np.float64)
        case "link_bytes_per_second_max":
            return layout.bytes_per_second
    return history.shown(name, devices.arrays, seen=None if shown is None else shown.arrays[name])


def _opposite(name: str) -> str:
    """The quantity at the other end of a link, which receives what this end sends."""
    return _OTHER_WAY.get(name, name)


def _switch_values(layout: LinkLayout, links: Mapping[str, Floats], devices: Level, name: str) -> Floats:
    """A quantity of the switches, shape (S,): sums over their links, and the temperature."""
    chosen = layout.switches >= 0
    where = layout.switches[chosen]

    def summed(values: Floats) -> Floats:
        return np.bincount(where, weights=values[chosen], minlength=layout.switch_count).astype(np.float64)

    if name != "temperature_celsius":
        return summed(links["link_up" if name == "links_up" else _opposite(name)])
    air = np.full(layout.switch_count, _ROOM_CELSIUS)
    if _AIR in devices.arrays:
        # The warmest inlet of its boards; lost boards show none.
        known = np.zeros(layout.switch_count)
        np.maximum.at(known, where, devices.arrays[_AIR][layout.owners[chosen]])
        air = np.where(known > 0, known, air)
    carried = sum((summed(links[rate]) for rate in RATES if rate in links), np.zeros(layout.switch_count))
    most = 2 * summed(layout.bytes_per_second)
    share = np.divide(carried, most, out=np.zeros_like(most), where=most > 0)
    warm: Floats = air + _IDLE_RISE_CELSIUS + share * (_FULL_RISE_CELSIUS - _IDLE_RISE_CELSIUS)
    return warm
