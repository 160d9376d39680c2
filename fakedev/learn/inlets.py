"""The air at the inlet of each board, by how warm it was for its power, and how far the room drifts over the day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fakedev.clone.closeness import INLETS
from fakedev.fleet.boards.conditions import room_wave
from fakedev.fleet.entities.randomness import Floats
from fakedev.learn.tracks import POWER, TEMPERATURE, Track
from fakedev.learn.usage_fit import DAY, TypeOf

#: A drift that configurations take, in degrees Celsius.
_MOST_DRIFT: Final = 20.0


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
    power, on the line of the type (fakedev/fleet/boards/coefficients.py). One moment says less: a board may get warm.
    Of less than a day the drift is not known: it is the type's.

    :param temperatures: of boards: times in seconds since 1970 and degrees Celsius, shape (N,).
    :param word_of: returns the device word of a track.
    :returns: None for the drift where no board says anything.
    """
    own_tracks: dict[tuple[str, str], list[Track]] = defaultdict(list)
    for track in tracks:
        if track.is_placed and POWER in track.numbers and track.device in temperatures:
            own_tracks[track.device].append(track)
    boards = []
    for device, own in own_tracks.items():
        of_type = type_of(device[0])
        heat, power = of_type.ranges.get(TEMPERATURE), of_type.ranges.get(POWER)
        usual = of_type.dynamics.inlet_celsius if of_type.dynamics is not None else None
        if of_type.dynamics is not None and usual is not None and heat and power and power.high > power.low:
            times, celsius = temperatures[device]
            seconds = np.concatenate([track.seconds for track in own])
            order = np.argsort(seconds, kind="stable")
            watts = np.concatenate([track.numbers[POWER] for track in own])[order].astype(np.float64)
            last = np.maximum(np.searchsorted(seconds[order], times, "right") - 1, 0)
            slope = (heat.high - heat.low) / (power.high - power.low)
            over = celsius - (heat.low - usual + slope * (watts[last] - power.low))
            wave = np.array([room_wave(time) for time in times.tolist()])
            # Few samples of the power are at the times of the temperature.
            over += slope * (watts[last].mean() - watts.mean())
            boards.append(_Board(word_of(own[0]), over, wave, of_type.dynamics.inlet_drift_celsius))
    if not boards:
        return {}, None
    drift = boards[0].usual_drift
    if max(float(np.ptp(times)) for times, _ in temperatures.values()) >= DAY:
        waves = np.concatenate([board.wave - board.wave.mean() for board in boards])
        moved = np.concatenate([board.over - board.over.mean() for board in boards])
        drift = float(np.clip((waves * moved).sum() / max((waves**2).sum(), 1.0), 0.0, _MOST_DRIFT))
    found = {board.word: float((board.over - drift * board.wave).mean()) for board in boards}
    return {word: round(min(max(inlet, INLETS[0]), INLETS[1]), 1) for word, inlet in found.items()}, round(drift, 2)


def with_inlets(
    pools: Sequence[Mapping[str, Any]], inlets: Mapping[str, float], drift: float | None
) -> list[dict[str, Any]]:
    """The pools of a configuration with these inlet temperatures: a pool for each node that has some."""
    found: list[dict[str, Any]] = []
    for pool in pools:
        for node in pool["nodes"]:
            entries = {entry["index"]: dict(entry) for entry in pool.get("devices", ())}
            for index in range(pool["devices-per-node"]):
                if f"{node}/{index}" in inlets:
                    entries.setdefault(index, {"index": index})["inlet"] = inlets[f"{node}/{index}"]
            body = {**pool, "nodes": [node]} | ({} if drift is None else {"inlet-drift": drift})
            if entries:
                body["devices"] = [entries[index] for index in sorted(entries)]
            last = found[-1] if found else {}
            if {**last, "name": "", "nodes": []} == {**body, "name": "", "nodes": []}:
                last["nodes"].append(node)
            else:
                found.append(body | {"name": f"pool-{len(found)}"})
    return found
