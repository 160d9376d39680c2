"""What is said of links, of the ports of switches and of switches, for their labels: fact names to texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fakedev.sim.entities.roster import Roster, RosterNode

Facts = Mapping[str, str]
#: What a link says of the device at its other end.
_OF_PEERS = ("index", "uuid", "pci_address", "device_file")


def link_facts(roster: Roster, node: RosterNode, devices: Sequence[Facts]) -> list[tuple[int, dict[str, str]]]:
    """Each link of a node, with the facts of its device and its own: ``link``, and where it leads.

    ``switch`` and ``port``, or ``peer_link`` and ``peer_index``, ``peer_uuid``, ... are those of its other end; none of
    a link that leads out of the node.

    :param devices: the facts of each device of the node, in order of index.
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
                own |= {f"peer_{name}": of_peer[name] for name in _OF_PEERS}
            if switch >= 0:
                own |= {"switch": str(switch - _switches(roster, node).start), "port": str(layout.ports[link])}
            found.append((link, {**facts, **own}))
    return found


def port_facts(roster: Roster, node: RosterNode, devices: Sequence[Facts]) -> list[tuple[int, dict[str, str]]]:
    """Each port of a node's switches that a link leads to, by switch and port, with the facts of that link."""
    to_switches = [each for each in link_facts(roster, node, devices) if "switch" in each[1]]
    return sorted(to_switches, key=lambda each: (int(each[1]["switch"]), int(each[1]["port"])))


def switch_facts(roster: Roster, node: RosterNode) -> list[tuple[int, dict[str, str]]]:
    """Each switch of a node."""
    said = {**node.pool.facts, **node.spec.facts, "node": node.name, "pool": node.pool.name}
    places = _switches(roster, node)
    return [(place, {**said, "switch": str(number)}) for number, place in enumerate(places)]


def _switches(roster: Roster, node: RosterNode) -> range:
    return roster.links.switches_of(node.first)
