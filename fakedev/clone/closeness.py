"""How near the values of a simulated fleet are to those that were read, quantity by quantity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from fakedev.clone.observed import ObservedDevice, ObservedNode

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
        pairs = list(_pairs(devices, quantity, value))
        far = [pair for pair in pairs if not _is_near(quantity, *pair)]
        if pairs:
            found.append(Closeness(quantity, len(pairs) - len(far), len(pairs), far[0] if far else None))
    return found


def _pairs(
    devices: Iterable[tuple[str, ObservedDevice]], quantity: str, value: Value
) -> Iterator[tuple[float, float]]:
    for node, device in devices:
        simulated = value(node, device.index, quantity)
        if quantity in device.unit.values and simulated is not None:
            yield device.unit.values[quantity], simulated


def _is_near(quantity: str, read: float, simulated: float) -> bool:
    step = next((step for end, step in _STEPS.items() if quantity.endswith(end)), 0.0)
    return abs(read - simulated) <= max(_NEAR * abs(read), step)
