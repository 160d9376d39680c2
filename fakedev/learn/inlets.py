"""The air at the inlet of each board, by how warm it was for its power, and how far the room drifts over the day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from fakedev.base.names import COLDEST_INLET, HOTTEST_INLET, MAX_INLET_DRIFT
from fakedev.clone.document import pools_of
from fakedev.fleet.boards.arrays import Air
from fakedev.fleet.boards.coefficients import Coefficients
from fakedev.fleet.boards.conditions import room_wave
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.learn.tracks import POWER, TEMPERATURE, Track
from fakedev.learn.usage_fit import DAY, TypeOf


class _Board(NamedTuple):
    """What is known of a board.

    :ivar over: its temperature over that of its power on the line of its type, shape (N,): the air, and what lags.
    :ivar wave: how warm rooms are at these times, from -1 to 1: shape (N,).
    """

    word: str
    over: Floats
    wave: Floats
    usual_drift: float


def fitted_inlets(
    temperatures: Mapping[tuple[str, str], tuple[Floats, Floats]], tracks: Iterable[Track], type_of: TypeOf,
    word_of: Callable[[Track], str],
) -> tuple[dict[str, float], float | None]:  # fmt: skip
    """The inlet temperature of boards by their words, and the drift of the rooms, degrees Celsius.

    A temperature follows power with a lag, and a lag does not change the mean: the mean temperature is that of the mean
    power, on the line of the type. One moment says less: a board may get warm.
    Of less than a day the drift is not known: it is the type's.

    :param temperatures: of boards: times in seconds since 1970 and degrees Celsius, shape (N,).
    :param word_of: returns the device word of a track.
    :returns: None for the drift where no board says anything.
    """
    own_tracks: dict[tuple[str, str], list[Track]] = defaultdict(list)
    for track in tracks:
        if track.is_placed and POWER in track.numbers and track.device in temperatures:
            own_tracks[track.device].append(track)
    # Boards are scraped at the same times, and those of a node are of one type.
    wave_at, line_of = cache(room_wave), cache(lambda node: _line(type_of(node)))
    boards = []
    for device, own in own_tracks.items():
        dynamics = type_of(device[0]).dynamics
        if dynamics is not None and dynamics.inlet_celsius is not None and _has_line(type_of(device[0])):
            times, celsius = temperatures[device]
            seconds = np.concatenate([track.seconds for track in own])
            order = np.argsort(seconds, kind="stable")
            watts = np.concatenate([track.numbers[POWER] for track in own])[order].astype(np.float64)
            last = np.maximum(np.searchsorted(seconds[order], times, "right") - 1, 0)
            without_power, by_watt = line_of(device[0])
            over = celsius - (without_power + by_watt * watts[last])
            # Few samples of the power are at the times of the temperature.
            over += by_watt * (watts[last].mean() - watts.mean())
            wave = np.array([wave_at(time) for time in times.tolist()])
            boards.append(_Board(word_of(own[0]), over, wave, dynamics.inlet_drift_celsius))
    if not boards:
        return {}, None
    drift = boards[0].usual_drift
    if max(float(np.ptp(times)) for times, _ in temperatures.values()) >= DAY:
        waves = np.concatenate([board.wave - board.wave.mean() for board in boards])
        moved = np.concatenate([board.over - board.over.mean() for board in boards])
        drift = float(np.clip((waves * moved).sum() / max((waves**2).sum(), 1.0), 0.0, MAX_INLET_DRIFT))
    found = {board.word: float((board.over - drift * board.wave).mean()) for board in boards}
    inlets = {word: round(min(max(inlet, COLDEST_INLET), HOTTEST_INLET), 1) for word, inlet in found.items()}
    return inlets, round(drift, 2)


def _has_line(board: DeviceType) -> bool:
    power = board.ranges.get(POWER)
    return TEMPERATURE in board.ranges and power is not None and power.high > power.low


def _line(board: DeviceType) -> tuple[float, float]:
    """How much warmer than the air the core of a board is in the long run: without power, and for each watt."""
    one = np.zeros(1, np.int64)
    heat = Coefficients([board], one, Air.usual(1), 0, one.astype(np.uint64)).heat[TEMPERATURE]
    return float(heat[0][0]), float(heat[1][0])


def with_inlets(
    pools: Iterable[Mapping[str, Any]], inlets: Mapping[str, float], drift: float | None
) -> list[dict[str, Any]]:
    """The pools of a configuration with these inlet temperatures: a pool for each node that has some."""
    return pools_of(((node, _body(pool, node, inlets, drift)) for pool in pools for node in pool["nodes"]), "pool")


def with_facts(pools: Iterable[Mapping[str, Any]], facts: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """The pools with these texts for labels of some nodes."""
    return pools_of((
        (node, {key: value for key, value in pool.items() if key not in ("name", "nodes")}
         | ({"labels": {**pool.get("labels", {}), **facts[node]}} if node in facts else {}))
        for pool in pools for node in pool["nodes"]
    ), "pool")  # fmt: skip


def _body(pool: Mapping[str, Any], node: str, inlets: Mapping[str, float], drift: float | None) -> dict[str, Any]:
    """What a pool says of one of its nodes."""
    entries = {entry["index"]: dict(entry) for entry in pool.get("devices", ())}
    for index in range(pool["devices-per-node"]):
        if f"{node}/{index}" in inlets:
            entries.setdefault(index, {"index": index})["inlet"] = inlets[f"{node}/{index}"]
    body = {key: value for key, value in pool.items() if key not in ("name", "nodes")}
    if drift is not None:
        body["inlet-drift"] = drift
    if entries:
        body["devices"] = [entries[index] for index in sorted(entries)]
    return body
