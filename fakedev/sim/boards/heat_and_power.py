"""Temperatures of boards, which follow the power, and fans, which follow the temperature: each with a lag."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.boards.settings import Setting
from fakedev.sim.entities.randomness import Floats


def temperature(
    boards: Coefficients,
    setting: Setting,
    name: str,
    power: Floats,
    before: Mapping[str, Floats] | None,
    seconds: float,
) -> Floats:
    """The temperature of core or memory.

    It goes to a level over that of the inlet, in a straight line from the power.
    """
    at_no_power, by_watt = boards.heat[name]
    level = setting.inlet_celsius + setting.resistance * (at_no_power + by_watt * power)
    return _followed(boards, name, level, before, seconds)


def highest(core: Floats, before: Mapping[str, Floats] | None) -> Floats:
    """The highest core temperature within a tick: it goes one way from where it was to where it is."""
    return core if before is None else np.maximum(core, before["temperature_celsius"])


def fan_speed(
    boards: Coefficients, setting: Setting, core: Floats, before: Mapping[str, Floats] | None, seconds: float
) -> Floats:
    """The speed of the fan: it goes from its lowest to its highest as the core temperature does."""
    name = "fan_speed_ratio"
    warmth = (core - boards.low["temperature_celsius"]) / boards.span["temperature_celsius"]
    speed = np.minimum(boards.between(name, np.maximum(warmth, 0.0)), 1.0)
    if setting.fan_stopped is not None:
        speed = np.where(setting.fan_stopped, 0.0, speed)
    return _followed(boards, name, speed, before, seconds)


def lost(boards: Coefficients, setting: Setting, before: Mapping[str, Floats] | None) -> Floats:
    """1 for the boards that are gone, once the tick before was too hot: they do not come back by themselves."""
    gone: Floats = np.zeros(boards.count)
    if before is not None:
        gone = np.maximum(before["lost"], before["temperature_celsius"] >= boards.shutdown)
    return gone if setting.lost is None else np.maximum(gone, setting.lost)


def _followed(
    boards: Coefficients, name: str, level: Floats, before: Mapping[str, Floats] | None, seconds: float
) -> Floats:
    """A lag of the first order."""
    if before is None or name not in before:
        return level
    lagged: Floats = level + (before[name] - level) * boards.lags[name].kept(seconds)
    return lagged
