"""The service that writes the file for NVML, and the UNIX socket by which the library changes boards.

It writes a slot once a tick, XIDs, and a heartbeat that does not depend on the ticks. Changes are power limits and
locked clocks, as faults of the fleet.

A client sends one line, ``set NODE INDEX WHAT NUMBER``, and gets one line with NVML's number of the result; a line
``mig NODE INDEX STEP...`` is of :mod:`fakedev.nvml.divisions`. The kernel says who the client is (SO_PEERCRED): only
users that the configuration names may change anything.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorThreads, IReactorTime
from twisted.internet.protocol import Factory
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.protocols.policies import TimeoutMixin

from fakedev.base.errors import CannotWrite, Refused
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.entities.state import Positions
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.hub import FaultHub, WorkloadHub
from fakedev.lines.peers import StreamTransport, user_of
from fakedev.nvml.board_errors import BoardErrors
from fakedev.nvml.divisions import INVALID_ARGUMENT, NO_PERMISSION, NOT_FOUND, SUCCESS, Divisions
from fakedev.nvml.image import PidOf, SlotImage
from fakedev.nvml.map_file import MapFile
from fakedev.nvml.records import ABSENT, HEARTBEAT_SECONDS, MAX_BOARDS
from fakedev.nvml.settings import Nvml
from fakedev.runtime.listening import CannotStart, ListeningService
from fakedev.runtime.part import Part
from fakedev.runtime.reactor import IReactor
from fakedev.runtime.socket_files import SocketPathError, make_private_folder
from fakedev.schema.addresses import ListenAddress


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
        self._beats = LoopingCall(self._beat)
        self._beats.clock = clock
        self._beats_done: Deferred[Any] | None = None
        try:
            make_private_folder(os.path.dirname(path) or ".")
        except SocketPathError as reason:
            raise CannotWrite(path, str(reason)) from None
        self._compiled = fleet.compiled
        self._tick = fleet.state.tick
        self._errors = BoardErrors(fleet)
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
            old, self._file = self._file, self._made_file(is_ours=True)
            old.end(is_replaced=True)
            self._must_replace = False
        else:
            self._file.write_slot(self._image.content)
        if fleet.state.tick != self._tick:  # a tick, not a reload
            self._tick = fleet.state.tick
            errors = self._errors.of_tick(fleet, ()) if self._image.has_amd else ()
            for board, code in [*self._image.xids(), *self._image.afids(errors)]:
                self._file.add_event({
                    "board": board, "gpu_instance": ABSENT, "xid": code, "tick": self._tick,
                    "wall_time": round(fleet.state.wall_seconds * 1e6),
                })  # fmt: skip

    def values(self, quantity: str) -> tuple[Positions, Floats]:
        return self._image.values(quantity)

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


#: What can be set: the kind of the fault, its field, and the factor from the given number to the field's unit.
SETTINGS: Final = {
    "power-limit": ("power-cap", "watts", 0.001),
    "locked-clock": ("clock-lock", "megahertz", 1.0),
}
_MAX_CONNECTIONS: Final = 64
_SECONDS: Final = 5.0
#: The longest wait for a tick that brings a change.
TICK_SECONDS: Final = 20.0
_MAX_LINE: Final = 512
_PEER: Final = "NVML"


def user_numbers(path: str, users: Iterable[str]) -> frozenset[int]:
    """The numbers of users that are given by name or number.

    :param path: of the file for NVML, for the message.
    :raises CannotWrite: when there is no such user.
    """
    numbers = set()
    for user in users:
        try:
            numbers.add(int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid)
        except KeyError:
            raise CannotWrite(path, f"setters: there is no user {user!r} on this machine") from None
    return frozenset(numbers)


class BoardSettings:
    """The settings of boards that programs have changed; each is a fault until it is changed back."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._faults = FaultHub(fleet)
        self._ids: dict[tuple[str, int, str], str] = {}

    def change(self, node: str, index: int, what: str, number: int) -> int:
        """Change a setting from the next tick on; 0 gives the board's own back.

        :returns: NVML's number of the result.
        """
        found = self._fleet.roster.node(node)
        if found is None or not 0 <= index < len(found.devices):
            return NOT_FOUND
        if what not in SETTINGS or number < 0:
            return INVALID_ARGUMENT
        kind, field, factor = SETTINGS[what]
        key, following = (node, index, what), None
        if number:
            fields = {"kind": kind, "devices": f"{node}/{index}", field: number * factor}
            try:
                following = self._faults.inject(fields, peer=_PEER)
            except Refused:
                return INVALID_ARGUMENT
        before = self._ids.pop(key, None)
        if before in self._fleet.faults.by_id:
            self._faults.clear(before)
        if following is not None:
            self._ids[key] = following
        return SUCCESS


class SettingProtocol(LineOnlyReceiver, TimeoutMixin):
    """One connection: a line, an answer, the end."""

    delimiter = b"\n"
    MAX_LENGTH = _MAX_LINE

    def __init__(self, factory: SettingFactory) -> None:
        self._factory = factory
        self._is_asked = False

    def connectionMade(self) -> None:
        self._transport = cast(StreamTransport, self.transport)
        self._factory.connected += 1
        if self._factory.connected > _MAX_CONNECTIONS:
            self._transport.abortConnection()
            return
        self.setTimeout(_SECONDS)

    def lineReceived(self, line: bytes) -> None:
        if self._is_asked:
            return
        self._is_asked = True
        self._result(line).addCallback(self._answer)

    def _answer(self, text: str) -> None:
        self._transport.write(f"{text}\n".encode())
        self._transport.loseConnection()

    def lineLengthExceeded(self, line: bytes) -> None:
        self._transport.abortConnection()

    def connectionLost(self, reason: object = None) -> None:
        self._factory.connected -= 1
        self.setTimeout(None)

    def callLater(self, period: float, func: Callable[[], Any]) -> IDelayedCall:
        return self._factory.clock.callLater(period, func)

    def timeoutConnection(self) -> None:
        self._transport.abortConnection()

    def _result(self, line: bytes) -> Deferred[str]:
        if not self._factory.may_change(user_of(self._transport)):
            return succeed(str(NO_PERMISSION))
        words = line.decode("utf-8", "replace").split(" ")
        numbers = words[2:3] if words[0] == "mig" else words[2::2]
        if words[0] not in ("set", "mig") or not numbers or not all(map(_is_number, numbers)):
            return succeed(str(INVALID_ARGUMENT))
        if words[0] == "mig":
            self.setTimeout(TICK_SECONDS)  # the answer comes with a tick
            return self._factory.divisions.change(words[1], int(words[2]), words[3:])
        if len(words) != 5:
            return succeed(str(INVALID_ARGUMENT))
        return succeed(str(self._factory.settings.change(words[1], int(words[2]), words[3], int(words[4]))))


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 10


class SettingFactory(Factory):
    """Makes the connections.

    :param users: numbers of the users that may change boards.
    """

    log = Logger()
    noisy = False

    def __init__(self, fleet: Fleet, users: Collection[int], clock: IReactorTime) -> None:
        self.settings = BoardSettings(fleet)
        self.divisions = Divisions(fleet, cast(IReactorThreads, clock))
        self.users = users
        self.clock = clock
        self.connected = 0

    def may_change(self, user: int | None) -> bool:
        """Whether a user may change boards; None: it is not known who it is."""
        return user is not None and user in self.users

    def buildProtocol(self, addr: object) -> SettingProtocol:
        return SettingProtocol(self)


class NvmlPart(Part):
    """The file of a configuration.

    :raises CannotStart: when the file cannot be written.
    """

    def __init__(self, settings: Nvml, hub: WorkloadHub, reactor: IReactor) -> None:
        path = settings.control_socket
        try:
            users = user_numbers(settings.file, settings.setters)
            self._map = NvmlMap(
                hub.fleet, settings.file, settings.mode, settings.nodes, hub.pid_of, reactor, control=path
            )
        except CannotWrite as reason:
            raise CannotStart(f"fakedev: the file for NVML cannot be written: {reason}") from None
        # All may connect; the kernel says who they are.
        address = ListenAddress("unix", path=path, mode=0o666, display=path, local=True)
        self._factory = SettingFactory(hub.fleet, users, reactor)
        super().__init__("nvml", [self._map], [ListeningService(address, self._factory, reactor)] if users else [])

    def problems(self) -> Mapping[str, str]:
        return {"nvml": self._map.problem}

    def values(self, quantity: str) -> tuple[Positions, Floats]:
        """What the file has of a quantity of boards, as :meth:`SlotImage.values`."""
        return self._map.values(quantity)

    def ticked(self) -> None:
        self._map.ticked()
        self._factory.divisions.ticked()

    def abandon(self) -> None:
        super().abandon()
        self._map.stopService()
