"""The links in a tick: which are up, errors at both ends, and the remaining capacity of their devices."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fakedev.base.steps import Steps
from fakedev.fleet.entities.state import Level, Mask, Positions
from fakedev.fleet.faults.per_tick import FaultTick
from fakedev.fleet.links.link_layout import LinkLayout, remaining_links
from fakedev.fleet.links.link_levels import CARRIED, FETCHED, LinkHistory
from fakedev.fleet.spec.fault_kinds import ALL_LINKS
from fakedev.fleet.spec.xids import Xid


class _Counts(NamedTuple):
    """Links with errors and recoveries in a tick, each as often as it counts one."""

    errors: Positions
    recoveries: Positions


def advanced(
    history: LinkHistory, devices: Level, faults: FaultTick | None, *, has_moved: bool, falling: Mask | None = None
) -> Steps[LinkHistory]:
    """The history of the links after this tick; the same object if nothing happens.

    Errors at the other ends of links are added to the effects of the faults.

    :param devices: the level of the devices a tick ago.
    :param faults: effects on all units in this tick; None without faults.
    :param falling: devices that heat shuts down in this tick, shape (D,); None for none.
    :param has_moved: whether lasting faults affect other devices than a tick ago.
    """
    layout = history.layout
    if not layout.count:
        return history
    gone = _gone(devices, faults, len(layout.counts), falling)
    reset = None if faults is None else faults.of_devices().resets()
    may_change = has_moved and (history.up is not None or _touches_links(faults))
    if not may_change and reset is None and _same(gone, history.gone):
        return history
    yield
    up = _up(layout, faults, gone)
    counts = _counts(history, up, gone, faults)
    changed = np.flatnonzero(_down(up, layout) != _down(history.up, layout))
    happens_to = np.concatenate((changed, counts.errors, counts.recoveries))
    if not len(happens_to) and reset is None:
        return replace(history, gone=gone)
    concerned = np.zeros(len(layout.counts), dtype=np.bool_) if reset is None else reset.copy()
    concerned[layout.owners[happens_to]] = True
    concerned = layout.of_same_nodes(concerned)
    yield
    recounted = yield from history.recounted(devices.arrays, concerned)
    if reset is not None:
        for name in CARRIED:
            if name in recounted.counted:
                recounted.counted[name][layout.each(reset)[recounted.known_links]] = 0.0
                recounted.since[name][reset] = 0.0
        if FETCHED[1] in recounted.since:
            recounted.since[FETCHED[1]][reset] = 0.0
    happened = {"link_errors": counts.errors, "link_recoveries": counts.recoveries}
    for name, links in happened.items():
        if not len(links):
            continue
        np.add.at(recounted.counted[name], recounted.places(links), 1.0)
        np.add.at(recounted.since[name], layout.owners[links], 1.0)
    return replace(recounted, up=up if len(changed) else history.up, gone=gone, happened=happened)


def _touches_links(faults: FaultTick | None) -> bool:
    return faults is not None and bool(faults.cuts or faults.struck or faults.get("fabric_share") is not None)


def _gone(devices: Level, faults: FaultTick | None, count: int, falling: Mask | None) -> Mask | None:
    """The lost devices; None for none."""
    lost = devices.arrays.get("lost")
    by_fault = None if faults is None else faults.get("lost")
    gone = np.zeros(count, dtype=np.bool_) if falling is None else falling.copy()
    if lost is not None:
        gone |= lost > 0
    if by_fault is not None:
        gone |= by_fault[:count] > 0
    return gone if gone.any() else None


def _same(one: Mask | None, other: Mask | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def _up(layout: LinkLayout, faults: FaultTick | None, gone: Mask | None) -> Mask | None:
    """The links that are up; None for all. A fault or a lost board at either end takes a link down."""
    down = np.zeros(layout.count, dtype=np.bool_)
    share = None if faults is None else faults.get("fabric_share")
    if share is not None:
        left = remaining_links(share[: len(layout.counts)], layout.counts)
        down |= layout.numbers >= layout.each(left)
    for cut in () if faults is None else faults.cuts:
        down[_links(layout, cut.devices, cut.link)] = True
    if gone is not None:
        down |= layout.each(gone)
    if not down.any():
        return None
    return ~(down | _of_other_ends(layout, down))


def _of_other_ends(layout: LinkLayout, flags: Mask) -> Mask:
    """Links whose other end has a flag."""
    remotes = layout.remotes
    found: Mask = (remotes >= 0) & flags[remotes]
    return found


def _links(layout: LinkLayout, devices: Positions, link: int) -> Positions:
    """The links with a number of some devices, where these have that number."""
    own = devices[devices < len(layout.counts)]
    return layout.firsts[own[layout.counts[own] > link]] + link


def _counts(history: LinkHistory, up: Mask | None, gone: Mask | None, faults: FaultTick | None) -> _Counts:
    """Errors and recoveries at both ends of links; those of other devices are added to the faults."""
    layout, nothing = history.layout, np.zeros(0, dtype=np.int64)
    if faults is None:
        return _Counts(nothing, nothing)
    errors = [nothing]
    for cut in faults.struck:
        own = cut.devices[cut.devices < len(layout.counts)]
        own = own[layout.counts[own] > max(cut.link, 0)]
        # Where all links of a board fail at once, the first one counts the error.
        errors.append(layout.firsts[own] + max(cut.link, 0))
        is_own = np.zeros(len(layout.counts), dtype=np.bool_)
        is_own[own] = True
        ends = errors[-1] if cut.link != ALL_LINKS else np.flatnonzero(layout.each(is_own) & _down(up, layout))
        others = layout.remotes[ends]
        seen = _first_of_each(others[(others >= 0) & ~is_own[layout.owners[others]]], layout)
        errors.append(seen)
        faults.put("link_errors", layout.owners[seen], 1.0, np.add)
        faults.put("xid", layout.owners[seen], Xid.LINK)
    back = ~_down(up, layout) & _down(history.up, layout)
    for lost in (history.gone, gone):
        if lost is not None:
            back &= ~(layout.each(lost) | _of_other_ends(layout, layout.each(lost)))
    recoveries = np.flatnonzero(back)
    if len(recoveries):
        times = np.bincount(layout.owners[recoveries])
        owners = np.flatnonzero(times)
        faults.put("link_recoveries", owners, times[owners].astype(np.float64), np.add)
    return _Counts(np.concatenate(errors), recoveries)


def _down(up: Mask | None, layout: LinkLayout) -> Mask:
    return np.zeros(layout.count, dtype=np.bool_) if up is None else ~up


def _first_of_each(links: Positions, layout: LinkLayout) -> Positions:
    """The first of some links for each device, ascending."""
    is_one = np.zeros(layout.count, dtype=np.bool_)
    is_one[links] = True
    ordered = np.flatnonzero(is_one)
    found: Positions = ordered[np.flatnonzero(np.diff(layout.owners[ordered], prepend=-1))]
    return found
