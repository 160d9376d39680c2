"""Many requests in one segment, and answers that take long: other connections have turns between them."""

from __future__ import annotations

from typing import Any

import pytest

from fakedev.net.http.response import Response
from fakedev.net.http.site import GuardedSite
from fakedev.net.lines.fair_share import TURN_SECONDS
from tests.support.http_channels import GET, POST, site
from tests.support.http_wire import Page, Peer, Turns, answers

ANSWER_SECONDS = 0.002


def slow_site(clock: Turns, **more: Any) -> GuardedSite:
    """A site whose page takes some time."""

    def page(request: Any) -> Response:
        clock.work(ANSWER_SECONDS)
        return Response(200, b"content")

    return site(clock, page=Page(page), **more)


def run(clock: Turns, *peers: Peer) -> list[float]:
    """Do turns until nothing is left to do; the seconds of each."""
    turns = []
    for _ in range(10_000):
        turns.append(clock.turn())
        for peer in peers:
            peer.read()
        if not clock.calls or min(call.getTime() for call in clock.calls) > clock.seconds():
            break
    return turns


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
def test_requests_in_one_segment_take_many_turns(method: bytes) -> None:
    """64 KiB of requests are all answered, in order, and no turn takes long."""
    clock = Turns()
    peer = Peer(slow_site(clock))
    request = GET.replace(b"GET", method)
    count = 64 * 1024 // len(request)
    began = clock.seconds()
    peer.send(request * count)
    assert clock.seconds() - began < 0.02
    turns = run(clock, peer)
    assert len(answers(peer.transport.value(), heads=method == b"HEAD")) == count
    assert max(turns) < 0.02 and len(turns) > count * ANSWER_SECONDS / 0.02


def test_others_have_turns_between() -> None:
    """A peer with one request does not wait for those of peers with thousands."""
    clock = Turns()
    guarded = slow_site(clock)
    greedy = [Peer(guarded) for _ in range(20)]
    for peer in greedy:
        peer.send(GET * 1000)
    modest = Peer(guarded)
    modest.send(GET)
    began = clock.seconds()
    while not modest.transport.value():
        clock.turn()
        modest.read()
    # Each of them has had a slice, and in each turn one of them a second one.
    assert clock.seconds() - began < 2 * len(greedy) * (0.003 + ANSWER_SECONDS) + TURN_SECONDS


def test_reading_is_paused_while_requests_wait() -> None:
    """What is read ahead is bounded, however much is sent; later all of it is answered."""
    clock = Turns()
    peer = Peer(slow_site(clock))
    sent = 0
    while peer.transport.producerState == "producing":
        peer.channel.dataReceived(GET * 100)
        sent += 100
    assert sent * len(GET) < 128 * 1024
    run(clock, peer)
    assert peer.transport.producerState == "producing"
    assert len(answers(peer.transport.value())) == sent


def test_input_ends_while_requests_wait() -> None:
    """All are answered, then the connection is closed; a body among them is no obstacle."""
    clock = Turns()
    peer = Peer(slow_site(clock))
    peer.send(GET * 50 + POST + GET * 50)
    peer.end_input()
    run(clock, peer)
    assert [answer.status for answer in answers(peer.transport.value())] == [200] * 50 + [201] + [200] * 50
    assert peer.closed


def test_peer_leaves_while_requests_wait() -> None:
    """The other requests are not answered; nothing is left in the reactor."""
    clock = Turns()
    guarded = slow_site(clock)
    peer = Peer(guarded)
    peer.send(GET * 1000)
    peer.leave()
    run(clock)
    assert not clock.calls and guarded.codes[200] < 20


def test_waiting_for_a_turn_is_not_idle() -> None:
    """The time limits of input do not count while requests wait for their turn."""
    clock = Turns()
    peer = Peer(slow_site(clock))
    peer.send(GET * 1000)
    for _ in range(8):
        clock.work(10)
        clock.turn()
        peer.read()
    run(clock, peer)
    assert len(answers(peer.transport.value())) == 1000 and not peer.closed
