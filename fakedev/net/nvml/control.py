"""The UNIX socket by which the NVML library changes boards: power limits and locked clocks, as faults of the fleet.

A client sends one line, ``set NODE INDEX WHAT NUMBER``, and gets one line with NVML's number of the result. Who it is,
the kernel says (SO_PEERCRED): only users that the configuration names may change anything.
"""

from __future__ import annotations

import pwd
from collections.abc import Collection, Iterable
from typing import Final, cast

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver

from fakedev.net.fleet.faults import FaultHub
from fakedev.net.lines.outbox import StreamTransport, user_of
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused
from fakedev.spec.os_errors import CannotWrite

#: NVML's numbers of results.
SUCCESS, INVALID_ARGUMENT, NO_PERMISSION, NOT_FOUND = 0, 2, 4, 6
#: What can be set: the kind of the fault, its field, and the factor from the given number to the field's unit.
SETTINGS: Final = {
    "power-limit": ("power-cap", "watts", 0.001),
    "locked-clock": ("clock-lock", "megahertz", 1.0),
}
_MAX_CONNECTIONS: Final = 64
_SECONDS: Final = 5.0
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


class SettingProtocol(LineOnlyReceiver):
    """One connection: a line, an answer, the end."""

    delimiter = b"\n"
    MAX_LENGTH = _MAX_LINE

    def __init__(self, factory: SettingFactory) -> None:
        self._factory = factory
        self._deadline: IDelayedCall | None = None

    def connectionMade(self) -> None:
        self._transport = cast(StreamTransport, self.transport)
        self._factory.connected += 1
        if self._factory.connected > _MAX_CONNECTIONS:
            self._transport.abortConnection()
            return
        self._deadline = self._factory.clock.callLater(_SECONDS, self._transport.abortConnection)

    def lineReceived(self, line: bytes) -> None:
        self._transport.write(b"%d\n" % self._result(line))
        self._transport.loseConnection()

    def lineLengthExceeded(self, line: bytes) -> None:
        self._transport.abortConnection()

    def connectionLost(self, reason: object = None) -> None:
        self._factory.connected -= 1
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()

    def _result(self, line: bytes) -> int:
        if not self._factory.may_change(user_of(self._transport)):
            return NO_PERMISSION
        words = line.decode("utf-8", "replace").split(" ")
        if len(words) != 5 or words[0] != "set" or not all(each.isdecimal() and len(each) < 10 for each in words[2::2]):
            return INVALID_ARGUMENT
        return self._factory.settings.change(words[1], int(words[2]), words[3], int(words[4]))


class SettingFactory(Factory):
    """Makes the connections.

    :param users: numbers of the users that may change boards.
    """

    log = Logger()
    noisy = False

    def __init__(self, fleet: Fleet, users: Collection[int], clock: IReactorTime) -> None:
        self.settings = BoardSettings(fleet)
        self.users = users
        self.clock = clock
        self.connected = 0

    def may_change(self, user: int | None) -> bool:
        """Whether a user may change boards; None: it is not known who it is."""
        return user is not None and user in self.users

    def buildProtocol(self, addr: object) -> SettingProtocol:
        return SettingProtocol(self)
