"""Memory of large pages stays with the process, where the C library can be told so."""

from __future__ import annotations

import gc
import platform

import pytest

from fakedev.runtime.memory import (
    collector_paused,
    freeze_objects,
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


def test_what_a_started_program_has_is_not_looked_at() -> None:
    """Also when the collector was off until then; what is new is looked at."""
    old: list[object] = [[]]
    gc.disable()
    try:
        freeze_objects()
        new: list[object] = [[]]
        assert gc.isenabled()
        assert not is_looked_at(old)
        assert is_looked_at(new)
    finally:
        gc.enable()
        gc.unfreeze()


def is_looked_at(thing: object) -> bool:
    """Whether a collection looks at it."""
    return any(each is thing for each in gc.get_objects())
