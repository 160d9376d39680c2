"""The jobs that were found, as a trace that `fakedev replay` reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fakedev.learn.job_trace import JobTrace
from fakedev.learn.seen_jobs import SeenJob
from fakedev.learn.tracks import MEMORY, USAGE, Owner, Track

BEGIN = 1_800_000_000
KIND = ("ml", "a")


def job(begin: int, seconds: int, *devices: tuple[str, str], is_running: bool = False) -> SeenJob:
    """A job whose boards are half used with 100 MiB, but for the first minute of the first one."""
    times = np.arange(BEGIN + begin, BEGIN + begin + seconds, 60, dtype=np.uint32)
    usage = np.full(len(times), 0.5, dtype=np.float32)
    memory = np.full(len(times), 100 * 2**20, dtype=np.float32)
    tracks = tuple(
        Track(device, Owner("ml", "a-0"), times, {USAGE: np.where((times < times[1]) & (not rank), 0.1, usage),
                                                  MEMORY: memory})
        for rank, device in enumerate(devices)
    )  # fmt: skip
    return SeenJob(KIND, tracks, BEGIN + begin, BEGIN + begin + seconds, is_older=False, is_running=is_running)


def test_the_files_of_a_trace() -> None:
    """A job on two nodes is two, and ends at last when another has its board; a value is there when it changes."""
    first = job(60, 300, ("x", "0"), ("x", "1"), ("y", "0"))
    second = job(330, 300, ("x", "1"), is_running=True)
    trace = JobTrace([first, second], {KIND: "work-1"}, {"x": ("a100", 2), "y": ("h100", 1)}, BEGIN + 0.5)
    files = {name: "".join(lines).splitlines()[1:] for name, lines in trace.files()}
    assert files["nodes.csv"] == ["x,a100,2", "y,h100,1"]
    assert files["jobs.csv"] == [
        "work-1-job-1-0,60,330,2,a100", "work-1-job-1-1,60,360,1,h100", "work-1-job-2,330,,1,a100",
    ]  # fmt: skip
    assert files["series.csv"] == [
        "60,work-1-job-1-0,30.0,100MiB", "120,work-1-job-1-0,50.0,100MiB", "60,work-1-job-1-1,50.0,100MiB",
        "330,work-1-job-2,10.0,100MiB", "390,work-1-job-2,50.0,100MiB",
    ]  # fmt: skip


def test_boards_that_show_no_usage() -> None:
    """They have a job and no series."""
    whole = job(60, 300, ("x", "0"))
    (track,) = whole.tracks
    dark = replace(whole, tracks=(replace(track, numbers={MEMORY: track.numbers[MEMORY]}),))
    trace = JobTrace([dark], {KIND: "work-1"}, {"x": ("a100", 1)}, BEGIN)
    files = {name: list(lines)[1:] for name, lines in trace.files()}
    assert files["jobs.csv"] == ["work-1-job-1,60,360,1,\n"]
    assert files["series.csv"] == []
