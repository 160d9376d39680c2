"""A fault as it was requested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FaultSpec:
    """Something that goes wrong on some devices, for some time.

    :param kind: one of :data:`fakedev.spec.fault_kinds.KINDS`.
    :param devices: device words, as of a workload.
    :param node: the node of device words without one; empty for none.
    :param start_seconds: simulated seconds from the next tick on until it begins.
    :param duration_seconds: how long it lasts; 0 until it is cleared.
    :param every_seconds: the interval at which it happens again, or is drawn again; 0 for once (once a tick, with a
        probability under 1).
    :param probability: of affecting a device, at each draw.
    :param metric: the metric that it affects, as it was named; empty for all.
    :param values: the kind's parameters by name; without defaults.
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
