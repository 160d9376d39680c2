"""Randomness as a function of seed, entity, quantity and tick: nothing else decides a number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.sim.entities.randomness import Keys, hashes, normal, uniform
from fakedev.spec.shards import entity_key

SEEDS = st.integers(0, 2**63)
TICKS = st.integers(0, 2**40)
KEYS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40)


def keys_of(count: int) -> Keys:
    """Keys of that many devices of one node."""
    return np.array([entity_key("pool", "node", str(index)) for index in range(count)], dtype=np.uint64)


class TestPureFunction:
    """The same arguments give the same numbers, at any time and in any array."""

    @given(SEEDS, KEYS, TICKS)
    def test_same_arguments_same_numbers(self, seed: int, keys: list[int], tick: int) -> None:
        """Asking twice, or asking for another tick in between, changes nothing."""
        array = np.array(keys, dtype=np.uint64)
        first = normal(seed, array, "power", tick)
        normal(seed, array, "power", tick + 1)
        assert np.array_equal(normal(seed, array, "power", tick), first)

    @given(SEEDS, KEYS, TICKS, st.randoms())
    def test_place_in_the_array_does_not_matter(self, seed: int, keys: list[int], tick: int, random: object) -> None:
        """In another order, each entity still draws its own number."""
        order = list(range(len(keys)))
        random.shuffle(order)  # type: ignore[attr-defined]
        array = np.array(keys, dtype=np.uint64)
        for draw in (uniform, normal):
            assert np.array_equal(draw(seed, array[order], "power", tick), draw(seed, array, "power", tick)[order])

    @given(SEEDS, KEYS, TICKS, st.data())
    def test_shards_draw_the_numbers_of_the_whole(
        self, seed: int, keys: list[int], tick: int, data: st.DataObject
    ) -> None:
        """A fleet that is cut in two draws what it would draw as one."""
        cut = data.draw(st.integers(0, len(keys)))
        array = np.array(keys, dtype=np.uint64)
        for draw in (uniform, normal):
            parts = [draw(seed, part, "power", tick) for part in (array[:cut], array[cut:])]
            assert np.array_equal(np.concatenate(parts), draw(seed, array, "power", tick))

    def test_numbers_are_what_they_have_always_been(self) -> None:
        """Worked out in whole numbers, without NumPy. Records are run again by later versions: they must not change."""
        assert entity_key("dgx", "dgx-0", "3") == 0x8223164ED3F7FB15
        keys = np.array([1, 2**63], dtype=np.uint64)
        assert hashes(7, keys, "power", 3).tolist() == [0x2B4CAC063831671C, 0xE6A26E33587FD663]
        assert uniform(7, keys, "power", 3).tolist() == [0.16913867141574235, 0.9009159922939027]
        assert normal(7, keys, "power", 3).tolist() == [0.12194000681702342, -0.3268926588878734]


class TestWhatDecides:
    """Each of seed, key, quantity, tick and draw gives other numbers."""

    def test_seed_quantity_tick_and_draw(self) -> None:
        """No two of them share a single number over 10,000 entities."""
        keys = keys_of(10_000)
        drawn = [
            hashes(1, keys, "power", 5),
            hashes(2, keys, "power", 5),
            hashes(1, keys, "usage", 5),
            hashes(1, keys, "power", 6),
            hashes(1, keys, "power", 5, draw=1),
        ]
        together = np.concatenate(drawn)
        assert len(np.unique(together)) == len(together)

    def test_draws_of_a_tick_are_not_those_of_the_next(self) -> None:
        """Sixteen draws belong to a tick: the first of the next tick is none of them."""
        keys = keys_of(100)
        drawn = [hashes(1, keys, "power", tick, draw) for tick in (5, 6) for draw in range(16)]
        assert len(np.unique(np.concatenate(drawn))) == 32 * 100

    def test_keys_come_from_all_names(self) -> None:
        """Moving a letter from one name to the next makes another entity."""
        assert len({entity_key("a", "bc"), entity_key("ab", "c"), entity_key("abc"), entity_key("abc", "")}) == 4

    def test_entities_and_ticks_are_not_correlated(self) -> None:
        """Neighbours in the array, and in time, are independent of each other."""
        keys = keys_of(2_000)
        rows = np.array([normal(1, keys, "power", tick) for tick in range(50)])
        for one, other in ((rows[:, :-1], rows[:, 1:]), (rows[:-1], rows[1:])):
            assert abs(float(np.mean(one * other))) < 4 / math.sqrt(one.size)


class TestDistributions:
    """Uniform numbers are uniform, normal ones have mean 0 and variance 1."""

    numbers = np.concatenate([uniform(3, keys_of(2_000), "u", tick) for tick in range(50)])
    normals = np.concatenate([normal(3, keys_of(2_000), "n", tick) for tick in range(50)])

    @given(SEEDS, KEYS, TICKS)
    def test_uniform_is_from_0_up_to_but_not_1(self, seed: int, keys: list[int], tick: int) -> None:
        """For any arguments."""
        drawn = uniform(seed, np.array(keys, dtype=np.uint64), "u", tick)
        assert ((drawn >= 0) & (drawn < 1)).all()

    def test_uniform_fills_its_range_evenly(self) -> None:
        """Each tenth of the range gets its tenth of 100,000 numbers, within five standard deviations."""
        counts = np.histogram(self.numbers, bins=10, range=(0, 1))[0]
        assert np.abs(counts - 10_000).max() < 5 * math.sqrt(10_000 * 0.9)

    def test_normal_mean_and_variance(self) -> None:
        """Within five standard errors over 100,000 numbers."""
        count = len(self.normals)
        assert abs(self.normals.mean()) < 5 / math.sqrt(count)
        assert abs(self.normals.var() - 1) < 5 * math.sqrt(2 / count)

    def test_normal_has_the_shape_that_is_documented(self) -> None:
        """Bounded by 4.9, symmetric, an excess kurtosis near -0.15, and 68 % within one deviation."""
        assert np.abs(self.normals).max() < 4.9
        assert abs(float(np.mean(self.normals**3))) < 0.04
        assert float(np.mean(self.normals**4)) - 3 == pytest.approx(-0.15, abs=0.08)
        assert float(np.mean(np.abs(self.normals) < 1)) == pytest.approx(0.683, abs=0.01)

    def test_no_entities_no_numbers(self) -> None:
        """An empty fleet draws nothing, and it is no error."""
        nobody = np.zeros(0, dtype=np.uint64)
        assert uniform(1, nobody, "u", 1).shape == normal(1, nobody, "n", 1).shape == (0,)
