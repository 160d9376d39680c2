"""Memory of large pages stays with the process, where the C library can be told so."""

from __future__ import annotations

import gc
import platform
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakedev.runtime.memory import (
    collector_paused,
    freeze_objects,
    give_back_freed_memory,
    keep_freed_memory,
    without_examination,
)


@pytest.fixture
def frozen() -> Iterator[None]:
    """A program that has started."""
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    freeze_objects()
    yield
    gc.unfreeze()
    gc.callbacks[:] = callbacks
    gc.set_threshold(*thresholds)


def test_the_gnu_library_can_be_told() -> None:
    """It says yes there; elsewhere nothing happens and nothing fails."""
    assert keep_freed_memory() is (platform.libc_ver()[0] == "glibc")


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep less")
def test_freed_memory_is_given_back() -> None:
    """Also where something between it stays, as after a fleet grew."""
    blocks = [bytearray(64 * 1024) for _ in range(800)]
    kept = blocks[7::8]
    del blocks
    before = _resident_bytes()
    give_back_freed_memory()
    assert before - _resident_bytes() > 30_000_000
    assert sum(map(len, kept)) == 100 * 64 * 1024


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


@pytest.mark.usefixtures("frozen")
def test_what_a_started_program_has_is_not_looked_at() -> None:
    """Also when the collector was off until then; what is new is looked at."""
    old: list[object] = [[]]
    gc.disable()
    freeze_objects()
    new: list[object] = [[]]
    assert gc.isenabled()
    assert not is_looked_at(old)
    assert is_looked_at(new)


@pytest.mark.usefixtures("frozen")
def test_a_new_configuration_is_not_looked_at() -> None:
    with without_examination():
        made: list[object] = [[]]
    assert gc.isenabled()
    assert not is_looked_at(made)


def test_objects_of_other_programs_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet in somebody's tests leaves the collector as it is, also when it is reloaded."""
    monkeypatch.setattr(gc, "callbacks", [])  # whatever other tests have started
    with without_examination():
        made: list[object] = [[]]
    assert is_looked_at(made)


@pytest.mark.slow
@pytest.mark.usefixtures("frozen")
def test_many_objects_that_stay_are_looked_at_once() -> None:
    """60,000 workloads that run are not examined again by each full collection; a few connections are."""
    few: list[object] = [[] for _ in range(100)]
    gc.collect()
    assert is_looked_at(few[0])
    many: list[object] = [[] for _ in range(20_000)]
    gc.collect()
    assert not is_looked_at(many[0])
    new: list[object] = []
    gc.collect()
    assert is_looked_at(new)


@pytest.mark.slow
@pytest.mark.usefixtures("frozen")
def test_a_full_collection_has_little_to_look_at() -> None:
    """While objects are made that all stay: each is examined by few full collections."""
    sizes: list[int] = []

    def note(phase: str, collected: dict[str, int]) -> None:
        if phase == "start" and collected["generation"] == 2:
            sizes.append(len(gc.get_objects()))

    gc.callbacks.append(note)
    kept = [[number] for number in range(300_000)]
    assert (len(kept), max(sizes) < 60_000) == (300_000, True)
    assert len(sizes) > 5


def is_looked_at(thing: object) -> bool:
    """Whether a collection looks at it."""
    return any(each is thing for each in gc.get_objects())
