"""What watches tell is taken in order, and in pieces where it is long."""

from __future__ import annotations

from collections.abc import Iterator

from fakedev.kubernetes.controller import STEPS_AT_ONCE, Inbox


def steps(taken: list[int], count: int, first: int = 0) -> Iterator[None]:
    """A list that notes what was taken of it, and its end by -1."""
    for number in range(first, first + count):
        taken.append(number)
        yield
    taken.append(-1)


def test_a_short_list_and_a_change_are_taken_at_once() -> None:
    """Nothing waits in a small cluster."""
    taken: list[int] = []
    inbox = Inbox()
    inbox.put_list(steps(taken, STEPS_AT_ONCE - 1))
    assert (len(taken), taken[-1], bool(inbox)) == (STEPS_AT_ONCE, -1, False)
    inbox.put(taken.append, 100)
    assert taken[-1] == 100


def test_a_long_list_is_taken_in_pieces() -> None:
    """So many steps at a time; its end is reached once."""
    taken: list[int] = []
    inbox = Inbox()
    inbox.put_list(steps(taken, 50))
    sizes = [len(taken)]
    while inbox:
        inbox.take()
        sizes.append(len(taken))
    assert sizes == [20, 40, 51]
    assert taken == [*range(50), -1]


def test_changes_wait_for_the_list_before_them() -> None:
    """A pod that has changed since the list began is not made older by the list."""
    taken: list[int] = []
    inbox = Inbox()
    inbox.put_list(steps(taken, 25))
    inbox.put(taken.append, 100)
    inbox.put_list(steps(taken, 3, 200))
    inbox.put(taken.append, 300)
    assert taken == [*range(20)]
    inbox.take()
    assert (taken[20:], bool(inbox)) == ([*range(20, 25), -1, 100, 200, 201, 202, -1, 300], False)


def test_what_waits_can_be_forgotten() -> None:
    """As after the lease was lost."""
    taken: list[int] = []
    inbox = Inbox()
    inbox.put_list(steps(taken, 25))
    inbox.clear()
    assert not inbox
    inbox.take()
    assert len(taken) == 20
