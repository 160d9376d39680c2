"""The levels of links, switch ports and switches: arrays that are computed on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import LazyArrays, Level, Mask
from fakedev.sim.links.history import CARRIED, COUNTED, RATES, LinkHistory
from fakedev.sim.links.layout import LinkLayout

Array = TypeVar("Array")

#: Links as devices see them, the same links as switches see them, and switches, in the order of the layout.
LINK: Final = "link"
PORT: Final = "port"
SWITCH: Final = "switch"
#: Quantities of links that devices do not have.
_OWN: Final = ("link_up", "link_state", "link_number", "link_bytes_per_second_max")
_OTHER_WAY: Final = {
    RATES[0]: RATES[1], RATES[1]: RATES[0], CARRIED[0]: CARRIED[1], CARRIED[1]: CARRIED[0],
}  # fmt: skip
#: Quantities of these levels.
LINK_QUANTITIES: Final[Mapping[str, tuple[str, ...]]] = {
    LINK: (*RATES, *CARRIED, *COUNTED, *_OWN),
    PORT: (*RATES, *CARRIED, *COUNTED, *_OWN),
    SWITCH: (*RATES, *CARRIED, *COUNTED, "links_up", "temperature_celsius"),
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
    names = [name for name in (*RATES, *CARRIED, *COUNTED) if name in devices.arrays]
    makers = {name: _of_devices(history, name, seen) for name in names} | _own(history)
    masks = _lazy({
        name: _present(history, "links_up" if name in _OWN else name, seen)
        for name in (*names, *_OWN) if ("links_up" if name in _OWN else name) in seen.present
    })  # fmt: skip
    links = LinkLevel(history.layout.count, _lazy(makers), masks, history)
    true: Mapping[str, Floats] = links.arrays
    if shown is not None:
        true = _lazy({name: _of_devices(history, name, devices) for name in names} | _own(history))
    # Faults of boards and their exporters leave switches and ports unimpaired.
    ports = Level(links.count, _lazy({name: _item(true, _opposite(name)) for name in makers}), {})
    return {LINK: links, PORT: ports, SWITCH: _switches(history.layout, true, devices, names)}


def _lazy(makers: Mapping[str, Callable[[], Array]]) -> LazyArrays[Array]:
    """Arrays that functions compute on demand."""
    return LazyArrays(makers, lambda name: makers[name]())


def _own(history: LinkHistory) -> dict[str, Callable[[], Floats]]:
    layout = history.layout
    return {
        "link_up": lambda: np.ones(layout.count) if history.up is None else history.up.astype(np.float64),
        "link_state": history.states,
        "link_number": lambda: layout.numbers.astype(np.float64),
        "link_bytes_per_second_max": lambda: layout.bytes_per_second,
    }


def _of_devices(history: LinkHistory, name: str, devices: Level) -> Callable[[], Floats]:
    return lambda: history.shown(name, devices.arrays[name])


def _present(history: LinkHistory, name: str, devices: Level) -> Callable[[], Mask]:
    return lambda: devices.present[name][history.layout.owners]


def _item(arrays: Mapping[str, Floats], name: str) -> Callable[[], Floats]:
    return lambda: arrays[name]


def _opposite(name: str) -> str:
    """The quantity at the other end of a link, which receives what this end sends."""
    return _OTHER_WAY.get(name, name)


def _switches(layout: LinkLayout, links: Mapping[str, Floats], devices: Level, names: Sequence[str]) -> Level:
    """The switches, which show sums over their links.

    :param links: the quantities of the links.
    :param names: quantities that the links have from their devices.
    """

    def summed(values: Floats) -> Floats:
        chosen = layout.switches >= 0
        where = layout.switches[chosen]
        return np.bincount(where, weights=values[chosen], minlength=layout.switch_count).astype(np.float64)

    def total(name: str) -> Callable[[], Floats]:
        return lambda: summed(links[_opposite(name)])

    def temperature() -> Floats:
        air = np.full(layout.switch_count, _ROOM_CELSIUS)
        if _AIR in devices.arrays:
            # The warmest inlet of its boards; lost boards show none.
            chosen = layout.switches >= 0
            known = np.zeros(layout.switch_count)
            np.maximum.at(known, layout.switches[chosen], devices.arrays[_AIR][layout.owners[chosen]])
            air = np.where(known > 0, known, air)
        carried = sum((summed(links[name]) for name in RATES if name in links), np.zeros(layout.switch_count))
        most = 2 * summed(layout.bytes_per_second)
        share = np.divide(carried, most, out=np.zeros_like(most), where=most > 0)
        warm: Floats = air + _IDLE_RISE_CELSIUS + share * (_FULL_RISE_CELSIUS - _IDLE_RISE_CELSIUS)
        return warm

    arrays = {name: total(name) for name in names}
    arrays |= {"links_up": total("link_up"), "temperature_celsius": temperature}
    return Level(layout.switch_count, _lazy(arrays), {})
