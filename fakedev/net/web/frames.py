"""The frames of the live view: small arrays in the order of the devices, not an object for each device."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fakedev.net.fleet.ticker import Ticker
from fakedev.net.queues.figures import MAX_CHARTED, QueueFigures, queue_point
from fakedev.net.scenario.live import LiveScenario
from fakedev.net.tester.service import LoadTester
from fakedev.sim.charts import rounded, summary
from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.state import Level
from fakedev.sim.fleet import Fleet
from fakedev.sim.health import HEALTH, health, health_of_boards
from fakedev.spec.fleet import PoolSpec

#: Plans of load in a frame.
MAX_PLANS: Final = 100
#: Devices of a fleet that the page shows as cards, and workloads that a card names.
MAX_CARDS: Final = 64
MAX_NAMES: Final = 3
_MAX_SORTED: Final = 20_000


@dataclass
class FrameSource:
    """Makes frames of the present state.

    :param queues: None for none.
    :param tester: None when there are no plans of load.
    :param scenario: what is played; None for none.
    """

    fleet: Fleet
    _ticker: Ticker
    _queues: QueueFigures | None
    _tester: LoadTester | None
    _scenario: LiveScenario | None = None

    def frame(self) -> dict[str, Any]:
        """The values of the event ``tick``, see doc/http.md."""
        fleet, state = self.fleet, self.fleet.state
        level, advance = shown_level(fleet), self._ticker.advancing
        frame: dict[str, Any] = {
            "tick": state.tick,
            "seconds": state.seconds,
            "due-seconds": state.wall_seconds,
            "speed": self._ticker.speed,
            "advance": None if advance is None else [advance.first, advance.target],
            "trouble": self._ticker.trouble(),
            "fleet": [None if math.isnan(value) else round(value, 4) for value in summary(level)],
            "workloads": len(fleet.workloads.by_id),
            "usage": rounded(level, "usage_ratio", 100.0),
            "temperature": rounded(level, "temperature_celsius"),
            "power": rounded(level, "power_watts"),
            "health": health_of_boards(state.levels["unit"], fleet.roster.parts)[fleet.roster.shown_devices],
            **_instances(fleet),
            **(_cards(fleet, level) if level.count <= MAX_CARDS else {}),
        }
        if self._queues is not None:
            frame["queues"] = [_queue(self._queues, name) for name in self._queues.broker.queue_names[:MAX_CHARTED]]
        if self._tester is not None:
            frame["load"] = [_plan(self._tester, name) for name in list(self._tester.drivers)[:MAX_PLANS]]
        if self._scenario is not None:
            frame["scenario"] = self._scenario.progress()
        return frame


def fleet_outline(fleet: Fleet, version: str) -> dict[str, Any]:
    """The values of the event ``fleet``, see doc/http.md: nodes and devices in the order of the arrays of frames."""
    places = {id(pool): place for place, pool in enumerate(fleet.roster.pools)}
    divided = divided_into(fleet.roster)
    return {
        "version": version,
        "simulated": True,
        "tick-seconds": fleet.spec.tick_seconds,
        "health": HEALTH,
        "pools": [
            [
                pool.name,
                pool.device_type.name,
                pool.devices_per_node,
                _first(fleet, pool, "power_limit_watts"),
                _first(fleet, pool, "memory_total_bytes"),
            ]
            for pool in fleet.roster.pools
        ],
        "nodes": [[node.name, places[id(node.pool)]] for node in fleet.roster.shown],
        **({"divided": divided} if divided.any() else {}),
    }


def divided_into(roster: Roster) -> NDArray[np.int64]:
    """The number of instances of each shown device, 0 for a whole device: shape (devices,)."""
    parts = roster.parts
    count = np.bincount(parts.owners[~parts.is_tile], minlength=parts.device_count)
    return count[roster.shown_devices]


def _first(fleet: Fleet, pool: PoolSpec, quantity: str) -> float | None:
    """A quantity of the first device of a pool; None where its type has none, or the pool has no node here."""
    level = fleet.state.levels["device"]
    first = next((node.first for node in fleet.roster.shown if node.pool is pool), None)
    if first is None or not level.has(quantity, first):
        return None
    return float(level.arrays[quantity][first])


def _instances(fleet: Fleet) -> dict[str, Any]:
    """The usage and health of the instances of shown devices, board by board; nothing without instances."""
    parts, roster = fleet.roster.parts, fleet.roster
    chosen = ~parts.is_tile & np.isin(parts.owners, roster.shown_devices)
    if not chosen.any():
        return {}
    level = fleet.state.levels["part"]
    return {"instance-usage": rounded(level, "usage_ratio", 100.0)[chosen], "instance-health": health(level)[chosen]}


def _cards(fleet: Fleet, level: Level) -> dict[str, Any]:
    """What the cards of a small fleet show besides the map: memory, clock, and the workloads of each device."""
    names = _workload_names(fleet)
    return {
        "memory": rounded(level, "memory_used_bytes", 2.0**-20),
        "clock": rounded(level, "core_frequency_mhz"),
        "work": [names.get(device, [0]) for device in fleet.roster.shown_devices.tolist()],
    }


def _workload_names(fleet: Fleet) -> dict[int, list[int | str]]:
    """By device: the number of its running workloads, and the names of the first few.

    Without names where there are too many pairs of a workload and a device to sort them for each frame.
    """
    table = fleet.workloads.table
    boards = fleet.roster.parts.owners_of(table.device)
    if len(boards) > _MAX_SORTED:
        return {device: [count] for device, count in enumerate(np.bincount(boards).tolist())}
    pairs = np.unique(boards * max(1, len(table)) + table.owner)  # one for each workload of a divided device
    devices, firsts, counts = np.unique(pairs // max(1, len(table)), return_index=True, return_counts=True)
    rows = pairs % max(1, len(table))
    by_id = fleet.workloads.by_id
    return {
        device: [count, *(by_id[table.ids[row]].spec.name for row in rows[first : first + min(count, MAX_NAMES)])]
        for device, first, count in zip(devices.tolist(), firsts.tolist(), counts.tolist(), strict=True)
    }


def shown_level(fleet: Fleet) -> Level:
    """The state of the devices of shown nodes; a shard may simulate others as well."""
    level = fleet.state.levels["device"]
    if len(fleet.roster.shown) == len(fleet.roster.nodes):
        return level
    devices = fleet.roster.shown_devices
    arrays = {name: each[devices] for name, each in level.arrays.items()}
    present = {name: each[devices] for name, each in level.present.items()}
    return Level(len(devices), arrays, present)


def _queue(figures: QueueFigures, name: str) -> list[Any]:
    _, *counts, arrivals, services = queue_point(figures, name)
    return [name, *counts, round(arrivals, 3), round(services, 3)]


def _plan(tester: LoadTester, name: str) -> list[Any]:
    driver, statistics = tester.drivers[name], tester.statistics(name)
    rate = round(statistics.rate_now(tester.now), 3)
    return [name, driver.parallel, statistics.outstanding, rate, statistics.successes, statistics.failed]
