"""Racks in a tick: CPUs, power of modules and racks, coolant, and the health of the NVLink fabric.

All state is in quantities of the devices; those of a CPU or a node are repeated on each of its devices. In order:

1. Before the boards' tick: what CPUs want to draw follows from the work of their GPUs in the tick before; what a module
   and a rack leave is shared among their boards (:meth:`Racks.bounds`). Worn links that fail go down.
2. After it: CPUs take what is left of their module, at most what they want; clock and temperature follow.
3. The links' errors, and the health of the fabric.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from fakedev.fleet.entities.randomness import Floats, sub_keys, uniform
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.state import LazyArrays, Level, Mask
from fakedev.fleet.faults.per_tick import Cut, FaultTick
from fakedev.fleet.racks import link_quality
from fakedev.fleet.racks.rack_layout import RackLayout
from fakedev.fleet.spec.fault_kinds import Scope
from fakedev.fleet.spec.nvlink_errors import BAD_SIGNAL, link_down
from fakedev.fleet.spec.quantities import CPU_CORES, FEC_CODEWORDS, IMEX_DOMAIN_WORDS, OF_FABRIC, OF_MODULES, OF_TRAYS
from fakedev.fleet.spec.rack_spec import RackSpec
from fakedev.fleet.spec.xids import Xid

#: Levels of entities: CPUs, their cores, nodes in racks, racks.
CPU: Final = "cpu"
CORE: Final = "cpucore"
HOST: Final = "host"
RACK: Final = "rack"
#: A Grace CPU: its idle and highest power, and that of its memory and I/O. Together idle 143 W, by which an idle
#: module of captures draws more than its two boards; the highest is chosen.
_IDLE_WATTS: Final = 95.0
_MOST_WATTS: Final = 300.0
_SYSIO_WATTS: Final = 48.0
#: What a CPU keeps when boards take all of their module: chosen.
_LEAST_WATTS: Final = 25.0
#: Its highest clock (netdata's list of metrics has 3200000 kHz); the lowest, and how power falls with it: chosen.
_CLOCK_MHZ: Final = 3200.0
_LEAST_CLOCK_SHARE: Final = 0.1
_CLOCK_EXPONENT: Final = 2.0
#: Cores that a fully used GPU keeps busy with launches and data, and those of an idle system: chosen.
_CORES_OF_GPU: Final = 6.0
_IDLE_CORES: Final = 0.4
#: The time constants of its use and its temperature, its thermal resistance (K/W), and its trip points: chosen.
_USE_SECONDS: Final = 2.0
_HEAT_SECONDS: Final = 20.0
_RESISTANCE: Final = 0.12
_WARNING_CELSIUS: Final = 95.0
_CRITICAL_CELSIUS: Final = 105.0
_COOLANT_CELSIUS: Final = 25.0
#: The ten links of a Grace CPU carry 447 GB/s each way (900 in both, in NVIDIA's description of GB200); each of its two
#: boards has five. Host memory is reached over them: what a board moves over PCIe elsewhere, and more; the factor is
#: chosen.
_C2C_MOST: Final = 5 * 44.712e9
_C2C_PER_PCIE: Final = 8.0
#: What a switch tray draws, in watts; and what the coolant of a rack takes up at its full flow, in watts per kelvin: 80
#: litres of water a minute. Both chosen.
_SWITCH_TRAY_WATTS: Final = 800.0
_FLOW_LITRES: Final = 80.0
_WATTS_PER_KELVIN_LITRE: Final = 4180.0 / 60.0
#: How long after its start a fabric manager has registered a board, and an IMEX daemon is in each state: chosen.
_REGISTERED_SECONDS: Final = 20.0
_IMEX_STATES: Final = ((2.0, 0), (4.0, 1), (10.0, 2), (12.0, 4))
IMEX_READY: Final = 5.0
_IMEX_UNAVAILABLE: Final = 7.0
#: States of an IMEX domain, by the place of their words: for a node whose daemon is not ready it is down.
_IMEX_UP, _IMEX_DEGRADED, _IMEX_DOWN = map(float, range(len(IMEX_DOMAIN_WORDS)))
#: How long accesses over the fabric time out after a link went down: chosen.
_TIMEOUT_SECONDS: Final = 30.0
#: How long a route is restored, before it is unhealthy: chosen.
_ROUTE_SECONDS: Final = 10.0
#: Long ago, for what has been ready since before the simulation.
_LONG: Final = 1e9
#: States of the fabric manager, and NVML's code for an error that has no other.
_IN_PROGRESS, _SUCCESS, _FAILURE = 2.0, 3.0, 4.0
_UNKNOWN_ERROR: Final = 999.0
#: Values of the fields of the health mask: yes and no; what is wrong with the configuration.
_YES, _NO = 1, 2
_CONFIGURED, _NO_PARTITION = 1, 4
_HEALTHY, _UNHEALTHY, _LIMITED = 1.0, 2.0, 3.0


class PowerBounds(NamedTuple):
    """The power of D devices in a tick, in watts: arrays of shape (D,); None for no bound at all.

    :ivar most: what they may draw; NaN for no limit.
    :ivar least: what power smoothing has them draw.
    """

    most: Floats | None
    least: Floats | None


NO_BOUNDS: Final = PowerBounds(None, None)


class Racks:
    """The racks of a fleet: pure functions of the devices' quantities in the tick before."""

    def __init__(self, roster: Roster, seed: int) -> None:
        self.layout = layout = RackLayout(roster)
        self._seed, self._keys = seed, roster.keys
        self._links = roster.links.counts.astype(np.float64)
        types = [node.pool.device_type for node in roster.nodes]
        counts = [len(node.devices) for node in roster.nodes]
        dynamics = [device_type.dynamics for device_type in types]
        self._own_watts = np.repeat([each.power_limit_watts if each else math.inf for each in dynamics], counts)
        self._least_watts = np.repeat([device_type.power_limit_ends()[0] for device_type in types], counts)
        self._rack_watts = np.array([rack.power_limit_watts for rack in layout.racks])
        self._trays_watts = np.array([rack.switch_trays * _SWITCH_TRAY_WATTS for rack in layout.racks])
        self._cores = CoreUse(layout, seed)
        hosts = [layout.racks[rack] for rack in layout.rack_of[layout.host_first].tolist()]
        self._tray_watts = np.array([host.tray_power_limit_watts for host in hosts])
        firsts = np.unique(layout.row_of, return_index=True)[1].tolist()
        self._row_watts = np.array([layout.racks[rack].row_power_limit_watts for rack in firsts])
        self._smooths = any(rack.smooths_power for rack in layout.racks)
        pools = [node.pool.racks or RackSpec() for node in roster.nodes]
        self._floor_watts = np.repeat([pool.smoothing_floor_percent / 100.0 for pool in pools], counts) * np.where(
            np.isfinite(self._own_watts), self._own_watts, 0.0
        )
        self._hold_seconds = np.repeat([pool.smoothing_hold_seconds for pool in pools], counts)
        self._ramp_up, self._ramp_down = (
            np.repeat(watts, counts)
            for watts in ([pool.ramp_up_watts for pool in pools], [pool.ramp_down_watts for pool in pools])
        )

    @classmethod
    def of(cls, roster: Roster, seed: int) -> Racks | None:
        """The racks of a fleet; None without any."""
        return cls(roster, seed) if any(pool.racks is not None for pool in roster.pools) else None

    def present(self, has: Mapping[str, Mask]) -> Mapping[str, Mask]:
        """The quantities of racks, with the devices that have them: shape (D,).

        :param has: the same of all other quantities.
        """
        layout = self.layout
        found = dict.fromkeys(OF_TRAYS, layout.is_racked) | dict.fromkeys((*OF_MODULES, CPU_CORES), layout.on_module)
        for way in ("tx", "rx"):
            moves = has.get(f"pcie_{way}_bytes_per_second", np.zeros(len(self._links), np.bool_))
            found[f"c2c_{way}_bytes_per_second"] = layout.on_module & moves
        return found | dict.fromkeys((*OF_FABRIC, *FEC_CODEWORDS), layout.has_fabric)

    def cores(self) -> Floats:
        """The cores of each device's CPU, 0 without one: shape (D,)."""
        layout = self.layout
        return layout.on_devices(layout.cores.astype(np.float64)) if len(layout.cores) else np.zeros(len(self._links))

    def pace(self, level: Mapping[str, Floats]) -> Floats | None:
        """The speed of work that asks for cores, by the cores that its CPU has for it: shape (D,); None: all have them.

        A slower clock is as fewer cores. Launches of kernels go first.
        """
        layout, asked = self.layout, level[CPU_CORES]
        if not asked.any():
            return None
        asked, busy = layout.of_cpus(asked), layout.of_cpus(level["usage_ratio"])
        clock = level["cpu_frequency_mhz"][layout.cpu_first] / _CLOCK_MHZ
        has = np.maximum(layout.cores * clock - _IDLE_CORES - _CORES_OF_GPU * busy, 0.0)
        shares = np.divide(has, asked, out=np.ones(len(asked)), where=asked > has)
        return np.where(layout.on_module, layout.on_devices(shares), 1.0)

    # -- before the boards' tick -----------------------------------------------------------------

    def bounds(self, before: Level, faults: FaultTick | None, seconds: float) -> PowerBounds:
        """What modules, trays, racks and rows leave to each board in a tick, and what power smoothing holds.

        :param before: the devices a tick ago.
        """
        layout, drawn = self.layout, self._drawn(before.arrays)
        least, shared = None, np.full(len(drawn), np.inf)
        if self._smooths:
            # Only work raises the floor; the power falls by the ramp, whatever it was.
            idle = before.arrays.get("smoothing_idle_seconds", np.full(len(drawn), _LONG))
            shared = drawn + self._ramp_up * seconds
            floor = np.where(idle <= self._hold_seconds, self._floor_watts, 0.0)
            least = np.maximum(np.minimum(floor, shared), drawn - self._ramp_down * seconds)
        if len(layout.cpu_first):
            use = self._use(before.arrays, seconds)
            room = layout.module_limit_watts - _watts(use) - _SYSIO_WATTS
            of_modules = self._shares(drawn, room, layout.cpu_of, layout.on_module)
            shared[layout.on_module] = np.minimum(shared[layout.on_module], of_modules)
        limits = self._rack_watts
        given = None if faults is None else faults.get("rack_kilowatts")
        if given is not None:
            of_faults = np.full(layout.count, np.inf)
            own = given[: len(drawn)][layout.is_racked] * 1000.0
            np.fmin.at(of_faults, layout.rack_of[layout.is_racked], own)
            limits = np.fmin(limits, of_faults)
        besides, racked = self._besides(before.arrays), layout.is_racked
        rows = np.bincount(layout.row_of, besides) if layout.count else besides
        for of_group, groups, others in (
            (self._tray_watts, layout.groups(Scope.TRAY), self._cpus_of_hosts(before.arrays)),
            (limits, layout.rack_of, besides), (self._row_watts, layout.groups(Scope.ROW), rows),
        ):  # fmt: skip
            if np.isfinite(of_group).any():
                of_boards = self._shares(drawn, of_group - others, groups, racked)
                shared[racked] = np.minimum(shared[racked], of_boards)
        binding = shared < self._own_watts
        if not binding.any():
            return PowerBounds(None, least)
        return PowerBounds(np.where(binding, np.maximum(np.floor(shared), self._least_watts), np.nan), least)

    @staticmethod
    def _shares(drawn: Floats, room: Floats, groups: np.ndarray[tuple[int], np.dtype[np.int64]], which: Mask) -> Floats:
        """What each of some boards may draw: what it drew, and an equal part of what its group has left."""
        own = groups[which]
        counts = np.bincount(own, minlength=len(room))
        left = (room - np.bincount(own, drawn[which], minlength=len(room))) / np.maximum(counts, 1)
        shares: Floats = drawn[which] + left[own]
        return shares

    def strike(self, before: Level, faults: FaultTick | None) -> bool:
        """Take worn links that fail down in this tick; whether other links are down than a tick ago.

        :param faults: gets what happens to links.
        """
        if "link_failed" not in before.arrays:
            return False
        was = before.arrays["link_failed"] > 0
        if faults is None or (worn := faults.get("worn_link")) is None:
            return bool(was.any())
        worn = worn[: len(was)]
        failing = (worn >= 0) & (was | (before.arrays["link_effective_ber_ratio"] > link_quality.FAILING_BER))
        for link in np.unique(worn[failing]).astype(np.int64).tolist():
            of_link = failing & (worn == link)
            faults.cuts.append(Cut(np.flatnonzero(of_link), link))
            if len(new := np.flatnonzero(of_link & ~was)):
                faults.struck.append(Cut(new, link))
                faults.put("link_errors", new, 1.0, np.add)
                faults.report(new, Xid.NETIR, link_down(BAD_SIGNAL, link))
        return not np.array_equal(failing, was)

    # -- after it ----------------------------------------------------------------------------------

    def quantities(
        self, arrays: Mapping[str, Floats], before: Level | None, faults: FaultTick | None, seconds: float, tick: int
    ) -> dict[str, Floats]:
        """The quantities of racks after a tick.

        :param arrays: the other quantities of the devices.
        """
        past = {} if before is None else before.arrays
        made = self._trays(arrays, past, faults, seconds)
        if len(self.layout.cpu_first):
            made |= self._modules(arrays, past, faults, seconds)
        if self.layout.has_fabric.any():
            made |= self._fabric(arrays, past, faults, seconds, tick)
        return made

    def _domains(self, status: Floats) -> dict[str, Floats]:
        """The IMEX domains of the nodes of the devices: as many of their nodes are ready.

        :param status: of the daemons, shape (D,).
        """
        layout = self.layout
        ready = status[layout.host_first] == IMEX_READY
        counts = np.bincount(layout.domain_of)
        found = np.bincount(layout.domain_of, ready)[layout.domain_of]
        state = np.where(ready, np.where(found < counts[layout.domain_of], _IMEX_DEGRADED, _IMEX_UP), _IMEX_DOWN)
        hosts = layout.host_of
        return {
            "imex_domain_status": np.where(layout.is_racked, state[hosts], _IMEX_UP),
            "imex_nodes_ready": np.where(layout.is_racked, found[hosts], 0.0),
        }

    def _trays(
        self, arrays: Mapping[str, Floats], past: Mapping[str, Floats], faults: FaultTick | None, seconds: float
    ) -> dict[str, Floats]:
        count = len(self.layout.rack_of)
        ready = past.get("imex_ready_seconds", np.full(count, _LONG)) + seconds
        is_down = self._of(faults, "imex_down") > 0
        if faults is not None and (lost := faults.get("lost")) is not None:
            # With one board of a node lost, the daemon has no access to its GPUs.
            hosts = np.unique(self.layout.host_of[lost[:count] > 0])
            is_down |= self.layout.is_racked & np.isin(self.layout.host_of, hosts)
        ready = np.where(is_down, 0.0, np.minimum(ready, _LONG))
        status = np.full(count, IMEX_READY)
        for until, state in reversed(_IMEX_STATES):
            status = np.where(ready < until, state, status)
        status = np.where(is_down, _IMEX_UNAVAILABLE, status)
        busy = arrays["usage_ratio"] > 0 if "usage_ratio" in arrays else np.zeros(count, np.bool_)
        idle = past.get("smoothing_idle_seconds", np.full(count, _LONG))
        return {
            "imex_ready_seconds": ready,
            "imex_daemon_status": status,
            **self._domains(status),
            "smoothing_idle_seconds": np.where(busy, 0.0, np.minimum(idle + seconds, _LONG)),
            "coolant_leak": np.minimum(self._of(faults, "leak"), 1.0),
            "coolant_flow_ratio": self._of(faults, "flow_share", 1.0),
        }

    def _use(self, past: Mapping[str, Floats], seconds: float) -> Floats:
        """The use of each CPU in a tick, 0 to 1: it follows the work of its GPUs in the tick before. Shape (C,)."""
        layout = self.layout
        busy = layout.of_cpus(past["usage_ratio"]) if "usage_ratio" in past else np.zeros(len(layout.cpu_first))
        asked = layout.of_cpus(past[CPU_CORES]) if CPU_CORES in past else 0.0
        wanted = np.minimum((_IDLE_CORES + _CORES_OF_GPU * busy + asked) / layout.cores, 1.0)
        if "cpu_usage_ratio" not in past:
            return wanted
        was = past["cpu_usage_ratio"][layout.cpu_first]
        use: Floats = was + (wanted - was) * -math.expm1(-seconds / _USE_SECONDS)
        return use

    def _modules(
        self, arrays: Mapping[str, Floats], past: Mapping[str, Floats], faults: FaultTick | None, seconds: float
    ) -> dict[str, Floats]:
        """CPUs, the power of their modules, and the traffic between them and their boards."""
        layout, firsts = self.layout, self.layout.cpu_first
        use, boards = self._use(past, seconds), layout.of_cpus(self._drawn(arrays))
        wanted = _watts(use)
        supply = arrays["inlet_temperature_celsius"][firsts] if "inlet_temperature_celsius" in arrays \
            else np.full(len(firsts), _COOLANT_CELSIUS)
        was = past.get("cpu_temperature_celsius")
        hot = (was[firsts] if was is not None else supply) >= _WARNING_CELSIUS
        most = np.where(hot, _LEAST_WATTS + (wanted - _LEAST_WATTS) * 0.5, wanted)
        power = np.clip(layout.module_limit_watts - boards - _SYSIO_WATTS, _LEAST_WATTS, most)
        clock = np.maximum((power / wanted) ** (1.0 / _CLOCK_EXPONENT), _LEAST_CLOCK_SHARE) * _CLOCK_MHZ
        flow = self._of(faults, "flow_share", 1.0)[firsts]
        goal = supply + self._of(faults, "cpu_rise_celsius")[firsts] + power * _RESISTANCE / np.maximum(flow, 0.05)
        share = 1.0 if was is None else -math.expm1(-seconds / _HEAT_SECONDS)
        warm = goal if was is None else was[firsts] + (goal - was[firsts]) * share
        errors = past.get("c2c_errors", np.zeros(len(layout.cpu_of)))
        if faults is not None and faults.get("c2c_errors") is not None:
            errors = errors + self._of(faults, "c2c_errors")
        made = {
            "cpu_usage_ratio": use, "cpu_power_watts": power, "cpu_frequency_mhz": clock,
            "cpu_temperature_celsius": warm, "sysio_power_watts": np.full(len(firsts), _SYSIO_WATTS),
            "module_power_watts": boards + power + _SYSIO_WATTS,
        }  # fmt: skip
        traffic = {
            f"c2c_{way}_bytes_per_second": np.minimum(arrays[name] * _C2C_PER_PCIE, _C2C_MOST)
            for way in ("tx", "rx") if (name := f"pcie_{way}_bytes_per_second") in arrays
        }  # fmt: skip
        return {name: layout.on_devices(values) for name, values in made.items()} | traffic | {"c2c_errors": errors}

    def _fabric(
        self, arrays: Mapping[str, Floats], past: Mapping[str, Floats], faults: FaultTick | None, seconds: float,
        tick: int,
    ) -> dict[str, Floats]:  # fmt: skip
        """The errors of links, and the health of the fabric."""
        count = len(self._links)
        nothing = np.zeros(count)
        # A new cable is as good as the others.
        wear = past.get("link_wear_decades", nothing)
        worn = self._of(faults, "worn_link", -1.0)
        wear = np.where(worn >= 0, wear + self._of(faults, "wear_per_hour") * seconds / 3600.0, 0.0)
        good = link_quality.wandering(self._seed, self._keys, tick * seconds)
        links = link_quality.quality(good, arrays["links_up"], wear)
        was_failed = past.get("link_failed", nothing) > 0
        had_errors = past.get("link_effective_ber_ratio", nothing) > link_quality.FAILING_BER
        has_failed = (worn >= 0) & (was_failed | had_errors)
        rates = {
            "link_recoveries_successful": np.where(has_failed, 0.0, links.recoveries),
            "link_effective_errors": links.uncorrected, "link_symbol_errors": links.uncorrected,
            **dict(zip(FEC_CODEWORDS, links.codewords, strict=True)),
        }  # fmt: skip
        reset = None if faults is None else faults.resets()

        def counted(name: str, more: Floats) -> Floats:
            so_far = past.get(name, nothing)
            return (so_far if reset is None else np.where(reset, 0.0, so_far)) + more

        counters = {name: counted(name, rate * seconds) for name, rate in rates.items()}
        failed = (has_failed & ~was_failed).astype(np.float64)
        counters["link_recoveries_failed"] = counted("link_recoveries_failed", failed)
        return counters | self._health(arrays, past, faults, seconds) | {
            "link_wear_decades": wear, "link_failed": has_failed.astype(np.float64),
            "link_raw_ber_ratio": links.raw_ber, "link_effective_ber_ratio": links.effective_ber,
            "link_symbol_ber_ratio": links.symbol_ber,
            "link_effective_ber_packed": link_quality.packed(links.effective_ber),
            "link_symbol_ber_packed": link_quality.packed(links.symbol_ber),
        }  # fmt: skip

    def _health(
        self, arrays: Mapping[str, Floats], past: Mapping[str, Floats], faults: FaultTick | None, seconds: float
    ) -> dict[str, Floats]:
        count = len(self._links)
        ready = past.get("fabric_ready_seconds", np.full(count, _LONG)) + seconds
        reset = None if faults is None else faults.resets()
        ready = np.minimum(ready if reset is None else np.where(reset, 0.0, ready), _LONG)
        closed = self._of(faults, "fabric_closed") > 0
        is_registered = ready >= _REGISTERED_SECONDS
        lost_before = past.get("fabric_route_seconds", np.zeros(count))
        lost_for = np.where(self._of(faults, "route_lost") > 0, lost_before + seconds, 0.0)
        degraded = (arrays["links_up"] < self._links) | (lost_for > 0)
        broken = (self._of(faults, "tray_lost") > 0) | (lost_for > _ROUTE_SECONDS)
        recovering = (past["links_up"] < arrays["links_up"]) if "links_up" in past else np.zeros(count, np.bool_)
        recovering |= ((lost_for > 0) & ~broken) | ((lost_before > 0) & (lost_for == 0))
        has_fallen = (past["links_up"] > arrays["links_up"]) if "links_up" in past else np.zeros(count, np.bool_)
        left = np.maximum(past.get("fabric_timeout_seconds", np.zeros(count)) - seconds, 0.0)
        timeout = np.where(has_fallen | (self._of(faults, "access_timeout") > 0), _TIMEOUT_SECONDS, left)
        mask = _field(degraded, 0) + _field(recovering, 2) + _field(broken, 4) + _field(timeout > 0, 6)
        mask = mask + np.where(closed, _NO_PARTITION, _CONFIGURED) * float(1 << 8)
        return {
            "fabric_ready_seconds": ready,
            "fabric_timeout_seconds": timeout,
            "fabric_route_seconds": lost_for,
            "fabric_manager_status": np.where(closed, _FAILURE, np.where(is_registered, _SUCCESS, _IN_PROGRESS)),
            "fabric_manager_error": np.where(closed, _UNKNOWN_ERROR, 0.0),
            "fabric_health_mask": mask,
            "fabric_health_summary": np.where(
                closed | broken | (timeout > 0), _UNHEALTHY, np.where(degraded, _LIMITED, _HEALTHY)
            ),
        }

    def _of(self, faults: FaultTick | None, name: str, neutral: float = 0.0) -> Floats:
        """An effect of faults on the devices, shape (D,)."""
        count = len(self._links)
        found = None if faults is None else faults.get(name)
        return np.full(count, neutral) if found is None else found[:count]

    def _drawn(self, arrays: Mapping[str, Floats]) -> Floats:
        return arrays["power_watts"] if "power_watts" in arrays else np.zeros(len(self._links))

    def _cpus_of_hosts(self, arrays: Mapping[str, Floats]) -> Floats:
        """What the CPUs of each node draw, in watts: shape (H,)."""
        hosts = len(self.layout.host_first)
        if "cpu_power_watts" not in arrays:
            return np.zeros(hosts)
        firsts = self.layout.cpu_first
        cpus = (arrays["cpu_power_watts"] + arrays["sysio_power_watts"])[firsts]
        return np.bincount(self.layout.host_of[firsts], cpus, minlength=hosts).astype(np.float64)

    def _besides(self, arrays: Mapping[str, Floats]) -> Floats:
        """What racks draw besides their boards, in watts: shape (R,)."""
        if "cpu_power_watts" not in arrays:
            return self._trays_watts
        cpus = (arrays["cpu_power_watts"] + arrays["sysio_power_watts"])[self.layout.cpu_first]
        return self._trays_watts + np.bincount(self.layout.cpu_rack, cpus, minlength=self.layout.count)

    # -- what pages show ---------------------------------------------------------------------------

    def levels(self, devices: Level) -> dict[str, Level]:
        """The levels of CPUs, cores, nodes and racks."""
        layout, arrays = self.layout, devices.arrays
        cpus, hosts = layout.cpu_first, layout.host_first
        limits = {
            "cpu_power_limit_watts": _MOST_WATTS, "cpu_temperature_warning_celsius": _WARNING_CELSIUS,
            "cpu_temperature_critical_celsius": _CRITICAL_CELSIUS,
        }  # fmt: skip
        of_cpus = dict.fromkeys((*(name for name in OF_MODULES if name in arrays), *limits))
        of_racks = dict.fromkeys(RACK_QUANTITIES[RACK])
        return {
            CPU: Level(len(cpus), LazyArrays(of_cpus, lambda name: np.full(len(cpus), limits[name]) if name in limits
                                             else arrays[name][cpus]), {}),
            CORE: self._cores.level(arrays),
            HOST: Level(len(hosts), LazyArrays(dict.fromkeys(OF_TRAYS), lambda name: arrays[name][hosts]), {}),
            RACK: Level(layout.count, LazyArrays(of_racks, lambda name: self._of_racks(arrays, name)), {}),
        }

    def _of_racks(self, arrays: Mapping[str, Floats], name: str) -> Floats:
        """A quantity of the racks, shape (R,)."""
        layout = self.layout
        boards = np.maximum(layout.of_racks(np.ones(len(layout.rack_of))), 1.0)
        flow = layout.of_racks(arrays["coolant_flow_ratio"]) / boards
        power = layout.of_racks(self._drawn(arrays)) + self._besides(arrays)
        match name:
            case "rack_power_watts":
                return power
            case "rack_power_limit_watts":
                return self._rack_watts
            case "coolant_flow_litres_per_minute":
                return flow * _FLOW_LITRES
        inlet = arrays.get("inlet_temperature_celsius", np.full(len(layout.rack_of), _COOLANT_CELSIUS))
        supply = layout.of_racks(inlet) / boards
        if name == "coolant_supply_celsius":
            return supply
        warmer: Floats = power / (np.maximum(flow, 0.05) * _FLOW_LITRES * _WATTS_PER_KELVIN_LITRE)
        return supply + warmer


#: Quantities of these levels.
RACK_QUANTITIES: Final[Mapping[str, tuple[str, ...]]] = {
    CPU: (*OF_MODULES, "cpu_power_limit_watts", "cpu_temperature_warning_celsius", "cpu_temperature_critical_celsius"),
    CORE: ("cpu_usage_ratio", "cpu_user_ratio", "cpu_nice_ratio", "cpu_system_ratio", "cpu_irq_ratio",
           "cpu_frequency_mhz"),
    HOST: OF_TRAYS,
    RACK: ("rack_power_watts", "rack_power_limit_watts", "coolant_flow_litres_per_minute", "coolant_supply_celsius",
           "coolant_return_celsius"),
}  # fmt: skip


class CoreUse:
    """The use of single cores: as many of a CPU are busy as its use says, always the same first."""

    #: How the time of a busy core divides: chosen.
    PARTS: Final = {"cpu_user_ratio": 0.86, "cpu_nice_ratio": 0.0, "cpu_system_ratio": 0.13, "cpu_irq_ratio": 0.01}

    def __init__(self, layout: RackLayout, seed: int) -> None:
        self._layout, self._seed = layout, seed
        self._ranks: Floats | None = None
        self._owners = np.repeat(np.arange(len(layout.cores)), layout.cores)

    def level(self, devices: Mapping[str, Floats]) -> Level:
        """The level of all cores, CPU by CPU."""
        names = dict.fromkeys(RACK_QUANTITIES[CORE])
        return Level(len(self._owners), LazyArrays(names, lambda name: self._values(devices, name)), {})

    def _values(self, devices: Mapping[str, Floats], name: str) -> Floats:
        layout = self._layout
        if not len(self._owners):  # racks of a cluster whose nodes have not come yet
            return np.zeros(0)
        if name == "cpu_frequency_mhz":
            return devices[name][layout.cpu_first][self._owners]
        if self._ranks is None:
            self._ranks = self._ranked()
        busy = (devices["cpu_usage_ratio"][layout.cpu_first] * layout.cores)[self._owners]
        return np.clip(busy - self._ranks, 0.0, 1.0) * self.PARTS.get(name, 1.0)

    def _ranked(self) -> Floats:
        """The place of each core in the order in which its CPU uses them, from 0."""
        cores = np.arange(len(self._owners)) - np.searchsorted(self._owners, self._owners)
        keys = sub_keys(self._layout.cpu_keys[self._owners], cores.astype(np.uint64))
        order = np.lexsort((uniform(self._seed, keys, "core", 0), self._owners))
        ranks = np.empty(len(order))
        ranks[order] = cores
        return ranks


def _watts(use: Floats) -> Floats:
    """What CPUs want to draw at a use of 0 to 1."""
    return _IDLE_WATTS + (_MOST_WATTS - _IDLE_WATTS) * use


def _field(is_so: Mask, shift: int) -> Floats:
    """A field of the health mask."""
    return np.where(is_so, _YES, _NO) * float(1 << shift)
