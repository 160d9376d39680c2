"""Lines of the socket that divide boards (MIG): each step has a result, and the answer comes with a tick."""

from __future__ import annotations

import os
import socket
from typing import cast

import pytest
from twisted.internet.address import UNIXAddress
from twisted.internet.interfaces import IReactorThreads
from twisted.internet.task import Clock

from fakedev.fleet.fleet import Fleet
from fakedev.nvml.divisions import Divisions
from fakedev.nvml.part import SettingFactory
from tests.nvml.test_control import UnixTransport, unix_transport
from tests.support.fleet.calibration import mean_type
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start


class Control:
    """The changes of a fleet's boards, with ticks in between."""

    def __init__(self, board: str = "h100") -> None:
        self.fleet: Fleet = make_fleet(pool_of(device_type=mean_type(board), devices_per_node=2))
        self.divisions = Divisions(self.fleet, cast(IReactorThreads, Clock()))

    def tick(self) -> None:
        advance(self.fleet, 1)
        self.divisions.ticked()

    def __call__(self, *steps: str, node: str = "dgx-0", index: int = 0) -> str:
        answers: list[str] = []
        self.divisions.change(node, index, steps).addCallback(answers.append)
        if not answers:
            self.tick()
        return answers[0]


def test_the_life_of_instances() -> None:
    """As nvidia-smi and NVML's callers make them: mode, GPU instance, compute instance, and back."""
    control = Control()
    assert control("gpu=9") == "3:0"  # MIG mode is off
    assert control("mode=1") == "0:0"
    assert control("mode=1") == "0:0"
    assert control("gpu=9", "both=19", "gpu=14@2", "gpu=9", "gpu=19") == "0:2 0:7 0:4 23:0"
    assert control("no-gpu=7") == "19:0"  # it has its compute instance
    assert control("compute=2", "compute=2") == "0:2 23:0"
    assert control("compute=9") == control("no-compute=4") == control("no-gpu=9") == "6:0"
    assert control("no-compute=7", "no-gpu=7", "gpu=20@1") == "0:7 0:7 0:8"
    assert control("gpu=20") == "23:0"  # there is one of this kind at most
    assert control("gpu=33") == control("gpu=14@1") == "2:0"
    assert control("mode=0") == "0:0"
    assert not control.fleet.roster.parts.count


def test_work_is_not_destroyed() -> None:
    """19 (in use) for an instance with work, and for MIG mode of a board with work."""
    control = Control()
    start(control.fleet, "dgx-0/1")
    control.tick()
    assert control("mode=1", index=1) == "19:0"
    control("mode=1")
    control("both=9", "both=9")
    start(control.fleet, "dgx-0/0/1")
    control.tick()
    assert control("mode=0") == "19:0"
    assert control("no-compute=2") == "19:0"
    assert control("no-compute=1") == "0:1"


def test_changes_in_one_tick() -> None:
    """A change sees those before it that wait for the same tick."""
    control = Control()
    answers: list[str] = []
    for steps in (["mode=1"], ["gpu=9"], ["no-gpu=2"], ["gpu=0"], ["gpu=9"]):
        control.divisions.change("dgx-0", 0, steps).addCallback(answers.append)
    assert answers == ["23:0"]
    control.tick()
    assert answers[1:] == ["0:0", "0:2", "0:2", "0:0"]


@pytest.mark.parametrize(("line", "answer"), [
    ("mig dgx-9 0 mode=1", "6"), ("mig dgx-0 7 mode=1", "6"), ("mig dgx-0 0", "2"), ("mig dgx-0 0 mode", "2"),
    ("mig dgx-0 0 mode=2", "2:0"), ("mig dgx-0 x mode=1", "2"), ("mig", "2"), ("mig dgx-0 0" + 40 * " gpu=9", "2"),
])  # fmt: skip
def test_wrong_lines(line: str, answer: str) -> None:
    control = Control()
    factory = SettingFactory(control.fleet, {os.getuid()}, Clock())
    with unix_transport() as transport:
        protocol = factory.buildProtocol(None)
        protocol.makeConnection(transport)
        protocol.dataReceived(f"{line}\n".encode())
        assert transport.value() == f"{answer}\n".encode()


def test_a_peer_that_does_not_wait() -> None:
    """The answer is for nobody then; a fleet that stands still keeps a peer for 20 s."""
    control, clock = Control(), Clock()
    factory = SettingFactory(control.fleet, {os.getuid()}, clock)
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        transport = UnixTransport(one)
        assert transport.getPeer() == UNIXAddress(b"")
        protocol = factory.buildProtocol(None)
        protocol.makeConnection(transport)
        protocol.dataReceived(b"mig dgx-0 0 mode=1\nmig dgx-0 0 mode=0\n")
        assert transport.value() == b""
        clock.advance(20)
        assert transport.is_aborted
        protocol.connectionLost()
        advance(control.fleet, 1)
        factory.divisions.ticked()


def test_boards_without_mig() -> None:
    assert Control("l4-24gb")("mode=1") == "3:0"
