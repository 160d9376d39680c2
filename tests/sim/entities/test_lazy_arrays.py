"""Arrays that are made when they are asked for, and others laid over them."""

from __future__ import annotations

import pytest

from fakedev.sim.entities.state import LazyArrays, overlaid


@pytest.mark.parametrize("is_made", [False, True])
def test_overlaid(is_made: bool) -> None:
    """Others replace some, and are added; those below stay unchanged, and are not made before they are read."""
    asked: list[str] = []

    def make(name: str) -> int:
        asked.append(name)
        return {"a": 1, "b": 2}[name]

    below = LazyArrays(dict.fromkeys("ab"), make) if is_made else {"a": 1, "b": 2}
    over = overlaid(below)
    for name, value in (("b", 3), ("c", 4), ("c", 5)):
        over[name] = value
    assert (list(over), len(over), "a" in over, "d" in over, over.get("d")) == (["a", "b", "c"], 3, True, False, None)
    assert asked == []
    assert dict(over) == {"a": 1, "b": 3, "c": 5}
    assert dict(below) == {"a": 1, "b": 2}
