"""Profiles have the levels, lengths and phases of the usage that they are fitted to."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.spec.device_types import DeviceType, Dynamics, Range
from fakedev.learn.seen_jobs import SeenJob
from fakedev.learn.tracks import MEMORY, POWER, USAGE, Owner, Track
from fakedev.learn.usage_fit import (
    differences,
    fitted_memory,
    fitted_profile,
    matrices,
    shapes,
    together,
)

BOARD = DeviceType("board", {POWER: Range(100.0, 500.0)}, memory_total_bytes=80e9)
STEP = 60.0


def board_of(node: str) -> DeviceType:
    return BOARD


def job(usage: Sequence[Floats], others: Mapping[str, Floats] | None = None, *, is_older: bool = False) -> SeenJob:
    """A job whose boards have some usage each."""
    times = (STEP * np.arange(len(usage[0]))).astype(np.uint32)
    tracks = tuple(
        Track(("node", str(number)), Owner("ml", "a-0"), times,
              {name: values.astype(np.float32) for name, values in {USAGE: each, **(others or {})}.items()})
        for number, each in enumerate(usage)
    )  # fmt: skip
    seconds = STEP * len(usage[0])
    return SeenJob(("ml", "a"), tracks, 0.0, seconds, is_older=is_older, is_running=False)


def test_a_profile_has_the_levels_of_the_usage() -> None:
    """Quantiles of what the profile plays are those of the usage, and a level lasts as long as it did."""
    usage = np.repeat(np.random.default_rng(1).beta(0.6, 0.5, 2000), 5)
    watts = 100 + 400 * usage * 0.8
    profile = fitted_profile([job([usage], {POWER: watts}, is_older=True)], board_of, STEP)
    played = np.concatenate([np.full(round(level.seconds), level.percent) for level in profile.levels])
    shares = np.linspace(0.1, 0.9, 9)
    assert np.abs(np.quantile(played, shares) - 100 * np.quantile(usage, shares)).mean() < 5
    assert 300 < np.mean([level.seconds for level in profile.levels]) < 900
    assert {level.intensity for level in profile.levels[1::2]} == {80}


@given(st.lists(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=12), min_size=1, max_size=4), st.booleans())
def test_any_usage_has_a_profile(usages: list[list[float]], is_older: bool) -> None:
    """Of few samples, too: its levels are percent, and their lengths are some."""
    jobs = [job([np.array(usage)], {POWER: 100 + 400 * np.array(usage)}, is_older=is_older) for usage in usages]
    if is_older:
        jobs = [replace(each, is_running=True) for each in jobs]
    levels = fitted_profile(jobs, board_of, STEP).levels
    assert levels
    assert all(0 <= level.percent <= 100 and level.seconds >= 0 for level in levels)
    assert np.isfinite([dataclasses.astuple(level) for level in levels]).all()


def test_a_steady_usage_is_one_level() -> None:
    """What it fluctuates has the deviation of the values: 0.45 of the number is one."""
    profile = fitted_profile([job([np.array([0.9, 0.92, 0.91, 0.93])])], board_of, STEP)
    assert profile.words == "91.5:2.48:0"
    # The ends of jobs, when they are nearly idle, are no fluctuation of it.
    ending = np.array([0.79, 0.8, 0.81] * 20 + [0.02] * 2)
    busy, quiet = fitted_profile([job([ending])], board_of, STEP).levels
    assert (busy.percent, quiet.percent) == pytest.approx((80, 2))
    assert busy.fluctuation < 2
    seldom = fitted_profile([job([np.array([0.79, 0.8, 0.81] * 60 + [0.02])])], board_of, STEP)
    assert [level.fluctuation < 2 for level in seldom.levels] == [True]


def test_power_fluctuates_at_the_same_usage() -> None:
    """As much as its deviation says, of each job by itself; jobs differ from each other by a factor."""
    usage, noise = np.full(500, 0.8), np.random.default_rng(1).normal(0.0, 1.0, (6, 500))
    factors = np.linspace(0.7, 1.3, 6)
    jobs = [
        job([usage], {POWER: 100 + 400 * 0.8 * factor * (0.6 + 0.06 * own)})
        for factor, own in zip(factors, noise, strict=True)
    ]  # fmt: skip
    (level,) = fitted_profile(jobs, board_of, STEP).levels
    assert level.intensity == pytest.approx(60, abs=1)
    assert level.intensity_fluctuation == pytest.approx(6 / 0.45, abs=1)
    assert differences(jobs, board_of) == pytest.approx(factors, abs=0.02)


def test_what_a_board_and_its_sensor_bring_about_is_no_fluctuation() -> None:
    """Work of an intensity that does not change draws the same, but for a share of the power at random."""
    draws, usage = np.random.default_rng(1), np.full(2000, 0.9)
    board = replace(BOARD, dynamics=Dynamics(500.0, power_noise=0.1, power_average_seconds=1.0))
    drawn = 100.0 + 400.0 * (0.06 + 0.94 * 0.9 * 0.7)
    watts = drawn * (1.0 + 0.1 * draws.uniform(-1.0, 1.0, 2000))
    (level,) = fitted_profile([job([usage], {POWER: watts})], lambda node: board, STEP).levels
    assert level.intensity == pytest.approx(70, abs=1)
    assert level.intensity_fluctuation <= 2
    (unknown,) = fitted_profile([job([usage], {POWER: watts})], board_of, STEP).levels
    assert unknown.intensity_fluctuation > 10


def test_a_level_is_that_of_samples_of_one_phase() -> None:
    """A sample on the way from one phase to the next is the mean of both."""
    turn = np.array([0.45, 0.9, 0.9, 0.9, 0.9, 0.4, 0.1, 0.1, 0.1])
    levels = fitted_profile([job([np.tile(turn, 30)], is_older=True)], board_of, STEP).levels
    assert {round(level.percent) for level in levels} == {10, 90}


def test_a_busy_board_that_draws_what_an_idle_one_draws() -> None:
    """As one that is slowed down for its heat: a configuration refuses work without any intensity."""
    usage = np.full(20, 0.9)
    profile = fitted_profile([job([usage], {POWER: np.full(20, 90.0)})], board_of, STEP)
    assert profile.intensity == "1"


def test_phases_come_in_their_order() -> None:
    """Jobs load for some minutes, once, and then work and write by turns."""
    draws = random.Random(3)
    jobs = []
    for _ in range(20):
        turns = [np.concatenate([np.full(20, 0.9), np.full(5, 0.1)]) for _ in range(draws.randrange(4, 8))]
        jobs.append(job([np.concatenate([np.full(4, 0.02), *turns])]))
    first, *levels = fitted_profile(jobs, board_of, STEP).levels
    assert (first.is_once, first.seconds) == (True, 4 * STEP)
    assert first.percent == pytest.approx(2)
    assert [round(level.percent) for level in levels] == [90, 10] * (len(levels) // 2)
    # There is no change at the end of a job.
    assert [level.seconds for level in levels[:2]] == pytest.approx([20 * STEP, 5 * STEP], rel=0.15)
    assert [level.spread for level in levels] == [1.0] * len(levels)


def test_no_loading_where_jobs_are_as_quiet_later() -> None:
    usage = np.tile(np.repeat([0.05, 0.8], 5), 6)
    jobs = [job([np.roll(usage, number)]) for number in range(20)]
    assert not any(level.is_once for level in fitted_profile(jobs, board_of, STEP).levels)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_boards_move_together(share: float) -> None:
    """As far as they have a part of their variance in common."""
    draws = np.random.default_rng(2)
    common, own = draws.normal(0, 0.1, 4000), draws.normal(0, 0.1, (4, 4000))
    usage = 0.5 + np.sqrt(share) * common + np.sqrt(1.0 - share) * own
    assert together(matrices([job([*usage])])) == pytest.approx(share, abs=0.03)


def test_what_boards_have_not_in_common_fluctuates() -> None:
    """Levels are common to the boards of a job: they keep their mean, and as much of the deviation as is common."""
    draws = np.random.default_rng(2)
    both = fitted_profile([job([*np.clip(draws.normal(0.5, 0.1, (2, 4000)), 0, 1)])], board_of, STEP)
    assert {round(level.percent, -1) for level in both.levels} == {50}
    assert both.levels[0].fluctuation == pytest.approx(10 / 0.45, rel=0.2)
    assert together(matrices([job([np.full(100, 0.5)])])) is None


def test_shapes() -> None:
    """Jobs of one name of which half do nothing are of two shapes; each has its own profile."""
    idle, busy = [job([np.full(10, 0.01)]) for _ in range(6)], [job([np.full(10, 0.9)]) for _ in range(6)]
    assert [len(each) for each in shapes([*idle, *busy])] == [6, 6]
    draws = np.random.default_rng(1)
    assert len(list(shapes([job([draws.uniform(0, 1, 50)]) for _ in range(40)]))) == 1


def test_memory() -> None:
    """Quarters of a uniform distribution between two shares."""
    jobs = [job([np.ones(1)], {MEMORY: np.array([share * 80e9])}) for share in np.linspace(0.2, 0.6, 41)]
    assert fitted_memory(jobs, board_of) == pytest.approx([0.2, 0.3, 0.4, 0.5, 0.6], abs=0.01)
