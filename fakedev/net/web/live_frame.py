"""The frames of the live view: small arrays in the order of the devices, not an object for each."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fakedev.net.fleet.ticker import Ticker
from fakedev.net.queues.figures import QueueFigures
from fakedev.net.tester.service import LoadTester
from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.state import Level
from fakedev.sim.fleet import Fleet
from fakedev.sim.overview import HEALTH, health, rounded, summary
from fakedev.spec.fleet import PoolSpec

#: Queues, and plans of load, that a frame tells of.
MOST_ROWS: Final = 100


class FrameSource:
    """Makes frames of what is there now.

    :param queues: None when there are none.
    :param tester: None when there are no plans.
    :ivar fleet: the fleet.
    """

    def __init__(self, fleet: Fleet, ticker: Ticker, queues: QueueFigures | None, tester: LoadTester | None) -> None:
        self.fleet = fleet
        self._ticker = ticker
        self._queues = queues
        self._tester = tester

    def frame(self) -> dict[str, Any]:
        """What doc/http.md says of the event ``tick``."""
        fleet, state = self.fleet, self.fleet.state
        level = shown_level(fleet)
        frame = {
            "tick": state.tick,
            "seconds": state.seconds,
            "due-seconds": state.wall_seconds,
            "speed": self._ticker.speed,
            "trouble": self._ticker.trouble(),
            "fleet": [None if math.isnan(value) else round(value, 4) for value in summary(level)],
            "workloads": len(fleet.workloads.by_id),
            "usage": rounded(level, "usage_ratio", 100.0),
            "temperature": rounded(level, "temperature_celsius"),
            "power": rounded(level, "power_watts"),
            "health": health(level),
        }
        if self._queues is not None:
            frame["queues"] = [_queue(self._queues, name) for name in self._queues.broker.queue_names[:MOST_ROWS]]
        if self._tester is not None:
            frame["load"] = [_plan(self._tester, name) for name in list(self._tester.drivers)[:MOST_ROWS]]
        return frame


def fleet_outline(fleet: Fleet, version: str) -> dict[str, Any]:
    """What doc/http.md says of the event ``fleet``: who there is, in the order of the arrays of frames."""
    places = {id(pool): place for place, pool in enumerate(fleet.roster.pools)}
    divided = divided_into(fleet.roster)
    return {
        "version": version,
        "simulated": True,
        "tick-seconds": fleet.spec.tick_seconds,
        "health": HEALTH,
        "pools": [
            [pool.name, pool.device_type.name, pool.devices_per_node, _limit(fleet, pool)]
            for pool in fleet.roster.pools
        ],
        "nodes": [[node.name, places[id(node.pool)]] for node in fleet.roster.shown],
        **({"divided": divided} if divided.any() else {}),
    }


def divided_into(roster: Roster) -> NDArray[np.int64]:
    """Into how many instances each device that is shown is divided, 0 for those that are whole: shape (devices,)."""
    parts = roster.parts
    count = np.bincount(parts.owners[~parts.is_tile], minlength=parts.device_count)
    return count[roster.shown_devices]


def _limit(fleet: Fleet, pool: PoolSpec) -> float | None:
    """The power limit of the first device of a pool; None where its type has none, or it has no node here."""
    level = fleet.state.levels["device"]
    first = next((node.first for node in fleet.roster.shown if node.pool is pool), None)
    if first is None or not level.has("power_limit_watts", first):
        return None
    return level.arrays["power_limit_watts"][first].item()


def shown_level(fleet: Fleet) -> Level:
    """What the devices of the nodes that are shown show; a shard may simulate others beside them."""
    level = fleet.state.levels["device"]
    if len(fleet.roster.shown) == len(fleet.roster.nodes):
        return level
    devices = fleet.roster.shown_devices
    arrays, present = ({name: each[devices] for name, each in of.items()} for of in (level.arrays, level.present))
    return Level(len(devices), arrays, present)


def _queue(figures: QueueFigures, name: str) -> list[Any]:
    seconds, now, counted = figures.of(name)
    rates = counted.arrivals_per_second(seconds), counted.services_per_second(seconds)
    return [name, now.waiting, now.running, now.workers_idle, now.workers_busy, *(round(rate, 3) for rate in rates)]


def _plan(tester: LoadTester, name: str) -> list[Any]:
    driver, statistics = tester.drivers[name], tester.statistics(name)
    rate = round(statistics.rate_now(tester.now), 3)
    return [name, driver.parallel, statistics.outstanding, rate, statistics.successes, statistics.failed]
