"""Fluctuation: noise with memory, one source for each device and workload."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.fleets import make_fleet, pool_of, start


@pytest.mark.slow
class TestNoise:
    """Fluctuation is noise with memory."""

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
        """Always, and it uses that room, around the load."""
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
        """No two devices of a workload move together, and no two workloads on a device."""
        rows = self.history(2000) - 60
        together = np.corrcoef(rows.T) - np.eye(40)
        assert np.abs(together).max() < 0.4
        assert abs(together.mean()) < 0.02

    def test_none_where_there_is_no_fluctuation(self) -> None:
        """A steady load is the same number in every tick."""
        assert (self.history(50, profile="60:0:0") == 60).all()

    def test_the_whole_load_may_fluctuate(self) -> None:
        """Down to 0, not below."""
        rows = self.history(500, profile="50:50:0")
        assert rows.min() >= 0
        assert rows.max() <= 100
