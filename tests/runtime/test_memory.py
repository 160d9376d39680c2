"""Memory of large pages stays with the process, where the C library can be told so."""

from __future__ import annotations

import gc
import platform
import sys
from collections.abc import Iterator
from weakref import ref

import pytest
from twisted.internet.task import Clock

from fakedev.runtime.memory import (
    COLLECT_SECONDS,
    MIN_MORE_BLOCKS,
    CollectorSettings,
    collector_paused,
    keep_freed_memory,
)


def test_the_gnu_library_can_be_told() -> None:
    """It says yes there; elsewhere nothing happens and nothing fails."""
    assert keep_freed_memory() is (platform.libc_ver()[0] == "glibc")


def test_many_objects_are_made_without_the_collector() -> None:
    collections: list[str] = []
    gc.callbacks.append(lambda phase, _: collections.append(phase))
    try:
        gc.collect()
        collections.clear()
        with pytest.raises(ValueError, match="ended"), collector_paused():
            made: list[object] = [[] for _ in range(10_000)]
            during = list(collections)
            raise ValueError("ended")
        assert (len(made), during, gc.isenabled()) == (10_000, [], True)
        gc.disable()
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.callbacks.pop()
        gc.enable()


class TestSettled:
    """What the garbage collector looks at."""

    @pytest.fixture
    def clock(self) -> Clock:
        """The reactor's."""
        return Clock()

    @pytest.fixture
    def settled(self, clock: Clock) -> Iterator[CollectorSettings]:
        """From now on, until the test is over."""
        settled = CollectorSettings(clock)
        settled.begin()
        yield settled
        settled.end()

    @pytest.mark.slow
    def test_what_stays_is_set_aside(self, settled: CollectorSettings) -> None:
        """What has outlived a full collection is not looked at again; what is new is."""
        old: list[object] = [[]]
        assert is_looked_at(old)
        gc.collect()
        new: list[object] = [[]]
        assert not is_looked_at(old)
        assert is_looked_at(new)

    @pytest.mark.slow
    def test_all_is_looked_at_in_the_end(self, settled: CollectorSettings, clock: Clock) -> None:
        """When there is twice as much as at the start; so unused cycles do not pile up. Then all is set aside again."""
        found = frozen_cycle()
        many = [[] for _ in range(max(MIN_MORE_BLOCKS, sys.getallocatedblocks()))]
        assert found() is not None
        clock.pump([COLLECT_SECONDS] * 2)
        assert found() is None
        assert not is_looked_at(many)
        later = frozen_cycle()
        clock.pump([COLLECT_SECONDS] * 4)
        assert later() is not None

    @pytest.mark.slow
    def test_what_was_freed_does_not_count(self, settled: CollectorSettings, clock: Clock) -> None:
        """However many objects were set aside and then freed, as those of connections, all are not looked at again."""
        found = frozen_cycle()
        at_once = sys.getallocatedblocks() // 5
        for _ in range(12):
            connections = [[] for _ in range(at_once)]
            clock.advance(COLLECT_SECONDS)
            del connections
        clock.advance(COLLECT_SECONDS)
        assert found() is not None

    @pytest.mark.slow
    def test_as_many_freed_as_made(self, settled: CollectorSettings, clock: Clock) -> None:
        """Python collects only when there are more objects than before; then it would look at thousands at once."""
        connections = [[] for _ in range(20_000)]
        gc.collect()
        looked_at = []
        for number in range(20_000):
            connections[number] = []
            if number % 1000 == 999:
                looked_at.append(len(gc.get_objects(0)))
                clock.advance(COLLECT_SECONDS)
        assert max(looked_at) < 3000

    @pytest.mark.slow
    def test_the_end(self) -> None:
        before, often = list(gc.callbacks), gc.get_threshold()
        settled = CollectorSettings(Clock())
        settled.end()
        settled.begin()
        settled.end()
        assert (gc.callbacks, gc.get_threshold(), gc.get_freeze_count()) == (before, often, 0)


class Cycle:
    """An object that only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


def frozen_cycle() -> ref[Cycle]:
    """An unused cycle that was set aside."""
    cycle = Cycle()
    gc.collect()
    return ref(cycle)


def is_looked_at(thing: object) -> bool:
    """Whether a collection looks at it."""
    return any(each is thing for each in gc.get_objects())
