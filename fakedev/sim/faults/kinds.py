"""What each kind of fault does to devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fakedev.sim.faults import effects
from fakedev.sim.faults.effects import NOTHING, Effect, xid_effect
from fakedev.spec.fault_kinds import FaultKind

#: The effects of kinds that change devices; the other kinds change what is shown of them.
EFFECTS: Final[Mapping[str, Effect]] = {
    "ecc-single": effects.ECC_SINGLE,
    "ecc-double": effects.ECC_DOUBLE,
    "inlet": effects.INLET,
    "fan": effects.FAN,
    "power-brake": effects.BRAKE,
    "power-cap": effects.CAP,
    "clock-lock": effects.LOCK,
    "hang": effects.HANG,
    "link-down": effects.LINK,
    "pcie-slow": effects.PCIE,
    "pcie-replays": effects.REPLAYS,
    "lost": effects.LOST,
    "reset": effects.RESET,
    "node-down": effects.NODE_DOWN,
}


def effect_of(kind: FaultKind, values: Mapping[str, float]) -> Effect:
    """What a fault of a kind does to devices with these values; that of ``xid`` follows from its code."""
    return xid_effect(int(values["code"])) if kind.name == "xid" else EFFECTS.get(kind.name, NOTHING)


def lasts_with(kind: FaultKind, values: Mapping[str, float]) -> bool:
    """Whether a fault of a kind goes on for a time with these values; else it happens and is over."""
    return kind.lasts and (kind.name != "xid" or effect_of(kind, values).lasts)
