"""Corrections of a simulated fleet by what was read: of power by the intensity of work, of heat by the inlet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from fakedev.clone.closeness import Value
from fakedev.clone.configuration_document import Board, Correction
from fakedev.clone.observed import ObservedDevice, ObservedNode

#: By node and index of the device.
Corrections = Mapping[tuple[str, int], Correction]
#: Inlet temperatures that configurations take, in degrees Celsius.
_INLETS: Final = (-60.0, 100.0)
_NEAR_CELSIUS: Final = 0.5
_NEAR_SHARE: Final = 0.02


def corrected(
    nodes: Iterable[ObservedNode], board: Callable[[ObservedNode], Board], value: Value, known: Corrections,
    change: Callable[[str, ObservedDevice, Board, Value, Correction], Correction],
) -> dict[tuple[str, int], Correction]:
    """The corrections of devices, each changed by what a trial with the known ones has shown.

    :param change: :func:`by_power` or :func:`by_temperature`.
    """  # fmt: skip
    found = dict(known)
    for node in nodes:
        type_of_node = board(node)
        for device in node.devices:
            before = known.get((node.name, device.index), Correction())
            after = change(node.name, device, type_of_node, value, before)
            if after != Correction():
                found[node.name, device.index] = after
    return found


def by_power(node: str, device: ObservedDevice, board: Board, value: Value, before: Correction) -> Correction:
    """The intensity, by the power above that of an idle board."""
    read, shown = device.unit.values.get("power_watts"), value(node, device.index, "power_watts")
    span = board.type.ranges.get("power_watts")
    if read is None or shown is None or span is None or not read > span.low < shown:
        return before
    factor = (read - span.low) / (shown - span.low)
    return before if abs(factor - 1) < _NEAR_SHARE else replace(before, factor=before.factor * min(factor, 2.0))


def by_temperature(node: str, device: ObservedDevice, board: Board, value: Value, before: Correction) -> Correction:
    """The inlet temperature, by the difference of the board's."""
    read = device.unit.values.get("temperature_celsius")
    shown = value(node, device.index, "temperature_celsius")
    usual = None if board.type.dynamics is None else board.type.dynamics.inlet_celsius
    if read is None or shown is None or usual is None or abs(read - shown) < _NEAR_CELSIUS:
        return before
    inlet = min(max(usual + read - shown, _INLETS[0]), _INLETS[1])
    return replace(before, inlet_celsius=round(inlet, 1))
