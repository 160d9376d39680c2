"""Which requests start when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fakedev.tester.pacing import MAX_AT_ONCE, REFUSED_PAUSE_SECONDS, ClosedPacer, OpenPacer
from fakedev.tester.plan import ClosedLoad, OpenLoad, constant


def test_closed_fills_its_places_and_fills_them_again() -> None:
    """Four at once; when one ends, one begins, and is never late."""
    pacer = ClosedPacer(ClosedLoad(parallel=4))
    assert pacer.due(10.0, 0, True) == [10.0] * 4
    assert pacer.due(10.0, 4, True) == []
    pacer.ended(11.0, False)
    assert pacer.due(11.0, 3, True) == [11.0]


def test_closed_waits_its_delay() -> None:
    """A place rests for the delay after each request."""
    pacer = ClosedPacer(ClosedLoad(parallel=2, delay_seconds=5.0))
    pacer.due(0.0, 0, True)
    pacer.ended(1.0, False)
    assert pacer.due(1.0, 1, True) == []
    assert pacer.next_due(1.0, 1) == 6.0
    assert pacer.due(6.0, 1, True) == [6.0]


def test_closed_does_not_spin_on_refusals() -> None:
    """A place with a refused request pauses."""
    pacer = ClosedPacer(ClosedLoad(parallel=1))
    pacer.due(0.0, 0, True)
    pacer.ended(0.0, True)
    assert pacer.due(0.0, 0, True) == []
    assert pacer.next_due(0.0, 0) == REFUSED_PAUSE_SECONDS


def test_closed_is_raised_and_lowered_at_once() -> None:
    """Raising starts more; lowering says how many are too many, and no request rests without a place."""
    pacer = ClosedPacer(ClosedLoad(parallel=2, delay_seconds=5.0))
    pacer.due(0.0, 0, True)
    pacer.set_parallel(6, 2)
    assert (pacer.excess(2), pacer.due(0.0, 2, True)) == (0, [0.0] * 4)
    pacer.set_parallel(1, 6)
    assert pacer.excess(6) == 5
    pacer.ended(1.0, False)
    pacer.set_parallel(0, 0)
    assert pacer.excess(0) == 0
    assert pacer.next_due(1.0, 0) is None
    assert pacer.due(99.0, 0, True) == []


def test_closed_starts_nothing_without_a_connection() -> None:
    """And all at once when there is one again: in the closed model no request was waiting."""
    pacer = ClosedPacer(ClosedLoad(parallel=3))
    assert pacer.due(0.0, 0, False) == []
    assert pacer.due(7.0, 0, True) == [7.0] * 3


def test_never_starts_thousands_at_once() -> None:
    """In neither model: the rest is due at the next call."""
    for pacer in (ClosedPacer(ClosedLoad(9999)), OpenPacer(OpenLoad(constant(9999.0)), "a", 0.0)):
        assert len(pacer.due(1.0, 0, True)) == len(pacer.due(1.0, MAX_AT_ONCE, True)) == MAX_AT_ONCE


@given(st.lists(st.tuples(st.sampled_from(["end", "bad end", "set", "wait"]), st.integers(0, 8)), max_size=60))
def test_closed_never_has_more_than_its_places(acts: list[tuple[str, int]]) -> None:
    """At most ``parallel`` run after ``due``, in all cases; and all places are used when none rests."""
    pacer, running, now = ClosedPacer(ClosedLoad(parallel=3, delay_seconds=0.05)), 0, 0.0
    for act, number in acts:
        if act == "set":
            pacer.set_parallel(number, running)
            running -= pacer.excess(running)
        elif act == "wait":
            now += number / 20
        elif running:
            running -= 1
            pacer.ended(now, act == "bad end")
        running += len(pacer.due(now, running, True))
        assert running <= pacer.parallel
        assert running == pacer.parallel or pacer.next_due(now, running) is not None


def test_open_starts_what_has_come_with_its_own_time() -> None:
    """Ten a second, looked at after a second: ten requests, meant for ten different times."""
    pacer = OpenPacer(OpenLoad(constant(10.0)), "a", 100.0)
    due = pacer.due(101.0, 0, True)
    assert len(due) == 10
    assert due == sorted(set(due))
    assert due[0] > 100.0 and due[-1] <= 101.0
    assert pacer.next_due(101.0, 10) > 101.0


def test_open_lets_arrivals_wait_and_drops_what_is_too_much() -> None:
    """At most two under way and three waiting: of ten that arrived the last five are dropped."""
    pacer = OpenPacer(OpenLoad(constant(10.0), max_outstanding=2, max_waiting=3), "a", 0.0)
    assert len(pacer.due(0.3, 0, True)) == 2
    pacer.due(1.0, 2, True)
    assert (pacer.waiting, pacer.dropped) == (3, 5)
    (late,) = pacer.due(1.0, 1, True)
    assert late < 0.3


def test_open_goes_on_arriving_without_a_connection() -> None:
    pacer = OpenPacer(OpenLoad(constant(10.0)), "a", 0.0)
    assert pacer.due(2.0, 0, False) == []
    assert pacer.waiting == 20
    assert len(pacer.due(2.0, 0, True)) == 20


def test_open_is_exhausted_when_all_have_started() -> None:
    """Not before: what waits is still to come."""
    pacer = OpenPacer(OpenLoad(listed_seconds=(0.0, 1.0), max_outstanding=1), "a", 0.0)
    pacer.due(1.0, 0, True)
    assert not pacer.is_exhausted
    pacer.due(1.0, 0, True)
    assert pacer.is_exhausted


def test_open_looks_at_so_many_arrivals_at_once() -> None:
    """After a standstill of an hour it does not count millions in one call: it continues at the next call."""
    pacer = OpenPacer(OpenLoad(constant(1000.0)), "a", 0.0)
    pacer.due(3600.0, 0, False)
    assert pacer.waiting == 2_000
    assert pacer.next_due(3600.0, 0) < 3600.0


def test_open_at_another_rate() -> None:
    """From now on; what has come and waits stays, and 0 lets nothing come until another rate is set."""
    pacer = OpenPacer(OpenLoad(constant(1.0), max_outstanding=1), "p", 0.0)
    assert pacer.rate(0.0) == 1.0
    assert pacer.due(3.0, 1, True) == []
    assert pacer.waiting == 3
    pacer.set_rate(10.0, 3.0)
    assert pacer.rate(3.0) == 10.0
    assert pacer.due(3.05, 1, False) == []
    assert (pacer.waiting, pacer.next_due(3.05, 1)) == (4, 3.15)
    pacer.set_rate(0.0, 4.0)
    assert pacer.next_due(4.0, 1) is None
    pacer.set_rate(2.0, 5.0)
    assert pacer.next_due(5.0, 1) == 5.25
