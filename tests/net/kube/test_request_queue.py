"""When requests may be sent."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from fakedev.kube.backoff import Backoff
from fakedev.net.kube.api_error import ApiError
from fakedev.net.kube.request_queue import RequestQueue


def places(queue: RequestQueue, flow: str, number: int, gone: list[str]) -> None:
    """Requests of a flow, each over as soon as it is sent; ``gone`` has the flows in the order of sending."""

    def send(_: object) -> None:
        gone.append(flow)
        queue.leave()

    for _ in range(number):
        queue.place(flow).addCallback(send)


def test_flows_take_turns() -> None:
    """Also when one of them has many requests."""
    clock, gone = Clock(), list[str]()
    queue = RequestQueue(clock, 1, 16)
    places(queue, "a", 4, gone)
    places(queue, "b", 2, gone)
    clock.pump([1.0] * 6)
    assert "".join(gone) == "aababa"  # the first one went before there was another flow


def test_a_request_that_is_sent_again_goes_first() -> None:
    """So that the patches of one node keep their order."""
    clock, gone = Clock(), list[str]()
    queue = RequestQueue(clock, 1, 1)
    queue.place("a")
    for name in ("second", "third"):
        queue.place("a").addCallback(lambda _, name=name: (gone.append(name), queue.leave()))
    queue.place("a", first=True).addCallback(lambda _: (gone.append("again"), queue.leave()))
    queue.leave()
    clock.pump([1.0] * 4)
    assert gone == ["again", "second", "third"]


def test_no_more_than_so_many_are_in_flight() -> None:
    """The others wait."""
    queue = RequestQueue(Clock(), 100, 3)
    sent = [queue.place("a") for _ in range(5)]
    assert [each.called for each in sent] == [True, True, True, False, False]
    queue.leave()
    assert sent[3].called


def test_no_more_than_so_many_wait() -> None:
    """What is beyond that fails at once."""
    queue = RequestQueue(Clock(), 1, 1, most_waiting=2)
    for _ in range(3):
        queue.place("a")
    with pytest.raises(ApiError, match="2 requests wait"):
        queue.place("a")


def test_a_long_time_is_one_burst() -> None:
    """Not a request for each second of it."""
    clock = Clock()
    queue = RequestQueue(clock, 5, 100)
    clock.advance(1000)
    sent = [queue.place("a") for _ in range(20)]
    assert sum(each.called for each in sent) == 5
    clock.advance(1)
    assert sum(each.called for each in sent) == 10


def test_waits_double_up_to_a_limit() -> None:
    """And chance takes up to a half of each."""
    longest, shortest = Backoff(0.2, 30.0), Backoff(0.2, 30.0, lambda: 0.0)
    waits = [longest.next_seconds() for _ in range(12)]
    assert waits[:4] == pytest.approx([0.2, 0.4, 0.8, 1.6])
    assert waits[-1] == 30.0
    assert [shortest.next_seconds() for _ in range(12)] == pytest.approx([wait / 2 for wait in waits])
    longest.reset()
    assert longest.next_seconds() == pytest.approx(0.2)
