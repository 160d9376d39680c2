"""Explains in words why a device, or one of its links, shows a value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from fakedev.base.errors import Refused
from fakedev.fleet.entities.state import Level, Mask
from fakedev.fleet.faults.faults import NearFaults
from fakedev.fleet.faults.rules import Fault
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.journal import ENDED
from fakedev.fleet.levels import DEVICE
from fakedev.fleet.links.facts import faults_of_link, links_down, links_up_text, other_end
from fakedev.fleet.links.link_levels import COUNTED, LINK, RATES, link_history
from fakedev.fleet.parts.part_relations import OWN
from fakedev.fleet.parts.tiles import TILE_QUANTITIES
from fakedev.fleet.spec.device_types import Dynamics
from fakedev.fleet.spec.fault_kinds import KINDS
from fakedev.fleet.spec.quantities import CLOCK_BITS, ERROR_COUNTERS

#: The metrics that are explained by default.
IMPORTANT: Final = (
    "usage_ratio", "core_frequency_mhz", "power_watts", "temperature_celsius", "memory_used_bytes", "xid", "lost",
)  # fmt: skip
#: The most workloads that a text names.
_MAX_NAMED: Final = 5
#: A word for a link, and the metrics of links.
_LINK_WORD: Final = re.compile(r"(.+)/link/([0-9]{1,4})")
_LINK_METRICS: Final = ("link_up", *RATES, *COUNTED)


@dataclass(frozen=True)
class Explanation:
    """Why a quantity of a device has its value.

    :ivar value: None if the device does not show it.
    :ivar faults: the ids of the faults behind it.
    """

    metric: str
    value: float | None
    text: str
    faults: tuple[str, ...]


def named_fault(fleet: Fleet, fault_id: str) -> str:
    """A fault with its kind and its own parameters, also one that is over."""
    lasting, past = fleet.faults.by_id.get(fault_id), fleet.past.fault(fault_id)
    fault = lasting or past
    if fault is None:
        return f"fault {fault_id}"
    values = (f"{name}={value:g}" for name, value in fault.spec.values.items())
    over = f", over in tick {past.when.tick}" if past else ""
    return " ".join(["fault", fault_id, fault.spec.kind, *values]) + over


class _Device:
    """One unit, with access to its values."""

    def __init__(self, fleet: Fleet, position: int) -> None:
        self.fleet = fleet
        self.position = position
        self.level: Level = fleet.state.levels["unit"]
        node = fleet.roster.nodes[fleet.roster.node_position(position)]
        self.supply = "coolant" if node.pool.racks is not None and node.pool.racks.is_liquid else "air"
        self.dynamics: Dynamics | None = node.pool.device_type.dynamics

    @cached_property
    def near(self) -> NearFaults:
        """The faults of the unit."""
        return self.fleet.faults.near(self.position)

    def value(self, name: str) -> float:
        """The value of a quantity; 0 if the unit does not have it."""
        return float(self.level.arrays[name][self.position]) if self.level.has(name, self.position) else 0.0

    def since(self, name: str) -> str:
        """The tick in which a flag changed last, as text."""
        return f"since tick {self.fleet.journal.since(name, self.position)}"

    @cached_property
    def _work(self) -> str:
        parts = self.fleet.roster.parts
        which = np.zeros(parts.unit_count, np.bool_)
        which[self.position] = True
        workloads = self.fleet.workloads
        found = [workload for workload, _ in workloads.on_devices(parts.spread(which))]
        first = found[:_MAX_NAMED]
        loads = workloads.load_percents(workloads.rows_of([workload.workload_id for workload in first]))
        named = [f"{each.workload_id} {each.spec.name} ({each.spec.kind}, load {loads[each.workload_id]:g} %)"
                 for each in first]  # fmt: skip
        more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
        return f"work: {', '.join(named)}{more}" if named else f"no work{self._last_end(which)}"

    def _last_end(self, which: Mask) -> str:
        """How the last workload on it ended, and whether it starts again, as text; empty if the journal has none."""
        fleet, parts = self.fleet, self.fleet.roster.parts
        which[parts.owner(self.position)] = True
        found = fleet.journal.last(1, (ENDED,), which)
        if not found:
            return ""
        ended = found[0]
        again = fleet.restarts_at(ended.scope)
        later = "" if again is None else f", and starts again at {again:g} s"
        cause = f" ({', '.join(named_fault(fleet, part) for part in ended.cause.split(','))})" if ended.cause else ""
        return f"; {ended.scope} ended in tick {ended.tick}, {ended.text}{cause}{later}"

    def work(self) -> str:
        """The workloads on it, as text."""
        return self._work

    # -- reasons of quantities: _REASONS has the method of each --

    def clock(self) -> str:
        dynamics, value, celsius = self.dynamics, self.value, self.value("temperature_celsius")
        if dynamics is None:
            return self.work()
        if value("throttled_hardware"):
            return f"hardware slowdown {self.since('throttled_hardware')}, temperature {celsius:.1f}"
        if value("throttled_thermal"):
            return (f"thermal throttling {self.since('throttled_thermal')}, temperature {celsius:.1f} (held near "
                    f"{dynamics.slowdown_celsius:g})")  # fmt: skip
        if value("throttled_power"):
            return f"held by the power limit of {value('power_limit_watts'):g} W {self.since('throttled_power')}"
        if value("throttled_idle"):
            return "idle: no work"
        if int(value("throttle_reasons")) & CLOCK_BITS["sync_boost"]:
            return f"held by the slowest board of a group that boosts together; {self.work()}"
        if int(value("throttle_reasons")) & CLOCK_BITS["clocks_setting"]:
            return f"the clock is locked; {self.work()}"
        return f"nothing holds it; {self.work()}"

    def power(self) -> str:
        limit = self.value("power_limit_watts")
        at = f"at {self.value('core_frequency_mhz'):g} MHz" + (f", limit {limit:g} W" if limit else "")
        return f"{at}; {self.work()}"

    def temperature(self) -> str:
        if self.dynamics is None:
            return self.work()
        forced = self._condition("overheated_celsius")
        if not math.isnan(forced):
            return f"it overheats, whatever the board draws ({self.value('power_watts'):.1f} W)"
        return (f"{self.supply} of {self.value('inlet_temperature_celsius'):.1f} degrees, "
                f"{self.value('power_watts'):.1f} W; "
                f"time constant {self.dynamics.thermal_seconds * self._resistance():g} s")  # fmt: skip

    def _resistance(self) -> float:
        """The factor of faults on the thermal resistance."""
        found = self._condition("resistance")
        return 1.0 if math.isnan(found) else found

    def _condition(self, name: str) -> float:
        """What faults make of a condition of the device; NaN for nothing."""
        values = getattr(self.fleet.compiled.relations.conditions, name)
        return math.nan if values is None else float(values[self.fleet.roster.parts.owner(self.position)])

    def usage(self) -> str:
        if self.value("hung"):
            return f"it hangs {self.since('hung')}"
        return f"{self._waits_for_cpu()}{self.work()}"

    def _waits_for_cpu(self) -> str:
        """What its Grace CPU lacks, as text; empty for nothing."""
        racks = self.fleet.compiled.relations.racks
        shares = None if racks is None else racks.pace(self.fleet.state.levels["device"].arrays)
        share = 1.0 if shares is None else shares[self.fleet.roster.parts.owner(self.position)]
        return "" if share >= 1.0 else f"it waits for its Grace CPU, which has {share:.0%} of the cores asked for; "

    def xid(self) -> str:
        return f"the last error reported, {self.since('xid')}" if self.value("xid") else "no error since the last reset"

    def recovery_action(self) -> str:
        return {0: "nothing is advised", 1: "the board does no work until it is reset"}.get(
            int(self.value("recovery_action")), "memory repairs wait for a reset: end the work, then reset the board")

    def lost(self) -> str:
        return f"gone {self.since('lost')}" if self.value("lost") else "it is there"

    def links(self) -> str:
        fleet = self.fleet
        return links_up_text(fleet.roster, link_history(fleet.state.levels), fleet.roster.parts.owner(self.position))

    def fabric(self) -> str:
        text = self.links()
        return f"{text}; {self.work()}" if "down" in text else self.work()

    def pcie_traffic(self) -> str:
        others = self.fleet.roster.switch_mates(self.fleet.roster.parts.owner(self.position))
        if not others or self.value("work_pcie_ratio") == 1.0:
            return self.work()
        names = " and ".join(self.fleet.roster.unit_name(other) for other in others)
        return f"it shares the link of its PCIe switch to the host with {names}; {self.work()}"

    def pcie(self) -> str:
        value = self.value
        return (f"generation {value('pcie_link_generation'):g} of {value('pcie_link_generation_max'):g}, "
                f"{value('pcie_link_width'):g} of {value('pcie_link_width_max'):g} lanes"
                + (", idle" if value("throttled_idle") else ""))  # fmt: skip


def explain(fleet: Fleet, position: int, metric: str = "") -> list[Explanation]:
    """Why a device shows a metric, or its most important metrics.

    :param metric: the name of a quantity; empty for the most important ones, and for its links if some are down.
    """
    device = _Device(fleet, position)
    names = [metric] if metric else [name for name in IMPORTANT if device.level.has(name, position) or name == "lost"]
    if not metric and not device.value("lost"):
        names.remove("lost")
    owner = fleet.roster.parts.owner(position)
    if not metric and owner == position and links_down(link_history(fleet.state.levels), position):
        names.append("links_up")
    if owner == position:
        return [_explained(device, name) for name in names]
    board = _Device(fleet, owner)
    if fleet.roster.parts.is_tiled[owner]:
        return [_of_tile(name, device, board) for name in names]
    return [_explained(device, name) if name in OWN else _of_board(_explained(board, name), board) for name in names]


def _of_tile(name: str, tile: _Device, board: _Device) -> Explanation:
    """Why a tile shows a metric: its own value, its share of the board's value, or the board's value."""
    if name in OWN or tile.value("lost"):
        return _explained(tile, name)
    of_board = _explained(board, name)
    if name not in TILE_QUANTITIES:
        return _of_board(of_board, board)
    whole = board.fleet.roster.unit_name(board.position)
    is_idle = name == "core_frequency_mhz" and tile.value("throttled_idle")
    why = "no work on this tile" if is_idle else of_board.text
    return replace(of_board, value=tile.value(name), text=f"{whole} shows {of_board.value or 0:g}: {why}")


def _of_board(explanation: Explanation, board: _Device) -> Explanation:
    """Why a part shows a value of its device."""
    name = board.fleet.roster.unit_name(board.position)
    return replace(explanation, text=f"of the whole device {name}: {explanation.text}")


def _explained(device: _Device, name: str) -> Explanation:
    fleet, position = device.fleet, device.position
    owner = fleet.roster.parts.owner(position)
    is_limited = name not in _LIMITED or fleet.compiled.relations.is_limited(owner, name, fleet.state.levels[DEVICE])
    behind = fleet.faults.behind(name, position, device.level, device.near, is_limited=is_limited)
    disguises = fleet.faults.of_exporters(name, device.near)
    lost = "lost" in device.level.arrays and device.level.arrays["lost"][position] > 0
    is_there = device.level.has(name, position)
    if lost and not is_there:
        noun = "device" if position < fleet.roster.device_count else "part"
        text = f"lost {device.since('lost')}: the {noun} shows nothing"
        behind = fleet.faults.behind("lost", position, device.level, device.near)
    elif not is_there:
        text = "this device has no such metric"
    else:
        text = "counted since the start" if name in ERROR_COUNTERS else _REASONS.get(name, _Device.work)(device)
    if is_there and name in _LINK_QUANTITIES and is_limited:
        behind = _with_far_ends(device, behind)
    causes = _causes_text(behind)
    if disguises:
        names = ", ".join(f"fault {fault.fault_id} ({fault.spec.kind})" for fault in disguises)
        causes.append(f"{_shown_instead(fleet, name, position)}: {names}")
    value = device.value(name) if is_there else None
    ids = tuple(fault.fault_id for fault in (*behind, *disguises))
    return Explanation(name, value, "; ".join([text, *causes]), ids)


def _shown_instead(fleet: Fleet, name: str, position: int) -> str:
    """What pages show while a fault of an exporter affects a quantity of a unit."""
    shown = fleet.shown.levels["unit"]
    if not shown.has(name, position):
        return "pages do not show it"
    return f"pages show {shown.arrays[name][position]:g} instead"


def _causes_text(behind: Sequence[Fault]) -> list[str]:
    """Texts for the faults that cause a value."""
    return [f"cause fault {fault.fault_id} ({fault.spec.kind})" for fault in behind]


def _with_far_ends(device: _Device, behind: list[Fault]) -> list[Fault]:
    """The faults of a device, and faults of other devices that took links to it down."""
    fleet, found = device.fleet, {fault.fault_id: fault for fault in behind}
    history = link_history(fleet.state.levels)
    for link in links_down(history, fleet.roster.parts.owner(device.position)):
        found.update(
            (fault.fault_id, fault)
            for fault in faults_of_link(fleet.roster, fleet.faults, history, device.level, link)
        )
    return list(found.values())


#: The quantities that links lower when they are down.
_LINK_QUANTITIES: Final = ("links_up", *RATES)
#: Quantities that faults of links change only where work demands more than they leave, or has to take another way.
_LIMITED: Final = frozenset(name for kind in KINDS.values() for name in kind.by_limit)
_REASONS: Final[Mapping[str, Callable[[_Device], str]]] = {
    "core_frequency_mhz": _Device.clock,
    "power_watts": _Device.power,
    "temperature_celsius": _Device.temperature,
    "usage_ratio": _Device.usage,
    "xid": _Device.xid,
    "lost": _Device.lost,
    "recovery_action": _Device.recovery_action,
    "links_up": _Device.links,
    "fabric_tx_bytes_per_second": _Device.fabric,
    "fabric_rx_bytes_per_second": _Device.fabric,
    **dict.fromkeys(("pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second"), _Device.pcie_traffic),
    "pcie_link_generation": _Device.pcie,
    "pcie_link_width": _Device.pcie,
    "pcie_link_gigatransfers_per_second": _Device.pcie,
}


def link_word(word: str) -> tuple[str, int] | None:
    """The device and the link number of a word such as ``dgx-0/3/link/5``; None for other words."""
    found = _LINK_WORD.fullmatch(word)
    return (found[1], int(found[2])) if found else None


def explain_link(fleet: Fleet, device: int, number: int, metric: str = "") -> list[Explanation]:
    """Why a link shows a metric, or all metrics of links.

    :param metric: the name of a quantity of links; empty for all.
    :raises Refused: if the device has no such link, or the metric has no explanation for links.
    """
    roster, name = fleet.roster, f"{fleet.roster.unit_name(device)}/link/{number}"
    own = roster.links.of(device) if device < roster.device_count else range(0)
    if number >= len(own):
        has = f"{roster.unit_name(device)} has {len(own)}: 0 to {len(own) - 1}" if own else "none are there"
        raise Refused("unknown-name", f"no link {name!r}: {has}", "device")
    wanted = metric.replace("-", "_")
    if wanted and wanted not in _LINK_METRICS:
        wanted = fleet.quantity_of(metric)
    if wanted and wanted not in _LINK_METRICS:
        raise Refused("unknown-name", f"of links are explained {', '.join(_LINK_METRICS)}, not {metric!r}", "metric")
    level, link, history = fleet.state.levels[LINK], own[number], link_history(fleet.state.levels)
    behind = faults_of_link(roster, fleet.faults, history, fleet.state.levels["unit"], link)
    is_up, end = history.up is None or bool(history.up[link]), other_end(roster, link)
    state = ("up" if is_up else "down") + (f", it leads to {end}" if end else ", it leads out of the node")
    ups = len(own) if history.links_up is None else int(history.links_up[device])
    reasons = {
        **dict.fromkeys(RATES, f"one of {ups} links that are up, which carry alike" if is_up else "the link is down"),
        **dict.fromkeys(COUNTED, "counted since the start"),
        "link_up": state,
    }  # fmt: skip
    ids = tuple(fault.fault_id for fault in behind)
    is_gone = history.gone is not None and history.gone[device]
    silent = "the device is lost and shows nothing" if is_gone else "this link has no such metric"
    explanations = []
    for each in [wanted] if wanted else _LINK_METRICS:
        has_it = level.has(each, link)
        text = "; ".join([reasons[each] if has_it else silent, *_causes_text(behind)])
        explanations.append(Explanation(each, float(level.arrays[each][link]) if has_it else None, text, ids))
    return explanations
