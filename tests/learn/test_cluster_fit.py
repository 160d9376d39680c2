"""What is fitted to jobs is what they were drawn from."""

from __future__ import annotations

import heapq
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.spec.cluster_spec import mean_length
from fakedev.fleet.spec.device_types import DeviceType, Range
from fakedev.learn.cluster_fit import (
    Fitted,
    fitted_cluster,
    fitted_lengths,
)
from fakedev.learn.seen_jobs import SeenJob
from fakedev.learn.tracks import MEMORY, POWER, USAGE, Owner, Track
from fakedev.learn.usage_fit import Window

MONDAY = 1_800_230_400.0
DAY = 86_400.0
BOARD = DeviceType("board", {POWER: Range(100.0, 500.0)}, memory_total_bytes=80e9)


def board_of(node: str) -> DeviceType:
    return BOARD


def job(begin: float, seconds: float, size: int = 1, numbers: Mapping[str, Floats] | None = None) -> SeenJob:
    """A job whose boards are half used, unless the numbers say more."""
    numbers = numbers or {USAGE: np.full(3, 0.5)}
    times = begin + 60.0 * np.arange(len(numbers[USAGE]), dtype=np.float64)
    tracks = tuple(Track(("node", str(number)), Owner("ml", "a-0"), times, numbers) for number in range(size))
    return SeenJob(("ml", "a"), tracks, begin, begin + seconds, is_older=False, is_running=False)


def fitted(jobs: list[SeenJob], days: float = 14.0, xids: int = 0, lost: Sequence[float] = ()) -> Fitted:
    """The cluster of some jobs on ten boards, from a Monday on."""
    tracks = [track for each in jobs for track in each.tracks]
    window = Window(MONDAY, MONDAY + days * DAY - 60, 60)
    return fitted_cluster(
        jobs, tracks, board_of, window, 10, lambda kind: kind, lambda track: f"node/{track.index}", xids, lost,
    )


@pytest.mark.parametrize("most", [math.inf, 3000.0, 900.0])
def test_lengths(most: float) -> None:
    """Also where a time ends up to half of the jobs before they end themselves."""
    draws = random.Random(4)
    drawn = [math.exp(draws.gauss(math.log(900), math.log(3))) for _ in range(4000)]
    found = fitted_lengths([each for each in drawn if each < most], [most for each in drawn if each >= most])
    assert found.median == pytest.approx(900, rel=0.06)
    assert found.spread == pytest.approx(3, rel=0.06)


def test_a_single_length() -> None:
    found = fitted_lengths([120.0], [])
    assert [found.median, found.longest] == pytest.approx([120, 120])
    still = fitted_lengths([], [3600.0])
    assert still.median >= 3600
    assert still.longest > 3600


@pytest.mark.slow
def test_arrivals_follow_the_hour_and_the_week() -> None:
    """As many more at three o'clock as they were, and a third on weekends."""
    draws = random.Random(2)
    jobs = []
    for day in range(14):
        for _ in range(300 if day % 7 < 5 else 100):
            while True:
                second = draws.uniform(0, DAY)
                if draws.uniform(0, 1.6) < 1 + 0.6 * math.cos(2 * math.pi * (second / DAY - 15 / 24)):
                    break
            jobs.append(job(MONDAY + DAY * day + second, 600))
    document = fitted(jobs).document
    assert document["day"] == pytest.approx(0.6, abs=0.08)
    assert document["busiest"] == pytest.approx(15, abs=0.7)
    assert document["weekend"] == pytest.approx(1 / 3, abs=0.02)


def test_jobs_that_wait_came_before() -> None:
    """Ten boards are full for a third of the day: jobs start with the ends of others then, later and more evenly."""
    draws = random.Random(3)
    numbers = {USAGE: np.full(60, 0.5)}
    free_at, jobs = [MONDAY] * 10, []
    second = MONDAY
    while second < MONDAY + 14 * DAY:
        second += draws.expovariate(1.0 / 300.0)
        if draws.uniform(0, 1.8) < 1 + 0.8 * math.cos(2 * math.pi * ((second - MONDAY) / DAY - 15 / 24)):
            begin = math.ceil(max(second, heapq.heappop(free_at)) / 60.0) * 60.0
            heapq.heappush(free_at, begin + 3600.0)
            jobs.append(job(begin, 3600.0, numbers=numbers))
    hours = [each.begin_seconds % DAY / DAY for each in jobs]
    as_they_start = 2.0 * abs(np.exp(2j * math.pi * np.array(hours)).mean())
    document = fitted(jobs).document
    assert as_they_start < 0.7
    assert document["day"] == pytest.approx(0.8, abs=0.08)
    assert document["busiest"] == pytest.approx(15, abs=0.7)


def test_what_the_data_does_not_show_is_said() -> None:
    """Half a day has no day; boards without XIDs no failures; jobs that were always there no lengths."""
    old = SeenJob(("ml", "old"), job(MONDAY, 60).tracks, MONDAY, MONDAY + DAY / 2, is_older=True, is_running=True)
    found = fitted([old, job(MONDAY + 600, 600)], 0.5)
    assert [fact in note for fact, note in zip(("old", "began", "hour", "XID"), found.notes, strict=True)] == [True] * 4
    assert (found.document["day"], found.document["weekend"]) == (0.0, 1.0)


def test_the_load_is_what_was_asked_for() -> None:
    """Ten boards, of which jobs of two have one hour each, twelve a day, have a load of a tenth."""
    jobs = [job(MONDAY + 7200 * number, 3600, size=2) for number in range(12 * 14)]
    found = fitted(jobs).document
    assert found["load"] == pytest.approx(0.1, rel=0.02)
    assert found["jobs"][0]["sizes"] == {2: 168}
    assert found["jobs"][0]["share"] == 1.0


def test_as_many_jobs_come_as_came() -> None:
    """Where most jobs still run when the time ends, their boards and their number say how long they take."""
    ended = [job(MONDAY + 600 * number, 60) for number in range(20)]
    running = [job(MONDAY + 600 * number, DAY - 600 * number) for number in range(40)]
    (kind,) = fitted([*ended, *(replace(each, is_running=True) for each in running)], 1).document["jobs"]
    length, spread, longest = (float(str(kind[name]).rstrip("s")) for name in ("lasts", "spread", "longest"))
    had = sum(each.seconds for each in (*ended, *running))
    assert mean_length(length, spread, longest) == pytest.approx(had / 60, rel=0.01)
    assert longest >= DAY


def test_what_was_there_all_the_time_is_base_work() -> None:
    """Of its boards, one workload a pod; without the numbers of its boards it is a kind of jobs."""
    numbers = {USAGE: np.full(100, 0.5), MEMORY: np.full(100, 20e9)}
    times = MONDAY + 60.0 * np.arange(100, dtype=np.float64)
    tracks = tuple(Track(("node", each), Owner("ml", f"srv-{int(each) % 2}"), times, numbers, each) for each in "0123")
    served = SeenJob(("ml", "srv"), tracks, MONDAY, MONDAY + DAY, is_older=True, is_running=True)
    found = fitted([served], 1)
    assert found.document == {}
    assert found.base == [
        {"name": "srv", "devices": [f"node/{number}", f"node/{number + 2}"], "pod": f"srv-0-{number}",
         "profile": "50:0:0", "intensity": "100", "namespace": "ml", "metrics": {"memory": "25.0%"}}
        for number in (0, 1)
    ]  # fmt: skip
    unnumbered = replace(served, tracks=tuple(replace(track, index="") for track in tracks))
    assert fitted([unnumbered], 1).document["jobs"][0]["sizes"] == {4: 1}


def test_long_jobs_are_base_work_with_a_usage_of_their_own() -> None:
    """Where no job of a kind began in the time: those that outlast it, each as it is; the others are a kind of jobs."""

    def long_job(board: str, usage: float, *, is_running: bool) -> SeenJob:
        times = MONDAY + 60.0 * np.arange(100, dtype=np.float64)
        track = Track(("node", board), Owner("ml", f"train-{board}"), times, {USAGE: np.full(100, usage)}, board)
        return SeenJob(("ml", "train"), (track,), MONDAY, MONDAY + DAY, is_older=True, is_running=is_running)

    long_jobs = [long_job("0", 0.9, is_running=True), long_job("1", 0.4, is_running=True)]
    found = fitted([*long_jobs, long_job("2", 0.6, is_running=False)], 1)
    base = [(work["devices"], work["profile"]) for work in found.base]
    assert base == [(["node/0"], "90:0:0"), (["node/1"], "40:0:0")]
    (kind,) = found.document["jobs"]
    assert (kind["sizes"], kind["profile"]) == ({1: 1}, "60:0:0")


def test_a_service_has_its_day() -> None:
    """Usage of boards that were there all the time and follow the hour; two days are needed to tell it from a trend."""
    times = MONDAY + 300.0 * np.arange(3 * 288, dtype=np.float64)
    wave = np.cos(2.0 * math.pi * (times % DAY - 14.5 * 3600.0) / DAY)
    noise = np.random.default_rng(1).normal(0.0, 0.04, (2, len(times)))

    def service(days: int) -> list[SeenJob]:
        return [
            SeenJob(("ml", "srv"), (Track(("node", str(board)), Owner("ml", f"srv-{board}"), times[: 288 * days],
                                          {USAGE: (0.5 + 0.2 * wave + noise[board])[: 288 * days]}, str(board)),),
                    MONDAY, MONDAY + days * DAY, is_older=True, is_running=True)
            for board in (0, 1)
        ]  # fmt: skip

    one, other = fitted(service(3), 3).base
    assert one["profile"] == other["profile"]
    numbers = re.fullmatch(r"daily\((.*),(.*),(.*)h\):(.*):0", one["profile"])
    assert numbers is not None
    # The wave has 0.4 of the span of daily(); the noise of 4 % is that of a fluctuation of 8.9.
    assert [float(number) for number in numbers.groups()] == pytest.approx([25, 75, 14.5, 8.9], abs=0.6)
    assert "daily" not in fitted(service(1), 1).base[0]["profile"]


def test_failures() -> None:
    """Two boards worked for 100 hours, and there were two XIDs; of 419 failures of a cluster 262 have one."""
    jobs = [job(MONDAY + 60, 360_000), job(MONDAY + 60, 360_000)]
    found = fitted(jobs, xids=2, lost=[600, 1200, 3600]).document
    assert (found["failure-hours"], found["repair"]) == (round(100 * 262 / 419), "1200s")


def test_the_smallest_of_many_kinds_are_one() -> None:
    jobs = []
    for number in range(20):
        small = job(MONDAY + 60, 600 + number)
        jobs.append(SeenJob(("ml", f"kind{number}"), small.tracks, 60, 660 + number, is_older=False, is_running=False))
    names = [each["name"] for each in fitted(jobs).document["jobs"]]
    assert (len(names), names[0], names[-1]) == (12, "kind19", "other")
    names = [each["name"] for each in fitted([*jobs[:3], job(MONDAY + 60, 100_000)]).document["jobs"]]
    assert names == ["a", "other"]


def test_boards_without_owners() -> None:
    """Each has its own usage all the time, from another level on; its memory; and a note."""
    usage = np.repeat([0.1, 0.5, 0.9, 0.3, 0.7, 0.2, 0.6, 0.8], 20)
    numbers = {USAGE: usage, MEMORY: np.full(160, 20e9)}
    times = MONDAY + 60.0 * np.arange(160, dtype=np.float64)
    tracks = [Track(("node", each), Owner(), times, numbers, each) for each in "01"]
    window = Window(MONDAY, MONDAY + 9600, 60)
    found = fitted_cluster([], tracks, board_of, window, 2, lambda kind: kind, lambda track: f"node/{track.index}")
    assert found.document == {}
    assert [(work["name"], work["devices"]) for work in found.base] == [("node-0", "node/0"), ("node-1", "node/1")]
    first, second = (work["profile"].split(",") for work in found.base)
    levels = [[float(number) for number in level.split(":")[:3]] for level in first]
    assert np.average([each[0] for each in levels], weights=[each[2] for each in levels]) == pytest.approx(51, abs=1)
    assert min(levels)[0] == 10
    assert second == [*first[1:], first[0]]
    assert found.base[0]["metrics"] == {"memory": "25.0%"}
    note = "no series names an owner of boards: there are no jobs, and each board has its usage all the time"
    assert found.notes == (note,)
    # Other nodes may name owners: there are jobs on those, and these boards keep their usage.
    named = job(MONDAY + 600, 1200)
    idle = Track(("bare", "2"), Owner(), times, {USAGE: np.zeros(160)}, "2")
    bare = [*(Track(("bare", track.index), Owner(), times, numbers, track.index) for track in tracks), idle]
    both = fitted_cluster([named], [*named.tracks, *bare], board_of, window, 5, lambda kind: kind,
                          lambda track: f"{track.device[0]}/{track.index}")  # fmt: skip
    assert [work["devices"] for work in both.base] == ["bare/0", "bare/1"]
    assert [kind["name"] for kind in both.document["jobs"]] == ["a"]
    assert fitted([]).notes == ("no series shows usage of boards: no work is learnt",)
