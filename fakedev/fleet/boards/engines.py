"""Engines and traffic of boards: from the work to shares of engines and rates of memory, PCIe and links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np

from fakedev.fleet.boards.arrays import as_few
from fakedev.fleet.boards.coefficients import IDLE, Coefficients, Kind
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Mask
from fakedev.fleet.spec.quantities import IMPLIED_USAGE

#: Engines other than the compute engines as a whole: quantity to the field of WorkKind with the share that work takes.
ENGINES: Final = {
    "tensor_active_ratio": "tensor",
    "copy_active_ratio": "copy",
    "encoder_active_ratio": "encoder",
    "decoder_active_ratio": "decoder",
    "render_active_ratio": "render",
}
#: What profiling counters show, likewise; workloads cannot request these.
PROFILED: Final = {
    "sm_active_ratio": "sm",
    "sm_occupancy_ratio": "occupancy",
    "fp64_active_ratio": "fp64",
    "fp32_active_ratio": "fp32",
    "fp16_active_ratio": "fp16",
}
#: The time in which the graphics and compute engines work.
GRAPHICS: Final = "engine_active_ratio"
#: Its share of the usage of a full load: DCGM's documentation, its example of a tensor kernel.
_SM_PER_USAGE: Final = 0.9956
#: The share of the time in which the memory is read or written: as many cycles as it is busy. So says Alibaba Cloud's
#: description of DCGM_FI_DEV_MEM_COPY_UTIL (50 % at half of the bandwidth); no steady load with both is published.
MEMORY_USAGE: Final = "memory_usage_ratio"
_USAGE: Final = "usage_ratio"
_MEMORY: Final = "memory_bandwidth_ratio"
#: What devices without dynamics show as another quantity.
SUBSTITUTES: Final = {GRAPHICS: _USAGE, MEMORY_USAGE: _MEMORY, "power_instant_watts": "power_watts"}
_COPY: Final = "copy_active_ratio"
#: Traffic, likewise: both directions of a link carry the same.
_TRAFFIC: Final = {
    _MEMORY: "memory",
    "pcie_tx_bytes_per_second": "transfer",
    "pcie_rx_bytes_per_second": "transfer",
    "fabric_tx_bytes_per_second": "fabric",
    "fabric_rx_bytes_per_second": "fabric",
}
#: Traffic of links by direction.
_SENT: Final = ("pcie_tx_bytes_per_second", "fabric_tx_bytes_per_second")
_RECEIVED: Final = ("pcie_rx_bytes_per_second", "fabric_rx_bytes_per_second")
_READ: Final = "memory_read_bytes_per_second"
_WRITTEN: Final = "memory_write_bytes_per_second"
#: Reads as a share of the memory bandwidth; they are shown in bytes only.
_READS: Final = "reads"
#: Share of reads in an idle board's memory traffic.
_IDLE_READS: Final = 0.5
#: The WorkKind whose power and slowdown model each quantity uses.
_MODEL_KINDS: Final = {
    "tensor_active_ratio": "tensor",
    "copy_active_ratio": "transfer",
    "encoder_active_ratio": "encode",
    "decoder_active_ratio": "decode",
    "render_active_ratio": "render",
    _MEMORY: "memory",
    "pcie_tx_bytes_per_second": "transfer",
    "pcie_rx_bytes_per_second": "transfer",
    "fabric_tx_bytes_per_second": "exchange",
    "fabric_rx_bytes_per_second": "exchange",
}
#: Traffic that needs the memory's clock, and the share of its maximum up to which it counts as none.
_MOVING: Final = (_MEMORY, "fabric_tx_bytes_per_second", "fabric_rx_bytes_per_second")
_STILL: Final = 1e-4
#: Engines whose work counts as usage of the board.
USAGE_QUANTITIES: Final = ("tensor_active_ratio", "render_active_ratio", IMPLIED_USAGE)
#: The rows of the arrays of what work keeps busy.
_ROWS: Final = (_USAGE, *ENGINES, *PROFILED)
_ENGINE_ROWS: Final = slice(0, 1 + len(ENGINES))
_PROFILED_ROWS: Final = slice(1 + len(ENGINES), len(_ROWS))
_SM_ROW: Final = _ROWS.index("sm_active_ratio")
#: A kernel holds its multiprocessors and warps also while it waits, for the memory or for other boards.
_HELD_ROWS: Final = slice(_SM_ROW, _ROWS.index("sm_occupancy_ratio") + 1)


@dataclass(frozen=True)
class Work:
    """The work of a tick: arrays of shape (B,).

    :ivar loads: time with work by kind of work, 0 to 1.
    :ivar activity: how busy the engines are by kind of work: the load times the intensity of the work; the loads
        themselves where all work is at full intensity.
    :ivar asked: amounts requested in addition, by quantity and in its unit, up to the maxima.
    :ivar alike: what the requests amount to, as a share of a full load, by kind of work.
    :ivar drawing: activity by kind of work that draws power: requested amounts included.
    :ivar contexts: boards on which a process holds a context.
    :ivar hanging: boards that hang; None for none.
    :ivar hung: those of them whose type shows it (nearly all): fully used without doing anything.
    """

    loads: Mapping[str, Floats]
    activity: Mapping[str, Floats]
    asked: Mapping[str, Floats]
    alike: Mapping[str, Floats]
    drawing: Mapping[str, Floats]
    contexts: Mask
    hanging: Mask | None
    hung: Mask | None

    def unless_hung(self, values: Floats, hung: float) -> Floats:
        """The values, with ``hung`` on boards that hang."""
        return values if self.hung is None else np.where(self.hung, hung, values)


class Engines:
    """Engines and traffic of some boards.

    :ivar maxima: 100 % of each quantity that workloads may request, 0 on boards without it.
    """

    def __init__(self, boards: Coefficients) -> None:
        self._boards = boards
        self.maxima = {_MEMORY: boards.has[_MEMORY].astype(np.float64)}
        scales = {}
        for name, field in _TRAFFIC.items():
            if field in boards.links:
                scales[name] = boards.links[field]
                self.maxima[name] = np.maximum(boards.links[field], boards.high[name]) * boards.has[name]
        one = np.ones(boards.count)
        #: Traffic without work; None for none on any board.
        self._idle_traffic = {name: boards.low[name] if boards.low[name].any() else None for name in _TRAFFIC}
        has_memory = boards.has[_MEMORY] & (boards.memory_bytes_per_second > 0)
        self._has_no_memory = None if has_memory.all() else ~has_memory
        self._memory_peak = np.where(has_memory, boards.memory_bytes_per_second, np.inf)
        self._moving = {name: boards.low[name] + _STILL * self.maxima[name] for name in _MOVING}
        self._takes: dict[str, dict[str, Floats | float]] = {}
        self._rows: dict[str, Floats] = {}
        for kind, work in boards.kinds.items():
            takes = {_USAGE: work.share("usage")}
            for name, field in (ENGINES | _TRAFFIC).items():
                takes[name] = work.share("plain") * boards.span[name] + work.share(field) * scales.get(name, one)
            takes[_READS] = takes[_MEMORY] * work.share("read")
            takes |= _profiled(work, takes)
            self._takes[kind] = {name: as_few(values) for name, values in takes.items() if values.any()}
            rows = np.array([takes[name] for name in _ROWS])
            self._rows[kind] = rows[:, :1].copy() if (rows == rows[:, :1]).all() else rows
        self._idle_rows = np.array([boards.low[name] if name in ENGINES else 0.0 * one for name in _ROWS])
        #: Received traffic that is as much as what is sent, whatever the work.
        self._same_as = {
            received: sent
            for sent, received in zip(_SENT, _RECEIVED, strict=True)
            if np.array_equal(boards.low[sent], boards.low[received])
            and np.array_equal(self.maxima[sent], self.maxima[received])
            and all(np.array_equal(takes.get(sent, 0.0), takes.get(received, 0.0)) for takes in self._takes.values())
        }
        # An engine that no kind of work drives is shown, but cannot be requested.
        for name in ENGINES:
            driven = self._takes.get(_MODEL_KINDS[name], {}).get(name, np.zeros(boards.count))
            self.maxima[name] = (boards.has[name] & (driven > 0)).astype(np.float64)

    def added(self, kind: str) -> Mapping[str, Floats]:
        """What a full load of a kind of work adds to each quantity of an idle board."""
        nothing = np.zeros(self._boards.count)
        takes = self._takes.get(kind, {})
        added = {name: nothing + takes.get(name, 0.0) for name in (*ENGINES, *_TRAFFIC)}
        return added | {"usage_ratio": takes.get("usage_ratio", 0.0) * self._boards.span["usage_ratio"]}

    def work(
        self,
        loads: Mapping[str, Floats],
        activity: Mapping[str, Floats],
        asked: Mapping[str, Floats],
        contexts: Mask,
        hung: Mask | None,
    ) -> Work:
        """The work that a demand amounts to.

        :param loads: load of each board by kind of work; kinds that a type does not know have no effect.
        :param activity: load times intensity by kind of work; the same mapping as the loads at full intensity.
        :param asked: amounts requested in addition, by quantity and in its unit.
        :param contexts: boards on which a process holds a context.
        :param hung: boards that hang under any work; None for none.
        """
        boards = self._boards
        hanging = hung
        if "hung" in asked:
            hanging = asked["hung"] > 0 if hung is None else (asked["hung"] > 0) | hung
        known = [kind for kind in boards.kinds if kind in loads]
        of_time = {kind: loads[kind] for kind in known}
        of_engines = of_time if activity is loads else {kind: activity[kind] for kind in known}
        held = {name: np.clip(asked[name], 0.0, self.maxima[name]) for name in _MODEL_KINDS if name in asked}
        requests: Mapping[str, Floats] = held
        if IMPLIED_USAGE in asked:
            requests = held | {IMPLIED_USAGE: asked[IMPLIED_USAGE]}
        alike: dict[str, Floats] = {}
        for name, amount in held.items():
            kind = _MODEL_KINDS[name]
            full = self._takes.get(kind, {}).get(name)
            if full is not None:
                share = np.minimum(_divided(amount, np.broadcast_to(full, amount.shape)), 1.0)
                alike[kind] = np.maximum(alike[kind], share) if kind in alike else share
        if _COPY in held:
            requests = self._with_copies(requests, alike)
        drawing = of_engines
        if alike:
            drawing = dict(of_engines)
            for kind, share in alike.items():
                drawing[kind] = np.minimum(drawing[kind] + share if kind in drawing else share, 1.0)
            # In the order of the kinds: what is asked elsewhere must not change the order of a board's sums.
            drawing = {kind: drawing[kind] for kind in boards.kinds if kind in drawing}
        shown = None if hanging is None else hanging & boards.hangs
        return Work(of_time, of_engines, requests, alike, drawing, contexts, hanging, shown)

    def _with_copies(self, requests: Mapping[str, Floats], alike: Mapping[str, Floats]) -> dict[str, Floats]:
        """The requests with the traffic of copies: engines that copy move data, as transfer work does.

        Work that says any traffic of its own says all of it.
        """
        moved, kind = dict(requests), _MODEL_KINDS[_COPY]
        named = [moved[name] > 0 for name in _TRAFFIC if name in moved]
        share = np.where(np.any(named, axis=0), 0.0, alike[kind]) if named else alike.get(kind, np.zeros(1))
        for name in _TRAFFIC:
            taken = self._takes.get(kind, {}).get(name)
            if taken is not None and np.any(taken):
                moved[name] = np.minimum(moved.get(name, 0.0) + share * taken, self.maxima[name])
        return moved

    def draws_graphics(self, work: Work) -> Mask | bool:
        """The boards that render, shape (B,)."""
        rendering = work.drawing.get("render")
        return False if rendering is None else rendering > IDLE

    def busy(self, work: Work) -> tuple[dict[str, Floats], Mask]:
        """Usage, engines and profiling counters by quantity, 0 to 1, and which boards have work."""
        boards, asked = self._boards, work.asked
        taken = np.zeros(self._idle_rows.shape)
        for kind, activity in work.activity.items():
            taken += self._rows[kind] * activity
            if work.activity is not work.loads:
                waiting = np.sqrt(work.loads[kind] * activity) - activity
                taken[_HELD_ROWS] += self._rows[kind][_HELD_ROWS] * waiting
        usage = taken[0]
        if work.activity is not work.loads:
            usage = self._sum(work.loads, _USAGE)
        used_fully = taken[0]
        for kind, share in work.alike.items():
            taken[_PROFILED_ROWS] += self._rows[kind][_PROFILED_ROWS] * share
        active = usage + taken[_ENGINE_ROWS].sum(axis=0)
        for name, amount in asked.items():
            if name in self.maxima:
                active = active + _divided(amount, self.maxima[name])
            if name in ENGINES:
                taken[_ROWS.index(name)] += amount
            if name in USAGE_QUANTITIES:
                usage, used_fully = usage + amount, used_fully + amount
        taken += self._idle_rows
        np.minimum(taken, 1.0, out=taken)
        if work.hung is not None:
            taken[:, work.hung] = 0.0
        made = dict(zip(_ROWS[1:], taken[1:], strict=True))
        usage = work.unless_hung(np.minimum(usage, 1.0), 1.0)
        half = 0.5 * _SM_PER_USAGE
        graphics = half * usage + half * work.unless_hung(np.minimum(used_fully, 1.0), 1.0)
        made[GRAPHICS] = np.maximum(graphics, taken[_SM_ROW])
        made[_USAGE] = boards.between(_USAGE, usage)
        return made, work.unless_hung(active, 1.0) > IDLE

    def traffic(self, work: Work, clock_ratio: Floats) -> dict[str, Floats]:
        """The traffic of memory and links by quantity: throttled clocks lower it as they slow the work.

        :param clock_ratio: the clock of the work as a share of the highest.
        """
        boards = self._boards
        lost = 1.0 - clock_ratio
        done = dict(work.activity)
        if lost.any():
            for kind, load in work.activity.items():
                done[kind] = load * boards.kinds[kind].pace(lost) if boards.kinds[kind].is_slowed else load
        sums: dict[str, Floats] = {}
        for name, idle in self._idle_traffic.items():
            if name in self._same_as:
                sums[name] = sums[self._same_as[name]]
                continue
            total = self._sum(done, name)
            sums[name] = total if idle is None else idle + total
        reads = boards.low[_MEMORY] * _IDLE_READS + self._sum(done, _READS)
        for name in _TRAFFIC:
            if name in work.asked:
                kind = _MODEL_KINDS[name]
                slowed = work.asked[name] * boards.kinds[kind].pace(lost) if kind in boards.kinds else work.asked[name]
                sums[name] = sums[name] + slowed
                if name == _MEMORY:
                    reads = reads + slowed * (boards.kinds[kind].share("read") if kind in boards.kinds else _IDLE_READS)
        made: dict[str, Floats] = {}
        for name in _TRAFFIC:
            same = self._same_as.get(name)
            if same is not None and sums[name] is sums[same]:
                made[name] = made[same]
            else:
                made[name] = work.unless_hung(np.minimum(sums[name], self.maxima[name]), 0.0)
        if (made[_MEMORY] < sums[_MEMORY]).any():
            reads = reads * _divided(made[_MEMORY], sums[_MEMORY])
        peak = boards.memory_bytes_per_second
        read, both = peak * reads, peak * made[_MEMORY]
        made[_READ], made[_WRITTEN] = read, both - read
        made[MEMORY_USAGE] = made[_MEMORY]
        return made

    def add_moved(self, traffic: dict[str, Floats]) -> None:
        """Raise the memory traffic to that of the links: what they carry comes from the memory, or goes to it.

        At least what they send is read, and at least what they receive is written. Work that says its own memory
        traffic includes it.
        """
        beside = {}
        for name in (*_SENT, *_RECEIVED):
            idle = self._idle_traffic[name]
            beside[name] = traffic[name] if idle is None else np.maximum(traffic[name] - idle, 0.0)
        sent, received = (beside[pcie] + beside[fabric] for pcie, fabric in (_SENT, _RECEIVED))
        if self._has_no_memory is not None:
            sent, received = (np.where(self._has_no_memory, 0.0, rate) for rate in (sent, received))
        short = (sent > traffic[_READ]) | (received > traffic[_WRITTEN])
        if not short.any():
            return
        read, written = np.maximum(traffic[_READ], sent), np.maximum(traffic[_WRITTEN], received)
        ratio = (read + written) / self._memory_peak
        if (ratio > 1.0).any():
            fits = 1.0 / np.maximum(ratio, 1.0)
            read, written, ratio = read * fits, written * fits, np.minimum(ratio, 1.0)
        traffic[_READ], traffic[_WRITTEN] = read, written
        # Where nothing is raised, the ratio keeps its last digit.
        traffic[_MEMORY] = np.where(short, ratio, traffic[_MEMORY])
        traffic[MEMORY_USAGE] = traffic[_MEMORY]

    def moving(self, traffic: Mapping[str, Floats]) -> Mask:
        """Boards whose memory or links to other boards carry more than those of an idle board."""
        found = np.zeros(self._boards.count, np.bool_)
        for name, still in self._moving.items():
            found |= traffic[name] > still
        return found

    def _sum(self, loads: Mapping[str, Floats], name: str) -> Floats:
        """What all kinds of work add to the lower end of a quantity."""
        total = np.zeros(self._boards.count)
        for kind, load in loads.items():
            takes = self._takes[kind].get(name)
            if takes is not None:
                total += load * takes
        return total


def _divided(part: Floats, whole: Floats) -> Floats:
    """``part / whole``, 0 where the whole is 0."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _profiled(work: Kind, takes: Mapping[str, Floats]) -> dict[str, Floats]:
    """What a full load of a kind of work adds to the profiling counters.

    A multiprocessor with work in a pipe, or with a warp, is active.
    """
    made = {name: work.share(field) for name, field in PROFILED.items()}
    pipes = [pipe for name, pipe in made.items() if name != "sm_active_ratio"]
    made["sm_active_ratio"] = reduce(np.maximum, [*pipes, takes["tensor_active_ratio"]], made["sm_active_ratio"])
    return made
