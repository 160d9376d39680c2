"""The live view of the web page: one frame for all viewers, sent to each viewer as fast as it reads.

A frame has small arrays in the order of the devices, not an object for each device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray
from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from fakedev import __version__
from fakedev.fleet.charts import rounded, summary
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.state import Level, Positions
from fakedev.fleet.faults.rules import Fault
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.levels import HEALTH, health, health_of_boards
from fakedev.fleet.spec.fault_kinds import NODE_SCOPES
from fakedev.fleet.spec.fleet_spec import PoolSpec
from fakedev.fleet.spec.quantities import CLOCK_BITS
from fakedev.fleet.ticker import Ticker
from fakedev.queues.figures import MAX_CHARTED, QueueFigures, queue_point
from fakedev.web.encoding import Body
from fakedev.web.request import Request
from fakedev.web.sending import BodySender

if TYPE_CHECKING:
    from fakedev.scenario.live import LiveScenario
    from fakedev.tester.load_run import LoadTester

#: Plans of load in a frame.
MAX_PLANS: Final = 100
#: Devices of a fleet that the page shows as cards, and workloads that a card names.
MAX_CARDS: Final = 64
MAX_NAMES: Final = 3
_MAX_SORTED: Final = 20_000
#: Faults in a frame, and nodes that one of them names.
MAX_FAULTS: Final = 20
_MAX_NODES: Final = 3
#: What lowers a clock, in words; a board without work is not held.
_HOLDERS: Final = {
    "clocks_setting": "clock lock", "power_cap": "power limit", "sync_boost": "sync boost", "sw_thermal": "heat",
    "hw_thermal": "heat of the hardware", "hw_power_brake": "power brake",
}  # fmt: skip


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

    def key(self) -> tuple[int, float]:
        """The tick and the speed of the clock: frames with others are needed at once."""
        return self.fleet.state.tick, self._ticker.speed

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
            "trouble": self._ticker.unready_reason(),
            "fleet": [None if math.isnan(value) else round(value, 4) for value in summary(level)],
            "workloads": len(fleet.workloads.by_id),
            **active_faults(fleet),
            "usage": rounded(level, "usage_ratio", 100.0),
            "temperature": rounded(level, "temperature_celsius"),
            "power": rounded(level, "power_watts"),
            "health": health_of_boards(state.levels["unit"], fleet.roster.parts)[fleet.roster.shown_devices],
            **_instances(fleet),
            **(_parts(fleet) if level.count <= MAX_CARDS else {}),
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
    divided, racks = divided_into(fleet.roster), fleet.compiled.relations.racks
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
        **({} if racks is None else {"racks": racks.layout.names}),
        **({"parts": rows} if len(fleet.roster.shown_devices) <= MAX_CARDS and (rows := _part_rows(fleet)) else {}),
    }


def _part_rows(fleet: Fleet) -> list[tuple[str, str, float]]:
    """The name, the profile of MIG, and the bytes of memory of each part of shown devices, tiles too."""
    name, parts = fleet.roster.unit_name, fleet.roster.parts
    return [
        (name(unit), facts.get("mig_profile", ""), float(parts.memory_bytes[unit - parts.device_count]))
        for node in fleet.roster.shown
        for unit, facts in fleet.labels.part_facts(node)
    ]


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


def _parts(fleet: Fleet) -> dict[str, Any]:
    """What the terminal view of a small fleet shows of each part of shown devices; nothing without parts."""
    roster, level = fleet.roster, fleet.state.levels["part"]
    positions = np.flatnonzero(np.isin(roster.parts.owners, roster.shown_devices))
    if not len(positions):
        return {}
    names = _workload_names(fleet, fleet.workloads.table.device)
    return {
        "part-usage": rounded(level, "usage_ratio", 100.0)[positions],
        "part-memory": rounded(level, "memory_used_bytes", 2.0**-20)[positions],
        "part-clock": rounded(level, "core_frequency_mhz")[positions],
        "part-temperature": rounded(level, "temperature_celsius")[positions],
        "part-health": health(level)[positions],
        "part-work": [names.get(unit, [0]) for unit in (roster.parts.device_count + positions).tolist()],
    }


def _cards(fleet: Fleet, level: Level) -> dict[str, Any]:
    """What the cards of a small fleet show besides the map: memory, clock, and the workloads of each device."""
    names = _workload_names(fleet, fleet.roster.parts.owners_of(fleet.workloads.table.device))
    return {
        "limit": rounded(level, "power_limit_watts"),
        "held": [_held(mask) for mask in rounded(level, "throttle_reasons").tolist()],
        "memory": rounded(level, "memory_used_bytes", 2.0**-20),
        "clock": rounded(level, "core_frequency_mhz"),
        "work": [names.get(device, [0]) for device in fleet.roster.shown_devices.tolist()],
        "device-faults": _fault_kinds(fleet),
    }


def _fault_kinds(fleet: Fleet) -> list[list[str]]:
    """For each shown device the kinds of the faults that affect it or a part of it now: of the first faults."""
    found: dict[int, dict[str, None]] = {}
    active = [fault for fault in fleet.faults.by_id.values() if len(fault.concerned)]
    for fault in active[:MAX_FAULTS]:
        for device in fleet.roster.parts.owners_of(fault.concerned).tolist():
            found.setdefault(device, {})[fault.kind.name] = None
    return [list(found.get(device, ())) for device in fleet.roster.shown_devices.tolist()]


def _held(mask: int) -> list[str]:
    """What holds the clock of a board, in words."""
    return [words for event, words in _HOLDERS.items() if mask > 0 and mask & CLOCK_BITS[event]]


def _workload_names(fleet: Fleet, boards: Positions) -> dict[int, list[int | str]]:
    """By device or unit: the number of its running workloads, and the names of the first few.

    Without names where there are too many pairs of a workload and a device to sort them for each frame.

    :param boards: the device or unit of each pair of the table of workloads.
    """
    table = fleet.workloads.table
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


def active_faults(fleet: Fleet) -> dict[str, Any]:
    """The faults that affect something now, of every scope: the first ones, how many there are, and how many wait.

    A row has the id, the kind, what it affects (``board``, ``page`` ...), where, and seconds until its end, or None.
    """
    active = [fault for fault in fleet.faults.by_id.values() if len(fault.concerned)]
    rows = []
    for fault in active[:MAX_FAULTS]:
        where = names_of(fleet, fault, fault.concerned, _MAX_NODES)
        since, duration = fault.since_seconds, fault.spec.duration_seconds
        left = max(since + duration - fleet.state.seconds, 0.0) if duration and since is not None else None
        rows.append([fault.fault_id, fault.kind.name, fault.kind.scope.name.lower(), where, left])
    waiting = sum(fault.period < 0 for fault in fleet.faults.standing())
    return {"faults": rows, "fault-count": len(active), "faults-waiting": waiting}


def names_of(fleet: Fleet, fault: Fault, concerned: Positions, most: int) -> str:
    """The names of the nodes or devices that a fault affects, up to a maximum; empty for nothing.

    :param concerned: the devices, or some of them.
    """
    if fault.kind.scope not in NODE_SCOPES:
        return fleet.journal.names(concerned) if len(concerned) else ""
    places = np.unique(fleet.roster.node_positions(concerned)).tolist()
    names = ", ".join(fleet.roster.nodes[place].name for place in places[:most])
    return names + (f" and {len(places) - most} more" if len(places) > most else "")


def shown_level(fleet: Fleet) -> Level:
    """The state of the devices of shown nodes; a shard may simulate others as well."""
    level = fleet.state.levels["device"]
    if len(fleet.roster.shown) == len(fleet.roster.nodes):
        return level
    devices = fleet.roster.shown_devices
    arrays = {name: array[devices] for name, array in level.arrays.items()}
    present = {name: values[devices] for name, values in level.present.items()}
    return Level(len(devices), arrays, present)


def _queue(figures: QueueFigures, name: str) -> list[Any]:
    _, *counts, arrivals, services = queue_point(figures, name)
    state = figures.of(name).now.state
    return [name, *counts, round(arrivals, 3), round(services, 3), state]


def _plan(tester: LoadTester, name: str) -> list[Any]:
    driver, statistics = tester.drivers[name], tester.statistics(name)
    rate = round(statistics.rate_now(tester.now), 3)
    return [name, driver.parallel, statistics.outstanding, rate, statistics.successes, statistics.failed]


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

    def __init__(
        self, source: FrameSource, clock: IReactorTime, when_complete: Callable[[Callable[[], object]], None]
    ) -> None:
        """
        :param when_complete: calls back now, or when the tick that is paused has ended.
        """
        self.setName("live")  # type: ignore[no-untyped-call, unused-ignore]
        self._source = source
        self._clock = clock
        self._viewers: dict[BodySender, int] = {}  # with the number of the last frame that each has
        self._loop = LoopingCall(lambda: when_complete(self._beat))
        self._loop.clock = clock
        self._frame = Body()
        self._shown: tuple[tuple[int, float], float] | None = None  # tick and speed, and the time of the frame
        self.frames = 0

    @property
    def is_full(self) -> bool:
        """Whether there are MAX_VIEWERS."""
        return len(self._viewers) >= MAX_VIEWERS

    def stopService(self) -> None:
        """Stop making frames; the port closes the viewers' connections."""
        super().stopService()  # type: ignore[no-untyped-call, unused-ignore]
        self._stop()

    def add(self, request: Request) -> None:
        """Send the fleet to a viewer until it leaves, at first as it is now."""
        viewer = request.respond_endlessly(CONTENT_TYPE)
        if viewer is None:
            return
        request.notifyFinish().addBoth(lambda _: self._remove(viewer))
        # Another viewer may have been sent an older one.
        self._make()
        self._viewers[viewer] = self.frames
        viewer.send([*self._outline().pieces, *self._frame.pieces])
        if not self._loop.running:
            stopped = self._loop.start(_BEAT_SECONDS, now=False)
            stopped.addErrback(lambda failure: self.log.failure("the live view stopped", failure))

    def renew(self) -> None:
        """The fleet has other devices: send the new outline before the next frame."""
        self._shown = None
        self._viewers = dict.fromkeys(self._viewers, _OUTDATED)

    def _remove(self, viewer: BodySender) -> None:
        self._viewers.pop(viewer, None)
        if not self._viewers:
            self._stop()

    def _stop(self) -> None:
        if self._loop.running:
            self._loop.stop()
        self._frame, self._shown = Body(), None

    def _beat(self) -> None:
        """Make a frame if there is something new, and send it to all viewers that take more."""
        if not self._viewers:  # the last one left while a tick was paused
            return
        self._make()
        for viewer, seen in list(self._viewers.items()):
            if seen != self.frames and viewer.takes_more:
                self._viewers[viewer] = self.frames
                outline = self._outline().pieces if seen == _OUTDATED else ()
                viewer.send([*outline, *self._frame.pieces])

    def _outline(self) -> Body:
        return _event("fleet", fleet_outline(self._source.fleet, __version__))

    def _make(self) -> None:
        key, now = self._source.key(), self._clock.seconds()
        if self._shown is not None and self._shown[0] == key and 0 <= now - self._shown[1] < _STILL_SECONDS:
            return
        try:
            self._frame = _event("tick", self._source.frame())
        except Exception:
            self.log.failure("a frame of the live view could not be made")
            return
        self._shown = key, now
        self.frames += 1


def _event(name: str, values: dict[str, Any]) -> Body:
    """A server-sent event; its JSON has no line ends."""
    data = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    return Body(b"event: %b\ndata: " % name.encode(), data, b"\n\n")
