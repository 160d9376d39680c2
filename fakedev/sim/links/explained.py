"""Which links of a device are down, where they lead, and what has taken them down."""

from __future__ import annotations

import math
from typing import Final

from fakedev.sim.entities.roster import Roster
from fakedev.sim.faults.causes import faults_behind
from fakedev.sim.faults.fault import Fault
from fakedev.sim.faults.faults import Faults
from fakedev.sim.faults.tick import ALL_LINKS
from fakedev.sim.links.history import LinkHistory

#: Links that are named; of more it is said how many there are.
_MOST_NAMED: Final = 4
#: Products of shares and numbers of links miss a whole number by less than this.
_ROUNDING: Final = 1e-9
#: The code that NVIDIA's driver reports for an error of links.
_LINK_XID: Final = 74


def links_up_text(roster: Roster, history: LinkHistory, device: int) -> str:
    """How many links of a device are up, and which are not."""
    own, down = roster.links.of(device), links_down(history, device)
    named = ", ".join(f"{link - own.start}{_end(roster, link)}" for link in down[:_MOST_NAMED])
    more = f" and {len(down) - _MOST_NAMED} more" if len(down) > _MOST_NAMED else ""
    text = f"{len(own) - len(down)} of {len(own)} links are up"
    return f"{text}; down: {named}{more}" if down else text


def links_down(history: LinkHistory, device: int) -> list[int]:
    """The links of a device that are down, by their places in the layout."""
    return [link for link in history.layout.of(device) if history.up is not None and not history.up[link]]


def other_end(roster: Roster, link: int) -> str:
    """The name of what a link leads to; empty for what is not simulated."""
    layout = roster.links
    remote, switch = int(layout.remotes[link]), int(layout.switches[link])
    if remote >= 0:
        peer = int(layout.owners[remote])
        return f"{roster.unit_name(peer)}/link/{remote - int(layout.firsts[peer])}"
    if switch >= 0:
        node = roster.nodes[roster.node_position(int(layout.owners[link]))]
        return f"{node.name}/switch/{switch - layout.switches_of(node.first).start}"
    return ""


def faults_of_link(roster: Roster, faults: Faults, history: LinkHistory, link: int) -> list[Fault]:
    """The faults at both ends of a link that have taken it down, or did so until the last tick."""
    layout = roster.links
    found: dict[str, Fault] = {}
    for end in (link, int(layout.remotes[link])):
        if end < 0:
            continue
        device = int(layout.owners[end])
        number, count = end - int(layout.firsts[device]), int(layout.counts[device])
        is_gone = history.gone is not None and history.gone[device]
        behind = [each for each in faults_behind(faults, "links_up", device) if _takes(each, number, count)]
        if is_gone:
            behind += faults_behind(faults, "lost", device)
        found.update((each.fault_id, each) for each in behind)
    return list(found.values())


def _takes(fault: Fault, number: int, count: int) -> bool:
    """Whether a fault takes down the link of a number, of as many as its device has."""
    if fault.kind.name != "link-down" and fault.values.get("code") != _LINK_XID:
        return False
    link = int(fault.values.get("link", ALL_LINKS))
    left = math.ceil(fault.values.get("share", 0.0) * count - _ROUNDING)
    return number == link or (link == ALL_LINKS and number >= left)


def _end(roster: Roster, link: int) -> str:
    name = other_end(roster, link)
    return f" (to {name})" if name else ""
