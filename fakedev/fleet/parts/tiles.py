"""The tiles' own quantities beyond engines and memory: clock, power, heat and errors.

The board stays the sum or the mean of its tiles: the power of tiles, in proportion to their work, adds up to the
board's; the board's temperature is their mean, its clock that of its busiest tile, and its errors are theirs. The
clock of a tile without work falls while another tile works. Formulas are in doc/topology.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from fakedev.fleet.boards.arrays import Subset
from fakedev.fleet.boards.coefficients import Coefficients
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Level, Mask
from fakedev.fleet.parts.part_layout import Parts
from fakedev.fleet.spec.device_types import PartSpec
from fakedev.fleet.spec.quantities import ERROR_COUNTERS
from fakedev.fleet.workloads.demand import Demand

#: Share of a tile's thermal resistance that it does not share with its neighbour: chosen.
_OWN_HEAT: Final = 0.5
_CLOCK: Final = "core_frequency_mhz"
_MEAN: Final = "core_frequency_mean_mhz"
_REQUEST: Final = "core_frequency_request_mhz"
_POWER: Final = "power_watts"
#: Temperatures: a tile that is lost without its board keeps them, though it shows nothing.
HEATS: Final = ("temperature_celsius", "memory_temperature_celsius")
_HIGHEST: Final = "temperature_max_celsius"
_THROTTLES: Final = ("throttled_power", "throttled_thermal", "throttled_hardware")
#: Errors of single tiles; the others are the board's.
TILE_ERRORS: Final = tuple(
    name for name in ERROR_COUNTERS if name.startswith(("memory_errors_", "cache_errors_", "non_compute_errors_"))
)
#: Quantities of tiles that other parts show from their devices.
TILE_QUANTITIES: Final = (
    _CLOCK, _MEAN, _REQUEST, _POWER, "energy_joules", *HEATS, _HIGHEST, "throttled_idle", *_THROTTLES, *TILE_ERRORS,
)  # fmt: skip


def tiles_of(count: int, memory_bytes: float) -> tuple[PartSpec, ...]:
    """The tiles of a board, which are all alike.

    :param count: how many; a board of one piece has none.
    :param memory_bytes: of the board.
    """
    if count < 2:
        return ()
    return tuple(
        PartSpec(f"tile{number}", 1.0 / count, memory_bytes / count, True, {"tile": str(number)}, is_tile=True)
        for number in range(count)
    )


class Drawn(NamedTuple):
    """The power that the work on some parts draws: arrays of shape (B,).

    :ivar share: as a share of what a plain full load draws.
    :ivar active: parts with work.
    :ivar awake: these, and those on which a process holds a context.
    """

    share: Floats
    active: Mask
    awake: Mask


class Tiles:
    """The tiles among P parts; arrays have shape (P,) and are meaningless for other parts.

    :param idle_watts: the idle power of the device of each part.
    :param subset: the parts of boards with dynamics.
    """

    def __init__(self, parts: Parts, idle_watts: Floats, subset: Subset, boards: Coefficients | None) -> None:
        self._parts = parts
        self._idle_watts = idle_watts
        self._subset = subset
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
        """The tiles' own quantities in a tick; on other parts those of their devices.

        :param load: the load of each part, 0 to 1.
        :param drawn: the power of the load on parts of boards with dynamics.
        :param demand: on all units, with errors.
        :param before: the levels of parts and devices a tick ago; None at the start.
        """
        whole = devices.arrays
        of_devices = {name: whole[name][self._parts.owners] for name in TILE_QUANTITIES if name in whole}
        past = None if before is None else before[0]
        active = awake = load > 0
        share = load
        if drawn is not None:
            others = active.astype(np.float64)
            active = self._subset.put(drawn.active.astype(np.float64), others) > 0
            awake = self._subset.put(drawn.awake.astype(np.float64), others) > 0
            share = self._subset.put(drawn.share, share)
        made = self._power(share, of_devices)
        made |= self._flags(active, of_devices)
        if self._boards is not None:
            made |= self._clocks(self._boards, awake, of_devices, past, seconds)
            made |= self._heat(self._boards, made[_POWER], of_devices, before, seconds)
        made |= self._errors(demand, devices, past)
        is_tile = self._parts.is_tile
        return {name: np.where(is_tile, values, of_devices[name]) for name, values in made.items()}

    def _power(self, share: Floats, of_devices: Mapping[str, Floats]) -> dict[str, Floats]:
        """The board's idle power in equal shares, and the rest in proportion to the work on each tile."""
        if _POWER not in of_devices:
            return {}
        power, idle = of_devices[_POWER], self._idle_watts
        if self._boards is not None:
            idle = self._subset.put(self._boards.idle_watts, idle)
        idle = np.minimum(idle, power)
        owners = self._parts.owners
        sums = np.bincount(owners, weights=share, minlength=self._parts.device_count)[owners]
        even = 1.0 / self._siblings
        part = np.where(sums > 0, share / np.where(sums > 0, sums, 1.0), even)
        return {_POWER: idle * even + (power - idle) * part}

    def _flags(self, active: Mask, of_devices: Mapping[str, Floats]) -> dict[str, Floats]:
        """What throttles a tile: what throttles the board, while the tile has work."""
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
        """The board's clock with work; without work it falls to idle like the clock of a board."""
        shown_by_boards = {name: of_devices[name] for name in (_CLOCK, _MEAN)}
        of_boards = self._subset.of({**shown_by_boards, "active": active.astype(np.float64)})
        resting = boards.resting_mhz
        if before is not None:
            fallen = self._subset.of(before.arrays)[_MEAN] - np.minimum(boards.fall_mhz * seconds, boards.high[_CLOCK])
            resting = np.maximum(resting, fallen)
        is_active = of_boards["active"] > 0
        mean = np.where(is_active, of_boards[_MEAN], np.minimum(of_boards[_MEAN], resting))
        own = np.where(is_active, of_boards[_CLOCK], boards.supported_mhz(mean))
        shown = self._subset.put(own, of_devices[_CLOCK])
        made = {_CLOCK: shown, _MEAN: self._subset.put(mean, of_devices[_MEAN])}
        return made | {_REQUEST: np.where(active, of_devices[_REQUEST], shown)}

    def _heat(
        self,
        boards: Coefficients,
        power: Floats,
        of_devices: Mapping[str, Floats],
        before: tuple[Level, Level] | None,
        seconds: float,
    ) -> dict[str, Floats]:
        """The board's temperature, plus a rise for power above the mean of the tiles, with the lag of the board."""
        made: dict[str, Floats] = {}
        more = self._subset.of({_POWER: power * self._siblings - of_devices[_POWER]})[_POWER]
        for name in HEATS:
            if name not in of_devices:
                continue
            over = _OWN_HEAT * boards.resistance * boards.heat[name][1] * more
            if before is not None:
                tiles, devices = before
                was_over = tiles.arrays[name] - devices.arrays[name][self._parts.owners]
                over = over + (self._subset.of({name: was_over})[name] - over) * boards.lags[name].kept(seconds)
            made[name] = of_devices[name] + self._subset.put(over, np.zeros(self._parts.count))
        core = made[HEATS[0]]
        made[_HIGHEST] = core if before is None else np.maximum(core, before[0].arrays[HEATS[0]])
        return made

    def _errors(self, demand: Demand, devices: Level, before: Level | None) -> dict[str, Floats]:
        """Errors of the tile, and those of the whole board, which its tiles count in turn."""
        parts, made = self._parts, {}
        is_there = devices.arrays["lost"][parts.owners] == 0 if "lost" in devices.arrays else 1.0
        for name in TILE_ERRORS:
            if name not in devices.arrays:
                continue
            count = before.arrays[name] if before is not None else np.zeros(parts.count)
            if name in demand.asked:
                new = np.rint(np.maximum(demand.asked[name], 0.0))
                turn = np.mod(devices.arrays[name][parts.owners], self._siblings) == self._numbers
                count = count + (new[parts.device_count :] + new[parts.owners] * turn) * is_there
            made[name] = count
        return made
