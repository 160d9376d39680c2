"""By which quantity, and how, a fault of each kind is seen on a device: in the state, on pages and in NVML alike.

A sign compares a value with the one before the fault. Values of pages and of NVML are rounded, so that signs of
quantities that sensors measure leave some room.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Mask
from fakedev.fleet.spec.fault_kinds import KINDS
from fakedev.kubernetes.devices.health import HARMLESS_XIDS, KUBELET_RESTART, NODE_DOWN, PLUGIN_DOWN

Values = Mapping[str, float]
#: Whether devices show a fault: values before it and now, each of shape (N,), and the parameters of the fault.
Holds = Callable[[Floats, Floats, Values], Mask]
#: Degrees that a temperature must move at least.
_DEGREES: Final = 2.0
#: What rounding may change of a number that is compared.
_ROUNDING: Final = 1.01


class Sign(NamedTuple):
    """One sign of a kind.

    :ivar quantity: of devices.
    """

    quantity: str
    holds: Holds


def _grown(by: str = "") -> Holds:
    """A counter grew by the parameter of that name, or at all."""
    return lambda before, now, values: now >= before + max(values.get(by, 1.0), 1e-9)


def _is(parameter: str) -> Holds:
    """It is what a parameter says, but for rounding."""
    return lambda before, now, values: abs(now - values[parameter]) <= (_ROUNDING - 1) * abs(values[parameter]) + 0.5


def _at_most(parameter: str) -> Holds:
    return lambda before, now, values: now <= values[parameter] * _ROUNDING


def _set(before: Floats, now: Floats, values: Values) -> Mask:
    return now > 0


def _less(before: Floats, now: Floats, values: Values) -> Mask:
    return now < before


def _has_bits(kind: str) -> Holds:
    bits = KINDS[kind].reasons
    return lambda before, now, values: (now.astype("int64") & bits) > 0


def _warmer(before: Floats, now: Floats, values: Values) -> Mask:
    is_cooler = values.get("celsius", 0.0) < 0
    return now <= before - _DEGREES if is_cooler else now >= before + _DEGREES


_HEAT: Final = (Sign("temperature_celsius", _warmer), Sign("lost", _set))
_LOST: Final = (Sign("lost", _set), Sign("xid", lambda before, now, values: now == 79))
#: The signs of each kind of boards: one of them is enough. Other kinds are seen by the answers of pages and nodes.
SIGNS: Final[Mapping[str, tuple[Sign, ...]]] = {
    "xid": (Sign("xid", lambda before, now, values: now == values["code"]),),
    "ecc-single": (Sign("memory_errors_correctable", _grown("count")),),
    "ecc-double": (Sign("memory_errors_uncorrectable", _grown("count")), Sign("xid", lambda _, now, __: now == 48)),
    "programming-errors": (Sign("programming_errors", _grown("count")),),
    "driver-errors": (Sign("driver_errors", _grown("count")),),
    "cache-errors": (Sign("cache_errors_correctable", _grown()), Sign("cache_errors_uncorrectable", _grown())),
    "non-compute-errors": (
        Sign("non_compute_errors_correctable", _grown()), Sign("non_compute_errors_uncorrectable", _grown()),
    ),
    "inlet": (Sign("inlet_temperature_celsius", _warmer), *_HEAT),
    "fan": _HEAT,
    "overheat": _HEAT,
    "power-brake": (Sign("throttle_reasons", _has_bits("power-brake")), Sign("throttled_hardware", _set)),
    "power-cap": (Sign("power_limit_watts", _is("watts")),),
    "clock-lock": (Sign("core_frequency_mhz", _at_most("megahertz")),),
    "sync-boost": (Sign("throttle_reasons", _has_bits("sync-boost")), Sign("core_frequency_mhz", _less)),
    "hang": (Sign("hung", _set), Sign("recovery_action", _set), Sign("usage_ratio", lambda _, now, __: now >= 0.99)),
    "link-down": (Sign("links_up", _less), Sign("link_errors", _grown()), Sign("xid", lambda _, now, __: now == 74)),
    "pcie-slow": (
        Sign("pcie_link_width", _less), Sign("pcie_link_generation", _less),
        Sign("pcie_link_gigatransfers_per_second", _less),
    ),
    "pcie-replays": (Sign("pcie_replays", _grown()),),
    "lost": _LOST,
    "reset": (Sign("resets", _grown()),),
}  # fmt: skip
#: The Event at the node of kinds of whole nodes.
NODE_EVENTS: Final[Mapping[str, str]] = {
    NODE_DOWN: "NodeDown", PLUGIN_DOWN: "DevicePluginDown", KUBELET_RESTART: "KubeletRestarted",
}  # fmt: skip
#: Kinds that make a device unhealthy in a cluster, besides XIDs.
_UNHEALTHY: Final = ("lost", "hang", "ecc-double", "link-down")


def makes_unhealthy(kind: str, values: Values) -> bool:
    """Whether a cluster counts a device with a fault as unhealthy."""
    return kind in _UNHEALTHY or (kind == "xid" and int(values["code"]) not in HARMLESS_XIDS)
