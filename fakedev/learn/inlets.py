"""The air at the inlet of each board, by how warm it was for its power."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fakedev.clone.closeness import INLETS
from fakedev.fleet.entities.randomness import Floats
from fakedev.learn.tracks import POWER, TEMPERATURE, Track
from fakedev.learn.usage_fit import TypeOf


def fitted_inlets(
    temperatures: Mapping[tuple[str, str], Floats], tracks: Iterable[Track], type_of: TypeOf,
    word_of: Callable[[Track], str],
) -> dict[str, float]:  # fmt: skip
    """The inlet temperature of boards by their words, degrees Celsius.

    A temperature follows power with a lag, and a lag does not change the mean: the mean temperature is that of the mean
    power, on the line of the type (fakedev/fleet/boards/coefficients.py). One moment says less: a board may get warm.

    :param temperatures: of boards, at many times: shape (N,).
    :param word_of: returns the device word of a track.
    """
    powers: dict[tuple[str, str], list[Track]] = defaultdict(list)
    for track in tracks:
        if track.is_placed and POWER in track.numbers and track.device in temperatures:
            powers[track.device].append(track)
    found = {}
    for device, own in powers.items():
        board = type_of(device[0])
        heat, power = board.ranges.get(TEMPERATURE), board.ranges.get(POWER)
        usual = board.dynamics.inlet_celsius if board.dynamics is not None else None
        if usual is not None and heat is not None and power is not None and power.high > power.low:
            watts = sum(float(track.numbers[POWER].sum()) for track in own) / sum(len(track.seconds) for track in own)
            rise = heat.low - usual + (heat.high - heat.low) * (watts - power.low) / (power.high - power.low)
            inlet = float(temperatures[device].mean()) - rise
            found[word_of(own[0])] = round(min(max(inlet, INLETS[0]), INLETS[1]), 1)
    return found


def with_inlets(pools: Sequence[Mapping[str, Any]], inlets: Mapping[str, float]) -> list[dict[str, Any]]:
    """The pools of a configuration with these inlet temperatures: a pool for each node that has some."""
    found: list[dict[str, Any]] = []
    for pool in pools:
        for node in pool["nodes"]:
            entries = {entry["index"]: dict(entry) for entry in pool.get("devices", ())}
            for index in range(pool["devices-per-node"]):
                if f"{node}/{index}" in inlets:
                    entries.setdefault(index, {"index": index})["inlet"] = inlets[f"{node}/{index}"]
            body = {**pool, "nodes": [node]}
            if entries:
                body["devices"] = [entries[index] for index in sorted(entries)]
            last = found[-1] if found else {}
            if {**last, "name": "", "nodes": []} == {**body, "name": "", "nodes": []}:
                last["nodes"].append(node)
            else:
                found.append(body | {"name": f"pool-{len(found)}"})
    return found
