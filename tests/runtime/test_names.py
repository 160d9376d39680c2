"""Names of hosts are looked up in threads of their own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IAddress

from fakedev.runtime.threads import PatientResolver

FOUND = [
    (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 80, 0, 0)),
    (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80)),
    (socket.AF_PACKET, socket.SOCK_STREAM, 6, "", ("eth0", 0)),
]


class Reactor:
    """What the resolver needs of a reactor: calls of other threads, one at a time."""

    def __init__(self) -> None:
        self.calls: Queue[tuple[Callable[..., None], tuple[Any, ...]]] = Queue()

    def callFromThread(self, function: Callable[..., None], *arguments: Any) -> None:
        self.calls.put((function, arguments))

    def turn(self) -> None:
        """Wait for a call of a thread, and do it."""
        function, arguments = self.calls.get(timeout=300)
        function(*arguments)


class Receiver:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.name = ""
        self.addresses: list[IAddress] = []
        self.is_complete = False

    def resolutionBegan(self, resolution: Any) -> None:
        self.name = resolution.name

    def addressResolved(self, address: IAddress) -> None:
        self.addresses.append(address)

    def resolutionComplete(self) -> None:
        self.is_complete = True


def asked(look_up: Callable[..., Any], **options: Any) -> Receiver:
    """What is found for a name."""
    reactor, receiver = Reactor(), Receiver()
    PatientResolver(reactor, look_up).resolveHostName(receiver, "host.example", 80, **options)
    assert receiver.name == "host.example" and not receiver.is_complete
    reactor.turn()
    assert receiver.is_complete
    return receiver


def test_addresses_in_the_order_of_the_system() -> None:
    """Of the kinds that are asked for; others than those of the internet are left out."""
    both = [IPv6Address("TCP", "::1", 80, 0, 0), IPv4Address("TCP", "127.0.0.1", 80)]
    assert asked(lambda *_: FOUND).addresses == both
    assert asked(lambda *_: FOUND, addressTypes=[IPv4Address]).addresses == both[1:]


@pytest.mark.parametrize("error", [socket.gaierror(socket.EAI_AGAIN, "later"), UnicodeError("label too long")])
def test_no_answer(error: Exception) -> None:
    def look_up(*_: object) -> list[Any]:
        raise error

    assert asked(look_up).addresses == []


def test_a_name_server_that_does_not_answer() -> None:
    """It delays no other question, and its thread is no reason for the program to wait."""
    reactor, answer, hanging = Reactor(), threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def look_up(host: str, *_: object) -> list[Any]:
        if host == "hangs.example":
            threads.append(threading.current_thread())
            hanging.set()
            answer.wait()
        return FOUND

    resolver, late, other = PatientResolver(reactor, look_up), Receiver(), Receiver()
    resolver.resolveHostName(late, "hangs.example")
    hanging.wait(30)
    resolver.resolveHostName(other, "host.example")
    reactor.turn()
    assert len(other.addresses) == 2 and not late.is_complete
    assert all(thread.daemon for thread in threads)
    answer.set()
    reactor.turn()
    assert len(late.addresses) == 2
