"""What tiles of a board have of their own beyond engines and memory: clock, power, heat and errors.

The board stays the sum or the mean of its tiles: their power adds up to the board's, which is shared by what the work
on each draws; the board's temperature is their mean, and its clock that of its busiest tile; its errors are theirs. A
tile without work lets its clock fall while another works. Formulas are in doc/parts.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.devices.subset import Subset
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Level, Mask
from fakedev.sim.parts.layout import Parts
from fakedev.sim.workloads.demand import Demand
from fakedev.spec.part import PartSpec
from fakedev.spec.quantities import ERROR_COUNTERS

#: How much of a tile's way to the air is its own, and not shared with its neighbour: chosen.
_OWN_HEAT: Final = 0.5
_CLOCK: Final = "core_frequency_mhz"
_REQUEST: Final = "core_frequency_request_mhz"
_POWER: Final = "power_watts"
#: A tile that is lost alone goes on being as warm as it is, though it shows nothing.
HEATS: Final = ("temperature_celsius", "memory_temperature_celsius")
_HIGHEST: Final = "temperature_max_celsius"
_THROTTLES: Final = ("throttled_power", "throttled_thermal", "throttled_hardware")
#: Errors that happen on a tile; the others are the board's.
TILE_ERRORS: Final = tuple(
    name for name in ERROR_COUNTERS if name.startswith(("memory_errors_", "cache_errors_", "non_compute_errors_"))
)
#: All that tiles have of their own, and other parts from their devices.
OF_TILES: Final = (
    _CLOCK, _REQUEST, _POWER, "energy_joules", *HEATS, _HIGHEST, "throttled_idle", *_THROTTLES, *TILE_ERRORS,
)  # fmt: skip


def tiles_of(count: int, memory_bytes: float) -> tuple[PartSpec, ...]:
    """The tiles of a board: all alike.

    :param count: how many; a board of one has none.
    :param memory_bytes: of the board.
    """
    if count < 2:
        return ()
    return tuple(
        PartSpec(f"tile{number}", 1.0 / count, memory_bytes / count, True, {"tile": str(number)}, is_tile=True)
        for number in range(count)
    )


class Drawn(NamedTuple):
    """What the work on some parts of boards means to them: arrays of shape (B,).

    :ivar share: what it draws, as a share of what plain full load draws there.
    :ivar active: parts that have any.
    """

    share: Floats
    active: Mask


class Tiles:
    """The tiles among P parts; all arrays are of shape (P,), and of the other parts tell nothing.

    :param idle_watts: what the device of each part draws without work.
    :param places: where the parts of boards with dynamics stand among all.
    :param boards: the coefficients of the boards of these.
    """

    def __init__(self, parts: Parts, idle_watts: Floats, places: Subset, boards: Coefficients | None) -> None:
        self._parts = parts
        self._idle_watts = idle_watts
        self._places = places
        self._boards = boards
        self._siblings = parts.siblings
        self._numbers = np.arange(parts.count) - np.searchsorted(parts.owners, parts.owners)

    def own(
        self,
        load: Floats,
        drawn: Drawn | None,
        demand: Demand,
        devices: Level,
        before: tuple[Level, Level] | None,
        seconds: float,
    ) -> dict[str, Floats]:
        """What tiles have of their own in a tick; other parts have their devices' there.

        :param load: the load of each part, a share of 1.
        :param drawn: what it means where the board has dynamics, in their places.
        :param demand: what is asked of all units, errors among it.
        :param devices: what the devices show.
        :param before: what parts and devices showed a tick ago; None at the start.
        """
        of_devices = {name: devices.arrays[name][self._parts.owners] for name in OF_TILES if name in devices.arrays}
        past = None if before is None else before[0]
        active = load > 0
        share = load
        if drawn is not None:
            active = self._places.put(drawn.active.astype(np.float64), active.astype(np.float64)) > 0
            share = self._places.put(drawn.share, share)
        made = self._power(share, of_devices)
        made |= self._flags(active, of_devices)
        if self._boards is not None:
            made |= self._clocks(self._boards, active, of_devices, past, seconds)
            made |= self._heat(self._boards, made[_POWER], of_devices, before, seconds)
        made |= self._errors(demand, devices, past)
        is_tile = self._parts.is_tile
        return {name: np.where(is_tile, values, of_devices[name]) for name, values in made.items()}

    def _power(self, share: Floats, of_devices: Mapping[str, Floats]) -> dict[str, Floats]:
        """The board's power, shared by what the work on each draws; what it draws anyway, evenly."""
        if _POWER not in of_devices:
            return {}
        power, idle = of_devices[_POWER], self._idle_watts
        if self._boards is not None:
            idle = self._places.put(self._boards.idle_watts, idle)
        idle = np.minimum(idle, power)
        owners = self._parts.owners
        sums = np.bincount(owners, weights=share, minlength=self._parts.device_count)[owners]
        even = 1.0 / self._siblings
        part = np.where(sums > 0, share / np.where(sums > 0, sums, 1.0), even)
        return {_POWER: idle * even + (power - idle) * part}

    def _flags(self, active: Mask, of_devices: Mapping[str, Floats]) -> dict[str, Floats]:
        """What holds the clock of a tile: what holds the board's, while it has work."""
        made = {name: of_devices[name] * active for name in _THROTTLES if name in of_devices}
        if "throttled_idle" in of_devices:
            made["throttled_idle"] = (~active).astype(np.float64)
        return made

    def _clocks(
        self,
        boards: Coefficients,
        active: Mask,
        of_devices: Mapping[str, Floats],
        before: Level | None,
        seconds: float,
    ) -> dict[str, Floats]:
        """The board's clock with work; without, it falls to idle as that of a board does."""
        clock, request = of_devices[_CLOCK], of_devices[_REQUEST]
        resting = self._places.put(boards.resting_mhz, clock)
        if before is not None:
            fall = self._places.put(np.minimum(boards.fall_mhz * seconds, boards.high[_CLOCK]), clock)
            resting = np.maximum(resting, before.arrays[_CLOCK] - fall)
        own = np.where(active, clock, np.minimum(clock, resting))
        own = self._places.put(self._places.of({_CLOCK: own})[_CLOCK], clock)
        return {_CLOCK: own, _REQUEST: np.where(active, request, own)}

    def _heat(
        self,
        boards: Coefficients,
        power: Floats,
        of_devices: Mapping[str, Floats],
        before: tuple[Level, Level] | None,
        seconds: float,
    ) -> dict[str, Floats]:
        """Warmer than the board by what a tile draws more than the mean of all, with the lag of the board's heat."""
        made: dict[str, Floats] = {}
        more = self._places.of({_POWER: power * self._siblings - of_devices[_POWER]})[_POWER]
        for name in HEATS:
            if name not in of_devices:
                continue
            over = _OWN_HEAT * boards.resistance * boards.heat[name][1] * more
            if before is not None:
                tiles, devices = before
                was_over = tiles.arrays[name] - devices.arrays[name][self._parts.owners]
                over = over + (self._places.of({name: was_over})[name] - over) * boards.lags[name].kept(seconds)
            made[name] = of_devices[name] + self._places.put(over, np.zeros(self._parts.count))
        core = made[HEATS[0]]
        made[_HIGHEST] = core if before is None else np.maximum(core, before[0].arrays[HEATS[0]])
        return made

    def _errors(self, demand: Demand, devices: Level, before: Level | None) -> dict[str, Floats]:
        """Errors of the tile, and those of the board as a whole, which fall on its tiles in turn."""
        parts, made = self._parts, {}
        is_there = devices.arrays["lost"][parts.owners] == 0 if "lost" in devices.arrays else 1.0
        for name in TILE_ERRORS:
            if name not in devices.arrays:
                continue
            count = before.arrays[name] if before is not None else np.zeros(parts.count)
            if name in demand.asked:
                come = np.rint(np.maximum(demand.asked[name], 0.0))
                turn = np.mod(devices.arrays[name][parts.owners], self._siblings) == self._numbers
                count = count + (come[parts.device_count :] + come[parts.owners] * turn) * is_there
            made[name] = count
        return made
