"""What is always so of the links between devices, as operations on arrays: what one end sends the other receives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Level, Mask
from fakedev.fleet.links.link_layout import LinkLayout
from fakedev.fleet.links.link_levels import CARRIED, COUNTED, RATES
from tests.support.rules import Broken, broken

#: Rounding of sums of rates and of bytes: as a share, and in bytes.
_SHARE, _BYTES = 1e-9, 1.0
#: Rounding of differences of counters, as a share of the largest.
_ROUNDING = 1e-12


def alike(one: Floats, other: Floats) -> Mask:
    """Whether amounts are equal but for the rounding of sums."""
    return np.isclose(one, other, rtol=_SHARE, atol=_BYTES)


def of_links(layout: LinkLayout, levels: Mapping[str, Level]) -> Iterator[Broken]:
    """What holds of links in each tick: the entities are links, devices or switches."""
    if not layout.count:
        return
    links, devices = levels["link"].arrays, levels["device"].arrays
    owners, ends, count = layout.owners, layout.remotes, len(layout.counts)
    lost = devices["lost"] > 0 if "lost" in devices else np.zeros(count, np.bool_)
    has = layout.counts > 0
    for name in (*RATES, *CARRIED, *COUNTED):
        if name in devices:
            together = np.bincount(owners, links[name], count)
            # What a link has received is a difference of what other devices count: their rounding is in it.
            rounding = _ROUNDING * float(devices[name].max(initial=0.0))
            differs = ~alike(together, devices[name]) & (np.abs(together - devices[name]) > rounding)
            yield from broken(f"the links of a device add up to its {name}", has & differs)
            yield from broken(f"{name} of a link is not below 0", links[name] < 0)
    down = links["link_up"] == 0
    yield from broken("both ends of a link are down", (ends >= 0) & (down != down[ends]))
    for name in RATES:
        yield from broken("a link that is down carries nothing", down & (links[name] != 0))
        most = links["link_bytes_per_second_max"]
        over = (most > 0) & (links[name] > most * (1 + _SHARE) + _BYTES)
        yield from broken("a link carries no more than it can", over)
        if layout.isolated is not None:
            unusable = layout.isolated[owners] & (links[name] != 0)
            yield from broken("a link that nothing may use carries nothing", unusable)
    # What a board sends to another one that heat shuts down in this tick does not arrive.
    both = (ends >= 0) & layout.meshed[owners] & ~lost[owners] & ~lost[owners[ends]]
    yield from broken("what one end sends the other receives", both & ~alike(links[RATES[0]], links[RATES[1]][ends]))
    nodes = layout.nodes
    sent, received = (np.bincount(nodes, np.where(layout.switched, devices[name], 0.0)) for name in RATES)
    yield from broken("a node receives what it sends over switches", ~alike(sent, received))
    switches = levels["switch"].arrays
    some = layout.switches >= 0
    exchanging = layout.switched[owners[some][np.unique(layout.switches[some], return_index=True)[1]]]
    passed = alike(switches[RATES[0]], switches[RATES[1]])
    yield from broken("a switch sends what it receives", exchanging & ~passed)


def of_link_steps(
    layout: LinkLayout, before: Mapping[str, Level], after: Mapping[str, Level], seconds: float
) -> Iterator[Broken]:
    """What holds of links from one tick to the next, without a reload between them."""
    if not layout.count:
        return
    was, now, devices = before["link"].arrays, after["link"].arrays, after["device"].arrays
    reset = (devices["created_seconds"] != before["device"].arrays["created_seconds"])[layout.owners]
    for name in COUNTED:
        yield from broken(f"{name} of a link never falls", now[name] < was[name])
    for name, rate in zip(CARRIED, RATES, strict=True):
        grown = now[name] - np.where(reset, 0.0, was[name])
        # Bytes of weeks have more digits than a float: the rounding is that of the counter.
        exact = np.isclose(grown, now[rate] * seconds, rtol=1e-6, atol=1.0 + 1e-9 * float(now[name].max()))
        yield from broken(f"{name} of a link is the integral", ~exact)
