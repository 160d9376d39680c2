"""Which series are one job, of what kind, and when it began and ended."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.learn.seen_jobs import job_of, kind_of, seen_jobs
from fakedev.learn.tracks import USAGE, Owner, Track, selector


def track(device: str, pod: str, begin: float, end: float) -> Track:
    """A device that a pod has from a time to a time, with a sample each minute."""
    seconds = np.arange(begin, end + 1.0, 60.0)
    return Track(("node", device), Owner("ml", pod), seconds, {USAGE: np.full(len(seconds), 0.5)})


@pytest.mark.parametrize(("pod", "job", "kind"), [
    ("train-0", "train", "train"),
    ("llama-ft-worker-12", "llama-ft", "llama-ft"),
    ("llama-ft-master-0", "llama-ft", "llama-ft"),
    ("web-7d9c6b5f4d-x2zqk", "web-7d9c6b5f4d", "web"),
    ("notebook-b9s45-9lbvr", "notebook-b9s45", "notebook"),
    ("eval-20270118-001", "eval-20270118", "eval"),
    ("server", "server", "server"),
    ("13", "13", "13"),
])  # fmt: skip
def test_names(pod: str, job: str, kind: str) -> None:
    """Ranks, roles, hashes and dates tell pods apart, and say nothing of the kind; the first word always stays."""
    assert job_of(Owner("ml", pod)) == ("ml", job)
    assert kind_of(Owner("ml", pod)) == ("ml", kind)


def test_batch_jobs_have_numbers_only() -> None:
    assert job_of(Owner(batch_job="4711")) == ("", "4711")
    assert kind_of(Owner(batch_job="4711")) == ("", "batch")


def test_pods_that_begin_together_are_one_job() -> None:
    """Of two nodes that are four minutes late; what comes back after a failure is another job."""
    tracks = [
        track("0", "train-0", 600, 1200), track("1", "train-1", 840, 1200), track("2", "train-2", 3000, 3600),
        track("3", "eval-0", 0, 300), track("4", "", 0, 3600),
    ]  # fmt: skip
    tracks[-1] = Track(tracks[-1].device, Owner(), tracks[-1].seconds, tracks[-1].numbers)
    jobs = seen_jobs(tracks, 0, 3600, 60)
    assert [(job.kind[1], job.size, job.begin_seconds, job.seconds) for job in jobs] == [
        ("eval", 1, 0, 360), ("train", 2, 600, 660), ("train", 1, 3000, 660),
    ]  # fmt: skip
    assert [(job.is_older, job.is_running) for job in jobs] == [(True, False), (False, False), (False, True)]


def test_numbers_that_are_no_ranks() -> None:
    """Ranks follow each other from 0 or 1 on; other numbers are of jobs, even when these begin together."""
    pods = ["sweep-0017", "sweep-0018", "sweep-0018", "mpi-1", "mpi-2", "mpi-7", "web-x2zqk", "web-b9s45"]
    tracks = [track(str(number), pod, 600, 1200) for number, pod in enumerate(pods)]
    jobs = [sorted(each.owner.pod for each in job.tracks) for job in seen_jobs(tracks, 0, 3600, 60)]
    assert sorted(jobs) == [
        ["mpi-1", "mpi-2"], ["mpi-7"], ["sweep-0017"], ["sweep-0018", "sweep-0018"], ["web-b9s45", "web-x2zqk"],
    ]  # fmt: skip


def test_selectors() -> None:
    assert selector(' {job="dcgm"} ', "__name__", "UTIL") == '{__name__="UTIL",job="dcgm"}'
    with pytest.raises(ValueError, match=r"--match: 'up' is not in braces"):
        selector("up", "__name__", "UTIL")
