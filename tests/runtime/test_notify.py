"""What systemd is told: a real datagram socket is in its place."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from fakedev.runtime.systemd import notifier_of

WATCHED = {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}


class Systemd:
    """Listens as systemd does."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))
        self._socket.setblocking(False)

    def heard(self) -> list[dict[str, str]]:
        """The messages since the last call, as variables."""
        found = []
        while True:
            try:
                text = self._socket.recv(4096).decode()
            except BlockingIOError:
                return found
            found.append(dict(line.split("=", 1) for line in text.split("\n")))

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where systemd listens."""
    return str(tmp_path / "notify") if request.param == "path" else f"@fakedev-{os.getpid()}-{tmp_path.name}"


@pytest.fixture
def systemd(address: str) -> Iterator[Systemd]:
    """It listens there."""
    made = Systemd(address)
    yield made
    made.close()


def test_a_life(systemd: Systemd, address: str) -> None:
    """Ready, alive three times in the time of the watchdog, a reload, the end; no child sees the variables."""
    clock, environ, ticks = Clock(), {"NOTIFY_SOCKET": address, **WATCHED, "HOME": "/"}, iter(range(100))
    notifier = notifier_of(environ, clock, lambda: f"tick {next(ticks)}")
    assert notifier is not None
    assert environ == {"HOME": "/"}
    notifier.startService()
    assert systemd.heard() == [{"READY": "1", "STATUS": "tick 0"}]
    clock.pump([1] * 31)
    assert systemd.heard() == [{"WATCHDOG": "1", "STATUS": f"tick {number}"} for number in (1, 2, 3)]
    notifier.reloading()
    notifier.reloaded()
    reloading, ready = systemd.heard()
    assert reloading["RELOADING"] == "1"
    assert int(reloading["MONOTONIC_USEC"]) > 0
    assert ready == {"READY": "1", "STATUS": "tick 4"}
    notifier.stopService()
    assert systemd.heard() == [{"STOPPING": "1", "STATUS": "stopping"}]
    assert clock.getDelayedCalls() == []


@pytest.mark.parametrize("more", [{}, {**WATCHED, "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "x"}])
def test_without_a_watchdog(systemd: Systemd, address: str, more: dict[str, str]) -> None:
    """The status is told all the same."""
    clock = Clock()
    notifier = notifier_of({"NOTIFY_SOCKET": address, **more}, clock, lambda: "good")
    assert notifier is not None
    notifier.startService()
    clock.pump([1] * 10)
    assert systemd.heard() == [{"READY": "1", "STATUS": "good"}, {"STATUS": "good"}]


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1234"}])
def test_without_systemd(environ: dict[str, str]) -> None:
    assert notifier_of(environ, Clock(), str) is None


def test_a_full_socket(systemd: Systemd, address: str) -> None:
    """What has no room is sent later, in order; the reactor does not wait, and a bounded number of messages does."""
    clock = Clock()
    notifier = notifier_of({"NOTIFY_SOCKET": address}, clock, lambda: "x" * 1000)
    assert notifier is not None
    notifier.startService()
    for _ in range(1000):
        notifier.reloading()
    begun = systemd.heard()
    assert 1 < len(begun) < 1000
    clock.advance(0.1)
    rest = systemd.heard()
    assert 1 <= len(rest) <= 20
    assert all("RELOADING" in each for each in rest)
    notifier.stopService()
    assert clock.getDelayedCalls() == []


def test_nobody_listens(tmp_path: Path) -> None:
    notifier = notifier_of({"NOTIFY_SOCKET": str(tmp_path / "none")}, Clock(), str)
    assert notifier is not None
    notifier.startService()
    notifier.stopService()
