"""The service that writes the file for NVML: a slot once a tick, XIDs, and a heartbeat beside the ticks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from fakedev.exposition.nvml.image import SlotImage
from fakedev.exposition.nvml.processes import PidOf
from fakedev.net.system.listening import ListeningService
from fakedev.net.system.unix_sockets import SocketPathError, make_private_folder
from fakedev.nvml.map_file import MapFile
from fakedev.sim.entities.roster import RosterNode
from fakedev.sim.fleet import Fleet
from fakedev.spec.nvml_layout import ABSENT, HEARTBEAT_SECONDS, MAX_BOARDS
from fakedev.spec.os_errors import CannotWrite


class NvmlMap(Service):
    """Writes the boards of some nodes.

    :param path: of the file; its folder is made, for this user alone, when it is missing.
    :param nodes: names of the nodes; none: all of the fleet.
    :param pid_of: the process of the client of a workload.
    :param clock: for the heartbeat's timer.
    :param monotonic_ns: CLOCK_MONOTONIC.
    :param control: the UNIX socket for changes; empty for none.
    :raises CannotWrite: when the file cannot be made.
    :ivar problem: why the file is not written; empty while it is.
    :ivar ports: the socket for changes, if there is one.
    """

    log = Logger()

    def __init__(
        self, fleet: Fleet, path: str, mode: int, nodes: Sequence[str], pid_of: PidOf, clock: IReactorTime,
        monotonic_ns: Callable[[], int] = time.monotonic_ns, control: str = "",
    ) -> None:  # fmt: skip
        self.setName("nvml")
        self._fleet, self._path, self._mode, self._control = fleet, path, mode, control
        self._nodes, self._pid_of, self._monotonic_ns = tuple(nodes), pid_of, monotonic_ns
        self.problem = ""
        self.ports: list[tuple[ListeningService, None]] = []
        self._beats = LoopingCall(self._beat)
        self._beats.clock = clock
        self._beats_done: Deferred[Any] | None = None
        try:
            make_private_folder(os.path.dirname(path) or ".")
        except SocketPathError as reason:
            raise CannotWrite(path, str(reason)) from None
        self._compiled = fleet.compiled
        self._tick = fleet.state.tick
        self._image = self._make_image()
        self._must_replace = False
        self._file = self._made_file(is_ours=False)

    def startService(self) -> None:
        super().startService()
        self._beats_done = self._beats.start(HEARTBEAT_SECONDS)

    def stopService(self) -> Deferred[Any] | None:
        super().stopService()
        if self._beats.running:
            self._beats.stop()
        self._file.end()
        return self._beats_done

    def ticked(self) -> None:
        """A tick of the fleet has ended, or its nodes have changed."""
        if self._beats_done is not None and not self.running:
            return
        try:
            self._write()
        except (OSError, CannotWrite) as reason:
            self._fail(reason)
        else:
            self.problem = ""

    def _write(self) -> None:
        fleet = self._fleet
        fits = self._compiled is fleet.compiled
        if not fits:
            self._compiled = fleet.compiled
            before, self._image = self._image, self._make_image()
            is_new = (before.counts, before.nodes) != (self._image.counts, self._image.nodes)
        else:
            is_new = not self._image.update()
            if is_new:
                self._image = self._make_image()
        if is_new or self._must_replace:
            self._must_replace = True  # until it has worked
            self._replace_file()
            self._must_replace = False
        else:
            self._file.write_slot(self._image.content)
        if fleet.state.tick != self._tick:  # a tick, not a reload
            self._tick = fleet.state.tick
            for board, code in self._image.xids():
                self._file.add_event({
                    "board": board, "gpu_instance": ABSENT, "xid": code, "tick": self._tick,
                    "wall_time": round(fleet.state.wall_seconds * 1e6),
                })  # fmt: skip

    def _make_image(self) -> SlotImage:
        return SlotImage(self._fleet, self._chosen(), self._pid_of)

    def _chosen(self) -> list[RosterNode]:
        """The nodes that there are now; of many, which join a cluster, those that there is room for."""
        roster = self._fleet.roster
        nodes = [roster.node(name) for name in self._nodes] if self._nodes else list(roster.shown)
        found, count = [], 0
        for node in nodes:
            if node is not None and count + len(node.devices) <= MAX_BOARDS:
                found.append(node)
                count += len(node.devices)
        return found

    def _made_file(self, *, is_ours: bool) -> MapFile:
        """A file for the present image, with the path of the one before it."""
        now_ns = self._monotonic_ns()
        file = MapFile(
            self._path, self._mode, self._image.counts, now_ns, is_ours=is_ours, control=self._control
        )  # fmt: skip
        try:
            file.write_slot(self._image.content)
            file.show()
        except OSError as reason:
            file.end()
            raise CannotWrite(self._path, reason) from None
        return file

    def _replace_file(self) -> None:
        old, self._file = self._file, self._made_file(is_ours=True)
        old.end(is_replaced=True)

    def _beat(self) -> None:
        try:
            self._file.beat(self._monotonic_ns())
        except OSError as reason:
            self._fail(reason)

    def _fail(self, reason: OSError | CannotWrite) -> None:
        text = str(reason if isinstance(reason, CannotWrite) else CannotWrite(self._path, reason))
        if text != self.problem:
            self.problem = text
            self.log.error("the file for NVML is not written: {problem}; all else continues", problem=text)
