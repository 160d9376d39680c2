"""The socket for changes of boards: who may, what may be, and what peers cannot do."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from fakedev.base.errors import CannotWrite
from fakedev.lines.peers import pid_of, user_of
from fakedev.nvml.part import BoardSettings, SettingFactory, user_numbers
from tests.support.fleet.calibration import mean_type
from tests.support.fleet.faulty_fleets import shown
from tests.support.fleet.fleets import advance, make_fleet, pool_of


class UnixTransport(StringTransport):  # type: ignore[misc]
    """A connection over a UNIX socket from this process."""

    def __init__(self, handle: socket.socket) -> None:
        super().__init__(peerAddress=UNIXAddress(b""))
        self._handle = handle
        self.is_aborted = False

    def getHandle(self) -> socket.socket:
        return self._handle

    def abortConnection(self) -> None:
        self.is_aborted = True


@contextmanager
def unix_transport() -> Iterator[UnixTransport]:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        yield UnixTransport(one)


def test_who_is_at_the_other_end() -> None:
    """Pid and user of a peer on a UNIX socket; none of others."""
    with unix_transport() as transport:
        assert (pid_of(transport), user_of(transport)) == (os.getpid(), os.getuid())
    assert pid_of(transport) is None  # closed
    other = StringTransport(peerAddress=IPv4Address("TCP", "127.0.0.1", 1))
    assert (pid_of(other), user_of(other)) == (None, None)


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ("set dgx-0 1 power-limit 300000", 0),
        ("set dgx-0 1 locked-clock 900", 0),
        ("set dgx-0 1 power-limit 0", 0),
        ("set dgx-0 9 power-limit 300000", 6),
        ("set dgx-7 1 power-limit 300000", 6),
        ("set dgx-0 1 power-limit 1", 2),
        ("set dgx-0 1 colour 1", 2),
        ("set dgx-0 -1 power-limit 300000", 2),
        ("set dgx-0 1 power-limit 99999999999999999999", 2),
        ("get dgx-0 1 power-limit 1", 2),
        ("\xff\xfe", 2),
        ("", 2),
    ],
)
def test_lines(line: str, result: int) -> None:
    """Each gets one number, and the connection ends."""
    fleet = make_fleet(pool_of(device_type=mean_type("h100")))
    factory = SettingFactory(fleet, {os.getuid()}, Clock())
    with unix_transport() as transport:
        protocol = factory.buildProtocol(None)
        protocol.makeConnection(transport)
        protocol.dataReceived(f"{line}\n".encode("latin-1"))
        assert transport.value() == b"%d\n" % result
        assert transport.disconnecting
        protocol.connectionLost()
    assert factory.connected == 0


def test_others_may_not() -> None:
    """4 for other users, and for peers that no kernel names."""
    fleet = make_fleet(pool_of(device_type=mean_type("h100")))
    factory = SettingFactory(fleet, {os.getuid() + 1}, Clock())
    with unix_transport() as transport:
        for each in (transport, StringTransport(peerAddress=IPv4Address("TCP", "127.0.0.1", 1))):
            protocol = factory.buildProtocol(None)
            protocol.makeConnection(each)
            protocol.dataReceived(b"set dgx-0 1 power-limit 300000\n")
            assert each.value() == b"4\n"
    advance(fleet, 1)
    assert not fleet.faults.by_id


def test_silent_and_many_peers() -> None:
    """A peer has five seconds and 512 bytes; more than 64 at a time are cut."""
    clock = Clock()
    factory = SettingFactory(make_fleet(), {os.getuid()}, clock)
    with unix_transport() as silent, unix_transport() as long, unix_transport() as late:
        for transport in (silent, long):
            factory.buildProtocol(None).makeConnection(transport)
        protocol = factory.buildProtocol(None)
        protocol.makeConnection(long)
        protocol.dataReceived(b"x" * 1000)
        assert long.is_aborted
        clock.advance(5)
        assert silent.is_aborted
        factory.connected = 64
        factory.buildProtocol(None).makeConnection(late)
        assert late.is_aborted


def test_a_setting_is_one_fault() -> None:
    """Each new one takes the place of the one before; 0 gives the board's own back; a fault of others stays."""
    fleet = make_fleet(pool_of(device_type=mean_type("h100")))
    settings = BoardSettings(fleet)
    for watts in (300, 400, 350):
        assert settings.change("dgx-0", 2, "power-limit", watts * 1000) == 0
        advance(fleet, 2)
        assert shown(fleet, "power_limit_watts", 2) == watts
        assert len(fleet.faults.by_id) == 1
    assert settings.change("dgx-0", 2, "power-limit", 1) == 2
    advance(fleet, 2)
    assert shown(fleet, "power_limit_watts", 2) == 350
    assert settings.change("dgx-0", 2, "power-limit", 0) == 0
    advance(fleet, 2)
    assert shown(fleet, "power_limit_watts", 2) == 700
    assert not fleet.faults.by_id


def test_users() -> None:
    """By name or number; unknown ones are an error that says so."""
    assert user_numbers("f", ("root", "17")) == {0, 17}
    with pytest.raises(CannotWrite, match="f: setters: there is no user 'noone-here' on this machine"):
        user_numbers("f", ("noone-here",))
