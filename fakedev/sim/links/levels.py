"""The levels of links, switch ports and switches: arrays that are computed on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import LazyArrays, Level
from fakedev.sim.links.history import CARRIED, COUNTED, RATES, LinkHistory
from fakedev.sim.links.layout import LinkLayout

#: Links as devices see them, the same links as switches see them, and switches, in the order of the layout.
LINK: Final = "link"
PORT: Final = "port"
SWITCH: Final = "switch"
#: Quantities of links that devices do not have.
_OWN: Final = ("link_up", "link_state", "link_number", "link_bytes_per_second_max")
#: Quantities of switches that links do not have.
_OF_SWITCHES: Final = ("links_up", "temperature_celsius")
#: Quantities that the other end of a link shows under another name.
_OTHER_WAY: Final = {
    RATES[0]: RATES[1], RATES[1]: RATES[0], CARRIED[0]: CARRIED[1], CARRIED[1]: CARRIED[0],
}  # fmt: skip
#: Quantities of these levels.
LINK_QUANTITIES: Final[Mapping[str, tuple[str, ...]]] = {
    LINK: (*RATES, *CARRIED, *COUNTED, *_OWN),
    PORT: (*RATES, *CARRIED, *COUNTED, *_OWN),
    SWITCH: (*RATES, *CARRIED, *COUNTED, *_OF_SWITCHES),
}
#: How much warmer a switch is than the inlet air of its boards: without traffic, and with full traffic.
_IDLE_RISE_CELSIUS: Final = 8.0
_FULL_RISE_CELSIUS: Final = 28.0
_AIR: Final = "inlet_temperature_celsius"
#: The air temperature if no board measures it.
_ROOM_CELSIUS: Final = 25.0


@dataclass(frozen=True)
class LinkLevel(Level):
    """The level of the links.

    :ivar history: the events that it shows.
    """

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
    links = LinkLevel(layout.count, LazyArrays(of_links, lambda name: _values(history, seen, name)), masks, history)
    # Faults of boards and their exporters leave switches and ports unimpaired.
    true: Mapping[str, Floats] = links.arrays
    if shown is not None:
        true = LazyArrays(of_links, lambda name: _values(history, devices, name))
    ports = Level(layout.count, LazyArrays(of_links, lambda name: true[_opposite(name)]), {})
    of_switches = dict.fromkeys((*names, *_OF_SWITCHES))
    arrays = LazyArrays(of_switches, lambda name: _switch_values(layout, true, devices, name))
    return {LINK: links, PORT: ports, SWITCH: Level(layout.switch_count, arrays, {})}


def _source(name: str) -> str:
    """The quantity of devices that a quantity of their links depends on."""
    return "links_up" if name in _OWN else name


def _values(history: LinkHistory, devices: Level, name: str) -> Floats:
    """A quantity of the links, shape (L,)."""
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
    return history.shown(name, devices.arrays[name])


def _opposite(name: str) -> str:
    """The quantity at the other end of a link, which receives what this end sends."""
    return _OTHER_WAY.get(name, name)


def _switch_values(layout: LinkLayout, links: Mapping[str, Floats], devices: Level, name: str) -> Floats:
    """A quantity of the switches, shape (S,): sums over their links, and the temperature.

    :param links: the quantities of the links.
    """
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
    carried = sum((summed(links[each]) for each in RATES if each in links), np.zeros(layout.switch_count))
    most = 2 * summed(layout.bytes_per_second)
    share = np.divide(carried, most, out=np.zeros_like(most), where=most > 0)
    warm: Floats = air + _IDLE_RISE_CELSIUS + share * (_FULL_RISE_CELSIUS - _IDLE_RISE_CELSIUS)
    return warm
