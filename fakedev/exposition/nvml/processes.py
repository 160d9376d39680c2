"""The workloads on boards as processes of the NVML file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fakedev.exposition.nvml.boards import Chosen
from fakedev.exposition.nvml.records import dtype_of, whole
from fakedev.exposition.page_levels import process_number
from fakedev.sim.entities.state import Positions
from fakedev.sim.fleet import Fleet
from fakedev.sim.levels import UNIT
from fakedev.sim.workloads.workload import Workload
from fakedev.spec.binary_records import text_of
from fakedev.spec.nvml_layout import ABSENT, FIRST_IMPOSSIBLE_PID, MAX_PROCESSES, PROCESS

#: Field to the quantity of which a process has a share.
_SHARES: Final[Mapping[str, str]] = {
    "usage": "usage_ratio",
    "memory_usage": "memory_usage_ratio",
    "encoder_usage": "encoder_active_ratio",
    "decoder_usage": "decoder_active_ratio",
}
_MEMORY: Final = "memory_used_bytes"
_MIB: Final = 1048576.0
#: The kind of work of programs that draw.
_GRAPHICS: Final = "render"

#: The pid of the client of a workload, by the workload's id; None: it has none.
PidOf = Callable[[str], int | None]


def no_pid(workload_id: str) -> int | None:
    """No workload has a process."""
    return None


class Processes:
    """The processes of the boards of a file: a workload on an undivided board, or on an instance of one.

    :ivar records: in order of their boards and instances, at most 64 of each, beginning with the oldest.
    :ivar counts: the processes of each board, also those that are not listed: shape (B,).
    """

    def __init__(self, fleet: Fleet, boards: Chosen, pid_of: PidOf) -> None:
        self._fleet = fleet
        self._pid_of = pid_of
        parts = fleet.roster.parts
        #: The board and the instance of each unit of the fleet, -1 for none.
        self._board_of: Positions = np.full(parts.unit_count, -1, dtype=np.int64)
        self._part_of: Positions = np.full(parts.unit_count, -1, dtype=np.int64)
        self._board_of[boards.devices] = np.arange(len(boards.devices))
        units = boards.parts + parts.device_count
        self._board_of[units] = self._board_of[parts.owners[boards.parts]]
        self._part_of[units] = np.arange(len(boards.parts))
        #: The number of each board in its node.
        self._indices = [index for _, indices in boards.nodes for index in indices]
        self._followed = -1
        #: The pairs of workload and unit; the first pair of each unit, and the number of the unit of each pair.
        self._pairs: Positions = np.zeros(0, dtype=np.int64)
        self._firsts = self._numbers = self._pairs
        self.records: NDArray[Any] = np.zeros(0, dtype=dtype_of(PROCESS))
        self.counts: Positions = np.zeros(len(boards.devices), dtype=np.int64)

    def update(self) -> None:
        """Follow the workloads to the present tick."""
        if self._fleet.workloads.changes != self._followed:
            self._followed = self._fleet.workloads.changes
            self._find()
        if not len(self._pairs):
            return
        shares, table = self._fleet.workloads.shares(), self._fleet.workloads.table
        units = table.device[self._pairs]
        held = shares.of(_MEMORY, self._pairs)
        self.records["memory_used"] = np.floor(held / _MIB) * _MIB
        # What a board or instance shows is divided by the loads of its workloads.
        loads = shares.parts[self._pairs]
        of_unit = np.add.reduceat(loads, self._firsts)[self._numbers]
        level, shown = self._fleet.state.levels[UNIT].arrays, np.zeros((len(_SHARES), len(loads)))
        for row, quantity in enumerate(_SHARES.values()):
            if quantity in level:
                shown[row] = level[quantity][units]
        parts = np.divide(loads, of_unit, out=np.zeros(len(loads)), where=of_unit > 0)
        for field, percents in zip(_SHARES, whole(shown * parts, 100.0), strict=True):
            self.records[field] = percents

    def _find(self) -> None:
        """List the workloads that run on the boards."""
        workloads = self._fleet.workloads
        table, by_id = workloads.table, workloads.by_id
        on_boards = np.flatnonzero(self._board_of[table.device] >= 0) if len(table.device) else self._pairs[:0]
        boards, parts = self._board_of[table.device[on_boards]], self._part_of[table.device[on_boards]]
        order = np.lexsort((on_boards, parts, boards))
        on_boards, boards, parts = on_boards[order], boards[order], parts[order]
        self.counts = np.bincount(boards, minlength=len(self.counts))
        starts = np.ones(len(boards), dtype=np.bool_)
        starts[1:] = (np.diff(boards) != 0) | (np.diff(parts) != 0)
        first = np.maximum.accumulate(np.where(starts, np.arange(len(boards)), 0))
        listed = np.arange(len(boards)) - first < MAX_PROCESSES
        self._pairs, boards, parts, starts = on_boards[listed], boards[listed], parts[listed], starts[listed]
        self._firsts, self._numbers = np.flatnonzero(starts), np.cumsum(starts) - 1
        records = np.zeros(len(self._pairs), dtype=dtype_of(PROCESS))
        records["board"] = boards
        records["part"] = np.where(parts < 0, ABSENT, parts)
        epoch = self._fleet.spec.epoch_seconds
        pids: dict[tuple[str, int], int] = {}
        used: set[int] = set()
        for place, (owner, board) in enumerate(zip(table.owner[self._pairs].tolist(), boards.tolist(), strict=True)):
            workload = by_id[table.ids[owner]]
            key = workload.workload_id, board  # on several instances of a board it is one process
            if key not in pids:
                pids[key] = self._pid(workload, board, used)
                used.add(pids[key])
            record, pid = records[place], pids[key]
            record["name"] = text_of(workload.spec.name, 64)
            record["pid"] = pid
            record["is_graphics"] = workload.spec.kind == _GRAPHICS
            record["started"] = int(whole(epoch + (workload.start_seconds or 0.0), 1e6))
        self.records = records

    def _pid(self, workload: Workload, board: int, used: Set[int]) -> int:
        pid = self._pid_of(workload.workload_id)
        if pid is None:
            pid = FIRST_IMPOSSIBLE_PID + process_number(workload.key, self._indices[board])
            while pid in used:
                pid += 1
        return pid
