"""The effect of each kind of fault on devices: when it starts, while it lasts, and when it is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from fakedev.fleet.boards.conditions import WITH_NODE
from fakedev.fleet.entities.state import Positions
from fakedev.fleet.faults.per_tick import Cut, Ending, FaultTick
from fakedev.fleet.spec.fault_kinds import ALL_LINKS, FaultKind
from fakedev.fleet.spec.nvlink_errors import LINK_DOWN, PEER_DOWN, NvlinkError, link_down, nvlink_error
from fakedev.fleet.spec.rack_spec import SWITCHES_OF_TRAY
from fakedev.fleet.spec.xids import Xid


class Target(NamedTuple):
    """Some devices that a fault acts on in a tick.

    :ivar values: the fault's parameters, including defaults.
    """

    fault_id: str
    devices: Positions
    values: Mapping[str, float]


Act = Callable[[FaultTick, Target], None]


def no_effect(tick: FaultTick, target: Target) -> None:
    """No effect on devices."""


@dataclass(frozen=True)
class Effect:
    """The effect of a fault on devices.

    :param strike: in the first tick of each occurrence.
    :param hold: in each tick of it.
    :param recover: in the tick after it.
    :param loses: it makes devices lost.
    :param adds_up: whether numbers of several such faults on a device become one, which no other kind of fault touches.
    """

    strike: Act = no_effect
    hold: Act = no_effect
    recover: Act = no_effect
    adds_up: bool = False
    loses: bool = False

    @property
    def lasts(self) -> bool:
        """Whether it lasts longer than a tick."""
        return self.hold is not no_effect


NOTHING: Final = Effect()


def _code(code: int) -> Act:
    return lambda tick, target: tick.report(target.devices, code)


def _all(*acts: Act) -> Act:
    def act(tick: FaultTick, target: Target) -> None:
        for each in acts:
            each(tick, target)

    return act


def _put(name: str, parameter: str = "", combine: np.ufunc | None = None) -> Act:
    """Put 1 or the value of a parameter, as :meth:`FaultTick.put` does."""
    return lambda tick, target: tick.put(name, target.devices, target.values.get(parameter, 1.0), combine)


def _count(name: str, parameter: str = "") -> Act:
    """Count an error once, or as often as a parameter gives."""
    return _put(name, parameter, np.add)


def _count_corrected(name: str) -> Act:
    """Count errors that were corrected, or could not be."""

    def act(tick: FaultTick, target: Target) -> None:
        which = "uncorrectable" if target.values["uncorrectable"] else "correctable"
        tick.put(f"{name}_{which}", target.devices, target.values["count"], np.add)

    return act


def _end_work(text: str) -> Act:
    """End the workloads; ``{}`` stands for the name of the device."""
    return lambda tick, target: tick.end_work(Ending(target.devices, f"{text}, terminated", target.fault_id))


def _refuse_shared_memory(tick: FaultTick, target: Target) -> None:
    """Without the IMEX daemon no new work gets memory of other nodes; what others have stays as it is."""
    text = "IMEX daemon of {} is down: no memory of other nodes, terminated"
    began = tick.now_seconds - tick.seconds
    tick.end_work(Ending(target.devices, text, target.fault_id, of_shared=True, since_seconds=began))


def _forget_shared_memory(tick: FaultTick, target: Target) -> None:
    """A daemon that started anew knows no memory that was given before: all work that has some is invalid."""
    text = "IMEX daemon of {} started anew: memory of other nodes is invalid, terminated"
    tick.end_work(Ending(target.devices, text, target.fault_id, of_shared=True))


def _count_replays(tick: FaultTick, target: Target) -> None:
    """PCIe replays at a rate: whole numbers that do not depend on the length of ticks."""
    rate, end = target.values["rate"], tick.now_seconds
    tick.put("pcie_replays", target.devices, int(rate * end) - int(rate * (end - tick.seconds)), np.add)


def _slow_pcie(tick: FaultTick, target: Target) -> None:
    """Limit lanes and generation if given, else the share of the capacity."""
    given = [name for name in ("width", "generation") if target.values[name]]
    for name in given or ["share"]:
        tick.put(f"pcie_{name}", target.devices, target.values[name], np.fmin)


def _strike_links(tick: FaultTick, target: Target) -> None:
    tick.struck.append(Cut(target.devices, int(target.values.get("link", ALL_LINKS))))


def _cut_links(tick: FaultTick, target: Target) -> None:
    """Take down one link, or all but a share of the links; XID 74 gives no share and takes down all."""
    link = int(target.values.get("link", ALL_LINKS))
    if link == ALL_LINKS:
        tick.put("fabric_share", target.devices, target.values.get("share", 0.0), np.fmin)
    else:
        tick.cuts.append(Cut(target.devices, link))


def _strike_tray(tick: FaultTick, target: Target) -> None:
    """The links of all boards to the switches of a tray go down: the first of them counts the error."""
    link = int(target.values["tray"]) * SWITCHES_OF_TRAY
    tick.put("link_errors", target.devices, 1.0, np.add)
    tick.struck.append(Cut(target.devices, link))
    tick.report(target.devices, Xid.NETIR, link_down(PEER_DOWN, link))


def _cut_tray(tick: FaultTick, target: Target) -> None:
    first = int(target.values["tray"]) * SWITCHES_OF_TRAY
    tick.cuts.extend(Cut(target.devices, first + offset) for offset in range(SWITCHES_OF_TRAY))


def _slow_pump(tick: FaultTick, target: Target) -> None:
    """Less flow: the thermal resistance of cold plates grows with its power of -0.6, chosen."""
    share = target.values["share"]
    tick.put("flow_share", target.devices, share, np.fmin)
    tick.put("resistance", target.devices, share**-0.6, np.multiply)


_RESET: Final = _put("reset")
#: A memory row is remapped or a page retired, depending on the board.
_RETIRE: Final = _all(
    _count("remapped_rows_uncorrectable", "count"),
    _count("retired_pages_double_bit", "count"),
    _put("row_remap_pending"),
)


def _lose(lost: float) -> Act:
    """The board is lost and does no work; the worst of several faults counts."""
    return _all(lambda tick, target: tick.put("lost", target.devices, lost, np.maximum), _put("idled"))


def _double_bit(code: int) -> Act:
    """The effects of a code of a double-bit error."""
    return _all(_count("memory_errors_uncorrectable", "count"), _RETIRE, _end_work(f"XID {code} on {{}}"))


_LINK_DOWN: Final = Effect(strike=_all(_count("link_errors"), _strike_links), hold=_cut_links)
_LOST: Final = Effect(hold=_all(_lose(1.0), _end_work("Device {} lost")), recover=_RESET, loses=True)
#: The effects of kinds that change devices; the other kinds change what is shown of them.
_EFFECTS: Final[Mapping[str, Effect]] = {
    "ecc-single": Effect(
        strike=_all(
            _count("memory_errors_correctable", "count"),
            _count("remapped_rows_correctable", "rows"),
            _count("retired_pages_single_bit", "rows"),
        )
    ),
    "ecc-double": Effect(strike=_all(_double_bit(Xid.DOUBLE_BIT), _code(Xid.DOUBLE_BIT))),
    "programming-errors": Effect(strike=_count("programming_errors", "count")),
    "driver-errors": Effect(strike=_count("driver_errors", "count")),
    "cache-errors": Effect(strike=_count_corrected("cache_errors")),
    "non-compute-errors": Effect(strike=_count_corrected("non_compute_errors")),
    "inlet": Effect(hold=_put("inlet_rise_celsius", "celsius", np.add), adds_up=True),
    "fan": Effect(hold=_all(_put("fan_stopped"), _put("resistance", "resistance", np.multiply)), adds_up=True),
    "overheat": Effect(hold=_put("overheated_celsius", "celsius")),
    "power-brake": Effect(hold=_put("braked")),
    "power-cap": Effect(hold=_put("power_limit_watts", "watts")),
    "clock-lock": Effect(hold=_put("highest_mhz", "megahertz")),
    "sync-boost": Effect(hold=_put("boost_share", "share", np.fmin)),
    "hang": Effect(hold=_put("hung")),
    "link-down": replace(_LINK_DOWN, strike=_all(_LINK_DOWN.strike, _code(Xid.LINK))),
    "pcie-slow": Effect(hold=_slow_pcie),
    "pcie-replays": Effect(hold=_count_replays),
    "cable": Effect(hold=_all(_put("worn_link", "link", np.fmax), _put("wear_per_hour", "rate", np.fmax))),
    "switch-tray": Effect(strike=_strike_tray, hold=_all(_cut_tray, _put("tray_lost"))),
    "partition-mismatch": Effect(hold=_put("fabric_closed")),
    "imex-down": Effect(hold=_all(_put("imex_down"), _refuse_shared_memory), recover=_forget_shared_memory),
    "route": Effect(hold=_all(_put("route_lost"), _put("route_share", "share", np.fmin))),
    "coolant-leak": Effect(hold=_all(_put("leak"), _put("resistance", "resistance", np.multiply)), adds_up=True),
    "pump": Effect(hold=_slow_pump, adds_up=True),
    "valve": Effect(hold=_slow_pump, adds_up=True),
    "busbar": Effect(hold=_put("rack_kilowatts", "kilowatts", np.fmin)),
    "fan-wall": Effect(hold=_put("inlet_rise_celsius", "celsius", np.add), adds_up=True),
    "grace-thermal": Effect(hold=_put("cpu_rise_celsius", "celsius", np.fmax)),
    "c2c-errors": Effect(strike=_count("c2c_errors", "count")),
    "lost": replace(_LOST, strike=_code(Xid.FALLEN_OFF)),
    "reset": Effect(strike=_all(_RESET, _end_work("Device {} reset"))),
    "node-down": Effect(hold=_all(_lose(WITH_NODE), _end_work("Node down, {} lost")), recover=_RESET, loses=True),
}


def effect_of(kind: FaultKind, values: Mapping[str, float]) -> Effect:
    """The effect of a kind of fault on devices with these values; the effect of ``xid`` follows from its code.

    :raises ValueError: for an error of NVLink that does not exist.
    """
    if kind.name != "xid":
        return _EFFECTS.get(kind.name, NOTHING)
    code = int(values["code"])
    error = nvlink_error(code, *(int(values[name]) for name in ("subcode", "status", "reason")))
    return _xid_effect(code) if error is None else _nvlink_effect(error)


def is_lasting(kind: FaultKind, effect: Effect) -> bool:
    """Whether a fault of a kind lasts longer than a tick."""
    return kind.lasts and (kind.name != "xid" or effect.lasts)


def _xid_effect(code: int) -> Effect:
    """The effect of NVIDIA's error with a code; of unknown codes only the report."""
    ends = _end_work(f"XID {code} on {{}}")
    dead = _all(_put("idled"), ends)
    match code:
        case Xid.GRAPHICS_EXCEPTION | Xid.PAGE_FAULT | Xid.CHANNEL_STOPPED | Xid.CLEANED_UP:
            base = Effect(strike=_all(_count("programming_errors"), ends))
        case Xid.DOUBLE_BIT | Xid.CONTAINED:
            base = Effect(_double_bit(code))
        case Xid.UNCONTAINED:  # the board does nothing until a reset
            base = Effect(_double_bit(code), dead, _RESET)
        case Xid.BREAKPOINT | Xid.HALT | Xid.GSP_TIMEOUT | Xid.GSP_ERROR:  # the board's own processor is stuck
            base = Effect(_count("driver_errors"), dead, _RESET)
        case Xid.ROW_REMAPPED:  # or a page retired
            base = Effect(_RETIRE)
        case Xid.REMAP_FAILED:
            base = Effect(_put("row_remap_failure"))
        case Xid.LINK:
            base = _LINK_DOWN
        case Xid.FALLEN_OFF:
            base = _LOST
        case Xid.MANY_SINGLE_BIT:
            base = Effect(_count("memory_errors_correctable", "count"))
        case _:
            base = NOTHING
    return replace(base, strike=_all(base.strike, _code(code)))


def _nvlink_effect(error: NvlinkError) -> Effect:
    """The effect of an error of NVLink 5: by NVIDIA's advice nothing ends, or the work, or the board needs a reset."""
    ends = _end_work(f"XID {error.code} on {{}}")

    def strike(tick: FaultTick, target: Target) -> None:
        link = max(0, int(target.values["link"]))
        tick.put("link_errors", target.devices, 1.0, np.add)
        tick.report(target.devices, error.code, error.message(link))
        if error.subcode == LINK_DOWN:
            tick.struck.append(Cut(target.devices, link))

    def cut(tick: FaultTick, target: Target) -> None:
        if error.subcode == LINK_DOWN:
            tick.cuts.append(Cut(target.devices, max(0, int(target.values["link"]))))

    if error.action == "R":
        return Effect(strike, _all(cut, _put("idled"), _put("needs_reset"), ends), _RESET)
    return Effect(_all(strike, ends, _put("access_timeout")) if error.action else strike)
