"""Devices in few words: nothing is lost, and what is regular is short."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.selectors import MAX_PATTERNS, resolve, words_of
from fakedev.spec.fleet import NodeSpec, PoolSpec
from tests.support.divided_devices import divided_pool
from tests.support.fleets import BOARD, pool_of

#: Names that are counted through, with a hole and with zeros before them, and others.
NAMES = [
    *("n-0", "n-1", "n-2", "n-10", "n-11", "gpu008", "gpu009", "gpu010", "gpu12"),
    *("alone", "7", "9", "8.x", "m-1234567890"),
]
ROSTER = Roster((
    PoolSpec("mixed", tuple(map(NodeSpec, NAMES)), BOARD, 3),
    divided_pool("mig", nodes=3),
    pool_of("n-0", nodes=2, devices_per_node=5),
))  # fmt: skip


def told(roster: Roster, *words: str) -> list[str]:
    """The words for what these words name."""
    return words_of(roster, resolve(words, roster))


@given(st.frozensets(st.integers(0, ROSTER.parts.unit_count - 1)))
def test_nothing_is_lost(chosen: frozenset[int]) -> None:
    """The words give the same devices and parts again, each once."""
    units = np.array(sorted(chosen), dtype=np.int64)
    words = words_of(ROSTER, units)
    found = [
        unit
        for begin in range(0, len(words), MAX_PATTERNS)
        for unit in resolve(words[begin : begin + MAX_PATTERNS], ROSTER).tolist()
    ]
    assert len(found) == len(set(found))
    # Parts of devices that are there are meant by these.
    whole = {unit for unit in chosen if ROSTER.parts.owner(unit) == unit or ROSTER.parts.owner(unit) not in chosen}
    assert set(found) == whole


@pytest.mark.parametrize(
    ("given_words", "words"),
    [
        (["n-0/1"], ["n-0/1"]),
        (["n-0/*"], ["n-0/[0-2]"]),
        (["n-*/0"], ["n-[0-2]/0", "n-[10-11]/0", "n-0-[0-1]/0"]),
        (["gpu*/[1-2]"], ["gpu[008-010]/[1-2]", "gpu12/[1-2]"]),
        (["n-[0-2]/*", "n-1/0"], ["n-[0-2]/[0-2]"]),
        (["n-0/0", "n-0/2", "n-1/0", "n-1/2", "n-2/0"], ["n-[0-1]/0", "n-[0-1]/2", "n-2/0"]),
        (["alone/*", "7/0"], ["alone/[0-2]", "7/0"]),
        (["mig-*/1/*"], ["mig-[0-2]/1/[0-2]"]),
        (
            ["mig-*/1/0", "mig-1/1/2", "mig-*/[2-3]"],
            ["mig-0/[2-3]", "mig-0/1/0", "mig-2/[2-3]", "mig-2/1/0", "mig-1/[2-3]", "mig-1/1/0", "mig-1/1/2"],
        ),
        (["mig-0/1", "mig-0/1/*"], ["mig-0/1"]),
    ],
)
def test_what_is_regular_is_short(given_words: list[str], words: list[str]) -> None:
    """Devices of a node, nodes of which the same is meant, and parts, as ranges."""
    assert told(ROSTER, *given_words) == words


def test_a_large_fleet() -> None:
    """Ten thousand are a word or two; every other one of them is a word for each node at most."""
    roster = Roster((pool_of(nodes=1250, devices_per_node=8),))
    assert told(roster, "all") == ["dgx-[0-1249]/[0-7]"]
    assert words_of(roster, np.delete(np.arange(10_000), 8)) == ["dgx-0/[0-7]", "dgx-[2-1249]/[0-7]", "dgx-1/[1-7]"]
    assert len(words_of(roster, np.arange(0, 10_000, 2))) == 4
    assert len(words_of(roster, np.arange(0, 10_000, 9))) <= 1250
