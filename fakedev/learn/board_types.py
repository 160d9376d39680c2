"""Fits a device type to the boards of a fleet: idle power, and the rise in temperature per watt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import yaml

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.learn.tracks import MEMORY, POWER, TEMPERATURE, USAGE, Owner, Track
from fakedev.learn.usage_fit import joined

#: What is nearer to the catalog's value than this share of it is the catalog's: boards of a type differ by 2 %.
_NEAR: Final = 0.05
#: Samples that say something of all boards of a type.
_LEAST_SAMPLES: Final = 100
#: An idle board uses a smaller share of its memory.
_NO_MEMORY: Final = 0.01
#: Power counts as steady while three samples in a row differ by less than this share of its range; temperatures of such
#: times are compared with it, where its standard deviation is at least the second share of the range.
_STEADY: Final = 0.03
_LEAST_DEVIATION: Final = 0.1
#: An idle board draws less than this share of a busy one's power.
_MOST_IDLE: Final = 0.8


def fitted_ranges(
    board: DeviceType, tracks: Iterable[Track], temperatures: Mapping[tuple[str, str], tuple[Floats, Floats]]
) -> dict[str, tuple[float, float]]:
    """The ends of the ranges of power and temperature that differ from the type's, by quantity.

    :param tracks: of boards of this type.
    :param temperatures: of boards: times in seconds since 1970 and degrees Celsius, shape (N,).
    """
    span = board.ranges.get(POWER)
    if span is None or span.high <= span.low or board.dynamics is None:
        return {}
    of_board: dict[tuple[str, str], list[Track]] = defaultdict(list)
    for track in tracks:
        if POWER in track.numbers and len(track.seconds):
            of_board[track.device].append(track)
    every = [track for own in of_board.values() for track in own]
    idle = joined([track.numbers[POWER][_is_idle(track, board)] for track in every])
    low = _unless_near(float(np.median(idle)), span.low) if len(idle) >= _LEAST_SAMPLES else span.low
    low = min(low, _MOST_IDLE * span.high)
    found = {POWER: (low, span.high)} if low != span.low else {}
    heat = board.ranges.get(TEMPERATURE)
    if heat is not None:
        usual = (heat.high - heat.low) / (span.high - span.low)
        by_watt = _unless_near(_slope(of_board, temperatures, span.high - span.low) or usual, usual)
        hottest = round(heat.low + by_watt * (span.high - low), 1)
        found |= {TEMPERATURE: (heat.low, hottest)} if found or by_watt != usual else {}
    return found


def own_type(text: str, name: str, ranges: Mapping[str, tuple[float, float]]) -> str:
    """The file of a device type with other ends of its ranges.

    :param text: of the file of the type that it is based on, in YAML.
    :param name: of the new type.
    """
    tree: dict[str, Any] = yaml.safe_load(text)
    tree.pop("aliases", None)
    tree["name"] = name
    dynamics, (low, high) = tree["dynamics"], tree["ranges"][POWER]
    tree["ranges"] |= {quantity: [round(end, 1) for end in ends] for quantity, ends in ranges.items()}
    if "clocked-power-share" in dynamics:  # raised clocks draw as much as before
        span = tree["ranges"][POWER][1] - tree["ranges"][POWER][0]
        dynamics["clocked-power-share"] = round(dynamics["clocked-power-share"] * (high - low) / span, 4)
    sources = tree.get("sources")
    tree["sources"] = (sources if isinstance(sources, dict) else {}) | dict.fromkeys(ranges, "fitted to a history")
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=118)


def _unless_near(found: float, usual: float) -> float:
    return round(found, 6) if abs(found - usual) > _NEAR * usual else usual


def _is_idle(track: Track, board: DeviceType) -> Any:
    """Samples at which nobody has the board: no context, so that the clocks are low."""
    held = track.numbers.get(MEMORY, np.zeros(1)) > _NO_MEMORY * board.memory_total_bytes
    return (track.numbers[USAGE] == 0) & ~held & (track.owner == Owner())


def _slope(
    of_board: Mapping[tuple[str, str], Sequence[Track]], temperatures: Mapping[tuple[str, str], tuple[Floats, Floats]],
    span: float,
) -> float | None:  # fmt: skip
    """Degrees per watt, from times of steady power; None where there are too few, or the power hardly changes.

    Boards differ in their air, so that only what moves on each of them counts.
    """
    heats, powers = [], []
    for device, own in of_board.items():
        if device not in temperatures:
            continue
        times, celsius = temperatures[device]
        seconds = joined([track.seconds for track in own])
        order = np.argsort(seconds, kind="stable")
        watts = joined([track.numbers[POWER] for track in own])[order]
        last = np.searchsorted(seconds[order], times, "right") - 1
        known = last >= 2
        before = np.stack([watts[last[known] - number] for number in range(3)])
        steady = np.ptp(before, axis=0) < _STEADY * span
        if steady.any():
            heat, power = celsius[known][steady], before.mean(axis=0)[steady]
            heats.append(heat - heat.mean())
            powers.append(power - power.mean())
    heat, power = joined(heats), joined(powers)
    if len(power) < _LEAST_SAMPLES or float(power.std()) < _LEAST_DEVIATION * span:
        return None
    return max(float((heat * power).sum() / (power**2).sum()), 0.0)
