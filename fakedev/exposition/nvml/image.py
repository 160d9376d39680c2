"""A slot of the NVML file: all that some nodes show in a tick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.exposition.nvml.boards import chosen, static_records
from fakedev.exposition.nvml.processes import PidOf, Processes, no_pid
from fakedev.exposition.nvml.records import Quantities, dtype_of
from fakedev.sim.entities.roster import RosterNode
from fakedev.sim.fleet import Fleet
from fakedev.sim.levels import DEVICE, PART
from fakedev.sim.links.levels import link_history
from fakedev.spec import nvml_layout as layout
from fakedev.spec.nvml_layout import Counts, head_of

#: The fewest processes that a file has room for.
_FEWEST_PROCESSES: Final = 64


class Xid(NamedTuple):
    """An error code that the driver of a board of the file has reported."""

    board: int
    code: int


class SlotImage:
    """The bytes of a slot for some nodes of a fleet, with their values of the present tick.

    The true values: faults of exporters do not concern the driver.

    :param nodes: nodes of the fleet's present roster.
    :param pid_of: the process of the client of a workload.
    :ivar counts: what the slot has room for.
    :ivar content: the bytes.
    """

    def __init__(self, fleet: Fleet, nodes: Sequence[RosterNode], pid_of: PidOf = no_pid) -> None:
        self._fleet = fleet
        self._boards = chosen(fleet.roster, nodes)
        self._board_of = {device: place for place, device in enumerate(self._boards.devices.tolist())}
        self._processes = Processes(fleet, self._boards, pid_of)
        self._processes.update()
        capacity = _FEWEST_PROCESSES
        while capacity < len(self._processes.records):
            capacity *= 2
        boards, parts, links = (len(each) for each in self._boards[1:])
        self.counts = Counts(len(nodes), boards, parts, links, capacity)
        head = head_of(self.counts)
        self.content = bytearray(int(head["slot_bytes"]))
        self._records: dict[str, NDArray[Any]] = {
            f"{record.name}s": np.ndarray(count, dtype_of(record), self.content, int(head[place]))
            for record, count, place in (
                (layout.NODE, self.counts.nodes, "nodes_in_slot"),
                (layout.BOARD, self.counts.boards, "boards_in_slot"),
                (layout.PART, self.counts.parts, "parts_in_slot"),
                (layout.LINK, self.counts.links, "links_in_slot"),
            )
        }
        for name, records in static_records(fleet.roster, fleet.spec.seed, self._boards).items():
            self._records[name][:] = records
        self._places = int(head["processes_in_slot"])
        self._head = np.ndarray(1, dtype_of(layout.SLOT), self.content)
        self._of_boards = Quantities(layout.BOARD, self._records["boards"], self._boards.devices)
        self._of_parts = Quantities(layout.PART, self._records["parts"], self._boards.parts)
        self._up: object = None
        self.update()

    @property
    def nodes(self) -> bytes:
        """The records of the nodes: readers know where their node is in the file."""
        return self._records["nodes"].tobytes()

    def update(self) -> bool:
        """Write the values of the fleet's present tick.

        :returns: False when the processes do not fit: then nothing is written, and another image is needed.
        """
        processes, state = self._processes, self._fleet.state
        processes.update()
        count = len(processes.records)
        if count > self.counts.processes:
            return False
        self._head["tick"] = state.tick
        self._head["wall_time"] = round(state.wall_seconds * 1e6)
        self._head["process_count"] = count
        self._of_boards.write(state.levels[DEVICE])
        self._records["boards"]["process_count"] = processes.counts
        if self.counts.parts:
            self._of_parts.write(state.levels[PART])
        size = layout.PROCESS.size
        self.content[self._places : self._places + count * size] = processes.records.tobytes()
        up = link_history(state.levels).up
        if self.counts.links and up is not self._up:
            self._records["links"]["up"] = 1 if up is None else up[self._boards.links]
            self._up = up
        return True

    def xids(self) -> list[Xid]:
        """The error codes that boards of the slot reported in the present tick."""
        return [
            Xid(self._board_of[device], report.code)
            for report in self._fleet.reports
            for device in report.devices.tolist()
            if device in self._board_of
        ]
