"""Facts of links, switch ports and switches for their labels; and links that are down, with the faults behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fakedev.fleet.entities.naming import rack_name
from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.state import Level
from fakedev.fleet.faults.faults import Faults
from fakedev.fleet.faults.rules import Fault
from fakedev.fleet.links.link_layout import remaining_links
from fakedev.fleet.links.link_levels import LinkHistory
from fakedev.fleet.spec.fault_kinds import ALL_LINKS
from fakedev.fleet.spec.nvlink_errors import LINK_DOWN
from fakedev.fleet.spec.rack_spec import SWITCHES_OF_TRAY
from fakedev.fleet.spec.xids import Xid

Facts = Mapping[str, str]
#: Facts of the device at the other end of a link.
_PEER_FACTS: Final = ("index", "uuid", "pci_address", "device_file")
#: How many links a text names.
_MAX_NAMED: Final = 4


def link_facts(roster: Roster, node: RosterNode, devices: Sequence[Facts]) -> list[tuple[int, dict[str, str]]]:
    """Each link of a node with the facts of its device, ``link``, and the facts of its other end.

    Those are ``switch`` and ``port``, or ``peer_link``, ``peer_index``, ``peer_uuid``, ...; none for a link that leaves
    the node.

    :param devices: the facts of each device of the node, by index.
    """
    layout, found = roster.links, []
    for device, facts in zip(node.devices, devices, strict=True):
        for link in layout.of(device):
            own = {"link": str(link - int(layout.firsts[device]))}
            remote, switch = int(layout.remotes[link]), int(layout.switches[link])
            if remote >= 0:
                peer = int(layout.owners[remote])
                own["peer_link"] = str(remote - int(layout.firsts[peer]))
                of_peer = devices[peer - node.first]
                own |= {f"peer_{name}": of_peer[name] for name in _PEER_FACTS}
            if switch >= 0:
                own |= {"switch": str(switch - layout.switches_of(node.first).start), "port": str(layout.ports[link])}
            found.append((link, {**facts, **own}))
    return found


def port_facts(roster: Roster, node: RosterNode, devices: Sequence[Facts]) -> list[tuple[int, dict[str, str]]]:
    """Each connected port of a node's switches, by switch and port, with the facts of its link.

    None in a rack, whose switches no node sees.
    """
    if node.pool.racks is not None:
        return []
    to_switches = [link_fact for link_fact in link_facts(roster, node, devices) if "switch" in link_fact[1]]
    return sorted(to_switches, key=lambda each: (int(each[1]["switch"]), int(each[1]["port"])))


def switch_facts(roster: Roster, node: RosterNode) -> list[tuple[int, dict[str, str]]]:
    """Each switch of a node with its facts; none in a rack, whose switches no node sees."""
    if node.pool.racks is not None:
        return []
    facts = {**node.pool.facts, **node.spec.facts, "node": node.name, "pool": node.pool.name}
    places = roster.links.switches_of(node.first)
    return [(place, {**facts, "switch": str(number)}) for number, place in enumerate(places)]


def links_up_text(roster: Roster, history: LinkHistory, device: int) -> str:
    """How many links of a device are up, and which are down."""
    own, down = roster.links.of(device), links_down(history, device)
    ends = [(link - own.start, other_end(roster, link)) for link in down[:_MAX_NAMED]]
    named = ", ".join(f"{number} (to {end})" if end else f"{number}" for number, end in ends)
    more = f" and {len(down) - _MAX_NAMED} more" if len(down) > _MAX_NAMED else ""
    text = f"{len(own) - len(down)} of {len(own)} links are up"
    return f"{text}; down: {named}{more}" if down else text


def links_down(history: LinkHistory, device: int) -> list[int]:
    """The links of a device that are down, as positions in the layout."""
    return [link for link in history.layout.of(device) if history.up is not None and not history.up[link]]


def other_end(roster: Roster, link: int) -> str:
    """The name of the link or switch at the other end of a link; empty if that is not simulated."""
    layout = roster.links
    remote, switch = int(layout.remotes[link]), int(layout.switches[link])
    if remote >= 0:
        peer = int(layout.owners[remote])
        return f"{roster.unit_name(peer)}/link/{remote - int(layout.firsts[peer])}"
    if switch >= 0:
        node = roster.nodes[roster.node_position(int(layout.owners[link]))]
        number = switch - layout.switches_of(int(layout.owners[link])).start
        if node.pool.racks is not None:
            return f"{rack_name(node.pool, node.spec)}/switch/{number}"
        return f"{node.name}/switch/{number}"
    return ""


def faults_of_link(roster: Roster, faults: Faults, history: LinkHistory, units: Level, link: int) -> list[Fault]:
    """The faults at either end of a link that take it down, or did so until the last tick.

    :param units: the level of all units.
    """
    layout = roster.links
    found: dict[str, Fault] = {}
    for end in (link, int(layout.remotes[link])):
        if end < 0:
            continue
        device = int(layout.owners[end])
        number, count = end - int(layout.firsts[device]), int(layout.counts[device])
        is_gone = history.gone is not None and history.gone[device]
        behind = [fault for fault in faults.behind("links_up", device, units) if _takes(fault, number, count)]
        if is_gone:
            behind += faults.behind("lost", device, units)
        found.update((fault.fault_id, fault) for fault in behind)
    return list(found.values())


def _takes(fault: Fault, number: int, count: int) -> bool:
    """Whether a fault takes down a link, by its number and the number of links of its device."""
    if fault.kind.name == "switch-tray":
        return number // SWITCHES_OF_TRAY == int(fault.values["tray"])
    if fault.kind.name == "cable":
        return number == int(fault.values["link"])
    if fault.values.get("code") == Xid.NETIR:
        return int(fault.values["subcode"]) in (0, LINK_DOWN) and number == max(0, int(fault.values["link"]))
    if fault.kind.name != "link-down" and fault.values.get("code") != Xid.LINK:
        return False
    link = int(fault.values.get("link", ALL_LINKS))
    remaining = remaining_links(np.array(fault.values.get("share", 0.0)), np.array(count))
    return number == link or (link == ALL_LINKS and number >= float(remaining))
