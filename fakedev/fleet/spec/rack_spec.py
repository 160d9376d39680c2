"""Racks of a pool: trays of nodes, switch trays, CPUs, power and cooling, as frozen values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

from fakedev.schema.declare import setting

#: NVLink switches of a switch tray: NVIDIA's description of the GB200 NVL72.
SWITCHES_OF_TRAY: Final = 2


class RackKind(Enum):
    """What a rack is built of."""

    NVL72 = "nvl72"  # compute trays with Grace CPUs, one NVLink fabric over switch trays, liquid
    AIR = "air"  # servers with fans, which share the air in front of the rack


@dataclass(frozen=True)
class RackSpec:
    """Racks of a pool: its nodes in order, ``trays`` of them in each rack."""

    kind: RackKind = setting(
        "What the racks are: nvl72, compute trays with Grace CPUs and one NVLink fabric, cooled by liquid; or air, "
        "servers that share the air in front of them.", default=RackKind.NVL72,
    )  # fmt: skip
    trays: int = setting(
        "Nodes of a rack.", default=18, low=1, high=128, default_words="18 of nvl72, 8 of air",
    )
    switch_trays: int = setting(
        "Switch trays of a rack, which join the GPUs of all its nodes.", default=9, high=32,
        default_words="9 of nvl72, none of air",
    )  # fmt: skip
    partition: int = setting(
        "GPUs of a partition of a rack's NVLink fabric: a clique. GPUs of other partitions are not reached.", default=0,
        high=1024, default_words="all of the rack",
    )  # fmt: skip
    cpus: int = setting("Grace CPUs of a node.", default=2, high=8, default_words="2 of nvl72, none of air")
    cores: int = setting("Cores of a CPU.", default=72, low=1, high=256)
    row: int = setting("Racks of a row: a failed fan wall heats all of them.", default=10, low=1, high=1000)
    power_limit_watts: float = setting(
        "What a rack may draw: its busbar or its breakers. Boards share what is left.", "watts", math.inf, low=1,
        name="power-limit", absent="no limit",
    )  # fmt: skip
    tray_power_limit_watts: float = setting(
        "What a node may draw: the busbar of its tray.", "watts", math.inf, low=1, name="tray-power-limit",
        absent="no limit",
    )  # fmt: skip
    row_power_limit_watts: float = setting(
        "What all racks of a row may draw.", "watts", math.inf, low=1, name="row-power-limit", absent="no limit",
    )  # fmt: skip
    smoothing_floor_percent: float = setting(
        "Power smoothing: what a board draws at least while it has work and for smoothing-hold after it, of its power "
        "limit.", "percent", 0.0, high=100, name="smoothing-floor", default_words="none",
    )  # fmt: skip
    smoothing_hold_seconds: float = setting(
        "Power smoothing: how long the floor lasts after the work.", "seconds", 0.0, high=3600, name="smoothing-hold",
    )  # fmt: skip
    ramp_up_watts: float = setting(
        "Power smoothing: by how much the power of a board may rise in a second.", "watts per second", math.inf, low=1,
        name="ramp-up", absent="no limit",
    )  # fmt: skip
    ramp_down_watts: float = setting(
        "Power smoothing: by how much the power of a board may fall in a second.", "watts per second", math.inf, low=1,
        name="ramp-down", absent="no limit",
    )  # fmt: skip
    inlet_step_celsius: float = setting(
        "How much warmer the inlet of each node is than the inlet of the node below it.", "degrees Celsius", 0.0,
        low=-10, high=10, name="inlet-step", default_words="0 of nvl72, 0.25 of air",
    )  # fmt: skip

    @property
    def switches(self) -> int:
        """NVLink switches of a rack."""
        return self.switch_trays * SWITCHES_OF_TRAY

    @property
    def smooths_power(self) -> bool:
        """Whether boards may not raise or lower their power at once."""
        return self.smoothing_floor_percent > 0 or math.isfinite(min(self.ramp_up_watts, self.ramp_down_watts))

    @property
    def is_liquid(self) -> bool:
        """Whether coolant takes the heat away."""
        return self.kind is RackKind.NVL72


#: What differs from the defaults in racks with air.
OF_AIR: Final = {"trays": 8, "switch_trays": 0, "cpus": 0, "inlet_step_celsius": 0.25}
