"""The live view of the web page: one frame for all viewers, sent to each as fast as it reads.

Frames hold small arrays in the order of the devices, not an object for each device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray
from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from fakedev import __version__
from fakedev.net.fleet.ticker import Ticker
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.response import Body
from fakedev.net.http.sending import Outgoing
from fakedev.net.queues.figures import QueueFigures
from fakedev.net.tester.service import LoadTester
from fakedev.sim.charts import HEALTH, health, rounded, summary
from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.state import Level
from fakedev.sim.fleet import Fleet
from fakedev.spec.fleet import PoolSpec

#: Queues, and plans of load, in a frame.
MAX_ROWS: Final = 100
#: Viewers at once; further ones are answered 503.
MAX_VIEWERS: Final = 64
CONTENT_TYPE: Final = "text/event-stream"
#: How often the view looks for a new tick: frames are made at most as often.
_BEAT_SECONDS: Final = 0.25
#: The longest time between two frames, also when the clock is stopped.
_STILL_SECONDS: Final = 1.0
#: The number of the last frame of viewers that have the outline of an old fleet.
_OUTDATED: Final = -2


class LiveView(Service):
    """Sends the fleet, its queues and its load to viewers as they change.

    A frame is made at most once a tick and once in 0.25 s, and only for viewers that are there. A viewer that has not
    read the last frame gets no more until it has, and then the newest.

    :ivar frames: frames made since the start.
    """

    log = Logger()

    def __init__(self, source: FrameSource, clock: IReactorTime) -> None:
        self.setName("live")  # type: ignore[no-untyped-call, unused-ignore]
        self._source = source
        self._clock = clock
        self._viewers: dict[Outgoing, int] = {}  # with the number of the last frame that each has
        self._loop = LoopingCall(self._beat)
        self._loop.clock = clock
        self._frame = Body()
        self._shown: tuple[int, float] | None = None  # tick and time of the frame
        self.frames = 0

    @property
    def is_full(self) -> bool:
        """Whether there are MAX_VIEWERS."""
        return len(self._viewers) >= MAX_VIEWERS

    def stopService(self) -> None:
        """Make no more frames; the viewers go when the port closes their connections."""
        super().stopService()  # type: ignore[no-untyped-call, unused-ignore]
        self._stop()

    def add(self, request: GuardedRequest) -> None:
        """Send the fleet to a viewer until it leaves."""
        viewer = request.respond_endlessly(CONTENT_TYPE)
        if viewer is None:
            return
        request.notify_finish().addBoth(lambda _: self._remove(viewer))
        self._viewers[viewer] = -1
        viewer.send_more(self._outline().pieces)
        if not self._loop.running:
            stopped = self._loop.start(_BEAT_SECONDS, now=False)
            stopped.addErrback(lambda failure: self.log.failure("the live view stopped", failure))

    def renew(self) -> None:
        """The fleet has other devices: send the new outline before the next frame."""
        self._shown = None
        self._viewers = dict.fromkeys(self._viewers, _OUTDATED)

    def _remove(self, viewer: Outgoing) -> None:
        self._viewers.pop(viewer, None)
        if not self._viewers:
            self._stop()

    def _stop(self) -> None:
        if self._loop.running:
            self._loop.stop()
        self._frame, self._shown = Body(), None

    def _beat(self) -> None:
        """Make a frame if there is something new, and send it to all viewers that take more."""
        try:
            self._make()
        except Exception:
            self.log.failure("a frame of the live view could not be made")
            return
        for viewer, seen in list(self._viewers.items()):
            if seen != self.frames and viewer.takes_more:
                self._viewers[viewer] = self.frames
                outline = self._outline().pieces if seen == _OUTDATED else ()
                viewer.send_more([*outline, *self._frame.pieces])

    def _outline(self) -> Body:
        return _event("fleet", fleet_outline(self._source.fleet, __version__))

    def _make(self) -> None:
        tick, now = self._source.fleet.state.tick, self._clock.seconds()
        if self._shown is not None and self._shown[0] == tick and 0 <= now - self._shown[1] < _STILL_SECONDS:
            return
        self._frame = _event("tick", self._source.frame())
        self._shown = tick, now
        self.frames += 1


@dataclass
class FrameSource:
    """Makes frames of the present state.

    :param queues: None for none.
    :param tester: None when there are no plans of load.
    """

    fleet: Fleet
    _ticker: Ticker
    _queues: QueueFigures | None
    _tester: LoadTester | None

    def frame(self) -> dict[str, Any]:
        """The values of the event ``tick``, see doc/http.md."""
        fleet, state = self.fleet, self.fleet.state
        level = shown_level(fleet)
        frame: dict[str, Any] = {
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
            frame["queues"] = [_queue(self._queues, name) for name in self._queues.broker.queue_names[:MAX_ROWS]]
        if self._tester is not None:
            frame["load"] = [_plan(self._tester, name) for name in list(self._tester.drivers)[:MAX_ROWS]]
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
            [pool.name, pool.device_type.name, pool.devices_per_node, _limit(fleet, pool)]
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


def _limit(fleet: Fleet, pool: PoolSpec) -> float | None:
    """The power limit of the first device of a pool; None where its type has none, or the pool has no node here."""
    level = fleet.state.levels["device"]
    first = next((node.first for node in fleet.roster.shown if node.pool is pool), None)
    if first is None or not level.has("power_limit_watts", first):
        return None
    return float(level.arrays["power_limit_watts"][first])


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
    seconds, now, counted = figures.of(name)
    rates = counted.arrivals_per_second(seconds), counted.services_per_second(seconds)
    return [name, now.waiting, now.running, now.workers_idle, now.workers_busy, *(round(rate, 3) for rate in rates)]


def _plan(tester: LoadTester, name: str) -> list[Any]:
    driver, statistics = tester.drivers[name], tester.statistics(name)
    rate = round(statistics.rate_now(tester.now), 3)
    return [name, driver.parallel, statistics.outstanding, rate, statistics.successes, statistics.failed]


def _event(name: str, values: dict[str, Any]) -> Body:
    """A server-sent event; its JSON has no line ends."""
    data = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    return Body(b"event: %b\ndata: " % name.encode(), data, b"\n\n")
