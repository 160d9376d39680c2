"""A long message of a workload port is served in slices: what others see meanwhile, and what is promised."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fakedev.lines.protocol import _SLICE_SECONDS
from fakedev.runtime.turns import TURN_SECONDS
from tests.support.application import AppReactor, LineClient, MemoryApplication, application

CONFIGURATION = """
version: 1
fleet:
  seed: 7
  speed: 0
  pools: [{name: p, nodes: [a], device: h100, devices-per-node: 2, identity: dcgm}]
web: ["127.0.0.1:9400"]
workloads: {listen: ["127.0.0.1:9500"]}
"""
STEP_SECONDS = 0.001
#: Looks at the clock in a turn of the reactor that are no part of a slice.
LOOKS = 5
PROFILE = [[place % 90, 0, 1 + place / 10_000] for place in range(1800)]
WORDS = ",".join(":".join(map(str, each)) for each in PROFILE)
LONG = {
    "words": f"run long devices=a/0 profile={WORDS}\n".encode(),
    "JSON lines": json.dumps({"op": "run", "name": "long", "devices": ["a/0"], "profile": PROFILE}).encode() + b"\n",
    "bare": json.dumps({
        "Name": "long", "Devices": ["a/0"], "Profile": [
            {"Load": load, "Seconds": seconds} for load, _, seconds in PROFILE
        ],
    }).encode(),
}  # fmt: skip


class Busy(AppReactor):
    """Each look at its clock takes a millisecond, so that a slice has few steps."""

    def seconds(self) -> float:
        now: float = self.rightNow
        self.rightNow += STEP_SECONDS
        return now


@pytest.fixture
def app() -> Iterator[MemoryApplication]:
    with application(CONFIGURATION, reactor=Busy()) as running:
        yield running


def names(app: MemoryApplication) -> list[str]:
    return [each.spec.name for each in app.fleet.workloads.by_id.values()]


def begin(app: MemoryApplication, message: bytes, more: bytes = b"") -> LineClient:
    """A peer whose long message is being served, with what it sends after it."""
    peer = app.connect()
    peer.send(message, more)
    assert not peer.transport.value() and not names(app)
    return peer


def turns(app: MemoryApplication, peer: LineClient) -> int:
    """How many turns of the reactor pass until a peer has an answer, none of which takes long."""
    for number in range(1000):
        if peer.transport.value():
            return number
        began = app.reactor.rightNow
        app.reactor.turn()
        assert app.reactor.rightNow - began < TURN_SECONDS + 2 * _SLICE_SECONDS + LOOKS * STEP_SECONDS
    raise AssertionError("no answer")


@pytest.mark.parametrize("message", [LONG["words"], LONG["JSON lines"]], ids=["words", "JSON"])
def test_in_slices(app: MemoryApplication, message: bytes) -> None:
    """Its peer's next message waits for it; that of another peer, of the same host too, does not."""
    peer = begin(app, message, b"faults\n" if message.startswith(b"run") else b'{"op":"faults"}\n')
    other = app.connect()
    other.send(b"run short devices=a/1 profile=1 detach\n")
    assert turns(app, other) <= 2
    assert other.transport.value() == b"ok w1\n" and names(app) == ["short"]
    assert turns(app, peer) > 5 and names(app) == ["short", "long"]
    first, second = peer.lines()
    assert "w2" in first and "0" in second


def test_bare_object(app: MemoryApplication) -> None:
    begin(app, LONG["bare"])
    for _ in range(100):
        app.reactor.turn()
    assert names(app) == ["long"]


def test_the_same_answers(app: MemoryApplication) -> None:
    """Also errors, which come after a message that is not long: all in order."""
    wrong = LONG["words"].replace(b"50:0:1.005,", b"50:0:x,")
    lines = [LONG["words"], b"rum\n", wrong, b"stop long\n", wrong.replace(b"a/0", b"b/0"), b"list\n"]
    peer = begin(app, *lines[:2])
    peer.send(*lines[2:])
    for _ in range(100):
        app.reactor.turn()
    with application(CONFIGURATION) as still:
        assert still.connect().say(*b"".join(lines).decode().splitlines()) == peer.lines()


@pytest.mark.parametrize("way", LONG)
def test_peer_leaves(app: MemoryApplication, way: str) -> None:
    """Nothing of the message is applied, and nothing goes on with it."""
    peer = begin(app, LONG[way])
    peer.leave()
    app.reactor.turn()
    app.reactor.turn()
    assert not names(app) and not app.fleet.workloads.by_id
    assert not any(call.getTime() <= app.reactor.rightNow for call in app.reactor.calls)


def test_end_of_input(app: MemoryApplication) -> None:
    """A peer that only sends no more gets its answer."""
    peer = begin(app, LONG["words"].replace(b"\n", b" detach\n"))
    peer.protocol.readConnectionLost()
    turns(app, peer)
    assert peer.transport.value() == b"ok w1\n"


def test_ticks_and_a_reset_between(app: MemoryApplication) -> None:
    """It is applied as a whole after them."""
    peer = begin(app, LONG["words"])
    app.fleet.advance()
    app.connect().send(b"reset\n")
    app.fleet.advance()
    turns(app, peer)
    assert names(app) == ["long"] and not app.fleet.workloads.running()


def test_by_http(app: MemoryApplication) -> None:
    """The body of a request is read in slices as well; who leaves before the last one starts nothing."""
    body = json.dumps({"name": "long", "devices": ["a/0"], "profile": PROFILE}).encode()
    head = f"POST /api/v1/workloads HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    stays, leaves = app.http(), app.http()
    for peer in (stays, leaves):
        peer.channel.dataReceived(head + body)
        assert not names(app)
    leaves.leave()
    for _ in range(100):
        app.reactor.turn()
        stays.read()
    assert names(app) == ["long"] and stays.transport.value().startswith(b"HTTP/1.1 201 ")
