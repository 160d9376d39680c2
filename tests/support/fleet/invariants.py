"""Random days of every board of the catalog, and how often a rule of the simulation is broken in them.

All is drawn from a seed: work of all kinds with requests of single metrics, on devices, parts and several at once;
faults of all kinds with their parameters, power caps among them; and reloads that divide and connect boards otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import numpy as np

from fakedev.base.errors import Refused
from fakedev.config.load import load
from fakedev.fleet.boards.conditions import Conditions, unless_changed
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.entities.state import Level
from fakedev.fleet.events import ClearFaults, InjectFault, Reload, StartWorkload, StopWorkloads
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fault_kinds import KINDS, fault_from_fields
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.spec.quantities import ASKABLE, COUNTED, WITHOUT_SHARES, metric_word
from fakedev.fleet.spec.work_kinds import WORK_KINDS
from fakedev.fleet.spec.workload_fields import workload_from_fields
from fakedev.schema.files import Files
from tests.support.fleet.board_checks import REASONS, BoardRules
from tests.support.fleet.divided_devices import of_parts_and_devices
from tests.support.fleet.link_checks import of_link_steps, of_links
from tests.support.rules import Broken, broken

#: Catalog type to the boards of a node, and how often they have MIG instances: profiles to choose from.
POOLS: Final = {
    "h100": (8, ("3g.40gb", "2g.20gb", "1g.10gb", "1g.20gb", "7g.80gb")),
    "h200": (8, ("3g.71gb", "2g.35gb", "1g.18gb", "7g.141gb")),
    "a100": (8, ("3g.20gb", "2g.10gb", "1g.5gb", "7g.40gb")),
    "a100-80gb": (4, ("3g.40gb", "2g.20gb", "1g.10gb", "4g.40gb")),
    "v100": (8, ()),
    "mi300x": (8, ("dpx", "qpx", "cpx")),
    "max-1550": (8, ()),
    "l40s": (4, ()),
    "t4": (4, ()),
    "dg1": (2, ()),
    "flex-170": (2, ()),
    "l4": (2, ()),
    "a10": (2, ()),
    "a30": (4, ("2g.12gb", "1g.6gb", "1g.6gb", "1g.6gb+me", "4g.24gb")),
    "rtx-4000-ada": (2, ()),
    "rtx-4090": (2, ()),
    "p100": (8, ()),
    "v100-32gb": (2, ()),
    "a800": (4, ()),
    "h800": (4, ()),
    "b200": (4, ("3g.90gb", "2g.45gb", "1g.23gb", "1g.45gb", "7g.180gb")),
    "gb200": (4, ()),
    "mi250x": (4, ()),
    "mi325x": (4, ()),
    "gaudi-3": (8, ()),
    "a10g": (4, ()),
    "l40": (2, ()),
    "a40": (2, ()),
    "h20": (4, ("3g.48gb", "2g.24gb", "1g.12gb", "1g.24gb", "7g.96gb")),
    "l20": (2, ()),
    "b300": (4, ("3g.135gb", "2g.67gb", "1g.34gb", "1g.67gb", "7g.269gb")),
    "rtx-pro-6000": (4, ("2g.48gb", "1g.24gb", "1g.24gb", "1g.24gb+me", "4g.96gb")),
    "gh200": (1, ()),
    "gb300": (4, ()),
    "gb10": (1, ()),
    "rtx-pro-4500": (2, ()),
    "rtx-2080-super": (1, ()),
    "rtx-4080-super": (1, ()),
    "mi350x": (4, ()),
    "mi355x": (4, ()),
    "mi300a": (4, ()),
    "w7900": (2, ()),
    "v710": (2, ()),
    "arc-pro-b60": (2, ()),
    "v5e": (4, ()),
    "v6e": (4, ()),
    "tpu7x": (4, ()),
    "910b": (8, ()),
    "trainium2": (4, ()),
    "trainium3": (4, ()),
}
#: Seconds of a tick to the share of device-ticks that have it.
TICKS: Final = {1.0: 0.55, 0.25: 0.15, 10.0: 0.15, 60.0: 0.15}
_KINDS: Final = tuple(WORK_KINDS)
#: How many workloads and faults may be there at a time.
_MOST_WORKLOADS: Final = 150
_MOST_FAULTS: Final = 60
#: How many violations are described; all are counted.
_DESCRIBED: Final = 5

#: Below the limit of its memory a board may still be held: its memory stays there.
_NEAR_KELVINS: Final = 3.0
#: Reason to the seconds within which it ends without its cause: doc/simulation.md, "What lowers the clock".
_ENDS_WITHIN: Final = {"throttled_power": 2.0, "throttled_thermal": 0.0, "throttled_hardware": 0.0}
#: A board that its power limit holds draws this share of it, or more.
_HELD: Final = 0.98


class ReasonEnds:
    """For how long reasons have been shown without their causes: each ends soon.

    :param rules: of the boards.
    """

    def __init__(self, rules: BoardRules, count: int) -> None:
        self._rules = rules
        self._without = {reason: np.zeros(count) for reason in REASONS}

    def of_step(self, before: Level, after: Level, seconds: float, conditions: Conditions) -> Iterator[Broken]:
        """The rules from one tick to the next."""
        rules, was, now = self._rules, before.arrays, after.arrays
        temperature = was["temperature_celsius"]
        braked = unless_changed(conditions.braked, np.zeros(after.count)) > 0
        limit = rules.of_types(lambda each: each.memory_slowdown_celsius)
        memory_is_hot = was.get("memory_temperature_celsius", np.zeros(after.count)) >= limit - _NEAR_KELVINS
        counted = now["throttled_power_seconds"] - was["throttled_power_seconds"]
        # Work that changes within a tick is held for a part of it, and draws less in the rest.
        share = np.where(counted > 0, np.minimum(counted / seconds, 1.0), 1.0)
        causes = {
            "throttled_power": now["power_watts"] >= _HELD * now["power_limit_watts"] * share,
            "throttled_thermal": (temperature >= rules.dynamic("resume_celsius")) | memory_is_hot,
            "throttled_hardware": (temperature >= rules.dynamic("resume_celsius")) | braked,
        }
        for reason, cause in causes.items():
            without = np.where((now[reason] > 0) & ~cause, self._without[reason] + seconds, 0.0)
            self._without[reason] = without
            late = rules.has_dynamics & (without > _ENDS_WITHIN[reason] + 2 * seconds)
            yield from broken(f"{reason} ends with its cause", late)


@dataclass
class Found:
    """What random days found.

    :ivar device_ticks: devices times ticks that were checked.
    :ivar broken: rule to how many entities and ticks broke it.
    :ivar examples: the first of each rule, in words.
    """

    device_ticks: int = 0
    broken: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def note(self, broken: Iterator[Broken], day: Day) -> None:
        """Count what is broken in a tick."""
        for rule, where in broken:
            self.broken[rule] += int(where.sum())
            known = self.examples.setdefault(rule, [])
            if len(known) < _DESCRIBED:
                known.append(f"seed {day.seed}, tick {day.fleet.state.tick}, at {where.nonzero()[0][:4].tolist()}")


def pools_text(rng: Random, nodes: int) -> str:
    """Pools of all device types, some divided, some in a ring, some in warm air."""
    pools = []
    for name, (devices, profiles) in POOLS.items():
        more = ""
        if rng.random() < 0.2:
            more += f", inlet: {rng.choice((5, 18, 35, 45))}"
        pools.append(f"{{name: {name}, device: {name}, nodes: {nodes}, devices-per-node: {devices}{more}}}")
        if profiles:
            divided = [f"{{index: {index}, mig: [{', '.join(_layout(rng, profiles))}]}}" for index in range(4)]
            text = f"devices-per-node: 4, devices: [{', '.join(divided)}]"
            pools.append(f"{{name: {name}-mig, device: {name}, nodes: 1, {text}}}")
    pools.append("{name: ring, device: mi300x, nodes: 1, devices-per-node: 5, topology: ring}")
    pools.append(f"{{name: odd, device: max-1550, nodes: 1, devices-per-node: {rng.choice((2, 3, 5))}}}")
    pools.append("{name: alone, device: h100, nodes: 1, devices-per-node: 1}")
    return "\n".join(f"    - {pool}" for pool in pools)


def _layout(rng: Random, profiles: tuple[str, ...]) -> list[str]:
    """Instances that fit on a board, none for a whole one."""
    layouts = ([], [profiles[-1]], [profiles[0]] * 2, [profiles[0], profiles[1], profiles[2]], [profiles[2]] * 3)
    return rng.choice(layouts) if "7g" in profiles[-1] else rng.choice(layouts[2:])


def fleet_spec(rng: Random, nodes: int, tick_seconds: float, seed: int) -> FleetSpec:
    """A fleet of such pools."""
    text = f"version: 1\nfleet:\n  seed: {seed}\n  tick: {tick_seconds}s\n  epoch: 0\n  exact-sensors: true\n  pools:\n"
    text += pools_text(rng, nodes) + "\nweb: []\nworkloads: {listen: []}\n"
    return load(None, Files(environ={}), text=text).fleet


class Day:
    """A fleet with random events, one seed each."""

    def __init__(self, seed: int, nodes: int, tick_seconds: float) -> None:
        self.seed, self._nodes, self._seconds = seed, nodes, tick_seconds
        self._rng = Random(seed)
        self.fleet = Fleet(fleet_spec(self._rng, nodes, tick_seconds, seed))
        self._use_types()

    def _use_types(self) -> None:
        self._rules = self._rules_of_types()
        self._reasons = ReasonEnds(self._rules, self.fleet.roster.device_count)

    def _rules_of_types(self) -> BoardRules:
        pools = [pool.device_type for pool in self.fleet.roster.pools]
        return BoardRules([pools[place] for place in self.fleet.roster.device_pools().tolist()])

    def tick(self, found: Found) -> None:
        """Do one tick, and check it."""
        was_reloaded = self._happen()
        before = self.fleet.state.levels
        self.fleet.advance()
        after, roster = self.fleet.state.levels, self.fleet.roster
        found.device_ticks += roster.device_count
        if was_reloaded:
            self._use_types()
        found.note(self._rules.of_level(after["device"]), self)
        found.note(of_links(roster.links, after), self)
        if roster.parts.count:
            found.note(of_parts_and_devices(roster.parts, after), self)
        if not was_reloaded:
            conditions = self.fleet.compiled.relations.conditions
            steps = self._rules.of_step(before["device"], after["device"], self._seconds, conditions)
            found.note(steps, self)
            reasons = self._reasons.of_step(before["device"], after["device"], self._seconds, conditions)
            found.note(reasons, self)
            found.note(of_link_steps(roster.links, before, after, self._seconds), self)

    def _happen(self) -> bool:
        """Some events before a tick; whether a reload is one of them."""
        rng = self._rng
        for _ in range(4):
            if rng.random() < 0.7 and len(self.fleet.workloads.by_id) < _MOST_WORKLOADS:
                self._try(self._start)
        for _ in range(2):
            if rng.random() < 0.6 and len(self.fleet.faults.by_id) < _MOST_FAULTS:
                self._try(self._inject)
        if rng.random() < 0.3:
            self._try(self._stop)
        if rng.random() < 0.1:
            self._try(self._clear)
        if rng.random() < 0.004:
            spec = fleet_spec(rng, self._nodes, self._seconds, self.fleet.spec.seed)
            self.fleet.apply(Reload(CompiledFleet(spec), RecordHead("", 0.0)))
            return True
        return False

    def _try(self, change: Any) -> None:
        try:
            change()
        except Refused:
            # A kind that the type does not know, a part that is not there, a cap that the driver refuses.
            return

    def _words(self) -> str:
        """A whole node, some devices, or parts."""
        rng, roster = self._rng, self.fleet.roster
        node = rng.choice(roster.nodes)
        index = rng.choice(node.devices)
        device = f"{node.name}/{index - node.first}"
        parts = len(roster.parts.of(index))
        if parts and rng.random() < 0.7:
            return rng.choice((f"{device}/*", f"{node.name}/*/*", f"{device}/{rng.randrange(parts)}"))
        return rng.choice((device, device, f"{node.name}/*", f"{node.name}/[0-{index - node.first}]"))

    def _profile(self) -> list[list[Any]]:
        rng = self._rng
        activities = []
        for _ in range(rng.randint(1, 3)):
            load = rng.choice((0, 100, 100, round(rng.uniform(0, 100), 2)))
            noise = min(load, 100 - load, rng.choice((0, 5, 30)))
            activities.append([load, noise, rng.choice((0.5, 3.0, 20.0, 90.0)) * max(self._seconds, 1.0)])
        return activities

    def _start(self) -> None:
        rng = self._rng
        fields: dict[str, Any] = {
            "name": "work", "devices": ["all" if rng.random() < 0.03 else self._words()],
            "kind": rng.choice(_KINDS), "profile": self._profile(), "repeat": rng.choice((1, 1, 2, 5)),
            "seconds-of": rng.choice(("time", "time", "work")), "metrics": {},
        }  # fmt: skip
        for quantity in rng.sample(sorted(ASKABLE), rng.choice((0, 0, 1, 1, 2, 4))):
            value = round(rng.choice((100.0, rng.uniform(0, 100))), 2)
            if quantity in COUNTED:
                amount = f"{value / 20:g}"
            elif quantity in WITHOUT_SHARES:
                amount = "1" if rng.random() < 0.2 else "0"
            else:
                amount = f"{value:g}%"
            fields["metrics"][metric_word(quantity)] = amount
        self.fleet.apply(StartWorkload(workload_from_fields(fields)))

    def _stop(self) -> None:
        ids = [each for each in self.fleet.workloads.by_id if not self.fleet.intake.is_ending(each)]
        if ids:
            self.fleet.apply(StopWorkloads((self._rng.choice(sorted(ids)),)))

    def _inject(self) -> None:
        rng = self._rng
        kind = KINDS[rng.choice(sorted(KINDS))]
        seconds = max(self._seconds, 1.0)
        fields: dict[str, Any] = {
            "kind": kind.name, "devices": [self._words()], "duration": rng.choice((1, 5, 30, 90)) * seconds,
            "every": rng.choice((0, 0, 0, 7)) * seconds, "probability": rng.choice((1, 1, 0.5)),
            "start": rng.choice((0, 0, 2)) * seconds,
        }  # fmt: skip
        if fields["every"]:
            fields["duration"] = rng.choice((2, 5)) * seconds
        for each in kind.parameters:
            if each.default is None or rng.random() < 0.6:
                if each.instead_of:
                    fields.pop(each.instead_of, None)
                fields[each.name] = self._value(each.name, each.low, each.high, each.whole, each.among)
        if kind.name == "power-cap":
            node = self.fleet.roster.node(fields["devices"][0].partition("/")[0])
            if node is not None:
                lowest, highest = node.pool.device_type.power_limit_ends()
                fields["watts"] = rng.choice((lowest, round(rng.uniform(lowest, highest)), highest))
        self.fleet.apply(InjectFault(fault_from_fields(fields)))

    def _value(self, name: str, low: float, high: float, whole: bool, among: tuple[int, ...]) -> float:
        rng = self._rng
        likely = {
            "code": (13, 31, 43, 45, 48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 998), "count": (1, 3),
            "rows": (0, 2), "celsius": (-10, 5, 20, 45, 70), "resistance": (1, 2, 4, 8), "link": (0, 1, 3, 5, 17),
            "watts": (100,), "megahertz": (100, 400, 1000, 1505), "rate": (0, 2.5, 30), "status": (500,),
        }  # fmt: skip
        if name in likely:
            return rng.choice(likely[name])
        if among:
            return rng.choice(among)
        return rng.randint(int(low), int(min(high, 6))) if whole else round(rng.uniform(max(low, 0.0), 1.0), 2)

    def _clear(self) -> None:
        ids = [each.fault_id for each in self.fleet.faults.by_id.values() if not each.is_cleared]
        if ids:
            self.fleet.apply(ClearFaults((self._rng.choice(sorted(ids)),)))


def random_days(device_ticks: int, tick_seconds: float, nodes: int = 4, seed: int = 1, ticks_each: int = 200) -> Found:
    """Check at least so many device-ticks of random days.

    :param nodes: of each pool that is not divided.
    :param seed: of the first day; the following days have the next ones.
    :param ticks_each: of a day.
    """
    found = Found()
    while found.device_ticks < device_ticks:
        day = Day(seed, nodes, tick_seconds)
        seed += 1
        for _ in range(ticks_each):
            day.tick(found)
            if found.device_ticks >= device_ticks:
                break
    return found
