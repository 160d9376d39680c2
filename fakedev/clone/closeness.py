"""How near a simulated fleet is to the pages that were read: quantity by quantity, page by page; and its corrections.

The comparison of pages works also where a Prometheus has lost order and format. Power is corrected by the intensity
of work, heat by the inlet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fakedev.base.names import COLDEST_INLET, HOTTEST_INLET
from fakedev.clone.document import Board, Correction
from fakedev.clone.fleet_reader import ObservedDevice, ObservedNode
from fakedev.clone.scraped import thinned
from fakedev.exporters.conform import Conformity, compared
from fakedev.exporters.samples import CapturedPage, Sample

#: A value is near if it differs by at most this share, or by at most one of the smallest steps below.
_NEAR: Final = 0.1
_STEPS: Final = {"_ratio": 0.01, "_celsius": 1.0, "_watts": 2.0, "_mhz": 15.0, "_bytes": 2.0**20}
#: Quantities that count from the start of a fleet, or name something.
_NOT_COMPARED: Final = ("_joules", "_count", "_errors", "xid", "_seconds", "_retries", "_rows", "_state")

#: Node, index of the device, quantity: the simulated value; None where there is none.
Value = Callable[[str, int, str], float | None]


@dataclass(frozen=True)
class Closeness:
    """How many devices have a value that is near the one that was read.

    :ivar example: the values of the first device that is not near, as read and as simulated.
    """

    quantity: str
    near: int
    devices: int
    example: tuple[float, float] | None = None

    def __str__(self) -> str:
        text = f"{self.quantity}: {self.near} of {self.devices} devices near what was read"
        if self.example is not None:
            read, simulated = self.example
            text += f", another has {simulated:.4g} for {read:.4g}"
        return text


def closeness(nodes: Sequence[ObservedNode], value: Value) -> list[Closeness]:
    """The closeness of each quantity that was read of devices without instances, in the order of their names."""
    devices = [(node.name, device) for node in nodes for device in node.devices if not device.parts]
    names = sorted({name for _, device in devices for name in device.unit.values})
    found = []
    for quantity in names:
        if quantity.endswith(_NOT_COMPARED) or quantity.startswith(_NOT_COMPARED):
            continue
        pairs = [
            (device.unit.values[quantity], simulated)
            for node, device in devices
            if quantity in device.unit.values and (simulated := value(node, device.index, quantity)) is not None
        ]
        far = [pair for pair in pairs if not _is_near(quantity, *pair)]
        if pairs:
            found.append(Closeness(quantity, len(pairs) - len(far), len(pairs), far[0] if far else None))
    return found


def _is_near(quantity: str, read: float, simulated: float) -> bool:
    step = next((step for end, step in _STEPS.items() if quantity.endswith(end)), 0.0)
    return abs(read - simulated) <= max(_NEAR * abs(read), step)


def conformity(read: CapturedPage, shown: CapturedPage, *, is_stored: bool) -> Conformity:
    """How well a clone's page conforms to the one that was read.

    :param is_stored: the read page comes from a Prometheus: names and labels are compared, not their order, nor how
        numbers are written; TYPE and HELP where it has them.
    """
    if not is_stored:
        return compared(thinned(read), thinned(shown))
    order = [name for name in read.families if name in shown.families]
    names = [*order, *(name for name in shown.families if name not in read.families)]
    ordered = CapturedPage({name: shown.families[name] for name in names}, read.is_declared_first)
    return compared(_as_stored(read), _as_stored(ordered), is_fragment=True)


def _as_stored(page: CapturedPage) -> CapturedPage:
    families = {}
    for name, family in thinned(page).families.items():
        samples = [
            # A Prometheus has no label without a text.
            Sample(tuple(sorted(label for label in sample.labels if label[1])), f"{float(sample.number):.0f}",
                   has_timestamp=False)
            for sample in family.samples
        ]
        families[name] = replace(family, samples=tuple(samples))
    return CapturedPage(families, page.is_declared_first)


#: By node and index of the device.
Corrections = Mapping[tuple[str, int], Correction]
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
    inlet = min(max(usual + read - shown, COLDEST_INLET), HOTTEST_INLET)
    return replace(before, inlet_celsius=round(inlet, 1))
