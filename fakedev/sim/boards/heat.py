"""Temperatures of boards, which follow the power, and fans, which follow the temperature: each with a lag."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.boards.outside import Outside
from fakedev.sim.randomness import Floats


def temperature(
    boards: Coefficients,
    name: str,
    power: Floats,
    before: Mapping[str, Floats] | None,
    seconds: float,
    outside: Outside,
) -> Floats:
    """The temperature of core or memory.

    It goes to a level over that of the inlet, in a straight line from the power.
    """
    slope = boards.span[name] / boards.span["power_watts"]
    rise = boards.low[name] - boards.type_inlet + slope * (power - boards.low["power_watts"])
    return _followed(boards, name, outside.inlet + outside.resistance * rise, before, seconds)


def fan_speed(
    boards: Coefficients, core: Floats, before: Mapping[str, Floats] | None, seconds: float, outside: Outside
) -> Floats:
    """The speed of the fan: it goes from its lowest to its highest as the core temperature does, unless it stands."""
    name = "fan_speed_ratio"
    warmth = (core - boards.low["temperature_celsius"]) / boards.span["temperature_celsius"]
    wanted = np.minimum(boards.between(name, np.clip(warmth, 0.0, None)), 1.0)
    return _followed(boards, name, wanted * outside.fan_turns, before, seconds)


def lost(boards: Coefficients, before: Mapping[str, Floats] | None) -> Floats:
    """1 for the boards that are gone, once the tick before was too hot: they do not come back by themselves."""
    if before is None:
        return np.zeros(boards.count)
    gone: Floats = np.maximum(before["lost"], before["temperature_celsius"] >= boards.shutdown)
    return gone


def _followed(
    boards: Coefficients, name: str, level: Floats, before: Mapping[str, Floats] | None, seconds: float
) -> Floats:
    """A lag of the first order."""
    if before is None or name not in before:
        return level
    lagged: Floats = level + (before[name] - level) * boards.lags[name].kept(seconds)
    return lagged
