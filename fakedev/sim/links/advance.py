"""What happens to links in a tick: which are up, what their ends see of it, and what their devices can still carry."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fakedev.sim.boards.conditions import Conditions
from fakedev.sim.entities.state import Level, Mask
from fakedev.sim.faults.tick import FaultTick
from fakedev.sim.links.history import CARRIED, LinkHistory, first_of_each
from fakedev.sim.links.layout import LinkLayout
from fakedev.sim.workloads.schedule import Positions
from fakedev.spec.fault_kinds import ALL_LINKS

#: The code that NVIDIA's driver reports for an error of a link.
_LINK_XID = 74
#: Products of shares and numbers of links miss a whole number by less than this.
_ROUNDING = 1e-9


class _Struck(NamedTuple):
    """Links that something has happened to.

    :ivar errors, recoveries: one for each time that it is counted.
    """

    errors: Positions
    recoveries: Positions


def advanced(
    history: LinkHistory, devices: Level, faults: FaultTick | None, *, has_moved: bool
) -> LinkHistory:
    """The history of the links with what happens in this tick; the same, when nothing does.

    What both ends see of it, their devices are given by the faults.

    :param devices: what the devices showed a tick ago.
    :param faults: what faults do to all units in this tick; None: there are none.
    :param has_moved: whether faults that last concern other devices than a tick ago.
    """
    layout = history.layout
    if not layout.count:
        return history
    gone = _gone(devices, faults, len(layout.counts))
    reset = None if faults is None else faults.of_devices().resets()
    may_change = has_moved and (history.up is not None or _touches_links(faults))
    if not may_change and reset is None and _same(gone, history.gone):
        return history
    up = _up(layout, faults, gone)
    struck = _struck(history, up, gone, faults)
    changed = np.flatnonzero(_down(up, layout) != _down(history.up, layout))
    happens_to = np.concatenate((changed, struck.errors, struck.recoveries))
    if not len(happens_to) and reset is None:
        return replace(history, gone=gone)
    concerned = np.zeros(len(layout.counts), dtype=np.bool_) if reset is None else reset.copy()
    concerned[layout.owners[happens_to]] = True
    recounted = history.recounted(devices.arrays, concerned)
    if reset is not None:
        for name in CARRIED:
            if name in recounted.counted:
                recounted.counted[name][reset[layout.owners[recounted.known_links]]] = 0.0
                recounted.since[name][reset] = 0.0
    happened = {"link_errors": struck.errors, "link_recoveries": struck.recoveries}
    for name, links in happened.items():
        np.add.at(recounted.counted[name], recounted.places(links), 1.0)
        np.add.at(recounted.since[name], layout.owners[links], 1.0)
    return replace(recounted, up=up if len(changed) else history.up, gone=gone, happened=happened)


def limited(history: LinkHistory, conditions: Conditions) -> Conditions:
    """Conditions of the devices, with what their links that are up can carry."""
    if history.links_up is None:
        return conditions
    counts = history.layout.counts
    share = np.divide(history.links_up, counts, out=np.full(len(counts), np.nan), where=history.links_up < counts)
    given = share if conditions.fabric_share is None else np.fmin(share, conditions.fabric_share)
    return replace(conditions, fabric_share=given, links_up=history.links_up)


def _touches_links(faults: FaultTick | None) -> bool:
    return faults is not None and bool(faults.cuts or faults.struck or faults.get("fabric_share") is not None)


def _gone(devices: Level, faults: FaultTick | None, count: int) -> Mask | None:
    """The devices that are lost."""
    lost = devices.arrays.get("lost")
    by_fault = None if faults is None else faults.get("lost")
    gone = np.zeros(count, dtype=np.bool_)
    if lost is not None:
        gone |= lost > 0
    if by_fault is not None:
        gone |= by_fault[:count] > 0
    return gone if gone.any() else None


def _same(one: Mask | None, other: Mask | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def _up(layout: LinkLayout, faults: FaultTick | None, gone: Mask | None) -> Mask | None:
    """The links that are up: not those that a fault, or the loss of a board, takes down at one of their ends."""
    down = np.zeros(layout.count, dtype=np.bool_)
    share = None if faults is None else faults.get("fabric_share")
    if share is not None:
        left = np.ceil(share[: len(layout.counts)] * layout.counts - _ROUNDING)
        down |= layout.numbers >= left[layout.owners]
    for cut in () if faults is None else faults.cuts:
        down[_links(layout, cut.devices, cut.link)] = True
    if gone is not None:
        down |= gone[layout.owners]
    if not down.any():
        return None
    return ~(down | _of_other_ends(layout, down))


def _of_other_ends(layout: LinkLayout, flags: Mask) -> Mask:
    """Which links have a flag at their other end."""
    remotes = layout.remotes
    found: Mask = (remotes >= 0) & flags[remotes]
    return found


def _links(layout: LinkLayout, devices: Positions, link: int) -> Positions:
    """The links of that number of some devices that have one."""
    own = devices[devices < len(layout.counts)]
    return layout.firsts[own[layout.counts[own] > link]] + link


def _struck(history: LinkHistory, up: Mask | None, gone: Mask | None, faults: FaultTick | None) -> _Struck:
    """What is counted of links, at both ends of each; the devices are given theirs."""
    layout, nothing = history.layout, np.zeros(0, dtype=np.int64)
    if faults is None:
        return _Struck(nothing, nothing)
    errors = [nothing]
    for cut in faults.struck:
        own = cut.devices[cut.devices < len(layout.counts)]
        own = own[layout.counts[own] > max(cut.link, 0)]
        # Of all links of a board that fail at once the first one counts the error.
        errors.append(layout.firsts[own] + max(cut.link, 0))
        ends = errors[-1] if cut.link != ALL_LINKS else np.flatnonzero(np.isin(layout.owners, own) & _down(up, layout))
        others = layout.remotes[ends]
        seen = first_of_each(others[(others >= 0) & ~np.isin(layout.owners[others], own)], layout.owners)
        errors.append(seen)
        faults.add("link_errors", layout.owners[seen], 1.0)
        faults.put("xid", layout.owners[seen], _LINK_XID)
    back = ~_down(up, layout) & _down(history.up, layout)
    for lost in (history.gone, gone):
        if lost is not None:
            back &= ~(lost[layout.owners] | _of_other_ends(layout, lost[layout.owners]))
    recoveries = np.flatnonzero(back)
    owners, times = np.unique(layout.owners[recoveries], return_counts=True)
    if len(owners):
        faults.add_each("link_recoveries", owners, times.astype(np.float64))
    return _Struck(np.concatenate(errors), recoveries)


def _down(up: Mask | None, layout: LinkLayout) -> Mask:
    return np.zeros(layout.count, dtype=np.bool_) if up is None else ~up


