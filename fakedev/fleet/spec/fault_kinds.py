"""The kinds of faults and the fields of a fault in requests, declared once, and the way to a fault and back.

A kind says what a fault takes, what it concerns, and how devices recover. The effects on devices are in
:mod:`fakedev.fleet.faults.effects`. Line ports, web, configuration and record take the fields that are declared here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from fakedev.base.errors import FieldError, did_you_mean
from fakedev.base.groups import grouped
from fakedev.base.units import number_of
from fakedev.fleet.spec.fleet_spec import FaultSpec
from fakedev.fleet.spec.quantities import CLOCK_BITS, FEC_CODEWORDS, OF_FABRIC, OF_MODULES, OF_TRAYS
from fakedev.fleet.spec.xids import XIDS_OF_APPLICATIONS
from fakedev.schema.declare import LONGEST_SECONDS, Field, FieldKind

#: In the place of a link's number: all links of a device.
ALL_LINKS: Final = -1


class Scope(Enum):
    """What a kind of fault affects."""

    BOARD = "the board itself and everything that it shows"
    SERIES = "series of the device; the board works"
    PAGE = "the page of the whole node; its boards work"
    NODE = "the whole node"
    TRAY = "the whole tray of a node in a rack; its page works"
    RACK = "the whole rack"
    ROW = "the whole row of racks"
    CLUSTER = "what a Kubernetes cluster sees of the node; its boards and its page work"


#: Faults of these scopes concern all devices of a node together.
NODE_SCOPES: Final = (Scope.PAGE, Scope.NODE, Scope.CLUSTER)
#: Faults of these scopes concern all devices of a tray, a rack or a row together.
OF_RACKS: Final = (Scope.TRAY, Scope.RACK, Scope.ROW)
#: Faults of these scopes change what devices do.
MACHINE_SCOPES: Final = (Scope.BOARD, Scope.NODE, *OF_RACKS)


@dataclass(frozen=True)
class Parameter:
    """A number that a kind of fault takes.

    :param default: None if it is required.
    :param whole: only whole numbers are valid.
    :param needs: a quantity that devices must have if the parameter is given; empty for none.
    :param instead_of: a parameter that excludes this one; empty for none.
    :param among: the valid numbers; empty for all in the range.
    """

    name: str
    low: float
    high: float
    default: float | None
    summary: str
    whole: bool = False
    needs: str = ""
    instead_of: str = ""
    among: tuple[int, ...] = ()


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault.

    :param recovery: what happens when it is over, in words.
    :param needs: a quantity that affected devices must have; empty for none.
    :param moves: quantities that it changes, directly or indirectly; empty for all.
    :param by_clock: those of ``moves`` that it changes only while it lowers the clock.
    :param reasons: bits of ``throttle_reasons`` of which one is set while it lowers the clock.
    :param by_loss: those of ``moves`` that it changes only by shutting the board down.
    :param by_limit: those of ``moves`` that it changes only where links have less than without it.
    :param by_failed_link: those of ``moves`` that it changes only once a worn link has gone down.
    :param lasts: it lasts longer than a tick. For ``xid`` that follows from its code.
    :param on_parts, on_tiles: it can affect a part without its device; if that is a tile.
    """

    name: str
    scope: Scope
    summary: str
    recovery: str
    parameters: tuple[Parameter, ...] = ()
    needs: str = ""
    lasts: bool = True
    moves: tuple[str, ...] = ()
    by_clock: tuple[str, ...] = ()
    reasons: int = 0
    by_loss: tuple[str, ...] = ()
    by_limit: tuple[str, ...] = ()
    by_failed_link: tuple[str, ...] = ()
    on_parts: bool = False
    on_tiles: bool = False

    @property
    def needs_racks(self) -> bool:
        """Whether only devices in racks can have it."""
        return self.scope in OF_RACKS or self.needs in (*OF_FABRIC, *OF_MODULES, *OF_TRAYS)

    def values(self, given: Mapping[str, float]) -> dict[str, float]:
        """The value of each parameter: the given one, its default, or 0."""
        return {parameter.name: given.get(parameter.name, parameter.default or 0.0) for parameter in self.parameters}

    def needed(self, values: Mapping[str, float]) -> dict[str, str]:
        """The quantities that devices must have to be concerned, each with what needs it.

        :param values: those that are given.
        """
        needed = {self.needs: self.name} if self.needs else {}
        given = [parameter for parameter in self.parameters if parameter.needs and parameter.name in values]
        return needed | {parameter.needs: f"{self.name} with {parameter.name}" for parameter in given}

    def why_not_on_parts(self, values: Mapping[str, float], *, are_tiles: bool) -> str:
        """Why it cannot concern only a part of a device; empty where it can.

        :param are_tiles: the part is a tile.
        """
        if are_tiles and self.on_tiles:
            return ""
        if self.scope is not Scope.BOARD or (self.on_parts and self.name != "xid"):
            return ""
        if self.name == "xid" and int(values["code"]) in XIDS_OF_APPLICATIONS:
            return ""
        what = f"XID {int(values['code'])}" if self.name == "xid" else self.name
        return f"{what} affects the whole device"

    @property
    def takes_metric(self) -> bool:
        """Whether it concerns single metrics."""
        return self.scope is Scope.SERIES and self.name != "stale-labels"


def _share(default: float, summary: str) -> Parameter:
    return Parameter("share", 0.0, 1.0, default, summary)


_COUNT: Final = Parameter("count", 1, 1e9, 1, "how many errors", whole=True)
_UNCORRECTABLE: Final = Parameter("uncorrectable", 0, 1, 0, "1: they could not be corrected", whole=True)
#: Lanes and generation of an impaired PCIe link, in place of the share.
_LANES: Final = Parameter(
    "width", 0, 32, 0, "remaining lanes; 0: from the share", whole=True, needs="pcie_link_width",
    instead_of="share", among=(0, 1, 2, 4, 8, 16, 32),
)  # fmt: skip
_GENERATION: Final = Parameter(
    "generation", 0, 6, 0, "remaining generation; 0: from the share", whole=True, needs="pcie_link_generation",
    instead_of="share",
)  # fmt: skip
_LINK: Final = Parameter(
    "link", ALL_LINKS, 63, ALL_LINKS, "the one link that is down; -1: all, from the share", whole=True,
    needs="links_up", instead_of="share",
)  # fmt: skip
#: Of XIDs 144 to 150, as NVIDIA's catalog has them.
_OF_NVLINK: Final = (
    Parameter("subcode", 0, 31, 0, "of XID 144 to 150: the subcode; 0: a usual one", whole=True),
    Parameter("status", 0, 0xFFFFFFFF, 0, "of XID 144 to 150: the error status; 0: a usual one", whole=True),
    Parameter("reason", 0, 63, 0, "of XID 149: why the link went down", whole=True),
    Parameter("link", ALL_LINKS, 63, ALL_LINKS, "the link; -1: all with XID 74, the first with XID 144 to 150",
              whole=True),
)
_PCIE_LINK: Final = ("pcie_link_width", "pcie_link_generation", "pcie_link_gigatransfers_per_second")
_TRAY: Final = Parameter("tray", 0, 31, 0, "the switch tray, from 0", whole=True)
_AT_ONCE: Final = "its effect ends at once"
_COUNTED: Final = "counters keep their values"
_BY_RESET: Final = "it returns as after reset"
_TEMPERATURES: Final = ("temperature_celsius", "memory_temperature_celsius")
_CLOCK: Final = ("core_frequency_mhz", "work_clock_ratio", "power_watts", *_TEMPERATURES)
#: Of heat: what it changes by throttling, and by shutting boards down, which an error code reports.
_BY_HEAT: Final = ("core_frequency_mhz", "work_clock_ratio", "power_watts", "throttled_thermal", "throttled_hardware")
_SHUT_DOWN: Final = ("lost", "xid")
_WARM: Final = ("fan_speed_ratio", *_TEMPERATURES, *_BY_HEAT, *_SHUT_DOWN)
#: Of the health of an NVLink fabric.
_FABRIC_HEALTH: Final = ("fabric_health_mask", "fabric_health_summary")
_LINK_STATES: Final = ("links_up", "link_errors", "link_recoveries", "xid", *_FABRIC_HEALTH)
_COOLANT: Final = ("coolant_flow_ratio", "cpu_temperature_celsius")
_HEAT: Final = CLOCK_BITS["sw_thermal"] | CLOCK_BITS["hw_thermal"]
_PCIE: Final = ("pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second")
_FABRIC: Final = ("fabric_tx_bytes_per_second", "fabric_rx_bytes_per_second")
#: What the work and its clock change: a board that hangs keeps its memory and its errors.
_HUNG: Final = (
    "hung", "recovery_action", "usage_ratio", "engine_active_ratio", "tensor_active_ratio", "copy_active_ratio",
    "encoder_active_ratio", "decoder_active_ratio", "render_active_ratio", "sm_active_ratio", "sm_occupancy_ratio",
    "fp64_active_ratio", "fp32_active_ratio", "fp16_active_ratio", "memory_bandwidth_ratio", "memory_usage_ratio",
    "memory_read_bytes_per_second", "memory_write_bytes_per_second", "memory_power_watts",
    *_PCIE, *_FABRIC, "throttled_thermal", "throttled_power", "throttled_hardware", *_CLOCK,
)  # fmt: skip
_BOARD, _SERIES, _PAGE = Scope.BOARD, Scope.SERIES, Scope.PAGE

KINDS: Final[Mapping[str, FaultKind]] = {
    kind.name: kind
    for kind in (
        FaultKind(
            "xid", _BOARD, "NVIDIA's driver reports an error, with the usual effects of its code",
            "the code stays until reset; 61, 62, 79, 95, 119, 120 and fatal errors of NVLink 5 reset the board",
            (Parameter("code", 1, 999, None, "the error code", whole=True), _COUNT, *_OF_NVLINK), "xid", on_parts=True,
        ),
        FaultKind("ecc-single", _BOARD, "corrected single-bit memory errors", _COUNTED,
                  (_COUNT, Parameter("rows", 0, 1e6, 0, "rows remapped or pages retired", whole=True)),
                  "memory_errors_correctable", lasts=False, on_tiles=True,
                  moves=("memory_errors_correctable", "remapped_rows_correctable", "retired_pages_single_bit")),
        FaultKind("ecc-double", _BOARD,
                  "double-bit memory errors: XID 48, a row remapped or a page retired for each, work ends",
                  _COUNTED + "; the remapping is pending until reset", (_COUNT,), "memory_errors_uncorrectable",
                  lasts=False, on_tiles=True),
        FaultKind("programming-errors", _BOARD, "programming errors are counted; work continues", _COUNTED, (_COUNT,),
                  "programming_errors", lasts=False, moves=("programming_errors",)),
        FaultKind("driver-errors", _BOARD, "driver errors are counted; work continues", _COUNTED, (_COUNT,),
                  "driver_errors", lasts=False, moves=("driver_errors",)),
        FaultKind("cache-errors", _BOARD, "errors in the caches are counted", _COUNTED, (_COUNT, _UNCORRECTABLE),
                  "cache_errors_correctable", lasts=False, on_tiles=True,
                  moves=("cache_errors_correctable", "cache_errors_uncorrectable")),
        FaultKind("non-compute-errors", _BOARD, "errors outside the compute engines are counted", _COUNTED,
                  (_COUNT, _UNCORRECTABLE), "non_compute_errors_correctable", lasts=False, on_tiles=True,
                  moves=("non_compute_errors_correctable", "non_compute_errors_uncorrectable")),
        FaultKind("inlet", _BOARD, "warmer air at the inlet", "the board cools down as it warmed up",
                  (Parameter("celsius", -50, 100, 15, "how much warmer"),), "inlet_temperature_celsius",
                  moves=("inlet_temperature_celsius", *_WARM), by_clock=_BY_HEAT, reasons=_HEAT, by_loss=_SHUT_DOWN),
        FaultKind("fan", _BOARD, "the fan of the board or its server stops",
                  "the fan starts again and the board cools down",
                  (Parameter("resistance", 1, 100, 4, "factor on the thermal resistance with the fan"),),
                  "inlet_temperature_celsius", moves=_WARM, by_clock=_BY_HEAT, reasons=_HEAT, by_loss=_SHUT_DOWN),
        FaultKind("overheat", _BOARD, "the core gets hot, whatever the board draws: the thermal slowdown of the "
                  "hardware lasts", "the board cools down",
                  (Parameter("celsius", 0, 150, 0, "where the core goes; 0: 1 over the highest limit that throttles"),),
                  "inlet_temperature_celsius", moves=_WARM, by_clock=_BY_HEAT, reasons=_HEAT, by_loss=_SHUT_DOWN),
        FaultKind("power-brake", _BOARD, "the server applies the power brake: the clock halves at once",
                  "clocks return at once", needs="power_limit_watts",
                  moves=("throttled_hardware", *_CLOCK), by_clock=("throttled_hardware", *_CLOCK),
                  reasons=CLOCK_BITS["hw_power_brake"]),
        FaultKind("power-cap", _BOARD, "another power limit", "the type's limit returns; clocks rise in steps",
                  (Parameter("watts", 1, 1e5, None, "the limit"),), "power_limit_watts",
                  moves=("power_limit_watts", "throttled_power", *_CLOCK), by_clock=("throttled_power", *_CLOCK),
                  reasons=CLOCK_BITS["power_cap"]),
        FaultKind("clock-lock", _BOARD, "the core clock is locked", _AT_ONCE,
                  (Parameter("megahertz", 1, 1e5, None, "the highest clock"),), "power_limit_watts",
                  moves=_CLOCK, by_clock=_CLOCK, reasons=CLOCK_BITS["clocks_setting"]),
        FaultKind("sync-boost", _BOARD, "the board is in a group that boosts together, and the slowest holds its clock",
                  _AT_ONCE, (_share(0.8, "what the group leaves of the highest clock"),), "xid",
                  moves=("throttled_sync_boost_seconds", *_CLOCK), by_clock=_CLOCK,
                  reasons=CLOCK_BITS["sync_boost"]),
        FaultKind("hang", _BOARD, "the board hangs: fully used without progress", _AT_ONCE, needs="hung",
                  moves=_HUNG),
        FaultKind("link-down", _BOARD, "links to other boards are down: XID 74; with every= and probability= they flap",
                  "traffic returns; the error stays counted",
                  (_share(0.0, "remaining share of the links' capacity"), _LINK),
                  "fabric_tx_bytes_per_second",
                  moves=(*_FABRIC, "links_up", "link_errors", "link_recoveries", "xid"), by_limit=_FABRIC),
        FaultKind("pcie-slow", _BOARD, "the PCIe link has lost width or speed", _AT_ONCE,
                  (_share(0.5, "remaining share of the link's capacity"), _LANES, _GENERATION), "power_limit_watts",
                  moves=(*_PCIE, *_PCIE_LINK), by_limit=(*_PCIE, *_PCIE_LINK)),
        FaultKind("pcie-replays", _BOARD, "the PCIe link repeats transfers", _COUNTED,
                  (Parameter("rate", 0, 1e6, 10, "replays per second"),), "pcie_replays",
                  moves=("pcie_replays",)),
        FaultKind("lost", _BOARD, "the board has fallen off the bus: work ends, and it shows only XID 79",
                  _BY_RESET, on_parts=True),
        FaultKind("reset", _BOARD, "the board is reset and its driver reloaded: work ends, its XID is cleared, "
                  "energy and traffic count from 0", _AT_ONCE, lasts=False, on_parts=True),
        FaultKind("cable", _BOARD, "a cable of the NVLink fabric wears out: bit errors of a link grow until it goes "
                  "down, with XID 149",
                  "the cable is replaced: the link is as good as the others; counters keep their values",
                  (Parameter("link", 0, 63, 0, "the link", whole=True),
                   Parameter("rate", 0, 1e4, 1, "powers of ten by which bit errors grow in an hour")),
                  "link_raw_ber_ratio", moves=(*_FABRIC, *_LINK_STATES, *OF_FABRIC, *FEC_CODEWORDS), by_limit=_FABRIC,
                  by_failed_link=(*_FABRIC, *_LINK_STATES, "link_failed", "link_recoveries_failed")),
        FaultKind("switch-tray", Scope.RACK, "a switch tray of the rack is lost: two links of each board are down, "
                  "with XID 149; the others carry the traffic", "the links return; errors stay counted", (_TRAY,),
                  "fabric_health_mask", moves=(*_FABRIC, *_LINK_STATES), by_limit=_FABRIC),
        FaultKind("partition-mismatch", _BOARD, "the board is in no partition of its NVLink fabric: links are up and "
                  "carry nothing", "it is registered again, and traffic returns", needs="fabric_health_mask",
                  moves=(*_FABRIC, "fabric_manager_status", "fabric_manager_error", *_FABRIC_HEALTH), by_limit=_FABRIC),
        FaultKind("route", _BOARD, "a route of the board through its NVLink fabric is lost: links are up, and carry "
                  "less; it is unhealthy when it was not restored in 10 seconds", "traffic returns",
                  (Parameter("share", 0, 1, 0.94, "remaining share of the traffic"),), "fabric_health_mask",
                  moves=(*_FABRIC, *_FABRIC_HEALTH, "fabric_route_seconds"), by_limit=_FABRIC),
        FaultKind("imex-down", Scope.TRAY, "the node's IMEX daemon is down: new work that exchanges memory over the "
                  "fabric with other nodes ends at once",
                  "the daemon starts anew, and is ready 12 seconds later: work that shared memory before ends",
                  needs="imex_daemon_status",
                  moves=("imex_daemon_status", "imex_ready_seconds", "imex_domain_status", "imex_nodes_ready")),
        FaultKind("coolant-leak", Scope.TRAY, "coolant leaks from the node's tray: it is detected, and less flows",
                  "the tray is tight again, and its boards cool down",
                  (Parameter("resistance", 1, 100, 2, "factor on the thermal resistance"),), "coolant_leak",
                  moves=("coolant_leak", *_WARM), by_clock=_BY_HEAT, reasons=_HEAT, by_loss=_SHUT_DOWN),
        FaultKind("pump", Scope.RACK, "a pump fails: less coolant flows through the rack", "boards cool down",
                  (Parameter("share", 0.05, 1, 0.3, "remaining share of the flow"),), "coolant_flow_ratio",
                  moves=(*_COOLANT, *_WARM), by_clock=_BY_HEAT, reasons=_HEAT, by_loss=_SHUT_DOWN),
        FaultKind("valve", Scope.TRAY, "the coolant valve of the node's tray sticks: less flows through it",
                  "boards cool down", (Parameter("share", 0.05, 1, 0.3, "remaining share of the flow"),),
                  "coolant_flow_ratio", moves=(*_COOLANT, *_WARM), by_clock=_BY_HEAT, reasons=_HEAT,
                  by_loss=_SHUT_DOWN),
        FaultKind("busbar", Scope.RACK, "the rack may draw less: a power shelf or a feed is lost, and boards share "
                  "what is left", "clocks rise again",
                  (Parameter("kilowatts", 0.1, 1e4, 60, "what the rack may draw"),), "coolant_flow_ratio",
                  moves=("throttled_power", *_CLOCK), by_clock=("throttled_power", *_CLOCK),
                  reasons=CLOCK_BITS["power_cap"]),
        FaultKind("fan-wall", Scope.ROW, "fans of a row of racks fail: the air in front of them gets warmer",
                  "boards cool down as they warmed up",
                  (Parameter("celsius", -50, 100, 12, "how much warmer"),), "inlet_temperature_celsius",
                  moves=("inlet_temperature_celsius", *_WARM), by_clock=_BY_HEAT, reasons=_HEAT, by_loss=_SHUT_DOWN),
        FaultKind("grace-thermal", Scope.TRAY, "the node's Grace CPUs get hot, and slow down", "they cool down",
                  (Parameter("celsius", 0, 150, 70, "how much warmer"),), "cpu_temperature_celsius",
                  moves=OF_MODULES),
        FaultKind("c2c-errors", _BOARD, "errors on the links to the Grace CPU are counted; work continues", _COUNTED,
                  (_COUNT,), "c2c_errors", lasts=False, moves=("c2c_errors",)),
        FaultKind("node-down", Scope.NODE, "the node is down: its page is closed without an answer, its work ends",
                  "its boards return as after reset",
                  (Parameter("leave-sd", 0, 1, 0, "1: it is missing from /sd too", whole=True),)),
        FaultKind("plugin-down", Scope.CLUSTER, "the node's device plugin is gone: the cluster can give none of its "
                  "devices to new pods", "the plugin is back, and lists its devices anew"),
        FaultKind("kubelet-restart", Scope.CLUSTER, "the node's kubelet starts again: the node is not ready while it "
                  "lasts, and its device plugin registers anew", "the node is ready; its pods have kept their devices"),
        FaultKind("absent", _SERIES, "series are missing", _AT_ONCE),
        FaultKind("nan", _SERIES, "series are NaN", _AT_ONCE),
        FaultKind("sentinel", _SERIES, "series show a value that stands for a missing one", _AT_ONCE,
                  (Parameter("value", -1e300, 1e300, 9223372036854775794.0, "the shown value"),)),
        FaultKind("frozen", _SERIES, "series stop changing", "they jump to the true values"),
        FaultKind("counter-reset", _SERIES, "the exporter's counters restart at 0", "counters continue from there",
                  lasts=False),
        FaultKind("stale-labels", _SERIES, "labels of pods stay after their work is over", _AT_ONCE),
        FaultKind("slow-page", _PAGE, "the page is late", _AT_ONCE,
                  (Parameter("seconds", 0, 3600, 30, "how late"),)),
        FaultKind("cut-page", _PAGE, "the page ends in the middle", _AT_ONCE,
                  (_share(0.5, "share of the page that is sent"),)),
        FaultKind("error-page", _PAGE, "the page is an error", _AT_ONCE,
                  (Parameter("status", 400, 599, 500, "HTTP status", whole=True),)),
        FaultKind("wrong-type", _PAGE, "the page has the Content-Type of HTML", _AT_ONCE),
    )
}  # fmt: skip


#: The parameters of all kinds: name to the kinds that take it.
PARAMETERS: Final[Mapping[str, Mapping[str, Parameter]]] = {
    name: {kind.name: parameter for kind in KINDS.values() for parameter in kind.parameters if parameter.name == name}
    for name in dict.fromkeys(parameter.name for kind in KINDS.values() for parameter in kind.parameters)
}


def _purpose(takers: Mapping[str, Parameter]) -> str:
    """What a parameter is, with the kinds that take it: ``the limit (power-cap)``."""
    kinds = grouped((parameter.summary, kind) for kind, parameter in takers.items())
    return "; ".join(f"{summary} ({', '.join(names)})" for summary, names in kinds.items())


def _time(name: str, purpose: str, zero: str) -> Field:
    return Field(name, purpose, "DURATION", FieldKind.DURATION, 0.0, f"{name}_seconds", high=LONGEST_SECONDS, zero=zero)


#: The fields that faults take, by name; the last ones are parameters of kinds.
FAULT_FIELDS: Final[Mapping[str, Field]] = {
    field.name: field
    for field in (
        Field("kind", "what goes wrong", "KIND"),
        Field("devices", "devices, as for a workload; default: all of the node", "WORD,...", FieldKind.LIST),
        Field("node", "node of the device words that name none", "NODE"),
        _time("start", "how long after the next tick it begins", ""),
        _time("duration", "how long it lasts", "until it is cleared"),
        _time("every", "how often it happens again, or is drawn again if it lasts", "for once"),
        Field(
            "probability", "0 to 1: how likely it is to affect a device, at each draw", "NUMBER",
            FieldKind.NUMBER, 1.0, high=1,
        ),
        Field("metric", "metric that it affects, of kinds that affect series; all when not given", "METRIC"),
        *(Field(name, _purpose(takers), "NUMBER", FieldKind.NUMBER, 0.0) for name, takers in PARAMETERS.items()),
    )
}  # fmt: skip
#: Fields whose value is that of an attribute of the specification.
_PLAIN: Final = tuple(
    FAULT_FIELDS[name] for name in ("node", "start", "duration", "every", "probability", "metric")
)


def fault_from_fields(fields: Mapping[str, object]) -> FaultSpec:
    """The fault that the fields describe (FAULT_FIELDS; doc/faults.md says what each kind takes).

    :raises FieldError: naming the field at fault.
    """
    kind = _kind(fields.get("kind"))
    taken = {parameter.name for parameter in kind.parameters} | ({"metric"} if kind.takes_metric else set())
    allowed = [name for name in FAULT_FIELDS if name in taken or (name not in PARAMETERS and name != "metric")]
    for field in fields:
        if field not in allowed:
            raise FieldError(field, f"is nothing that the fault {kind.name} takes{did_you_mean(field, allowed)}")
    values = {}
    for parameter in kind.parameters:
        if parameter.name in fields or parameter.default is None:
            values[parameter.name] = _value(parameter, fields.get(parameter.name))
        if parameter.name in fields and parameter.instead_of in fields:
            raise FieldError(parameter.name, f"does not go with {parameter.instead_of}: give one of the two")
    plain: dict[str, Any] = {field.spec_name: field.read(fields) for field in _PLAIN}
    if "devices" not in fields and not plain["node"]:
        raise FieldError("devices", "say which devices: all, dgx-0/3, dgx-[0-3]/*; or give node=")
    return FaultSpec(kind=kind.name, devices=_devices(fields.get("devices", "all")), values=values, **plain)


def fields_of_fault(spec: FaultSpec) -> dict[str, object]:
    """The fields that :func:`fault_from_fields` turns into this very fault; defaults left out."""
    fields: dict[str, object] = {"kind": spec.kind, "devices": list(spec.devices)}
    for field in _PLAIN:
        value = getattr(spec, field.spec_name)
        if value != field.default:
            fields[field.name] = value
    return fields | dict(spec.values)


def _kind(value: object) -> FaultKind:
    if not isinstance(value, str) or value not in KINDS:
        hint = did_you_mean(str(value), KINDS, f": give one of {', '.join(KINDS)}")
        raise FieldError("kind", f"no kind of fault {str(value)[:100]!r}{hint}")
    return KINDS[value]


def _value(parameter: Parameter, value: object) -> float:
    number = number_of(value)
    if number is None or not parameter.low <= number <= parameter.high or (parameter.whole and number % 1):
        noun = "a whole number" if parameter.whole else "a number"
        reason = f"must be {noun} from {parameter.low:g} to {parameter.high:g}: {parameter.summary}"
        raise FieldError(parameter.name, "missing: it " + reason if value is None else reason)
    if parameter.among and number not in parameter.among:
        raise FieldError(parameter.name, f"must be one of {', '.join(map(str, parameter.among))}: {parameter.summary}")
    return number


def _devices(value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) and word for word in words):
        raise FieldError("devices", "must be a list of device words, as card0 or dgx-[0-3]/*")
    return tuple(words)
