"""The specification of a fault, as a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FaultSpec:
    """A fault of some devices, for some time.

    :param kind: one of :data:`fakedev.spec.fault_kinds.KINDS`.
    :param devices: device words, as for a workload.
    :param node: the node of device words without one; empty for none.
    :param start_seconds: simulated seconds from the next tick to its start.
    :param duration_seconds: its duration; 0: until it is cleared.
    :param every_seconds: the time between repetitions, each with a new draw; 0: once (or each tick, with a probability
        under 1).
    :param probability: that the fault hits a device, at each draw.
    :param metric: of the fault, as named in the request; empty for all.
    :param values: further parameters of the kind, by name; without defaults.
    :param name: what names it in place of its device words, which may change: the pool and the profile that it is of.
    """

    kind: str
    devices: tuple[str, ...] = ("all",)
    node: str = ""
    start_seconds: float = 0.0
    duration_seconds: float = 0.0
    every_seconds: float = 0.0
    probability: float = 1.0
    metric: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    name: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """What tells it from other faults: on which devices it is, and what happens there, but not how likely or long.

        They are the key of its randomness, so that it strikes the same devices wherever it is in a list.
        """
        where = (self.name,) if self.name else (self.node, *sorted({*self.devices}))
        numbers = {**self.values, "start": self.start_seconds, "every": self.every_seconds}
        return (self.kind, *where, self.metric, *(f"{name}={float(numbers[name])}" for name in sorted(numbers)))
