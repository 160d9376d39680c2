"""Which links of a device are down, and where they lead, in words."""

from __future__ import annotations

from typing import Final

from fakedev.sim.links.history import LinkHistory
from fakedev.sim.roster import Roster

#: Links that are named; of more it is said how many there are.
_MOST_NAMED: Final = 4


def links_up_text(roster: Roster, history: LinkHistory, device: int) -> str:
    """How many links of a device are up, and which are not."""
    layout = roster.links
    own = layout.of(device)
    down = [link for link in own if history.up is not None and not history.up[link]]
    named = ", ".join(f"{link - own.start}{_end(roster, link)}" for link in down[:_MOST_NAMED])
    more = f" and {len(down) - _MOST_NAMED} more" if len(down) > _MOST_NAMED else ""
    text = f"{len(own) - len(down)} of {len(own)} links are up"
    return f"{text}; down: {named}{more}" if down else text


def _end(roster: Roster, link: int) -> str:
    layout = roster.links
    remote, switch = int(layout.remotes[link]), int(layout.switches[link])
    if remote >= 0:
        peer = int(layout.owners[remote])
        return f" (to {roster.unit_name(peer)}/link/{remote - int(layout.firsts[peer])})"
    if switch >= 0:
        node = roster.nodes[roster.node_position(int(layout.owners[link]))]
        return f" (to {node.name}/switch/{switch - layout.switches_of(node.first).start})"
    return ""
