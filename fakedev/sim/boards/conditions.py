"""What is done to devices from outside: air, caps, locked clocks, brakes; apart from what work asks of them.

Faults and people change these. What a device shows of them (its inlet temperature, its power limit) follows in the
next tick.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats

#: Beside 1, of a device that is lost: its node is down.
WITH_NODE: Final = 2.0


@dataclass(frozen=True)
class Conditions:
    """Conditions of D devices: arrays of shape (D,). NaN is what the device type says; None: NaN everywhere.

    A device without dynamics only knows ``lost``.

    :ivar inlet_celsius: temperature of the air that cools the device.
    :ivar power_limit_watts: the power cap.
    :ivar highest_mhz: the core clock is locked to this at most.
    :ivar resistance: thermal resistance, by that of the type: over 1 where the cooling is worse.
    :ivar braked: 1: the host's power brake takes half of the clock.
    :ivar fan_stopped: 1: the fan stands still.
    :ivar hung: 1: the device hangs.
    :ivar lost: from 1 on: the device has gone away; from WITH_NODE on with its whole node: nobody is there to tell.
    :ivar pcie_share, fabric_share: what PCIe, and the links to other devices, still carry of what they do.
    :ivar links_up: how many links to other devices are up.
    :ivar pcie_width, pcie_generation: lanes and generation that are left of the PCIe link.
    """

    inlet_celsius: Floats | None = None
    power_limit_watts: Floats | None = None
    highest_mhz: Floats | None = None
    resistance: Floats | None = None
    braked: Floats | None = None
    fan_stopped: Floats | None = None
    hung: Floats | None = None
    lost: Floats | None = None
    pcie_share: Floats | None = None
    fabric_share: Floats | None = None
    links_up: Floats | None = None
    pcie_width: Floats | None = None
    pcie_generation: Floats | None = None

    def at(self, positions: NDArray[np.int64]) -> Self:
        """The conditions of some of the devices."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: None if each is None else each[positions] for name, each in values.items()})


def unless_changed(given: Floats | None, usual: Floats) -> Floats:
    """A condition where it is given, else what is usual."""
    return usual if given is None else np.where(np.isnan(given), usual, given)


def is_set(condition: Floats | None) -> NDArray[np.bool_] | None:
    """Where a condition that is on or off is on; None: nowhere."""
    return None if condition is None else condition > 0
