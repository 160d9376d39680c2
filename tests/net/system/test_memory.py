"""Memory of large pages stays with the process, where the C library can be told so."""

from __future__ import annotations

import gc
import platform
from collections.abc import Iterator

import pytest

from fakedev.net.system.memory import MIN_FROZEN_OBJECTS, CollectorSettings, keep_freed_memory


def test_the_gnu_library_can_be_told() -> None:
    """It says yes there; elsewhere nothing happens and nothing fails."""
    assert keep_freed_memory() is (platform.libc_ver()[0] == "glibc")


class TestSettled:
    """What the garbage collector looks at."""

    @pytest.fixture
    def settled(self) -> Iterator[CollectorSettings]:
        """From now on, until the test is over."""
        settled = CollectorSettings()
        settled.begin()
        yield settled
        settled.end()

    def test_what_stays_is_set_aside(self, settled: CollectorSettings) -> None:
        """What has outlived a full collection is not looked at again; what is new is."""
        old: list[object] = [[]]
        assert is_looked_at(old)
        gc.collect()
        new: list[object] = [[]]
        assert not is_looked_at(old)
        assert is_looked_at(new)

    def test_all_is_looked_at_in_the_end(self, settled: CollectorSettings) -> None:
        """When more was set aside than there was at the start; so what was closed does not pile up."""
        old: list[object] = [[]]
        gc.collect()
        many = [[] for _ in range(max(MIN_FROZEN_OBJECTS, gc.get_freeze_count()) + 1)]
        gc.collect()
        assert is_looked_at(old)
        assert many

    def test_the_end(self) -> None:
        """Nothing is left behind."""
        before, often = list(gc.callbacks), gc.get_threshold()
        settled = CollectorSettings()
        settled.end()
        settled.begin()
        settled.end()
        assert (gc.callbacks, gc.get_threshold(), gc.get_freeze_count()) == (before, often, 0)


def is_looked_at(thing: object) -> bool:
    """Whether a collection looks at it."""
    return any(each is thing for each in gc.get_objects())
