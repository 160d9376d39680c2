"""Many requests in one segment, and answers that take long: other connections have turns between them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric

from fakedev.base.steps import Steps
from fakedev.runtime.turns import TURN_SECONDS
from fakedev.web.http_limits import HttpError
from fakedev.web.metrics import OwnMetrics, OwnMetricsResource
from fakedev.web.request import Request
from fakedev.web.resource import Answer, Resource
from fakedev.web.response import Response
from fakedev.web.site import Site
from tests.support.wire.http_channels import GET, POST, site
from tests.support.wire.http_wire import Page, Peer, Turns, answers

ANSWER_SECONDS = 0.002


def slow_site(clock: Turns, **more: Any) -> Site:
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


class Sliced(Resource):
    """A resource that makes its answer in steps, and counts those that were done."""

    def __init__(self, clock: Turns, steps: int = 100) -> None:
        self._clock = clock
        self._steps = steps
        self.done = 0

    def get(self, request: Request) -> Answer:
        """As many letters as there are steps."""
        return request.answer_in_slices(self._work(request))

    def _work(self, request: Request) -> Steps[Response]:
        if request.args:
            raise HttpError(400, "no arguments here")
        yield
        for _ in range(self._steps):
            self._clock.work(0.001)
            self.done += 1
            yield
        return Response(200, b"a" * self._steps)


LONG = GET.replace(b"page", b"long")


def test_a_long_answer_takes_many_turns() -> None:
    """Other requests are answered between its slices."""
    clock = Turns()
    guarded = slow_site(clock, long=Sliced(clock))
    peer, other = Peer(guarded), Peer(guarded)
    peer.send(LONG)
    turns = [clock.turn() for _ in range(3)]
    other.send(GET)
    turns += run(clock, peer, other)
    assert max(turns) < 0.02 and len(turns) > 100 / 20
    assert answers(peer.transport.value())[0].body == b"a" * 100
    assert answers(other.transport.value())[0].body == b"content"


def test_own_metrics_take_many_turns() -> None:
    """They are made family by family."""
    clock = Turns()

    def slow(number: int) -> Iterable[Metric]:
        clock.work(0.005)
        yield GaugeMetricFamily(f"fakedev_{number}", "x", number)

    groups = {str(number): partial(slow, number) for number in range(20)}
    peer = Peer(slow_site(clock, own=OwnMetricsResource(OwnMetrics(lambda: groups))))
    began = clock.seconds()
    peer.send(GET.replace(b"page", b"own"))
    turns = [clock.seconds() - began, *run(clock, peer)]
    assert max(turns) < 0.02 and len(turns) > 20 * 0.005 / 0.02
    assert b"fakedev_19 19.0" in answers(peer.transport.value())[0].body


def test_long_answers_are_made_one_after_the_other() -> None:
    """So only one takes memory; a peer that leaves, also while its answer is made, costs nothing more."""
    clock = Turns()
    long = Sliced(clock)
    guarded = slow_site(clock, long=long)
    peers = [Peer(guarded) for _ in range(4)]
    for peer in peers:
        peer.send(LONG)
    peers[0].leave()
    peers[2].leave()
    assert len(answers(peers[1].transport.value())) == 0
    before = long.done
    run(clock, peers[1], peers[3])
    assert long.done - before == 200
    assert [len(answers(peer.transport.value())) for peer in peers] == [0, 1, 0, 1]
    assert guarded.codes[200] == 2 and not guarded.slices.take_turn()


def test_head_of_a_long_answer() -> None:
    """HEAD has its checks, and makes nothing: so it says no length."""
    clock = Turns()
    long = Sliced(clock)
    peer = Peer(slow_site(clock, long=long))
    peer.send(LONG.replace(b"GET", b"HEAD") * 10)
    found = answers(peer.transport.value(), heads=True)
    assert [answer.status for answer in found] == [200] * 10 and long.done == 0
    assert "content-length" not in found[0].headers
    assert peer.ask(LONG.replace(b"GET /long", b"HEAD /long?a=b"), head=True).status == 400


def test_errors_in_a_long_answer() -> None:
    """At the beginning and later; the answers after it are made."""
    clock = Turns()

    def failing(request: Request) -> Steps[Response]:
        for number in range(100):
            clock.work(0.001)
            if number == 50:
                raise HttpError(404, "gone meanwhile")
            yield
        raise AssertionError

    bad = Page(lambda request: request.answer_in_slices(failing(request)))
    guarded = slow_site(clock, long=Sliced(clock), bad=bad)
    peers = [Peer(guarded) for _ in range(3)]
    for peer, path in zip(peers, (b"bad", b"long", b"long?a=b"), strict=True):
        peer.send(GET.replace(b"page", path))
    run(clock, *peers)
    assert [answers(peer.transport.value())[0].status for peer in peers] == [404, 200, 400]
