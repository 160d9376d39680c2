"""Randomness as a function of seed, entity, quantity and tick; fluctuation is noise with memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fakedev.fleet.entities.randomness import Keys, hashes, normal, uniform
from fakedev.fleet.spec.limits import entity_key
from tests.support.fleet.fleets import make_fleet, pool_of, start

SEEDS = st.integers(0, 2**63)
TICKS = st.integers(0, 2**40)
KEYS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40)


def keys_of(count: int) -> Keys:
    return np.array([entity_key("pool", "node", str(index)) for index in range(count)], dtype=np.uint64)


class TestPureFunction:
    @given(SEEDS, KEYS, TICKS, st.data())
    def test_place_in_the_array_does_not_matter(
        self, seed: int, keys: list[int], tick: int, data: st.DataObject
    ) -> None:
        """Some entities, in any order and after another tick, draw the numbers that they draw among all."""
        some = data.draw(st.lists(st.sampled_from(range(len(keys)))))
        array = np.array(keys, dtype=np.uint64)
        for draw in (uniform, normal):
            whole = draw(seed, array, "power", tick)
            draw(seed, array, "power", tick + 1)
            assert np.array_equal(draw(seed, array[some], "power", tick), whole[some])

    def test_numbers_are_what_they_have_always_been(self) -> None:
        """Worked out in whole numbers, without NumPy. Records are run again by later versions: they must not change."""
        assert entity_key("dgx", "dgx-0", "3") == 0x8223164ED3F7FB15
        keys = np.array([1, 2**63], dtype=np.uint64)
        assert hashes(7, keys, "power", 3).tolist() == [0x2B4CAC063831671C, 0xE6A26E33587FD663]
        assert uniform(7, keys, "power", 3).tolist() == [0.16913867141574235, 0.9009159922939027]
        assert normal(7, keys, "power", 3).tolist() == [0.12194000681702342, -0.3268926588878734]


class TestWhatDecides:
    def test_seed_quantity_tick_and_draw(self) -> None:
        """No two of them share a single number, nor do the sixteen draws of a tick with those of the next."""
        keys = keys_of(1000)
        drawn = [hashes(1, keys, "power", tick, draw) for tick in (5, 6) for draw in range(16)]
        drawn += [hashes(2, keys, "power", 5), hashes(1, keys, "usage", 5)]
        assert len(np.unique(np.concatenate(drawn))) == 34 * 1000

    def test_keys_come_from_all_names(self) -> None:
        assert len({entity_key("a", "bc"), entity_key("ab", "c"), entity_key("abc"), entity_key("abc", "")}) == 4

    def test_entities_and_ticks_are_not_correlated(self) -> None:
        keys = keys_of(2_000)
        rows = np.array([normal(1, keys, "power", tick) for tick in range(50)])
        for one, other in ((rows[:, :-1], rows[:, 1:]), (rows[:-1], rows[1:])):
            assert abs(float(np.mean(one * other))) < 4 / math.sqrt(one.size)


@pytest.fixture(scope="module")
def numbers() -> NDArray[np.float64]:
    keys = keys_of(2_000)
    return np.concatenate([uniform(3, keys, "u", tick) for tick in range(50)])


@pytest.fixture(scope="module")
def normals() -> NDArray[np.float64]:
    keys = keys_of(2_000)
    return np.concatenate([normal(3, keys, "n", tick) for tick in range(50)])


class TestDistributions:
    @given(SEEDS, KEYS, TICKS)
    def test_uniform_is_from_0_up_to_but_not_1(self, seed: int, keys: list[int], tick: int) -> None:
        drawn = uniform(seed, np.array(keys, dtype=np.uint64), "u", tick)
        assert ((drawn >= 0) & (drawn < 1)).all()

    def test_uniform_fills_its_range_evenly(self, numbers: NDArray[np.float64]) -> None:
        """Each tenth of the range gets its tenth of 100,000 numbers, within five standard deviations."""
        counts = np.histogram(numbers, bins=10, range=(0, 1))[0]
        assert np.abs(counts - 10_000).max() < 5 * math.sqrt(10_000 * 0.9)

    def test_normal_mean_and_variance(self, normals: NDArray[np.float64]) -> None:
        """Within five standard errors over 100,000 numbers."""
        count = len(normals)
        assert abs(normals.mean()) < 5 / math.sqrt(count)
        assert abs(normals.var() - 1) < 5 * math.sqrt(2 / count)

    def test_normal_has_the_shape_that_is_documented(self, normals: NDArray[np.float64]) -> None:
        """Bounded by 4.9, symmetric, an excess kurtosis near -0.15, and 68 % within one deviation."""
        assert np.abs(normals).max() < 4.9
        assert abs(float(np.mean(normals**3))) < 0.04
        assert float(np.mean(normals**4)) - 3 == pytest.approx(-0.15, abs=0.08)
        assert float(np.mean(np.abs(normals) < 1)) == pytest.approx(0.683, abs=0.01)


@pytest.mark.slow
class TestNoise:
    def history(self, ticks: int, tick_seconds: float = 1.0, profile: str = "60:10:0") -> np.ndarray:
        """The loads of 40 devices with that fluctuation, in percent: shape (ticks, 40)."""
        fleet = make_fleet(pool_of(devices_per_node=40), tick_seconds=tick_seconds)
        start(fleet, "all", profile)
        rows = []
        for _ in range(ticks):
            fleet.advance()
            rows.append(fleet.usage_ratio * 100)
        return np.array(rows)

    def test_it_stays_within_load_and_fluctuation(self) -> None:
        rows = self.history(2000)
        assert rows.min() >= 50
        assert rows.max() <= 70
        assert rows.min() < 51
        assert rows.max() > 69
        assert rows.mean() == pytest.approx(60, abs=0.3)

    @pytest.mark.parametrize("tick_seconds", [0.5, 1.0, 5.0])
    def test_it_forgets_within_ten_seconds(self, tick_seconds: float) -> None:
        """From one tick to the next exp(-dt / 10 s) of it is left; a little less, as it is held in bounds."""
        rows = self.history(3000, tick_seconds) - 60
        correlation = float(np.mean(rows[1:] * rows[:-1]) / np.mean(rows * rows))
        assert correlation == pytest.approx(np.exp(-tick_seconds / 10), abs=0.05)

    def test_its_strength_does_not_depend_on_the_tick(self) -> None:
        """A standard deviation of some 0.45 of the fluctuation, however many ticks a second has."""
        for tick_seconds in (0.5, 1.0, 2.0):
            assert self.history(2000, tick_seconds).std() == pytest.approx(4.5, abs=0.2)

    def test_each_device_and_each_workload_has_its_own(self) -> None:
        rows = self.history(2000) - 60
        together = np.corrcoef(rows.T) - np.eye(40)
        assert np.abs(together).max() < 0.4
        assert abs(together.mean()) < 0.02

    def test_none_where_there_is_no_fluctuation(self) -> None:
        assert (self.history(50, profile="60:0:0") == 60).all()

    def test_the_whole_load_may_fluctuate(self) -> None:
        rows = self.history(500, profile="50:50:0")
        assert rows.min() >= 0
        assert rows.max() <= 100
